"""Six kernels written as functions: NumPy's results, with the same bits on the interpreter and the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .six_kernels import Case, cases

pytestmark = pytest.mark.device
CASES = dict(cases())


def listed(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_kernel_has_the_results_of_numpy_and_the_bits_of_the_interpreter(
    make: Callable[[], Case], device: vc.Device
) -> None:
    case = make()
    program = case.kernel.program(**case.given, **case.types)

    interpreted = listed(vc.evaluate(program, *case.arguments))
    on_device = listed(case.kernel.on(device, **case.given)(*case.arguments))

    for found, expected in zip(interpreted, case.expected, strict=True):
        np.testing.assert_allclose(found, expected, atol=case.tolerance, rtol=case.tolerance)
    assert [each.tobytes() for each in on_device] == [each.tobytes() for each in interpreted]


@pytest.mark.thin
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_kernel_as_python_has_the_bits_of_the_interpreter(make: Callable[[], Case]) -> None:
    case = make()
    interpreted = listed(vc.evaluate(case.kernel.program(**case.given, **case.types), *case.arguments))
    as_python = listed(case.kernel.python(*case.arguments, **case.given))
    assert [array.tobytes() for array in as_python] == [array.tobytes() for array in interpreted]
