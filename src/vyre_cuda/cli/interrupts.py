"""Ctrl-C that Python meets where nothing may be raised, as in the callbacks of its import locks."""

from __future__ import annotations

import signal
import sys
import threading
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
    raised = threading.Event()

    def hook(unraisable: UnraisableHookArgs) -> None:
        nonlocal raised
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            raised = threading.Event()
            threading.Thread(target=_repeat, args=(raised,), daemon=True).start()
        else:
            before(unraisable)

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if not _is_within(frame, hook.__code__):  # where it would be lost as well
            raised.set()
            raise KeyboardInterrupt

    sys.unraisablehook = hook
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        raised.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = before


def _repeat(raised: threading.Event) -> None:
    """Signal the main thread until it has raised."""
    main = threading.main_thread().ident
    while main is not None and not raised.wait(_INTERVAL):
        signal.pthread_kill(main, signal.SIGINT)  # ends a sleep too


def _is_within(frame: FrameType | None, code: CodeType) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
