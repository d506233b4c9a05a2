"""`Device.supports`: its answers are those of the checks that refuse."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import ATOMICS, OPS
from vyre_cuda.ir.core.types import TYPES, Type
from vyre_cuda.testing.emulator import Emulator

from .. import programs

pytestmark = pytest.mark.device
ATOMIC_NAMES = {
    **{f"atomic_{name}": op for name, op in ATOMICS.items()},
    "atomic_sub": ATOMICS["subtract"],
    "atomic_min": ATOMICS["minimum"],
    "atomic_max": ATOMICS["maximum"],
    "atomic_and": ATOMICS["bitwise_and"],
    "atomic_or": ATOMICS["bitwise_or"],
    "atomic_xor": ATOMICS["bitwise_xor"],
}


@pytest.mark.thin(4)
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_every_type_and_op_of_the_table_is_answered_as_the_table_says(device: vc.Device, type_: Type) -> None:
    assert device.supports(type_)
    for name, op in OPS.items():
        found = device.supports(name, type_)
        assert bool(found) == (type_ in op.types), (name, found)
        if not found:
            assert f"{name} is not defined for {type_}" in found.reason
            assert found.capability == "program"


@pytest.mark.parametrize("name", sorted(name for name in ATOMIC_NAMES if hasattr(vc.Builder, name)))
def test_atomics_are_answered_with_type_order_and_scope(device: vc.Device, name: str) -> None:
    op = ATOMIC_NAMES[name]
    for type_ in TYPES:
        assert bool(device.supports(name, type_)) == (type_ in op.types)
    for order in ("relaxed", "acquire", "release", "acq_rel"):
        found = device.supports(name, vc.u32, order=order, scope="system")
        assert bool(found) == (order in op.orders)
        assert bool(found) or "order" in found.reason


def test_warp_operations_are_answered(device: vc.Device) -> None:
    for name in ("shuffle", "shuffle_up", "broadcast", "match", "warp_reduce", "warp_scan"):
        assert device.supports(name, vc.f32)
    assert device.supports("ballot", vc.bool_)
    assert not device.supports("ballot", vc.u32)
    assert not device.supports("warp_reduce", vc.bool_)


def test_the_reason_and_capability_are_those_of_the_error(device: vc.Device) -> None:
    found = device.supports("sin", vc.f32, max_ulp=0.6)

    b = vc.Builder("use")
    x = b.inout("x", vc.f32)
    x[0] = vc.sin(x[0])
    with pytest.raises(vc.UnsupportedError) as caught:
        device.compile(b.build(), max_ulp=0.6)
    assert (found.reason, found.capability) == (str(caught.value), caught.value.capability) == (found.reason, "max_ulp")
    assert device.supports("sin", vc.f32, max_ulp=1.6)


def test_a_program_is_answered_as_compile_does(device: vc.Device) -> None:
    assert device.supports(programs.saxpy(), max_ulp=2)
    b = vc.Builder("deep", block=(1, 1, 128))
    out = b.inout("out", vc.f32)
    out[0] = 1.0
    b.work(1, 1, 128)
    program = b.build()

    found = device.supports(program)

    with pytest.raises(vc.UnsupportedError) as caught:
        device.compile(program)
    assert (found.reason, found.capability) == (str(caught.value), "threads of a block along z")
    with pytest.raises(ValueError, match="precision"):
        device.supports(programs.saxpy(), precision="high")


@pytest.mark.parametrize("name", ["cooperative_launch", "conditional_nodes", "captured_replay", "cuFuncGetParamInfo"])
def test_what_this_driver_has_is_supported(device: vc.Device, name: str) -> None:
    assert device.supports(name)


def test_targets_and_checks(device: vc.Device) -> None:
    assert device.supports(str(device.target))
    assert device.supports("sm_75")
    assert device.supports("sm_9999").capability == "sm_9999"
    newer = device.supports("sm_121")
    assert bool(newer) == (device.target.sm >= 121)
    assert bool(device.supports("races")) == device.properties.is_emulator


@pytest.mark.emulator
def test_an_old_driver_lacks_loops_and_says_so_as_the_loop_does(emulator: Emulator) -> None:
    emulator.set("driver_version", 12030)
    with vc.Device("emulator") as device:
        found = device.supports("conditional_nodes")
        until = device.zeros(1, vc.u32)
        with pytest.raises(vc.UnsupportedError) as caught, device.record() as graph, graph.repeat(3, until=until):
            until.fill(1)

    assert not found
    assert found.capability == caught.value.capability == "conditional_nodes"
    assert found.reason.partition(" takes ")[2] == str(caught.value).partition(" takes ")[2]


def test_what_nobody_knows_is_an_error(device: vc.Device) -> None:
    with pytest.raises(ValueError, match="supports does not know 'warp_drive': pass"):
        device.supports("warp_drive")
    with pytest.raises(TypeError, match="needs a type"):
        device.supports("exp")
    with pytest.raises(TypeError, match="a Program, a type or a name"):
        device.supports(np.float32)  # type: ignore[arg-type]


def test_a_closed_device_does_not_answer(own_device: vc.Device) -> None:
    own_device.close()
    with pytest.raises(vc.DeviceUnavailableError, match="closed: open it again"):
        own_device.supports("cooperative_launch")
