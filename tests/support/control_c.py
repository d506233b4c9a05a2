"""Ctrl-C that a program sends to itself while its main thread waits."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable


def take_interrupts() -> None:
    """Ctrl-C raises KeyboardInterrupt, also where the shell that started the program has it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def seconds_to_end(wait: Callable[[], object]) -> float | None:
    """How long after Ctrl-C the wait ended by it; None: it ended by itself."""
    return _sent(wait)[1]


def interrupted(wait: Callable[[], object]) -> KeyboardInterrupt | None:
    """What ended the wait after Ctrl-C; None: it ended by itself."""
    return _sent(wait)[0]


def _sent(wait: Callable[[], object]) -> tuple[KeyboardInterrupt | None, float | None]:
    ready = threading.Event()
    sent = took = ended_by = None

    def interrupt() -> None:
        nonlocal sent
        ready.wait()
        time.sleep(0.1)  # most often it waits by then
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        ready.set()
        wait()
    except KeyboardInterrupt as error:
        ended_by, took = error, time.monotonic() - (sent or 0.0)
    thread.join()
    return ended_by, took
