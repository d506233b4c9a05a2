"""Recording launches, copies and fills in a graph, and replaying it as one launch."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from vyre_cuda._native.core.context import Stream, refuse_pickle
from vyre_cuda._native.graph import graph as native
from vyre_cuda._native.memory.adopted import event_on, named_stream, order_stream
from vyre_cuda.bundles.graphs import RecordedGraph
from vyre_cuda.bundles.write import bundle
from vyre_cuda.errors import CommunicationError, DeviceUnavailableError, RecordingError, counted
from vyre_cuda.later import later
from vyre_cuda.runtime.base.completion import without
from vyre_cuda.runtime.base.range_names import REPLAY
from vyre_cuda.runtime.graph.bundle_graph import recorded_graph
from vyre_cuda.runtime.graph.collective_step import ranks_of
from vyre_cuda.runtime.graph.dot import dot
from vyre_cuda.runtime.graph.graph_steps import RepeatStep, kept
from vyre_cuda.runtime.graph.recorder import Recorder
from vyre_cuda.runtime.kernel.runs import Timed
from vyre_cuda.runtime.waiting.pending import PendingReplay

if TYPE_CHECKING:
    from vyre_cuda.runtime.graph import explained
    from vyre_cuda.runtime.graph.built import Changes
    from vyre_cuda.runtime.graph.bundled_plan import BundledPlan
else:
    explained = later("vyre_cuda.runtime.graph.explained")

_Given = TypeVar("_Given")


class Graph(Recorder):
    """Recorded work that is launched as a whole; made by `Device.record`, in a `with` statement.

    Inside the `with` block, launches, copies and fills that this thread gives to the device are recorded and not run.
    Afterwards `replay()` runs them with the effect of running one after the other; steps that share no memory that
    either writes may run at the same time. Replaying another graph records the steps of that one. The graph keeps what
    it uses alive. len() is the number of steps.
    """

    # ---- recording --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Graph:
        if self._state != "new":
            raise RecordingError("a graph can be recorded only once: record another one, of device.record()")
        self.device._begin_recording(self)
        self.device.context.count_recording(1)
        self._end = weakref.finalize(self, self.device.context.count_recording, -1)
        self._end.atexit = False
        self._state = "recording"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self.is_recording:
            raise RecordingError("the recording of this graph has ended: record another one, of device.record()")
        assert self._end is not None  # it is recording
        self._state = "discarded"
        self._end()
        if kind is not None or self._open:
            self._steps.clear()
            self._users.clear()
        if kind is not None:
            return
        if self._open:
            raise RecordingError(
                f"{self._open[-1]} is still open at the end of the recording; "
                "its `with` block must end inside the recording"
            )
        if not self._missing() and not self._fuse and not self._communicates:
            self._build_once(self._values, None)
        self._extent = counted(len(self._steps), "step")
        self._state = "recorded"

    is_recording = Recorder.is_recording
    repeat = Recorder.repeat
    temporary = Recorder.temporary
    download = Recorder.download

    # ---- replaying --------------------------------------------------------------------------------------------------

    replay = native.replay

    def _replay(self, stream: Any, symbols: Mapping[str, Any]) -> None:
        """A replay that is not simply the launch of the built graph."""
        if self.device.context.recordings != 0 and self._record_replay(stream, symbols):
            return
        with self._watched(symbols):
            self._launched(native.Graph.launch, stream, symbols)

    def _watched(self, symbols: Mapping[str, Any]) -> AbstractContextManager[object]:
        """Around the launch of a replay, for profilers; traces are told where this is called."""
        watch = self.device._watch
        if watch.traces:
            watch.note(f"replay of {self._extent}", (), (), symbols)
        return watch.profiled(REPLAY, self._extent)

    def _launched(self, launch: Callable[..., _Given], stream: Any, symbols: Mapping[str, Any]) -> _Given:
        """The result of launching native.Graph, with the changes that these symbols make."""
        on = named_stream(self.device.context, stream)
        built = self._native  # another thread may fuse the graph
        if not symbols and built is not None and not self._missing():
            return launch(built, [], on)
        with self._lock:  # steps that change and those that stay see the symbols of the same moment
            built, changes = self._ready(on, symbols)
            return launch(built, changes, on)

    def _ready(self, on: Stream | None, symbols: Mapping[str, Any]) -> tuple[native.Graph, Changes]:
        """The driver's graph, and the changes that these symbols make."""
        given = self._given(symbols)
        if self._native is None or self._versions.wants(fuse=self._fuse):
            # Values given for this replay are not seen by others.
            self._build_once({**given, **self._values}, on)
        names = self._users.keys() - self._values.keys() | symbols.keys()
        return self._versions.changed(names, given, self._values, on)

    def submit(self, *, stream: Any = None, **symbols: Any) -> PendingReplay:
        """Replay, and return what waits for this replay.

        It ends with all work given so far to the stream or, in call order, to the device.

        Parameters
        ----------
        stream
            As for `replay`.
        **symbols
            Values for this replay, by name.

        Returns
        -------
        PendingReplay
            A PendingReplay with `done()`, `result(timeout)` and `await`.

        Raises
        ------
        RecordingError
            The thread is recording.
        Error
            Those of `replay`.
        """
        self.device._refuse_in_recording("submit()")
        context = self.device.context
        on = named_stream(context, order_stream(context) if stream is None else stream)
        self.replay(stream=stream, **symbols)
        assert on is not None  # one is named
        return PendingReplay(event_on(context, on), self)

    def timed(self, *, stream: Any = None, **symbols: Any) -> Timed:
        """Replay, wait and measure; counted with the timed calls of the device.

        Parameters
        ----------
        stream
            As for `replay`.
        **symbols
            Values for this replay, by name.

        Returns
        -------
        Timed
            Times without outputs. `device_ns` is the time between events of the stream right around the graph, so it
            begins when what the stream was given before has ended.

        Raises
        ------
        RecordingError
            The thread is recording.
        ValueError
            The stream is being captured; nothing was launched then.
        Error
            Those of the replay.
        """
        self.device._refuse_in_recording("timed()")
        with self._watched(symbols):
            begin = perf_counter_ns()
            start, stop = self._launched(native.Graph.launch_between, stream, symbols)
            submitted = perf_counter_ns()
            stop.synchronize()
            end = perf_counter_ns()
        times = {
            "wall_ns": end - begin,
            "enqueue_ns": submitted - begin,
            "wait_ns": end - submitted,
            "device_ns": round(stop.elapsed_ms(start) * 1e6),
        }
        self.device.context.count_timing(**times)
        return Timed(outputs=None, **times)

    def update(self, **symbols: Any) -> None:
        """Set symbols for all later replays; a replay uses either all old values or all new ones.

        Parameters
        ----------
        **symbols
            Values by name.

        Raises
        ------
        RecordingError
            The graph was not recorded, or is still being recorded.
        TypeError, ValueError, OverflowError
            An unknown symbol, or a value that does not fit its steps; then nothing has changed.
        """
        self._check_recorded()
        self._check_known(symbols)
        with self._lock:
            values = {**self._values, **{name: kept(value) for name, value in symbols.items()}}
            if self._native is None or self._users.keys() - values.keys():
                self._check_bound(symbols, values)
                self._versions.outdate(symbols)
            else:
                self._native = self._versions.update(symbols, values)
            self._values = values
            self._note_settable()

    # ---- building ---------------------------------------------------------------------------------------------------

    def fuse(self) -> None:
        """Let launches in a row become one kernel, as with `device.record(fuse=True)`.

        The kernels are compiled now, if all symbols have values, else by the first replay. Results stay the same in
        every byte that is specified; `explain` says what became of each step. Where merged kernels cannot be made, the
        graph runs as it was recorded; with `VYRE_CUDA_FUSE=off` it always does.

        Raises
        ------
        RecordingError
            The graph is still being recorded, or has collectives and was made already.
        Error
            Those of `compile`.
        """
        self._check_recorded()
        with self._lock:
            if self._communicates and self._native is not None and not self._fuse:
                raise RecordingError("the graph has collectives and has already been made: record it with fuse=True")
            self._fuse = True
            self._note_settable()
            if not self._missing():
                self._build_once(self._values, None)

    def compile(self) -> None:
        """Make the driver's graph, and the kernels of merged steps, which the first replay would do otherwise.

        Raises
        ------
        RecordingError
            The graph is still being recorded, or a symbol has no value yet.
        Error
            Those of `Device.compile` and of the driver, for the graph as it was recorded.
        """
        self._check_recorded()
        with self._lock:
            if self._missing():
                missing = ", ".join(sorted(self._users.keys() - self._values.keys()))
                raise RecordingError(f"no value is known for {missing}; the first replay compiles the graph")
            self._build_once(self._values, None)

    def _merge_as(self, plan: BundledPlan) -> None:
        """Run the steps of the plan where they do what the recorded ones would; of a graph recorded to be fused."""
        self._versions.of_bundle = plan
        if not self._missing():
            self._build_once(self._values, None)

    def _build_once(self, given: Mapping[str, Any], on: Stream | None) -> None:
        with self._lock:
            if self._native is None or self._versions.wants(fuse=self._fuse):
                if self._communicates:
                    self._agree()
                try:
                    self._native = self._versions.make(given, on, self._bound, fuse=self._fuse)
                except CommunicationError as error:
                    rank = next(iter(ranks_of(self._steps)))
                    raise rank._explained("a graph with collectives", error) from None
                self._note_settable()

    def _agree(self) -> None:
        """Ranks that have recorded other collectives are told so, where NCCL would wait for ever."""
        if self._group is None:
            for rank, steps in ranks_of(self._steps).items():
                rank._agree(steps)

    def _note_settable(self) -> None:
        """Note whether replays with values can simply be launched."""
        self._is_behind = self._versions.is_behind or self._versions.wants(fuse=self._fuse)

    # ---- bundles ----------------------------------------------------------------------------------------------------

    def export(
        self,
        path: str | os.PathLike[str],
        name: str,
        *,
        targets: Sequence[str] | None = None,
        source: bool = True,
        cubins: bool | None = None,
    ) -> None:
        """Write the graph and its kernels to a bundle.

        Merged steps are written as merged, once they are compiled. If symbols stand for their arrays or decide how many
        threads they have, the bundle has the recorded steps too: they run where arrays have other sizes, or share
        memory in another way. Arrays that are not symbols, and defaults of symbols, are included: with their contents
        where a step reads them before one writes them.

        Parameters
        ----------
        path
            The file.
        name
            The graph's name in it.
        targets
            Such as "sm_90"; None for the target of the device.
        source, cubins
            Those of `vc.bundle`.

        Raises
        ------
        RecordingError
            The graph was not recorded, or is still being recorded.
        ValueError
            No step is a launch, or another mistake that `vc.bundle` names.
        UnsupportedError
            What a file cannot hold: copies from and to host memory, and kernels that were loaded.
        CompileError, OSError
            As for `vc.bundle`.
        """
        bundle(
            (),
            path,
            graphs={name: self},
            targets=[str(self.device.target)] if targets is None else targets,
            source=source,
            cubins=cubins,
        )

    def bundled(self) -> RecordedGraph:
        """The graph as stored in a bundle; used by `vc.bundle`."""
        self._check_recorded()
        with self._lock:
            return recorded_graph(self._versions.exported(), self._values)

    # ---- looking ----------------------------------------------------------------------------------------------------

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the symbols that `replay` takes."""
        return tuple(sorted(self._users))

    @property
    def node_count(self) -> int:
        """Nodes of the driver's graph that the last replay ran, or the first one will; 0 before one is made.

        They include unrolled repetitions and clears of outs.
        """
        last = self._versions.last()
        return 0 if last is None else last.node_count()

    def explain(self) -> str:
        """What became of each step: which are one kernel, which are not, and why; and how many nodes the driver has.

        Returns
        -------
        str
            Lines of text. They are about the graph that the last replay ran; it is compiled first if need be.

        Raises
        ------
        RecordingError
            The graph is still being recorded, or was not replayed and a symbol has no value.
        Error
            Those of `compile`.
        """
        self._check_recorded()
        if self._native is None:
            self.compile()
        with self._lock:
            return explained.explained(self._steps, self._versions, fuse=self._fuse)

    def dot(self) -> str:
        """The nodes and their dependencies in the DOT language: `dot -Tsvg` draws them.

        Returns
        -------
        str
            The text, about the graph that the last replay ran.

        Raises
        ------
        RecordingError
            The graph is still being recorded, or the driver's graph is not made yet: replay it, or compile it.
        """
        self._check_recorded()
        last = self._versions.last()
        if last is None:
            raise RecordingError("the graph is built at its first replay, or by compile() if its symbols have values")
        return dot(last.native.nodes(), last.labels)

    def __len__(self) -> int:
        return sum(not isinstance(step, RepeatStep) for step in self._steps)

    __dir__ = without("bundled")
    __reduce_ex__ = refuse_pickle

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        parts = [counted(len(self), "step")]
        if self._native is not None:
            with suppress(DeviceUnavailableError):
                parts.append(counted(self.node_count, "node"))
        if self._users:
            parts.append(f"symbols {', '.join(self.symbols)}")
        if self._state != "recorded":
            parts.append(self._state)
        return f"<vyre_cuda.Graph {', '.join(parts)}>"
