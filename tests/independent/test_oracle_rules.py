"""The oracle against cases by hand, from the documented rules."""

from __future__ import annotations

import math

import pytest
from number_formats import to_bits
from oracle import Failure, Oracle
from oracle_bounds import Allowed
from oracle_lockstep import LockstepOracle
from program_tree import Buffer, Expr, Program, Stmt, Value, cast, const, local, op, where

NAN, INF = math.nan, math.inf
TINY = 2.0**-149  # the smallest f32
NORMAL = 2.0**-126


def value(expr: Expr, *, flushes: bool = False) -> Value:
    found: Value = Oracle(Program("u32"), flushes=flushes).exprs.compile(expr)({})
    return found


def applied(type_: str, name: str, *operands: Value, flushes: bool = False) -> Value:
    return value(op(type_, name, *(const(type_, operand) for operand in operands)), flushes=flushes)


@pytest.mark.parametrize(
    ("type_", "name", "operands", "wanted"),
    [
        ("u8", "add", (255, 1), 0),
        ("i8", "add", (127, 1), -128),
        ("i8", "negative", (-128,), -128),
        ("i8", "absolute", (-128,), -128),
        ("i32", "multiply", (1 << 30, 4), 0),
        ("i8", "floor_divide", (-7, 2), -4),
        ("i8", "floor_divide", (-128, -1), -128),
        ("i8", "floor_divide", (5, 0), 0),
        ("i8", "remainder", (-7, 3), 2),
        ("i8", "remainder", (7, -3), -2),
        ("i8", "remainder", (-128, -1), 0),
        ("u64", "remainder", (5, 0), 0),
        ("i8", "trunc_divide", (-7, 2), -3),
        ("i8", "trunc_divide", (-128, -1), -128),
        ("i16", "trunc_divide", (9, 0), 0),
        ("i8", "fmod", (-7, 3), -1),
        ("i8", "fmod", (7, -3), 1),
        ("i8", "fmod", (7, 0), 0),
        ("u64", "left_shift", (3, 64), 0),
        ("u64", "left_shift", (3, 63), 1 << 63),
        ("i8", "left_shift", (1, -1), 0),
        ("i8", "right_shift", (-2, 8), -1),
        ("i8", "right_shift", (-2, -1), -1),
        ("u32", "right_shift", (1 << 31, 32), 0),
        ("u8", "rotate_left", (0x81, 1), 3),
        ("u8", "rotate_left", (0x81, 9), 3),
        ("i8", "rotate_right", (1, 1), -128),
        ("u8", "rotate_right", (7, 8), 7),
        ("i8", "bitwise_count", (-1,), 8),
        ("u16", "count_leading_zeros", (0,), 16),
        ("u16", "count_trailing_zeros", (0,), 16),
        ("i32", "count_trailing_zeros", (-8,), 3),
        ("u8", "reverse_bits", (1,), 128),
        ("i8", "reverse_bits", (1,), -128),
        ("i8", "multiply_high", (-128, 127), -64),
        ("u64", "multiply_high", ((1 << 64) - 1, 2), 1),
        ("i8", "add_saturate", (100, 100), 127),
        ("u8", "subtract_saturate", (3, 5), 0),
        ("i8", "subtract_saturate", (-100, 100), -128),
        ("i8", "sign", (-5,), -1),
        ("i8", "invert", (5,), -6),
        ("i8", "integer_power", (-2, 7), -128),
        ("i8", "integer_power", (3, 6), -39),
        ("i8", "integer_power", (-1, -3), -1),
        ("i8", "integer_power", (2, -1), 0),
        ("u8", "integer_power", (0, 0), 1),
        ("u8", "invert", (5,), 250),
        ("bool_", "logical_xor", (True, True), False),
    ],
)
def test_integer_rules(type_: str, name: str, operands: tuple[Value, ...], wanted: Value) -> None:
    assert applied(type_, name, *operands) == wanted


