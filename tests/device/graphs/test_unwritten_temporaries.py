"""check="initialized": who reads of a temporary array what nothing wrote in this replay."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs
from ..foreign_ptx import POKE
from .fused_recordings import compare, program
from .graph_checks import N

pytestmark = pytest.mark.emulator


@pytest.fixture
def checked() -> Iterator[vc.Device]:
    with vc.Device("emulator", check="initialized") as device:
        yield device


def add(name: str = "add", *, only: int = N, of: vc.Type = vc.f32) -> vc.Program:
    """z[i] = x[i] + n for i below `only`; z is an inout"""
    b = vc.Builder(name, block=64)
    x, z, n = b.input("x", of), b.inout("z", of), b.scalar("n", of)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_((i < z.size) & (i < only)):
        z[i] = x[i] + n
    return b.build()


@pytest.mark.parametrize("fuse", [False, True])
def test_the_statement_that_reads_is_named(checked: vc.Device, fuse: bool) -> None:
    part, whole = checked.compile(add("part", only=70)), checked.compile(add("whole"))
    x, z = checked.zeros(N, vc.f32), checked.zeros(N, vc.f32)
    with checked.record(fuse=fuse) as graph:
        t = graph.temporary(2 * N, vc.f32)
        part.launch(x, t[N:], 1.0)
        whole.launch(t[N:], z, 1.0)
    graph.compile()
    assert ('check="initialized" looks' in graph.explain()) is fuse
    for _ in range(2):
        graph.replay()
        with pytest.raises(vc.UninitializedError) as caught:
            checked.synchronize()
        assert caught.value.buffer == "x"
        assert caught.value.index == 70
        assert caught.value.thread == 70
        assert caught.value.source is not None
        assert "nothing wrote" in str(caught.value)
    assert np.all(z.numpy()[:70] == 2)


def test_each_replay_begins_unwritten(checked: vc.Device) -> None:
    kernel = checked.compile(add())
    x, z = checked.zeros(N, vc.f32), checked.zeros(N, vc.f32)
    with checked.record() as graph:
        t = graph.temporary(N, vc.f32)
        kernel.launch(t, z, 0.0)
        t.copy_from(x)
    for _ in range(2):
        graph.replay()
        with pytest.raises(vc.UninitializedError, match=r"x\[0\]"):
            checked.synchronize()


@pytest.mark.parametrize("write", ["fill", "fill of the same byte", "copy", "loaded kernel", "output", "loop"])
def test_what_was_written_in_any_way_may_be_read(checked: vc.Device, write: str) -> None:
    kernel, output = checked.compile(add(of=vc.u32)), checked.compile(programs.identity(vc.u32))
    x, z = checked.zeros(N, vc.u32), checked.zeros(N, vc.u32)
    poke = checked.load(POKE, "poke", signature="ptr")
    with checked.record() as graph:
        t = graph.temporary(N, vc.u32)
        if write == "copy":
            t.copy_from(x)
        elif write == "loaded kernel":
            poke.launch(t, grid=1, block=1)
        elif write == "output":
            output.launch(x, t)
        elif write == "loop":
            with graph.repeat(2):
                output.launch(x, t)
                kernel.launch(t, z, 1)
        else:
            t.fill(0xA5A5A5A5 if "same" in write else 3)
        kernel.launch(t, z, 1)
    for _ in range(2):
        graph.replay()
        checked.synchronize()


@pytest.mark.thin
def test_random_recordings_raise_no_false_alarm(checked: vc.Device) -> None:
    rng = random.Random(7)
    kernels = [checked.compile(program(rng, f"p{k}")) for k in range(16)]

    assert compare(checked, kernels, range(500, 560))["as fused"] > 60
    checked.synchronize()
