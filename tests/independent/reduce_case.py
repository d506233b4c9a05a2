"""Cuts a finding down: drops statements and replaces expressions by parts of them while the results still differ.

What is left reads no race into a program: where there are several threads, the emulator looks for races in each step.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from findings import finding, read_finding, shown_arguments
from judge import AGREES, KNOWN, REFUSED, WRONG, Judge, Verdict, refusal, run
from number_formats import ZERO
from oracle import OutOfFuel
from program_text import program_text
from program_tree import Body, Expr, Program, const, expressions, statements
from random_cases import Case, checked, draw_case

import vyre_cuda as vc

LIMIT_S = 240.0
_ONES = {"bool_": True}


def _expr_variants(expr: Expr) -> Iterator[Expr]:
    """Smaller expressions of the same type."""
    for operand in expr.operands:
        if operand.type == expr.type:
            yield operand
    if expr.kind not in ("const", "local", "scalar"):
        yield const(expr.type, ZERO[expr.type])
        yield const(expr.type, _ONES.get(expr.type, type(ZERO[expr.type])(1)))
    for at, operand in enumerate(expr.operands):
        for smaller in _expr_variants(operand):
            yield replace(expr, operands=(*expr.operands[:at], smaller, *expr.operands[at + 1 :]))


def _statement_cuts(body: Body) -> Iterator[Body]:
    """Without one statement or many, or with what one contains in its place."""
    size = len(body) // 2
    while size > 1:
        for at in range(0, len(body), size):
            yield body[:at] + body[at + size :]
        size //= 2
    for at, statement in enumerate(body):
        before, after = body[:at], body[at + 1 :]
        yield before + after
        for inner in statement.bodies:
            if inner:
                yield before + inner + after
        for place, inner in enumerate(statement.bodies):
            for cut in _statement_cuts(inner):
                bodies = (*statement.bodies[:place], cut, *statement.bodies[place + 1 :])
                yield [*before, replace(statement, bodies=bodies), *after]


def _expr_cuts(body: Body) -> Iterator[Body]:
    for at, statement in enumerate(body):
        before, after = body[:at], body[at + 1 :]
        for place, expr in enumerate(statement.exprs):
            for smaller in _expr_variants(expr):
                exprs = (*statement.exprs[:place], smaller, *statement.exprs[place + 1 :])
                yield [*before, replace(statement, exprs=exprs), *after]
        for place, inner in enumerate(statement.bodies):
            for cut in _expr_cuts(inner):
                bodies = (*statement.bodies[:place], cut, *statement.bodies[place + 1 :])
                yield [*before, replace(statement, bodies=bodies), *after]


def _without_unused(program: Program) -> Program:
    """Without the parameters and shared arrays that nothing names; the last result stays, as a call needs one."""
    used = {"zero"}
    for statement in statements(program.body):
        used.update((statement.word, *statement.detail))
        used.update(str(inner.word).split(".")[0] for expr in statement.exprs for inner in expressions(expr))
    for buffer in program.buffers.values():
        if buffer.size is not None:
            used.update(str(inner.word) for inner in expressions(buffer.size))
    kept = {name: buffer for name, buffer in program.buffers.items() if name in used}
    if all(buffer.role in ("in", "table") for buffer in kept.values()):
        return program
    return replace(
        program,
        buffers=kept,
        scalars={name: value for name, value in program.scalars.items() if name in used},
        shared={name: value for name, value in program.shared.items() if name in used},
        own={name: value for name, value in program.own.items() if name in used},
    )


class Reducer:
    """Keeps the smallest program of which `is_bad` holds. `has_race` is asked last, as it costs most."""

    def __init__(self, is_bad: Callable[[Program], bool], has_race: Callable[[Program], bool], limit_s: float) -> None:
        self._is_bad = is_bad
        self._has_race = has_race
        self._deadline = time.monotonic() + limit_s

    def reduce(self, program: Program) -> Program:
        before = None
        while before is not program:
            before = program
            program = self._passes(program, _statement_cuts)
            program = self._passes(program, _expr_cuts)
            smaller = _without_unused(program)
            if smaller != program and self._holds(smaller):
                program = smaller
        return program

    def _passes(self, program: Program, cuts: Callable[[Body], Iterator[Body]]) -> Program:
        """Cuts until a whole pass finds none; what failed before a success is tried again in the next pass."""
        start, found = 0, True
        while found or start:
            if not found:
                start = 0
            found = False
            for at, body in enumerate(cuts(program.body)):
                if time.monotonic() > self._deadline:
                    return program
                if at < start:
                    continue
                smaller = program.with_body(body)
                if self._holds(smaller):
                    program, start, found = smaller, at, True
                    break
            else:
                if start == 0:
                    return program
        return program

    def _holds(self, program: Program) -> bool:
        return self._is_bad(program) and not self._has_race(program)


def _judged(judge: Judge, kind: str, program: Program, options: dict[str, Any]) -> Verdict | None:
    """None where it is no program, or runs too long."""
    try:
        case = checked(kind, program, options)
        vc.parse(program_text(program))
    except (OutOfFuel, KeyError, vc.ProgramError):
        return None
    try:
        return judge.judge(case)
    except Exception as error:  # what it is refused with may be what is looked for
        return refusal(error)


def race_finder() -> Callable[[Program], bool]:
    emulator = vc.Device("emulator", check="races")

    def has_race(program: Program) -> bool:
        if program.threads_per_block * program.blocks == 1:
            return False
        try:
            run(emulator.compile(vc.parse(program_text(program))), program)
        except vc.Error:  # a race, or what the emulator cannot tell
            return True
        return False

    return has_race


def reduced(judge: Judge, case: Case, limit_s: float = LIMIT_S) -> Program:
    """The smallest program found whose verdict is that of the case; the case itself where it agrees."""
    first = _judged(judge, case.kind, case.program, case.options)
    if first is None or first.state in (AGREES, KNOWN):
        return case.program

    def is_bad(program: Program) -> bool:
        verdict = _judged(judge, case.kind, program, case.options)
        return verdict is not None and verdict.state == first.state and _same_error(first, verdict)

    return Reducer(is_bad, race_finder(), limit_s).reduce(case.program)


def _same_error(first: Verdict, other: Verdict) -> bool:
    """A refusal stays one with the same error: of the class that its text begins with."""
    return first.state != REFUSED or first.differences[0].split(":")[0] == other.differences[0].split(":")[0]


def reduce_file(path: Path, device: int | str) -> int:
    case, bundled = read_finding(path)
    if case is None:
        print("a finding of several launches, or of a large array, is not reduced; --case runs it again")
        return 2
    return _show(case, device, smaller=True, bundles=int(bundled))


def show_case(profile: str, seed: int, number: int, device: int | str) -> int:
    case = draw_case(profile, seed, number)
    if isinstance(case, Case):
        return _show(case, device, smaller=False)
    verdict = Judge(vc.Device(device), large=True).judge(case)
    print(json.dumps(finding(case, verdict, profile=profile, seed=seed, number=number), indent=1))
    return 0 if verdict.state == AGREES else 1


def _show(case: Case, device: int | str, *, smaller: bool, bundles: int = 0) -> int:
    judge = Judge(vc.Device(device), bundles=bundles)
    program = reduced(judge, case) if smaller else case.program
    verdict = _judged(judge, case.kind, program, case.options)
    print(program_text(program))
    print("grid", program.grid, "options", case.options)
    for name, value in shown_arguments(program).items():
        print(name, "=", value)
    if verdict is None:
        print("runs too long")
        return 2
    print(verdict.state, *verdict.differences, sep="\n  ")
    if verdict.state == WRONG:
        print(judge.device.compile(vc.parse(program_text(program)), **case.options).ptx)
    return 0 if verdict.state == AGREES else 1
