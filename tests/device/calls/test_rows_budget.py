"""What a row of `launch_many` takes: no driver call, and no more instructions than are recorded.

All on the emulator, whose own work is not counted; `--update-golden` records budget/rows.json anew.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .budget import profiles, warm
from .test_budget import HERE, OURS, STEPS, TOLERANCE, build, part_of, run

RECORD = HERE / "rows.json"

pytestmark = [pytest.mark.device, pytest.mark.emulator]


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.valgrind
def test_instructions_of_a_row_are_within_the_record(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    out = tmp_path / "out"
    words = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    run("by_rows", build(tmp_path, "control"), STEPS, *words, PYTHONMALLOC="pymalloc")
    each = [totals(profiles.read(out.with_suffix(f".{number}"))) for number in range(1, 5)]
    rows = (warm.ROWS[1] - warm.ROWS[0]) * warm.ROWS_STEPS
    found = {
        kind: {part: round((each[2 * n + 1][part] - each[2 * n][part]) / rows) for part in OURS}
        for n, kind in enumerate(warm.ROWS_KINDS)
    }
    if request.config.getoption("--update-golden"):
        RECORD.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")

    record = json.loads(RECORD.read_text(encoding="utf-8"))
    for kind in warm.ROWS_KINDS:
        assert all(0 < found[kind][part] <= record[kind][part] * (1 + TOLERANCE) for part in OURS), found


def totals(profile: profiles.Profile) -> Counter[str]:
    sums: Counter[str] = Counter()
    for (path, _), instructions in profile.instructions.items():
        sums[part_of(path)] += instructions
    return sums


@pytest.mark.thin
def test_driver_calls_do_not_depend_on_the_number_of_rows() -> None:
    with Emulator().steered() as emulator, vc.Device("emulator") as device:
        emulator.stream_mode("eager")
        kernel = device.compile(warm.saxpy())
        calls = []
        for count in (10, 400):
            rows = [(*(device.zeros(count, vc.f32) for _ in range(3)), 2.0) for _ in range(count)]
            for _ in range(3):
                kernel.launch_many(rows)
            before = emulator.count("calls")
            for _ in range(4):
                kernel.launch_many(rows)
            calls.append(emulator.count("calls") - before)

    assert calls[0] == calls[1]
    assert calls[0] <= 4 * 15
