"""The emulator answers every instruction form bit for bit as recorded silicon did, NaN as NaN.

The answers come from `record.py` on a GPU; its name is in the answers' index.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from record import ANSWERS_FILE, Answer, Recording, digest, listing, load, record, run_module, word_bytes
from silicon_driver import Device
from silicon_forms import FORMS_FILE, NOT_RECORDED, Form, parse_forms, recorded_forms
from silicon_grid import CASES
from silicon_kernels import Kernel
from silicon_modules import modules

Bytes = npt.NDArray[np.uint8]


@pytest.fixture(scope="session")
def recording() -> Recording:
    """answers.npz, taken apart."""
    return load(ANSWERS_FILE)


@pytest.fixture(scope="session")
def emulated(library: str) -> dict[str, tuple[Kernel, Bytes]]:
    """What the emulator answers, by form."""
    with Device(library) as device:
        return {
            kernel.form.key: (kernel, answer)
            for module in modules(answered_forms())
            for kernel, answer in run_module(device, module)
        }


def answered_forms() -> list[Form]:
    """The forms that have an answer; that none lacks one is a test of its own."""
    answers = load(ANSWERS_FILE).answers
    return [form for form in recorded_forms() if form.key in answers]


def _same(expected: Bytes, met: Bytes, type_: str) -> npt.NDArray[np.bool_]:
    width = word_bytes(type_)
    bits = expected.view(f"u{width}") == met.view(f"u{width}")
    if type_ == "h16":
        return bits | ((expected.view("u2") & 0x7FFF > 0x7F80) & (met.view("u2") & 0x7FFF > 0x7F80))
    if type_[0] != "f":
        return bits
    return bits | (np.isnan(expected.view(f"f{width}")) & np.isnan(met.view(f"f{width}")))


def test_forms_file_is_the_table_of_the_emulator(library: str) -> None:
    assert FORMS_FILE.read_text() == listing(library)


def test_every_form_is_recorded(recording: Recording) -> None:
    forms = parse_forms(FORMS_FILE.read_text())

    assert {form.key for form in forms if form.name not in NOT_RECORDED} == set(recording.answers)


def test_record_keeps_known_answers_and_asks_the_rest(library: str, recording: Recording) -> None:
    first, second, third = answered_forms()[:3]
    stale = Answer(outputs=recording.answers[second.key].outputs, asked="another question", data=np.zeros(1, np.uint8))
    own = record(library, [first], None)
    kept = Answer(outputs=["b8"], asked=own.answers[first.key].asked, data=np.arange(7, dtype=np.uint8))
    known = Recording(device=own.device, driver=own.driver, answers={first.key: kept, second.key: stale, "gone": stale})

    merged = record(library, [first, second, third], known)

    assert list(merged.answers) == [first.key, second.key, third.key]
    assert merged.answers[first.key] is kept
    assert merged.answers[second.key].asked != stale.asked
    with pytest.raises(ValueError, match="another device"):
        record(library, [first], replace(known, device="another device"))


@pytest.mark.thin(644)
@pytest.mark.parametrize("form", answered_forms(), ids=lambda form: f"{form.name}-{form.signature}".replace(" ", "_"))
def test_form_answers_as_silicon(form: Form, recording: Recording, emulated: dict[str, tuple[Kernel, Bytes]]) -> None:
    kernel, met = emulated[form.key]
    answer = recording.answers[form.key]
    expected = answer.data

    assert answer.asked == digest(kernel), "operands or kernel changed since the recording"
    assert answer.outputs == kernel.outputs
    grid, begin = kernel.operands(), 0
    for result, type_ in enumerate(kernel.outputs):
        end = begin + CASES * word_bytes(type_)
        same = _same(expected[begin:end], met[begin:end], type_)
        wrong = np.flatnonzero(~same)
        if wrong.size:
            case = int(wrong[0])
            width = word_bytes(type_)
            silicon = int(expected[begin:end].view(f"u{width}")[case])
            emulator = int(met[begin:end].view(f"u{width}")[case])
            operands = ", ".join(f"{int(word):#x}" for word in grid[:, case])
            pytest.fail(
                f"{form.name} ({operands}), result {result}: silicon {silicon:#x}, emulator {emulator:#x}; "
                f"{wrong.size} of {CASES} cases differ"
            )
        begin = end
