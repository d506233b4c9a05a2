"""A run of the benchmarks from end to end on the emulator, its result file, and the page of results."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import vyre_cuda as vc

from ..benchmark_scripts import BENCHMARKS, harness, run_script

pytestmark = [
    pytest.mark.device,
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]


@pytest.fixture
def result(dispatch_benchmark: tuple[Path, str]) -> dict[str, Any]:
    """The content of the result file."""
    content: dict[str, Any] = json.loads(dispatch_benchmark[0].read_text(encoding="utf-8"))
    return content


# ---- a run -----------------------------------------------------------------------------------------------------------


def test_every_row_has_a_figure_or_a_reason(result: dict[str, Any]) -> None:
    figures = {row["id"] for row in result["figures"]}
    absent = {row["id"] for row in result["absent"]}

    assert result["failed"] == []
    assert figures | absent >= {row.id for row in harness("harness.rows").ROWS}
    assert not figures & absent


def test_no_row_is_absent_for_want_of_a_name_of_the_package(result: dict[str, Any]) -> None:
    assert [row for row in result["absent"] if row["reason"].startswith("not there")] == []


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


def test_an_emulator_run_says_so_and_has_no_verdict(
    dispatch_benchmark: tuple[Path, str], result: dict[str, Any]
) -> None:
    assert result["environment"]["emulator"] is True
    assert {row["verdict"] for row in result["figures"]} == {""}
    assert dispatch_benchmark[0].name.startswith("emulator-")
    assert dispatch_benchmark[1].rstrip().endswith("no measurements")


def test_the_file_names_commit_device_and_driver(result: dict[str, Any]) -> None:
    with vc.Device("emulator") as device:
        version = device.properties.driver_version
        expected = ("c0ffee", device.properties.name, f"{version // 1000}.{version % 1000 // 10}")
    environment = result["environment"]
    assert expected == (environment["commit"], environment["device"], environment["driver_api"])


def test_a_peer_that_cannot_run_is_noted(result: dict[str, Any]) -> None:
    assert {row["peer"] for row in result["peers"] + result["peer_failures"]} == {"cupy"}


@pytest.mark.thin
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


@pytest.mark.thin
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


@pytest.mark.parametrize(
    ("medians", "twin"),
    [
        ({"large_chunks_pageable": 3.0, "large_copies_pageable": 2.0, "large_zero_copy_pageable": 4.0}, 1),
        ({"large_zero_copy_pageable": 4.0, "large_chunks_pageable": 3.0}, 0),
        ({"large_zero_copy_pageable": 4.0, "large_chunks_new": 1.0}, 2),
        ({}, 0),
    ],
)
def test_a_row_is_held_to_the_fastest_of_its_twins(medians: dict[str, float], twin: int) -> None:
    series = harness("harness.resultfile").Series
    row = next(row for row in harness("harness.rows").ROWS if row.id == "large_pageable")
    expected = ("large_chunks_pageable", "large_copies_pageable", "large_zero_copy_pageable")[twin]

    found = harness("harness.runner").with_fastest_twin(
        row, {name: series(9.0, 9.0, [median, 9.0], 2, 1) for name, median in medians.items()}
    )

    assert found.twin == expected


# ---- files and pages -------------------------------------------------------------------------------------------------


def test_compare_of_a_file_with_itself_finds_no_change(
    dispatch_benchmark: tuple[Path, str], result: dict[str, Any]
) -> None:
    child = run_script("compare.py", dispatch_benchmark[0], dispatch_benchmark[0])
    assert child.returncode == 0, child.stderr
    assert child.stdout.count("1.000") >= len(result["figures"]) + len(result["twins"])


@pytest.mark.thin
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


@pytest.mark.thin
def test_the_compile_curve_has_both_trees_and_the_types(tmp_path: Path) -> None:
    source = Path(vc.__file__).parents[1]

    words = ("--quick", "--repeats", "1", "--types", "u8 with xor", "mixed")
    child = run_script("compile_curve.py", *words, "--before", source, "--output", tmp_path)

    assert child.returncode == 0, child.stderr
    (path,) = tmp_path.glob("*-offline-compile-curve.json")
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    assert figures["this"].keys() == figures["before"].keys() == {"u8 with xor", "mixed"}
    for name, sizes in figures["this"].items():
        assert sizes.keys() == {"50", "200"}
        assert all(of["lines"] == figures["before"][name][ops]["lines"] > 0 < of["ms"] for ops, of in sizes.items())


@pytest.mark.thin
def test_the_compile_curve_can_have_times_alone(tmp_path: Path) -> None:
    child = run_script("compile_curve.py", "--times", "--repeats", "1", "--types", "bf16", "--output", tmp_path)

    assert child.returncode == 0, child.stderr
    (path,) = tmp_path.glob("*-offline-compile-curve.json")
    sizes = json.loads(path.read_text(encoding="utf-8"))["figures"]["this"]["bf16"]
    assert sizes.keys() == {"200", "4000"}
    assert all(of.keys() == {"ms"} and of["ms"] > 0 for of in sizes.values())
    assert re.search(rf"{sizes['4000']['ms']:.2f} ms +\d\.\d\d an op", child.stdout)


@pytest.mark.thin
def test_the_fuse_curve_has_each_kind_and_number_of_steps(tmp_path: Path) -> None:
    child = run_script("fuse_curve.py", "--steps", "32", "64", "--kinds", "alike", "apart", "--output", tmp_path)

    assert child.returncode == 0, child.stderr
    (path,) = tmp_path.glob("*-fuse-curve.json")
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    nodes = {(row["kind"], row["steps"]): row["nodes"] for row in rows}
    assert nodes == {("alike", 32): 1, ("alike", 64): 1, ("apart", 32): 32, ("apart", 64): 64}
    assert all(row["calls_a_step"] > 0 for row in rows)


@pytest.mark.thin
def test_the_offline_figures_are_positive_and_named(tmp_path: Path) -> None:
    child = run_script("bench_offline.py", "--quick", "--output", tmp_path)

    assert child.returncode == 0, child.stderr
    (path,) = tmp_path.glob("*-offline.json")
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    assert figures["emulator_instructions_per_second"] > 0
    for stage in ("passes_by_ops", "lowering_by_ops", "compilation_of_integers_by_ops"):
        assert set(figures[stage]) == {"50", "200", "1000", "4000"}
        assert all(value > 0 for row in figures[stage].values() for value in row.values())
    by_type = figures["compilation_of_200_ops_ms"]
    assert {"f16", "u8 with xor", "i64", "mixed"} < set(by_type)
    assert all(value > 0 for value in by_type.values())
    assert figures["import_ms_beyond_numpy"] > 0
    steps = ("decorated", "built", "lowered")
    assert figures["first_function_ms"].keys() == {*steps, *(f"next_{step}" for step in steps)}
    assert min(figures["first_function_ms"].values()) > 0
