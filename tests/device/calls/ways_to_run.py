"""A kernel that is compiled for known values, and every way to run it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import vyre_cuda as vc

X = np.arange(784, dtype=np.float32)
KNOWN = {"w": 28, "x.size": 784}
REFUSED = r"kernel rows.*: w is 30, but the kernel was compiled for 28"
RESIZED = r"kernel rows.*: x\.size is 783, but the kernel was compiled for 784"


def rows() -> vc.Program:
    """y[i] = x[i] + a * x[first of the row of w]"""
    b = vc.Builder("rows", block=64)
    x = b.input("x", vc.f32)
    w, a = b.scalar("w", vc.u32), b.scalar("a", vc.f32)
    y = b.output("y", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < y.size):
        y[i] = x[i] + a * x[i // w * w]
    return b.build()


def expected(w: int = 28, a: float = 2.0, x: np.ndarray[Any, Any] = X) -> Any:
    return vc.evaluate(rows(), x, w, a)


def same_size(device: vc.Device, size: int = 784) -> tuple[vc.DeviceArray, vc.DeviceArray]:
    return device.array(X[:size].copy()), device.zeros(size, vc.f32)


Door = Callable[[vc.Device, vc.Kernel, int, int], object]


def call(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    return kernel(X[:size], w, 2.0)


def call_by_name(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    return kernel(a=2.0, w=w, x=X[:size])


def call_on_device(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    return kernel(device.array(X[:size].copy()), w, 2.0)


def call_in_place(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x = device.pinned_empty(size, vc.f32)
    x[:] = X[:size]
    return kernel(x, w, 2.0, out=np.empty(size, np.float32))


def submit(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    return kernel.submit(X[:size], w, 2.0).result()


def awaited(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    async def result() -> object:
        return await kernel.submit(X[:size], w, 2.0)

    return asyncio.run(result())


def timed(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    return kernel.timed(X[:size], w, 2.0).outputs


def launch(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device, size)
    kernel.launch(x, w, 2.0, y)
    return y.numpy()


def launch_again(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    """After launches that are right, so that this one may go the shortest way."""
    x, y = same_size(device)
    for _ in range(3):
        kernel.launch(x, 28, 2.0, y)
    kernel.launch(x[:size], w, 2.0, y[:size])
    return y[:size].numpy()


def launch_on_a_stream(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device, size)
    kernel.launch(x, w=w, a=2.0, y=y, stream=device.stream())
    return y.numpy()


def bind(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device, size)
    kernel.bind(x, w, 2.0, y)()
    return y.numpy()


def bind_again(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device)
    bound = kernel.bind(x, 28, 2.0, y)
    for _ in range(3):
        bound(x, 28, 2.0, y)
    bound(x[:size], w, 2.0, y[:size])
    return y[:size].numpy()


def bound_set(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device)
    bound = kernel.bind(x, 28, 2.0, y)
    bound.set(x=x[:size], w=w, y=y[:size])
    bound()
    return y[:size].numpy()


def recorded(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    return kernel.record(X[:size], w, 2.0).replay()


def in_a_graph(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device, size)
    with device.record() as graph:
        kernel.launch(x, w, 2.0, y)
    graph.replay()
    return y.numpy()


def replay_with_others(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device)
    with device.record() as graph:
        kernel.launch(vc.symbol("x", x), vc.symbol("w", 28), 2.0, vc.symbol("y", y))
    for _ in range(2):
        graph.replay()
    graph.replay(x=x[:size], w=w, y=y[:size])
    return y[:size].numpy()


def updated_graph(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device)
    with device.record() as graph:
        kernel.launch(vc.symbol("x", x), vc.symbol("w", 28), 2.0, vc.symbol("y", y))
    graph.replay()
    graph.update(x=x[:size], w=w, y=y[:size])
    graph.replay()
    return y[:size].numpy()


def from_a_bundle(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    return _bundled(kernel).on(device)["rows"](X[:size], w, 2.0)


def launch_from_a_bundle(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    return launch_again(device, _bundled(kernel).on(device)["rows"], w, size)


def graph_from_a_bundle(device: vc.Device, kernel: vc.Kernel, w: int, size: int) -> object:
    x, y = same_size(device)
    with device.record() as graph:
        kernel.launch(vc.symbol("x"), vc.symbol("w"), 2.0, vc.symbol("y"))
    loaded = _bundled(graph).on(device).graph("step")
    loaded.replay(x=x, w=28, y=y)
    loaded.replay(x=x[:size], w=w, y=y[:size])
    return y[:size].numpy()


def _bundled(what: Any) -> vc.Bundle:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.vyre"
        if isinstance(what, vc.Kernel):
            what.export(path, cubins=False)
        else:
            vc.bundle([], path, graphs={"step": what}, targets=["sm_90"], cubins=False)
        return vc.load_bundle(path)


DOORS = [
    call,
    call_by_name,
    call_on_device,
    call_in_place,
    submit,
    awaited,
    timed,
    launch,
    launch_again,
    launch_on_a_stream,
    bind,
    bind_again,
    bound_set,
    recorded,
    in_a_graph,
    replay_with_others,
    updated_graph,
    from_a_bundle,
    launch_from_a_bundle,
    graph_from_a_bundle,
]
