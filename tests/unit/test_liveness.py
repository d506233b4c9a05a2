"""Which values a kernel needs: one pass over values in order finds what a search from the effects finds."""

from __future__ import annotations

from hypothesis import given

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.ssa.ssa import Function, liveness
from vyre_cuda.testing.strategies import programs

SM_90 = Target.parse("sm_90")


def values_of(program: vc.Program) -> Function:
    lowering = Lowering(program, SM_90, precision="ieee", bounds="check", debug=False)
    lowering.run()
    return lowering.builder.function


@given(program=programs())
def test_one_pass_finds_what_a_search_finds(program: vc.Program) -> None:
    function = values_of(program)
    assert function.in_order
    assert all(operand < value for value, operands in enumerate(function.args) for operand in operands)
    found = liveness(function)

    function.in_order = False
    assert found == liveness(function)


def test_an_operand_with_a_larger_number_is_live() -> None:
    function = Function()
    result = function.unplaced("lane", "u32", (), None)
    early = function.fresh("copy", "u32", (result,))
    late = function.fresh("special", "u32", (), "%laneid")
    function.redefine(result, "copy", (late,), None)
    function.effect("store", (early,))

    assert liveness(function) == (bytearray((1, 1, 1)), set())
