"""A fused graph as replay_driver (raw) takes it: its kernels with their parameters, launched by the driver alone.

Only for graphs of launches that have one element a thread and do not share parts of arrays.
"""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

import vyre_cuda as vc
from harness.twins import build_replay
from vyre_cuda.codegen.core.lowered import KernelParameter
from vyre_cuda.codegen.emit.rows import HEADER_BYTES, row_bytes
from vyre_cuda.codegen.tables import ENTRY
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.runtime.graph.graph_steps import LaunchStep, TablesStep
from vyre_cuda.runtime.graph.launches import geometry_of
from vyre_cuda.runtime.graph.temporary import Temporary
from vyre_cuda.runtime.kernel.tables_lowering import lowered

Point = tuple[int, int]  # where an address is, the number of its buffer


class Description:
    """graph.txt and its files, in a folder."""

    def __init__(self, folder: Path, start: Mapping[int, bytes], values: Mapping[str, float]) -> None:
        """`start` has what arrays begin with, by address; others begin with zeros. `values` are those of symbols in the
        replay that is compared; later ones have others."""
        self._values = values
        self._folder = folder
        self._start = start
        self._lines: list[str] = []
        self._buffers: dict[int, int] = {}
        self._temporaries: dict[tuple[int, int], int] = {}
        self._modules: dict[str, int] = {}
        self._nodes = 0

    def write(self) -> None:
        (self._folder / "graph.txt").write_text("\n".join([*self._lines, ""]), encoding="ascii")

    def array(self, array: vc.DeviceArray) -> int:
        if isinstance(array, Temporary):
            place = (id(array.root), array.offset)
            if place not in self._temporaries:
                self._temporaries[place] = self._buffer(array.nbytes, b"")
            return self._temporaries[place]
        address = array._alive().address + array.offset
        if address not in self._buffers:
            self._buffers[address] = self._buffer(array.nbytes, self._start.get(address, b""))
        return self._buffers[address]

    def expect(self, array: vc.DeviceArray, content: bytes) -> None:
        number = self.array(array)
        self._lines.append(f"expect {number} 0 {self._file(f'expected{number}', content)}")

    def launch(self, step: LaunchStep) -> None:
        kernel, geometry = step.kernel, geometry_of(step, self._values)
        changes = [
            p.offset
            for p in kernel.lowered.parameters
            if p.kind == "scalar" and isinstance(step.values[p.name], vc.Symbol)
        ]
        block, points = self._parameters(step)
        module = self._module(kernel.ptx)
        shared = kernel.lowered.dynamic_shared_bytes
        self._node(module, kernel.lowered.entry, geometry.blocks, kernel.program.block, shared, block, points)
        self._lines += [f"change {self._nodes - 1} {at}" for at in changes]

    def tables(self, step: TablesStep) -> None:
        """All rows have as many blocks, along x, and arrays of their own."""
        assert not step.places
        stride = row_bytes(max(table.kernel.lowered.parameter_bytes for table in step.tables))
        content, points, ends = b"", [], []
        (each,) = {geometry_of(launch, {}).blocks for launch in step.launches}
        for number, launch in enumerate(step.launches):
            block, places = self._parameters(launch)
            points += [(number * stride + HEADER_BYTES + at, buffer) for at, buffer in places]
            content += (struct.pack("<4I", number * each, each, 1, 1) + block).ljust(stride, b"\0")
        for table in step.tables:
            ends.append(len(table.launches) + (ends[-1] if ends else 0))
        table = self._buffer(len(content), content)
        self._lines += [f"at {table} {at} {buffer} 0" for at, buffer in points]
        log = (each - 1).bit_length()
        scale = (1 << 31 + log) // each + 1
        words = [len(step.launches), each, scale, 31 + log, 1, *ends[:-1]]
        text = lowered(step.kernels, arrays=0)
        block = step.kernels[0].program.block
        parameters = struct.pack(f"<Q{len(words)}I", 0, *words)
        blocks = each * len(step.launches)
        self._node(self._module(text.ptx), ENTRY, blocks, block, text.dynamic_shared_bytes, parameters, [(0, table)])

    def _parameters(self, step: LaunchStep) -> tuple[bytes, list[Point]]:
        lowered_kernel = step.kernel.lowered
        block = bytearray(lowered_kernel.parameter_bytes)
        points: list[Point] = []
        for p in lowered_kernel.parameters:
            if p.kind == "buffer":
                points.append((p.offset, self.array(step.values[p.name])))
            else:
                block[p.offset : p.offset + p.size] = self._number(p, step).to_bytes(p.size, "little")
        return bytes(block), points

    def _number(self, p: KernelParameter, step: LaunchStep) -> int:
        if p.kind == "scalar":
            assert p.type is not None
            value = step.values[p.name]
            return bits_of(p.type, self._values[value.name] if isinstance(value, vc.Symbol) else value)
        assert p.kind == "size", p
        size: int = step.values[p.name].count
        return size

    def _buffer(self, nbytes: int, content: bytes) -> int:
        number = sum(line.startswith("buffer ") for line in self._lines)
        file = self._file(f"buffer{number}", content) if content else "-"
        self._lines.append(f"buffer {nbytes} {file}")
        return number

    def _module(self, ptx: str) -> int:
        if ptx not in self._modules:
            file = self._file(f"module{len(self._modules)}.ptx", ptx.encode("ascii"))
            self._lines.append(f"module {file}")
            self._modules[ptx] = len(self._modules)
        return self._modules[ptx]

    def _node(
        self,
        module: int,
        entry: str,
        blocks: int,
        block: Sequence[int],
        shared: int,
        parameters: bytes,
        points: Sequence[Point],
    ) -> None:
        behind = self._nodes - 1
        words = (module, entry, blocks, prod(block), shared, len(parameters), parameters.hex(), behind)
        self._lines.append(" ".join(["node", *map(str, words)]))
        self._lines += [f"point {self._nodes} {at} {buffer} 0" for at, buffer in points]
        self._nodes += 1

    def _file(self, name: str, content: bytes) -> str:
        (self._folder / name).write_bytes(content)
        return name


def times_of_twin(
    folder: Path,
    graph: vc.Graph,
    start: Mapping[int, bytes],
    expected: Sequence[tuple[vc.DeviceArray, np.ndarray]],
    rounds: int,
    driver: str,
    values: Mapping[str, float],
) -> tuple[float, float]:
    """Microseconds of replay and wait, by the driver alone, after its results were compared: the median and the 99th
    percentile."""
    plan = graph._versions.plan
    assert plan is not None, graph.explain()
    folder.mkdir(parents=True, exist_ok=True)
    described = Description(folder, start, values)
    for step in plan.steps:
        if isinstance(step, TablesStep):
            described.tables(step)
        else:
            assert isinstance(step, LaunchStep), step
            described.launch(step)
    for array, content in expected:
        described.expect(array, content.tobytes())
    described.write()
    words = [build_replay(folder), driver, folder, "twin", rounds]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"the twin of {graph!r} failed: {done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return float(found["median_ns"]) / 1e3, float(found["p99_ns"]) / 1e3
