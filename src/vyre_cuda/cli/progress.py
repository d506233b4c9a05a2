"""Reports on stderr what a command is doing, once it takes longer than a second."""

from __future__ import annotations

import time

from vyre_cuda.cli.console import Console

_SILENT_SECONDS = 1.0


class Progress:
    """Prints a line for the stage in which the command has run for a second, and for every later one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begin = time.monotonic()

    def stage(self, what: str) -> None:
        """Begin a stage."""
        seconds = time.monotonic() - self._begin
        if seconds >= _SILENT_SECONDS:
            self._console.note(f"[{seconds:5.1f} s] {what}")
