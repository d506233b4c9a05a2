"""Programs that mean the same: for what has no oracle, one is compared with the other."""

from __future__ import annotations

from dataclasses import replace

from program_tree import Body, Expr, Program, Stmt, Value

# Parameters that a program may gain; it may have 256.
_MOST = 200


def constants_as_scalars(program: Program) -> Program:
    """With most constants as arguments, so that nothing folds."""
    scalars: dict[str, tuple[str, Value]] = {}
    names: dict[tuple[str, str], str] = {}

    def expr(given: Expr) -> Expr:
        if given.kind != "const":
            return replace(given, operands=tuple(map(expr, given.operands)))
        key = given.type, repr(given.word)
        if key not in names:
            if len(names) == _MOST:
                return given
            names[key] = f"constant{len(names)}"
            scalars[names[key]] = (given.type, given.word)
        return Expr("scalar", given.type, names[key])

    def statement(given: Stmt) -> Stmt:
        bodies = tuple(map(body, given.bodies))
        return replace(given, exprs=tuple(map(expr, given.exprs)), bodies=bodies)

    def body(given: Body) -> Body:
        return [statement(one) for one in given]

    changed = body(program.body)
    return replace(program, body=changed, scalars={**program.scalars, **scalars})
