"""What every curve is measured with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import vyre_cuda as vc
from harness.curves.clock import Clock, WrongResult

# A way, and how it is measured: nanoseconds of a call, of each sample.
Measure: TypeAlias = tuple[str, Callable[[], list[float]]]


@dataclass(slots=True)
class Bench:
    """`steps` of the kernel that runs for a while: as many as were enough so far, and `most_steps` at most."""

    device: vc.Device
    clock: Clock
    most_steps: int
    steps: int = 1 << 14


# The measurements of a curve at so many items; what they share is there as long as the iterator is.
Measures: TypeAlias = Callable[[Bench, int], Iterator[Measure]]


def check(way: str, found: object, expected: object) -> None:
    """WrongResult unless they are equal."""
    if found != expected:
        raise WrongResult(f"{way}: {found}, not {expected}")
