"""A step reads what the steps before it left in memory: no value that was loaded before a step holds behind it.

Each recording has a step that loads elements, one that changes them, and one that loads them again; in each form that
merged steps can have, on whole arrays and on views that begin elsewhere in one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda._native.core.module import Module
from vyre_cuda.ir.core.limits import LARGE_LAUNCH
from vyre_cuda.runtime.kernel import large_entry, rows_entry, tables_entry

from .graph_checks import F32
from .table_kernels import evens, sums
from .varied_programs import Kernels
from .varied_recordings import Varied, some_of_each

FIRST = 8  # element of the arena with which views begin

Record = Callable[[vc.Graph, Any, Any, vc.DeviceArray, vc.DeviceArray, vc.DeviceArray], None]


def change(name: str, *, turned: bool = False, block: int = 64) -> vc.Program:
    """to = x; x = 2 x + 1, or to = x turned around"""
    b = vc.Builder(name, block=block)
    x = b.input("x", vc.f32) if turned else b.inout("x", vc.f32)
    to = b.output("to", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < to.size):
        to[i] = x[x.size - 1 - i] if turned else x[i]
        if not turned:
            x[i] = x[i] * 2 + 1
    return b.build()


def row(graph: vc.Graph, own: Any, turned: Any, x: Any, y: Any, z: Any) -> None:
    """Own elements: y has x, z has what became of it, and y again."""
    own.launch(x, y)
    own.launch(x, z)
    own.launch(x, y)


def block(graph: vc.Graph, own: Any, turned: Any, x: Any, y: Any, z: Any) -> None:
    """A block: other threads have changed what is loaded again."""
    turned.launch(x, y)
    own.launch(x, z)
    turned.launch(x, y)


def loop(graph: vc.Graph, own: Any, turned: Any, x: Any, y: Any, z: Any) -> None:
    with graph.repeat(3):
        row(graph, own, turned, x, y, z)


def loop_of_block(graph: vc.Graph, own: Any, turned: Any, x: Any, y: Any, z: Any) -> None:
    with graph.repeat(3):
        block(graph, own, turned, x, y, z)


def temporary(graph: vc.Graph, own: Any, turned: Any, x: Any, y: Any, z: Any) -> None:
    """Through an array of the graph alone, which is in registers or in shared memory."""
    t = graph.temporary(x.size, vc.f32)
    own.launch(x, t)
    own.launch(t, y)
    own.launch(t, z)


def temporary_of_block(graph: vc.Graph, own: Any, turned: Any, x: Any, y: Any, z: Any) -> None:
    t = graph.temporary(x.size, vc.f32)
    turned.launch(x, t)
    turned.launch(t, y)
    own.launch(t, z)
    turned.launch(t, y)


FORMS: list[tuple[Record, int, str]] = [
    (row, 5000, "are one kernel"),
    (block, 60, "are one kernel of one block"),
    (loop, 5000, "are one kernel that repeats 3 times"),
    (loop_of_block, 60, "that repeats 3 times"),
    (temporary, 5000, "are one kernel"),
    (temporary_of_block, 60, "are one kernel of one block"),
]


@pytest.mark.parametrize(("record", "size", "said"), FORMS, ids=[form[0].__name__ for form in FORMS])
@pytest.mark.parametrize("views", [False, True])
def test_what_a_step_changed_is_read_by_those_behind_it(
    device: vc.Device, record: Record, size: int, said: str, *, views: bool
) -> None:
    own, turned = device.compile(change("own")), device.compile(change("turned", turned=True))
    start = np.arange(3 * (FIRST + size), dtype=F32)
    found = []
    for fuse in (False, True):
        arena = device.array(start)
        parts = [arena[k * (FIRST + size) + FIRST * views :][:size] for k in range(3)]
        with device.record(fuse=fuse) as graph:
            record(graph, own, turned, *parts)
        for _ in range(2):
            graph.replay()
        found.append(arena.numpy())

    assert graph.node_count == 1 + ("unspecified" in graph.dot()), graph.explain()
    assert said in graph.explain()
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], start)


def test_rows_of_a_table_read_what_steps_before_and_between_replays_changed(device: vc.Device) -> None:
    """A table stays in memory from one replay to the next, the arrays of its rows change."""
    own = device.compile(change("own"))
    start = np.arange(40 * 50, dtype=F32)
    found = []
    for fuse in (False, True):
        x, y = device.array(start), device.zeros(40 * 50, vc.f32)
        with device.record(fuse=fuse) as graph:
            for _ in range(2):
                for k in range(40):
                    own.launch(x[50 * k : 50 * k + 50], y[50 * k : 50 * k + 50])
        for _ in range(3):
            graph.replay()
            x.copy_from(x.numpy() + 1)
        found += [x.numpy(), y.numpy()]

    assert graph.node_count == 2
    assert graph.explain().count("are one launch with a table of 40 rows") == 2
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])


def test_kernels_load_what_steps_may_change_through_no_read_only_cache(shared_device: vc.Device) -> None:
    """The emulator has no such cache, and on a GPU only some timings show it. The tables of launches alone, which no
    kernel writes, are read through it."""
    kernels = Kernels(shared_device)
    merged = tables = 0
    for seed in some_of_each(4):
        graph = Varied(shared_device, kernels, seed).record(fuse=True)
        graph.compile()
        plan = graph._versions.plan
        assert plan is not None
        for kernel in plan.made:
            assert re.search(r"\bld\.\S*\.nc\b", kernel.lowered.ptx) is None, graph.explain()
            merged += 1
        tables += len(plan.tables)
    assert merged > 30
    assert tables > 5


# What an entry for many launches may read through the read-only cache, and how the addresses of that are made.
OF_TABLE = {"%row_at", "%row_map"}
ADDRESSES = re.compile(
    r"mad\.wide\.u32 (%row_at, %row_\d, \d+, %row_table|%row_map, %row_\d, \d+, %row_(table|map));"
    r"|(mul\.wide\.u32|shr\.u64) %row_map, .*|ld\.param\.u64 %row_table, \[rows_table\];"
    r"|cvta\.to\.global\.u64 %row_table, %row_table;"
)


def read_only(text: str) -> Counter[str]:
    """The registers by whose addresses a text loads through the read-only cache; those of the table are of it alone."""
    for line in text.splitlines():
        if re.match(r"\s*[a-z.0-9]+ (%row_at|%row_map|%row_table),", line):
            assert ADDRESSES.fullmatch(line.strip()), line
    return Counter(re.findall(r"\bld\.\S*\.nc\b[^\[]*\[(%\w+)", text))


def test_entries_for_many_launches_load_no_array_through_a_read_only_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one kernel, with one and with several elements a thread, with clears, and of several kernels."""
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    loaded: list[str] = []

    def noting(context: Any, image: bytes) -> Module:
        loaded.append(image.decode("ascii"))
        return Module(context, image)

    for module in (rows_entry, large_entry, tables_entry):
        monkeypatch.setattr(module, "Module", noting)
    with vc.Device("emulator") as device:
        programs = (change("own", block=32), change("turned", turned=True, block=32), sums(), evens())
        kernels = [device.compile(each) for each in programs]
        graphs = []
        for some, size in ((kernels[:1], 50), (kernels[:1], LARGE_LAUNCH // 4), (kernels[2:3], 64), (kernels, 64)):
            rows = [(kernel, device.zeros(size, vc.f32), device.zeros(size, vc.f32)) for kernel in some * 6]
            with device.record(fuse=True) as graph:
                for kernel, x, z in rows:
                    kernel.launch(x, z, *([2.0] if kernel is kernels[2] else []))
            graph.replay()
            assert "with a table" in graph.explain()
            graphs.append(graph)
        texts = [text for text in loaded if "rows_table" in text]
        found = [read_only(text) for text in texts]
        entries = {name for text in texts for name in re.findall(r"\.entry (\w+)\(", text)}
        graphs.clear()

    assert entries == {"k_own_rows", "k_own_rows_several", "k_sums_rows", "k_clear_results_rows", "vyre_tables"}
    assert all(each.keys() <= OF_TABLE and each["%row_at"] > 1 for each in found), found
    assert read_only(texts[0].replace("ld.global.f32", "ld.global.nc.f32")).keys() - OF_TABLE
