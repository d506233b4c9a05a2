"""The benchmark of curves: that it finds steps, that it runs, and that the page shows its newest result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import vyre_cuda as vc

from ..benchmark_scripts import harness

pytestmark = [
    pytest.mark.device,
    pytest.mark.emulator,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]

POINTS = (1, 2, 4, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 128, 254)


# ---- steps -----------------------------------------------------------------------------------------------------------


def steps(costs: dict[int, float], *, each: bool) -> list[tuple[int, int]]:
    return [(step.before, step.items) for step in harness("harness.curves.steps").steps(costs, each=each)]


@pytest.mark.parametrize("at", POINTS[1:])
def test_a_cliff_is_found_where_it_stands(at: int) -> None:
    before = POINTS[POINTS.index(at) - 1]

    linear = {n: 0.4 + 0.05 * n + (23.0 if n >= at else 0.0) for n in POINTS}
    level = {n: 1.0 + (0.7 if n >= at else 0.0) for n in POINTS}

    assert steps(linear, each=True) == [(before, at)]
    assert steps(level, each=False) == [(before, at)]


def test_what_rises_with_its_items_is_no_step() -> None:
    assert steps({n: 1.0 + 0.05 * n for n in POINTS}, each=True) == []
    assert steps({n: 0.3 * n for n in POINTS}, each=True) == []
    assert steps({n: 1.0 + 0.02 * n.bit_length() for n in POINTS}, each=False) == []


def test_a_cost_that_grows_with_what_it_should_not_depend_on_is_found() -> None:
    assert steps({0: 0.3, 1: 0.3, 500: 40.0, 1000: 80.0}, each=False) == [(1, 500), (500, 1000)]


def test_a_cost_that_is_quadratic_is_found() -> None:
    assert (64, 128) in steps({n: 0.001 * n * n for n in (1, 2, 4, 8, 16, 32, 64, 128)}, each=True)


def test_a_single_point_that_is_dear_is_found_and_the_way_back_is_not() -> None:
    assert steps({n: 5.0 if n == 32 else 1.0 for n in POINTS}, each=False) == [(31, 32)]


# ---- a run -----------------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.slow
def test_every_point_of_every_curve_has_a_figure(curves_benchmark: tuple[Path, str]) -> None:
    result = harness("harness.curves.resultfile").load_curves(curves_benchmark[0])
    curves = harness("harness.curves.table").CURVES
    wanted = {(curve.id, way, n) for curve in curves for way in curve.ways for n in curve.quick}
    twins = {(curve.id, way, n) for curve in curves for way in curve.twins for n in curve.quick}
    lacking = {("streams", "allocation"), ("blocks", "known")}  # the emulator has no pool of the driver's

    assert result.failed == []
    assert {(p.curve, p.way, p.items) for p in result.points} == wanted
    assert {(p.curve, p.way, p.items) for p in result.twins} == {t for t in twins if t[:2] not in lacking}
    assert all(0 < p.best_us <= p.median_us for p in (*result.points, *result.twins))
    assert curves_benchmark[0].name.startswith("emulator-curves-")
    assert "no measurements" in curves_benchmark[1]


@pytest.mark.slow
def test_the_steps_of_a_result_are_those_of_its_points(curves_benchmark: tuple[Path, str]) -> None:
    files = harness("harness.curves.resultfile")
    result = files.load_curves(curves_benchmark[0])
    level = [files.Point("calls", "same", n, 5.0 if n > 512 else 1.0, 6.0, 3) for n in (1, 511, 512, 513, 640)]

    assert result.steps == files.steps_of(result.points)
    assert files.steps_of(level) == [files.CurveStep("calls", "same", 512, 513, 5.0)]


@pytest.mark.slow
def test_the_page_has_the_newest_curves(curves_benchmark: tuple[Path, str], tmp_path: Path) -> None:
    page = harness("page")
    content: dict[str, Any] = json.loads(curves_benchmark[0].read_text(encoding="utf-8"))
    for year in ("2998", "2999"):
        environment = {**content["environment"], "emulator": False, "date": f"{year}-01-01T00:00:00Z"}
        newer = {**content, "environment": environment}
        (tmp_path / f"{year}-curves.json").write_text(json.dumps(newer), encoding="utf-8")
    found = page.newest_curves(tmp_path)
    text = page.curves(found)

    assert found[1] == "2999-curves.json"
    assert "2999-curves.json" in text
    for row in content["points"]:
        assert f"| {row['items']:,} |" in text
    for what in ("k.launch, nothing changed", "C: launch of its graph", "### Steps"):
        assert what in text
    assert page.newest_curves(curves_benchmark[0].parent) is None  # runs on the emulator are not shown
    assert "Not measured" in page.curves(None)


def test_a_wrong_result_gives_no_point() -> None:
    base, clock, arguments = (harness(f"harness.curves.{name}") for name in ("base", "clock", "arguments"))
    with vc.Device("emulator") as device:
        two = arguments._Sum(base.Bench(device, clock.Clock(0.0, 2), 1 << 20), 2, 0)
        two.expected += 1
        for way, measure in two.measures():
            with pytest.raises(clock.WrongResult, match=f"{way}: "):
                measure()


@pytest.mark.thin
@pytest.mark.slow
def test_a_floor_with_a_wrong_result_gives_no_point(tmp_path: Path) -> None:
    twins, table = harness("harness.curves.twins"), harness("harness.curves.table")
    library = str(Path(vc.get_library_dir()) / "libvyre_cuda_emulator.so")
    with vc.Device("emulator") as device:
        floors = twins.Floors(tmp_path, device, {"buffers": (2, 3)}, library)
    ptx = tmp_path / "buffers_3.ptx"
    ptx.write_text(ptx.read_text(encoding="ascii").replace("add.rn.f32", "sub.rn.f32"), encoding="ascii")

    points, absent, failed = floors.measure(table.CURVES[0], (2, 3), 0.0)

    assert absent == []
    assert {(point.way, point.items) for point in points} == {("same", 2), ("changed", 2), ("host", 2)}
    assert [(each.id, f"{each.id.partition('/')[2]}: element 0" in each.reason) for each in failed] == [
        (f"twin buffers/{way}", True) for way in ("same", "changed", "host")
    ]
