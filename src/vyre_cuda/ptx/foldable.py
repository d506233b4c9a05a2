"""What the assembler may work out while it compiles: values that depend on nothing but constants.

It folds constants through choices, arithmetic and the loops that it unrolls, and is wrong in places
(docs/compiler-defects.md). Where a form of ours is right only for what a thread computes, the form is chosen by this.
"""

from __future__ import annotations

from vyre_cuda.ptx.ssa import Function

# What a launch brings, which no compiler knows.
_OPAQUE = frozenset({"parameter", "special", "symbol", "load", "atomic"})
_WARP = ("shuffle.", "vote.", "match.", "redux.")
_DEPTH = 8


def may_fold(function: Function, value: int, *, registers: bool = True, depth: int = _DEPTH) -> bool:
    """Whether the value could become a constant, or a choice of constants, whatever the launch.

    A register that the program assigns counts as `registers`: a loop may be unrolled. Far operands count as if they
    could.
    """
    op = function.ops[value]
    if op in _OPAQUE or op.startswith(_WARP):
        return False
    if op in ("read", "register"):
        return registers
    args = function.args[value]
    if not args or depth == 0:
        return True
    operands = args[1:] if op == "where" else args
    return all(may_fold(function, arg, registers=registers, depth=depth - 1) for arg in operands)
