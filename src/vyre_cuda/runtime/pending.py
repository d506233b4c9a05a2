"""The result of a call that has been submitted and may not have finished."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_cuda._native.status import AssertReport
from vyre_cuda._native.ticket import Ticket
from vyre_cuda.errors import KernelTimeoutError
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.runtime import awaiting
    from vyre_cuda.runtime.kernel import Kernel
else:
    awaiting = later("vyre_cuda.runtime.awaiting")

Results: TypeAlias = Any


class Pending:
    """Made by `Kernel.submit`. Dropping it abandons the result, not the kernel."""

    __slots__ = ("_kernel", "_results", "_ticket")

    def __init__(self, ticket: Ticket, results: Results, kernel: Kernel) -> None:
        self._ticket = ticket
        self._results = results
        self._kernel = kernel

    def done(self) -> bool:
        """Whether the kernel has finished, well or not."""
        return self._ticket.done()

    def result(self, timeout: float | None = None) -> Results:
        """What the kernel returns, waiting at most `timeout` seconds (KernelTimeoutError; it may be asked again)."""
        try:
            finished = self._ticket.wait(timeout)
        except AssertReport as report:
            raise self._kernel._assertion(report) from None
        if not finished:
            raise KernelTimeoutError(
                f"kernel {self._kernel.program.name} has not finished after {timeout} s",
                launches=self._kernel.device.context.in_flight(),
            )
        return self._results

    def __await__(self) -> Generator[Any, None, Results]:
        return awaiting.wait(self, self._ticket, self._kernel.device.waiter).__await__()
