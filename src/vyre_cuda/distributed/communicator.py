"""A group of ranks as one of them sees it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.collective import collective as native
from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda.distributed import recording
from vyre_cuda.distributed.elements import combined_type, moved, op_of, part_of, rank_of, require, require_size
from vyre_cuda.errors import CommunicationError, Error, KernelTimeoutError, RecordingError
from vyre_cuda.runtime.graph.graph_steps import kept
from vyre_cuda.runtime.graph.temporary import Temporary

if TYPE_CHECKING:
    from vyre_cuda._native.collective.collective import Member
    from vyre_cuda.distributed.one_shot import OneShot
    from vyre_cuda.distributed.watching import Watcher
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.graph.collective_step import CollectiveStep
    from vyre_cuda.runtime.graph.graph import Graph
    from vyre_cuda.runtime.memory.array import DeviceArray

# Seconds that work may need to end when an exception leaves the group: others may never be given what it waits for.
AFTER_EXCEPTION = 5.0


class Communicator:
    """A rank of a group; made by `vc.distributed.join`.

    Every rank must call the same methods in the same order, with arrays of the same dtypes and sizes. A method gives
    its work to the device in call order, or to `stream=`, and returns; `device.synchronize()` or `array.numpy()` waits.
    Without `out=` the result is in the array itself. In a recording of the device they are steps of the graph; then all
    ranks must record the same ones, and replay their graphs in the same order. It is also a context manager that closes
    it.
    """

    def __init__(
        self, device: Device, member: Member, watcher: Watcher, one_shot: OneShot | None = None, refusal: str = ""
    ) -> None:
        self.device = device
        self._member, self._watcher, self._one_shot, self._refusal = member, watcher, one_shot, refusal
        self._graphs = 0  # that ranks have compared

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self._member.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._member.size

    @property
    def small(self) -> int:
        """Up to so many bytes an `all_reduce` goes in one shot over the devices' memory, without NCCL."""
        return 0 if self._one_shot is None else self._one_shot.limit

    @property
    def small_refusal(self) -> str:
        """Why `small` is 0; empty where it is not."""
        if self._one_shot is None:
            return self._refusal
        return "" if self._one_shot.limit else "NCCL is as fast for every size, or small=0 was given"

    # ---- collectives ------------------------------------------------------------------------------------------------

    def all_reduce(
        self, x: DeviceArray, op: str = "add", out: DeviceArray | None = None, *, stream: Any = None
    ) -> DeviceArray:
        """The combination of all ranks' arrays, on every rank.

        Parameters
        ----------
        x
            The array of this rank.
        op
            "add", "multiply", "min" or "max".
        out
            An array of the same size and dtype for the result; None for `x` itself.
        stream
            A stream; None for call order.

        Returns
        -------
        DeviceArray
            `out`, or `x`.

        Raises
        ------
        TypeError, ValueError
            Arrays that do not fit, or of another device; or the communicator was closed.
        CommunicationError
            The communicator was ended: a rank is gone or late.
        RecordingError
            In a recording, a stream is named; or the group is that of `local`, and its `record` was not used.
        """
        number = op_of("all_reduce", op)
        require("all_reduce", "x", x)
        result = x if out is None else require("all_reduce", "out", out, x)
        if out is not None:
            require_size("all_reduce", "out", out, x.size, "as x has")
        type_ = combined_type("all_reduce", x)
        if self._one_shot is not None and x.nbytes <= self._one_shot.limit:
            self._one_shot.prepare(x.type, type_, op, number)
        self._run(native.ALL_REDUCE, type_, number, 0, x, result, x.size, stream)
        return result

    def all_gather(self, x: DeviceArray, out: DeviceArray | None = None, *, stream: Any = None) -> DeviceArray:
        """All ranks' arrays, one after the other, on every rank.

        Parameters
        ----------
        x
            The array of this rank; without `out`, an array for all, in which this rank's part has been written.
        out
            An array of `size` times as many elements.
        stream
            A stream; None for call order.

        Returns
        -------
        DeviceArray
            `out`, or `x`.

        Raises
        ------
        TypeError, ValueError, CommunicationError, RecordingError
            As for `all_reduce`.
        """
        require("all_gather", "x", x)
        if out is None:
            result, part = x, part_of("all_gather", x, self.size)
            x = self._part(x, part)
        else:
            result, part = require("all_gather", "out", out, x), x.size
            require_size("all_gather", "out", out, part * self.size, f"those of {self.size} ranks")
        type_, count = moved(x, part)
        self._run(native.ALL_GATHER, type_, 0, 0, x, result, count, stream)
        return result

    def reduce_scatter(
        self, x: DeviceArray, op: str = "add", out: DeviceArray | None = None, *, stream: Any = None
    ) -> DeviceArray:
        """This rank's part of the combination of all ranks' arrays.

        Parameters
        ----------
        x
            The array of this rank, with a part for each rank.
        op
            "add", "multiply", "min" or "max".
        out
            An array for the part; None for this rank's part of `x`.
        stream
            A stream; None for call order.

        Returns
        -------
        DeviceArray
            `out`, or a view of the part of `x`.

        Raises
        ------
        TypeError, ValueError, CommunicationError, RecordingError
            As for `all_reduce`.
        """
        number = op_of("reduce_scatter", op)
        require("reduce_scatter", "x", x)
        part = part_of("reduce_scatter", x, self.size)
        result = self._part(x, part) if out is None else require("reduce_scatter", "out", out, x)
        require_size("reduce_scatter", "out", result, part, f"a part of x for {self.size} ranks")
        type_ = combined_type("reduce_scatter", x)
        self._run(native.REDUCE_SCATTER, type_, number, 0, x, result, part, stream)
        return result

    def broadcast(
        self, x: DeviceArray, root: int = 0, out: DeviceArray | None = None, *, stream: Any = None
    ) -> DeviceArray:
        """The array of rank `root`, on every rank.

        Parameters
        ----------
        x
            The array of this rank; only that of `root` is read.
        root
            The rank whose array it is.
        out
            An array for the result; None for `x` itself.
        stream
            A stream; None for call order.

        Returns
        -------
        DeviceArray
            `out`, or `x`.

        Raises
        ------
        TypeError, ValueError, CommunicationError, RecordingError
            As for `all_reduce`.
        """
        require("broadcast", "x", x)
        result = x if out is None else require("broadcast", "out", out, x)
        require_size("broadcast", "out", result, x.size, "as x has")
        type_, count = moved(x, x.size)
        self._run(native.BROADCAST, type_, 0, rank_of("broadcast", root, self.size), x, result, count, stream)
        return result

    def all_to_all(self, x: DeviceArray, out: DeviceArray | None = None, *, stream: Any = None) -> DeviceArray:
        """Part i of every rank's array, on rank i, by rank.

        Parameters
        ----------
        x
            The array of this rank, with a part for each rank.
        out
            An array of the same size; None for `x` itself, which is copied first.
        stream
            A stream; None for call order.

        Returns
        -------
        DeviceArray
            `out`, or `x`.

        Raises
        ------
        TypeError, ValueError, CommunicationError, RecordingError
            As for `all_reduce`.
        """
        require("all_to_all", "x", x)
        part = part_of("all_to_all", x, self.size)
        result = x if out is None else require("all_to_all", "out", out, x)
        require_size("all_to_all", "out", result, x.size, "as x has")
        source = x.copy() if out is None else x
        type_, count = moved(x, part)
        self._run(native.ALL_TO_ALL, type_, 0, 0, source, result, count, stream)
        return result

    def send(self, x: DeviceArray, to: int, *, stream: Any = None) -> None:
        """Send an array to another rank, which calls `recv`.

        Parameters
        ----------
        x
            The array.
        to
            The rank.
        stream
            A stream; None for call order.

        Raises
        ------
        TypeError, ValueError, CommunicationError, RecordingError
            As for `all_reduce`.
        """
        type_, count = moved(require("send", "x", x), x.size)
        self._run(native.SEND, type_, 0, rank_of("send", to, self.size), x, None, count, stream)

    def recv(self, x: DeviceArray, source: int, *, stream: Any = None) -> DeviceArray:
        """Receive an array of the same size and dtype that another rank sends.

        Parameters
        ----------
        x
            The array that is written.
        source
            The rank.
        stream
            A stream; None for call order.

        Returns
        -------
        DeviceArray
            `x`.

        Raises
        ------
        TypeError, ValueError, CommunicationError, RecordingError
            As for `all_reduce`.
        """
        type_, count = moved(require("recv", "x", x), x.size)
        self._run(native.RECEIVE, type_, 0, rank_of("recv", source, self.size), None, x, count, stream)
        return x

    def group(self) -> recording.Group:
        """Collectives of this thread inside the `with` statement begin together at its end: sends and receives of a
        ring, say, which would wait for each other one by one. After an exception none of them begins. In a recording
        they are one step.

        Returns
        -------
        context manager
            For a `with` statement.
        """
        return recording.Group(explain=self._explained)

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for the device's work and leave the group. Graphs that have its collectives end before; their replays
        are refused from then on. Closing again does nothing. NCCL's memory stays until all ranks of the machine have
        left, for which this waits some seconds.

        Raises
        ------
        ValueError
            It is called by a handler of a signal inside a call of the communicator: an exception ends that.
        """
        self._member.check_close()
        self._watcher.close(self._member)
        if self._one_shot is not None and not self._member.is_closed:
            self._one_shot.leave()
        session = self._watcher.session
        with nullcontext() if session is None else session.telling(self._member.left):
            self._member.close()

    @property
    def is_closed(self) -> bool:
        """Whether this rank has left the group."""
        return self._member.is_closed

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is not None and not self.is_closed:
                self._give_up()
        finally:
            self.close()

    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        return f"<vyre_cuda.distributed.Communicator rank {self.rank} of {self.size} on {self.device.properties.label}>"

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """After an exception: work that has not ended soon is ended."""
        with suppress(Error):  # of work before, which its waits have told
            try:
                self.device.synchronize(AFTER_EXCEPTION)
            except KernelTimeoutError:
                self._member.abort("an exception left the group, with work that had not ended")

    def _run(
        self,
        kind: int,
        type_: int,
        op: int,
        peer: int,
        source: DeviceArray | None,
        out: DeviceArray | None,
        count: int,
        stream: Any,
    ) -> None:
        graph = self.device._recorder()
        if graph is not None:
            self._record(graph, (kind, type_, op, peer, source, out, count), stream)
            return
        try:
            self._member.run(kind, type_, op, peer, source, out, count, stream)
        except CommunicationError as error:
            raise self._explained(native.KINDS[kind], error) from None

    def _record(self, graph: Graph, part: tuple[Any, ...], stream: Any) -> None:
        what = native.KINDS[part[0]]
        if stream is not None:
            raise RecordingError(f"{what}: a recorded collective cannot have a stream of its own; replay() takes one")
        if self._watcher.session is None and graph._group is None:
            raise RecordingError(
                f"{what}: the graphs of several devices of one process are recorded and replayed together; use "
                "record() of the group instead of that of the device"
            )
        source, out = kept(part[4]), kept(part[5])
        is_placed = not isinstance(source, Temporary) and not isinstance(out, Temporary)
        self._member.check((*part[:4], source, out, part[6]) if is_placed else None)
        recording.record(graph, self, (*part[:4], source, out, part[6]))

    def _agree(self, steps: Sequence[CollectiveStep]) -> None:
        session, watcher = self._watcher.session, self._watcher
        assert session is not None  # else the group compares what its devices have recorded
        self._graphs += 1
        name = f"graph {watcher.number}.{self._graphs}"
        told = session.gather(name, recording.described(steps), watcher.limit, "to replay a graph with collectives")
        why = recording.difference(told)
        if why:
            raise CommunicationError(f"the ranks have recorded other collectives in this graph: {why}")

    def _explained(self, what: str, error: CommunicationError) -> CommunicationError:
        native.raise_interruption()
        return self._watcher.explained(self._member, what, error)

    def _part(self, x: DeviceArray, part: int) -> DeviceArray:
        return x._flat(self.rank * part, (self.rank + 1) * part)
