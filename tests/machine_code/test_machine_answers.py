"""The machine gives what an H200 answered to instruction forms of PTX (`tests/silicon`), through ptxas."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest
from comparison import INSTRUCTIONS
from disassembly import Kernel, compile_kernels, has_tools
from machine import PARAMETERS_AT, Machine, Memory, NotExecuted
from record import ANSWERS_FILE, Recording, load, word_bytes
from silicon_forms import Form, recorded_forms
from silicon_grid import CASES
from silicon_kernels import HEADER
from silicon_kernels import Kernel as Question
from silicon_modules import build_kernel

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_tools(), reason="no ptxas or no nvdisasm")]

# How many forms of an opcode are asked, and every which case of each.
FORMS, STEP = 10, 31
ARITHMETIC = ("abs", "add", "addc", "fma", "mad", "max", "min", "mul", "neg", "sad", "sub", "subc")
BITS = ("and", "bfe", "bfi", "brev", "clz", "lop3", "not", "or", "popc", "prmt", "shf", "shl", "shr", "xor")
OTHERS = ("cvt", "ld", "mov", "selp", "set", "setp", "slct")


def _forms() -> dict[str, list[Form]]:
    """Some forms of each opcode, spread over all of them."""
    found: dict[str, list[Form]] = defaultdict(list)
    for form in recorded_forms():
        if form.min_target <= 90:
            found[form.opcode].append(form)
    return {opcode: forms[:: len(forms) // FORMS + 1] for opcode, forms in found.items()}


@dataclass(frozen=True, slots=True)
class Asked:
    question: Question
    kernel: Kernel


@pytest.fixture(scope="module")
def asked() -> dict[str, list[Asked]]:
    """The machine code of the forms, by opcode."""
    forms = [form for opcode in (*ARITHMETIC, *BITS, *OTHERS) for form in _forms()[opcode]]
    built = [build_kernel(form, f"form_{number}") for number, form in enumerate(forms)]
    questions = [question for question in built if not question.blob_bytes]
    kernels = compile_kernels(HEADER.format(target=90) + "".join(question.text() for question in questions))
    found: dict[str, list[Asked]] = defaultdict(list)
    for question in questions:
        found[question.form.opcode].append(Asked(question, kernels[question.name]))
    return found


@pytest.fixture(scope="module")
def recording() -> Recording:
    return load(ANSWERS_FILE)


@pytest.mark.thin
@pytest.mark.parametrize("opcode", [*ARITHMETIC, *BITS, *OTHERS])
def test_machine_gives_what_silicon_answered(opcode: str, asked: dict[str, list[Asked]], recording: Recording) -> None:
    executed, wrong = 0, []
    for each in asked[opcode]:
        answer = recording.answers[each.question.form.key].data
        for case in _cases(each.question):
            try:
                met = _met(each, case)
            except NotExecuted:
                break
            executed += 1
            expected = _expected(each.question, answer.tobytes(), case)
            if not all(map(_is_same, each.question.outputs, expected, met)):
                wrong.append((each.question.form.key, case, expected, met))

    assert wrong == []
    assert executed > 0


def _cases(question: Question) -> list[int]:
    """Cases of all kinds, and some in which each operand is a zero of either sign."""
    columns = question.operands().T.tolist()
    magnitudes = [(1 << max(bits - 1, 1)) - 1 for _, bits in question.inputs]
    zeros = [
        case
        for case, words in enumerate(columns)
        if not any(word & magnitude for word, magnitude in zip(words, magnitudes, strict=True))
    ]
    return [*range(0, CASES, STEP), *zeros[:8]]


def _met(each: Asked, case: int) -> list[int]:
    """The results of the thread of a case."""
    memory = Memory()
    source = memory.place(each.question.operands().tobytes())
    target = memory.place(bytes(8 * CASES * len(each.question.outputs)))
    parameters = source.to_bytes(8, "little") + target.to_bytes(8, "little")
    Machine(memory, bytes(PARAMETERS_AT) + parameters, case).run(each.kernel, INSTRUCTIONS)
    return [
        memory.read(target + 8 * (row * CASES + case), 8) & (1 << 8 * word_bytes(type_)) - 1
        for row, type_ in enumerate(each.question.outputs)
    ]


def _expected(question: Question, answer: bytes, case: int) -> list[int]:
    found, begin = [], 0
    for type_ in question.outputs:
        width = word_bytes(type_)
        found.append(int.from_bytes(answer[begin + case * width : begin + (case + 1) * width], "little"))
        begin += CASES * width
    return found


def _is_same(type_: str, expected: int, met: int) -> bool:
    return expected == met or (_is_nan(type_, expected) and _is_nan(type_, met))


def _is_nan(type_: str, word: int) -> bool:
    infinity = {"f16": 0x7C00, "h16": 0x7F80, "f32": 0x7F80_0000, "f64": 0x7FF0_0000_0000_0000}.get(type_)
    return infinity is not None and word & (1 << int(type_[1:]) - 1) - 1 > infinity
