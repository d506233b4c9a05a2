"""What cvt gives where a half takes part, by exact rational arithmetic. NaN is None."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from half_oracle import round_to, value_of
from silicon_forms import Form

_LEAST_F32 = 2.0**-126


def _integer(type_: str, word: int) -> int:
    bits = int(type_[1:])
    word %= 1 << bits
    return word - (1 << bits) if type_[0] == "s" and word >> (bits - 1) else word


def _to_integral(value: float, mode: str) -> int:
    exact = Fraction(value)
    return {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}[mode](exact)


def _to_integer(value: float, type_: str, mode: str) -> int:
    """Rounded and clamped. A NaN gives 0, with 64 bits the least signed word."""
    bits = int(type_[1:])
    if math.isnan(value):
        return 1 << 63 if bits == 64 else 0
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)
    if math.isinf(value):
        return high if value > 0 else low % (1 << bits)
    return min(max(_to_integral(value, mode), low), high) % (1 << bits)


def conversion(form: Form, word: int) -> int | None:
    """The result of a cvt at the width of its type."""
    parts = form.name.split(".")
    target, source = form.operands[0].type, form.operands[1].type
    mode = next((part[:2] for part in parts if part[:2] in ("rn", "rz", "rm", "rp")), "rn")
    whole = any(part in ("rni", "rzi", "rmi", "rpi") for part in parts)
    if source[0] in "us":
        number = _integer(source, word)
        exact = Fraction(min(max(number, 0), 1) if "sat" in parts else number)
        return round_to(exact, exact < 0, target, mode)
    value = value_of(source, word)
    if target[0] in "us":
        return _to_integer(value, target, mode)
    if "ftz" in parts and target != "f16" and abs(value) < _LEAST_F32:  # silicon keeps them on the way to f16
        value = math.copysign(0, value)
    if whole and math.isfinite(value):
        value = math.copysign(float(_to_integral(value, mode)), value)
    if "sat" in parts:
        value = min(value, 1.0) if value > 0 else 0.0
    if target in ("f16", "h16"):
        return round_to(value, math.copysign(1, value) < 0, target, "rn" if whole else mode)
    if math.isnan(value):
        return None
    bits = np.float32(value).view(np.uint32) if target == "f32" else np.float64(value).view(np.uint64)
    return int(bits)
