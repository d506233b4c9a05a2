"""Collectives in recorded graphs: which of them are one step, and whether all ranks have recorded the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.collective import collective as native
from vyre_cuda.distributed.elements import TYPES, words_of
from vyre_cuda.errors import CommunicationError, RecordingError
from vyre_cuda.runtime.graph.collective_step import CollectiveStep

if TYPE_CHECKING:
    from vyre_cuda.distributed.communicator import Communicator
    from vyre_cuda.runtime.graph.graph import Graph

_MOST = 1000  # collectives that ranks describe to each other; a digest would not say where they differ


_NO_ORDER = nullcontext()


class _Open(threading.local):
    """The group of this thread: what it has recorded so far, by graph."""

    depth = 0

    def __init__(self) -> None:
        self.parts: dict[Graph, tuple[Communicator, list[tuple[Any, ...]]]] = {}


_open = _Open()


class Group(native.Group):
    """What this thread gives inside a `with` statement begins together at its end, in a recording as one step; after an
    exception nothing does. `order` is held while the work is given, and `explain` gives the error for one of NCCL."""

    def __init__(
        self,
        order: AbstractContextManager[Any] = _NO_ORDER,
        explain: Callable[[str, CommunicationError], CommunicationError] | None = None,
    ) -> None:
        self._order, self._explain = order, explain

    def __enter__(self) -> None:
        super().__enter__()
        _open.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _open.depth = 0 if kind is not None else _open.depth - 1
        recorded = _open.parts
        if _open.depth == 0:
            _open.parts = {}
        with self._order:
            self._give(kind, error, traceback)
        if kind is None and _open.depth == 0:
            for graph, (rank, parts) in recorded.items():
                graph._collectives(CollectiveStep(rank, parts, label(parts)))

    def _give(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, traceback)
        except CommunicationError as failure:
            if self._explain is None:
                raise
            raise self._explain("a group", failure) from None


def record(graph: Graph, rank: Communicator, part: tuple[Any, ...]) -> None:
    """Record one collective, or keep it for the group that this thread has open."""
    if _open.depth == 0:
        graph._collectives(CollectiveStep(rank, [part], label([part])))
        return
    first, parts = _open.parts.setdefault(graph, (rank, []))
    if first is not rank:
        raise RecordingError("a recorded group has collectives of one communicator; record one group for each")
    parts.append(part)


def label(parts: Sequence[tuple[Any, ...]]) -> str:
    texts = [f"{native.KINDS[kind]} of {count} {TYPES[type_]}" for kind, type_, _, _, _, _, count in parts]
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return texts[0] if len(texts) == 1 else f"group of {', '.join(texts[:3])}{more}"


# ---- what ranks compare ----------------------------------------------------------------------------------------------


def described(steps: Sequence[CollectiveStep]) -> list[list[Any]]:
    """Each collective as what the others must have, too: [its words, the other rank of a send or receive]."""
    found: list[list[Any]] = []
    for kind, type_, op, peer, _, _, count in (part for step in steps for part in step.parts):
        if kind in (native.SEND, native.RECEIVE):
            found.append([f"{count} {TYPES[type_]}", native.KINDS[kind], peer])
        else:
            found.append([words_of(kind, type_, op, peer, count)])
    return found[:_MOST] + ([[f"{len(found)} collectives"]] if len(found) > _MOST else [])


def difference(told: Sequence[list[list[Any]]]) -> str:
    """Where ranks have recorded other collectives; empty where they have not."""
    common = [[step[0] for step in steps if len(step) == 1] for steps in told]
    for rank, steps in enumerate(common):
        for place in range(max(len(steps), len(common[0]))):
            mine, first = _at(steps, place), _at(common[0], place)
            if mine != first:
                return f"collective {place + 1} of rank 0 is {first}, and of rank {rank} {mine}"
    for sender in range(len(told)):
        for receiver in range(len(told)):
            sent = [step[0] for step in told[sender] if step[1:] == ["send", receiver]]
            received = [step[0] for step in told[receiver] if step[1:] == ["recv", sender]]
            for place in range(max(len(sent), len(received))):
                if _at(sent, place) != _at(received, place):
                    return (
                        f"rank {sender} sends {_at(sent, place)} to rank {receiver}, which receives "
                        f"{_at(received, place)}"
                    )
    return ""


def _at(words: Sequence[str], place: int) -> str:
    return words[place] if place < len(words) else "none"
