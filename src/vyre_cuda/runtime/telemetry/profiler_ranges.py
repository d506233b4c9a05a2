"""What a device optionally does around launches: notes on who launched, and ranges for profilers.

None of this is loaded, and no launch is slower, while both options are off.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np

from vyre_cuda._native.core.context import Context
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.runtime.memory.array import DeviceArray

_PACKAGE = os.path.join(sys.modules["vyre_cuda"].__path__[0], "")
_DOMAIN = "vyre_cuda"
_LONGEST_VALUE = 40


class Watch:
    """`traces`: launches are noted with all their arguments as Python prints them, and their call site. `ranges`: calls
    are ranges of NVTX.
    """

    def __init__(self, context: Context, *, traces: bool, ranges: bool) -> None:
        self.traces = traces
        self.ranges = ranges
        self._context = context
        self._inside = threading.local()
        self._nvtx: Any = require_nvtx() if ranges else None

    @contextmanager
    def profiled(self, kind: str, name: str) -> Iterator[bool]:
        """A range around the enclosed code, in which calls open no other range; gives whether it was opened."""
        if not self.ranges or getattr(self._inside, "deep", False):
            yield False
            return
        self._inside.deep = True
        self._nvtx.push_range(message=f"{kind}: {name}", domain=_DOMAIN)
        try:
            yield True
        finally:
            self._nvtx.pop_range(domain=_DOMAIN)
            self._inside.deep = False

    def note(self, name: str, parameters: Iterable[str], args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        """Say of this thread's next launch what it is called with, and where; for who found `traces` true."""
        given = chain(zip(parameters, args, strict=False), kwargs.items())
        shown = ", ".join(f"{parameter}={shown_value(value)}" for parameter, value in given)
        self._context.trace(f"{name}({shown}), launched at {call_site()}")


def call_site() -> str:
    """`file.py:12` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def shown_value(value: Any) -> str:
    """An array by its type, size and address; anything else as Python prints it, truncated."""
    if isinstance(value, DeviceArray):
        if value.buffer is None:
            return f"{value.dtype}[{len(value)}], freed"
        return f"{value.dtype}[{len(value)}] at {value._alive().address:#x}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{value.size}]"
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def require_nvtx() -> Any:
    try:
        return import_module("nvtx")
    except ImportError:
        raise UnsupportedError(
            "ranges for profilers need the package nvtx: pip install nvtx", capability="nvtx"
        ) from None
