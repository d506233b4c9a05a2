"""Record what a driver answers to every form: `python tests/silicon/record.py libcuda.so.1`.

Writes answers.npz beside this file, or to the path given second. Answers that the file holds to the same question are
kept, on the same kind of device; `--all` asks again. `--list` with the emulator's library writes forms.txt instead.
The answers name device and driver.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from silicon_driver import Device
from silicon_forms import FORMS_FILE, Form, recorded_forms
from silicon_grid import CASES
from silicon_kernels import Kernel
from silicon_memory import blob
from silicon_modules import Module, modules

ANSWERS_FILE = Path(__file__).with_name("answers.npz")

Bytes = npt.NDArray[np.uint8]


def listing(library: str | Path) -> str:
    """The emulator's own list of forms."""
    function = ctypes.CDLL(str(library)).vyre_emulator_forms
    function.restype = ctypes.c_char_p
    return bytes(function()).decode()


def word_bytes(type_: str) -> int:
    """Bytes that an answer of the type takes in the file."""
    return 1 if type_ == "p" else int(type_[1:]) // 8


def _narrow(kernel: Kernel, words: npt.NDArray[np.uint64]) -> Bytes:
    """Answers at the width of their types, one result after the other."""
    rows = words.reshape(len(kernel.outputs), CASES)
    parts = [
        np.ascontiguousarray(row.view(np.uint8).reshape(CASES, 8)[:, : word_bytes(type_)]).ravel()
        for row, type_ in zip(rows, kernel.outputs, strict=True)
    ]
    return np.concatenate(parts)


def run_module(device: Device, module: Module) -> Iterator[tuple[Kernel, Bytes]]:
    """Each kernel of a module and the bytes of its answers."""
    handle = device.load(module.text)
    inputs = [kernel.operands() for kernel in module.kernels]
    input_words = sum(grid.size for grid in inputs)
    output_words = sum(len(kernel.outputs) * CASES for kernel in module.kernels)
    source, target = device.allocate(8 * input_words + 16), device.allocate(8 * output_words + 16)
    device.write(source, np.concatenate([grid.ravel() for grid in inputs]))
    at, out = source, target
    for kernel, grid in zip(module.kernels, inputs, strict=True):
        arguments = [at.to_bytes(8, "little"), out.to_bytes(8, "little")]
        if kernel.blob_bytes:
            arguments.append(blob(kernel.form.key))
        device.launch(handle, kernel.name, CASES, arguments)
        at += 8 * grid.size
        out += 8 * CASES * len(kernel.outputs)
    answers = device.read(target, output_words)
    device.free(source)
    device.free(target)
    device.unload(handle)
    begin = 0
    for kernel in module.kernels:
        end = begin + CASES * len(kernel.outputs)
        yield kernel, _narrow(kernel, answers[begin:end])
        begin = end


def digest(kernel: Kernel) -> str:
    """Of what the form was asked: the operands and the kernel's body."""
    state = hashlib.blake2b(kernel.operands().tobytes(), digest_size=8)
    state.update("\n".join(kernel.lines).encode())
    return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What one form gave: the types of its results, the digest of what was asked, the bytes."""

    outputs: list[str]
    asked: str
    data: Bytes


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of answers by form key, and what gave them."""

    device: str
    driver: int
    answers: dict[str, Answer]


def load(path: Path) -> Recording:
    """Read a file of answers. Raises ValueError when its size is not what its index says."""
    with np.load(path) as file:
        index, data = json.loads(file["index"].tobytes()), file["answers"]
    answers, begin = {}, 0
    for key, (outputs, asked) in index["forms"].items():
        end = begin + CASES * sum(word_bytes(type_) for type_ in outputs)
        answers[key] = Answer(outputs=outputs, asked=asked, data=data[begin:end])
        begin = end
    if begin != len(data):
        raise ValueError(f"{path} holds {len(data)} bytes of answers, its index says {begin}")
    return Recording(device=index["about"]["device"], driver=index["about"]["driver"], answers=answers)


def save(recording: Recording, path: Path) -> None:
    """Write a file of answers."""
    about = {"device": recording.device, "driver": recording.driver, "cases": CASES}
    forms = {key: [answer.outputs, answer.asked] for key, answer in recording.answers.items()}
    text = json.dumps({"about": about, "forms": forms})
    data = np.concatenate([answer.data for answer in recording.answers.values()])
    np.savez_compressed(path, index=np.frombuffer(text.encode(), np.uint8), answers=data)


def still_answered(forms: Sequence[Form], known: Recording) -> dict[str, Answer]:
    """The known answers whose question has not changed."""
    kernels = [kernel for module in modules(forms) for kernel in module.kernels]
    return {
        kernel.form.key: known.answers[kernel.form.key]
        for kernel in kernels
        if kernel.form.key in known.answers and known.answers[kernel.form.key].asked == digest(kernel)
    }


def record(library: str | Path, forms: list[Form], known: Recording | None) -> Recording:
    """Run the forms that `known` does not answer. Raises ValueError when it comes from another device."""
    answers = still_answered(forms, known) if known is not None else {}
    with Device(library) as device:
        if known is not None and known.device != device.name:
            raise ValueError(f"the answers are those of {known.device}, this is {device.name}: record --all")
        for module in modules([form for form in forms if form.key not in answers]):
            for kernel, data in run_module(device, module):
                answers[kernel.form.key] = Answer(outputs=kernel.outputs, asked=digest(kernel), data=data)
        in_order = {form.key: answers[form.key] for form in forms}
        return Recording(device=device.name, driver=device.driver_version, answers=in_order)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="libcuda.so.1, or the emulator's library")
    parser.add_argument("path", nargs="?", type=Path, default=ANSWERS_FILE)
    parser.add_argument("--all", action="store_true", help="ask every form, whatever the file holds")
    parser.add_argument("--list", action="store_true", help="write forms.txt from the emulator's table")
    options = parser.parse_args()
    if options.list:
        FORMS_FILE.write_text(listing(options.library))
    else:
        known = None if options.all or not options.path.exists() else load(options.path)
        save(record(options.library, recorded_forms(), known), options.path)


if __name__ == "__main__":
    main()
