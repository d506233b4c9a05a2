"""Input sets of the saxpy tasks: out = a * x + y.

A run draws them from one seed, so that Python, the twins and the peers work on the same numbers. Calls rotate among
the sets. `expected` is rounded after the product and after the sum, which is what the kernel of this package does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

ELEMENTS = 1024  # 4 KiB of f32
SETS = 16
BLOCK = 256  # threads

Floats = npt.NDArray[np.float32]

# Of |a * x| + |y|, for a kernel that contracts to one rounding.
_CONTRACTED = 2e-7


@dataclass(frozen=True, slots=True)
class InputSet:
    """`a` is a Python float that f32 holds exactly; `result` is memory for a host result."""

    x: Floats
    y: Floats
    a: float
    expected: Floats
    result: Floats

    def is_exactly(self, values: Floats) -> bool:
        """Whether the values are the expected bits."""
        return bool(np.array_equal(values.view(np.uint32), self.expected.view(np.uint32)))

    def is_about(self, values: Floats) -> bool:
        """Whether the values are those of a kernel that may contract; NaN is not."""
        scale = np.abs(np.float32(self.a) * self.x) + np.abs(self.y)
        return bool(np.all(np.abs(values - self.expected) <= _CONTRACTED * scale))


def input_sets(seed: int, *, sets: int = SETS, elements: int = ELEMENTS) -> list[InputSet]:
    """Normally distributed inputs of both signs."""
    generator = np.random.default_rng(seed)
    return [_input_set(generator, elements) for _ in range(sets)]


def _input_set(generator: np.random.Generator, elements: int) -> InputSet:
    x = generator.standard_normal(elements, dtype=np.float32)
    y = generator.standard_normal(elements, dtype=np.float32)
    a = np.float32(generator.uniform(0.5, 4.0))
    return InputSet(x, y, float(a), a * x + y, np.full(elements, np.nan, np.float32))


def write_sets(path: Path, sets: list[InputSet]) -> None:
    """The file that raw_driver reads: a, x, y and expected of each set, as f32."""
    parts = [part for s in sets for part in (np.array([s.a], np.float32), s.x, s.y, s.expected)]
    np.concatenate(parts).tofile(path)