@pytest.mark.parametrize(
    ("type_", "name", "operands", "wanted"),
    [
        ("f32", "add", (1.0, 2.0**-24), 1.0),
        ("f32", "add", (1.0, 3 * 2.0**-24), 1.0 + 2.0**-22),
        ("f32", "multiply", (TINY, 0.5), 0.0),
        ("f32", "multiply", (3 * TINY, 0.5), 2 * TINY),
        ("f16", "add", (65504.0, 16.0), INF),
        ("f16", "add", (65504.0, 15.0), 65504.0),
        ("bf16", "add", (1.0, 2.0**-8), 1.0),
        ("bf16", "add", (1.0, 3 * 2.0**-8), 1.0 + 2.0**-6),
        ("f64", "subtract", (INF, INF), NAN),
        ("f64", "divide", (-1.0, 0.0), -INF),
        ("f64", "divide", (0.0, -0.0), NAN),
        ("f32", "divide", (1.0, 3.0), 11184811 * 2.0**-25),
        ("f32", "reciprocal", (-0.0,), -INF),
        ("f32", "sqrt", (-0.0,), -0.0),
        ("f32", "sqrt", (-1.0,), NAN),
        ("f32", "fmod", (-5.5, 2.0), -1.5),
        ("f32", "fmod", (5.5, -2.0), 1.5),
        ("f64", "fmod", (-4.0, 2.0), -0.0),
        ("f64", "fmod", (1.0, INF), 1.0),
        ("f64", "fmod", (INF, 1.0), NAN),
        ("f64", "fmod", (1.0, 0.0), NAN),
        ("f32", "floor_divide", (-5.5, 2.0), -3.0),
        ("f32", "floor_divide", (1.0, 0.0), INF),
        ("f64", "floor_divide", (-1.0, INF), -1.0),
        ("f64", "floor_divide", (0.0, -3.0), -0.0),
        ("f32", "remainder", (5.5, -2.0), -0.5),
        ("f64", "remainder", (-1.0, INF), INF),
        ("f64", "remainder", (4.0, -2.0), -0.0),
        ("f64", "remainder", (1.0, 0.0), NAN),
        ("f32", "minimum", (0.0, -0.0), -0.0),
        ("f32", "maximum", (-0.0, 0.0), 0.0),
        ("f32", "minimum", (1.0, NAN), NAN),
        ("f32", "fmin", (1.0, NAN), 1.0),
        ("f32", "fmax", (NAN, -0.0), -0.0),
        ("f64", "rint", (2.5,), 2.0),
        ("f64", "rint", (-0.5,), -0.0),
        ("f64", "ceil", (-0.5,), -0.0),
        ("f64", "floor", (-0.0,), -0.0),
        ("f64", "trunc", (-1.5,), -1.0),
        ("f16", "copysign", (2.0, -0.0), -2.0),
        ("f32", "sign", (-0.0,), 0.0),
        ("f32", "sign", (-INF,), -1.0),
        ("f32", "nextafter", (0.0, -1.0), -TINY),
        ("f32", "nextafter", (1.0, 2.0), 1.0 + 2.0**-23),
        ("bf16", "nextafter", (-1.0, 0.0), -1.0 + 2.0**-8),
        ("f16", "nextafter", (65504.0, INF), INF),
        ("f32", "nextafter", (0.0, -0.0), -0.0),
        ("f32", "fma", (1.0 + 2.0**-12, 1.0 + 2.0**-12, -(1.0 + 2.0**-11)), 2.0**-24),
        ("f64", "fma", (2.0**-1074, 0.5, -0.0), 0.0),
        ("f64", "fma", (-(2.0**-1074), 0.25, 0.0), -0.0),
        ("f64", "fma", (1e308, 10.0, -INF), -INF),
        ("f32", "fma", (2.0, 3.0, -6.0), 0.0),
        ("f64", "signbit", (-0.0,), True),
        ("f64", "isfinite", (NAN,), False),
        ("f64", "equal", (0.0, -0.0), True),
        ("f64", "not_equal", (NAN, NAN), True),
    ],
)
def test_float_rules(type_: str, name: str, operands: tuple[Value, ...], wanted: Value) -> None:
    found = applied(type_, name, *operands)

    result = "bool_" if isinstance(wanted, bool) else type_
    assert to_bits(result, found) == to_bits(result, wanted)


