"""How many blocks a multiprocessor should hold: text, bytes, rules, and the directive for the compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc


def doubled(**options: Any) -> vc.Program:
    b = vc.Builder("doubled", 64, **options)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    with b.if_(vc.global_id.x < x.size):
        out[vc.global_id.x] = x[vc.global_id.x] * 2
    return b.build()


def test_text_and_bytes_can_be_read_back() -> None:
    for index in (vc.u32, vc.i64):
        program = doubled(index=index, min_blocks=12)
        assert "\nblock 64 min_blocks 12\n" in program.text()
        assert vc.parse(program.text()) == program
        assert vc.Program.from_bytes(program.to_bytes()) == program
        assert program.to_bytes()[4] == 8


def test_a_program_without_keeps_its_bytes() -> None:
    assert doubled().to_bytes() == doubled(min_blocks=0).to_bytes() != doubled(min_blocks=1).to_bytes()
    assert doubled().to_bytes()[4] == 1
    assert "min_blocks" not in doubled().text()


def test_zero_blocks_are_not_written() -> None:
    data = bytearray(doubled(min_blocks=12).to_bytes())
    data[data.index(12)] = 0
    with pytest.raises(vc.ProgramError, match="blocks of a multiprocessor"):
        vc.Program.from_bytes(bytes(data))


def test_the_compiler_is_told_and_the_result_is_the_same() -> None:
    assert ".reqntid 64, 1, 1\n.minnctapersm 12\n{" in vc.ptx(doubled(min_blocks=12))
    assert "minnctapersm" not in vc.ptx(doubled())
    assert vc.evaluate(doubled(min_blocks=12), np.arange(3, dtype=np.uint32)).tolist() == [0, 2, 4]
    with vc.Device("emulator") as device:
        assert device.compile(doubled(min_blocks=12))(np.arange(3, dtype=np.uint32)).tolist() == [0, 2, 4]


def test_another_number_of_threads_has_no_such_wish() -> None:
    b = vc.Builder("k", "auto")
    with pytest.raises(vc.ProgramError, match='block="auto" leaves that to the device'):
        vc.Builder("k", "auto", min_blocks=2)
    assert b.name == "k"
    with vc.Device("emulator") as device:
        kernel = device.compile(doubled(min_blocks=12), block=32)
    assert ".reqntid 32" in kernel.ptx
    assert "minnctapersm" not in kernel.ptx


@vc.kernel(block=64, min_blocks=12)
def squared(x: vc.In[vc.u32], out: vc.Out[vc.u32]) -> None:
    i = vc.global_id.x
    if i < out.size:
        out[i] = x[i] * x[i]


def test_kernel_functions() -> None:
    assert "block 64 min_blocks 12\n" in squared.program().text()


def test_what_is_refused() -> None:
    for number in (-1, 33):
        with pytest.raises(vc.ProgramError, match="holds up to 32 blocks"):
            doubled(min_blocks=number)
        with pytest.raises(vc.ProgramError, match="holds up to 32 blocks"):
            replace(doubled(), min_blocks=number).to_bytes()
    with pytest.raises(TypeError, match="must be an int"):
        doubled(min_blocks=True)
