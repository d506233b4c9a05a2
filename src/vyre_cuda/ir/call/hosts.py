"""Host values that look like arrays but are not, and how to make an array of them."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from vyre_cuda.errors import type_name


def is_array(value: Any) -> TypeGuard[np.ndarray[Any, np.dtype[Any]]]:
    """Whether this is a NumPy array with all of its elements (not a masked array)."""
    return type(value) is np.ndarray or (isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray))


def described(value: Any) -> str:
    """The kind of a value that is not such an array, with the remedy where there is one."""
    name = f"{type_name(value)}"
    if isinstance(value, np.ndarray):
        return f"{name}, and a device has no masks (write x.filled(value))"
    if isinstance(value, np.generic):
        return f"{name}, which is not an array (write np.array([x]))"
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return name
    if isinstance(value, (list, tuple)):
        return f"{name} (write np.array(x, dtype))"
    if hasattr(value, "to_numpy"):
        return f"{name} (write x.to_numpy())"
    if hasattr(value, "numpy"):  # also arrays of a device, which np.asarray refuses
        return f"{name} (write x.numpy())"
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return f"{name} (write np.asarray(x))"
    return f"{name} (write np.frombuffer(x, dtype))" if _has_bytes(value) else name


def _has_bytes(value: Any) -> bool:
    try:
        memoryview(value)
    except TypeError:
        return False
    return True
