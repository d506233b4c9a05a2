"""Every way to launch refuses what would leave out elements of an array: see `tests/unit/test_walked.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda._native.bundle.bundle import BundleFile

FEW, MANY = np.arange(200, dtype=np.uint32), np.arange(1000, dtype=np.uint32)
REFUSED = r"x\.size is 1000, but the launch has 256 threads"


@vc.kernel
def remainders(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 7)
    i = vc.global_id.x
    if i < x.size:
        vc.atomic_add(out, x[i] % 7, 1)


@pytest.fixture
def kernel(device: vc.Device) -> vc.Kernel:
    return remainders.on(device)


def test_calls(kernel: vc.Kernel) -> None:
    assert kernel(FEW).sum() == 200
    for call in (kernel, kernel.submit, kernel.timed, kernel.record):
        with pytest.raises(ValueError, match=REFUSED):
            call(MANY)
    assert kernel(MANY, grid=4).sum() == 1000
    with pytest.raises(ValueError, match="row 1: .*" + REFUSED):
        kernel.many([(FEW,), (MANY,)])


def test_launches(device: vc.Device, kernel: vc.Kernel) -> None:
    few, many, out = device.array(FEW), device.array(MANY), device.zeros(7, vc.u32)
    kernel.launch(few, out)
    for launch in (kernel.launch, kernel.bind):
        with pytest.raises(ValueError, match=REFUSED):
            launch(many, out)
    with pytest.raises(ValueError, match="row 1: .*" + REFUSED):
        kernel.launch_many([(few, out), (many, device.zeros(7, vc.u32))])
    assert out.numpy().sum() == 200
    kernel.launch(many, out, grid=4)
    assert out.numpy().sum() == 1000


@pytest.mark.parametrize("fuse", [False, True])
def test_graphs(device: vc.Device, kernel: vc.Kernel, fuse: bool) -> None:
    few, many, out = device.array(FEW), device.array(MANY), device.zeros(7, vc.u32)
    with device.record(fuse=fuse) as graph:
        kernel.launch(vc.symbol("x", few), out)
    graph.replay()
    with pytest.raises(ValueError, match=REFUSED):
        graph.replay(x=many)
    assert out.numpy().sum() == 200


@vc.kernel
def up_to(x: vc.In[vc.u32], n: vc.i32):
    out = vc.output(vc.u32, 7)
    i = vc.global_id.x
    if i < n:
        vc.atomic_add(out, x[i] % 7, 1)


@pytest.mark.parametrize("fuse", [False, True])
def test_a_number_that_a_condition_compares_counts_in_each_replay(device: vc.Device, fuse: bool) -> None:
    kernel, many, out = up_to.on(device), device.array(MANY), device.zeros(7, vc.u32)
    with device.record(fuse=fuse) as graph:
        kernel.launch(many, vc.symbol("n", 100), out)
    graph.replay(n=200)
    assert out.numpy().sum() == 200
    with pytest.raises(ValueError, match=REFUSED):
        graph.replay(n=257)
    assert out.numpy().sum() == 200


def test_a_number_that_a_condition_compares_counts_in_a_recorded_call(device: vc.Device) -> None:
    call = up_to.on(device).record(MANY, 100)

    assert call.replay(MANY, 200).sum() == 200
    with pytest.raises(ValueError, match=REFUSED):
        call.replay(MANY, 257)


def test_workers(device: vc.Device, kernel: vc.Kernel) -> None:
    with device.worker([kernel]) as worker:
        assert worker.call(kernel, FEW).sum() == 200
        with pytest.raises(ValueError, match=REFUSED):
            worker.call(kernel, MANY)


@pytest.mark.parametrize("source", [True, False])
def test_bundles(device: vc.Device, tmp_path: Path, source: bool) -> None:
    vc.bundle([remainders], tmp_path / "r.vyre", cubins=False, source=source)
    kernel = vc.load_bundle(tmp_path / "r.vyre").on(device)["remainders"]

    assert kernel(FEW).sum() == 200
    with pytest.raises(ValueError, match=REFUSED if source else r"the work of program remainders .*size\(x\) = 1000"):
        kernel(MANY)
    assert kernel(MANY, grid=4).sum() == 1000


def test_a_reader_of_bundles_in_c(tmp_path: Path) -> None:
    vc.bundle([remainders], tmp_path / "r.vyre", targets=["sm_90"], cubins=False)
    file = BundleFile((tmp_path / "r.vyre").read_bytes())

    assert file.shape(0, [256, 0], []) == ([256, 7], (1, 1, 1))
    with pytest.raises(ValueError, match="too little for an array that the threads go through: pass a grid"):
        file.shape(0, [257, 0], [])


def backwards(b: Any, x: Any, n: Any) -> Any:
    return n - 1 - vc.global_id.x


def from_an_offset(b: Any, x: Any, n: Any) -> Any:
    return vc.global_id.x + n


def by_blocks(b: Any, x: Any, n: Any) -> Any:
    return vc.block_id.x + n


@pytest.mark.parametrize("index", [vc.i32, vc.u32, vc.i64], ids=str)
@pytest.mark.parametrize("place", [backwards, from_an_offset, by_blocks])
def test_a_reader_of_bundles_in_c_refuses_what_a_launch_refuses(tmp_path: Path, index: vc.Type, place: Any) -> None:
    b = vc.Builder("walk", block=64, index=index)
    x, n, out = b.input("x", vc.u32), b.scalar("n", index), b.output("out", vc.u32, size=3)
    with b.if_(vc.global_id.x < x.size - n):
        b.atomic_add(out, 0, x[place(b, x, n)])
    program = b.build()
    vc.bundle([program], tmp_path / "w.vyre", targets=["sm_90"], cubins=False)
    file = BundleFile((tmp_path / "w.vyre").read_bytes())
    refused = []
    for size in (0, 1, 64, 65, 200):
        for number in (0, 1, 64, 65, 150, 300, *(() if index is vc.u32 else (-1, -70))):
            scalar = number % 2**index.bits
            in_python = is_refused(vc.evaluate, program, np.zeros(size, np.uint32), number)
            assert is_refused(file.shape, 0, [size, 0], [scalar]) == in_python, (size, number)
            refused.append(in_python)
    assert {*refused} == {False, True}


def many_arrays(count: int, block: int = 64) -> vc.Program:
    """Sums of arrays, of which each is read at another distance from the number of the thread or of the block."""
    b = vc.Builder("many_arrays", block=block)
    arrays = [b.input(f"x{k}", vc.u32) for k in range(count)]
    out = b.output("out", vc.u32, size=3)
    with b.if_(vc.global_id.x < arrays[0].size):
        for k, x in enumerate(arrays):
            at = vc.global_id.x * (1 + k % 2) if k % 7 else vc.block_id.x
            b.atomic_add(out, 0, x[at + k % 3])
    return b.build()


def test_a_reader_of_bundles_in_c_refuses_any_of_many_arrays(tmp_path: Path) -> None:
    program, rng, refused = many_arrays(40), np.random.default_rng(1), []
    vc.bundle([program], tmp_path / "m.vyre", targets=["sm_90"], cubins=False)
    file = BundleFile((tmp_path / "m.vyre").read_bytes())
    for _ in range(60):
        sizes = [int(size) for size in rng.integers(0, 64, 40)]
        sizes[0] = int(rng.integers(60, 70))
        if rng.integers(2):
            sizes[rng.integers(1, 40)] = int(rng.integers(60, 140))
        in_python = is_refused(vc.evaluate, program, *[np.zeros(size, np.uint32) for size in sizes])
        assert is_refused(file.shape, 0, [*sizes, 0], []) == in_python, sizes
        refused.append(in_python)
    assert {*refused} == {False, True}


def test_a_bundle_with_too_many_arrays_needs_the_work(tmp_path: Path) -> None:
    with pytest.raises(vc.UnsupportedError, match=r"at most 256 and 32; name the work with vc\.work"):
        vc.bundle([many_arrays(200)], tmp_path / "m.vyre", targets=["sm_90"], cubins=False)


def is_refused(launch: Any, *arguments: Any) -> bool:
    try:
        launch(*arguments)
    except ValueError:
        return True
    return False
