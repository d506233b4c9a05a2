"""Programs by two ways: the reference interpreter, and the machine code that ptxas makes of our PTX.

Many programs are compiled as one file, because ptxas takes longer to start than to compile one. The text of a kernel
is the lowering's, character by character.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from disassembly import ARCHITECTURE, Kernel, compile_kernels
from float_instructions import FLOAT
from integer_instructions import INTEGER
from machine import MEMORY, PARAMETERS_AT, Fault, Form, Machine, Memory, NotExecuted
from random_programs import ELEMENTS, draw_arguments

import vyre_cuda as vc
from vyre_cuda.ir.core.program import Program

INSTRUCTIONS: dict[str, Form] = MEMORY | INTEGER | FLOAT
INPUTS = 5

SAME, DIFFERENT, NOT_EXECUTED = "same", "different", "not executed"

_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_PARAMETER = re.compile(r"\.param \.\w?(\d+) p_\d+_(\w+)")
_ENTRY = ".visible .entry"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a program; `reason` says how the first differing results differ, or what was not known."""

    state: str
    text: str
    ptx: str = field(repr=False)
    machine_code: str = field(repr=False)
    reason: str = ""


def compare(
    texts: Sequence[str],
    seed: object,
    *,
    inputs: int = INPUTS,
    elements: int = ELEMENTS,
    ptxas: Path | None = None,
    nvdisasm: Path | None = None,
) -> list[Verdict]:
    """Each program, whose names differ, on so many arguments of so many elements, which `seed` draws."""
    programs = [vc.parse(text) for text in texts]
    kernels = [vc.ptx(program, ARCHITECTURE) for program in programs]
    compiled = compile_kernels(joined(kernels), ptxas, nvdisasm)
    draws = (random.Random(f"{seed} {program.name}") for program in programs)
    return [
        _judge(text, program, ptx, compiled[f"k_{program.name}"], next(draws), inputs, elements)
        for text, program, ptx in zip(texts, programs, kernels, strict=True)
    ]


def joined(kernels: Sequence[str]) -> str:
    """One text of several, for the newest of their PTX versions."""
    versions = [tuple(map(int, match.groups())) for text in kernels for match in _VERSION.finditer(text)]
    major, minor = max(versions)
    head = kernels[0].partition(_ENTRY)[0]
    bodies = "".join(_ENTRY + text.partition(_ENTRY)[2] for text in kernels)
    return _VERSION.sub(f".version {major}.{minor}", head) + bodies


def _judge(
    text: str, program: Program, ptx: str, kernel: Kernel, rng: random.Random, inputs: int, elements: int
) -> Verdict:
    state, reason = SAME, ""
    for _ in range(inputs):
        arguments = draw_arguments(rng, program, elements)
        expected = results(program, arguments)
        try:
            got = run_kernel(kernel, ptx, program, arguments, expected)
        except NotExecuted as error:
            state, reason = NOT_EXECUTED, str(error)
            continue
        except Fault as error:
            return Verdict(DIFFERENT, text, ptx, kernel.text(), f"{_told(program, arguments)}access to {error}")
        for name, want, have in zip(_outs(program), expected, got, strict=True):
            if not is_same(want, have):
                difference = f"{name}: expected {_hexadecimal(want)}, machine code gives {_hexadecimal(have)}"
                return Verdict(DIFFERENT, text, ptx, kernel.text(), _told(program, arguments) + difference)
    return Verdict(state, text, ptx, kernel.text(), reason)


def run_kernel(
    kernel: Kernel, ptx: str, program: Program, arguments: Sequence[Any], outs: Sequence[Any], *, threads: int = 1
) -> list[Any]:
    """What the machine code leaves in each buffer that it writes; those of `outs` begin with zeros.

    `outs` has an array for each such buffer. The threads of the one block run one after the other.
    """
    memory = Memory()
    given, written = iter(arguments), iter(outs)
    words: dict[str, list[int]] = {}
    placed = []
    for parameter in program.parameters:
        value = np.zeros_like(next(written)) if parameter.kind == "out" else next(given)
        if parameter.kind == "scalar":
            words[parameter.name] = [int.from_bytes(np.asarray(value, parameter.type.dtype).tobytes(), "little")]
            continue
        if parameter.kind == "inout":
            next(written)
        address = memory.place(value.tobytes())
        words[parameter.name] = [address, len(value)]
        if parameter.is_writable:
            placed.append((address, value.dtype))
    constants = launch_constants(ptx, words)
    for thread in range(threads):
        Machine(memory, constants, thread).run(kernel, INSTRUCTIONS)
    return [np.frombuffer(bytes(memory.buffers[address]), dtype) for address, dtype in placed]


def launch_constants(ptx: str, words: dict[str, list[int]]) -> bytes:
    """Constants of the launch: each parameter of the kernel at a multiple of its size, behind the driver's own.

    `words` has what the parameters of each name are, in their order: a buffer's address, and then its length.
    """
    left = {name: list(values) for name, values in words.items()}
    constants = bytearray(PARAMETERS_AT)
    for bits, name in _PARAMETER.findall(ptx):
        size = int(bits) // 8
        constants += bytes(-len(constants) % size)
        constants += left[name].pop(0).to_bytes(size, "little")
    # Words are read as a whole, also where a parameter is shorter.
    return bytes(constants) + bytes(-len(constants) % 8)


def results(program: Program, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """What the interpreter leaves in each buffer that the program writes."""
    found = vc.evaluate(program, *arguments)
    return found if isinstance(found, tuple) else (found,)


def _outs(program: Program) -> list[str]:
    return [parameter.name for parameter in program.parameters if parameter.is_writable]


def is_same(want: Any, have: Any) -> bool:
    """Bit by bit; one NaN is as good as another."""
    if want.tobytes() == have.tobytes():
        return True
    if want.dtype.kind in "iub":
        return False
    return all(x.tobytes() == y.tobytes() or (x != x and y != y) for x, y in zip(want, have, strict=True))


def _hexadecimal(values: Any) -> str:
    array = np.atleast_1d(values)
    unsigned = array.view(f"u{array.dtype.itemsize}")
    return " ".join(f"{int(each):0{2 * array.dtype.itemsize}x}" for each in unsigned)


def _told(program: Program, arguments: Sequence[Any]) -> str:
    names = [parameter.name for parameter in program.parameters if parameter.kind != "out"]
    return "".join(f"{name} = {_hexadecimal(value)}\n" for name, value in zip(names, arguments, strict=True))
