"""Turns the report of a failed check into its error. Kept apart from the kernel, which it may outlive, and from
the device, so that the device's streams can hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from vyre_cuda._native.core.status import AssertReport
from vyre_cuda.cache.lru import LRU
from vyre_cuda.errors import Error, InternalError
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.core.lowered import Lowered
    from vyre_cuda.ir.call import call as calls
    from vyre_cuda.runtime.kernel import races, unwritten
else:
    calls = later("vyre_cuda.ir.call.call")
    races = later("vyre_cuda.runtime.kernel.races")
    unwritten = later("vyre_cuda.runtime.kernel.unwritten")

_KEPT = 1024


class Checks:
    """The checks of one kernel by number."""

    __slots__ = ("__weakref__", "_lowered", "program", "sites")

    def __init__(self, program: Program, lowered: Lowered) -> None:
        self.program = program
        self.sites = lowered.sites
        # The PTX text is needed to explain what the emulator found, and it is large.
        self._lowered = lowered if any(site.kind in ("race", "unwritten") for site in lowered.sites) else None

    def error(self, report: AssertReport) -> Error:
        """The error for the check that failed, with its text, place and thread."""
        number, thread = report.report & 0xFFFFF, report.report >> 20
        site = self.sites[number]
        if self._lowered is not None and site.kind == "race":
            return races.race_error(self.program, self._lowered, report.index)
        if self._lowered is not None and site.kind == "unwritten":
            return unwritten.unwritten_error(self.program, self._lowered, report.index, thread)
        if site.kind == "assert":
            before = sum(other.kind == "assert" for other in self.sites[:number])
            return calls.assertion_error(self.program, before, thread)
        return calls.failure(
            self.program,
            site.message,
            statement=site.statement,
            source=site.source,
            thread=thread,
            index=signed_index(report.index),
        )


class ChecksByTag:
    """The checks of every live kernel and of those compiled last: a report may outlive its kernel."""

    def __init__(self) -> None:
        self._living: WeakValueDictionary[int, Checks] = WeakValueDictionary()
        self._recent: LRU[Checks] = LRU(_KEPT)

    def add(self, tag: int, checks: Checks) -> None:
        """Nothing is kept for a kernel without checks."""
        if checks.sites:
            self._living[tag] = self._recent.setdefault(tag, checks)

    def error(self, report: AssertReport) -> Error:
        """The error for a check that an asynchronous launch failed."""
        checks = self._living.get(report.tag)
        return InternalError(str(report)) if checks is None else checks.error(report)


def signed_index(index: int) -> int:
    """Indices are reported sign-extended to 64 bits."""
    return index - (1 << 64) if index >> 63 else index
