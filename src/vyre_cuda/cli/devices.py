"""Opens the device that --device names, and says on stderr which one it is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import vyre_cuda as vc
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.failures import UsageError
from vyre_cuda.errors import DeviceUnavailableError, Error
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.runtime.base import device_selection
else:  # `check` and `ptx` load no extension
    device_selection = later("vyre_cuda.runtime.base.device_selection")

# The variables of the environment that the package reads: docs/devices.md.
VARIABLES = (
    "VYRE_CUDA_CACHE_DIR",
    "VYRE_CUDA_DEVICE",
    "VYRE_CUDA_DRIVER",
    "VYRE_CUDA_EMULATOR_DEVICES",
    "VYRE_CUDA_FUSE",
    "VYRE_CUDA_NCCL",
    "VYRE_CUDA_RENDEZVOUS_PORT",
    "VYRE_CUDA_REQUIRE_GPU",
)
# Seconds that a kernel has to end after Ctrl-C.
_PATIENCE = 1.0


@contextmanager
def opened(which: str, console: Console) -> Iterator[vc.Device]:
    """The device, closed afterwards. DeviceUnavailableError says what is missing and what would work; UsageError, which
    variable of the environment is wrong."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            device = vc.Device(which)
    except DeviceUnavailableError as error:
        raise DeviceUnavailableError(f"{error} (--device emulator runs on the CPU)") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
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


def listed() -> list[vc.DeviceInfo]:
    """What `vc.devices()` returns. UsageError: a variable of the environment is wrong."""
    try:
        return vc.devices()
    except ValueError as error:
        raise UsageError(str(error)) from None


def cuda_names() -> list[str]:
    """The names of the CUDA devices; none without a driver. Creates no context."""
    try:
        driver = device_selection.cuda_driver()
        return [driver.device_name(ordinal) for ordinal in range(driver.info()[1])]
    except DeviceUnavailableError:
        return []


def why_no_cuda() -> str:
    """Why no CUDA device can be opened; empty if one can. Creates no context."""
    if cuda_names():
        return ""
    try:
        vc.Device("cuda").close()
    except DeviceUnavailableError as error:
        return str(error)
    return ""
