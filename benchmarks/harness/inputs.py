"""Input sets of every task, drawn from one seed, so that Python, the twins and the peers work on the same numbers.

Calls rotate among the sets. `expected` is rounded after the product and after the sum, which is what the kernels of
this package do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.counts import Counts

BLOCK = 256  # threads

Floats = npt.NDArray[np.float32]

# Of the magnitudes that were added, for a kernel that contracts product and sum to one rounding.
_CONTRACTED = 2e-7


@dataclass(frozen=True, slots=True)
class InputSet:
    """`a` is a Python float that f32 holds exactly; `y` is empty in tasks of one array; `result` is memory for a host
    result. `slack` is how far a kernel that contracts may be from `expected`.
    """

    x: Floats
    y: Floats
    a: float
    expected: Floats
    result: Floats
    slack: Floats

    def is_exactly(self, values: Floats) -> bool:
        """Whether the values are the expected bits."""
        return bool(np.array_equal(values.view(np.uint32), self.expected.view(np.uint32)))

    def is_about(self, values: Floats) -> bool:
        """Whether the values are those of a kernel that may contract; NaN is not."""
        return bool(np.all(np.abs(values - self.expected) <= self.slack))


def saxpy_sets(seed: int, counts: Counts) -> list[InputSet]:
    """out = a * x + y."""
    return [_saxpy_set(x, y, a) for x, y, a in _draw(seed, counts)]


def select_sets(seed: int, counts: Counts) -> list[InputSet]:
    """out = a * x + y where x > 0, else 0, which the kernel does not write."""
    sets = []
    for x, y, a in _draw(seed, counts):
        s = _saxpy_set(x, y, a)
        expected = np.where(x > 0, s.expected, np.float32(0))
        sets.append(InputSet(x, y, s.a, expected, s.result, s.slack))
    return sets


def chain_sets(seed: int, counts: Counts) -> list[InputSet]:
    """y = a * x + y, `counts.nodes` times."""
    sets = []
    for x, y, a in _draw(seed, counts)[: counts.chains]:
        product, value = a * x, y
        for _ in range(counts.nodes):
            value = product + value
        slack = counts.nodes * _CONTRACTED * (np.abs(product) * counts.nodes + np.abs(y))
        sets.append(InputSet(x, y, float(a), value, _nothing(x.size), slack))
    return sets


def scale_sets(seed: int, counts: Counts) -> list[InputSet]:
    """out = a * x, on large arrays."""
    generator = np.random.default_rng(seed)
    sets = []
    for _ in range(counts.large_sets):
        x, a = _normal(generator, counts.large_elements), np.float32(generator.uniform(0.5, 4.0))
        sets.append(_alone(x, float(a), a * x))
    return sets


def copy_sets(seed: int, counts: Counts) -> list[InputSet]:
    """out = x, on arrays that are larger than every cache."""
    generator = np.random.default_rng(seed)
    draws = (_normal(generator, counts.copy_elements) for _ in range(counts.copy_sets))
    return [_alone(x, 1.0, x) for x in draws]


def write_sets(path: Path, sets: Sequence[InputSet], *, inputs: int) -> None:
    """The file that the C programs read: a, the first inputs and expected of each set, as f32."""
    with path.open("wb") as file:
        for s in sets:
            for part in (np.array([s.a], np.float32), *(s.x, s.y)[:inputs], s.expected):
                part.tofile(file)


def _draw(seed: int, counts: Counts) -> list[tuple[Floats, Floats, np.float32]]:
    """Normally distributed inputs of both signs."""
    generator = np.random.default_rng(seed)
    return [
        (
            _normal(generator, counts.elements),
            _normal(generator, counts.elements),
            np.float32(generator.uniform(0.5, 4.0)),
        )
        for _ in range(counts.sets)
    ]


def _saxpy_set(x: Floats, y: Floats, a: np.float32) -> InputSet:
    product = a * x
    slack = _CONTRACTED * (np.abs(product) + np.abs(y))
    return InputSet(x, y, float(a), product + y, _nothing(x.size), slack)


def _alone(x: Floats, a: float, expected: Floats) -> InputSet:
    """A task of one array and at most one rounding."""
    nothing = np.zeros(0, np.float32)
    return InputSet(x, nothing, a, expected, _nothing(x.size), np.zeros(1, np.float32))


def _normal(generator: np.random.Generator, elements: int) -> Floats:
    return generator.standard_normal(elements, dtype=np.float32)


def _nothing(elements: int) -> Floats:
    return np.full(elements, np.nan, np.float32)
