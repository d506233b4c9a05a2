"""Random kernel functions have the bits of the interpreter when they run as Python."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import vyre_cuda as vc

from .random_functions import RandomFunction
from .test_python import bits

COUNT = 150
EDGES = [0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan, 6e-8, 60000.0]


def module_of(folder: Path, text: str) -> ModuleType:
    path = folder / "random_kernel.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("random_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments(function: RandomFunction, seed: int) -> tuple[object, ...]:
    rng = np.random.default_rng(seed)
    one, other = (vc.f32.dtype if name is None else getattr(vc, name).dtype for name in function.types)
    floats = np.where(rng.random(7) < 0.4, rng.choice(EDGES, 7), rng.standard_normal(7) * 4).astype(one)
    limits = np.iinfo(other)
    near = rng.integers(max(limits.min, -9), 9, 7)
    integers = np.where(rng.random(7) < 0.3, rng.choice([limits.min, limits.max], 7), near).astype(other)
    return floats, integers, one.type(rng.standard_normal())


@pytest.mark.thin(66)
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_function_has_the_bits_of_the_interpreter(seed: int, tmp_path: Path) -> None:
    function = RandomFunction(seed)
    kernel = module_of(tmp_path, function.text).k
    args = arguments(function, seed)
    assert bits(kernel.python(*args)) == bits(vc.evaluate(kernel.program(), *args)), function.text
