"""The step of a recorded graph that is one or several collectives, which begin together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from vyre_cuda._native.core.context import Stream
from vyre_cuda.records import Record, field
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.temporary import in_place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_cuda._native.collective.collective import Member, Part
    from vyre_cuda.runtime.device.device import Device


class Rank(Protocol):
    """What a step needs of a communicator."""

    device: Device
    _member: Member

    def _agree(self, steps: Sequence[CollectiveStep]) -> None:
        """Returns when all ranks have recorded the same; CommunicationError where they have not."""

    def _explained(self, what: str, error: Any) -> Any:
        """An error of NCCL with the rank that it comes from. What a handler of a signal has raised is raised instead:
        NCCL's call has failed because of it."""


class CollectiveStep(Record, eq=False):
    """Parts are (kind, type, op, peer, what is read, what is written, count); no symbol stands for their arrays, since
    what NCCL makes of them never changes."""

    rank: Rank
    parts: list[tuple[Any, ...]]
    label: str
    symbols: tuple[Symbol, ...] = field(default=(), init=False)

    @property
    def operands(self) -> tuple[Any, ...]:
        return tuple(array for part in self.parts for array in part[4:6] if array is not None)

    def copied(self, given: Mapping[Any, Any], _: int) -> CollectiveStep:
        """A copy for recording the step again."""
        return CollectiveStep(self.rank, self._placed(given), self.label)

    def check(self) -> None:
        """Nothing: it was checked when it was recorded."""

    def bind(self, given: Mapping[Any, Any], stream: Stream | None = None) -> list[Part]:
        return self._placed(given)

    def _placed(self, given: Mapping[Any, Any]) -> list[Any]:
        return [(*p[:4], in_place(p[4], given), in_place(p[5], given), p[6]) for p in self.parts]


def ranks_of(steps: Sequence[Any]) -> dict[Rank, list[CollectiveStep]]:
    """The collectives of each communicator, in order."""
    found: dict[Rank, list[CollectiveStep]] = {}
    for step in steps:
        if isinstance(step, CollectiveStep):
            found.setdefault(step.rank, []).append(step)
    return found
