"""What the ways to make a group check alike of their options."""

from __future__ import annotations

from typing import Any

import numpy as np

from vyre_cuda.errors import type_name


def require_device(what: str, device: Any) -> None:
    """TypeError for anything but a device."""
    if not hasattr(device, "properties"):
        raise TypeError(f"{what} takes a Device, not {type_name(device)}: open it, such as vc.Device(0)")


def check_options(timeout: Any, limit: Any, small: Any) -> None:
    """TypeError or ValueError: not times of more than 0 seconds, not a number of bytes or None."""
    for name, value in (("timeout", timeout), ("limit", limit)):
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise TypeError(f"{name}= is {type_name(value)}; it must be a number of seconds")
        if not value > 0:
            raise ValueError(f"{name}={value!r}; it must be more than 0 seconds")
    if small is None:
        return
    if not isinstance(small, (int, np.integer)):
        raise TypeError(f"small= is {type_name(small)}; it must be a number of bytes, or None")
    if small < 0:
        raise ValueError(f"small={small}; it must be 0 or more")
