"""Programs without some of their statements: valid where nothing uses what went, as full validation finds too."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.ir.check import validate
from vyre_cuda.ir.core.nodes import For, If, Let, Stmt
from vyre_cuda.ir.core.walk import bodies, declared_name, operands
from vyre_cuda.passes.left_out import is_valid_part
from vyre_cuda.passes.rebuild import NESTING, with_bodies, with_body
from vyre_cuda.testing.strategies import programs

HEADER = "program k\nblock 64\nindex u32\nin x: u32\ninout h: u32\n\nlet i = global_id.x\n"


def parsed(text: str) -> vc.Program:
    return vc.parse(HEADER + text)


def without(program: vc.Program, *names: str) -> vc.Program:
    """The program without the lets, vars and loops of these names, wherever they are."""

    def rest(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        kept = [each for each in body if declared_name(each) not in names]
        return tuple(
            with_bodies(each, tuple(rest(inner) for _, inner in bodies(each))) if isinstance(each, NESTING) else each
            for each in kept
        )

    return with_body(program, rest(program.body))


@pytest.mark.parametrize(
    "text",
    [
        "let d = load(x[i])\nstore h[i], i\n",
        "let d = load(x[i])\nlet e = add(d, d)\nif less(i, u32:9)\n  let f = add(e, d)\n  store h[i], i\nend\n",
        "for d = u32:0 to u32:9 step u32:1\n  let e = d\nend\nstore h[i], i\n",
    ],
)
def test_a_program_without_what_nothing_uses_is_valid(text: str) -> None:
    program = parsed(text)

    result = without(program, "d", "e", "f")

    assert len(result.body) < len(program.body)
    assert is_valid_part(program, result)
    assert not validate.validate(result)


@pytest.mark.parametrize(
    "text",
    [
        "let d = load(x[i])\nstore h[i], add(d, d)\n",
        "let d = load(x[i])\nif less(i, u32:9)\n  store h[d], i\nend\n",
        "var d = load(x[i])\nd = i\nstore h[i], i\n",
        "let d = load(x[i])\nwhile\n  test less(d, u32:0)\n  break\nend\nstore h[i], i\n",
        "for d = u32:0 to u32:9 step u32:1\n  store h[i], d\nend\nlet e = load(x[i])\nstore h[e], i\n",
    ],
)
def test_a_program_that_uses_what_went_is_not(text: str) -> None:
    program = parsed(text)

    result = without(program, "d" if "let e" not in text else "e")

    assert not is_valid_part(program, result)
    assert validate.validate(result)


def test_other_statements_are_no_part() -> None:
    program = parsed("for d = u32:0 to u32:9 step u32:1\n  store h[i], d\nend\nstore h[i], i\n")
    loop = program.body[1]
    assert isinstance(loop, For)

    renamed = For("n", loop.start, loop.stop, loop.step, (), None)
    others = [
        (*program.body, Let("n", operands(program.body[0])[0], None)),
        (program.body[0], renamed, program.body[2]),
        program.body[::-1],
    ]

    assert not any(is_valid_part(program, with_body(program, other)) for other in others)
    assert not is_valid_part(program, vc.parse(program.text().replace("block 64", "block 32")))


def test_programs_whose_threads_work_together_are_no_parts() -> None:
    program = parsed("let d = load(x[i])\nbarrier\nstore h[i], i\n")

    assert not is_valid_part(program, without(program, "d"))


@settings(max_examples=8, deadline=None)
@given(programs(), st.randoms(use_true_random=False), st.sampled_from([0.02, 0.1, 0.5]))
def test_what_is_a_valid_part_is_valid(program: vc.Program, rng: random.Random, share: float) -> None:
    def some(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        kept = []
        for each in body:
            if isinstance(each, If) and rng.random() < share:
                kept += some(each.then)
            elif rng.random() >= share:
                inner = tuple(some(inner) for _, inner in bodies(each))
                kept.append(with_bodies(each, inner) if isinstance(each, NESTING) else each)
        return tuple(kept)

    result = with_body(program, some(program.body))

    assert not is_valid_part(program, result) or not validate.validate(result)
