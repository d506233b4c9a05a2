"""A process that works on seeds, and says at every moment what it does; started by watching.py.

    python -m tests.support.watched.child MODULE:FUNCTION ARGUMENT FOLDER PARENT ANSWERS

The function makes a Work of the argument. Lines of JSON come by the standard input: seeds, and the request to look
around, which a thread of its own answers, because the one that works may be what has stopped. Answers go to the file
descriptor ANSWERS. In FOLDER are `now`, what the process does and since when; `python`, where SIGUSR1 writes the Python
stacks of all threads; `c`, where SIGUSR2 writes the C stack of the thread that works; and `look`.

The process ends with its parent: by a signal of the kernel, and because its standard input ends.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

NOW_BYTES = 512
WAITS, ANSWERS = "waits for seeds", "answers"  # steps that take as long as the parent likes
_SET_PDEATHSIG, _SET_PTRACER = 1, 0x59616D61  # of prctl
_FRAMES = 100


class Work(Protocol):
    """What a process can do."""

    def one(self, seed: int, tell: Callable[[str], None]) -> tuple[Counter[str], str, bool]:
        """What was counted, what is wrong, and whether this process can go on. `tell` hears what comes next."""

    def look(self, write: Callable[[str], None]) -> None:
        """Write what can be found out while the other thread has stopped. Any step of it may never end."""


class Now:
    """What a process does: written in place, so that it is there whatever becomes of the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._count = 0
        self.seed: int | None = None
        self.tell("begins")

    def tell(self, step: str, since: float | None = None) -> None:
        self._count += 1
        since = time.monotonic() if since is None else since
        now = {"seed": self.seed, "step": step, "since": since, "count": self._count}
        os.pwrite(self._file, json.dumps(now).encode().ljust(NOW_BYTES), 0)


def end_with_parent(parent: int) -> None:
    """Have this process end with the one that started it, from its main thread."""
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)  # debuggers may attach that are no ancestors
    if os.getppid() != parent:
        os._exit(1)


def write_stacks(folder: Path) -> Any:
    """Have both signals write stacks. The result must live as long as the process."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, open(folder / "python", "w"), all_threads=True, chain=False)  # noqa: SIM115
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "backtrace_symbols_fd"):
        return None
    frames = (ctypes.c_void_p * _FRAMES)()
    libc.backtrace(frames, _FRAMES)  # what it loads is loaded now
    file = os.open(folder / "c", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def handler(_: int) -> None:
        libc.backtrace_symbols_fd(frames, libc.backtrace(frames, _FRAMES), file)

    libc.signal.argtypes = [ctypes.c_int, type(handler)]
    libc.signal(signal.SIGUSR2, handler)
    return handler


def listen(folder: Path, tasks: queue.SimpleQueue[list[int]], works: list[Work]) -> None:
    """Take what the parent says; without a parent there is nothing to do."""
    for line in sys.stdin:
        message = json.loads(line)
        if "seeds" in message:
            tasks.put(message["seeds"])
        elif works:
            with open(folder / "look", "a", buffering=1) as file:
                works[0].look(lambda text, file=file: print(text, file=file))  # type: ignore[misc]
    os._exit(0)


def main(name: str, argument: str, folder_name: str, parent: str, answers: str) -> None:
    end_with_parent(int(parent))
    folder = Path(folder_name)
    kept = write_stacks(folder)
    now = Now(folder / "now")
    works: list[Work] = []
    tasks: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(folder, tasks, works), name="listener", daemon=True).start()

    def answer(**what: Any) -> None:
        os.write(int(answers), json.dumps(what).encode() + b"\n")

    module, function = name.split(":")
    works.append(getattr(importlib.import_module(module), function)(argument, now.tell))
    while True:
        now.seed = None
        now.tell(WAITS)
        answer(free=True)
        for seed in tasks.get():
            now.seed = seed
            counts, why, goes_on = works[0].one(seed, now.tell)
            now.tell(ANSWERS)
            answer(seed=seed, counts=counts, why=why)
            if not goes_on:
                os._exit(0)
    del kept


if __name__ == "__main__":
    main(*sys.argv[1:])
