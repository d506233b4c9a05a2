"""Arrays for the tests of algorithms: every type, sizes around tiles, and the values that orders stumble over."""

from __future__ import annotations

import numpy as np

import vyre_cuda as vc

TYPES = [vc.bool_, vc.u8, vc.i8, vc.u16, vc.i16, vc.u32, vc.i32, vc.u64, vc.i64, vc.f16, vc.bf16, vc.f32, vc.f64]
SOME = [vc.bool_, vc.u8, vc.i32, vc.u64, vc.f16, vc.f32, vc.f64]


def drawn(type_: vc.Type, n: int, seed: int = 1) -> np.ndarray:
    """Elements of a type: integers of all sizes, floats of both signs with some zeros of both."""
    rng = np.random.default_rng([seed, n, type_.bits])
    if type_ is vc.bool_:
        return rng.random(n) < 0.5
    if not type_.is_float:
        return np.frombuffer(rng.bytes(n * type_.itemsize), type_.dtype).copy()
    x = (rng.standard_normal(n) * 4).astype(type_.dtype)
    x[rng.random(n) < 0.05] = -0.0
    x[rng.random(n) < 0.05] = 0.0
    return x


def special(type_: vc.Type, n: int, seed: int = 1) -> np.ndarray:
    """The same with infinities and NaNs of both signs."""
    x = drawn(type_, n, seed)
    if type_.is_float and n > 8:
        x[n // 2], x[n // 3], x[n // 4], x[n // 5] = np.inf, -np.inf, np.nan, -np.nan
    return x


def is_real(type_: vc.Type) -> bool:
    """Whether NumPy itself has the type."""
    return type_ is not vc.bf16
