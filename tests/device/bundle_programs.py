"""The programs of tests/native/*.vyre, which hold the format still and are what the native tests load."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import vyre_cuda as vc

EXAMPLE = Path(__file__).parents[1] / "native" / "example.vyre"
EXTENTS = EXAMPLE.with_name("extents.vyre")
WORKER = EXAMPLE.with_name("worker.vyre")
TABLE = EXAMPLE.with_name("table.vyre")
TARGETS = ("sm_80", "sm_90")


def saxpy() -> vc.Program:
    b = vc.Builder("saxpy", block=256)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def checked() -> vc.Program:
    """Has an assertion and changes its argument."""
    b = vc.Builder("checked", block=64)
    x = b.inout("x", vc.i32)
    least = b.scalar("least", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.assert_(x[i] >= least, "too small")
        x[i] = x[i] - least
    return b.build()


def outer() -> vc.Program:
    """o[i, j, k] = x[i, j] * y[k] for the first n rows; z has one element more than y."""
    b = vc.Builder("outer", block=(4, 4))
    x = b.input("x", vc.f32, shape=(None, 4))
    y = b.input("y", vc.f32)
    b.input("z", vc.f32, y.size + 1)
    n = b.scalar("n", vc.i32)
    o = b.output("o", vc.f32, shape=(n, x.shape[1], y.size))
    b.work(x.shape[1], x.shape[0])
    i, j = vc.global_id.y, vc.global_id.x
    with b.for_(0, y.size) as k:
        o[i, j, k] = x[i, j] * y[k]
    return b.build()


def spread() -> vc.Program:
    """The first extent of o is beyond its type where x has 65,536 elements and more."""
    b = vc.Builder("spread", block=32)
    x = b.input("x", vc.f32)
    o = b.output("o", vc.f32, shape=(x.size * 65536, 1))
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        o[i, 0] = x[i]
    return b.build()


def step(device: vc.Device) -> vc.Graph:
    """w = a * x + weights, three times y = 0.5 * w + w, out = y, where x and a are symbols, a with a default."""
    kernel = device.compile(vc.Program.from_bytes(saxpy().to_bytes()))
    weights = device.array(np.arange(64, dtype=np.float32))
    w, y, spare, out = (device.zeros(64, vc.f32) for _ in range(4))
    with device.record() as graph:
        kernel.launch(vc.symbol("x"), weights, w, vc.symbol("a", np.float32(2)))
        y.copy_from(w)
        with graph.repeat(3):
            kernel.launch(w, y, spare, 0.5)
            y.copy_from(spare)
        w.fill(0)
        kernel.launch(y, w, vc.symbol("out", out), 1.0)
    return graph


def held(device: vc.Device) -> vc.Graph:
    """x - least, held to least: x and least are symbols without a default."""
    kernel = device.compile(vc.Program.from_bytes(checked().to_bytes()))
    with device.record() as graph:
        kernel.launch(vc.symbol("x"), vc.symbol("least"))
    return graph


def step_result(x: np.ndarray, a: float) -> np.ndarray:
    """What `step` gives; every number here is exact in binary32."""
    w = np.float32(a) * x + np.arange(64, dtype=np.float32)
    return w + 3 * np.float32(0.5) * w


def write(path: Path) -> None:
    """Without source lines, so that it depends on the programs alone."""
    programs = [vc.Program.from_bytes(program().to_bytes()) for program in (saxpy, checked)]
    with vc.Device("emulator") as device:
        vc.bundle(programs, path, graphs={"held": held(device), "step": step(device)}, targets=TARGETS, cubins=False)


def write_extents(path: Path) -> None:
    programs = [vc.Program.from_bytes(program().to_bytes()) for program in (outer, spread)]
    vc.bundle(programs, path, targets=TARGETS, cubins=False)


def add_to() -> vc.Program:
    """h += d"""
    b = vc.Builder("add_to", block=64)
    h, d = b.inout("h", vc.i32), b.input("d", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < h.size):
        h[i] = h[i] + d[i]
    return b.build()


def write_worker(path: Path) -> None:
    """Both kernels in one worker, by the numbers that test_worker.c has."""
    workers = {"adding": ["add_to", "saxpy"]}
    vc.bundle([add_to(), saxpy()], path, targets=TARGETS, source=False, cubins=False, workers=workers)


def table(device: vc.Device) -> vc.Graph:
    """Eight launches that are one: `y` = 3 * weights, `z` = `x` + weights, and six more with arrays of their own.

    Where `x` and `y` share memory, the launches run as they were recorded, so `z` is 4 * weights then.
    """
    kernel = device.compile(vc.Program.from_bytes(saxpy().to_bytes()))
    weights = device.array(np.arange(64, dtype=np.float32))
    x, y, z, *outs = (device.zeros(64, vc.f32) for _ in range(9))
    with device.record(fuse=True) as graph:
        kernel.launch(weights, weights, vc.symbol("y", y), 2.0)
        kernel.launch(vc.symbol("x", x), weights, vc.symbol("z", z), 1.0)
        for number, out in enumerate(outs):
            kernel.launch(weights, weights, out, float(number))
    graph.replay()
    assert graph.node_count == 1
    return graph


def write_table(path: Path) -> None:
    """The graph, and its kernel with an entry for many launches."""
    with vc.Device("emulator") as device:
        program = vc.Program.from_bytes(saxpy().to_bytes())
        graphs = {"table": table(device)}
        vc.bundle([program], path, graphs=graphs, targets=TARGETS, source=False, cubins=False, many=["saxpy"])
