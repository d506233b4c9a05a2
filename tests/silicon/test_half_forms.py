"""The emulator's half forms against exact rational arithmetic, on the operands that silicon is asked, too."""

from __future__ import annotations

import half_conversions
import half_oracle
import numpy as np
import numpy.typing as npt
import pytest
from record import run_module, word_bytes
from silicon_driver import Device
from silicon_forms import Form, recorded_forms
from silicon_grid import CASES
from silicon_kernels import Kernel
from silicon_modules import modules

Bytes = npt.NDArray[np.uint8]


def half_forms() -> list[Form]:
    """Forms with an f16 or bf16 operand."""
    return [form for form in recorded_forms() if any(o.type in ("f16", "h16") for o in form.operands)]


@pytest.fixture(scope="module")
def emulated(library: str) -> dict[str, tuple[Kernel, Bytes]]:
    """What the emulator answers, by form."""
    with Device(library) as device:
        return {k.form.key: (k, answer) for module in modules(half_forms()) for k, answer in run_module(device, module)}


def _expected(form: Form, words: list[int]) -> int | None:
    if form.opcode == "cvt":
        return half_conversions.conversion(form, words[0])
    if form.opcode == "setp":
        return half_oracle.comparison(form, words)
    if form.opcode in ("min", "max", "abs", "neg"):
        return half_oracle.selection(form, words)
    return half_oracle.arithmetic(form, words)


def _is_nan(type_: str, word: int) -> bool:
    return type_[0] in "fh" and bool(np.isnan(half_oracle.value_of(type_, word)))


@pytest.mark.thin(308)
@pytest.mark.parametrize("form", half_forms(), ids=lambda form: form.name)
def test_half_form_rounds_the_exact_result_once(form: Form, emulated: dict[str, tuple[Kernel, Bytes]]) -> None:
    kernel, answer = emulated[form.key]
    type_, width = form.operands[0].type, word_bytes(kernel.outputs[0])
    met = answer[: CASES * width].view(f"u{width}")
    bits = 1 if type_ == "p" else int(type_[1:])

    for case, words in enumerate(kernel.operands().T.tolist()):
        expected, word = _expected(form, words), int(met[case]) % (1 << bits)
        same = _is_nan(type_, word) if expected is None else word == expected
        shown = "NaN" if expected is None else hex(expected)
        assert same, f"{form.name} ({', '.join(map(hex, words))}): exact {shown}, emulator {word:#x}"
