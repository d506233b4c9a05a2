"""Ops of the IR in terms of instructions that the target has.

`apply_op` takes the op of a node and operand values and gives the result's value. A rewrite is listed for every
(op, operand type) that no single instruction does on the target; a test proves that exactly one of rewrite and
instruction row exists for everything in the op table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vyre_cuda.errors import InternalError
from vyre_cuda.ptx import division
from vyre_cuda.ptx.isel import F32, INTS, PRED, U32, WORDS, has_row
from vyre_cuda.ptx.peephole import Builder

Rewrite = Callable[..., int]

_ALL = (*WORDS, *PRED)
_INFINITY = 0x7F800000
_NAN = 0x7FC00000
_ONE = {"u32": 1, "s32": 1, "f32": 0x3F800000}


def apply_op(b: Builder, op: str, result: str, operands: Sequence[int]) -> int:
    """The value of an IR op; `result` is the PTX type of it, which names the conversion for casts."""
    type_ = b.function.types[operands[-1]]
    if op in ("cast", "bitcast"):
        op = f"{op}.{result}"
    rewrite = find_rewrite(op, type_, b.target.sm)
    if rewrite is not None:
        return rewrite(b, *operands)
    if not has_row(op, type_, b.target.sm):
        raise InternalError(f"{op} of {type_} has neither an instruction nor a rewrite for {b.target}")
    if op.startswith("cast."):
        return b.convert(op, result, operands[0])
    return b.apply(op, *operands)


def find_rewrite(op: str, type_: str, sm: int) -> Rewrite | None:
    """The rewrite of an op with this operand type on that target."""
    entry = _REWRITES.get((op, type_))
    return entry[0] if entry is not None and sm < entry[1] else None


def _swapped(op: str) -> Rewrite:
    return lambda b, left, right: b.apply(op, right, left)


def _identity(_b: Builder, value: int) -> int:
    return value


def _convert(op: str, type_: str) -> Rewrite:
    return lambda b, value: b.convert(op, type_, value)


def _bool_equal(b: Builder, left: int, right: int) -> int:
    return b.apply("logical_not", b.apply("logical_xor", left, right))


def _bool_not_equal(b: Builder, left: int, right: int) -> int:
    return b.apply("logical_xor", left, right)


def _bool_where(b: Builder, condition: int, chosen: int, other: int) -> int:
    if chosen == other:
        return chosen
    taken = b.apply("logical_and", condition, chosen)
    return b.apply("logical_or", taken, b.apply("logical_and", b.apply("logical_not", condition), other))


def _isnan(b: Builder, value: int) -> int:
    return b.apply("not_equal", value, value)


def _isinf(b: Builder, value: int) -> int:
    return b.apply("equal", b.apply("absolute", value), b.constant("f32", _INFINITY))


def _isfinite(b: Builder, value: int) -> int:
    return b.apply("less", b.apply("absolute", value), b.constant("f32", _INFINITY))


def _nan_propagating(op: str) -> Rewrite:
    """minimum and maximum where min.NaN does not exist yet (PTX ISA: sm_80)."""

    def rewrite(b: Builder, left: int, right: int) -> int:
        unordered = b.apply("unordered", left, right)
        return b.apply("where", unordered, b.constant("f32", _NAN), b.apply(op, left, right))

    return rewrite


def _from_bool(type_: str) -> Rewrite:
    return lambda b, value: b.apply("where", value, b.constant(type_, _ONE[type_]), b.constant(type_, 0))


def _to_bool(b: Builder, value: int) -> int:
    """Not equal to zero, which a NaN is too."""
    return b.apply("not_equal", value, b.constant(b.function.types[value], 0))


_ALWAYS = 1 << 30


def _table() -> dict[tuple[str, str], tuple[Rewrite, int]]:
    """(op, operand type) -> (rewrite, first sm that no longer needs it)."""
    rewrites: dict[tuple[str, str], tuple[Rewrite, int]] = {}

    def put(op: str, types: tuple[str, ...], rewrite: Rewrite, *, below_sm: int = _ALWAYS) -> None:
        for type_ in types:
            rewrites[op, type_] = (rewrite, below_sm)

    put("absolute", U32, _identity)
    put("floor_divide", INTS, division.floor_divide)
    put("remainder", INTS, division.remainder)
    put("trunc_divide", INTS, division.trunc_divide)
    put("fmod", INTS, division.fmod)
    put("greater", WORDS, _swapped("less"))
    put("greater_equal", WORDS, _swapped("less_equal"))
    put("equal", PRED, _bool_equal)
    put("not_equal", PRED, _bool_not_equal)
    put("where", PRED, _bool_where)
    put("isnan", F32, _isnan)
    put("isinf", F32, _isinf)
    put("isfinite", F32, _isfinite)
    put("minimum", F32, _nan_propagating("fmin"), below_sm=80)
    put("maximum", F32, _nan_propagating("fmax"), below_sm=80)
    for type_ in WORDS:
        put(f"cast.{type_}", PRED, _from_bool(type_))
        put(f"bitcast.{type_}", (type_,), _identity)
        put("cast.pred", (type_,), _to_bool)
    for type_ in _ALL:
        put(f"cast.{type_}", (type_,), _identity)
    for to, source in (("u32", "s32"), ("s32", "u32")):
        put(f"cast.{to}", (source,), _convert("retype", to))
        put(f"bitcast.{to}", (source,), _convert("retype", to))
    for type_ in INTS:
        put(f"bitcast.{type_}", F32, _convert(f"bits.{type_}", type_))
        put("bitcast.f32", (type_,), _convert("bits.f32", "f32"))
    return rewrites


_REWRITES = _table()
