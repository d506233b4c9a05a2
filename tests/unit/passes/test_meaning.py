"""Random programs mean the same after every pass: the same bytes, the same failed assertion, effects in order.

Besides programs as they are drawn, passes see them with scalars and sizes replaced by their values, which decides many
conditions and loop bounds, and with assertions that fail in some threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from examples import examples
from vyre_cuda.errors import KernelAssertionError
from vyre_cuda.ir.check import validate
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Atomic,
    Barrier,
    Const,
    Expr,
    GridBarrier,
    Id,
    Scalar,
    Size,
    Stmt,
    Store,
)
from vyre_cuda.ir.core.program import primary_buffer
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.ir.core.walk import Body, bodies, children, operands, statements
from vyre_cuda.passes.pipeline import optimize, sequence
from vyre_cuda.passes.rebuild import with_bodies, with_body, with_children, with_operands
from vyre_cuda.records import replace
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.strategies import programs, programs_with_inputs

NAMES = [name for name, _ in sequence()]
BOUNDS = st.sampled_from(("check", "trap", "off"))
EXAMPLES = examples()
COMMON = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
Case = tuple[vc.Program, list[Any]]


def passed(name: str, program: vc.Program, bounds: str) -> vc.Program:
    """The program after one pass, checked."""
    result = dict(sequence(bounds=bounds))[name](program)
    validate.check(result)
    return result


def stated(case: Case) -> Case:
    """The program with its work written out: without, a launch may depend on a store that a pass leaves out."""
    program, arguments = case
    primary = primary_buffer(program)
    if program.work is not None or primary is None:
        return case
    return replace(program, work=(Size(program.index, primary.name),)), arguments


CASES = programs_with_inputs().map(stated)


# ---- other programs from a random one --------------------------------------------------------------------------------


def specialized(program: vc.Program, arguments: list[Any]) -> vc.Program:
    """The program for these arguments alone: scalars and sizes of arguments are literals in its body."""
    given = [parameter for parameter in program.parameters if parameter.kind != "out"]
    known = {parameter.name: value for parameter, value in zip(given, arguments, strict=True)}
    return with_body(program, tuple(_specialized(statement, known) for statement in program.body))


def _specialized(statement: Stmt, known: dict[str, Any]) -> Stmt:
    nested = tuple(tuple(_specialized(inner, known) for inner in body) for _, body in bodies(statement))
    exprs = tuple(_literal(expr, known) for expr in operands(statement))
    return with_bodies(with_operands(statement, exprs), nested)


def _literal(expr: Expr, known: dict[str, Any]) -> Expr:
    if isinstance(expr, Scalar):
        return Const(expr.type, bits_of(expr.type, known[expr.name]))
    if isinstance(expr, Size) and expr.buffer in known:
        array = known[expr.buffer]
        return Const(expr.type, array.size if expr.axis is None else array.shape[expr.axis])
    return with_children(expr, tuple(_literal(part, known) for part in children(expr)))


@st.composite
def with_failures(draw: st.DrawFn) -> Case:
    """A program with assertions, some of which fail in some threads."""
    program, arguments = draw(CASES)
    count = sum(1 for _ in statements(program.body))
    places = set(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=6)))
    numbers = iter(range(count))
    thread = Id(program.index, "global_id", 0)

    def asserting(body: Body) -> Body:
        out: list[Stmt] = []
        for statement in body:
            number = next(numbers)
            if number in places:
                divisor, failing = (Const(program.index, draw(st.integers(1, 40))) for _ in range(2))
                rest = Apply(program.index, "remainder", (thread, divisor))
                out.append(Assert(Apply(bool_, "not_equal", (rest, failing)), f"failure {number}"))
            out.append(with_bodies(statement, tuple(asserting(inner) for _, inner in bodies(statement))))
        return tuple(out)

    return with_body(program, asserting(program.body)), arguments


def outcome(program: vc.Program, arguments: list[Any]) -> list[Any]:
    """The results, or which assertion failed first in which thread."""
    try:
        results = vc.evaluate(program, *arguments)
    except KernelAssertionError as error:
        return [np.array([error.thread]), np.array([int(error.message.removeprefix("failure "))])]
    return [results] if isinstance(results, np.ndarray) else list(results)


# ---- each pass -------------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@COMMON
@given(case=CASES, bounds=BOUNDS)
def test_a_pass_keeps_every_byte(name: str, case: Case, bounds: str) -> None:
    program, arguments = case
    note(program.text())

    assert_same(vc.evaluate(program, *arguments), vc.evaluate(passed(name, program, bounds), *arguments))


@pytest.mark.thin(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "dce"])
@COMMON
@given(program=programs(), bounds=BOUNDS)
def test_a_pass_but_for_dead_code_has_nothing_to_do_a_second_time(name: str, program: vc.Program, bounds: str) -> None:
    once = passed(name, program, bounds)

    assert passed(name, once, bounds) is once


# ---- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@COMMON
@given(case=programs_with_inputs(statements=10).map(stated), bounds=BOUNDS)
def test_all_passes_keep_every_byte(case: Case, bounds: str) -> None:
    program, arguments = case
    note(program.text())

    assert_same(vc.evaluate(program, *arguments), vc.evaluate(optimize(program, bounds=bounds), *arguments))


@pytest.mark.thin
@pytest.mark.slow
@COMMON
@given(case=CASES, bounds=BOUNDS)
def test_programs_for_known_arguments_keep_every_byte(case: Case, bounds: str) -> None:
    program, arguments = case
    known = specialized(program, arguments)
    note(known.text())
    expected = vc.evaluate(program, *arguments)

    assert_same(expected, vc.evaluate(optimize(known, bounds=bounds), *arguments))
    for name in NAMES:
        known = passed(name, known, bounds)
        assert_same(expected, vc.evaluate(known, *arguments))


@pytest.mark.thin
@pytest.mark.slow
@COMMON
@given(case=with_failures(), bounds=BOUNDS)
def test_the_same_assertion_fails_in_the_same_thread(case: Case, bounds: str) -> None:
    program, arguments = case
    note(program.text())

    assert_same(outcome(program, arguments), outcome(optimize(program, bounds=bounds), arguments))


def effects(program: vc.Program) -> list[tuple[Any, ...]]:
    """What the statements do besides giving values, in order."""
    found: list[tuple[Any, ...]] = []
    for statement in statements(program.body):
        if isinstance(statement, Store):
            found.append(("store", statement.buffer, statement.source))
        elif isinstance(statement, Atomic):
            found.append((statement.op, statement.buffer, statement.order, statement.scope, statement.source))
        elif isinstance(statement, (Barrier, GridBarrier)):
            found.append((type(statement).__name__, statement.source))
        elif isinstance(statement, Assert):
            found.append(("assert", statement.message, statement.source))
    return found


@pytest.mark.thin
@pytest.mark.slow
@COMMON
@given(case=with_failures(), bounds=BOUNDS)
def test_effects_keep_their_order_and_their_place_in_the_source(case: Case, bounds: str) -> None:
    program, arguments = case
    before = effects(specialized(program, arguments))
    after = effects(optimize(specialized(program, arguments), bounds=bounds))
    rest = iter(before)

    assert all(effect in rest for effect in after)
    assert [effect for effect in after if effect[0] == "assert"] == [e for e in before if e[0] == "assert"]
