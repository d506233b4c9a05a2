"""print(...) in kernel functions: what Python knows is text, the rest is printed by the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

SCALE = 3


def printed(kernel: Any, capsys: pytest.CaptureFixture[str], *arguments: Any) -> list[str]:
    capsys.readouterr()
    vc.evaluate(kernel, np.array([1.5, -2.0], np.float32), *arguments)
    return capsys.readouterr().out.splitlines()


def test_values_and_texts_are_separated_by_a_blank(capsys: pytest.CaptureFixture[str]) -> None:
    @vc.kernel(block=2)
    def f(x: vc.InOut[vc.f32]) -> None:
        i = vc.global_id.x
        print("x[", i, "] = {", x[i], SCALE, 0.5, True, None)

    assert printed(f, capsys) == ["x[ 0 ] = { 1.5 3 0.5 True None", "x[ 1 ] = { -2 3 0.5 True None"]


def test_sep_is_between_them(capsys: pytest.CaptureFixture[str]) -> None:
    @vc.kernel(block=2)
    def f(x: vc.InOut[vc.f32]) -> None:
        i = vc.global_id.x
        print(i, x[i], i + 1, sep=", {}")
        print(sep="")

    assert printed(f, capsys) == ["0, {}1.5, {}1", "", "1, {}-2, {}2", ""]


def test_an_f_string_prints_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    @vc.kernel(block=2)
    def f(x: vc.InOut[vc.f32], n: vc.const) -> None:
        i = vc.global_id.x
        total = x[i]
        total += 1.0
        print(f"{i}: {total} of {n:03d} {{}} {n!r:>4}", f"{n}")

    assert printed(f.program(n=7), capsys) == ["0: 2.5 of 007 {}    7 7", "1: -1 of 007 {}    7 7"]


def test_a_print_in_a_branch_is_of_its_threads(capsys: pytest.CaptureFixture[str]) -> None:
    @vc.func
    def tell(value: Any) -> None:
        if value < 0.0:
            print("negative", value)

    @vc.kernel(block=2)
    def f(x: vc.InOut[vc.f32]) -> None:
        tell(x[vc.global_id.x])

    assert printed(f, capsys) == ["negative -2"]


def test_as_python_print_is_pythons(capsys: pytest.CaptureFixture[str]) -> None:
    @vc.kernel(block=2)
    def f(x: vc.InOut[vc.f32]) -> None:
        i = vc.global_id.x
        print("x", x[i], i == 0, f"x is {x[i]}")

    f.python(np.array([1.5, -2.0], np.float32))

    assert capsys.readouterr().out.splitlines() == ["x 1.5 True x is 1.5", "x -2.0 False x is -2.0"]


def test_an_operand_that_prints_is_refused() -> None:
    @vc.func
    def loud(value: Any) -> Any:
        print(value)
        return value > 0.0

    @vc.kernel(block=2)
    def f(x: vc.InOut[vc.f32]) -> None:
        if x[0] < 1.0 and loud(x[1]):
            x[0] = 1.0

    with pytest.raises(vc.ProgramError, match="operand of `and` has an effect"):
        f.program()
