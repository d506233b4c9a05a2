"""Operands on which the functions of f64 are hard: where reductions, borders and cancellations are.

The same name, count and seed give the same operands.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from vyre_cuda.functions.coefficients_f64 import TWO_OVER_PI_BITS
from vyre_cuda.ir.core.types import f64
from vyre_cuda.testing.edges import EDGES

Array = np.ndarray[Any, np.dtype[Any]]
Generator = np.random.Generator

# Intervals in which something happens; operands are spread evenly over them.
LIVE: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-746, 710), (-1, 1), (-745.2, -708), (709, 709.8)),
    "exp2": ((-1076, 1025), (-1, 1), (-1075, -1021), (1023, 1024)),
    "expm1": ((-40, 710), (-1, 1), (0.3, 0.4), (-0.4, -0.3), (30, 40)),
    "log": ((0.5, 2), (0.99, 1.01), (0.7, 0.72), (1.4, 1.42), (0, 100)),
    "log2": ((0.5, 2), (0.99, 1.01), (0.7, 0.72), (1.4, 1.42), (0, 100)),
    "log10": ((0.5, 2), (0.99, 1.01), (0.7, 0.72), (1.4, 1.42), (0, 100)),
    "log1p": ((-1, 1), (-0.3, -0.28), (0.41, 0.42), (-1, 100), (-1, -0.99)),
    "sin": ((-10, 10), (-0.8, 0.8), (-1e6, 1e6), (-(2.0**31), 2.0**31)),
    "cos": ((-10, 10), (-0.8, 0.8), (-1e6, 1e6), (-(2.0**31), 2.0**31)),
    "tan": ((-10, 10), (-0.8, 0.8), (-1e6, 1e6), (-(2.0**31), 2.0**31)),
    "arcsin": ((-1, 1), (0.49, 0.51), (-0.51, -0.49), (0.99, 1)),
    "arccos": ((-1, 1), (0.49, 0.51), (-0.51, -0.49), (0.99, 1)),
    "arctan": ((-4, 4), (0.41, 0.42), (-2.42, -2.41), (0.9, 1.1)),
    "sinh": ((-711, 711), (-3, 3), (-30, 30), (0.34, 0.4), (710, 710.5)),
    "cosh": ((-711, 711), (-3, 3), (-30, 30), (0.34, 0.4), (710, 710.5)),
    "tanh": ((-22, 22), (-1, 1), (0.1, 0.4)),
    "arcsinh": ((-4, 4), (0.2, 0.5), (-1e3, 1e3)),
    "arccosh": ((1, 2), (1, 20), (1, 1.1), (1, 1e3)),
    "arctanh": ((-1, 1), (0.19, 0.22), (-1, -0.99), (0.3, 0.35)),
    "cbrt": ((-8, 8), (0.7, 1.5), (2.8, 2.9)),
    "erf": ((-6.5, 6.5), (0.8, 1.1), (-1, 1)),
    "rsqrt": ((0.25, 4.25), (0, 100)),
    "sigmoid": ((-746, 40), (-2, 2), (-40, 40), (-746, -708)),
}
_ENDS = (
    709.782712893384,
    -708.3964185322641,
    -745.1332191019412,
    710.4758600739439,
    -744.4400719213812,
    36.7368,
    5.9215,
)
_PLACES = (1.0, -1.0, 0.5, -0.5, 0.875, 2.0, 2.0**28, 2.0**30, 2.0**-28, 2.0**-27, 2.0**-54, 2.0**-60, 1e22)
_STEPS = np.arange(-3, 4)


def operands(name: str, arity: int, count: int, seed: int) -> list[Array]:
    """About `count` operands in columns, in no order."""
    rng = np.random.default_rng(seed)
    columns = [_hard_one(name, count, rng)] if arity == 1 else list(_hard_two(name, count, rng))
    order = rng.permutation(columns[0].size)
    return [column[order] for column in columns]


def _hard_one(name: str, count: int, rng: Generator) -> Array:
    points = np.concatenate([_neighbors(np.array([*_ENDS, *_PLACES])), _near_powers(rng)])
    if name in ("sin", "cos", "tan"):
        points = np.concatenate([points, _quarter_turns(rng)])
    points = np.concatenate([points, -points, _edges()])
    left = max(count - points.size, 0)
    live = LIVE[name]
    spread = [rng.uniform(low, high, left // (2 * len(live))) for low, high in live]
    return np.concatenate([points, *spread, _any_bits(left // 4, rng), _magnitudes(left // 4, -60, 60, rng)])


def _hard_two(name: str, count: int, rng: Generator) -> tuple[Array, Array]:
    edges = _edges()
    pairs = np.array(list(itertools.product(range(edges.size), repeat=2)))
    if pairs.shape[0] > count // 4:
        pairs = rng.permutation(pairs)[: count // 4]
    part = max(count - pairs.shape[0], 0) // 6
    firsts = [edges[pairs[:, 0]], _any_bits(part, rng), _magnitudes(part, -3, 3, rng)]
    seconds = [edges[pairs[:, 1]], _any_bits(part, rng), _magnitudes(part, -3, 3, rng)]
    with np.errstate(all="ignore"):
        if name == "power":
            bases = np.abs([
                _magnitudes(part, -1074, 1023, rng), _magnitudes(part, -3, 3, rng), 1 + _magnitudes(part, -53, -2, rng)
            ])  # fmt: skip
            firsts += [*bases, np.trunc(rng.uniform(-40, 40, part))]
            seconds += [
                *(rng.uniform(-746, 711, bases.shape) / np.log(bases)),
                np.trunc(rng.uniform(-99, 99, part)) / 2,
            ]
        else:
            for ratio in (
                _magnitudes(part, -60, 60, rng),
                rng.uniform(-3, 3, part),
                1 + _magnitudes(part, -52, -1, rng),
            ):
                other = _magnitudes(part, -1074, 1023, rng)
                firsts.append(other * ratio)
                seconds.append(other)
            firsts.append(_magnitudes(part, -1074, 1023, rng))
            seconds.append(_magnitudes(part, -1074, 1023, rng))
    return np.concatenate(firsts), np.concatenate(seconds)


# ---- places ---------------------------------------------------------------------------------------------------------


def _neighbors(values: Array) -> Array:
    """The values and the three floats on either side of each."""
    bits = np.asarray(values, np.float64).view(np.int64)
    return (bits[:, None] + _STEPS).ravel().view(np.float64)


def _edges() -> Array:
    return np.array(EDGES[f64], np.uint64).view(np.float64)


def _near_powers(rng: Generator) -> Array:
    """Around powers of two and of ten, and their halves by the square root, where logarithms and roots are cut."""
    powers = 2.0 ** rng.integers(-1022, 1023, 60)
    tens = 10.0 ** rng.integers(-300, 300, 40)
    return _neighbors(np.concatenate([powers, powers * np.sqrt(0.5), powers + powers / 2, tens]))


def _quarter_turns(rng: Generator) -> Array:
    """Multiples of pi/2 of every size, and of each exponent from 2^52 on those numbers that are nearest to one.

    The fraction of 2^e 2/pi is near p/q for a convergent p/q of its continued fraction, so q 2^e is near a multiple.
    """
    multiples = _neighbors(np.trunc(2.0 ** rng.uniform(0, 53, 200)) * (np.pi / 2))
    bits = 32 * len(TWO_OVER_PI_BITS)
    whole = int.from_bytes(np.array(TWO_OVER_PI_BITS, ">u4").tobytes(), "big")
    nearest = []
    for exponent in range(971):
        above, below = 1 << bits, (whole << exponent) & ((1 << bits) - 1)
        older, newer = 0, 1
        while below and older + (above // below) * newer < 1 << 53:
            older, newer = newer, older + (above // below) * newer
            above, below = below, above % below
        nearest += [float(older) * 2.0**exponent, float(newer) * 2.0**exponent]
    return np.concatenate([multiples, nearest])


# ---- spreads --------------------------------------------------------------------------------------------------------


def _any_bits(count: int, rng: Generator) -> Array:
    return rng.integers(0, 2**64 - 1, count, np.uint64, endpoint=True).view(np.float64)


def _magnitudes(count: int, low: int, high: int, rng: Generator) -> Array:
    """Of either sign, the exponents from `low` to below `high` evenly."""
    values = np.ldexp(rng.uniform(1, 2, count), rng.integers(low, high, count).astype(np.int32))
    return np.asarray(values * rng.choice([-1.0, 1.0], count))
