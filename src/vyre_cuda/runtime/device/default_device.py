"""The device of calls that name none."""

from __future__ import annotations

import threading

from vyre_cuda.runtime.device.device import Device

_opening = threading.Lock()
_opened: list[Device] = []


def default_device() -> Device:
    """The device on which kernel functions run for NumPy arrays: `Device("auto")`, opened once in a process.

    Returns
    -------
    Device
        The device; a new one if the last was closed.

    Raises
    ------
    DeviceUnavailableError
        It cannot be opened.
    """
    with _opening:
        if not _opened or _opened[0].is_closed:
            _opened[:] = [Device("auto")]
        return _opened[0]
