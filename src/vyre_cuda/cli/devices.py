"""Opens the device that --device names, and says on stderr which one it is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import vyre_cuda as vc
from vyre_cuda.cli.console import Console
from vyre_cuda.errors import DeviceUnavailableError, Error

# Seconds that a kernel has to end after Ctrl-C.
_PATIENCE = 1.0


@contextmanager
def opened(which: str, console: Console) -> Iterator[vc.Device]:
    """The device, closed afterwards. DeviceUnavailableError says what is missing and what would work."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            device = vc.Device(which)
    except DeviceUnavailableError as error:
        raise DeviceUnavailableError(f"{error} (--device emulator runs on the CPU)") from None
    with device:
        for warning in caught:
            console.note(f"warning: {warning.message}")
        console.note(f"device: {describe(device)}")
        try:
            yield device
        except KeyboardInterrupt:
            with suppress(Error):
                device.close(timeout=_PATIENCE)
            raise


def describe(device: vc.Device) -> str:
    """`NVIDIA H200 (cuda 0, sm_90)`, or the emulator's name, which says that it is one."""
    found = device.properties
    if found.is_emulator:
        return found.name
    major, minor = found.compute_capability
    return f"{found.name} (cuda {found.ordinal}, sm_{major}{minor})"


def why_no_cuda() -> str:
    """Why no CUDA device can be opened; empty if one can. Creates no context."""
    if any(found.kind == "cuda" for found in vc.devices()):
        return ""
    try:
        vc.Device("cuda").close()
    except DeviceUnavailableError as error:
        return str(error)
    return ""
