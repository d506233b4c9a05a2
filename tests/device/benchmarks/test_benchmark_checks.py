"""No figure of a benchmark is of a wrong result, of another kernel, or of a process that ended or hung."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from ..benchmark_scripts import harness

pytestmark = [
    pytest.mark.device,
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]


@pytest.fixture
def emulated() -> Iterator[vc.Device]:
    with vc.Device("emulator") as device:
        yield device


def prepared(device: vc.Device, folder: Path) -> Any:
    library = str(Path(vc.get_library_dir()) / "libvyre_cuda_emulator.so")
    quick = harness("harness.counts").QUICK
    ids = ("large_copies_pinned", "copy_h2d_pinned")
    return harness("harness.twins").prepare(folder, device, ids=ids, seed=1, counts=quick, driver=library)


# ---- wrong results ---------------------------------------------------------------------------------------------------


def wrong_last_bit(sets: list[Any]) -> list[Any]:
    """The sets, of which the first expects another last bit in one element."""
    expected = sets[0].expected.copy()
    expected.view(np.uint32)[1000] ^= 1
    return [replace(sets[0], expected=expected), *sets[1:]]


@pytest.mark.thin
def test_a_twin_with_one_wrong_bit_gives_no_figure(emulated: vc.Device, tmp_path: Path) -> None:
    twins, inputs = prepared(emulated, tmp_path), harness("harness.inputs")
    quick = harness("harness.counts").QUICK
    for name, count in (("saxpy", 2), ("select", 2), ("chain", 2), ("scale", 1)):
        sets = getattr(inputs, f"{name}_sets")(1, quick)
        inputs.write_sets(tmp_path / f"{name}.f32", wrong_last_bit(sets), inputs=count)
    rows = ("launch_enqueue_kernel", "host_dispatch_pinned", "clear_graph_same", "graph_chain", "large_copies_pinned")
    good = ("copy_h2d_pinned",)

    found = harness("harness.processes").collect(twins.raw, [*rows, *good], limit_s=60)

    assert found.lines.keys() == set(good)
    assert {id: f"{id}: wrong result in set 0" in reason for id, reason in found.failed.items()} == dict.fromkeys(
        rows, True
    )


@pytest.mark.thin
def test_the_layer_with_one_wrong_bit_gives_no_figure(emulated: vc.Device, tmp_path: Path) -> None:
    twins, inputs = prepared(emulated, tmp_path), harness("harness.inputs")
    sets = inputs.saxpy_sets(1, harness("harness.counts").QUICK)
    inputs.write_sets(tmp_path / "saxpy.f32", wrong_last_bit(sets), inputs=2)

    found = harness("harness.processes").collect(twins.layer, ["layer_call_same", "layer_alloc_free"], limit_s=60)

    assert found.lines.keys() == {"layer_alloc_free"}
    assert "layer_call_same: wrong result" in found.failed["layer_call_same"]


@pytest.mark.thin
def test_a_cpp_host_with_one_wrong_bit_gives_no_figure(emulated: vc.Device, tmp_path: Path) -> None:
    twins, inputs = prepared(emulated, tmp_path), harness("harness.inputs")
    quick = harness("harness.counts").QUICK
    inputs.write_sets(tmp_path / "saxpy.f32", wrong_last_bit(inputs.saxpy_sets(1, quick)), inputs=2)
    rows = ["cpp_call_same", "cpp_call_changed", "cpp_call_sync", "cpp_host_dispatch", "cpp_host_dispatch_pinned"]

    found = harness("harness.processes").collect(twins.host, [*rows, "cpp_graph"], limit_s=60)

    assert found.lines.keys() == {"cpp_graph"}
    assert {id: f"{id}: wrong result in set 0" in reason for id, reason in found.failed.items()} == dict.fromkeys(
        rows, True
    )


@pytest.mark.thin
def test_a_graph_from_cpp_with_one_wrong_bit_gives_no_figure(emulated: vc.Device, tmp_path: Path) -> None:
    twins, inputs = prepared(emulated, tmp_path), harness("harness.inputs")
    sets = inputs.chain_sets(1, harness("harness.counts").QUICK)
    inputs.write_sets(tmp_path / "chain.f32", wrong_last_bit(sets), inputs=2)

    found = harness("harness.processes").collect(twins.host, ["cpp_graph", "cpp_call_same"], limit_s=60)

    assert found.lines.keys() == {"cpp_call_same"}
    assert "cpp_graph: wrong result in set 0" in found.failed["cpp_graph"]


GROUPS = {"saxpy": "Saxpy", "clear": "Clear", "large": "Large", "copies": "Copies"}


@pytest.mark.parametrize(
    ("module", "sets", "row"),
    [
        ("saxpy", "saxpy_sets", "call_enqueue_same"),
        ("saxpy", "saxpy_sets", "launch_sync"),
        ("saxpy", "saxpy_sets", "host_dispatch_out"),
        ("saxpy", "saxpy_sets", "host_dispatch_new"),
        ("clear", "select_sets", "call_clear_changed"),
        ("large", "scale_sets", "large_pageable"),
        ("copies", "copy_sets", "copy_h2d_pageable"),
    ],
)
def test_python_with_one_wrong_bit_gives_no_figure(
    module: str, sets: str, row: str, emulated: vc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways, base = harness(f"harness.ways.{module}"), harness("harness.ways.base")
    right: Callable[[int, Any], list[Any]] = getattr(ways, sets)
    monkeypatch.setattr(ways, sets, lambda seed, counts: wrong_last_bit(right(seed, counts)))
    bench = base.Bench(emulated, 1, harness("harness.counts").QUICK, None)

    with pytest.raises(harness("harness.timing").WrongResult, match="element 1000"):
        getattr(ways, GROUPS[module])(bench).measure(row)


@pytest.mark.parametrize("name", ["saxpy", "select", "scale"])
def test_the_twin_gets_the_kernel_that_python_runs(name: str, emulated: vc.Device) -> None:
    programs = harness("harness.programs")
    program = programs.PROGRAMS[name]()

    # The form for large launches follows.
    assert emulated.compile(program).ptx.startswith(programs.lowered_for(emulated, program).ptx)


# ---- crashes, hangs and what is not there ----------------------------------------------------------------------------


def child(tmp_path: Path, body: str) -> list[str]:
    """The command of a child that measures rows a, b and c; `body` runs when `id` is b."""
    script = tmp_path / "child.py"
    script.write_text(
        "import json, os, sys, time\n"
        "print(json.dumps({'device': 'x'}), flush=True)\n"
        "for id in sys.argv[sys.argv.index('--rows') + 1].split(','):\n"
        "    print(json.dumps({'begin': id}), flush=True)\n"
        "    if id == 'b':\n"
        f"        {body}\n"
        "    print(json.dumps({'id': id, 'median_ns': 1.0, 'p99_ns': 1.0, 'n': 1, 'calls': 1}), flush=True)\n",
        encoding="utf-8",
    )
    return [sys.executable, str(script)]


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("body", "reason"),
    [("os.abort()", "exit status"), ("sys.exit('broken')", "broken"), ("time.sleep(1000)", "not fin")],
)
def test_a_row_that_ends_or_hangs_its_process_fails_alone(body: str, reason: str, tmp_path: Path) -> None:
    limit_s = 30 if "sleep" in body else 250  # also of what does not hang, on a busy machine
    found = harness("harness.processes").collect(child(tmp_path, body), ["a", "b", "c"], limit_s=limit_s)

    assert found.lines.keys() == {"a", "c"}
    assert found.failed.keys() == {"b"}
    assert reason in found.failed["b"]


def test_a_row_without_what_it_measures_is_absent_and_says_why(emulated: vc.Device, tmp_path: Path) -> None:
    base = harness("harness.ways.base")
    with pytest.raises(base.NotThere, match=r"Device\.no_such_name"):
        base.need(emulated, "no_such_name")
    body = "print(json.dumps({'id': id, 'absent': 'not there: Device.b'}), flush=True); continue"

    found = harness("harness.processes").collect(child(tmp_path, body), ["a", "b", "c"], limit_s=250)

    assert found.lines.keys() == {"a", "c"}
    assert found.absent == {"b": "not there: Device.b"}
    assert found.failed == {}


def test_a_child_that_does_not_start_ends_the_run(tmp_path: Path) -> None:
    processes = harness("harness.processes")
    with pytest.raises(processes.ChildFailed):
        processes.collect([sys.executable, str(tmp_path / "missing.py")], ["a"], limit_s=250)
