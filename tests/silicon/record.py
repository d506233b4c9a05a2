"""Record what a driver answers to every form: `python tests/silicon/record.py libcuda.so.1`.

Writes answers.npz beside this file, or to the path given second. `--list` with the emulator's library writes
forms.txt instead. The answers name device and driver.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
from collections.abc import Iterator
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


def record(library: str | Path, forms: list[Form], path: Path) -> None:
    """Run all forms and write the answers."""
    blobs: list[Bytes] = []
    index: dict[str, list[object]] = {}
    with Device(library) as device:
        about = {"device": device.name, "driver": device.driver_version, "cases": CASES}
        for module in modules(forms):
            for kernel, answer in run_module(device, module):
                index[kernel.form.key] = [kernel.outputs, digest(kernel)]
                blobs.append(answer)
    text = json.dumps({"about": about, "forms": index})
    np.savez_compressed(path, index=np.frombuffer(text.encode(), np.uint8), answers=np.concatenate(blobs))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="libcuda.so.1, or the emulator's library")
    parser.add_argument("path", nargs="?", type=Path, default=ANSWERS_FILE)
    parser.add_argument("--list", action="store_true", help="write forms.txt from the emulator's table")
    options = parser.parse_args()
    if options.list:
        FORMS_FILE.write_text(listing(options.library))
    else:
        record(options.library, recorded_forms(), options.path)


if __name__ == "__main__":
    main()
