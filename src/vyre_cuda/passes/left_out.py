"""Whether a program is another one without some of its statements, and valid because that one is."""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import TOGETHER, Assign, For, Stmt
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import Body, bodies, declared_name, locals_read, operands, statements
from vyre_cuda.passes.rebuild import NESTING, is_same, with_body


def is_valid_part(program: Program, result: Program) -> bool:
    """Whether `result` is this valid program without statements whose names nothing in it uses.

    Then it is valid too: all that validation asks of a statement depends on itself and on the names that it uses. What
    the threads of a warp or block do together also depends on the branches around it, so such programs are none.
    """
    out = _left_out(program.body, result.body)
    if out is None or with_body(program, result.body) != result:
        return False
    gone = {name for name in map(declared_name, statements(tuple(out))) if name is not None}
    for statement in statements(result.body):
        if isinstance(statement, TOGETHER) or (isinstance(statement, Assign) and statement.name in gone):
            return False
        if gone and not gone.isdisjoint(locals_read(operands(statement))):
            return False
    return True


def _left_out(old: Body, new: Body) -> list[Stmt] | None:
    """The statements of a body that the new one lacks, None if it has others."""
    out: list[Stmt] = []
    remaining = iter(old)
    for statement in new:
        for each in remaining:
            if each is statement:
                break
            inside = _left_out_inside(each, statement)
            if inside is not None:
                out += inside
                break
            out.append(each)
        else:
            return None
    return [*out, *remaining]


def _left_out_inside(old: Stmt, new: Stmt) -> list[Stmt] | None:
    """The same of two branches, or of two loops."""
    if not isinstance(old, NESTING) or type(old) is not type(new) or not is_same(operands(old), operands(new)):
        return None
    if isinstance(old, For) and old.name != declared_name(new):
        return None
    out: list[Stmt] = []
    for (_, before), (_, behind) in zip(bodies(old), bodies(new), strict=True):
        inside = _left_out(before, behind)
        if inside is None:
            return None
        out += inside
    return out
