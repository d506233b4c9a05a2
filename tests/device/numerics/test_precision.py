"""The precisions "ftz" and "fast" against an oracle made of the interpreter, which knows only "ieee".

In "ftz" an op of f32 is the exact op between two flushes. In "fast" a product and a sum give what one or two roundings
give, and the ops of FAST_ULP are within their bounds; so are the functions that `test_functions` looks at. Nothing
else differs from "ieee".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.forms.precision import FAST_ULP
from vyre_cuda.functions import table
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS, Op
from vyre_cuda.ir.core.types import FLOATS, Type, bf16, bool_, f16, f32, f64
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.edges import EDGES, from_bits

from .op_programs import cases, operands, program

Array = np.ndarray[Any, np.dtype[Any]]

# Ops of f32 that move bits or look at them: subnormals stay.
KEEPING = ("where", "bitcast", "copysign", "sign", "signbit", "nextafter", "isnan", "isinf", "isfinite")
FLOAT_CASES = [case for case in cases() if f32 in case[1:] or case[1].is_float or case[2].is_float]
APPROXIMATE = {(name, f32) for name in (*FAST_ULP, *(n for n in FUNCTIONS if len(table.forms(n, "f32")) > 1))}
SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def flushed(x: Array) -> Array:
    """Subnormal f32 as zeros of their sign; other types as they are."""
    if x.dtype != np.float32:
        return x
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def flushes(op: Op, source: Type, target: Type) -> bool:
    """Whether "ftz" changes the op. Conversions from and to halves are exact to the bit in every precision."""
    if op.name == "cast":
        return f32 in (source, target) and source is not target and not {source, target} & {f16, bf16}
    return source is f32 and op.name not in KEEPING


def expected_in_ftz(op: Op, source: Type, target: Type, inputs: list[Array]) -> Array:
    use = program(op, source, target)
    if not flushes(op, source, target):
        return np.asarray(vc.evaluate(use, *inputs))
    given = [flushed(x) for x in inputs]
    return without_rounded_up(op.name, given, flushed(np.asarray(vc.evaluate(use, *given))))


# What an op gives exactly, from fractions.
EXACT: dict[str, Callable[..., Fraction]] = {
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "reciprocal": lambda x: 1 / x,
    "fma": lambda x, y, z: x * y + z,
    "cast": lambda x: x,
}
# Below this, rounding to 24 bits does not reach the smallest normal number.
ROUNDS_UP = Fraction(2) ** -126 - Fraction(2) ** -151


def without_rounded_up(name: str, given: list[Array], result: Array) -> Array:
    """A result is subnormal when it is so after rounding to 24 bits, not after rounding to a multiple of 2^-149."""
    if name not in EXACT or result.dtype != np.float32:
        return result
    result = result.copy()
    for place in np.flatnonzero(np.abs(result) == SMALLEST_NORMAL):
        exact = EXACT[name](*(Fraction(float(x[place])) for x in given))
        if abs(exact) < ROUNDS_UP:
            result[place] = np.copysign(np.float32(0), result[place])
    return result


@pytest.mark.thin
@pytest.mark.parametrize(("op", "source", "target"), FLOAT_CASES, ids=lambda case: getattr(case, "name", str(case)))
def test_ftz_is_the_exact_op_between_two_flushes(device: vc.Device, op: Op, source: Type, target: Type) -> None:
    inputs = operands(op, source)

    found = device.compile(program(op, source, target), precision="ftz")(*inputs)

    assert_same(expected_in_ftz(op, source, target, inputs), found)


@pytest.mark.thin(33)
@pytest.mark.parametrize(
    ("op", "source", "target"),
    [case for case in FLOAT_CASES if (case[0].name, case[1]) not in APPROXIMATE],
    ids=lambda case: getattr(case, "name", str(case)),
)
def test_fast_is_ftz_for_one_op_that_is_not_approximate(device: vc.Device, op: Op, source: Type, target: Type) -> None:
    inputs = operands(op, source)

    found = device.compile(program(op, source, target), precision="fast")(*inputs)

    assert_same(expected_in_ftz(op, source, target, inputs), found)


@pytest.mark.parametrize("name", ["multiply", "divide", "reciprocal", "fma", "cast"])
def test_results_next_to_the_smallest_normal_number_are_flushed_after_rounding(device: vc.Device, name: str) -> None:
    rng = np.random.default_rng(29)
    count = 20_000
    scale = 2.0**-126
    near = (1 - rng.integers(-8, 64, count) * 2.0**-25) * scale  # doubles
    y = rng.uniform(1, 2, count).astype(np.float32)
    x = (near / y * 2.0**10).astype(np.float32)
    small = (y * np.float32(2.0**-10)).astype(np.float32)
    wanted = {
        "multiply": [x, small],
        "divide": [(near * y * 2.0**20).astype(np.float32), y * np.float32(2.0**20)],
        "reciprocal": [(1 / near).astype(np.float32)],
        "fma": [((near + scale) / y * 2.0**10).astype(np.float32), small, np.full(count, -scale, np.float32)],
        "cast": [near],
    }
    inputs = wanted[name]
    source = f64 if name == "cast" else f32
    expected = expected_in_ftz(OPS[name], source, f32, inputs)

    found = device.compile(program(OPS[name], source, f32), precision="ftz")(*inputs)

    assert (expected == 0).any()
    assert_same(expected, found)


# ---- approximate ops ------------------------------------------------------------------------------------------------


def steps_between(x: Array, y: Array) -> Array:
    """Steps from f32 to f32 where zero is next to the smallest normal number and infinity to the largest."""

    def ordinal(value: Array) -> Array:
        bits = value.view(np.int32).astype(np.int64)
        magnitude = np.maximum((bits & 0x7FFFFFFF) - (0x00800000 - 1), 0)
        return np.where(bits < 0, -magnitude, magnitude)

    both = np.isnan(x) & np.isnan(y)
    return np.where(both, 0, np.where(np.isnan(x) != np.isnan(y), 1 << 40, np.abs(ordinal(x) - ordinal(y))))


def random_operands(count: int, size: int, *, seed: int) -> list[Array]:
    """f32 of like exponents, then of all exponents."""
    rng = np.random.default_rng(seed)
    near = [np.ldexp(rng.uniform(1, 2, size), rng.integers(-3, 4, size)) for _ in range(count)]
    bits = [rng.integers(0, 2**32, size, dtype=np.uint32).view(np.float32) for _ in range(count)]
    return [np.concatenate([n.astype(np.float32), b]) for n, b in zip(near, bits, strict=True)]


@pytest.mark.parametrize(("name", "bound"), FAST_ULP.items(), ids=str)
def test_an_approximate_op_is_within_its_bound(device: vc.Device, name: str, bound: int) -> None:
    op = OPS[name]
    edges = [np.asarray(x) for x in operands(op, f32)]
    random = random_operands(op.arity, 200_000, seed=op.code)
    inputs = [np.concatenate([e, r]) for e, r in zip(edges, random, strict=True)]
    expected = expected_in_ftz(op, f32, f32, inputs)

    found = np.asarray(device.compile(program(op, f32, f32), precision="fast")(*inputs))

    steps = steps_between(expected, found)
    worst = int(steps.argmax())
    assert steps[worst] <= bound, ([x[worst] for x in inputs], expected[worst], found[worst])
    special = (expected == 0) | np.isinf(expected)
    assert_same(np.signbit(expected[special]), np.signbit(found[special]))


# ---- contraction ----------------------------------------------------------------------------------------------------

CONTRACTED = {
    "x * y + z": lambda x, y, z: (x * y + z, vc.fma(x, y, z)),
    "z + x * y": lambda x, y, z: (z + x * y, vc.fma(x, y, z)),
    "x * y - z": lambda x, y, z: (x * y - z, vc.fma(x, y, -z)),
    "z - x * y": lambda x, y, z: (z - x * y, vc.fma(-x, y, z)),
}


def three_operands(form: str, type_: Type, part: int) -> vc.Program:
    """out = the form of x, y and z: as written (part 0) or as one fma (part 1)."""
    b = vc.Builder("contracted", block=128)
    inputs = [b.input(name, type_) for name in "xyz"]
    out = b.output("out", type_, size=inputs[0].size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = CONTRACTED[form](*(b.let(n, x[i]) for n, x in zip("xyz", inputs, strict=True)))[part]
    return b.build()


def triples(type_: Type) -> list[Array]:
    """Edge values in combination; sums in which most of the product cancels; random values."""
    edges = [
        from_bits(type_, list(column)) for column in zip(*itertools.product(EDGES[type_][:20], repeat=3), strict=True)
    ]
    rng = np.random.default_rng(17)
    x, y = (rng.uniform(0.5, 2, 5000).astype(np.float32).astype(type_.dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        z = np.where(rng.integers(0, 2, 5000) == 1, -(x * y), rng.uniform(-2, 2, 5000).astype(type_.dtype))
    return [np.concatenate([e, r.astype(type_.dtype)]) for e, r in zip(edges, (x, y, z), strict=True)]


@pytest.mark.thin(5)
@pytest.mark.parametrize("type_", FLOATS, ids=str)
@pytest.mark.parametrize("form", CONTRACTED)
@pytest.mark.parametrize("precision", ["ieee", "ftz", "fast"])
def test_a_product_and_a_sum_are_contracted_in_fast_alone(
    device: vc.Device, precision: str, form: str, type_: Type
) -> None:
    inputs = triples(type_)
    flush = type_ is f32 and precision != "ieee"
    given = [flushed(x) for x in inputs] if flush else inputs
    product_first = np.asarray(vc.evaluate(three_operands(form, type_, 0), *given))
    at_once = np.asarray(vc.evaluate(three_operands(form, type_, 1), *given))
    if flush:
        product_first, at_once = two_roundings(form, given), flushed(at_once)

    found = np.asarray(device.compile(three_operands(form, type_, 0), precision=precision)(*inputs))

    if precision == "fast" and type_ in (f32, f64):
        either = np.where(same(found, at_once), at_once, product_first)
        assert_same(either, found)
    else:
        assert_same(product_first, found)


def two_roundings(form: str, given: list[Array]) -> Array:
    """The form of f32 with the product flushed, too."""
    x, y, z = given
    with np.errstate(all="ignore"):
        product = flushed(x * y)
        sums = {"x * y + z": product + z, "z + x * y": z + product, "x * y - z": product - z, "z - x * y": z - product}
    return flushed(sums[form])


def same(x: Array, y: Array) -> Array:
    unsigned = f"u{x.dtype.itemsize}"
    with np.errstate(invalid="ignore"):
        equal: Array = (x.view(unsigned) == y.view(unsigned)) | (np.isnan(x) & np.isnan(y))
    return equal


@pytest.mark.parametrize("precision", ["ieee", "ftz"])
def test_a_rounded_product_is_seen_where_precision_is_not_fast(device: vc.Device, precision: str) -> None:
    """x * x - round(x * x) is zero unless it is contracted."""
    x = np.random.default_rng(3).uniform(1, 2, 1000).astype(np.float32)
    kernel = device.compile(three_operands("x * y - z", f32, 0), precision=precision)

    np.testing.assert_array_equal(np.zeros_like(x), kernel(x, x, x * x))


# ---- halves and f64 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["ftz", "fast"])
def test_bf16_keeps_subnormals_that_are_subnormal_f32_too(device: vc.Device, precision: str) -> None:
    """Truth, comparison and arithmetic of the smallest bf16, whose register form a flush would take to zero."""
    b = vc.Builder("tiny", block=32)
    x = b.input("x", bf16)
    outs = [b.output(name, bool_, size=x.size) for name in ("truth", "positive")]
    total = b.output("total", bf16, size=x.size)
    back = b.output("back", bf16, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        outs[0][i] = vc.bool_(x[i])
        outs[1][i] = x[i] > 0
        total[i] = x[i] + x[i]
        back[i] = bf16(vc.f32(x[i]))
    program_ = b.build()
    tiny = from_bits(bf16, [1, 2, 0x7F, 0x80, 0x8001, 0])

    found = device.compile(program_, precision=precision)(tiny)

    assert_same(vc.evaluate(program_, tiny), found)


def test_a_constant_is_flushed_after_rounding_to_24_bits(device: vc.Device) -> None:
    least = 2.0**-126
    b = vc.Builder("flushed", block=1)
    out = b.output("out", vc.f32, size=3)
    for place, number in enumerate((least - 2.0**-150, -least + 2.0**-150, least)):
        out[place] = vc.f32(vc.f64(number))
    b.work(1)
    wanted = np.array([0.0, -0.0, least], np.float32)

    found = device.compile(b.build(), precision="ftz")()

    assert found.tobytes() == wanted.tobytes()


def test_a_constant_beyond_the_largest_f32_is_infinite(device: vc.Device) -> None:
    tie = 2.0**128 - 2.0**103
    numbers = (1e300, -1e300, tie, np.nextafter(-tie, 0.0), math.inf)
    b = vc.Builder("beyond", block=1)
    out = b.output("out", vc.f32, size=2 * len(numbers))
    always = vc.i64(vc.block_id.z) != -2
    for place, number in enumerate(numbers):
        out[2 * place] = vc.f32(vc.f64(number))
        out[2 * place + 1] = vc.f32(vc.where(always, vc.f64(number), vc.f64(1.0)))
    b.work(1)
    with np.errstate(over="ignore"):
        wanted = np.repeat(np.array(numbers).astype(np.float32), 2)

    found = device.compile(b.build(), precision="ftz")()

    assert found.tobytes() == wanted.tobytes()
