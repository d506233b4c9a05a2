"""Expressions: operators and functions build the ops of the table, numbers take types, errors name the line."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Id, Let, Load, Local, Scalar, Size, Stmt
from vyre_cuda.ir.core.walk import expressions, operands, statements

TWO_FLOATS = {t: np.float32(t).view(np.uint32).item() for t in (1.0, 2.0)}


class Kit:
    """A builder with a scalar of each type, and the nodes that a value becomes."""

    def __init__(self) -> None:
        self.b = vc.Builder("kit")
        self.f = self.b.scalar("f", vc.f32)
        self.g = self.b.scalar("g", vc.f32)
        self.u = self.b.scalar("u", vc.u32)
        self.i = self.b.scalar("i", vc.i32)
        self.p = self.b.scalar("p", vc.bool_)
        self.q = self.b.scalar("q", vc.bool_)
        self.x = self.b.input("x", vc.f32)
        self.out = self.b.inout("out", vc.f32)

    def node(self, value: vc.Value) -> Expr:
        """The nodes that a statement gets."""
        self.b.let("probe", value)
        last = self.body()[-1]
        assert isinstance(last, Let)
        return last.value

    def body(self) -> tuple[Stmt, ...]:
        return tuple(self.b._scope.block.statements)


@pytest.fixture
def kit() -> Kit:
    return Kit()


def scalar(type_: vc.Type, name: str) -> Scalar:
    return Scalar(type_, name)


ARITHMETIC: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("add", operator.add),
    ("subtract", operator.sub),
    ("multiply", operator.mul),
    ("divide", operator.truediv),
    ("power", operator.pow),
    ("less", operator.lt),
    ("less_equal", operator.le),
    ("greater", operator.gt),
    ("greater_equal", operator.ge),
    ("equal", operator.eq),
    ("not_equal", operator.ne),
]
INTEGER: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("floor_divide", operator.floordiv),
    ("remainder", operator.mod),
    ("left_shift", operator.lshift),
    ("right_shift", operator.rshift),
    ("bitwise_and", operator.and_),
    ("bitwise_or", operator.or_),
    ("bitwise_xor", operator.xor),
]
LOGICAL: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("logical_and", operator.and_),
    ("logical_or", operator.or_),
    ("logical_xor", operator.xor),
]
MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


@pytest.mark.parametrize(("name", "apply"), ARITHMETIC, ids=[name for name, _ in ARITHMETIC])
def test_operator_on_floats_is_the_op_of_its_symbol(kit: Kit, name: str, apply: Callable[[Any, Any], Any]) -> None:
    node = kit.node(apply(kit.f, kit.g))

    assert isinstance(node, Apply)
    assert (node.op, node.operands) == (name, (scalar(vc.f32, "f"), scalar(vc.f32, "g")))


@pytest.mark.parametrize(("name", "apply"), INTEGER, ids=[name for name, _ in INTEGER])
def test_operator_on_integers_is_the_op_of_its_symbol(kit: Kit, name: str, apply: Callable[[Any, Any], Any]) -> None:
    assert kit.node(apply(kit.u, kit.u)) == Apply(vc.u32, name, (scalar(vc.u32, "u"),) * 2)


@pytest.mark.parametrize(("name", "apply"), LOGICAL, ids=[name for name, _ in LOGICAL])
def test_operator_on_bools_is_the_logical_op(kit: Kit, name: str, apply: Callable[[Any, Any], Any]) -> None:
    assert kit.node(apply(kit.p, kit.q)) == Apply(vc.bool_, name, (scalar(vc.bool_, "p"), scalar(vc.bool_, "q")))


@pytest.mark.parametrize("number", [2.0, np.float32(2.0)], ids=["python", "numpy"])
@pytest.mark.parametrize(("name", "apply"), ARITHMETIC, ids=[name for name, _ in ARITHMETIC])
def test_reflected_operator_keeps_the_order_of_operands(
    kit: Kit, name: str, apply: Callable[[Any, Any], Any], number: Any
) -> None:
    two, f = Const(vc.f32, TWO_FLOATS[2.0]), scalar(vc.f32, "f")
    commutes = name in ("equal", "not_equal")
    expected = (MIRRORED[name], (f, two)) if name in MIRRORED else (name, (f, two) if commutes else (two, f))

    node = kit.node(apply(number, kit.f))

    assert isinstance(node, Apply)
    assert (node.op, node.operands) == expected


def test_unary_operators_are_negative_absolute_and_invert(kit: Kit) -> None:
    i, p = scalar(vc.i32, "i"), scalar(vc.bool_, "p")

    assert kit.node(-kit.i) == Apply(vc.i32, "negative", (i,))
    assert kit.node(abs(kit.i)) == Apply(vc.i32, "absolute", (i,))
    assert kit.node(~kit.i) == Apply(vc.i32, "invert", (i,))
    assert kit.node(~kit.p) == Apply(vc.bool_, "logical_not", (p,))
    assert kit.node(+kit.i) == i


def test_divmod_is_quotient_and_remainder(kit: Kit) -> None:
    quotient, remainder = divmod(kit.i, 3)
    reflected, _ = divmod(3, kit.i)

    assert kit.node(quotient) == kit.node(kit.i // 3)
    assert kit.node(remainder) == kit.node(kit.i % 3)
    assert kit.node(reflected) == kit.node(3 // kit.i)


def test_python_numbers_take_the_type_of_the_other_operand(kit: Kit) -> None:
    assert kit.node(kit.f + 1) == Apply(vc.f32, "add", (scalar(vc.f32, "f"), Const(vc.f32, TWO_FLOATS[1.0])))
    assert kit.node(kit.i + -1) == Apply(vc.i32, "add", (scalar(vc.i32, "i"), Const(vc.i32, 0xFFFFFFFF)))
    assert kit.node(kit.p & True) == Apply(vc.bool_, "logical_and", (scalar(vc.bool_, "p"), Const(vc.bool_, 1)))
    assert kit.node(vc.where(True, 2.0, kit.f)) == Apply(
        vc.f32, "where", (Const(vc.bool_, 1), Const(vc.f32, TWO_FLOATS[2.0]), scalar(vc.f32, "f"))
    )


def test_calling_a_type_casts_expressions_and_makes_constants(kit: Kit) -> None:
    assert kit.node(vc.f32(kit.u)) == Apply(vc.f32, "cast", (scalar(vc.u32, "u"),))
    assert kit.node(vc.i32(-1)) == Const(vc.i32, 0xFFFFFFFF)
    assert kit.node(vc.f32(-0.0)) == Const(vc.f32, 0x80000000)
    assert kit.node(vc.bool_(True)) == Const(vc.bool_, 1)
    assert kit.node(vc.bitcast(kit.f, vc.u32)) == Apply(vc.u32, "bitcast", (scalar(vc.f32, "f"),))


def test_values_know_their_type_and_dtype(kit: Kit) -> None:
    assert (kit.f * 2).type is vc.f32
    assert (kit.f < 2).type is vc.bool_
    assert vc.u32(kit.f).dtype == np.uint32
    assert kit.x.size.type is vc.u32


@pytest.mark.parametrize(
    "build",
    [
        lambda k: k.f + k.u,
        lambda k: k.u & k.p,
        lambda k: k.f & k.g,
        lambda k: k.u / 2,
        lambda k: -k.p,
        lambda k: ~k.f,
        lambda k: vc.sqrt(k.u),
        lambda k: vc.where(k.u, k.f, k.g),
        lambda k: vc.bitcast(k.p, vc.u32),
        lambda k: k.u + 2**32,
        lambda k: k.u + -1,
        lambda k: k.f * 1e39,
        lambda k: vc.u32(-1),
        lambda k: vc.f32(1) + vc.u32(1),
        lambda k: k.f + np.float64(1e39),
        lambda k: k.u + np.int8(-1),
        lambda k: k.f + vc.global_id.x,
    ],
)
def test_what_the_op_table_refuses_is_a_program_error_at_its_line(kit: Kit, build: Callable[[Kit], Any]) -> None:
    with pytest.raises(vc.ProgramError) as raised:
        build(kit)

    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.source == (__file__, build.__code__.co_firstlineno)


@pytest.mark.parametrize(
    "build",
    [
        lambda k: k.u + 1.5,
        lambda k: k.u + True,
        lambda k: k.p & 1,
        lambda k: k.f + "1",
        lambda k: k.f + None,
        lambda k: k.f == None,  # noqa: E711
        lambda k: k.f != "f",
        lambda k: k.f + np.complex64(1),
        lambda k: vc.f32(np.float64(0.1)),
        lambda k: k.f + np.uint32(2**24 + 1),
        lambda k: k.u + np.float32(1),
        lambda k: k.u + np.bool_(True),
        lambda k: np.ones(3, np.float32) * k.f,
        lambda k: k.f * np.ones(3, np.float32),
        lambda k: k.f + k.x,
        lambda k: vc.add(k.f, k.x),
        lambda k: vc.sqrt(2.0),
        lambda k: vc.where(k.p, 1, 2),
        lambda k: k.b.let("n", 5),
        lambda k: bool(k.p),
        lambda k: 0 < k.u < 5,
        lambda k: list(k.f),
        lambda k: list(k.x),
        lambda k: k.f in k.x,
        lambda k: k.f in [k.g],
        lambda k: bool(k.x),
        lambda k: float(k.f),
        lambda k: range(10)[k.u],
        lambda k: vc.global_id.x.type,
    ],
)
def test_what_is_no_operand_is_a_type_error(kit: Kit, build: Callable[[Kit], Any]) -> None:
    with pytest.raises(TypeError):
        build(kit)


def test_expressions_hash_by_identity(kit: Kit) -> None:
    assert len({kit.f, kit.g, kit.f}) == 2


def test_every_node_has_the_line_that_wrote_it(kit: Kit) -> None:
    line = test_every_node_has_the_line_that_wrote_it.__code__.co_firstlineno + 2
    value = kit.x[kit.u] * (kit.f + 1)
    node = kit.node(value)

    assert {e.source for e in expressions([node]) if isinstance(e, (Apply, Load, Const))} == {(__file__, line)}


# ---- expressions before a builder -----------------------------------------------------------------------------------


def test_ids_take_the_index_type_of_the_builder_that_uses_them(kit: Kit) -> None:
    expected = Apply(vc.u32, "add", (Id(vc.u32, "block_id", 1), Const(vc.u32, 1)))

    assert kit.node(vc.block_id.y + 1) == expected


def test_ids_meet_values_of_a_builder(kit: Kit) -> None:
    node = kit.node((vc.global_id.x * 2 < kit.x.size) & ~(vc.thread_id.z == 0))

    assert {(e.kind, e.axis) for e in expressions([node]) if isinstance(e, Id)} == {("global_id", 0), ("thread_id", 2)}
    assert all(e.type is vc.u32 for e in expressions([node]) if isinstance(e, (Id, Size)))


def test_one_id_expression_serves_two_builders() -> None:
    shared = vc.global_id.x * 3 + 1
    first, second = Kit(), Kit()

    assert first.node(shared) == second.node(shared)


def test_cast_of_an_id_has_a_type_before_any_builder() -> None:
    assert (vc.f32(vc.global_id.x) * 2.0).type is vc.f32
    assert (vc.global_id.x < 3).type is vc.bool_


def test_constants_combine_before_any_builder(kit: Kit) -> None:
    one = Const(vc.f32, TWO_FLOATS[1.0])

    assert kit.node(vc.f32(1) + vc.f32(1)) == Apply(vc.f32, "add", (one, one))


def test_error_in_an_unplaced_expression_names_the_line_that_wrote_it(kit: Kit) -> None:
    line = test_error_in_an_unplaced_expression_names_the_line_that_wrote_it.__code__.co_firstlineno + 2
    wrong = vc.global_id.x + vc.f32(1)

    with pytest.raises(vc.ProgramError) as raised:
        kit.b.let("wrong", wrong)
    assert raised.value.diagnostics[0].source == (__file__, line)


# ---- shared operands ------------------------------------------------------------------------------------------------


def tree_sizes(body: tuple[Stmt, ...]) -> list[int]:
    return [sum(1 for _ in expressions(operands(s))) for s in statements(body)]


def test_a_value_reused_40_times_stays_linear(kit: Kit) -> None:
    value = kit.f
    for _ in range(40):
        value = value + value
    kit.b.let("last", value)

    sizes = tree_sizes(kit.body())
    assert max(sizes) <= 64
    assert sum(sizes) < 40 * 64


def test_an_id_expression_reused_40_times_stays_linear(kit: Kit) -> None:
    value = vc.global_id.x
    for _ in range(40):
        value = value * value + 1
    kit.b.let("last", value)

    assert max(tree_sizes(kit.body())) <= 64
    assert sum(tree_sizes(kit.body())) < 40 * 64


def test_a_chain_of_5000_ops_on_an_id_needs_no_recursion(kit: Kit) -> None:
    value = vc.global_id.x
    for _ in range(5000):
        value = value ^ 1
    kit.b.let("last", value)

    assert sum(tree_sizes(kit.body())) >= 5000
    assert max(tree_sizes(kit.body())) <= 64


def test_a_big_value_used_by_many_is_bound_once(kit: Kit) -> None:
    big = kit.f
    for _ in range(25):
        big = big * kit.g
    for _ in range(20):
        kit.b.let("sum", big + big)

    assert sum(1 for s in kit.body() if isinstance(s, Let) and isinstance(s.value, Apply)) == 1 + 20
    sums = [s.value for s in kit.body()[1:] if isinstance(s, Let)]
    assert all(value == Apply(vc.f32, "add", (Local(vc.f32, "t"), Local(vc.f32, "t"))) for value in sums)


def test_a_big_value_bound_in_a_block_is_bound_again_after_it(kit: Kit) -> None:
    big = kit.f
    for _ in range(25):
        big = big * kit.g
    with kit.b.if_(kit.p):
        kit.b.let("inside", big + big)
    kit.b.let("after", big + big)
    program = kit.b.build()

    assert vc.parse(program.text()) == program


def test_a_big_index_is_bound_first(kit: Kit) -> None:
    index = kit.u
    for _ in range(31):
        index = index + index
    kit.out[index] = kit.x[index]
    program = kit.b.build()

    assert max(tree_sizes(program.body)) <= 2 * 64


def test_a_power_takes_numbers_on_either_side(kit: Kit) -> None:
    assert kit.node(2**kit.f) == kit.node(vc.power(2.0, kit.f))
    assert kit.node(kit.f**-1) == kit.node(vc.power(kit.f, -1.0))
    assert kit.node(kit.u**2) == kit.node(vc.power(kit.u, 2))


@pytest.mark.parametrize(
    "number",
    [np.float64(0.5), np.float16(0.5), np.int64(3), np.uint8(3), np.float64("inf"), np.float64(-0.0)],
    ids=repr,
)
def test_a_numpy_scalar_that_is_exact_is_taken_as_its_number(kit: Kit, number: Any) -> None:
    for taken, wanted in (
        (kit.f * number, kit.f * number.item()),
        (number - kit.f, number.item() - kit.f),
        (vc.where(kit.p, number, kit.f), vc.where(kit.p, number.item(), kit.f)),
        (vc.f32(number), vc.f32(number.item())),
    ):
        assert kit.node(taken) == kit.node(wanted)
