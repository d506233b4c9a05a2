"""The benchmarks run from end to end on the emulator, say that they did, and do not let a wrong result pass."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

pytestmark = [pytest.mark.device, pytest.mark.emulator, pytest.mark.slow]


def run_script(script: str | Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A script of the benchmarks folder in a process of its own."""
    command = [sys.executable, str(BENCHMARKS / script), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def harness(name: str) -> Any:
    """A module of the benchmarks folder."""
    return importlib.import_module(name)


@pytest.fixture(autouse=True)
def benchmarks_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture(scope="module")
def dispatch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The result file of one quick run of everything, and what it printed."""
    folder = tmp_path_factory.mktemp("results")
    words = ["--device", "emulator", "--quick", "--rounds", "2", "--peers", "cupy", "--commit", "c0ffee", "--output"]
    child = run_script("bench_dispatch.py", *words, folder)
    assert child.returncode == 0, child.stderr + child.stdout
    (path,) = folder.iterdir()
    return path, child.stdout


@pytest.fixture
def result(dispatch: tuple[Path, str]) -> dict[str, Any]:
    """The content of the result file."""
    content: dict[str, Any] = json.loads(dispatch[0].read_text(encoding="utf-8"))
    return content


# ---- a run -----------------------------------------------------------------------------------------------------------


def test_every_row_has_a_figure_or_a_reason(result: dict[str, Any]) -> None:
    figures = {row["id"] for row in result["figures"]}
    absent = {row["id"] for row in result["absent"]}

    assert result["failed"] == []
    assert figures | absent >= {row.id for row in harness("harness.rows").ROWS}
    assert not figures & absent


def test_what_is_absent_is_a_name_that_the_package_does_not_have(result: dict[str, Any]) -> None:
    owners = {"Device": vc.Device, "DeviceArray": vc.DeviceArray}
    for row in result["absent"]:
        owner, dot, name = row["reason"].removeprefix("not there: ").partition(".")
        if dot and owner in owners and "(" not in name:
            assert not hasattr(owners[owner], name)


def test_every_figure_stands_beside_its_twin_of_the_same_run(result: dict[str, Any]) -> None:
    twins = {row["id"]: row["series"] for row in result["twins"]}
    missing = {row["id"] for row in result["absent"]}
    for row in result["figures"]:
        if row["twin"] in missing:
            assert row["ratio"] is None
            continue
        assert row["twin_median_us"] == twins[row["twin"]]["median_us"] > 0
        assert row["ratio"] == pytest.approx(row["series"]["median_us"] / row["twin_median_us"], rel=1e-3, abs=1e-4)


def test_both_sides_have_a_median_of_each_round(result: dict[str, Any]) -> None:
    in_rounds = [row for row in result["figures"] + result["twins"] + result["layer"] if row["series"]["samples"] > 1]
    assert in_rounds
    assert {len(row["series"]["passes"]) for row in in_rounds} == {2}


def test_launches_are_counted_on_each_side_for_each_number_of_threads(result: dict[str, Any]) -> None:
    expected = {(side, threads) for side in ("python", "layer", "raw") for threads in (1, 2, 4, 8)}

    assert {(row["side"], row["threads"]) for row in result["rates"]} == expected
    assert all(row["launches_per_second"] > 0 for row in result["rates"])


def test_an_emulator_run_says_so_and_has_no_verdict(dispatch: tuple[Path, str], result: dict[str, Any]) -> None:
    assert result["environment"]["emulator"] is True
    assert {row["verdict"] for row in result["figures"]} == {""}
    assert dispatch[0].name.startswith("emulator-")
    assert dispatch[1].rstrip().endswith("no measurements")


def test_the_file_names_commit_device_and_driver(result: dict[str, Any]) -> None:
    with vc.Device("emulator") as device:
        version = device.properties.driver_version
        expected = ("c0ffee", device.properties.name, f"{version // 1000}.{version % 1000 // 10}")
    environment = result["environment"]
    assert expected == (environment["commit"], environment["device"], environment["driver_api"])


def test_a_peer_that_cannot_run_is_noted(result: dict[str, Any]) -> None:
    assert {row["peer"] for row in result["peers"] + result["peer_failures"]} == {"cupy"}


def test_chosen_rows_are_the_only_ones_measured(tmp_path: Path) -> None:
    words: list[str | Path] = [
        "--device",
        "emulator",
        "--quick",
        "--rows",
        "call_sync,clear_enqueue",
        "--output",
        tmp_path,
    ]
    child = run_script("bench_dispatch.py", *words)

    assert child.returncode == 0, child.stderr
    (path,) = tmp_path.iterdir()
    data = json.loads(path.read_text(encoding="utf-8"))
    assert {row["id"] for row in data["figures"]} == {"call_sync", "call_clear_same", "call_clear_changed"}
    assert {row["id"] for row in data["twins"]} == {row["twin"] for row in data["figures"]}


def test_an_unknown_row_is_refused() -> None:
    child = run_script("bench_dispatch.py", "--device", "emulator", "--rows", "nonsense")

    assert child.returncode == 2
    assert "nonsense" in child.stderr


# ---- targets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "ours", "twin", "verdict"),
    [
        ("call_enqueue_same", [1.19, 3.0], [1.05, 2.0], "met"),
        ("call_enqueue_same", [1.21, 1.21], [1.05, 1.06], "missed"),
        ("large_pinned", [104.0], [100.0], "met"),
        ("large_pinned", [106.0], [100.0], "missed"),
        ("copy_h2d_pinned", [103.0], [100.0], "met"),
        ("copy_h2d_pinned", [104.0], [100.0], "missed"),
        ("alloc_free", [0.29], None, "met"),
        ("alloc_free", [0.31], None, "missed"),
        ("cpp_call_same", [1.08, 3.0], [1.05, 2.0], "met"),
        ("cpp_host_dispatch", [9.02], [8.75], "missed"),
        ("launch_sync", [9.0], [1.0], ""),
        ("call_sync", [9.0], None, ""),
    ],
)
def test_verdict_bounds_the_best_by_the_twins_best(
    id: str, ours: list[float], twin: list[float] | None, verdict: str
) -> None:
    series = harness("harness.resultfile").Series
    row = next(row for row in harness("harness.rows").ROWS if row.id == id)

    def of(passes: list[float]) -> Any:
        return series(max(passes), max(passes), passes, len(passes), 1)

    counts = harness("harness.counts").FULL
    figure = harness("harness.runner").figure(
        row, of(ours), None if twin is None else of(twin), counts, is_emulator=False
    )

    assert figure.verdict == verdict
    assert figure.bytes_moved == {"large_pinned": 32 << 20, "copy_h2d_pinned": 256 << 20}.get(id, 0)


# ---- wrong results, crashes and hangs --------------------------------------------------------------------------------


def wrong_last_bit(sets: list[Any]) -> list[Any]:
    """The sets, of which the first expects another last bit in one element."""
    expected = sets[0].expected.copy()
    expected.view(np.uint32)[1000] ^= 1
    return [replace(sets[0], expected=expected), *sets[1:]]


@pytest.fixture
def emulated() -> Any:
    with vc.Device("emulator") as device:
        yield device


def prepared(device: vc.Device, folder: Path) -> Any:
    library = str(Path(vc.get_library_dir()) / "libvyre_cuda_emulator.so")
    quick = harness("harness.counts").QUICK
    ids = ("large_copies_pinned", "copy_h2d_pinned")
    return harness("harness.twins").prepare(folder, device, ids=ids, seed=1, counts=quick, driver=library)


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


def test_the_layer_with_one_wrong_bit_gives_no_figure(emulated: vc.Device, tmp_path: Path) -> None:
    twins, inputs = prepared(emulated, tmp_path), harness("harness.inputs")
    sets = inputs.saxpy_sets(1, harness("harness.counts").QUICK)
    inputs.write_sets(tmp_path / "saxpy.f32", wrong_last_bit(sets), inputs=2)

    found = harness("harness.processes").collect(twins.layer, ["layer_call_same", "layer_alloc_free"], limit_s=60)

    assert found.lines.keys() == {"layer_alloc_free"}
    assert "layer_call_same: wrong result" in found.failed["layer_call_same"]


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


@pytest.mark.parametrize(
    ("body", "reason"), [("os.abort()", "exit status"), ("sys.exit('broken')", "broken"), ("time.sleep(60)", "not fin")]
)
def test_a_row_that_ends_or_hangs_its_process_fails_alone(body: str, reason: str, tmp_path: Path) -> None:
    found = harness("harness.processes").collect(child(tmp_path, body), ["a", "b", "c"], limit_s=2)

    assert found.lines.keys() == {"a", "c"}
    assert found.failed.keys() == {"b"}
    assert reason in found.failed["b"]


def test_a_child_that_does_not_start_ends_the_run(tmp_path: Path) -> None:
    processes = harness("harness.processes")
    with pytest.raises(processes.ChildFailed):
        processes.collect([sys.executable, str(tmp_path / "missing.py")], ["a"], limit_s=10)


# ---- the same kernels, files and pages -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["saxpy", "select", "scale"])
def test_the_twin_gets_the_kernel_that_python_runs(name: str, emulated: vc.Device) -> None:
    programs = harness("harness.programs")
    program = programs.PROGRAMS[name]()

    assert programs.lowered_for(emulated, program).ptx == emulated.compile(program).ptx


def test_compare_of_a_file_with_itself_finds_no_change(dispatch: tuple[Path, str], result: dict[str, Any]) -> None:
    child = run_script("compare.py", dispatch[0], dispatch[0])
    assert child.returncode == 0, child.stderr
    assert child.stdout.count("1.000") >= len(result["figures"]) + len(result["twins"])


@pytest.mark.parametrize("change", [{"schema": 999}, {"figures": [{"id": "x"}]}, {"twins": None}])
def test_compare_refuses_another_file(change: dict[str, Any], result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps({**result, **change}), encoding="utf-8")
    child = run_script("compare.py", path, path)
    assert child.returncode == 1
    assert child.stderr.startswith(str(path))


def test_every_recorded_file_can_be_read() -> None:
    paths = sorted((BENCHMARKS / "results").glob("*-dispatch.json"))
    results = [harness("harness.resultfile").load(path) for path in paths]

    assert results
    assert not any(r.environment.emulator for r in results)


def test_the_page_and_its_picture_are_of_the_newest_file() -> None:
    child = run_script("page.py", "--check")

    assert child.returncode == 0, child.stderr


def test_a_page_of_an_older_file_is_found(
    result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page: ModuleType = harness("page")
    results = tmp_path / "results"
    shutil.copytree(BENCHMARKS / "results", results)
    newer = {**result, "environment": {**result["environment"], "emulator": False, "date": "2999-01-01T00:00:00Z"}}
    (results / "2999-dispatch.json").write_text(json.dumps(newer), encoding="utf-8")
    monkeypatch.setattr(page, "RESULTS", results)

    assert page.main(["--check"]) == 1
    text = page.current(page.PAGE.read_text(encoding="utf-8"), results)
    assert "2999-dispatch.json" in text
    assert all(row["what"] in text for row in result["figures"])
    assert all(row["reason"] in text for row in result["absent"] if row["id"] in {r.id for r in page.ROWS})


def test_the_offline_figures_are_positive_and_named(tmp_path: Path) -> None:
    child = run_script("bench_offline.py", "--quick", "--output", tmp_path)

    assert child.returncode == 0, child.stderr
    (path,) = tmp_path.glob("*-offline.json")
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    assert figures["emulator_instructions_per_second"] > 0
    for stage in ("passes_by_ops", "lowering_by_ops"):
        assert set(figures[stage]) == {"50", "200", "1000", "4000"}
        assert all(value > 0 for row in figures[stage].values() for value in row.values())
    assert figures["import_ms_beyond_numpy"] > 0


# ---- mathematical functions -----------------------------------------------------------------------------------------


def math_rows(folder: Path, benchmark: str) -> Any:
    """The rows of the only result file."""
    (path,) = folder.glob(f"*-{benchmark}.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["emulator"]
    return content["rows"]


def test_accuracy_of_functions_is_measured_and_held_to_the_bounds(tmp_path: Path) -> None:
    words = ["--device", "emulator", "--functions", "exp2,hypot", "--host-step", "4000037", "--output", tmp_path]

    child = run_script("math_exhaustive.py", *words)

    assert child.returncode == 0, child.stderr + child.stdout
    rows = math_rows(tmp_path, "math-accuracy")
    assert {(row["function"], row["type"]) for row in rows} >= {("exp2", t) for t in ("f32", "f16", "bf16")}
    assert {row["precision"] for row in rows if row["type"] == "f32" and row["function"] == "exp2"} == {
        "ieee",
        "ftz",
        "fast",
    }
    assert all(0 < row["ulp"] <= row["bound"] for row in rows)


def test_throughput_of_functions_is_measured(tmp_path: Path) -> None:
    child = run_script(
        "bench_math.py", "--device", "emulator", "--functions", "sin,power", "--repeats", "1", "--output", tmp_path
    )

    assert child.returncode == 0, child.stderr + child.stdout
    rows = math_rows(tmp_path, "math-throughput")
    assert rows.keys() == {"sin", "power"}
    assert all(row["ieee"] > 0 and row["fast"] > 0 for row in rows.values())


@pytest.mark.parametrize("script", ["math_exhaustive.py", "bench_math.py"])
def test_an_unknown_function_is_refused(script: str) -> None:
    child = run_script(script, "--device", "emulator", "--functions", "sine")

    assert child.returncode == 2
    assert "sine" in child.stderr


def test_a_result_beyond_its_bound_is_found(tmp_path: Path) -> None:
    functions, checks = harness("mathematics.functions"), harness("mathematics.checks")
    device = vc.Device("emulator")
    wrong = device.compile(functions.program("cosh", vc.f32))

    worst = checks.HostCheck(device, 40_000_003).worst(functions.chosen("exp")[0], wrong, flushes=False)

    assert worst.ulp > 1e6
