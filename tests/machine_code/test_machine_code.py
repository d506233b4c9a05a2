"""What ptxas makes of our PTX gives what the interpreter says, and where it does not, the machine sees it."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from check import write
from comparison import DIFFERENT, INSTRUCTIONS, NOT_EXECUTED, Verdict, compare, joined, results, run_kernel
from disassembly import ARCHITECTURE, Instruction, Kernel, compile_kernels, has_tools, parse, ptxas_version
from machine import PARAMETERS_AT, Fault, Machine, Memory, NotExecuted
from random_programs import draw_arguments, draw_program
from reduction import reduced

import vyre_cuda as vc

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_tools(), reason="no ptxas or no nvdisasm")]

PROGRAMS = 300
LEAST_EXECUTED = 0.85

HEAD = f".version 7.8\n.target {ARCHITECTURE}\n.address_size 64\n"


# ---- random programs -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seed() -> int:
    """The same in each run: `check.py` looks for what nobody has seen yet."""
    return 20261122


@pytest.fixture(scope="module")
def verdicts(seed: int) -> list[Verdict]:
    rng = random.Random(f"{seed} 0")
    return compare([draw_program(rng, f"t{place}") for place in range(PROGRAMS)], seed)


@pytest.mark.thin
def test_random_programs_give_what_the_interpreter_says(verdicts: list[Verdict], seed: int) -> None:
    different = [verdict for verdict in verdicts if verdict.state == DIFFERENT]

    assert different == [], f"check.py --programs {PROGRAMS} --seed {seed} --reduce"


@pytest.mark.thin
def test_nearly_all_random_programs_are_executed(verdicts: list[Verdict], seed: int) -> None:
    unknown = Counter(verdict.reason for verdict in verdicts if verdict.state == NOT_EXECUTED)

    assert unknown.total() < PROGRAMS * (1 - LEAST_EXECUTED), f"seed {seed}: {unknown}"


@pytest.mark.parametrize(
    ("word", "least"),
    [
        ("where(", 300),
        ("cast.", 200),
        ("let v", 1000),
        ("for ", 40),
        ("if ", 40),
        ("f64", 100),
        ("bf16", 100),
        ("local a", 40),
        ("power", 40),
    ],
)
def test_features_are_drawn_often(word: str, least: int) -> None:
    rng = random.Random(5)

    drawn = sum(draw_program(rng, "t").count(word) for _ in range(300))

    assert drawn >= least


def test_a_seed_gives_its_programs_and_arguments_again() -> None:
    first, again = (random.Random(9) for _ in range(2))

    text = draw_program(first, "t")

    assert draw_program(again, "t") == text
    program = vc.parse(text)
    for one, other in zip(draw_arguments(first, program), draw_arguments(again, program), strict=True):
        assert one.tobytes() == other.tobytes()


# ---- what is wrong is seen -------------------------------------------------------------------------------------------

TWO_TRUTHS = f"""{HEAD}
.visible .entry two_truths(.param .u64 in, .param .u64 out)
{{
  .reg .b64 %rd<2>;
  .reg .b32 %r<4>;
  .reg .pred %p<5>;
  ld.param.u64 %rd0, [in];
  ld.param.u64 %rd1, [out];
  ld.global.u8 %r0, [%rd0];
  ld.global.u8 %r1, [%rd0+1];
  setp.ne.u32 %p0, %r0, 0;
  setp.ne.u32 %p1, %r1, 0;
  xor.pred %p2, %p0, %p1;
  and.pred %p3, %p0, %p2;
  xor.pred %p3, %p2, %p3;
  or.pred %p4, %p0, %p2;
  selp.u32 %r2, 1, 0, %p3;
  selp.u32 %r3, 1, 0, %p4;
  st.global.u8 [%rd1], %r2;
  st.global.u8 [%rd1+1], %r3;
  ret;
}}
"""
# The versions of ptxas in which docs/compiler-defects.md has seen what is wrong here.
DEFECTIVE = ("13.0.88", "13.5.37")


def _run(kernel: Kernel, source: bytes, result_bytes: int) -> bytes:
    """What a kernel of two addresses stores to the second."""
    memory = Memory()
    at, out = memory.place(source), memory.place(bytes(result_bytes))
    parameters = at.to_bytes(8, "little") + out.to_bytes(8, "little")
    Machine(memory, bytes(PARAMETERS_AT) + parameters).run(kernel, INSTRUCTIONS)
    return bytes(memory.buffers[out])


@pytest.mark.thin
@pytest.mark.skipif(
    has_tools() and ptxas_version() not in DEFECTIVE, reason="the defect was seen in other versions of ptxas"
)
def test_a_known_defect_of_the_compiler_is_seen() -> None:
    kernel = compile_kernels(TWO_TRUTHS)["two_truths"]
    inputs = [(x, y) for x in (0, 1) for y in (0, 1)]

    expected = [((x ^ y) ^ (x & (x ^ y)), x | (x ^ y)) for x, y in inputs]
    met = [tuple(_run(kernel, bytes(pair), 2)) for pair in inputs]

    assert met != expected


@pytest.mark.thin
def test_another_table_of_a_logical_instruction_is_seen() -> None:
    text = _program("bitwise_and(load(x[u32:0]), load(x[u32:1]))")
    program = vc.parse(text)
    ptx = vc.ptx(program, ARCHITECTURE)
    kernel = compile_kernels(ptx)["k_t"]
    wrong = Kernel(kernel.name, [_with_table(each, 0xFC) for each in kernel.instructions], kernel.labels)
    arguments = [np.array([12, 10], np.uint32)]

    right = run_kernel(kernel, ptx, program, arguments, results(program, arguments))
    met = run_kernel(wrong, ptx, program, arguments, results(program, arguments))

    assert [int(each[0]) for each in (*right, *met)] == [8, 14]


def _with_table(instruction: Instruction, number: int) -> Instruction:
    if instruction.opcode != "LOP3":
        return instruction
    *sources, table, other = instruction.operands
    return dataclasses.replace(instruction, operands=(*sources, dataclasses.replace(table, number=number), other))


def _program(expression: str, type_: str = "u32") -> str:
    return (
        f"program t\nblock 1\nindex u32\nwork u32:1\nin x: {type_}\nout o: {type_}[u32:1]\n\n"
        f"store o[u32:0], {expression}\n"
    )


@pytest.mark.thin
def test_an_access_outside_of_the_buffers_is_seen() -> None:
    body = TWO_TRUTHS.replace("[%rd0+1]", "[%rd0+4096]")

    with pytest.raises(Fault, match=r"1 bytes at 0x[0-9a-f]+, which no buffer has"):
        _run(compile_kernels(body)["two_truths"], bytes(2), 2)


# ---- what is not known -----------------------------------------------------------------------------------------------


@pytest.mark.thin
def test_an_instruction_that_is_not_known_makes_no_verdict() -> None:
    (verdict,) = compare([_program("sqrt(load(x[u32:0]))", "f32")], 1)

    assert (verdict.state, verdict.reason) == (NOT_EXECUTED, "MUFU.RSQ")


def test_a_modifier_that_is_not_known_makes_no_verdict() -> None:
    kernel = parse(".text.k:\n/*0000*/  FADD.RP R0, RZ, 1 ;  /* 0x3f800000ff007421 */\n")["k"]

    with pytest.raises(NotExecuted, match=r"FADD\.RP"):
        Machine(Memory(), b"").run(kernel, INSTRUCTIONS)


@pytest.mark.thin
def test_a_kernel_without_end_makes_no_verdict() -> None:
    kernel = compile_kernels(TWO_TRUTHS.replace("  ret;", "again:\n  st.global.u8 [%rd1], %r2;\n  bra again;"))

    with pytest.raises(NotExecuted, match="instructions"):
        _run(kernel["two_truths"], bytes(2), 2)


# ---- the disassembly -------------------------------------------------------------------------------------------------


def test_the_payload_of_a_nan_comes_from_the_encoding() -> None:
    kernel = parse(".text.k:\n/*0090*/  @!P1 FSEL R16, -|R14|, +QNAN , P0 ;  /* 0x7fc123450e107808 */\n")["k"]

    (instruction,) = kernel.instructions
    _, x, nan, condition = instruction.operands

    assert instruction.guard is not None
    assert (instruction.opcode, instruction.guard.name, instruction.guard.inverted) == ("FSEL", "P1", True)
    assert (x.name, x.negative, x.absolute) == ("R14", True, True)
    assert (nan.kind, nan.number, condition.kind) == ("float", 0x7FC12345, "predicate")


def test_two_halves_of_an_immediate_are_one_operand() -> None:
    kernel = parse(".text.k:\n/*0000*/  HFMA2.MMA R3, -RZ, RZ, 1.875, 0.5 ;  /* 0x3f803800ff037435 */\n.L_x_1:\n")["k"]

    machine = Machine(Memory(), b"")
    INSTRUCTIONS["HFMA2"].execute(machine, kernel.instructions[0])

    assert machine.registers == {"R3": 0x3F803800}
    assert kernel.labels == {".L_x_1": 1}


def test_kernels_of_several_versions_are_compiled_as_one_text() -> None:
    old, new = ".version 7.8\n\n.visible .entry a()\n{}\n", ".version 8.0\n\n.visible .entry b()\n{}\n"

    assert joined([old, new]) == ".version 8.0\n\n.visible .entry a()\n{}\n.visible .entry b()\n{}\n"


# ---- the command -----------------------------------------------------------------------------------------------------


def _differs(wanted: str) -> Callable[[Sequence[str]], list[bool]]:
    return lambda texts: [wanted in text for text in texts]


def test_a_difference_is_cut_down_to_what_shows_it() -> None:
    body = "add(multiply(invert(load(x[u32:0])), load(x[u32:1])), where(less(load(x[u32:2]), u32:5), u32:1, u32:2))"
    lets = f"let a = {body}\nlet b = negative(a)\nif less(b, a)\nend\nstore"

    shortest = reduced(_program("b").replace("store", lets), _differs("multiply(load(x"))

    assert vc.parse(shortest) is not None
    assert "multiply(load(x" in shortest
    assert all(word not in shortest for word in ("invert", "where", "negative", "if", "add("))


def test_a_difference_is_written_whole(tmp_path: Path) -> None:
    write(tmp_path, "7-0-3", Verdict(DIFFERENT, "program", "ptx", "EXIT\n", "o: expected 1"))

    found = {path.name: path.read_text() for path in tmp_path.iterdir()}

    assert found == {
        "difference-7-0-3.vir": "program",
        "difference-7-0-3.ptx": "ptx",
        "difference-7-0-3.sass": "EXIT\n",
        "difference-7-0-3.txt": "o: expected 1\n",
    }


@pytest.mark.thin
def test_command_compares_and_summarizes(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("check.py")), "--output", str(tmp_path / "found")]

    done = subprocess.run(
        [*command, "--programs", "40", "--seed", "1", "--processes", "1"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 programs, 100.0% executed, 0 differ" in done.stdout
    assert not (tmp_path / "found").exists()
