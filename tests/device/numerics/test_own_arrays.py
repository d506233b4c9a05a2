"""Tables and arrays of threads on a device give what the interpreter gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import TYPES, Type
from vyre_cuda.testing.edges import EDGES, from_bits


def same_bits(expected: object, found: object) -> None:
    assert isinstance(expected, np.ndarray)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(expected.view(np.uint8), found.view(np.uint8))


def lookup(array: np.ndarray) -> Program:
    b = vc.Builder("lookup", block=64)
    at = b.input("at", vc.i32)
    table = b.table("t", array)
    out = b.output("out", table.type, size=at.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = table[at[i]]
    return b.build()


@pytest.mark.parametrize("type_", [t for t in TYPES if t.name != "bf16"], ids=str)
def test_every_type_is_looked_up_bit_for_bit(device: vc.Device, type_: Type) -> None:
    program = lookup(from_bits(type_, [*EDGES[type_]]))
    at = np.arange(-2, len(EDGES[type_]) + 2, dtype=np.int32)

    same_bits(vc.evaluate(program, at), device.run(program, at))


@pytest.mark.parametrize("size", [16, 16384, 16385, 100_000])
def test_tables_of_every_size(device: vc.Device, size: int) -> None:
    array = np.random.default_rng(size).integers(0, 2**32, size, np.uint32)
    program = lookup(array)
    at = np.random.default_rng(1).integers(-5, size + 5, 1000).astype(np.int32)

    same_bits(vc.evaluate(program, at), device.run(program, at))


def test_constant_places_of_tables(device: vc.Device) -> None:
    b = vc.Builder("places", block=32)
    out = b.output("out", vc.f32, size=4)
    taps = b.table("taps", np.array([0.5, -0.0, np.inf], np.float32))
    with b.if_(vc.global_id.x == 0):
        for number in range(4):
            out[number] = taps[number]
    program = b.build()

    same_bits(vc.evaluate(program), device.run(program))


@pytest.mark.thin(4)
@pytest.mark.parametrize("type_", [t for t in TYPES if t.name not in ("bf16", "bool_")], ids=str)
@pytest.mark.parametrize("size", [3, 16, 300])
def test_each_thread_has_its_own_elements(device: vc.Device, type_: Type, size: int) -> None:
    """Elements are written at a place that depends on the thread, and all are read afterwards."""
    b = vc.Builder("own", block=64)
    x = b.input("x", vc.i32)
    out = b.output("out", type_, size=x.size)
    held = b.local("held", type_, size)
    i = b.let("i", vc.global_id.x)
    held[x[i]] = type_(i % 100)
    held[x[i] + 2] = held[x[i]] + held[0]
    total = b.var("total", type_(0))
    with b.for_(size) as j:
        total += held[j]
    with b.if_(i < out.size):
        out[i] = total
    program = b.build()
    x = np.random.default_rng(2).integers(-3, size + 3, 200).astype(np.int32)

    same_bits(vc.evaluate(program, x), device.run(program, x))


MATRICES = np.random.default_rng(3).standard_normal((3, 2, 5), dtype=np.float32)
MATRICES.flags.writeable = False


@vc.kernel
def weighed(at: vc.In[vc.i32, 2]):
    """Elements of a table of three axes, at places that may be outside, added up in a matrix of each thread."""
    out = vc.output(vc.f32, (at.shape[0], 2))
    vc.work(at.shape[0])
    sums = vc.local(vc.f32, (2, 2))
    i = vc.global_id.x
    for k in range(MATRICES.shape[2]):
        sums[at[i, 0], at[i, 1]] += MATRICES[at[i, 0], at[i, 1], k]
        sums[at[i, 1], 0] += MATRICES[1, at[i, 1], k + at[i, 0]]
    out[i, 0] = sums[0, 0] + sums[0, 1] * 2
    out[i, 1] = sums[1, 0] + sums[1, 1] * 2


@pytest.mark.thin
def test_several_axes(device: vc.Device) -> None:
    at = np.random.default_rng(4).integers(-2, 4, (500, 2)).astype(np.int32)
    expected = vc.evaluate(weighed, at)

    same_bits(expected, weighed.on(device)(at))
    same_bits(expected[:40], weighed.python(at[:40]))


@pytest.mark.parametrize("bounds", ["trap", "check"])
def test_an_index_out_of_bounds_of_an_array(own_device: vc.Device, bounds: str) -> None:
    b = vc.Builder("out_of_bounds", block=32)
    at = b.input("at", vc.i32)
    out = b.output("out", vc.i32, size=at.size)
    held = b.local("held", vc.i32, 4)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        held[at[i]] = 7
        out[i] = held[at[i]]
    kernel = own_device.compile(b.build(), bounds=bounds)
    at = np.array([0, 4, 3], np.int32)

    if bounds == "check":
        np.testing.assert_array_equal([7, 0, 7], kernel(at))
    else:
        with pytest.raises(vc.KernelAssertionError, match="out of bounds of held"):
            kernel(at)


def test_a_bundle_has_tables(device: vc.Device, tmp_path: Path) -> None:
    program = lookup(np.array([3, 1, 2], np.int64))
    at = np.array([2, 1, 0, 9], np.int32)
    vc.bundle([program], tmp_path / "a.vyre", targets=("sm_80",), cubins=False)
    bundle = vc.load_bundle(tmp_path / "a.vyre")

    same_bits(vc.evaluate(program, at), bundle.on(device)["lookup"](at))


@pytest.mark.parametrize("bundled", [False, True], ids=["compiled", "bundled"])
def test_outs_have_sizes_and_extents_of_arrays(device: vc.Device, tmp_path: Path, bundled: bool) -> None:
    b = vc.Builder("sized", block=32)
    x = b.input("x", vc.i32)
    table = b.table("table", np.arange(6, dtype=np.int32).reshape(2, 3))
    local = b.local("local", vc.i32, (3, 4))
    i = b.let("i", vc.global_id.x)
    for number, size in enumerate((table.size, table.shape[0] * 2, table.shape[1], local.size, local.shape[1])):
        out = b.output(f"out{number}", vc.i32, size=size)
        with b.if_(i < out.size):
            out[i] = x[i]
    program = b.build()
    arguments = np.arange(40, dtype=np.int32)
    vc.bundle([program], tmp_path / "a.vyre", targets=("sm_80",), cubins=False)
    kernel = vc.load_bundle(tmp_path / "a.vyre").on(device)["sized"] if bundled else device.compile(program)

    found, expected = kernel(arguments), vc.evaluate(program, arguments)

    assert [len(out) for out in found] == [6, 4, 3, 12, 4]
    for ours, right in zip(found, expected, strict=True):
        same_bits(right, ours)
