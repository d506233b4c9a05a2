"""Ctrl-C that Python meets where nothing may be raised, as in the callbacks of its import locks."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_INTERVAL = 0.01  # seconds


@contextmanager
def repeated() -> Iterator[None]:
    """A KeyboardInterrupt that a callback or a `__del__` would swallow is raised again behind it.

    Only where Ctrl-C has Python's own meaning and this is the main thread, which alone gets it.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    before = sys.unraisablehook
    repeats: list[_Repeat] = []
    is_ending = False

    def hook(unraisable: UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            repeat = _Repeat()
            threading.Thread(target=repeat.run, daemon=True).start()
            repeats.append(repeat)
        else:
            before(unraisable)

    def end() -> None:
        nonlocal is_ending
        is_ending = True
        while repeats:
            repeats.pop().end()
        is_ending = False

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if not is_ending and not _is_within(frame, hook.__code__):  # where it would be lost as well
            end()
            raise KeyboardInterrupt

    sys.unraisablehook = hook
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        end()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = before


class _Repeat:
    """Signals to the main thread until one of them has raised."""

    def __init__(self) -> None:
        self._raised = threading.Event()
        self._has_ended = False

    def run(self) -> None:
        main = threading.main_thread().ident
        while main is not None and not self._raised.wait(_INTERVAL):
            signal.pthread_kill(main, signal.SIGINT)  # ends a sleep too
        self._has_ended = True

    def end(self) -> None:
        """When this returns to the main thread, it has got all signals. A join could wait for a lock that a signal
        found it with."""
        self._raised.set()
        while not self._has_ended:
            time.sleep(_INTERVAL)
        time.sleep(0)  # what was sent last is there by the end of a system call


def _is_within(frame: FrameType | None, code: CodeType) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
