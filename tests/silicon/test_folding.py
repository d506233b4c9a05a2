"""What `fold.py` asks a driver, asked of the emulator: silicon's recorded answers, exact integers, itself."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import integer_oracle
import numpy as np
import pytest
import silicon_units
from known_defects import DEFECTS, known_as
from silicon_ask import answers, ask, compare
from silicon_driver import Device
from silicon_folding import form_plan, pure_forms
from silicon_loops import trips_of
from silicon_pool import Job, Pool
from silicon_questions import LANES, Question, batch

from vyre_cuda.ptxas import find_ptxas
from vyre_cuda.testing.assembler import assemble


def _has_ptxas() -> bool:
    try:
        find_ptxas()
    except FileNotFoundError:
        return False
    return True


def _sampled(group: str, units: int, each: int) -> list[Question]:
    """Some questions of some units, spread over all of them."""
    names = silicon_units.units([group])
    found: list[Question] = []
    for number, name in enumerate(names[:: max(1, len(names) // units)]):
        plan = silicon_units.plan(name)
        stride = max(1, len(plan) // each)
        found += [make() for make in plan[number % stride :: stride]]
    return found


def _form_questions(name: str, way: str) -> list[Question]:
    form = next(form for form in pure_forms() if form.name == name)
    return [question for question in (make() for make in form_plan(form)) if question.way == way]


@pytest.mark.thin
@pytest.mark.parametrize("group", silicon_units.GROUPS)
def test_emulator_answers_foldable_operands_as_recorded(library: str, group: str) -> None:
    with Device(library) as device:
        asked = _sampled(group, units=40, each=12)

        outcome = ask(device, device, asked)

    assert outcome.asked.total() == len(asked)
    assert outcome.differences == []


@pytest.mark.thin
def test_every_constant_case_has_a_recorded_answer() -> None:
    for way in ("immediate", "register", "product", "sum", "bits", "choice", "guarded", "branch"):
        asked = _form_questions("shl.b64", way)[:40]

        assert asked
        assert all(known[1] is not None for question in asked for known in question.known)


def test_wrong_word_is_found_with_its_program(library: str) -> None:
    asked = batch(_form_questions("shl.b64", "product")[:5])
    with Device(library) as device:
        emulated = answers(device, asked)
    met = emulated.copy()
    met[3, 7] ^= np.uint64(1)

    (found,) = compare(asked, emulated, met).differences

    assert (found["kind"], found["form"], found["way"], found["lane"]) == ("wrong", "shl.b64", "product", 7)
    assert int(found["got"], 0) == int(found["expected"], 0) ^ 1
    assert found["ptx"] == asked.questions[3].snippet()
    assert found["program"] == batch([asked.questions[3]]).text


@pytest.mark.thin
def test_wrong_expectation_is_found_as_the_oracles(library: str) -> None:
    first = _form_questions("add.u32", "immediate")[0]
    word = first.known[0][0]
    assert word is not None
    planted = replace(first, known=((word ^ 4,) * LANES,))
    with Device(library) as device:
        outcome = ask(device, device, [planted])

    assert [found["kind"] for found in outcome.differences] == ["oracle", "wrong"]


@pytest.mark.thin
def test_emulator_folds_integers_as_exact_arithmetic(library: str) -> None:
    asked, expected = [], []
    for question in _sampled("pairs", units=512, each=25):
        try:
            expected.append([integer_oracle.results(question, lane) for lane in range(LANES)])
        except integer_oracle.Unanswered:
            continue
        asked.append(question)
    kernel = batch(asked)
    with Device(library) as device:
        met = answers(device, kernel)

    assert len(asked) > 500
    row = 0
    for question, lanes in zip(asked, expected, strict=True):
        for k in range(len(question.results)):
            assert met[row].tolist() == [words[k] for words in lanes], question.snippet()
            row += 1


@pytest.mark.parametrize(
    ("type_", "comparison", "start", "stop", "step", "trips"),
    [
        ("u32", "lt", 1, 4294967295, 2147483647, (2, 4294967295)),
        ("s32", "lt", -(2**31), 2_000_000_000, 2**31 - 2, (2, 2**31 - 4)),
        ("u64", "ne", 0, 3, 1, (3, 3)),
        ("u32", "ge", 5, 0, -1, None),
    ],
)
def test_trips_of_loops_count_with_wrap(
    type_: str, comparison: str, start: int, stop: int, step: int, trips: tuple[int, int] | None
) -> None:
    assert trips_of(type_, comparison, start, stop, step) == trips


@pytest.mark.thin
@pytest.mark.parametrize("group", silicon_units.GROUPS)
@pytest.mark.skipif(not _has_ptxas(), reason="no ptxas")
def test_sampled_modules_assemble(group: str) -> None:
    assemble(batch(_sampled(group, units=60, each=4)).text, 90)


def test_known_defects_match_their_least_programs() -> None:
    for defect in DEFECTS:
        group = "loops" if "loop" in defect.name else "pairs"
        found = {"ptx": defect.ptx, "group": group, "way": "plain"}

        assert known_as(found) == defect.name


def test_questions_that_fail_together_are_asked_in_halves() -> None:
    told: list[dict[str, object]] = []
    pool = Pool("", "", 1, 1, lambda _, refused: told.extend(refused))

    pool._again("1:form", 4, 7, "refused", "")
    pool._again("1:form", 9, 10, "refused", "x")

    assert list(pool.queue) == [Job("1:form", 4, 5), Job("1:form", 5, 7)]
    assert [(each["unit"], each["question"], each["reason"]) for each in told] == [("1:form", 9, "refused")]


@pytest.mark.thin
def test_command_asks_all_groups_and_finds_nothing_on_the_emulator(library: str, tmp_path: Path) -> None:
    output = tmp_path / "found.jsonl"
    command = [sys.executable, str(Path(__file__).with_name("fold.py")), library, "--emulator", library]

    done = subprocess.run(
        [*command, "--jobs", "1", "--sample", "3000", "--only", ".s64", "--output", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert [json.loads(line) for line in output.read_text().splitlines()] == []
    assert "group pairs" in done.stdout
