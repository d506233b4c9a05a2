"""Random programs of each kind give on the device what the oracle says."""

from __future__ import annotations

import random

import draw_large
import pytest
from draw_expr import SHIFTS
from judge import AGREES, Judge
from judge_arrays import run_large
from number_formats import BITS, INTEGERS, RANGES, TYPES
from oracle import OutOfFuel
from program_json import program_from_json, program_to_json
from program_text import program_text
from program_tree import Expr, Program, expressions, statements
from random_cases import KINDS, AnyCase, Case, draw_case

import vyre_cuda as vc

SEED = 14
COUNTS = {"general": 150, "folding": 150, "asserts": 120, "contended": 100, "ftz": 120, "bounded": 120}


def cases(kind: str, count: int) -> list[AnyCase]:
    found = []
    for number in range(count):
        try:
            found.append(draw_case(kind, SEED, number))
        except OutOfFuel:
            continue
    return found


@pytest.mark.thin(5)
@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "large"])
def test_programs_of_each_kind_agree_with_the_oracle(device: vc.Device, kind: str) -> None:
    judge = Judge(device)

    verdicts = {number: judge.judge(case) for number, case in enumerate(cases(kind, COUNTS.get(kind, 40)))}

    assert {number: verdict for number, verdict in verdicts.items() if verdict.state != AGREES} == {}
    assert sum(verdict.compared for verdict in verdicts.values()) > 200


@pytest.mark.device
def test_far_arrays_agree_where_they_are_short(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_large, "BYTES", 1 << 16)

    found = [run_large(device, draw_large.draw_large(random.Random(seed))) for seed in range(20)]

    assert found == [[]] * 20


@pytest.mark.device
def test_programs_agree_by_way_of_a_bundle(device: vc.Device) -> None:
    judge = Judge(device, bundles=8)
    drawn = cases("general", 40)

    verdicts = [judge.judge(case) for case in drawn]

    assert [verdict for verdict in verdicts if verdict.state != AGREES] == []
    assert judge.bundler is not None
    assert any(verdict.bundled for verdict in verdicts) or "none" in judge.bundler.described


def test_a_number_gives_its_case_again() -> None:
    first, again = (program_text(_case(number).program) for number in (7, 7))

    assert first == again


def test_a_tree_is_the_same_after_json() -> None:
    for number in range(30):
        program = _case(number).program

        again = program_from_json(program_to_json(program))

        assert program_text(again) == program_text(program)
        assert program_to_json(again) == program_to_json(program)


def _case(number: int) -> Case:
    case = draw_case("folding", SEED, number)
    assert isinstance(case, Case)
    return case


# ---- what is drawn --------------------------------------------------------------------------------------------------


def _programs(kind: str, count: int) -> list[Program]:
    return [case.program for case in cases(kind, count) if isinstance(case, Case)]


def _shifts_too_far(program: Program) -> int:
    """Shifts and rotations by a constant of the width or more."""
    return sum(
        str(expr.word) in SHIFTS
        and expr.operands[1].kind == "const"
        and int(expr.operands[1].word) & (1 << BITS[expr.type]) - 1 >= BITS[expr.type]
        for expr in _exprs(program)
    )


def _exprs(program: Program) -> list[Expr]:
    return [inner for statement in statements(program.body) for expr in statement.exprs for inner in expressions(expr)]


def _choices_of_constants(program: Program) -> int:
    return sum(
        expr.kind == "where" and expr.operands[1].kind == expr.operands[2].kind == "const" for expr in _exprs(program)
    )


def _negative_zeros(program: Program) -> int:
    return sum(expr.kind == "const" and repr(expr.word) == "-0.0" for expr in _exprs(program))


def _edge_constants(program: Program) -> int:
    return sum(
        expr.kind == "const" and expr.type in INTEGERS and expr.word in RANGES[expr.type] for expr in _exprs(program)
    )


def _long_loops(program: Program) -> int:
    """Constant loops over more than half of their type."""
    found = 0
    for statement in statements(program.body):
        if statement.kind == "for" and all(expr.kind == "const" for expr in statement.exprs):
            start, stop, _ = (int(expr.word) for expr in statement.exprs)
            found += abs(stop - start) > 1 << BITS[statement.exprs[0].type] - 1
    return found


def _types(program: Program) -> int:
    return len({expr.type for expr in _exprs(program)} & set(TYPES))


def _float_floor_divisions(program: Program) -> int:
    return sum(
        expr.kind == "op" and expr.word in ("floor_divide", "remainder") and expr.type not in INTEGERS
        for expr in _exprs(program)
    )


def _powers(program: Program) -> int:
    return sum(expr.kind == "op" and expr.word == "integer_power" for expr in _exprs(program))


def _kinds(wanted: str):
    def count(program: Program) -> int:
        return sum(expr.kind == wanted for expr in _exprs(program))

    return count


def _tables(program: Program) -> int:
    return sum(buffer.role == "table" for buffer in program.buffers.values())


def _own_stores(program: Program) -> int:
    return sum(statement.kind == "store" and statement.word in program.own for statement in statements(program.body))


def _narrow_atomics(program: Program) -> int:
    kinds = [program.type_of(each.detail[1]) for each in statements(program.body) if each.kind == "atomic"]
    return sum(BITS[kind] < 32 for kind in kinds)


def _signed_index(program: Program) -> int:
    return program.index in ("i32", "i64")


def _words(*wanted: str):
    def count(program: Program) -> int:
        return sum(statement.kind in wanted for statement in statements(program.body))

    return count


@pytest.mark.thin
@pytest.mark.parametrize(
    ("kind", "count", "least"),
    [
        ("folding", _shifts_too_far, 200),
        ("folding", _choices_of_constants, 400),
        ("folding", _negative_zeros, 40),
        ("folding", _edge_constants, 200),
        ("folding", _types, 1000),
        ("general", _shifts_too_far, 60),
        ("general", _long_loops, 5),
        ("general", _edge_constants, 120),
        ("general", _types, 1000),
        ("general", _words("while"), 20),
        ("general", _words("break", "continue", "return"), 20),
        ("general", _words("atomic"), 60),
        ("general", _powers, 40),
        ("general", _float_floor_divisions, 40),
        ("general", _kinds("position"), 100),
        ("general", _kinds("extent"), 60),
        ("general", _tables, 40),
        ("general", _own_stores, 60),
        ("general", _narrow_atomics, 40),
        ("general", _signed_index, 60),
        ("contended", _narrow_atomics, 60),
        ("asserts", _words("assert"), 45),
        ("contended", _words("atomic"), 250),
        ("lockstep", _words("warp"), 250),
        ("lockstep", _words("barrier"), 400),
        ("grid", _words("grid_barrier"), 400),
    ],
)
def test_features_are_drawn_often(kind: str, count, least: int) -> None:
    drawn = sum(map(count, _programs(kind, 200)))

    assert drawn >= least
