"""What a host offers as an array and is none, and how to get one of it."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np


def is_array(value: Any) -> TypeGuard[np.ndarray[Any, np.dtype[Any]]]:
    """Whether this is a NumPy array that has all of its elements."""
    return type(value) is np.ndarray or (isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray))


def described(value: Any) -> str:
    """The kind of a value that is no such array, with the way out where there is one."""
    name = f"a {type(value).__name__}"
    if isinstance(value, np.ndarray):
        return f"{name}, and a device has no masks (write x.filled(value))"
    if isinstance(value, np.generic):
        return f"{name}, which is no array (write np.array([x]))"
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return name
    if isinstance(value, (list, tuple)):
        return f"{name} (write np.array(x, dtype))"
    if hasattr(value, "to_numpy"):
        return f"{name} (write x.to_numpy())"
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return f"{name} (write np.asarray(x))"
    return f"{name} (write np.frombuffer(x, dtype))" if _has_bytes(value) else name


def _has_bytes(value: Any) -> bool:
    try:
        memoryview(value)
    except TypeError:
        return False
    return True
