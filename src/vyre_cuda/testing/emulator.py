"""Controls the emulator from tests: stream modes, limits, injected failures, and counts of live objects.

The functions act on the emulator library of this process, which is the one that `Device("emulator")` uses.
"""

from __future__ import annotations

import ctypes
import difflib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir

StreamMode = Literal["eager", "threaded", "lazy"]
STREAM_MODES: tuple[StreamMode, ...] = ("eager", "threaded", "lazy")

# Objects that the driver holds for a client; all counts must be zero once every device is closed.
LIVE = ("allocations", "pinned", "modules", "streams", "events", "graphs", "execs", "links", "user_objects", "contexts")
_COUNTED = (*LIVE, "bytes", "pinned_bytes", "instructions", "launches", "calls")  # besides driver functions
SETTINGS = (
    "stream_mode",
    "memory_limit",
    "host_limit",
    "quarantine_bytes",
    "delay_us",
    "held",
    "driver_version",
    "device_count",
    "peer_access",
    "queue_depth",
    "refuse_line",
    "lost",
)


class Emulator:
    """The emulator of this process, to be steered: what each key means is in csrc/emulator/control.h."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(Path(get_library_dir()) / EMULATOR_LIBRARY))
        self._set = library.vyre_emulator_set
        self._set.argtypes = [ctypes.c_char_p, ctypes.c_int64]
        self._fail = library.vyre_emulator_fail
        self._fail.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32]
        self._reset = library.vyre_emulator_reset
        self._count = library.vyre_emulator_count
        self._count.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)]

        self._function = library.vyre_emulator_function
        self._function.argtypes = [ctypes.c_uint64]
        self._function.restype = ctypes.c_char_p

    def functions(self) -> list[str]:
        """The driver functions; each can be counted and made to fail."""
        names = itertools.takewhile(bool, map(self._function, itertools.count()))
        return [name.decode() for name in names]

    def set(self, key: str, value: int) -> None:
        """Set a mode or a limit, for all devices of the process.

        Parameters
        ----------
        key
            Its name, such as "memory_limit".
        value
            What it is from now on.

        Raises
        ------
        KeyError
            There is no such key.
        ValueError
            It cannot have this value.
        """
        if self._set(key.encode(), value) == 0:
            return
        if key not in SETTINGS:
            raise KeyError(f"the emulator has no setting {key}; it has {', '.join(SETTINGS)}")
        raise ValueError(f"the emulator's {key} cannot be {value}")

    def stream_mode(self, mode: StreamMode) -> None:
        """Set when work of streams runs.

        Parameters
        ----------
        mode
            "eager": inside the call that gives it; "threaded", the default: on a thread of its stream; "lazy": only
            when a thread waits for the stream or queries it.

        Raises
        ------
        ValueError
            There is no such mode.
        """
        if mode not in STREAM_MODES:
            raise ValueError(f"there is no stream mode {mode!r}; there are {', '.join(STREAM_MODES)}")
        self.set("stream_mode", STREAM_MODES.index(mode))

    def fail(self, function: str, *, nth: int = 1, result: int, repeat: bool = False) -> None:
        """Make calls of a driver function fail, without an effect.

        Parameters
        ----------
        function
            The name of the function; `functions()` has them all.
        nth
            Which call fails: 1 is the next one.
        result
            The CUresult that it gives.
        repeat
            Whether all later calls fail, too.

        Raises
        ------
        KeyError
            There is no such function.
        """
        if self._fail(function.encode(), nth, result, int(repeat)) != 0:
            raise KeyError(f"the emulator has no driver function {function}{_similar(function, self.functions())}")

    def count(self, key: str) -> int:
        """Count live objects of a kind, or how often something has happened since the process began.

        Parameters
        ----------
        key
            Such as "allocations" or "launches", or the name of a driver function, whose calls are counted.

        Returns
        -------
        int
            The number.

        Raises
        ------
        KeyError
            There is no such key.
        """
        value = ctypes.c_uint64()
        if self._count(key.encode(), ctypes.byref(value)) != 0:
            similar = _similar(key, [*_COUNTED, *self.functions()])
            raise KeyError(f"the emulator counts nothing named {key}{similar}")
        return value.value

    def live(self) -> dict[str, int]:
        """The kinds with live objects, and how many of each are alive."""
        return {key: count for key in LIVE if (count := self.count(key))}

    def reset(self) -> None:
        """Reset faults, limits and modes to their defaults; live objects stay."""
        self._reset()

    @contextmanager
    def steered(self) -> Iterator[Emulator]:
        """This emulator as a context manager that resets it on exit."""
        try:
            yield self
        finally:
            self.reset()


def _similar(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
