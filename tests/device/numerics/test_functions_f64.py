"""The functions of f64 on the device: the interpreter's bits where the functions are hard, in every precision."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS
from vyre_cuda.ir.core.types import f64
from vyre_cuda.testing.assembler import assemble
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.hard_f64 import operands

from .op_programs import program


def use(name: str) -> vc.Program:
    return program(OPS[name], f64, f64)


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_hard_operands_give_the_interpreters_bits(device: vc.Device, name: str) -> None:
    inputs = operands(name, FUNCTIONS[name].arity, 20_000, 11)

    assert_same(vc.evaluate(use(name), *inputs), device.run(use(name), *inputs))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_million_hard_operands_give_the_interpreters_bits(device: vc.Device, name: str) -> None:
    inputs = operands(name, FUNCTIONS[name].arity, 1_000_000, 12)

    assert_same(vc.evaluate(use(name), *inputs), device.run(use(name), *inputs))


@pytest.mark.thin(5)
@pytest.mark.parametrize("precision", ["ftz", "fast"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_precisions_have_the_bits_of_ieee(device: vc.Device, name: str, precision: str) -> None:
    """Steps are not contracted: the lost parts of sums and products would be lost indeed."""
    inputs = operands(name, FUNCTIONS[name].arity, 2_000, 13)

    kernel = device.compile(use(name), precision=precision)

    assert_same(vc.evaluate(use(name), *inputs), np.asarray(kernel(*inputs)))


@pytest.mark.thin(28)
@pytest.mark.slow
@pytest.mark.parametrize("sm", [75, 90, 100])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_text_is_valid_for_old_and_new_targets(name: str, sm: int) -> None:
    assemble(vc.ptx(use(name), target=f"sm_{sm}"), sm)


def test_expansion_needs_no_memory() -> None:
    """Constants are in the text: nothing is loaded but the operands."""
    for name, op in FUNCTIONS.items():
        assert vc.ptx(use(name)).count("ld.global") == op.arity, name
