"""What values of a kernel are on arrays, as bit patterns: each instruction as the PTX ISA defines it.

An f32 is computed by NumPy, an fma in f64 with what it rounds off, which is exact for what is f32 or less; an fma of
f64 is rational.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.unit.float_rules import exact
from vyre_cuda.codegen.ssa.ssa import Function
from vyre_cuda.ir.core.types import f64

Array = np.ndarray[Any, np.dtype[Any]]

_FLOATS = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
_WORDS = {"f32": np.uint32, "f64": np.uint64, "u32": np.uint32, "u64": np.uint64, "b16": np.uint16, "pred": np.bool_}
_FLUSHING = (".ftz", ".fast")


def value_of(function: Function, value: int, given: Mapping[int, Array]) -> Array:
    """The bits of a value, or whether a predicate is true, where those values are given."""
    found = dict(given)
    work = [value]
    while work:
        at = work[-1]
        missing = [arg for arg in function.args[at] if arg not in found] if at not in found else []
        if missing:
            work += missing
            continue
        if at not in found:
            found[at] = _computed(function, at, [found[arg] for arg in function.args[at]])
        work.pop()
    return found[value]


def _computed(function: Function, value: int, args: list[Array]) -> Array:
    op, type_ = function.ops[value], function.types[value]
    if op == "const":
        return np.array([function.attrs[value]], _WORDS[type_])
    source = function.types[function.args[value][-1]]
    with np.errstate(all="ignore"):
        if op in _MOVES:
            return _MOVES[op](*args)
        if source in _FLOATS:
            return _on_floats(op, source, args)
        return _ON_WORDS[op](*args)


def _on_floats(op: str, type_: str, args: list[Array]) -> Array:
    suffix = next((each for each in _FLUSHING if op.endswith(each)), "")
    flushes = bool(suffix) and type_ == "f32"
    name = op.removesuffix(suffix)
    if name == "where":
        return np.where(args[0], args[1], args[2])
    floats = [(_flushed(arg) if flushes else arg).view(_FLOATS[type_]) for arg in args]
    result = _fma(type_, *floats) if name == "fma" else _ON_FLOATS[name](*floats)
    if result.dtype == np.bool_:
        return result
    bits = result.view(f"u{result.itemsize}")
    return _flushed(bits) if flushes else bits


def _flushed(bits: Array) -> Array:
    sign = bits & np.uint32(1 << 31)
    return np.where((bits ^ sign) < np.uint32(1 << 23), sign, bits)


# ---- fma ------------------------------------------------------------------------------------------------------------


def sum_to_odd(x: Array, y: Array) -> Array:
    """The sum of f64 numbers, with an odd last bit if it is not exact."""
    total = x + y
    part = total - x
    lost = (x - (total - part)) + (y - part)
    lost = np.where(np.isfinite(total), lost, 0)
    even = total.view(np.uint64) & np.uint64(1) == 0
    toward = np.where(lost > 0, np.inf, -np.inf)
    return np.where((lost != 0) & even, np.nextafter(total, toward), total)


def _fma(type_: str, x: Array, y: Array, z: Array) -> Array:
    if type_ == "f64":
        words = np.broadcast_arrays(*(each.view(np.uint64) for each in (x, y, z)))
        fused = [exact.fma(f64, *map(int, of)) for of in zip(*words, strict=True)]
        return np.array(fused, np.uint64).view(np.float64)
    return sum_to_odd(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)).astype(np.float32)


def _fma_of_halves(widen: Callable[[Array], Array], narrow: Callable[[Array], Array]) -> Callable[..., Array]:
    def fma(*args: Array) -> Array:
        x, y, z = (widen(arg).astype(np.float64) for arg in args)
        return narrow(sum_to_odd(x * y, z))

    return fma


# ---- halves ---------------------------------------------------------------------------------------------------------


def _f16(bits: Array) -> Array:
    return bits.view(np.float16).astype(np.float32)


def _to_f16(value: Array) -> Array:
    return value.astype(np.float16).view(np.uint16)


def _bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _to_bf16(value: Array) -> Array:
    """The nearest multiple of its last place, to even; its exponents are those of f32."""
    wide = value.astype(np.float64)
    exponent = np.frexp(np.where(np.isfinite(wide), wide, 0))[1] - 1
    place = np.maximum(exponent - 7, -133)
    nearest = np.ldexp(np.rint(np.ldexp(wide, -place)), place)
    return (nearest.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


# ---- instructions ---------------------------------------------------------------------------------------------------


def _extreme(choose: Callable[[Array, Array], Array], *, ignores_nan: bool) -> Callable[[Array, Array], Array]:
    """-0.0 is below 0.0."""

    def op(x: Array, y: Array) -> Array:
        words = x.view(f"i{x.itemsize}"), y.view(f"i{y.itemsize}")
        most = np.iinfo(words[0].dtype).max
        keys = [np.where(word < 0, word ^ most, word) for word in words]
        chosen = np.where(choose(*keys) == keys[0], x, y)
        if ignores_nan:
            return np.where(np.isnan(x), y, np.where(np.isnan(y), x, chosen))
        return np.where(np.isnan(x) | np.isnan(y), np.array(np.nan, x.dtype), chosen)

    return op


def _shifted(shift: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    return lambda x, count: shift(x, count.astype(x.dtype))


def _to_int(word: type) -> Callable[[Array], Array]:
    return lambda bits: bits.astype(word)


def _directed(up: bool | None) -> Callable[[Array, Array], Array]:
    """A sum of f64 rounded up, down, or (None) toward zero."""

    def op(x: Array, y: Array) -> Array:
        odd, near = sum_to_odd(x, y), x + y
        inexact = odd.view(np.uint64) & np.uint64(1) == 1
        exact_ = ~inexact | ~np.isfinite(near)
        part = near - x
        lost = np.where(exact_, 0, (x - (near - part)) + (y - part))
        if up is None:
            moves = (lost != 0) & ((lost > 0) != (near > 0))
            return np.where(moves, np.nextafter(near, 0.0), near)
        moves = lost > 0 if up else lost < 0
        return np.where(moves, np.nextafter(near, np.inf if up else -np.inf), near)

    return op


_ON_FLOATS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "add.rp": _directed(True),
    "add.rm": _directed(False),
    "add.rz": _directed(None),
    "negative": np.negative,
    "absolute": np.absolute,
    "fmin": _extreme(np.minimum, ignores_nan=True),
    "fmax": _extreme(np.maximum, ignores_nan=True),
    "minimum": _extreme(np.minimum, ignores_nan=False),
    "maximum": _extreme(np.maximum, ignores_nan=False),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "unordered": lambda x, y: np.isnan(x) | np.isnan(y),
    "half.f16": _to_f16,
    "half.bf16": _to_bf16,
    "cast.f64": lambda x: x.astype(np.float64),
    "chop.f32": lambda x: _chopped(x),
    "cast.f32": lambda x: x.astype(np.float32),
}


def _chopped(x: Array) -> Array:
    near = x.astype(np.float32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(x)
    return np.where(beyond & np.isfinite(x), np.nextafter(near, np.float32(0)), near)


_MOVES: dict[str, Callable[..., Array]] = {
    **dict.fromkeys(("copy", "bits.u32", "bits.f32", "bits.u64", "bits.f64", "retype"), lambda bits: bits),
    "pair": lambda low, high: low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16),
    "float.f16": lambda bits: _f16(bits).view(np.uint32),
    "fma.f16": _fma_of_halves(_f16, _to_f16),
    "fma.bf16": _fma_of_halves(_bf16, _to_bf16),
    "short": _to_int(np.uint16),
    "zero_extend": _to_int(np.uint32),
    "logical_not": np.logical_not,
    "logical_and": np.logical_and,
}

_ON_WORDS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": _shifted(np.left_shift),
    "right_shift": _shifted(np.right_shift),
    "where": np.where,
}
