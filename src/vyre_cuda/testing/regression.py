"""A program with the arguments on which two ways to run it disagreed, as one file of program text.

The arguments are comments of the text: a line `# NAME = BITS ...` for each parameter but the outs, bit patterns in
hexadecimal, behind the shape (`2x3:`) of arrays with several axes, so that anything that reads program text can read
the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.read.parse import parse
from vyre_cuda.testing.edges import from_bits

_OPTIONS = "options"


def save(path: Path, program: Program, arguments: Sequence[Any], **options: str) -> None:
    """Write the program and its arguments, in declared order; `options` are those of `Device.compile`."""
    lines = [f"# {_OPTIONS}: {' '.join(f'{name}={value}' for name, value in options.items())}".rstrip()]
    lines += [
        f"# {parameter.name} = {' '.join(_hexadecimal(parameter, value))}".rstrip()
        for parameter, value in zip(_given(program), arguments, strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n" + program.text(), encoding="utf-8")


def load(path: Path) -> tuple[Program, list[Any], dict[str, str]]:
    """The program, its arguments and its options. ValueError if the file does not have all arguments."""
    text = path.read_text(encoding="utf-8")
    program = parse(text)
    comments = [line[2:] for line in text.splitlines() if line.startswith("# ")]
    given = dict(comment.split(" =", 1) for comment in comments if " =" in comment)
    named = next((comment for comment in comments if comment.startswith(f"{_OPTIONS}:")), f"{_OPTIONS}:")
    options = dict(word.split("=", 1) for word in named.partition(":")[2].split())
    missing = [parameter.name for parameter in _given(program) if parameter.name not in given]
    if missing:
        raise ValueError(f"{path.name} has no value of {', '.join(missing)}")
    return program, [_value(parameter, given[parameter.name]) for parameter in _given(program)], options


def _given(program: Program) -> list[Parameter]:
    return [parameter for parameter in program.parameters if parameter.kind != "out"]


def _hexadecimal(parameter: Parameter, value: Any) -> list[str]:
    type_ = parameter.type
    array: npt.NDArray[Any] = np.atleast_1d(np.asarray(value, type_.dtype))
    bits = np.ascontiguousarray(array).reshape(-1).view(type_.unsigned)
    shape = ["x".join(map(str, array.shape)) + ":"] if array.ndim > 1 else []
    return shape + [f"{int(pattern):0{2 * type_.itemsize}x}" for pattern in bits]


def _value(parameter: Parameter, text: str) -> Any:
    words = text.split()
    shape = words.pop(0)[:-1].split("x") if words and words[0].endswith(":") else ["-1"]
    array = from_bits(parameter.type, [int(word, 16) for word in words]).reshape([int(n) for n in shape])
    return array[0] if parameter.kind == "scalar" else array
