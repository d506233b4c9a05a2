"""What `merge` takes and gives: recorded launches, and why some stay apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from enum import Enum

from vyre_cuda.errors import Error
from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.core.nodes import Source
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.records import FrozenRecord


class Kind(Enum):
    """Why steps are not merged."""

    OPTIONS = "options"
    LAUNCH = "launch"
    STATEMENT = "statement"
    RETURN = "return"
    OVERLAP = "overlap"
    VIEW = "view"
    ELEMENT = "element"
    UNKNOWN = "unknown"
    CLEAR = "clear"
    PRECISION = "precision"
    SIZE = "size"


class Refused(Error):
    """The steps stay apart; the message says why, `kind` in a word.

    `fit`: of more steps than these, from the first on, the same would be said; 0: it is not known.
    """

    code = "merge"

    def __init__(self, message: str, kind: Kind, fit: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.fit = fit


class Span(FrozenRecord):
    """Memory of an array: the allocation, the first byte, the extents. Arrays with equal ones are the same array."""

    memory: int
    first: int
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)


class Options(FrozenRecord):
    """What a kernel is compiled with."""

    precision: str = "ieee"
    bounds: str = "check"
    max_ulp: float | None = None


class Step(FrozenRecord):
    """A recorded launch: a valid program, the memory of its buffers, and its geometry.

    `scalars` has a key for each scalar: scalars of one type with equal keys have the same value at each replay.
    `origins` are the programs that it was made of, each with its place in the source.
    """

    program: Program
    spans: Mapping[str, Span]
    scalars: Mapping[str, Hashable]
    geometry: Geometry
    options: Options = Options()
    origins: tuple[tuple[str, Source | None], ...] = ()

    @property
    def made_of(self) -> tuple[tuple[str, Source | None], ...]:
        return self.origins or ((self.program.name, self.program.source or _first_source(self.program)),)

    def lines(self) -> str:
        """Where its programs are, for messages, each once: `scale (a.py:3) 2 times, shift (a.py:9)`."""
        counts = Counter(f"{name} ({at[0]}:{at[1]})" if at else name for name, at in self.made_of)
        return ", ".join(f"{text} {count} times" if count > 1 else text for text, count in counts.items())


def _first_source(program: Program) -> Source | None:
    return next((s.source for s in statements(program.body) if s.source), None)
