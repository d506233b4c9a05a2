"""The program that this thread is building from a function: what `vc.barrier()` and the like add to."""

from __future__ import annotations

import threading
from typing import Any

from vyre_cuda.errors import ProgramError


class _Now(threading.local):
    """What runs now, innermost last; each has the methods of a Builder."""

    def __init__(self) -> None:
        self.running: list[Any] = []


_now = _Now()


def running(what: str) -> Any:
    """The innermost, to which `what` belongs. ProgramError outside kernel functions."""
    if not _now.running:
        raise ProgramError(f"vc.{what} outside a kernel: it belongs into a function decorated with @vc.kernel")
    return _now.running[-1]


def is_running() -> bool:
    """Whether a function of kernels runs on this thread."""
    return bool(_now.running)


class Running:
    """A with-statement in which `builder` is what runs."""

    __slots__ = ("_builder",)

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def __enter__(self) -> None:
        _now.running.append(self._builder)

    def __exit__(self, *_: object) -> None:
        _now.running.pop()
