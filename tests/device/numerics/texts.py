"""Programs written as text, run by interpreter and device against values that are written out."""

from __future__ import annotations

from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.ir.core.types import by_dtype
from vyre_cuda.testing.compare import assert_same

GLOBAL_ID = "let i = global_id.x\n"


def u32s(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def i32s(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def f32s(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def expect(device: vc.Device, text: str, arguments: list[Any], expected: Any) -> None:
    """The program of this text gives these arrays, or this one, on interpreter and device."""
    program = vc.parse(f"program p\n{text}")

    assert_same(expected, vc.evaluate(program, *arguments))
    assert_same(expected, device.run(program, *arguments))


def one_op(
    device: vc.Device, expression: str, x: np.ndarray, expected: np.ndarray, y: np.ndarray | None = None
) -> None:
    """out[i] = the expression of x and y, element by element."""
    columns = [x] if y is None else [x, y]
    types = [by_dtype(column.dtype) for column in columns]
    header = "".join(f"in {name}: {type_}\n" for name, type_ in zip("ab", types, strict=False))
    read = "".join(f"let {local} = load({name}[i])\n" for local, name in zip("xy", "ab"[: len(columns)], strict=False))
    result = by_dtype(expected.dtype)
    body = f"if less(i, size(a))\n{read}store out[i], {expression}\nend\n"
    expect(device, f"block 32\n{header}out out: {result}[size(a)]\n{GLOBAL_ID}{body}", columns, expected)
