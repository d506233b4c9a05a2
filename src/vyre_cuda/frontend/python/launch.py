"""Runs a function for each thread of a launch, with the arguments and results of `vc.evaluate`."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable

import numpy as np

from vyre_cuda.frontend.python.running import Ended, GpuThread, Lane, Meeting, RunningScope
from vyre_cuda.frontend.python.threads import Member, Team
from vyre_cuda.interp.evaluate import buffers, shared
from vyre_cuda.interp.lanes import Lanes
from vyre_cuda.ir.builder.scopes import running
from vyre_cuda.ir.call.call import Call, failure
from vyre_cuda.ir.core.nodes import Assert, Barrier, GridBarrier, Warp
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.ir.semantics.elementwise import Array

# Host threads that wait for each other at a grid barrier.
_MOST_THREADS = 4096


class Launch:
    """One launch of `program`: `enter` makes what the function needs on each host thread, `body` is the function.

    The first thread that fails an assertion, in the order of the threads, is the one that is reported.
    """

    def __init__(self, call: Call, scope: RunningScope, body: Callable[[], None]) -> None:
        self._call = call
        self._program = call.program
        self._scope = scope
        self._body = body
        self._memory = buffers(call)
        self._failed: tuple[int, Assert] | None = None

    def run(self) -> Array | tuple[Array, ...]:
        """The results. Raises what the function raises, and KernelAssertionError for an assertion that fails."""
        kinds = {type(statement) for statement in statements(self._program.body)}
        blocks = range(self._call.geometry.blocks)
        with np.errstate(all="ignore"):
            if GridBarrier in kinds:
                self._require_few(blocks)
                self._run_team(blocks)
            else:
                for block in blocks:
                    if kinds.isdisjoint((Barrier, Warp)):
                        self._run_alone(block)
                    else:
                        self._run_team(range(block, block + 1))
                    self._raise_failure()
        self._raise_failure()
        return self._call.deliver({name: m.data.view(m.type.dtype) for name, m in self._memory.items()})

    def _run_alone(self, block: int) -> None:
        """One thread after the other, all on this host thread."""
        for thread in self._threads(block):
            self._scope.turn(thread)
            self._run_thread(thread)

    def _run_team(self, blocks: range) -> None:
        team = self._scope.team = Team()
        threads = [self._threads(block) for block in blocks]
        turns: dict[Member, GpuThread] = {}
        for thread in (thread for block in threads for thread in block):
            thread.member = team.add(lambda thread=thread: self._run_thread(thread))  # type: ignore[misc]
            turns[thread.member] = thread
        meeting = Meeting(self._program, self._call.geometry, threads)
        try:
            team.run(lambda member: self._scope.turn(turns[member]), meeting.release)
        finally:
            self._scope.team = None

    def _run_thread(self, thread: GpuThread) -> None:
        before, running.scope = running.scope, self._scope
        try:
            self._body()
        except Ended:
            assert thread.execution.failure is not None
            number = thread.scope.lanes.first_thread
            if self._failed is None or number < self._failed[0]:
                self._failed = number, thread.execution.failure.statement
        finally:
            running.scope = before

    def _threads(self, block: int) -> list[GpuThread]:
        """The threads of a block, which share its arrays."""
        lanes = Lanes(self._call.geometry, block, 1)
        memory = ChainMap({**self._memory, **shared(self._program, lanes)}, self._scope.tables)
        return [
            GpuThread(self._program, Lane(lanes, number), self._call.scalars, memory) for number in range(lanes.count)
        ]

    def _require_few(self, blocks: range) -> None:
        count = len(blocks) * self._call.geometry.threads_per_block
        if count > _MOST_THREADS:
            raise ValueError(
                f"{self._program.name}: {count} threads meet at a grid barrier; as Python, where each one is a thread "
                f"of the host, at most {_MOST_THREADS} can"
            )

    def _raise_failure(self) -> None:
        if self._failed is None:
            return
        thread, failed = self._failed
        here = [
            (statement.source == failed.source, at)
            for at, statement in enumerate(statements(self._program.body))
            if isinstance(statement, Assert) and statement.message == failed.message
        ]
        at = max(here, default=(False, 0))[1]
        raise failure(self._program, failed.message, statement=at, source=failed.source, thread=thread)