@pytest.mark.parametrize(
    ("source", "given", "target", "wanted"),
    [
        ("f32", 3e9, "i32", (1 << 31) - 1),
        ("f32", -1.0, "u8", 0),
        ("f64", NAN, "i64", 0),
        ("f64", -INF, "i16", -32768),
        ("f64", 2.0**63, "u64", 1 << 63),
        ("f16", -1.9, "i8", -1),
        ("i32", -1, "u8", 255),
        ("i8", -1, "u64", (1 << 64) - 1),
        ("u8", 200, "i8", -56),
        ("u64", (1 << 24) + 1, "f32", float(1 << 24)),
        ("u64", (1 << 40) + (1 << 16) + 1, "f32", float((1 << 40) + (1 << 17))),
        ("u64", (1 << 63) + (1 << 39) + 1, "f32", float((1 << 63) + (1 << 40))),
        ("i64", (1 << 53) + 1, "f64", float(1 << 53)),
        ("u32", 65520, "f16", INF),
        ("i16", 257, "bf16", 256.0),
        ("f64", 1.0 + 2.0**-8 + 2.0**-40, "bf16", 1.0 + 2.0**-7),
        ("f64", 2.0**-150, "f32", 0.0),
        ("f64", -(2.0**-150), "f32", -0.0),
        ("f64", 3.5e38, "f32", INF),
        ("f64", -1.7e308, "bf16", -INF),
        ("f64", 3.397e38, "bf16", INF),
        ("f64", 3.395e38, "bf16", 255 * 2.0**120),
        ("f32", TINY, "bool_", True),
        ("f64", NAN, "bool_", True),
        ("bool_", True, "f16", 1.0),
    ],
)
def test_casts(source: str, given: Value, target: str, wanted: Value) -> None:
    assert to_bits(target, value(cast(target, const(source, given)))) == to_bits(target, wanted)


def test_a_bitcast_keeps_bits() -> None:
    assert value(Expr("bitcast", "i16", "", (const("bf16", -1.0),))) == -16512
    assert value(Expr("bitcast", "f32", "", (const("u32", 0x80000000),))) == 0.0


def test_ftz_flushes_operands_and_results_of_f32() -> None:
    assert applied("f32", "add", TINY, 0.0, flushes=True) == 0.0
    assert applied("f32", "multiply", NORMAL, 0.5, flushes=True) == 0.0
    assert math.copysign(1.0, float(applied("f32", "negative", TINY, flushes=True))) == -1.0
    assert applied("f32", "equal", TINY, 0.0, flushes=True) is True
    assert applied("f32", "copysign", TINY, 1.0, flushes=True) == TINY
    assert applied("f32", "nextafter", 0.0, 1.0, flushes=True) == TINY
    assert applied("f64", "add", TINY, 0.0, flushes=True) == TINY
    assert value(cast("f64", const("f32", TINY)), flushes=True) == 0.0
    assert value(cast("bool_", const("f32", TINY)), flushes=True) is False
    assert value(cast("f32", const("bf16", TINY * 2**16)), flushes=True) == TINY * 2**16


def test_ftz_flushes_after_rounding_to_24_bits() -> None:
    below = NORMAL * (1 - 2.0**-24)
    assert value(cast("f32", const("f64", below)), flushes=True) == 0.0
    assert value(cast("f32", const("f64", NORMAL * (1 - 2.0**-25)))) == NORMAL
    assert value(cast("f32", const("f64", NORMAL * (1 - 2.0**-25))), flushes=True) == NORMAL


# ---- statements -----------------------------------------------------------------------------------------------------


def outcome(body: list[Stmt], length: int = 3, *, traps: bool = False, block: int = 1):
    program = Program("u32", (block, 1, 1), buffers={"o": Buffer("i32", "inout", [0] * length)}, body=body)
    return Oracle(program, traps=traps).run()


def store(at: Expr, stored: Expr) -> Stmt:
    return Stmt("store", "o", (at, stored))


def test_accesses_out_of_bounds_do_nothing() -> None:
    load = Expr("load", "i32", "o", (const("i8", -1),))
    found = outcome([store(const("i64", -1), const("i32", 5)), store(const("u8", 0), op("i32", "add", load, load))])

    assert found.buffers["o"] == [0, 0, 0]
    assert found.is_missed


def test_an_index_out_of_bounds_in_one_axis_is_out_of_bounds() -> None:
    program = Program("i32", buffers={"o": Buffer("i32", "inout", [0] * 6, shape=(2, 3))})
    program.own["own"] = ("i32", (2, 2))

    def place(name: str, *indices: int) -> Expr:
        return Expr("position", "i32", name, tuple(const("i32", each) for each in indices))

    kept = Expr("load", "i32", "own", (place("own", 1, 0),))
    columns = cast("i32", Expr("extent", "i32", "o.1"))
    program.body = [
        store(place("o", 0, 3), const("i32", 7)),
        store(place("o", -1, 3), const("i32", 7)),
        Stmt("store", "own", (place("own", 1, 0), const("i32", 5))),
        Stmt("store", "own", (place("own", 0, 2), const("i32", 9))),
        store(place("o", 1, 2), op("i32", "add", kept, columns)),
    ]
    found = Oracle(program).run()

    assert found.buffers["o"] == [0, 0, 0, 0, 0, 8]
    assert found.is_missed


