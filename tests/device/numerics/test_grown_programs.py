"""Programs grown from the left sides of rewriting rules: the device's bits are the interpreter's."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from tests.unit.terms_rules.grown import INSTANCES, operands, program
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.core.types import Type

pytestmark = pytest.mark.device

# So many instances of each rule and type are compared in the long form.
COMPARED = 10_000
CASES = [pytest.param(rule, type_, id=f"{rule.name}-{type_}") for rule in RULES for type_ in rule.types]


def compare(device: vc.Device, rule: Rule, type_: Type, seed: int) -> None:
    grown, arrays = program(rule, type_, seed), operands(rule, type_, seed)
    expected = vc.evaluate(grown, *arrays)

    np.testing.assert_array_equal(device.compile(grown)(*arrays), expected, err_msg=f"seed {seed}\n{grown.text()}")


@pytest.mark.thin(7)
@pytest.mark.parametrize(("rule", "type_"), CASES)
def test_a_program_grown_from_a_rule_gives_the_interpreters_results(
    shared_device: vc.Device, rule: Rule, type_: Type
) -> None:
    compare(shared_device, rule, type_, 0)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("rule", "type_"), CASES)
def test_ten_thousand_instances_of_a_rule_give_the_interpreters_results(
    shared_device: vc.Device, rule: Rule, type_: Type
) -> None:
    for seed in range(1, -(-COMPARED // INSTANCES) + 1):
        compare(shared_device, rule, type_, seed)
