"""The counts of docs/conformance.md: what may be counted, what is kept, and that the recorded runs have no hole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.testing.conformance import CELLS, ConformanceError, Recording, Tally, read, recording, write

RECORDED = sorted((Path(__file__).parents[2] / "docs" / "conformance").glob("*.json"))


def test_cells_are_those_of_the_op_table() -> None:
    assert CELLS["ops"].keys() == {name for name, op in OPS.items() if op.result != "explicit"}
    assert CELLS["ops"]["divide"] == ("f16", "bf16", "f32", "f64")
    assert len(CELLS["casts"]) == len(TYPES) == len(CELLS["casts"]["bool_"])
    assert CELLS["bitcasts"]["u16"] == ("u16", "i16", "f16", "bf16")
    assert "f32" not in CELLS["warp operations"]["reduce bitwise_or"]


@pytest.mark.parametrize(
    "cell",
    [("interpreter", "ops", "divide", "u32"), ("interpreter", "ops", "plus", "u32"), ("gpu", "ops", "add", "u32")],
)
def test_a_cell_that_the_op_table_does_not_have_is_not_counted(cell: tuple[str, str, str, str]) -> None:
    with pytest.raises(KeyError):
        Tally().add(*cell, 1)


def test_what_was_counted_comes_back_from_the_file(tmp_path: Path) -> None:
    tally = Tally()
    tally.add("interpreter", "ops", "add", "u8", 3)
    tally.add("interpreter", "ops", "add", "u8", 4)
    tally.add("emulator", "casts", "u8", "f16", 1)
    made = recording(tally, commit="abc", device="emulator")

    write(tmp_path / "kept" / "run.json", made)
    found = read(tmp_path / "kept" / "run.json")

    assert found == made
    assert (found.total("interpreter"), found.total("emulator"), found.total("cuda")) == (7, 1, 0)
    assert ("ops", "add", "u8") not in found.holes("interpreter")
    assert ("ops", "add", "u8") in found.holes("emulator")
    assert len(found.holes("cuda")) == sum(len(columns) for rows in CELLS.values() for columns in rows.values())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "date": ""}'])
def test_a_file_that_is_no_recording_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)

    with pytest.raises(ConformanceError):
        read(path)


def test_counts_of_ops_that_are_gone_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write(path, Recording("", "", "", "", "", {"interpreter": {"ops": {"add": {"u8": 3}}}}))
    document = json.loads(path.read_text())
    document["counts"]["interpreter"]["ops"]["gone"] = {"u8": 1}
    document["counts"]["interpreter"]["ops"]["add"]["u128"] = 1
    path.write_text(json.dumps(document))

    assert read(path).counts == {"interpreter": {"ops": {"add": {"u8": 3}}}}


@pytest.mark.parametrize("way", ["interpreter", "emulator"])
def test_everything_that_the_op_table_supports_was_compared(way: str) -> None:
    runs = [run for run in map(read, RECORDED) if way in run.counts]

    assert [run.holes(way) for run in runs] == [[]]
