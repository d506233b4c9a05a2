"""Programs grown from left sides of rewriting rules: the rules fire, and the device has the interpreter's bits."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import vyre_cuda as vc
from tests.device.numerics import grown_rules
from tests.device.numerics.grown_rules import Row, Run, compared, pairs, some_kernels
from tests.unit.terms_rules.grown import fired, program
from tests.unit.terms_rules.test_rules import WRONG
from vyre_cuda.codegen.terms import matching, reasons
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.core.types import Type

pytestmark = pytest.mark.device

# In so many instances of each rule and type the rule fires in the long form: 10,240 results.
FIRED = 320
CASES = [pytest.param(RULES[at], type_, id=f"{RULES[at].name}-{type_}") for at, type_ in pairs()]


@pytest.mark.thin(36)
@pytest.mark.parametrize(("rule", "type_"), CASES)
def test_a_rule_fires_and_gives_the_interpreters_results(shared_device: vc.Device, rule: Rule, type_: Type) -> None:
    row = compared(shared_device, rule, type_, 1, many=16)

    assert row.fired > 0
    assert row.compared == row.fired * 32
    assert row.different == 0, row.example


@pytest.mark.thin(18)
@pytest.mark.parametrize(("rule", "type_"), CASES)
def test_where_a_rule_is_seen_to_fire_its_rewrites_say_so(rule: Rule, type_: Type) -> None:
    grown = program(rule, type_, 0)

    seen = fired(rule, grown)

    assert seen <= {step.statement - 1 for step in vc.rewrites(grown) if step.rule == rule.name}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("rule", "type_"), CASES)
def test_ten_thousand_results_of_a_rule_are_the_interpreters(shared_device: vc.Device, rule: Rule, type_: Type) -> None:
    row = compared(shared_device, rule, type_, FIRED, first=1)

    assert row.compared >= 10_000
    assert row.different == 0, row.example


# The right side of half_of_a_negative is not cheaper, so that nothing computes it.
@pytest.mark.thin
@pytest.mark.parametrize(
    "rule", [rule for rule in WRONG if rule.name != "half_of_a_negative"], ids=lambda rule: rule.name
)
def test_a_wrong_rule_is_found(shared_device: vc.Device, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    # The rule alone, so that no right one is cheaper than it.
    monkeypatch.setattr(matching, "RULES", (rule,))
    monkeypatch.setattr(reasons, "RULES", (rule,))
    matching._rules_of.cache_clear()
    try:
        rows = [compared(shared_device, rule, type_, 16, many=16) for type_ in rule.types]
    finally:
        monkeypatch.undo()
        matching._rules_of.cache_clear()

    assert sum(row.different for row in rows) > 0, rows


def test_a_run_reports_what_differs_and_what_fired_too_seldom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row("xor_twice", "u8", 64, 60, 1920, distinct=60)]
    rows.append(Row("rest_divided", "i8", 64 * 60, 2, 64, 3, "store out[i], x", distinct=1))

    def grow(run: Run, *_: object) -> None:
        run.rows = {(row.rule, row.type): row for row in rows}
        run.digests = {key: set() for key in run.rows}

    monkeypatch.setattr(Run, "grow", grow)
    monkeypatch.setattr(sys, "argv", ["grown", "--fired", "60", "--output", str(tmp_path / "r.json")])

    assert grown_rules.main() == 1
    out = capsys.readouterr().out
    assert "rest_divided i8: 3 results differ, as in store out[i], x" in out
    assert "rest_divided i8: fired in 1 distinct ones of 3840 instances" in out
    report = json.loads((tmp_path / "r.json").read_text())
    assert [row["different"] for row in report["rows"]] == [0, 3]
    rows[1].different = 0
    assert grown_rules.main() == 1
    rows[1].instances = 64  # it had no time for more
    assert grown_rules.main() == 0


def test_a_run_leaves_out_what_the_table_no_longer_has(tmp_path: Path) -> None:
    run = Run(0)
    gone = Row("rotated_by_or", "u8", 64, 0, 0)
    run.rows[gone.rule, gone.type], run.digests[gone.rule, gone.type] = gone, set()
    run.write(tmp_path / "one.json", "emulator", 0)

    assert Run(0, tmp_path / "one.json").rows == Run(0).rows


def test_a_run_goes_on_where_another_one_ended(shared_device: vc.Device, tmp_path: Path) -> None:
    run, rule = Run(3), RULES[0]
    type_ = rule.types[0]
    key = rule.name, str(type_)

    row, digests = some_kernels(shared_device, rule, type_, run.rows[key].next, 1)
    run.add(row, digests)
    run.write(tmp_path / "one.json", "emulator", 3)
    again = Run(0, tmp_path / "one.json")

    assert again.rows == run.rows
    assert again.digests == run.digests
    assert again.rows[key].next == (3 << 32) + 1
    assert 0 < again.rows[key].distinct <= again.rows[key].fired
    again.add(row, digests)
    assert again.rows[key].fired == 2 * row.fired
    assert again.rows[key].distinct == run.rows[key].distinct
    assert again.is_done(key, run.rows[key].distinct)
    assert not again.is_done(key, run.rows[key].distinct + 1)


def test_the_rule_with_the_fewest_instances_has_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grown_rules, "RULES", RULES[:2])
    monkeypatch.setattr(grown_rules, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    turns = []

    def turn(_device: str, at: int, type_: Type, first: int, count: int) -> tuple[Row, set[int]]:
        turns.append((at, str(type_)))
        found = 300 if at == 0 else 50
        return Row(RULES[at].name, str(type_), 64, found, next=first + count), {first * 1000 + k for k in range(found)}

    monkeypatch.setattr(grown_rules, "_turn", turn)
    run = Run(0)

    run.grow("emulator", 300, 1, float("inf"))

    assert all(run.is_done(key, 300) for key in run.rows)
    assert turns.count((0, "u8")) == 1
    assert turns.count((1, "u8")) == 6


def test_rules_take_turns_until_each_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grown_rules, "RULES", RULES[:1])
    monkeypatch.setattr(grown_rules, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    monkeypatch.setattr(grown_rules, "IN_A_KERNEL", 4)
    run = Run(0)

    run.grow("emulator", 5, 1, float("inf"))

    assert all(run.is_done(key, 5) for key in run.rows)
    assert all(row.different == 0 for row in run.rows.values())
    before = {key: row.next for key, row in run.rows.items()}
    run.grow("emulator", 50, 1, 0)
    assert {key: row.next for key, row in run.rows.items()} == before
