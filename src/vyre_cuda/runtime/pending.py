"""The result of a call that has been submitted and may not have finished."""

from __future__ import annotations

from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any, TypeAlias

from vyre_cuda._native.plan import Ticket
from vyre_cuda._native.status import AssertReport
from vyre_cuda.errors import Error, KernelTimeoutError

Results: TypeAlias = Any


class Pending:
    """Made by `Kernel.submit`. Dropping it abandons the result, not the kernel."""

    __slots__ = ("_explain", "_name", "_results", "_ticket")

    def __init__(self, ticket: Ticket | None, results: Results, name: str, explain: Callable[[AssertReport], Error]):
        self._ticket = ticket
        self._results = results
        self._name = name
        self._explain = explain

    def done(self) -> bool:
        """Whether the kernel has finished, well or not."""
        return self._ticket is None or self._ticket.done()

    def result(self, timeout: float | None = None) -> Results:
        """What the kernel returns, waiting at most `timeout` seconds (KernelTimeoutError; it may be asked again)."""
        if self._ticket is None:
            return self._results
        nanoseconds = -1 if timeout is None else max(int(timeout * 1e9), 0)
        try:
            finished = self._ticket.wait(nanoseconds)
        except AssertReport as report:
            raise self._explain(report) from None
        if not finished:
            raise KernelTimeoutError(f"kernel {self._name} has not finished after {timeout} s")
        return self._results

    def __await__(self) -> Generator[Any, None, Results]:
        awaiting: Generator[Any, None, Results] = import_module("vyre_cuda.runtime.awaiting").poll(self).__await__()
        return awaiting