def test_with_traps_the_first_access_out_of_bounds_ends_the_thread() -> None:
    found = outcome([store(const("u8", 0), const("i32", 1)), store(const("i8", -3), const("i32", 5))], traps=True)

    assert found.failure == Failure(0, 1, "index out of bounds of o", -3)


def test_the_first_assertion_of_the_lowest_thread_is_reported() -> None:
    x = Expr("id", "u32", "thread_id.x")
    body = [
        Stmt(
            "if",
            "",
            (op("bool_", "equal", x, const("u32", 3)),),
            ([Stmt("assert", "of three", (const("bool_", False),))], []),
        ),
        Stmt("assert", "low", (op("bool_", "less", x, const("u32", 2)),)),
    ]

    assert outcome(body, block=5).failure == Failure(2, 2, "low")


def test_a_loop_counts_on_exact_integers() -> None:
    counted = store(const("u8", 0), op("i32", "add", Expr("load", "i32", "o", (const("u8", 0),)), const("i32", 1)))
    loop = Stmt("for", "j", (const("u8", 250), const("u8", 255), const("u8", 3)), ([counted],))
    down = Stmt("for", "k", (const("i8", 127), const("i8", -128), const("i8", -128)), ([counted],))

    assert outcome([loop]).buffers["o"][0] == 2
    assert outcome([down]).buffers["o"][0] == 2


def test_break_and_continue_are_of_the_innermost_loop() -> None:
    counter = local("i32", "j")
    skip = Stmt("if", "", (op("bool_", "equal", counter, const("i32", 1)),), ([Stmt("continue")], []))
    leave = Stmt("if", "", (op("bool_", "equal", counter, const("i32", 2)),), ([Stmt("break")], []))
    body = [skip, leave, store(counter, const("i32", 7))]
    loop = Stmt("for", "j", (const("i32", 0), const("i32", 3), const("i32", 1)), (body,))

    assert outcome([loop, store(const("u8", 2), const("i32", 9))]).buffers["o"] == [7, 0, 9]


def test_where_evaluates_both_arms() -> None:
    missing = Expr("load", "i32", "o", (const("u8", 9),))
    chosen = where(const("bool_", True), const("i32", 4), missing)

    assert outcome([store(const("u8", 0), chosen)]).is_missed


@pytest.mark.parametrize(
    ("name", "combine", "wanted"),
    [
        ("reduce", "add", [10] * 5),
        ("inclusive_scan", "add", [0, 1, 3, 6, 10]),
        ("exclusive_scan", "maximum", [-(1 << 31), 0, 1, 2, 3]),
        ("shuffle_down", "", [2, 3, 4, 3, 4]),
        ("shuffle_up", "", [0, 1, 0, 1, 2]),
        ("shuffle_xor", "", [2, 3, 0, 1, 4]),
        ("shuffle", "", [2, 2, 2, 2, 2]),
    ],
)
def test_warp_operations_of_five_lanes(name: str, combine: str, wanted: list[int]) -> None:
    lane = Expr("id", "u32", "lane_id")
    operands = (cast("i32", lane),) if combine else (cast("i32", lane), const("u32", 2))
    body = [Stmt("warp", "w", operands, (), (name, combine)), store(lane, local("i32", "w"))]
    program = Program("u32", (5, 1, 1), buffers={"o": Buffer("i32", "inout", [0] * 5)}, body=body)

    assert LockstepOracle(program).run().buffers["o"] == wanted


def test_allowed_is_a_distance_in_units_of_the_exact_value() -> None:
    one = Allowed("f32", (1.0,), 2.0)
    assert one.admits(1.0 + 2.0**-22)
    assert not one.admits(1.0 + 3 * 2.0**-23)
    assert not one.admits(NAN)
    assert Allowed("f32", (INF,), 2.0).admits(INF)
    assert not Allowed("f32", (0.0,), 2.0).admits(-0.0)
    assert Allowed("f32", (TINY * 5,), 2.0, True).admits(0.0)
    assert not Allowed("f32", (TINY * 5,), 2.0).admits(0.0)
