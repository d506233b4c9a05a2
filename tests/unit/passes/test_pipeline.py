"""All passes together: what the compiler's options allow, limits, and blame for a pass that breaks a program."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.limits import MAX_DEPTH, MAX_NESTING
from vyre_cuda.ir.core.nodes import Apply, Assign, Const, If, Local, Scalar, Store
from vyre_cuda.ir.core.types import bool_, u32
from vyre_cuda.passes.pipeline import checked, find_culprit, optimize, run, sequence

from .texts import body

ROOT = Path(__file__).parents[3]
HEADER = """\
program k
block 64
index u32
in x: u32
inout h: u32
scalar a: u32
scalar b: bool_
scalar f: f32

"""


def optimized(text: str, *, bounds: str = "check") -> str:
    return body(optimize(vc.parse(HEADER + text), bounds=bounds))


def test_passes_work_into_each_others_hands() -> None:
    text = """\
let unused = load(x[a])
for j = u32:0 to a step u32:1
  if bool_:true
    store h[j], add(load(x[multiply(a, u32:3)]), j)
  else
    store h[j], unused
  end
end
"""

    assert optimized(text) == ("for j = u32:0 to a step u32:1\n  store h[j], add(load(x[multiply(a, u32:3)]), j)\nend")


def test_bounds_say_which_loads_may_go() -> None:
    text = "let t = load(x[a])\nstore h[a], u32:1"

    assert optimized(text) == optimized(text, bounds="off") == "store h[a], u32:1"
    assert optimized(text, bounds="trap") == text


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.vir")), ids=lambda path: path.stem)
def test_examples_have_nothing_to_lose(path: Path) -> None:
    program = vc.parse(path.read_text(encoding="utf-8"))

    assert optimize(program) is program


@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("*/programs/*.vir")), ids=lambda path: path.stem)
def test_an_optimized_program_stays_as_it_is(path: Path) -> None:
    once = optimize(vc.parse(path.read_text(encoding="utf-8")))

    assert vc.parse(once.text()) == once
    assert optimize(once) is once


def test_what_is_outside_of_the_body_stays() -> None:
    program = vc.parse(
        "program k\nblock 8 4\nindex u64\nwork u64:8, size(h)\ninout h: u32\nshared tile: u32[4]\n\n"
        "let t = u32:2\nif bool_:true\n  store h[t], t\nend\n"
    )
    result = optimize(program)

    assert result == dataclasses.replace(program, body=result.body)
    assert body(result) == "let t = u32:2\nstore h[t], t"


def test_a_program_at_the_limit_of_depth_stays_as_it_is() -> None:
    condition: Apply | Scalar = Scalar(bool_, "b")
    for _ in range(MAX_DEPTH - 1):
        condition = _flipped(condition)
    program = vc.parse(f"{HEADER}if b\nelse\n  store h[a], a\nend\n")
    (branch,) = program.body
    assert isinstance(branch, If)
    deep = dataclasses.replace(program, body=(dataclasses.replace(branch, condition=condition),))

    assert optimize(deep) is deep


def _flipped(condition: Apply | Scalar) -> Apply:
    """One level deeper, and nothing that a pass could simplify."""
    return Apply(bool_, "logical_or", (condition, Apply(bool_, "less", (Scalar(u32, "a"), Const(u32, 3)))))


@pytest.mark.thin
@pytest.mark.parametrize(
    "opening",
    ["if less(load(h[a]), a)\n", "for j{} = u32:0 to load(h[a]) step u32:1\n", "while\ntest less(load(h[a]), a)\n"],
    ids=["if", "for", "while"],
)
def test_the_deepest_programs_are_within_the_stack(opening: str) -> None:
    expression = "load(h[a])"
    for number in range(MAX_DEPTH - 8):
        expression = f"add({expression}, load(x[u32:{number}]))"
    text = "".join(opening.format(level) for level in range(MAX_NESTING))
    text += f"store h[a], minimum({expression}, {expression.replace('h[a]', 'x[a]')})\n" + "end\n" * MAX_NESTING

    program = vc.parse(HEADER + text)

    assert vc.parse(optimize(program).text()) == optimize(program)
    assert "ld.global" in vc.ptx(program)


def broken(program: vc.Program) -> vc.Program:
    """A pass that assigns what is no var."""
    return dataclasses.replace(program, body=(*program.body, Assign("nowhere", Const(u32, 0))))


def test_the_pass_that_breaks_a_program_is_named() -> None:
    program = vc.parse(f"{HEADER}store h[a], add(a, u32:0)\n")
    first, *others = sequence()
    passes = (first, ("broken", broken), *others)

    assert find_culprit(program, passes) == "broken"
    assert find_culprit(program, sequence()) == ""


def test_a_broken_program_is_an_internal_error() -> None:
    program = vc.parse(f"{HEADER}store h[a], add(a, u32:0)\n")

    with pytest.raises(vc.InternalError) as error:
        checked(program, broken(program), (("broken", broken),))

    assert "broken" in str(error.value)


def test_a_second_round_is_the_last() -> None:
    rounds = []

    def count(program: vc.Program) -> vc.Program:
        rounds.append(program)
        store = Store("h", Local(u32, "t"), Const(u32, len(rounds)))
        return dataclasses.replace(program, body=(*program.body[:1], store))

    run(vc.parse(f"{HEADER}let t = a\n"), (("count", count),))

    assert len(rounds) == 2
