"""What the assembler may compute at compile time: values that depend only on constants.

It folds constants through choices, arithmetic and the loops that it unrolls, and is wrong in places
(docs/compiler-defects.md). Where a form of ours is right only for what a thread computes, the form is chosen by this.
"""

from __future__ import annotations

from vyre_cuda.codegen.ssa.ssa import OF_LAUNCH, OF_REGISTER, Function


def may_fold(function: Function, value: int, *, registers: bool = True) -> bool:
    """Whether the value could become a constant, or a choice of constants, whatever the launch.

    A register that the program assigns counts as `registers`: a loop may be unrolled.
    """
    unknown = OF_LAUNCH if registers else OF_LAUNCH | OF_REGISTER
    return not function.depends(value) & unknown
