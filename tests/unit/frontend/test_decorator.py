"""What the decorator of kernel functions keeps, finds and refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .interpreted import XS, N, clamped, results


def test_programs_are_kept() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32], n: vc.const = 1):
        out = vc.output(vc.i32, 1)
        out[0] = x[0] + n * 2

    assert f.program() is f.program(n=1)
    assert f.program(n=2) is not f.program()
    assert f.program(n=True) is not f.program(n=1)
    assert f.program() == f.program(n=True)


def test_a_function_has_the_same_program_as_the_builder() -> None:
    @vc.kernel(block=64, index=vc.u32)
    def f(x: vc.In[vc.f32], a: vc.f32):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        if i < out.size:
            out[i] = a * x[i]

    b = vc.Builder("f", block=64)
    x, a = b.input("x", vc.f32), b.scalar("a", vc.f32)
    out = b.output("out", vc.f32, x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i]

    assert f.program() == b.build()


@vc.kernel
def at_module_level(x: vc.InOut[vc.i32]):
    x[0] = 1


def test_a_kernel_is_copied_and_pickled_by_its_name() -> None:
    assert copy.deepcopy(at_module_level) is at_module_level
    assert repr(at_module_level) == "<vyre_cuda.kernel at_module_level(x)>"
    assert at_module_level.__reduce__() == "at_module_level"


def test_a_captured_array_is_a_table() -> None:
    weights = np.array([3, 4, 5], np.int32)
    weights.flags.writeable = False

    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        kept = vc.local(vc.i32, 4)
        i = vc.global_id.x
        for k in range(weights.size):
            kept[k] = weights[k] * x[i]
        out[i] = kept[0] + kept[1] + kept[2] + kept[i % 4]

    assert "table weights" in f.program().text()
    assert np.array_equal(results(f, XS), XS * 12 + XS * np.array([3, 4, 5, 0])[XS % 4])


@pytest.mark.parametrize("make", [lambda: vc.barrier(), lambda: vc.output(vc.f32, 1), lambda: clamped(1, 2, 3)])
def test_what_belongs_to_a_kernel_is_refused_outside(make: Callable[[], Any]) -> None:
    with pytest.raises(vc.ProgramError, match="outside a kernel"):
        make()


def test_ids_and_counters_are_signed() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        if 0 <= i - 1 < x.size:
            out[i] = x[i - 1]

    assert f.program().index is vc.i32
    assert results(f, XS).tolist() == [0, *range(N - 1)]
