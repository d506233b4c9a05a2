"""The bounds of the short forms of f32, over all arguments: the steps as C against the C library's double."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from vyre_cuda.functions import table
from vyre_cuda.functions.forms import Form
from vyre_cuda.ir.core.ops import FUNCTIONS
from vyre_cuda.ir.core.types import f32
from vyre_cuda.ir.semantics.steps import ArraySteps
from vyre_cuda.testing.accuracy import errors, exact
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.compilers import c_compiler

from .c_steps import HELPERS, function

SWEEP = Path(__file__).with_name("sweep.c").read_text(encoding="utf-8")
SHORT = [(name, form) for name in FUNCTIONS for form in table.forms(name, "f32") if form.name == "short steps"]
each_short = pytest.mark.parametrize(("name", "form"), SHORT, ids=lambda case: getattr(case, "name", str(case)))
ALL = 1 << 32
PARTS = 64

Library = Callable[[str, Form], ctypes.CDLL]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """The steps of a form and the sweep over its arguments, compiled."""

    def build(name: str, form: Form) -> ctypes.CDLL:
        source, built = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
        source.write_text(f"{HELPERS}{function('form', form)}#define oracle {name}\n{SWEEP}", encoding="utf-8")
        options = [
            "-std=gnu11",
            "-O2",
            "-march=native",
            "-ffp-contract=off",
            "-Wall",
            "-Wno-unused",
            "-shared",
            "-fPIC",
        ]
        subprocess.run([*c_compiler(), *options, source, "-o", built, "-lm"], check=True)
        opened = ctypes.CDLL(str(built))
        opened.sweep.restype = ctypes.c_double
        opened.sweep.argtypes = [ctypes.c_uint64] * 3 + [ctypes.c_void_p]
        opened.values.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_uint64]
        return opened

    return build


def largest(opened: ctypes.CDLL, first: int, end: int, step: int) -> tuple[float, float]:
    """The largest error and its argument."""
    at = ctypes.c_uint32()
    off = opened.sweep(first, end, step, ctypes.byref(at))
    return off, float(np.uint32(at.value).view(np.float32))


@pytest.mark.thin(4)
@each_short
def test_the_c_text_is_the_form(library: Library, name: str, form: Form) -> None:
    x = np.random.default_rng(3).integers(0, ALL, 1 << 16, np.uint32).view(np.float32)
    x[:1000] = np.linspace(-200, 200, 1000, dtype=np.float32)
    y = np.empty_like(x)

    library(name, form).values(x.ctypes.data, y.ctypes.data, x.size)

    with np.errstate(all="ignore"):
        assert_same(form.expand(ArraySteps(), x), y)


@pytest.mark.thin
@each_short
def test_the_c_library_is_an_oracle(library: Library, name: str, form: Form) -> None:
    """What it counts is what `vyre_cuda.testing.accuracy` counts with 64 bits."""
    opened, x = library(name, form), np.empty(1, np.float32)
    for bits in np.random.default_rng(4).integers(0, ALL, 300, np.uint64):
        x.view(np.uint32)[:] = bits
        with np.errstate(all="ignore"):
            wanted = errors(f32, exact(name, f32, [x]), np.asarray(form.expand(ArraySteps(), x)))[0]
        assert largest(opened, int(bits), int(bits) + 1, 1)[0] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.thin
@each_short
def test_short_form_is_within_its_bound(library: Library, name: str, form: Form) -> None:
    assert 1 < largest(library(name, form), 0, ALL, 997)[0] <= form.ulp


@pytest.mark.long
@pytest.mark.timeout(3600)
@each_short
def test_short_form_is_within_its_bound_for_every_argument(library: Library, name: str, form: Form) -> None:
    opened, size = library(name, form), ALL // PARTS
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda part: largest(opened, part * size, (part + 1) * size, 1), range(PARTS))

    off, argument = max(found)

    print(f"{name}: {off:.4f} ULP at {argument!r}")
    assert off <= form.ulp
