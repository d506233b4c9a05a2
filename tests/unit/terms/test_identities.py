"""Constants and identities: what becomes what, and that every identity holds on the edges of every type."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Apply, Const, Id, Load, Parameter, Store
from vyre_cuda.ir.core.ops import OPS, Op
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import FLOATS, INTEGERS, TYPES, Type, bf16, bool_, f32, f64, u32
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.edges import EDGES, from_bits

from .simplified import in_words, simplified

HEADER = """\
program k
block 64 2
index u32
in x: f32
inout h: u32
scalar a: u32
scalar s: i32
scalar b: bool_
scalar c: bool_
scalar f: f32
scalar d: f64
scalar w: u8
scalar e: f16
shared tile: u32[40]

"""
# Ops, each with a type of its operands and one of its results.
ROWS = [
    (op, operand, result)
    for op in OPS.values()
    for operand in op.types
    for result in {"same": (operand,), "bool": (bool_,), "explicit": op.types}[op.result]
    if op.name != "bitcast" or operand.bits == result.bits
]


def row_id(value: Any) -> str:
    return value.name if isinstance(value, (Op, Type)) else ""


def folded(expression: str, **options: Any) -> str:
    """The cheapest form of an expression."""
    return in_words(HEADER, expression, **options)


# ---- examples -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("add(u32:3, u32:4294967295)", "u32:2"),
        ("floor_divide(i32:-7, i32:0)", "i32:0"),
        ("divide(f32:1.0, f32:-0.0)", "f32:-inf"),
        ("sqrt(f32:-1.0)", "f32:nan"),
        ("add(bf16:1.0, bf16:0.5)", "bf16:1.5"),
        ("cast.u8(i32:300)", "u8:44"),
        ("bitcast.u32(f32:bits(0x7fc00001))", "u32:2143289345"),
        ("bitcast.f32(u32:2143289345)", "f32:bits(0x7fc00001)"),
        ("where(bool_:false, add(u32:1, u32:2), multiply(u32:3, a))", "multiply(a, u32:3)"),
        ("multiply(add(u32:2, u32:3), a)", "multiply(a, u32:5)"),
        ("add(a, u32:0)", "a"),
        ("add(u32:0, a)", "a"),
        ("subtract(u32:0, a)", "subtract(u32:0, a)"),
        ("add(invert(a), u32:1)", "multiply(a, u32:4294967295)"),
        ("subtract(a, a)", "u32:0"),
        ("bitwise_and(a, u32:4294967295)", "a"),
        ("multiply(u32:0, a)", "u32:0"),
        ("less(a, u32:0)", "bool_:false"),
        ("greater_equal(u32:4294967295, a)", "bool_:true"),
        ("less_equal(s, i32:2147483647)", "bool_:true"),
        ("remainder(s, i32:1)", "i32:0"),
        ("logical_and(bool_:true, b)", "b"),
        ("logical_xor(b, bool_:true)", "logical_not(b)"),
        ("equal(b, bool_:false)", "logical_not(b)"),
        ("logical_not(logical_not(b))", "b"),
        ("logical_not(less(a, u32:4))", "logical_not(less(a, u32:4))"),
        ("logical_not(less(f, f32:4.0))", "logical_not(less(f, f32:4.0))"),
        ("logical_not(equal(f, f32:4.0))", "not_equal(f, f32:4.0)"),
        ("where(b, a, a)", "a"),
        ("where(b, bool_:true, bool_:false)", "b"),
        ("where(logical_not(b), a, u32:1)", "where(b, u32:1, a)"),
        ("add(f, f32:-0.0)", "f"),
        ("add(f, f32:0.0)", "add(f, f32:0.0)"),
        ("subtract(f, f32:0.0)", "f"),
        ("multiply(f32:1.0, f)", "f"),
        ("multiply(f, f32:0.0)", "multiply(f, f32:0.0)"),
        ("subtract(f, f)", "subtract(f, f)"),
        ("equal(f, f)", "equal(f, f)"),
        ("cast.u32(a)", "a"),
        ("cast.u8(cast.u32(w))", "w"),
        ("cast.f32(cast.u32(w))", "cast.f32(w)"),
        ("cast.u8(cast.u16(s))", "cast.u8(s)"),
        ("cast.i32(cast.u8(s))", "cast.i32(cast.u8(s))"),
        ("cast.f32(cast.f64(f))", "f"),
        ("cast.f32(cast.f16(f))", "cast.f32(cast.f16(f))"),
        ("cast.u8(cast.f32(s))", "cast.u8(cast.f32(s))"),
        ("bitcast.u32(bitcast.f32(a))", "a"),
    ],
)
def test_expression_becomes_the_simplest_with_its_value(expression: str, expected: str) -> None:
    assert folded(expression) == expected


@pytest.mark.parametrize(
    "expression",
    ["add(f, f32:-0.0)", "multiply(f32:1e-12, f32:1e-30)", "add(f32:1.0, f32:1e-40)", "cast.f32(cast.f64(f))"],
)
def test_what_flushing_subnormals_could_change_is_not_computed(expression: str) -> None:
    assert folded(expression) != expression
    assert folded(expression, precision="ftz") == expression


def test_precision_of_f32_leaves_other_types_alone() -> None:
    assert folded("add(d, f64:-0.0)", precision="ftz") == "d"
    assert folded("multiply(e, f16:1.0)", precision="fast") == "e"


# ---- on the edges of every type --------------------------------------------------------------------------------------


def with_many(applied: list[Apply], size: int, inputs: dict[str, Type]) -> vc.Program:
    """A program with one out per expression, each over element i of the inputs."""
    types = dict.fromkeys(expr.type for expr in applied)
    parameters = [Parameter(name, "in", type_) for name, type_ in inputs.items()]
    # One out per type holds a row per expression: parameters are limited.
    rows = {type_: [expr for expr in applied if expr.type is type_] for type_ in types}
    body = []
    i = Id(u32, "global_id", 0)
    for type_, exprs in rows.items():
        parameters.append(Parameter(f"out_{type_}", "out", type_, Const(u32, size * len(exprs))))
        for row, expr in enumerate(exprs):
            index = Apply(u32, "add", (Const(u32, row * size), i))
            body.append(Store(f"out_{type_}", index, expr))
    return vc.Program("many", tuple(parameters), tuple(body), (size, 1, 1), work=(Const(u32, size),))


def assert_folds_to_the_same(applied: list[Apply], inputs: dict[str, tuple[Type, list[int]]]) -> None:
    size = len(next(iter(inputs.values()))[1])
    program = with_many(applied, size, {name: type_ for name, (type_, _) in inputs.items()})
    arguments = [from_bits(type_, patterns) for type_, patterns in inputs.values()]

    assert_same(vc.evaluate(program, *arguments), vc.evaluate(simplified(program), *arguments))


def specials(type_: Type) -> list[int]:
    """Constants that identities look for, and a few that they must not take for them."""
    if type_ is bool_:
        return [0, 1]
    if type_.is_float:
        values = (0.0, -0.0, 1.0, -1.0, 2.0, float("inf"), float("-inf"), float("nan"))
        return [bits_of(type_, value) for value in values]
    ones = (1 << type_.bits) - 1
    return [0, 1, 2, ones, ones >> 1, (ones >> 1) + 1, type_.bits]


def element(name: str, type_: Type) -> Load:
    return Load(type_, name, Id(u32, "global_id", 0))


def finite_or_zero(type_: Type, x: Load) -> Apply:
    """The element, 0 in place of NaN, whose sign is unspecified."""
    return Apply(type_, "where", (Apply(bool_, "isnan", (x,)), Const(type_, 0), x))


SHOWS_NAN = ("bitcast", "copysign", "signbit")


@pytest.mark.thin(28)
@pytest.mark.parametrize("op, operand, result", ROWS, ids=row_id)
def test_ops_on_constants_give_what_the_op_gives(op: Op, operand: Type, result: Type) -> None:
    nan = {bits_of(operand, float("nan"))} if operand in FLOATS else set()
    edges = [bits for bits in EDGES[operand] if op.name not in SHOWS_NAN or bits not in nan][:16]
    columns = [[0, 1], edges, edges] if op.leading_bool else [edges[: 16 if op.arity < 3 else 5]] * op.arity
    types = [bool_, operand, operand] if op.leading_bool else [operand] * op.arity
    cases = list(product(*columns))
    step = max(1, len(cases) // 40)
    applied = [
        Apply(result, op.name, tuple(Const(t, bits) for t, bits in zip(types, case, strict=True)))
        for case in cases[::step]
    ]
    program = with_many(applied, 1, {})

    result_of_folding = simplified(program)

    for statement in result_of_folding.body:
        assert isinstance(statement, Store)
        assert isinstance(statement.value, Const)
    assert_same(vc.evaluate(program), vc.evaluate(result_of_folding))


@pytest.mark.thin(20)
@pytest.mark.parametrize("op, operand, result", [row for row in ROWS if row[0].arity == 2], ids=row_id)
def test_identities_of_two_operands_hold_on_all_edges(op: Op, operand: Type, result: Type) -> None:
    x = element("x", operand)
    value = finite_or_zero(operand, x) if op.name in SHOWS_NAN else x
    sides: list[tuple[Any, Any]] = [(value, value)]
    for bits in specials(operand):
        sides += [(value, Const(operand, bits)), (Const(operand, bits), value)]
    applied = [Apply(result, op.name, side) for side in sides]
    if result is bool_:
        applied += [Apply(bool_, "logical_not", (expr,)) for expr in applied]

    assert_folds_to_the_same(applied, {"x": (operand, list(EDGES[operand]))})


@pytest.mark.thin(3)
@pytest.mark.parametrize("type_", TYPES, ids=row_id)
def test_choices_and_double_ops_hold_on_all_edges(type_: Type) -> None:
    patterns = list(EDGES[type_])
    x, y, c = element("x", type_), element("y", type_), element("c", bool_)
    opposite = Apply(bool_, "logical_not", (c,))
    arms: list[Any] = [x, y, *(Const(type_, bits) for bits in specials(type_)[:2])]
    conditions: list[Any] = [c, opposite, Const(bool_, 0), Const(bool_, 1)]
    applied = [Apply(type_, "where", (test, a, b)) for test in conditions for a in arms for b in arms]
    for op in OPS.values():
        if op.arity == 1 and op.result == "same" and type_ in op.types:
            applied.append(Apply(type_, op.name, (Apply(type_, op.name, (x,)),)))

    inputs = {
        "x": (type_, patterns),
        "y": (type_, patterns[::-1]),
        "c": (bool_, [number % 3 % 2 for number in range(len(patterns))]),
    }
    assert_folds_to_the_same(applied, inputs)


@pytest.mark.thin(3)
@pytest.mark.parametrize("first", TYPES, ids=row_id)
def test_casts_of_casts_hold_on_all_edges(first: Type) -> None:
    x = element("x", first)
    applied = [Apply(last, "cast", (Apply(middle, "cast", (x,)),)) for middle, last in product(TYPES, TYPES)]
    same_width = [t for t in TYPES if t.bits == first.bits and t is not bool_]
    safe = finite_or_zero(first, x) if first.is_float else x
    if first in INTEGERS:  # bits that are no NaN in any type of this width
        safe = Apply(first, "bitwise_and", (x, Const(first, 0x3F)))
    applied += [
        Apply(last, "bitcast", (Apply(middle, "bitcast", (safe,)),)) for middle, last in product(same_width, same_width)
    ]

    assert_folds_to_the_same(applied, {"x": (first, list(EDGES[first]))})


def test_every_nan_gets_the_same_bits() -> None:
    for type_ in (f32, f64, bf16):
        quotient = Apply(type_, "divide", (Const(type_, 0), Const(type_, 0)))
        (stored,) = simplified(with_many([quotient], 1, {})).body

        assert isinstance(stored, Store)
        assert stored.value == Const(type_, bits_of(type_, float("nan")))
