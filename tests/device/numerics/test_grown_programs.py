"""Programs grown from left sides of rewriting rules: the rules fire, and the device has the interpreter's bits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import vyre_cuda as vc
from tests.device.numerics import grown_rules
from tests.device.numerics.grown_rules import NEVER, Row, compared, pairs
from tests.unit.terms_rules.test_rules import WRONG
from vyre_cuda.codegen.terms import matching, reasons
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.core.types import Type

pytestmark = pytest.mark.device

# In so many instances of each rule and type the rule fires in the long form: 10,240 results.
FIRED = 320
CASES = [pytest.param(RULES[at], type_, id=f"{RULES[at].name}-{type_}") for at, type_ in pairs()]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("rule", "type_"), CASES)
def test_a_rule_fires_and_gives_the_interpreters_results(shared_device: vc.Device, rule: Rule, type_: Type) -> None:
    row = compared(shared_device, rule, type_, 1, many=16)

    assert (row.fired > 0) == ((row.rule, row.type) not in NEVER)
    assert row.compared == row.fired * 32
    assert row.different == 0, row.example


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("rule", "type_"), CASES)
def test_ten_thousand_results_of_a_rule_are_the_interpreters(shared_device: vc.Device, rule: Rule, type_: Type) -> None:
    row = compared(shared_device, rule, type_, FIRED, first=1)

    assert row.compared >= 10_000 or (row.rule, row.type) in NEVER
    assert row.different == 0, row.example


# The right side of half_of_a_negative is not cheaper, so that nothing computes it.
@pytest.mark.thin(4)
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
    rows = [Row("xor_twice", "u8", 64, 60, 1920), Row("rest_divided", "i8", 64, 2, 64, 3, "store out[i], x")]

    class Pool:
        def __init__(self, processes: int) -> None: ...
        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None: ...
        def map(self, *_: object, **__: object) -> list[Row]:
            return rows

    monkeypatch.setattr(grown_rules.multiprocessing, "get_context", lambda _: type("Context", (), {"Pool": Pool}))
    monkeypatch.setattr(sys, "argv", ["grown", "--fired", "60", "--output", str(tmp_path / "r.json")])

    assert grown_rules.main() == 1
    out = capsys.readouterr().out
    assert "rest_divided i8: 3 results differ, as in store out[i], x" in out
    assert "rest_divided i8: fired in 2 of 64 instances" in out
    report = json.loads((tmp_path / "r.json").read_text())
    assert [row["different"] for row in report["rows"]] == [0, 3]
    rows.pop()
    assert grown_rules.main() == 0
