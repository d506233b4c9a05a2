"""GB/s of loops that read ahead, of loads and stores with cache hints, and of the examples' softmax by its options.

    python benchmarks/probes/reading.py [emulator]

Loops run as they are written and with several trips read at once; hints are put into the text of a kernel. A figure is
the median of 12 launches; the results of all forms are compared.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.passes import ahead, pipeline
from vyre_cuda.runtime.kernel.large_entry import several_of

ROOT = Path(__file__).parents[2]
BLOCK, BLOCKS = 256, 132 * 8
WARM, ROUNDS = 3, 12
HINTS = (
    ("none", "", ""),
    (".nc", ".nc", ""),
    (".L1::no_allocate", ".L1::no_allocate", ""),
    (".L1::evict_first", ".L1::evict_first", ""),
    (".cs", ".cs", ".cs"),
    (".cs for stores", "", ".cs"),
    (".nc, .cs for stores", ".nc", ".cs"),
)


class Probe:
    def __init__(self, emulated: bool) -> None:
        self.emulated = emulated
        self.device = vc.Device("emulator" if emulated else 0)
        self.stream = self.device.stream()
        self.random = np.random.default_rng(1)

    def rate(self, call: Callable[[], Any], moved: int) -> float:
        times = []
        for turn in range(1 if self.emulated else WARM + ROUNDS):
            begin = self.stream.record()
            call()
            end = self.stream.record()
            end.synchronize()
            if self.emulated or turn >= WARM:
                times.append(max(end.elapsed_ms(begin), 1e-6))
        return moved / statistics.median(times) / 1e6


def total(type_: vc.Type, sum_type: vc.Type) -> vc.Program:
    b = vc.Builder("total", block=BLOCK)
    x = b.input("x", type_)
    out = b.output("out", sum_type, size=BLOCKS * BLOCK)
    b.work(BLOCKS * BLOCK)
    found = b.var("found", sum_type(0))
    with b.for_(vc.global_id.x, x.size, step=BLOCKS * BLOCK) as i:
        found.set(found + (x[i] if type_ is sum_type else sum_type(x[i])))
    out[vc.global_id.x] = found
    return b.build()


def rows(type_: vc.Type) -> vc.Program:
    b = vc.Builder("rows", block=BLOCK)
    x = b.input("x", type_, ndim=2)
    out = b.output("out", type_, size=x.shape[0] * BLOCK)
    b.work(x.shape[0] * BLOCK)
    found = b.var("found", type_(0))
    with b.for_(vc.thread_id.x, x.shape[1], step=BLOCK) as i:
        found.set(vc.maximum(found, x[vc.block_id.x, i]))
    out[vc.global_id.x] = found
    return b.build()


def product() -> vc.Program:
    b = vc.Builder("product", block=(32, 8))
    x, y = b.input("x", vc.f32, ndim=2), b.input("y", vc.f32, ndim=2)
    out = b.output("out", vc.f32, shape=(x.shape[0], y.shape[1]))
    b.work(y.shape[1], x.shape[0])
    found = b.var("found", vc.f32(0))
    with b.for_(0, x.shape[1]) as k:
        found.set(found + x[vc.global_id.y, k] * y[k, vc.global_id.x])
    out[vc.global_id.y, vc.global_id.x] = found
    return b.build()


def gather() -> vc.Program:
    b = vc.Builder("gather", block=BLOCK)
    places, x = b.input("places", vc.u32), b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=BLOCKS * BLOCK)
    b.work(BLOCKS * BLOCK)
    found = b.var("found", vc.f32(0))
    with b.for_(vc.global_id.x, places.size, step=BLOCKS * BLOCK) as i:
        found.set(found + x[places[i]])
    out[vc.global_id.x] = found
    return b.build()


def saxpy(type_: vc.Type) -> vc.Program:
    b = vc.Builder("saxpy", block=BLOCK)
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = type_(3) * x[i] + y[i]
    return b.build()


def forms() -> Iterator[tuple[str, Callable[[vc.Program], vc.Program]]]:
    given, read_ahead = ahead.TRIPS, pipeline.loads_ahead
    yield "one trip", lambda program: program
    for trips in (given, 2 * given):
        ahead.TRIPS = trips
        yield f"{trips} trips", read_ahead
    ahead.TRIPS, pipeline.loads_ahead = given, read_ahead


def loops(probe: Probe) -> None:
    side, size = (64, 1 << 12) if probe.emulated else (8192, 1 << 28)
    small = min(side, 2048)
    x = probe.random.random(size, dtype=np.float32)
    large = probe.device.array(x)
    square = probe.device.array(x[: small * small].reshape(small, small))
    places = probe.device.array(probe.random.integers(0, min(size, 1 << 20), size // 4, dtype=np.uint32))
    cases: tuple[tuple[str, vc.Program, list[Any], int], ...] = (
        ("sum, f32", total(vc.f32, vc.f32), [large], 4 * size),
        ("sum, i32", total(vc.i32, vc.i32), [probe.device.array(x.view(np.int32))], 4 * size),
        ("sum, u8 to u32", total(vc.u8, vc.u32), [probe.device.array(x.view(np.uint8)[:size])], size),
        ("maximum of rows, f32", rows(vc.f32), [probe.device.array(x[: side * side].reshape(side, side))], 4 * side**2),
        ("product of matrices, GFLOP/s", product(), [square, square], 2 * small**3),
        ("sum of gathered f32", gather(), [places, large[: 1 << 20]], 2 * size),
    )
    for name, program, arrays, moved in cases:
        line, first = [], b""
        for number, (form, transform) in enumerate(forms()):
            pipeline.loads_ahead = transform
            # Kernels are kept by name and contents, whatever a probe does to a pass.
            kernel = probe.device.compile(dataclasses.replace(program, name=f"{program.name}_{number}"))
            found = np.asarray(kernel(*(each.numpy() for each in arrays)))
            first = first or found.tobytes()
            same = "" if found.tobytes() == first else " DIFFERENT"
            call = kernel.bind(*arrays, probe.device.array(found), stream=probe.stream)
            line.append(f"{form} {probe.rate(call, moved):.0f}{same}")
        print(f"{name:30} {', '.join(line)}", flush=True)


def hints(probe: Probe) -> None:
    size = 1 << (12 if probe.emulated else 28)
    for type_ in (vc.f32, vc.f16, vc.u8):
        kernel = probe.device.compile(saxpy(type_))
        form = several_of(kernel)
        text = kernel.ptx if form is None else form.ptx
        entry = re.findall(r"\.entry (\w+)\(", text)[-1]
        block = BLOCK * (4 if entry.endswith("_several") else 1)
        words = re.findall(r"\.param \.(\w+) \w+", text[text.index(f".entry {entry}(") :].split(")")[0])
        arrays = [probe.device.array(probe.random.integers(1, 3, size).astype(type_.dtype)) for _ in range(3)]
        signature = " ".join("ptr" if word == "u64" else word for word in words)
        arguments = [*arrays, *[size] * (len(words) - len(arrays))]
        line, first = [], b""
        for name, load, store in HINTS:
            hinted = text.replace("ld.global.", f"ld.global{load}.").replace("st.global.", f"st.global{store}.")
            try:
                kernel = probe.device.load(hinted, entry, signature=signature)
            except vc.CompileError:  # the emulator does not know all of them
                continue
            call = kernel.bind(*arguments, grid=-(-size // block), block=BLOCK, stream=probe.stream)
            call()
            probe.stream.synchronize()
            found = arrays[2].numpy().tobytes()
            first = first or found
            line.append(
                f"{name} {probe.rate(call, 3 * size * type_.itemsize):.0f}{'' if found == first else ' DIFFERENT'}"
            )
        print(f"{'saxpy, ' + str(type_):30} {', '.join(line)}", flush=True)


def softmax(probe: Probe) -> None:
    found = importlib.util.spec_from_file_location("softmax", ROOT / "examples" / "softmax.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["softmax"] = module
    found.loader.exec_module(module)
    side = 256 if probe.emulated else 8192
    x = probe.device.array(probe.random.standard_normal((side, side), dtype=np.float32))
    out = probe.device.zeros((side, side), vc.f32)
    options: tuple[dict[str, Any], ...] = ({}, {"bounds": "off"}, {"max_ulp": 2}, {"precision": "fast"})
    for each in options:
        kernel = probe.device.compile(module.softmax_of.program(columns=side), **each)
        call = kernel.bind(x, out, stream=probe.stream)
        words = ", ".join(f"{name}={value!r}" for name, value in each.items()) or "as it stands"
        print(f"{'softmax, ' + words:30} {probe.rate(call, 8 * side * side):.0f}", flush=True)


if __name__ == "__main__":
    probed = Probe(sys.argv[1:] == ["emulator"])
    loops(probed)
    hints(probed)
    softmax(probed)
