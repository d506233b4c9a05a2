"""Programs and fused graphs for bundles: launches that are rows of tables, and merged steps whose arrays are symbols.

`tests/native/bundled_rows.c` runs them from C.
"""

from __future__ import annotations

import numpy as np

import vyre_cuda as vc

F32 = np.float32
N = 96
PLACED = 5  # the row that writes the symbol `z`


def scaled(name: str = "scaled") -> vc.Program:
    """y = a * x + c, where a lambda would be two roundings."""
    b = vc.Builder(name, block=32)
    x, y = b.input("x", vc.f32), b.output("y", vc.f32)
    a, c = b.scalar("a", vc.f32), b.scalar("c", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < y.size):
        y[i] = a * x[i] + c
    return b.build()


def gaps() -> vc.Program:
    """Every other element of y, the others are cleared."""
    b = vc.Builder("gaps", block=32)
    x, y = b.input("x", vc.f32), b.output("y", vc.f32, zeroed=True)
    i = b.let("i", vc.global_id.x)
    b.work(y.size)
    with b.if_((i < y.size) & (i % 2 == 0)):
        y[i] = x[i]
    return b.build()


def sized() -> vc.Program:
    """y = x + 1 of so many elements as a scalar says."""
    b = vc.Builder("sized", block=32)
    n = b.scalar("n", vc.u32)
    x, y = b.input("x", vc.f32), b.output("y", vc.f32, size=n)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < y.size):
        y[i] = x[i] + 1
    return b.build()


def turned() -> vc.Program:
    """A block turned round, so that it is no element-wise step."""
    b = vc.Builder("turned", block=32)
    x, y = b.input("x", vc.f32), b.output("y", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < y.size):
        y[i] = x[y.size - 1 - i] + 1
    return b.build()


def ramp(n: int = N) -> np.ndarray:
    return np.arange(n, dtype=F32)


def tables(device: vc.Device, kinds: int, rows: int) -> tuple[vc.Graph, np.ndarray]:
    """Rows of several kernels on slices of an array, turned into what the symbol `out` stands for, and the result."""
    kernels = [device.compile(scaled(f"scaled{k}")) for k in range(kinds)]
    spaced, turn = device.compile(gaps()), device.compile(turned())
    n = N * kinds * rows
    x, out = device.array(ramp(n)), device.zeros(n, vc.f32)
    wanted = ramp(n)
    with device.record(fuse=True) as graph:
        t = graph.temporary(n, vc.f32)
        u = graph.temporary(n, vc.f32)
        for row in range(rows):
            for k, kernel in enumerate(kernels):
                at = (row * kinds + k) * N
                kernel.launch(x[at : at + N], t[at : at + N], vc.symbol("a", 2.0), float(k))
                wanted[at : at + N] = 2 * wanted[at : at + N] + k
        for at in range(0, n, N):
            spaced.launch(t[at : at + N], u[at : at + N])
        turn.launch(u, vc.symbol("out", out))
    wanted[1::2] = 0
    return graph, wanted[::-1] + 1


def placed(device: vc.Device, kinds: int, rows: int) -> vc.Graph:
    """out is t turned round, plus one, where each row writes 2 * x + k to its slice of t, k the number of its kernel.

    The first row reads the symbol `x`, and another one writes the symbol `z`, so that its slice of t stays 0.
    """
    kernels = [device.compile(scaled(f"scaled{k}")) for k in range(kinds)]
    turn = device.compile(turned())
    n = N * rows
    x, t, out, z = device.array(ramp(n)), device.zeros(n, vc.f32), device.zeros(n, vc.f32), device.zeros(N, vc.f32)
    with device.record(fuse=True) as graph:
        for row in range(rows):
            of_row = slice(row * N, row * N + N)
            read = vc.symbol("x", x[:N]) if row == 0 else x[of_row]
            written = vc.symbol("z", z) if row == PLACED else t[of_row]
            kernels[row % kinds].launch(read, written, 2.0, float(row % kinds))
        turn.launch(t, vc.symbol("out", out))
    graph.replay()
    assert graph.node_count == 2
    return graph


def chain(device: vc.Device, n: int = N, *, defaults: bool, factors: int = 0) -> vc.Graph:
    """out = 3 * (2 * x + 1) + 1 as one kernel, or as two where x and out meet; both are symbols.

    As many steps more multiply by the symbols f0, f1, ..., which are 1.
    """
    kernel = device.compile(scaled())
    x, out = device.array(ramp(n)), device.zeros(n, vc.f32)
    with device.record(fuse=True) as graph:
        t = graph.temporary(n, vc.f32)
        kernel.launch(vc.symbol("x", x) if defaults else vc.symbol("x"), t, 2.0, 1.0)
        for k in range(factors):
            product = graph.temporary(n, vc.f32)
            kernel.launch(t, product, vc.symbol(f"f{k}", 1.0), 0.0)
            t = product
        kernel.launch(t, vc.symbol("out", out) if defaults else vc.symbol("out"), vc.symbol("a", 3.0), 1.0)
    if not defaults:
        graph.replay(x=x, out=out)
    graph.replay(x=x, out=out)
    assert graph.node_count == 1
    return graph
