"""Ctrl-C that Python meets where nothing may be raised, as in the callbacks of its import locks."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

# Seconds: at once, it would be met by this very hook, where nothing may be raised either.
_LATER = 0.01


@contextmanager
def repeated() -> Iterator[None]:
    """A KeyboardInterrupt that a callback or a `__del__` would swallow is raised again behind it."""
    before = sys.unraisablehook

    def hook(unraisable: UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            again = threading.Timer(_LATER, _interrupt)
            again.daemon = True
            again.start()
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt() -> None:
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # ends a sleep too
