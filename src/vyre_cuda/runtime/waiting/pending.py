"""Work that has been submitted and may not have finished."""

from __future__ import annotations

from collections.abc import Callable, Generator
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_cuda._native.call.ticket import Ticket
from vyre_cuda._native.core.context import Event, refuse_pickle
from vyre_cuda._native.core.status import AssertReport
from vyre_cuda.errors import KernelTimeoutError
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.runtime.graph.graph import Graph
    from vyre_cuda.runtime.kernel.kernel import Kernel
    from vyre_cuda.runtime.waiting import awaiting
else:
    awaiting = later("vyre_cuda.runtime.waiting.awaiting")

Results: TypeAlias = Any


class Awaitable:
    """Something that can be awaited, once or by several tasks, and passed to `asyncio.create_task` as a coroutine."""

    __slots__ = ("_steps",)

    _steps: dict[Any, Generator[Any, None, Results]]

    if TYPE_CHECKING:  # defined by the subclass

        def __await__(self) -> Generator[Any, None, Results]: ...

    # ---- what a task asks of a coroutine ----------------------------------------------------------------------------

    def send(self, value: Any) -> Any:
        """Go on as a coroutine; for `asyncio`."""
        return self._step(lambda steps: steps.send(value))

    def throw(self, *error: Any) -> Any:
        """Raise an exception where a task waits; for `asyncio`."""
        return self._step(lambda steps: steps.throw(*error))

    def close(self) -> None:
        """Stop waiting; the submitted work continues."""
        for steps in self._own_steps().values():
            steps.close()
        self._steps = {}

    def _step(self, go: Callable[[Generator[Any, None, Results]], Any]) -> Any:
        running = self._own_steps()
        task = import_module("asyncio").current_task()
        steps = running.get(task)
        if steps is None:
            steps = running[task] = self.__await__()
        try:
            return go(steps)
        except BaseException:  # it has ended; StopIteration is one of them
            running.pop(task, None)
            raise

    def _own_steps(self) -> dict[Any, Generator[Any, None, Results]]:
        if not hasattr(self, "_steps"):
            self._steps = {}
        return self._steps


class Pending(Awaitable):
    """A call that was started; made by `Kernel.submit` and `Worker.submit`. Dropping it abandons the result, not the
    kernel."""

    __slots__ = ("_kernel", "_results", "_ticket")

    def __init__(self, ticket: Ticket, results: Results, kernel: Kernel) -> None:
        self._ticket = ticket
        self._results = results
        self._kernel = kernel

    def done(self) -> bool:
        """Whether the kernel has finished, successfully or not."""
        return self._ticket.done()

    def result(self, timeout: float | None = None) -> Results:
        """What the kernel returns.

        Parameters
        ----------
        timeout
            Seconds to wait; None for no limit.

        Returns
        -------
        array or tuple of arrays
            An array, or a tuple of several.

        Raises
        ------
        KernelTimeoutError
            It has not ended; this can be called again.
        ValueError
            The timeout is NaN.
        Error
            Those of the kernel.
        """
        try:
            finished = self._ticket.wait(timeout)
        except AssertReport as report:
            raise self._kernel._assertion(report) from None
        if not finished:
            raise KernelTimeoutError(
                f"kernel {self._kernel.program.name} has not finished after {timeout} s: {self._way_on()}",
                launches=self._kernel.device.context.in_flight(),
            )
        return self._results

    def _way_on(self) -> str:
        """What to do about a call that has not ended in time."""
        return "wait again, or longer"

    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        state = "finished" if self.done() else "not finished"
        return f"<vyre_cuda.Pending of {self._kernel.program.name}, {state}>"

    def __await__(self) -> Generator[Any, None, Results]:
        return awaiting.wait(self._ticket.done, self.result, self._ticket, self._kernel.device.waiter)


class PendingReplay(Awaitable):
    """Made by `Graph.submit`: one replay of a graph, whose end can be polled, waited for and awaited."""

    __slots__ = ("_event", "_graph")

    def __init__(self, event: Event, graph: Graph) -> None:
        self._event = event
        self._graph = graph

    def done(self) -> bool:
        """Whether the replay has ended."""
        return self._event.query()

    def result(self, timeout: float | None = None) -> None:
        """Wait for the replay.

        Parameters
        ----------
        timeout
            Seconds to wait; None for no limit.

        Raises
        ------
        KernelTimeoutError
            It has not ended; this can be called again.
        ValueError
            The timeout is NaN.
        Error
            Those of the replay.
        """
        self._event.synchronize(timeout)

    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        return f"<vyre_cuda.PendingReplay of {self._graph!r}, {self._event!r}>"

    def __await__(self) -> Generator[Any, None, None]:
        return awaiting.wait(self._event.query, self._event.synchronize, self._event, self._graph.device.waiter)
