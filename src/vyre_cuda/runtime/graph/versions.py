"""The driver's graphs of one recording: the one of the steps as they were recorded, and the one with merged steps.

The fused one runs as long as it fits the values of the symbols. Where a replay has others, or where making it failed,
the plain one runs, which is made when it is first needed. Replays of both run one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.core.context import Stream
from vyre_cuda._native.graph.graph import Graph as NativeGraph
from vyre_cuda.errors import CommunicationError, DeviceUnavailableError, Error, RecordingError
from vyre_cuda.later import later
from vyre_cuda.runtime.graph.arena import Arena
from vyre_cuda.runtime.graph.built import Built, Changes
from vyre_cuda.runtime.graph.bundle_graph import Exported
from vyre_cuda.runtime.graph.collective_step import ranks_of
from vyre_cuda.runtime.graph.graph_steps import RepeatStep, Step, kept

if TYPE_CHECKING:
    from vyre_cuda._native.memory.memory import Buffer
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.graph import fusing
    from vyre_cuda.runtime.graph.bundled_plan import BundledPlan
    from vyre_cuda.runtime.graph.fusing import Plan
else:
    fusing = later("vyre_cuda.runtime.graph.fusing")


class Versions:
    """All methods but `node_count` and `last` are called by one thread at a time."""

    def __init__(self, device: Device, steps: Sequence[Step | RepeatStep]) -> None:
        self._device = device
        self._steps = steps
        self.plan: Plan | BundledPlan | None = None
        self.of_bundle: BundledPlan | None = None  # merged steps that came with the graph
        self.note = ""  # why there is no fused graph
        self.current: Built | None = None
        self._fused: Built | None = None
        self._plain: Built | None = None
        self._held: dict[str, Any] = {}  # values of its decisive symbols that it fits, for a bundle
        self._is_outdated = False  # the fused graph lacks updates that it does not fit
        self._pending: set[str] = set()  # symbols that were updated while others had no value

    def wants(self, *, fuse: bool) -> bool:
        """Whether it has not been tried yet to merge steps, and is to be."""
        return fuse and self.plan is None and not self.note

    @property
    def is_behind(self) -> bool:
        """Whether the graph that runs lacks values that were updated."""
        return bool(self._pending)

    def make(self, given: Mapping[str, Any], on: Stream | None, bound: dict[int, Any], *, fuse: bool) -> NativeGraph:
        """The driver's graph for these values."""
        if self.wants(fuse=fuse):
            self._fuse(given, on)
        if self._fused is not None:
            return self._run(self._fused)
        if self._plain is None:
            try:
                self._plain = Built(self._device, self._steps, given, on, bound)
            except BaseException:
                self.note = ""  # what is wrong may not be about fusing
                raise
            bound.clear()
        return self._run(self._plain)

    def _fuse(self, given: Mapping[str, Any], on: Stream | None) -> None:
        if fusing.is_off():
            self.note = f"{fusing.VARIABLE}=off"
            return
        try:
            plan = self.of_bundle or fusing.plan(self._device, self._steps, given)
            if plan.differs:
                fused = Built(self._device, plan.steps, given, on, fixed=plan.fixed)
                if self._plain is not None:
                    fused.native.run_in_turns(self._plain.native)
                self._fused = fused
            self.plan = plan
            self._hold(given)
        except (CommunicationError, DeviceUnavailableError):
            raise
        except (Error, MemoryError, TypeError, ValueError, OverflowError) as error:  # the last three of wrong values
            self.plan = None
            self.note = f"fusing failed: {error}"

    def _hold(self, given: Mapping[str, Any]) -> None:
        if isinstance(self.plan, fusing.Plan):
            self._held = {name: kept(given[name]) for name in sorted(self.plan.decisive)}

    def _run(self, built: Built) -> NativeGraph:
        self.current = built
        return built.native

    # ---- other values -----------------------------------------------------------------------------------------------

    def changed(
        self, names: Collection[str], given: Mapping[str, Any], base: Mapping[str, Any], on: Stream | None
    ) -> tuple[NativeGraph, Changes]:
        """The graph for a replay in which these symbols have other values than `base`, and its changes."""
        current = self.current
        assert current is not None  # it was made
        names = self._pending.union(names)
        if current is self._fused:
            changes = self._fitting(names, given, on)
            if changes is not None:
                return current.native, changes
            current = self._beside({**given, **base}, on)
        return current.native, current.changes(names, given, on)

    def _fitting(self, names: Collection[str], given: Mapping[str, Any], on: Stream | None = None) -> Changes | None:
        """The changes of the fused graph; None where the values do not fit it."""
        assert self._fused is not None
        assert self.plan is not None
        if not self.plan.holds(names, given):
            return None
        try:
            return self._fused.changes(names, given, on)
        except (TypeError, ValueError, OverflowError):
            return None  # the plain graph says what is wrong, in the words of its steps

    def _beside(self, given: Mapping[str, Any], on: Stream | None = None) -> Built:
        if self._plain is None:
            if ranks_of(self._steps):
                raise RecordingError(
                    "the graph has collectives, so it is made once, by all ranks together, and its merged steps do not "
                    "fit these values: record another graph for them, or one without fuse=True"
                )
            made = Built(self._device, self._steps, given, on)
            if self._fused is not None:
                made.native.run_in_turns(self._fused.native)
            self._plain = made
        return self._plain

    def outdate(self, names: Collection[str]) -> None:
        """These symbols have other values from now on, while others have none yet."""
        self._pending.update(names)

    def update(self, names: Collection[str], given: Mapping[str, Any]) -> NativeGraph:
        """The graph for all later replays: these symbols have other values from now on, and all have one."""
        names = self._pending.union(names)
        built = self._updated(names, given)
        self._pending.clear()
        return self._run(built)

    def _updated(self, names: Collection[str], given: Mapping[str, Any]) -> Built:
        if self._fused is None:
            assert self._plain is not None  # it was made
            self._plain.native.update(self._plain.changes(names, given))
            return self._plain
        changes = self._fitting(given.keys() if self._is_outdated else names, given)
        if changes is not None:
            self._fused.native.update(changes)
            self._is_outdated = False
            self._hold(given)
            self._update_beside(names, given)
            return self._fused
        is_new = self._plain is None
        plain = self._beside(given)
        if not is_new:
            plain.native.update(plain.changes(names, given))
        self._is_outdated = True
        return plain

    def _update_beside(self, names: Collection[str], given: Mapping[str, Any]) -> None:
        if self._plain is None:
            return
        try:
            self._plain.native.update(self._plain.changes(names, given))
        except (Error, MemoryError, TypeError, ValueError, OverflowError):
            self._plain = None  # made again when it is needed

    def exported(self) -> Exported:
        """The steps for a bundle. Those of a graph that was loaded from one are as they were recorded."""
        plan = self.plan
        if self._fused is None or not isinstance(plan, fusing.Plan):
            steps, alone = self._placed(self._steps)
            return Exported(steps, (), alone)
        steps, alone = self._placed(plan.steps)
        if not plan.decisive:
            return Exported(steps, plan.made, alone)
        otherwise, more = self._placed(self._steps)
        return Exported(steps, plan.made, [*alone, *more], otherwise, self._held)

    def _placed(self, steps: Sequence[Step | RepeatStep]) -> tuple[list[Step | RepeatStep], list[Buffer]]:
        """The steps with memory for temporary arrays, and this memory."""
        given: dict[Any, Any] = {symbol.name: symbol for step in steps for symbol in step.symbols}
        arena = Arena(self._device, steps)
        given.update(arena.given)
        return [step.copied(given, 0) for step in steps], arena.buffers

    # ---- looking ----------------------------------------------------------------------------------------------------

    def last(self) -> Built | None:
        """The graph that the last replay ran; before the first one, the one that it will run."""
        if self._plain is not None and self._fused is not None:
            for built in (self._plain, self._fused):
                if built.native.info()["ran_last"]:
                    return built
        return self.current

    def runs_fused(self) -> bool:
        """Whether that is the one with merged steps."""
        return self._fused is not None and self.last() is self._fused
