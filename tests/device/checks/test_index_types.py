"""Signed ids and sizes on a device: calls, bundles and checks of bounds give what the interpreter gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type

SIGNED = pytest.mark.parametrize("index", [vc.i32, vc.i64])


def shifted(index: Type, block: int = 64) -> Program:
    """x[i - by], 0 outside."""
    b = vc.Builder("shifted", block=block, index=index)
    x = b.input("x", vc.f32)
    by = b.scalar("by", index)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i - by]
    return b.build()


@SIGNED
@pytest.mark.parametrize("by", [0, 1, 3, -2, 100, -100, 2**31 - 1, -(2**31)])
def test_an_index_below_zero_is_out_of_bounds(device: vc.Device, index: Type, by: int) -> None:
    x = np.arange(1, 71, dtype=np.float32)
    program = shifted(index)

    np.testing.assert_array_equal(vc.evaluate(program, x, by), device.run(program, x, by))


@SIGNED
def test_a_trap_names_the_index_below_zero(own_device: vc.Device, index: Type) -> None:
    kernel = own_device.compile(shifted(index), bounds="trap")

    with pytest.raises(vc.KernelAssertionError) as caught:
        kernel(np.zeros(5, np.float32), 4)

    assert caught.value.index == -4


@SIGNED
def test_a_bundle_keeps_the_index_type(device: vc.Device, tmp_path: Path, index: Type) -> None:
    program = shifted(index)
    vc.bundle([program], tmp_path / "a.vyre", targets=("sm_80",), cubins=False)
    bundle = vc.load_bundle(tmp_path / "a.vyre")
    x = np.arange(1, 71, dtype=np.float32)

    assert bundle.kernels["shifted"].program == program
    np.testing.assert_array_equal(vc.evaluate(program, x, 3), bundle.on(device)["shifted"](x, 3))


def test_a_grid_with_more_threads_than_i32_counts_is_refused(device: vc.Device) -> None:
    kernel = device.compile(shifted(vc.i32, 1024))
    x, out = device.array(np.ones(4, np.float32)), device.array(np.zeros(4, np.float32))

    with pytest.raises(ValueError, match=r"index=vc\.i64"):
        kernel.launch(x, 0, out, grid=2**21 + 1)


@pytest.mark.parametrize("index", [vc.i32, vc.u32])
@pytest.mark.parametrize("way", ["call", "launch", "bind", "replay", "evaluate"])
def test_an_empty_array_whose_extent_no_index_counts_is_refused(device: vc.Device, index: Type, way: str) -> None:
    b = vc.Builder("extents", block=1, index=index)
    x = b.input("x", vc.u8, ndim=2)
    out = b.output("out", index, size=2)
    b.work(1)
    out[0], out[1] = x.shape[0], x.shape[1]
    program = b.build()
    kernel = device.compile(program)
    fits, beyond = np.zeros((5, 0), np.uint8), np.zeros((2**32 + 3, 0), np.uint8)
    result = device.zeros(2, index)
    ways: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
        "call": kernel,
        "launch": lambda x: kernel.launch(device.array(x), result),
        "bind": lambda x: kernel.bind(device.array(x), result),
        "replay": lambda x: recorded.replay(x=device.array(x)),
        "evaluate": lambda x: vc.evaluate(program, x),
    }
    with device.record() as recorded:
        kernel.launch(vc.symbol("x"), result)

    ways[way](fits)
    with pytest.raises(ValueError, match=rf"is 4294967299; {index} indices reach .*build it with index=vc\.[iu]64"):
        ways[way](beyond)
