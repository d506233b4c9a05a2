"""The passes in order: a valid program becomes a smaller one that does the same, bit for bit.

A fixed sequence, run at most twice, each pass linear in the program. Effects keep their order and assertions their
number; source positions stay with what stays. A program that needs no changes is returned as the same object. Passes
see statements; expressions are simplified, and taken out of loops, where they are lowered (`codegen`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from vyre_cuda.errors import InternalError, ProgramError
from vyre_cuda.ir.check import validate
from vyre_cuda.ir.core.limits import MAX_DEPTH, MAX_EXPRESSIONS, MAX_NESTING, MAX_STATEMENTS
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import Body, bodies, children, operands
from vyre_cuda.passes.ahead import loads_ahead
from vyre_cuda.passes.branches import branches
from vyre_cuda.passes.dce import remove_dead_code
from vyre_cuda.passes.left_out import is_valid_part

Pass: TypeAlias = Callable[[Program], Program]

# What one round leaves for the next (a branch around nothing) is rarely more than one level deep.
_ROUNDS = 2


def optimize(program: Program, *, bounds: str = "check") -> Program:
    """The valid program after all passes; the program itself if they change nothing.

    `bounds` is the option that it will be compiled with. A program so close to a limit of the
    language that a pass would exceed it stays as it is. Raises InternalError, with the name of the pass, if one makes
    a program that is not valid.
    """
    passes = sequence(bounds=bounds)
    return checked(program, run(program, passes), passes)


def prepared(program: Program, *, bounds: str = "check", as_written: bool = False) -> Program:
    """What is lowered of a valid program: `optimize`, or with traps or the check for races the user's own statements,
    as failures then name what the user wrote.
    """
    if bounds == "trap" or as_written:
        return program
    smaller = optimize(program, bounds=bounds)
    return checked(smaller, loads_ahead(smaller), (("ahead", loads_ahead),))


def checked(program: Program, result: Program, passes: tuple[tuple[str, Pass], ...]) -> Program:
    """`result`, which these passes made from `program`, if it is valid; `program` if it exceeds a limit.

    Raises InternalError with the name of the pass that broke it.
    """
    if result is program or is_valid_part(program, result):
        return result
    try:
        validate.check(result)
    except ProgramError as error:
        if is_beyond_limits(result):
            return program
        raise InternalError(f"pass {find_culprit(program, passes)} broke program {program.name}: {error}") from error
    return result


def sequence(*, bounds: str = "check") -> tuple[tuple[str, Pass], ...]:
    """The passes of one round, with their names, for this option of the compiler."""
    trap = bounds == "trap"
    return (
        ("branches", lambda program: branches(program, keep_checks=trap)),
        ("dce", lambda program: remove_dead_code(program, keep_checks=trap)),
    )


def run(program: Program, passes: tuple[tuple[str, Pass], ...]) -> Program:
    """The program after at most two rounds of these passes. The last one changes nothing directly behind itself."""
    for turn in range(_ROUNDS):
        before = program
        for _, apply in passes[:-1]:
            program = apply(program)
        if turn and len(passes) > 1 and program is before:
            break
        program = passes[-1][1](program)
        if program is before:
            break
    return program


def find_culprit(program: Program, passes: tuple[tuple[str, Pass], ...]) -> str:
    """The name of the first pass whose result is not valid, "" if all results are."""
    for _ in range(_ROUNDS):
        for name, apply in passes:
            program = apply(program)
            if validate.validate(program):
                return name
    return ""


def is_beyond_limits(program: Program) -> bool:
    """Whether statements or expressions are more, or deeper, than the language allows."""
    count = sizes = 0
    stack: list[tuple[Body, int]] = [(program.body, 0)]
    while stack:
        body, level = stack.pop()
        count += len(body)
        if level > MAX_NESTING or count > MAX_STATEMENTS:
            return True
        for statement in body:
            some, depth = operands(statement), 0
            while some:
                sizes += len(some)
                depth += 1
                if depth > MAX_DEPTH or sizes > MAX_EXPRESSIONS:
                    return True
                some = tuple([part for expr in some for part in children(expr)])
            stack += [(inner, level + 1) for _, inner in bodies(statement)]
    return False
