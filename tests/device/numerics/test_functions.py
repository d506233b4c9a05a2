"""Mathematical functions on the device: the interpreter's bits in "ieee", the stated bounds everywhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.cost import cost
from vyre_cuda.functions import table
from vyre_cuda.functions.forms import Form
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS
from vyre_cuda.ir.core.types import Type, bf16, f16, f32, f64
from vyre_cuda.ir.semantics.steps import ArraySteps
from vyre_cuda.testing.accuracy import Array, errors, exact
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.conformance import Count

from .op_programs import operands, program

CASES = [(name, type_) for name in FUNCTIONS for type_ in OPS[name].types]
# (function, form) of f32 besides the first: those that rest on approximate instructions, and exact steps, too.
_OTHERS = [(name, form) for name in FUNCTIONS for form in table.forms(name, "f32")[1:]]
SHORT = [(name, form) for name, form in _OTHERS if form.name == "short steps"]
APPROXIMATE = [each for each in _OTHERS if each not in SHORT]
SMALLEST_NORMAL = np.float32(2.0**-126)


def use(name: str, type_: Type) -> vc.Program:
    return program(OPS[name], type_, type_)


def hard(type_: Type, count: int, *, seed: int) -> Array:
    """Multiples of pi/2, neighbors of 1 and of where exponentials end, values of like exponents, any bits; shuffled."""
    rng = np.random.default_rng(seed)
    part = count // 5
    quarter_turns = rng.integers(-(1 << 30), 1 << 30, part) * np.pi / 2
    near_one = 1 + rng.normal(size=part) * 2.0 ** rng.uniform(-24, 0, part)
    ends = rng.choice([88.72, 89.42, -87.34, -103.97, 709.78, -745.13, 128.0, -149.0], part)
    ends = ends * (1 + rng.normal(size=part) * 1e-3)
    plain = rng.normal(size=part) * 2.0 ** rng.integers(-6, 6, part)
    bits = rng.integers(0, 2**type_.bits - 1, count - 4 * part, np.uint64, endpoint=True)
    values = np.concatenate([quarter_turns, near_one, ends, plain])
    with np.errstate(over="ignore"):
        known = values.astype(np.float32).astype(type_.dtype) if type_ is bf16 else values.astype(type_.dtype)
    column = np.concatenate([known, bits.astype(type_.unsigned).view(type_.dtype)])
    return np.asarray(column[rng.permutation(column.size)])


def columns(name: str, type_: Type, count: int) -> list[Array]:
    return [hard(type_, count, seed=OPS[name].code + number) for number in range(FUNCTIONS[name].arity)]


@pytest.mark.thin(25)
@pytest.mark.slow
@pytest.mark.conformance
@pytest.mark.parametrize(("name", "type_"), CASES, ids=str)
def test_function_has_the_interpreters_bits(device: vc.Device, name: str, type_: Type, count_device: Count) -> None:
    inputs = columns(name, type_, 1 << 15)

    assert_same(vc.evaluate(use(name, type_), *inputs), device.run(use(name, type_), *inputs))
    count_device("ops", name, type_.name, inputs[0].size)


@pytest.mark.long
@pytest.mark.conformance
@pytest.mark.parametrize(("name", "type_"), CASES, ids=str)
def test_function_has_the_interpreters_bits_on_a_million(
    device: vc.Device, name: str, type_: Type, count_device: Count
) -> None:
    inputs = columns(name, type_, 1 << 20)

    assert_same(vc.evaluate(use(name, type_), *inputs), device.run(use(name, type_), *inputs))
    count_device("ops", name, type_.name, inputs[0].size)


# ---- bounds of approximate forms ------------------------------------------------------------------------------------


def flushed(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def assert_within(name: str, form: Form, inputs: list[Array], found: Array) -> None:
    """Within the bound of a form; for one that flushes all subnormal results are as good as zero."""
    given = [flushed(x) for x in inputs] if form.flushes else inputs
    expected = exact(name, f32, given)
    off = errors(f32, expected, found)
    if form.flushes:
        tiny = np.abs(expected) <= SMALLEST_NORMAL
        off = np.where(tiny & (np.abs(found) <= SMALLEST_NORMAL), 0, off)
    worst = int(off.argmax())
    assert off[worst] <= form.ulp, ([x[worst] for x in inputs], expected[worst], found[worst], off[worst])


@pytest.mark.parametrize(("name", "form"), APPROXIMATE, ids=lambda case: getattr(case, "name", str(case)))
def test_approximate_form_is_within_its_bound(device: vc.Device, name: str, form: Form) -> None:
    inputs = [
        np.concatenate([h, e]) for h, e in zip(columns(name, f32, 1 << 14), operands(OPS[name], f32), strict=True)
    ]
    kernel = device.compile(use(name, f32), precision="fast" if form.flushes else "ieee", max_ulp=form.ulp)

    assert all(word in kernel.ptx for word in form.name.split(", "))
    assert_within(name, form, inputs, np.asarray(kernel(*inputs)))


@pytest.mark.parametrize("name", sorted({name for name, _ in APPROXIMATE}))
def test_fast_takes_the_cheapest_form_that_it_allows(device: vc.Device, name: str) -> None:
    allowed = [form for case, form in APPROXIMATE if case == name and form.ulp <= table.FAST_ULP]

    kernel = device.compile(use(name, f32), precision="fast")

    assert allowed[0].name.split(", ")[0] in kernel.ptx


# ---- shorter forms of exact steps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["ieee", "ftz", "fast"])
@pytest.mark.parametrize(("name", "form"), SHORT, ids=lambda case: getattr(case, "name", str(case)))
def test_short_form_has_the_same_bits_everywhere(device: vc.Device, name: str, form: Form, precision: str) -> None:
    inputs = np.concatenate([hard(f32, 1 << 14, seed=OPS[name].code), operands(OPS[name], f32)[0]])
    with np.errstate(all="ignore"):
        given = inputs if precision == "ieee" else flushed(inputs)
        made = form.expand(ArraySteps(), given)
        expected = made if precision == "ieee" else flushed(made)

    kernel = device.compile(use(name, f32), precision=precision, max_ulp=form.ulp)

    assert "approx" not in kernel.ptx
    assert_same(expected, np.asarray(kernel(inputs)))


@pytest.mark.parametrize("name", sorted({name for name, _ in SHORT}))
def test_short_form_is_taken_where_its_bound_is_enough_and_takes_fewer_instructions(name: str) -> None:
    exact_, short = table.exact_form(name, "f32"), dict(SHORT)[name]

    for precision in ("ieee", "ftz", "fast"):
        for max_ulp in (short.ulp, short.ulp + 1):
            assert table.choose(name, "f32", precision=precision, max_ulp=max_ulp, sm=90) is short
        below = table.choose(name, "f32", precision=precision, max_ulp=short.ulp - 0.1, sm=90)
        assert below is exact_
    assert cost(name, f32, short).usual < cost(name, f32, exact_).usual


# ---- max_ulp --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "precision", "max_ulp", "instruction"),
    [
        ("exp2", "ieee", 2.5, "ex2.approx.f32"),
        ("exp2", "ftz", 2.5, "ex2.approx.ftz.f32"),
        ("exp2", "fast", 1.5, "fma.rn.f32"),
        ("tanh", "ieee", 8192, "tanh.approx.f32"),
        ("divide", "ieee", 2, "div.full.f32"),
        ("divide", "ieee", 1.9, "div.rn.f32"),
        ("divide", "ftz", 2, "div.full.ftz.f32"),
        ("divide", "fast", 1, "div.rn.ftz.f32"),
        ("sqrt", "ieee", 2.5, "sqrt.approx.f32"),
        ("reciprocal", "ieee", 1, "rcp.approx.f32"),
        ("reciprocal", "ieee", 0.5, "rcp.rn.f32"),
    ],
)
def test_max_ulp_picks_the_cheapest_form_that_fits(name: str, precision: str, max_ulp: float, instruction: str) -> None:
    assert instruction in vc.ptx(use(name, f32), precision=precision, max_ulp=max_ulp)


@pytest.mark.parametrize("name", ["divide", "reciprocal", "sqrt"])
def test_arithmetic_within_max_ulp_is_within_it_for_subnormals_too(device: vc.Device, name: str) -> None:
    inputs = operands(OPS[name], f32)
    expected = np.asarray(vc.evaluate(use(name, f32), *inputs)).astype(np.longdouble)

    found = np.asarray(device.compile(use(name, f32), max_ulp=2)(*inputs))

    assert errors(f32, expected, found).max() <= 2.5  # the expected one is rounded itself


@pytest.mark.parametrize(("type_", "bound"), [(f32, 1), (f16, table.HALF_ULP), (bf16, table.HALF_ULP)], ids=str)
def test_a_bound_below_that_of_every_form_is_refused(device: vc.Device, type_: Type, bound: float) -> None:
    device.compile(use("exp", type_), max_ulp=bound)
    with pytest.raises(vc.UnsupportedError, match=re.escape(f"exp of {type_.name}")) as caught:
        device.compile(use("exp", type_), max_ulp=0.5)
    assert caught.value.capability == "max_ulp"


@pytest.mark.parametrize("max_ulp", [0.4, 0, -1, float("nan")])
def test_a_bound_below_one_rounding_is_no_bound(device: vc.Device, max_ulp: float) -> None:
    with pytest.raises(ValueError, match="max_ulp"):
        device.compile(use("exp", f32), max_ulp=max_ulp)


def test_kernels_of_different_bounds_are_different(device: vc.Device) -> None:
    loose, exact_ = device.compile(use("exp2", f32), max_ulp=2.5), device.compile(use("exp2", f32))

    assert loose is not exact_
    assert device.compile(use("exp2", f32), max_ulp=2.5) is loose


# ---- slow paths -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("type_", [t for t in (f32, f64) if t in OPS["sin"].types], ids=str)
def test_huge_and_small_arguments_side_by_side_in_a_warp(device: vc.Device, name: str, type_: Type) -> None:
    """Some threads of a warp take the long reduction, others do not, and both meet again."""
    x = np.arange(1, 1025).astype(type_.dtype)
    x[::3] *= type_.dtype.type(1e30)
    x[5::7] = np.inf

    assert_same(vc.evaluate(use(name, type_), x), device.run(use(name, type_), x))


def test_a_function_asked_twice_is_computed_once() -> None:
    b = vc.Builder("twice", block=32)
    x = b.input("x", f32)
    out = b.output("out", f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        v = b.let("v", x[i])
        out[i] = vc.sin(v) + vc.sin(v)

    assert vc.ptx(b.build()).count("bra") == vc.ptx(use("sin", f32)).count("bra")


def test_functions_of_constants_are_computed_when_compiled(device: vc.Device) -> None:
    b = vc.Builder("constants", block=32)
    out = b.output("out", f32, size=2)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = vc.where(i == 0, vc.sin(f32(1e30)), vc.power(f32(2), 0.5))
    kernel = device.compile(b.build())

    assert "fma" not in kernel.ptx
    assert_same(np.array([np.sin(np.float64(np.float32(1e30))), 2**0.5], np.float32), kernel())
