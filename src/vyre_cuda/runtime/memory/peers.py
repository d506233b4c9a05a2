"""Arrays of other devices: as arguments of kernels, where `Device.enable_peer` let them, and as what copies read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_cuda._native.core.context import Context
from vyre_cuda._native.memory.adopted import adopt_peer
from vyre_cuda.errors import type_name
from vyre_cuda.runtime.base.device_selection import cuda_driver, emulator_driver
from vyre_cuda.runtime.base.elsewhere import elsewhere
from vyre_cuda.runtime.base.properties import PeerInfo
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device


def peers_of(device: Device) -> tuple[PeerInfo, ...]:
    """`Device.peers`."""
    driver = emulator_driver() if device.properties.is_emulator else cuda_driver()
    return tuple(
        PeerInfo(ordinal, driver.device_name(ordinal), device.context.can_access_peer(ordinal))
        for ordinal in range(driver.info()[1])
        if ordinal != device.properties.ordinal
    )


def enable(device: Device, other: Any) -> None:
    """`Device.enable_peer`."""
    if not isinstance(getattr(other, "context", None), Context):
        raise TypeError(f"enable_peer takes a Device, not {type_name(other)}")
    if other is device:
        raise ValueError("a device cannot be its own peer: its kernels take its arrays as they are")
    device.context.enable_peer(other.context)


def here(device: Device, array: DeviceArray, where: str) -> DeviceArray:
    """The array, or that of a peer as an array of this device. ValueError if its device was not enabled."""
    if array.device is device:
        return array
    own, other = device.properties.label, array.device.properties.label
    try:
        buffer = adopt_peer(device.context, array._alive())
    except ValueError:
        said = f"{where} is an array {elsewhere(other, own, 'the kernel')}"
        if other == own:
            raise ValueError(f"{said}; or copy it (copy_from)") from None
        raise ValueError(
            f"{said}: copy it (copy_from), or let kernels of {own} use memory of {other} with device.enable_peer(other)"
        ) from None
    return DeviceArray(device, buffer, array.offset, array.count, array.dtype, array.shape)


def here_if_array(device: Device, value: Any, where: str) -> Any:
    """The same for an operand of any kind; an array that was freed is left to the checks that follow."""
    if isinstance(value, DeviceArray) and value.device is not device and not value.is_freed:
        return here(device, value, where)
    return value
