"""The regressions of docs/compiler-defects.md once more, with each literal hidden in an expression.

So a device compiles them with traps, which leaves the program's own statements. All threads of the one block run, one
after the other.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from comparison import is_same, joined, results, run_kernel
from disassembly import ARCHITECTURE, Kernel, compile_kernels, has_tools
from hidden_constants import hidden_one_by_one, hidden_together
from machine import NotExecuted

import vyre_cuda as vc
from vyre_cuda.codegen.terms import terms
from vyre_cuda.ir.core.program import Program
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.testing import regression

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_tools(), reason="no ptxas or no nvdisasm")]

FILES = sorted((Path(__file__).parents[1] / "device" / "regressions").glob("*.vir"))
# However their literals are hidden, they have instructions that the machine does not know.
NOT_EXECUTED = ("choice_of_float_constants", "truth_value_as_bits_of_a_float")
TURNS = 7  # no literal has more disguises
_BLOCK = re.compile(r"^block .*$", re.MULTILINE)
_WORK = re.compile(r"^work u\d+:(\d+)", re.MULTILINE)


def differences(path: Path, bodies: list[str], head: str, threads: int) -> tuple[int, list[str]]:
    """How many of these bodies were executed, and those of them whose results differ from the interpreter's."""
    _, arguments, _ = regression.load(path)
    programs: list[Program] = []
    for place, body in enumerate(bodies):
        named = re.sub(r"^program \w+", f"program hidden{place}", head, count=1, flags=re.MULTILINE)
        programs.append(vc.parse(f"{named}\n\n{body}"))
    texts = [vc.ptx(prepared(program, bounds="trap"), ARCHITECTURE) for program in programs]
    compiled: dict[str, Kernel] = compile_kernels(joined(texts))
    executed, wrong = 0, []
    for program, text, body in zip(programs, texts, bodies, strict=True):
        expected = results(program, arguments)
        try:
            got = run_kernel(compiled[f"k_{program.name}"], text, program, arguments, expected, threads=threads)
        except NotExecuted:
            continue
        executed += 1
        if not all(is_same(want, have) for want, have in zip(expected, got, strict=True)):
            wrong.append(body)
    return executed, wrong


def read(path: Path) -> tuple[str, str, int] | None:
    """The declarations of the program, with a block for all its work, its body, and the number of threads.

    None if one block cannot stand for the launch: its work is not a number, or it reads the size of the grid.
    """
    text = "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("# "))
    head, _, body = text.partition("\n\n")
    work = _WORK.search(head)
    if work is None or "grid_dim" in text:
        return None
    return _BLOCK.sub(f"block {work[1]}", head), body, int(work[1])


IN_ONE_BLOCK = {path: found for path in FILES if path.stem not in NOT_EXECUTED and (found := read(path)) is not None}


@pytest.mark.thin
@pytest.mark.parametrize("path", IN_ONE_BLOCK, ids=[path.stem for path in IN_ONE_BLOCK])
def test_literals_hidden_in_expressions_change_nothing(path: Path, request: pytest.FixtureRequest) -> None:
    head, body, threads = IN_ONE_BLOCK[path]
    bodies = [hidden_together(body, turn) for turn in range(TURNS)]
    if request.config.getoption("--long"):
        bodies += hidden_one_by_one(body)

    executed, wrong = differences(path, list(dict.fromkeys(bodies)), head, threads)

    assert wrong == []
    assert executed


def test_a_rule_that_does_not_see_the_constant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without constant folding, 0 <= |NaN| is true in the machine code."""
    monkeypatch.setattr(terms.constants, "folded", lambda *_: None)
    path = next(path for path in IN_ONE_BLOCK if path.stem == "order_of_an_absolute_value_and_nan")
    head, body, threads = IN_ONE_BLOCK[path]

    bodies = [hidden for hidden in hidden_one_by_one(body) if "rint(f32" in hidden]

    executed, wrong = differences(path, bodies, head, threads)

    assert executed == len(bodies)
    assert wrong
