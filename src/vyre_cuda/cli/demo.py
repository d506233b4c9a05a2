"""`vyre-cuda demo`: one program from its source to its timings, checked bit for bit against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.devices import describe, opened
from vyre_cuda.cli.timing import EMULATED, Timing, measure, table

# Elements that are checked, and calls that are timed; an emulator gets fewer of both.
_CHECKED, _CHECKED_EMULATED = 1 << 20, 1 << 16
_CALLS, _CALLS_EMULATED = 5000, 200
# Elements of a timed call: three arrays of 4 KiB.
_TIMED = 1024
_FACTOR = 2.5


def saxpy() -> vc.Program:
    """out = a * x + y."""
    b = vc.Builder("saxpy", block=256)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def demo(console: Console, *, device: str, seed: int) -> int:
    """Build, lower, dispatch, check, time; 1 if a result differs from the reference."""
    program = saxpy()
    with opened(device, console) as target:
        kernel = target.compile(program)
        emulated = target.properties.is_emulator
        rng = np.random.default_rng(seed)
        count = _CHECKED_EMULATED if emulated else _CHECKED
        x, y = (rng.standard_normal(count, dtype=np.float32) for _ in range(2))
        out = kernel(x, y, _FACTOR)
        differing = _differing(vc.evaluate(program, x, y, _FACTOR), out)
        timings = _timings(target, kernel, x[:_TIMED], y[:_TIMED], _CALLS_EMULATED if emulated else _CALLS)
        where = describe(target)
    if console.json:
        console.data(_document(program, kernel, where, emulated, count, differing, timings))
        return int(differing > 0)

    console.heading("1. The program, as text")
    console.line(program.text())
    console.heading("2. Its PTX")
    console.line(kernel.ptx)
    console.heading(f"3. Dispatched on {where}, {count:,} random elements")
    console.line(f"  out = {np.array2string(out, threshold=8, edgeitems=3, prefix='  out = ')}")
    if differing:
        console.line(f"  DIFFERS from the reference interpreter: {differing:,} of {count:,} elements")
    else:
        console.line("  the same as the reference interpreter (vc.evaluate), bit for bit")
    console.line()
    repeats = timings["host dispatch"].repeats
    console.heading(f"4. Times of one call, {_TIMED:,} elements (three arrays of 4 KiB), {repeats:,} calls each")
    console.line("\n".join(table(timings)))
    console.line("  host dispatch: NumPy arrays in, NumPy array out; the launches use device arrays")
    if emulated:
        console.line(f"  {EMULATED}")
    return int(differing > 0)


def _differing(expected: Any, got: Any) -> int:
    """The number of elements whose bits differ."""
    return int(np.count_nonzero(expected.view(np.uint32) != got.view(np.uint32)))


def _timings(device: vc.Device, kernel: vc.Kernel, x: Any, y: Any, repeats: int) -> dict[str, Timing]:
    dx, dy, dout = device.array(x), device.array(y), device.empty(x.size, vc.f32)
    launch = kernel.bind(dx, dy, dout, _FACTOR)
    out = np.empty_like(x)
    warmups = repeats // 10

    def launch_and_wait() -> None:
        launch()
        device.synchronize()

    return {
        "host dispatch": measure(lambda: kernel(x, y, _FACTOR, out=out), repeats=repeats, warmups=warmups),
        "launch, enqueue only": measure(launch, repeats=repeats, warmups=warmups, between=device.synchronize),
        "launch and synchronize": measure(launch_and_wait, repeats=repeats, warmups=warmups),
    }


def _document(
    program: vc.Program,
    kernel: vc.Kernel,
    where: str,
    emulated: bool,
    count: int,
    differing: int,
    timings: dict[str, Timing],
) -> dict[str, Any]:
    return {
        "device": where,
        "is_emulator": emulated,
        "program": program.text(),
        "ptx": kernel.ptx,
        "elements": count,
        "differing_elements": differing,
        "timed_elements": _TIMED,
        "timings_ns": {name: timing.as_json() for name, timing in timings.items()},
    }
