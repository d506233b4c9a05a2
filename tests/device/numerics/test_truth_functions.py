"""What two truth values decide in two steps: every pair of operations, with every negation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import vyre_cuda as vc

X = np.array([0, 0, 1, 1], bool)
Y = np.array([0, 1, 0, 1], bool)
OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def _negated(value: str, negates: bool) -> str:
    return f"logical_not({value})" if negates else value


@pytest.mark.parametrize("inner", OPERATIONS)
@pytest.mark.parametrize("outer", OPERATIONS)
def test_two_steps(device: vc.Device, outer: str, inner: str) -> None:
    lines, expected = [], []
    for negates in product((False, True), repeat=4):
        left, right, again, whole = negates
        step = _negated(f"{inner}({_negated('p', left)}, {_negated('q', right)})", whole)
        value = OPERATIONS[inner](X ^ left, Y ^ right) ^ whole
        for name, other in (("p", X), ("q", Y), ("logical_and(p, q)", X & Y), ("logical_or(p, q)", X | Y)):
            lines.append(f"store a[add(i, u32:{4 * len(lines)})], {outer}({_negated(name, again)}, {step})")
            expected.append(OPERATIONS[outer](other ^ again, value))
    program = vc.parse(
        "program steps\nblock 1\nindex u32\nwork u32:4\nin x: bool_\nin y: bool_\n"
        f"out a: bool_[u32:{4 * len(lines)}]\n\n"
        "let i = global_id.x\nlet p = load(x[i])\nlet q = load(y[i])\n" + "\n".join(lines) + "\n"
    )
    found = device.compile(program)(X, Y).reshape(-1, 4)
    for line, want, got in zip(lines, expected, found, strict=True):
        assert np.array_equal(want, got), line
