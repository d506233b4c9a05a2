"""Numbers on which rules are tried: all of 8 bits, edges and random ones of more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np

from tests.unit.terms_rules.meaning import Array, Numbers
from vyre_cuda.ir.core.types import Type


def all_of_8_bits(names: tuple[str, ...], type_: Type) -> Iterator[Numbers]:
    """Every combination, 2^16 at a time."""
    every = np.arange(256, dtype=np.uint8).view(type_.dtype)
    last = {name: every.reshape([-1 if axis == i else 1 for axis in range(2)]) for i, name in enumerate(names[-2:])}
    for fixed in product(range(256), repeat=max(len(names) - 2, 0)):
        yield {**last, **{name: every[at : at + 1, None] for name, at in zip(names, fixed, strict=False)}}


def edges(type_: Type) -> list[int]:
    """Numbers around which ops change what they do, as bits."""
    width, top = type_.bits, 1 << type_.bits
    near = {0, 1, 2, 3, 5, 7, 10, width - 1, width, width + 1, top - 1, top - 2, top - 3}
    near |= {(1 << k) + d for k in (width // 4, width // 2, width - 2, width - 1) for d in (-1, 0, 1)}
    return sorted(number % top for number in near)


def some(names: tuple[str, ...], type_: Type, seed: int, count: int) -> Numbers:
    """Numbers of all sizes, and pairs that conditions ask for: counts that make up the width, parts of others."""
    rng = np.random.default_rng(seed)
    top, unsigned = (1 << type_.bits) - 1, np.dtype(f"u{type_.itemsize}")
    found: dict[str, Array] = {}
    for name in names:
        shift = rng.integers(0, type_.bits, count, dtype=np.uint64)
        wide = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> (np.uint64(64 - type_.bits) + shift)
        signs = rng.integers(0, 2, count).astype(np.bool_)
        at_edge = rng.choice(np.array(edges(type_), np.uint64), count)
        chosen = np.where(rng.integers(0, 3, count) == 0, at_edge, np.where(signs, wide, (~wide) & np.uint64(top)))
        found[name] = np.where(
            rng.integers(0, 4, count) == 0, rng.integers(0, type_.bits + 1, count, dtype=np.uint64), chosen
        )
    for one, other in pairwise(names):
        kind = rng.integers(0, 6, count)
        mask = found[other]
        found[one] = np.where(kind == 0, found[one] & mask, found[one])
        found[one] = np.where(kind == 1, found[one] & ~mask, found[one])
    if {"a", "b"} <= set(names):
        rest = (np.uint64(type_.bits) - found["a"]) & np.uint64(top)
        found["b"] = np.where(rng.integers(0, 2, count) == 0, rest, found["b"])
    return {name: (each & np.uint64(top)).astype(unsigned).view(type_.dtype) for name, each in found.items()}
