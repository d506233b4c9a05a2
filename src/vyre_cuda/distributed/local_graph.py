"""Graphs of several devices of one process that are recorded, made and replayed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.collective.collective import CLOSED
from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda._native.graph import graph as native
from vyre_cuda._native.memory.adopted import named_stream
from vyre_cuda.distributed.recording import described, difference
from vyre_cuda.errors import CommunicationError, RecordingError
from vyre_cuda.runtime.graph.collective_step import ranks_of

if TYPE_CHECKING:
    from vyre_cuda.distributed.local import LocalCommunicator
    from vyre_cuda.runtime.graph.graph import Graph


class LocalGraph:
    """One graph for each device of a group; made by `LocalCommunicator.record`, in a `with` statement.

    Inside the `with` block, what this thread gives to the devices is recorded, in `graphs`, by rank. `replay()`
    launches all of them, or none where one of them cannot be launched.
    """

    def __init__(self, comm: LocalCommunicator, *, fuse: bool = False) -> None:
        self._comm = comm
        self.graphs: tuple[Graph, ...] = tuple(device.record(fuse=fuse) for device in comm.devices)
        self._recording = ExitStack()
        self._is_agreed = False
        for graph in self.graphs:
            graph._group = self

    def __enter__(self) -> LocalGraph:
        with ExitStack() as entered:
            for graph in self.graphs:
                entered.enter_context(graph)
            self._recording = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recording.__exit__(kind, error, trace)

    # ---- replaying --------------------------------------------------------------------------------------------------

    def replay(self, *, stream: Sequence[Any] | None = None, **symbols: Any) -> None:
        """Launch the graphs of all devices and do not wait. The first replay makes them, once for good.

        Parameters
        ----------
        stream
            A stream for each device; None for call order.
        **symbols
            Values for this replay, by name; a list has one for each device.

        Raises
        ------
        RecordingError
            The graphs are still being recorded, or a stream is named in a recording.
        CommunicationError
            The devices have not recorded the same collectives, or the communicator was ended.
        TypeError, ValueError, OverflowError
            As for `Graph.replay`; nothing was launched then. A replay that would need other graphs is such a value.
        """
        if self._comm._is_closing:
            raise ValueError(CLOSED)
        if stream is None and not symbols:
            built = self._built()
            if built is not None:
                with self._comm._order:
                    native.launch_together(built, None, None)
                return
        streams = [None] * self._comm.size if stream is None else self._comm._one_each("replay", "stream", stream)
        given = [self._of(rank, symbols) for rank in range(self._comm.size)]
        if any(graph.device._recorder() is not None for graph in self.graphs):
            for graph, on, values in zip(self.graphs, streams, given, strict=True):
                graph._replay(on, values)
            return
        with self._comm._order:
            self._make(given)
            self._launch(streams, given)

    def compile(self) -> None:
        """Make the driver's graphs, and the kernels of merged steps, which the first replay would do otherwise.

        Raises
        ------
        RecordingError
            The graphs are still being recorded, or a symbol has no value yet.
        CommunicationError
            The devices have not recorded the same collectives.
        """
        self._agree()
        with self._comm._order:
            self._comm._threads.run([graph.compile for graph in self.graphs])

    def update(self, **symbols: Any) -> None:
        """Set symbols for all later replays.

        Parameters
        ----------
        **symbols
            Values by name; a list has one for each device.

        Raises
        ------
        TypeError, ValueError, OverflowError
            As for `Graph.update`.
        """
        for rank, graph in enumerate(self.graphs):
            graph.update(**self._of(rank, symbols))

    # ---- looking ----------------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """What became of each step on each device; they are compiled first if need be.

        Returns
        -------
        str
            Lines of text.

        Raises
        ------
        Error
            Those of `compile`.
        """
        self.compile()
        return "\n".join(f"{graph.device.properties.label}:\n{graph.explain()}" for graph in self.graphs)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the symbols that `replay` takes."""
        return tuple(sorted({name for graph in self.graphs for name in graph.symbols}))

    def __repr__(self) -> str:
        return f"<vyre_cuda.distributed.LocalGraph of {', '.join(repr(graph) for graph in self.graphs)}>"

    __reduce_ex__ = refuse_pickle

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _of(self, rank: int, symbols: dict[str, Any]) -> dict[str, Any]:
        """The values for one device: those of the symbols that it has, and of those that none has."""
        unknown = symbols.keys() - set(self.symbols)
        names = (set(self.graphs[rank].symbols) | unknown) & symbols.keys()
        return {name: self._one(rank, name, symbols[name]) for name in names}

    def _one(self, rank: int, name: str, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        return self._comm._one_each("replay", name, value)[rank]

    def _agree(self) -> None:
        if self._is_agreed:
            return
        for graph in self.graphs:
            graph._check_recorded()
        found = [ranks_of(graph._steps) for graph in self.graphs]
        for rank in range(self._comm.size):
            other = [one for one in found[rank] if one is not self._comm.ranks[rank]]
            if other:
                raise RecordingError(
                    "the graphs have collectives of another group; record them with record() of that one"
                )
        why = difference([described(found[rank].get(one, [])) for rank, one in enumerate(self._comm.ranks)])
        if why:
            raise CommunicationError(f"the devices have recorded other collectives in these graphs: {why}")
        self._is_agreed = True

    def _make(self, given: Sequence[dict[str, Any]]) -> None:
        """All at once: NCCL may keep what one makes until the others make theirs."""
        if all(graph._native is not None for graph in self.graphs):
            return
        self._agree()
        for rank in self._comm.ranks:  # what would keep one device from taking part, before another waits for it
            rank._member.check()

        def made(graph: Graph, values: dict[str, Any]) -> Callable[[], None]:
            known = graph._given(values)
            return lambda: graph._build_once({**known, **graph._values}, None)

        self._comm._threads.run([made(*each) for each in zip(self.graphs, given, strict=True)])

    def _built(self) -> list[native.Graph] | None:
        """What a replay without values simply launches; None where there is more to do."""
        found = []
        for graph in self.graphs:
            built = graph._native
            if built is None or len(graph._users) > len(graph._values) or graph.device.context.recordings != 0:
                return None
            found.append(built)
        return found

    def _launch(self, streams: Sequence[Any], given: Sequence[dict[str, Any]]) -> None:
        built, changes, on = [], [], []
        with ExitStack() as entered:
            for graph, stream, values in zip(self.graphs, streams, given, strict=True):
                entered.enter_context(graph._lock)  # all steps see the symbols of the same moment
                entered.enter_context(graph._watched(values))
                on.append(named_stream(graph.device.context, stream))
                ready = graph._ready(on[-1], values)
                built.append(ready[0])
                changes.append(ready[1])
            native.launch_together(built, changes, on)
