"""Outs are written as a whole by the launch, or cleared before it: whatever was in their memory is never seen."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.descriptors import signature

pytestmark = pytest.mark.device

LINE = """program k
block 8
in y: u32
out out: u32[size(y)]

let i = global_id.x
let four = multiply(i, u32:4)
{body}
"""
PLANE = """program k
block 8 2
in y: u32
out out: u32[size(y), u32:13]
work u32:13, size(y)

store out[global_id.y, global_id.x], u32:1
"""
STORES = "\n".join(f"store out[add(four, u32:{k})], u32:1" for k in range(4))
FROM_END = "store out[subtract(subtract(size(out), u32:1), i)], u32:1"
LOOP = "for j = i to size(out) step multiply(grid_dim.x, u32:8)\n  store out[j], u32:1\nend"


def fresh(device: vc.Device, shape: tuple[int, ...]) -> vc.DeviceArray:
    """Memory that holds what somebody left there."""
    out = device.empty(shape, vc.u32)
    out.fill(0xA5A5A5A5)
    return out


@pytest.mark.parametrize(
    ("text", "shape", "grid", "cleared"),
    [
        (LINE.format(body=STORES), (64,), 2, False),
        (LINE.format(body=STORES), (65,), 2, True),  # 2 blocks of 8 threads with 4 elements each
        (LINE.format(body=STORES.rsplit("\n", 1)[0]), (64,), 2, True),
        (LINE.format(body=LOOP), (100,), 2, False),
        (LINE.format(body=LOOP), (100,), (2, 3), False),
        (LINE.format(body=LOOP.replace("u32:8", "u32:9")), (100,), 2, True),
        (PLANE, (4, 13), (2, 2), False),
        (PLANE, (5, 13), (2, 2), True),
        (PLANE, (4, 13), (1, 2), True),
        (LINE.format(body=FROM_END), (16,), 2, False),
        (LINE.format(body=FROM_END), (17,), 2, True),
        (PLANE.replace("global_id.x]", "subtract(u32:12, global_id.x)]"), (4, 13), (2, 2), False),
        (PLANE.replace("global_id.x]", "subtract(u32:12, global_id.x)]"), (4, 13), (1, 2), True),
        (PLANE.replace("global_id.x]", "subtract(u32:13, global_id.x)]"), (4, 13), (2, 2), True),
    ],
)
def test_an_out_is_cleared_unless_the_launch_fills_it(
    own_device: vc.Device, text: str, shape: tuple[int, ...], grid: int | tuple[int, ...], cleared: bool
) -> None:
    program = vc.parse(text)
    kernel = own_device.compile(program)
    y = np.zeros(shape[0], np.uint32)
    expected = vc.evaluate(program, y, grid=grid)
    on_device, out = own_device.array(y), fresh(own_device, shape)
    before = own_device.stats().fill_bytes

    kernel.launch(on_device, out, grid=grid)
    own_device.synchronize()
    filled = own_device.stats().fill_bytes - before

    np.testing.assert_array_equal(out.numpy(), expected)
    assert filled == (out.nbytes if cleared else 0)


def test_calls_of_one_kernel_clear_where_their_sizes_ask_for_it(own_device: vc.Device) -> None:
    kernel = own_device.compile(vc.parse(LINE.format(body=STORES)))
    small, large = (own_device.array(np.zeros(n, np.uint32)) for n in (64, 70))
    outs = fresh(own_device, (64,)), fresh(own_device, (70,))

    call = kernel.bind(small, outs[0], grid=2)
    call()
    kernel.launch(large, outs[1], grid=2)
    own_device.synchronize()

    assert outs[0].numpy().tolist() == [1] * 64
    assert outs[1].numpy().tolist() == [1] * 64 + [0] * 6


ALONE = "program {name}\nblock 1024\nout out: u32[u32:8]\nwork u32:8\n\nif less(global_id.x, u32:0)\n  return\nend\n"


@pytest.mark.parametrize(("blocks", "cleared"), [(128, False), (129, True)])
def test_loops_over_the_grid_are_trusted_as_far_as_no_step_wraps(
    own_device: vc.Device, monkeypatch: pytest.MonkeyPatch, blocks: int, cleared: bool
) -> None:
    """A step of 129 * 1024 threads with 16383 elements each is more than 2^31."""
    flags = signature.COVERED | signature.LOOPS | 16383 << signature.ABOVE
    monkeypatch.setattr(signature, "cover_flags", lambda *_args, **_options: flags)
    kernel = own_device.compile(vc.parse(ALONE.format(name=f"loops{blocks}")))
    out = fresh(own_device, (8,))

    kernel.launch(out, grid=blocks)
    own_device.synchronize()

    assert out.numpy().tolist() == [0 if cleared else 0xA5A5A5A5] * 8


def test_extents_that_a_kernel_does_not_take_are_refused(
    own_device: vc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = signature.COVERED | signature.AXES | 1 << 4 | 7 << signature.ABOVE
    monkeypatch.setattr(signature, "cover_flags", lambda *_args, **_options: flags)

    with pytest.raises(ValueError, match="extents_are_scalars"):
        own_device.compile(vc.parse(ALONE.format(name="extents")))
