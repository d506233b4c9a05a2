"""Uses of an array that was freed say what to do instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import vyre_cuda as vc

from .. import programs

pytestmark = [pytest.mark.device]


def _record(device: vc.Device, x: vc.DeviceArray) -> None:
    with device.record():
        x.copy_from(device.zeros(8, vc.f32))


USES: dict[str, Callable[[vc.Device, vc.DeviceArray], object]] = {
    "numpy": lambda device, x: x.numpy(),
    "launch": lambda device, x: device.compile(programs.saxpy()).launch(x, x, device.zeros(8, vc.f32), 1.0),
    "launch_many": lambda device, x: device.compile(programs.saxpy()).launch_many([(x, x, device.zeros(8, vc.f32), 1)]),
    "bind": lambda device, x: device.compile(programs.saxpy()).bind(x, x, device.zeros(8, vc.f32), 1.0),
    "record": _record,
    "sum": lambda device, x: vc.algorithms.sum(x),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_use_of_a_freed_array_says_what_to_do(device: vc.Device, use: Callable[..., object]) -> None:
    x = device.zeros(8, vc.f32)
    x.free()

    with pytest.raises(ValueError, match="the array was freed: make another one"):
        use(device, x)
