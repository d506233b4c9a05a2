"""The emulator answers every instruction form bit for bit as recorded silicon did, NaN as NaN.

The answers come from `record.py` on a GPU; its name is in the answers' index.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from record import ANSWERS_FILE, digest, listing, run_module, word_bytes
from silicon_driver import Device
from silicon_forms import FORMS_FILE, NOT_RECORDED, Form, parse_forms, recorded_forms
from silicon_grid import CASES
from silicon_kernels import Kernel
from silicon_modules import modules

from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Recording:
    """The answers of silicon: per form the types of its results, what was asked, the bytes."""

    outputs: dict[str, list[str]]
    digests: dict[str, str]
    answers: dict[str, Bytes]


@pytest.fixture(scope="session")
def library() -> str:
    """The emulator's library; VYRE_CUDA_EMULATOR_LIBRARY names another build."""
    return os.environ.get("VYRE_CUDA_EMULATOR_LIBRARY") or str(Path(get_library_dir()) / EMULATOR_LIBRARY)


@pytest.fixture(scope="session")
def recording() -> Recording:
    """answers.npz, taken apart."""
    with np.load(ANSWERS_FILE) as file:
        index, blob = json.loads(file["index"].tobytes()), file["answers"]
    outputs, digests, answers, begin = {}, {}, {}, 0
    for key, (types, asked) in index["forms"].items():
        end = begin + CASES * sum(word_bytes(type_) for type_ in types)
        outputs[key], digests[key], answers[key] = types, asked, blob[begin:end]
        begin = end
    assert begin == len(blob)
    return Recording(outputs=outputs, digests=digests, answers=answers)


@pytest.fixture(scope="session")
def emulated(library: str) -> dict[str, tuple[Kernel, Bytes]]:
    """What the emulator answers, by form."""
    with Device(library) as device:
        return {
            kernel.form.key: (kernel, answer)
            for module in modules(recorded_forms())
            for kernel, answer in run_module(device, module)
        }


def _same(expected: Bytes, met: Bytes, type_: str) -> npt.NDArray[np.bool_]:
    width = word_bytes(type_)
    bits = expected.view(f"u{width}") == met.view(f"u{width}")
    if type_[0] != "f":
        return bits
    return bits | (np.isnan(expected.view(f"f{width}")) & np.isnan(met.view(f"f{width}")))


def test_forms_file_is_the_table_of_the_emulator(library: str) -> None:
    assert FORMS_FILE.read_text() == listing(library)


def test_every_form_is_recorded(recording: Recording) -> None:
    forms = parse_forms(FORMS_FILE.read_text())

    assert {form.key for form in forms if form.name not in NOT_RECORDED} == set(recording.answers)


@pytest.mark.parametrize("form", recorded_forms(), ids=lambda form: f"{form.name}-{form.signature}".replace(" ", "_"))
def test_form_answers_as_silicon(form: Form, recording: Recording, emulated: dict[str, tuple[Kernel, Bytes]]) -> None:
    kernel, met = emulated[form.key]
    expected = recording.answers[form.key]

    assert recording.digests[form.key] == digest(kernel), "operands or kernel changed since the recording"
    assert recording.outputs[form.key] == kernel.outputs
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
