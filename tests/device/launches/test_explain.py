"""What the command explain says about launches."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.cli import main

pytestmark = pytest.mark.device


EXAMPLE = str(Path(__file__).parents[3] / "examples" / "saxpy.vir")


def explained(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> dict[str, object]:
    assert main(["explain", *words, "--json"]) == code
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_explain_tells_attributes_occupancy_and_limits(
    device: vc.Device, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    document = explained(capsys, 0, EXAMPLE, *on)
    kernel = device.compile(vc.parse(Path(EXAMPLE).read_text()))

    assert document["launchable"] is True
    assert document["attributes"]["registers"] == kernel.attributes.registers  # type: ignore[index]
    assert document["occupancy"]["resident_blocks"] == kernel.attributes.resident_blocks  # type: ignore[index]
    assert {row["name"] for row in document["limits"]} == {limit.name for limit in kernel.limits()}  # type: ignore


def test_explain_is_for_people(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", EXAMPLE, *on]) == 0

    out = capsys.readouterr().out
    assert "registers per thread" in out
    assert "available" in out


@pytest.mark.parametrize(
    ("index", "declared", "cleared"),
    (
        ("global_id.x", "o: f32[size(x)]", []),
        ("load(x[global_id.x])", "o: f32[size(x)]", ["o"]),
        ("load(x[global_id.x])", "o: f32[size(x)] unzeroed", []),
    ),
)
def test_explain_says_which_outputs_are_cleared_first(
    index: str,
    declared: str,
    cleared: list[str],
    on: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "k.vir"
    path.write_text(f"program k\nblock 32\nin x: u32\nout {declared}\n\nstore o[{index}], f32:1.0\n")

    assert explained(capsys, 0, str(path), *on)["cleared"] == cleared
    assert main(["explain", str(path), *on]) == 0
    assert ("zeroed=False" in capsys.readouterr().out) == bool(cleared)


@pytest.mark.parametrize(
    ("type_", "factor", "vectors", "of_a_thread", "neighbors", "said"),
    (
        ("f32", 1, {}, 4, {}, "a block apart, as no type has fewer than four bytes"),
        ("u8", 1, {}, 16, {"x": 16, "o": 16}, "neighbors, if x begins at a multiple of 16 bytes, o begins at"),
        ("u16", 2, {"x": 4, "o": 4}, 4, {}, "a block apart, as it accesses other elements than its own"),
    ),
)
def test_explain_says_when_neighbors_are_accessed_at_once(
    type_: str,
    factor: int,
    vectors: dict[str, int],
    of_a_thread: int,
    neighbors: dict[str, int],
    said: str,
    on: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "k.vir"
    places = ["i", "add(i, u32:1)"][:factor]
    stores = [f"store o[{place}], load(x[{place}])" for place in places]
    let = f"let i = {'global_id.x' if factor == 1 else f'multiply(global_id.x, u32:{factor})'}"
    path.write_text("\n".join([f"program k\nblock 32\nin x: {type_}\nout o: {type_}[size(x)]\n", let, *stores, ""]))

    found = explained(capsys, 0, str(path), *on)
    elements = found["elements"]

    assert found["vectors"] == vectors
    assert isinstance(elements, dict)
    assert (elements["of_a_thread"], elements["neighbors"]) == (of_a_thread, neighbors)
    assert main(["explain", str(path), *on]) == 0
    assert said in capsys.readouterr().out


def test_explain_of_known_values_says_which(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--specialize", "a=2.5", "--specialize", "x.size=64"]

    assert explained(capsys, 0, EXAMPLE, *words, *on)["specialize"] == {"a": 2.5, "x.size": 64}
    assert main(["explain", EXAMPLE, *words, *on]) == 0
    assert "x.size = 64, a = 2.5" in capsys.readouterr().out


def test_explain_shows_rewrites_where_they_are_asked_for(
    on: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = "program k\nblock 32\ninout h: u32\nscalar w: u32\n\nstore h[global_id.x], floor_divide(load(h[w]), w)\n"
    path = tmp_path / "k.vir"
    path.write_text(text)

    assert "rewrites" not in explained(capsys, 0, str(path), *on)
    assert explained(capsys, 0, str(path), "--rewrites", *on)["rewrites"] == []
    (found,) = explained(capsys, 0, str(path), "--rewrites", "--specialize", "w=1", *on)["rewrites"]  # type: ignore
    assert (found["rule"], found["statement"], found["after"]) == ("identity", 0, "load(h[u32:1])")
    assert main(["explain", str(path), "--rewrites", "--specialize", "w=1", *on]) == 0
    assert "floor_divide(load(h[u32:1]), u32:1)\n    = load(h[u32:1])" in capsys.readouterr().out


def test_explain_of_a_grid_that_cannot_be_fails_and_says_which(
    on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    document = explained(capsys, 1, EXAMPLE, "--grid", "1,70000", *on)

    assert document["launchable"] is False
    assert [row["name"] for row in document["limits"] if row["exceeded"]] == ["blocks along y"]  # type: ignore
    assert main(["explain", EXAMPLE, "--grid", "1,70000", *on]) == 1
    assert "<- exceeded" in capsys.readouterr().out


def test_explain_of_a_block_that_cannot_be_names_its_limit(
    tmp_path: Path, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "deep.py"
    path.write_text(
        "import vyre_cuda as vc\nb = vc.Builder('deep', block=(1, 1, 128))\nout = b.inout('out', vc.f32)\n"
        "out[vc.thread_id.z] = 1.0\nb.work(1, 1, 128)\nprogram = b.build()\n"
    )
    document = explained(capsys, 1, str(path), *on)

    assert document["launchable"] is False
    assert [row["available"] for row in document["limits"]] == [64]  # type: ignore
    assert main(["explain", str(path), *on]) == 1
    assert "cannot be launched" in capsys.readouterr().out


def test_explain_can_choose_the_block(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    document = explained(capsys, 0, EXAMPLE, "--auto-block", *on)

    assert prod(document["block"]) % 32 == 0  # type: ignore
