"""Many launches as one with several elements a thread: when that is launched, and that the results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.ir.core import limits
from vyre_cuda.passes import elements
from vyre_cuda.runtime.kernel.large_entry import several_of
from vyre_cuda.testing.strategies import programs_with_inputs

from .test_many_programs import RANDOM, assert_rows_agree, rows_of

BLOCK = 32
LEAST = 40 * BLOCK  # threads


@pytest.fixture
def telling(device_name: int | str, monkeypatch: pytest.MonkeyPatch) -> Iterator[vc.Device]:
    """A device whose kernel `ones` writes 2 where it has several elements a thread."""
    right = elements.several

    def planted(program: vc.Program, count: int = elements.ELEMENTS, *, sized: bool = True) -> vc.Program:
        return right(ones(2), count, sized=sized)

    monkeypatch.setattr(elements, "several", planted)
    monkeypatch.setattr(limits, "LARGE_LAUNCH", LEAST)
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    with vc.Device(device_name) as device:
        yield device


@pytest.fixture(scope="module")
def wide(device_name: int | str) -> Iterator[vc.Device]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "LARGE_LAUNCH", 1)
        patch.setenv("VYRE_CUDA_CACHE_DIR", "off")
        with vc.Device(device_name) as device:
            yield device


def ones(value: int) -> vc.Program:
    b = vc.Builder("ones", block=BLOCK)
    x = b.inout("x", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        x[i] = value
    b.work(x.size)
    return b.build()


@pytest.mark.parametrize(
    ("sizes", "written"),
    [
        ([4 * BLOCK] * 20, 2),  # blocks of each row are known
        ([BLOCK * (3 + k % 7) - k for k in range(30)], 2),  # there is a map
        ([4 * BLOCK] * 9, 1),  # few threads
        ([BLOCK] * 100, 1),  # as many blocks in any case
        ([0, 0, 8 * BLOCK, 0] * 10, 2),
        ([BLOCK + 1] * 60, 2),
        ([BLOCK * 50] * 17 + [1] * 3, 2),
    ],
)
def test_rows_of_enough_blocks_have_several_elements_a_thread(
    telling: vc.Device, sizes: list[int], written: int
) -> None:
    kernel = telling.compile(ones(1))
    launched, recorded = ([telling.zeros(n, vc.i32) for n in sizes] for _ in range(2))
    with telling.record(fuse=True) as graph:
        for x in recorded:
            kernel.launch(x)

    kernel.launch_many([(x,) for x in launched])
    graph.replay()

    for n, x, y in zip(sizes, launched, recorded, strict=True):
        np.testing.assert_array_equal(x.numpy(), np.full(n, written))
        np.testing.assert_array_equal(y.numpy(), np.full(n, written))


def test_the_form_is_compiled_when_rows_first_need_it(telling: vc.Device) -> None:
    kernel = telling.compile(ones(1))
    few, many = ([(telling.zeros(4 * BLOCK, vc.i32),) for _ in range(n)] for n in (5, 20))
    kernel.launch_many(few)
    before = telling.stats().compiles
    kernel.launch_many(few)
    assert telling.stats().compiles == before
    for _ in range(2):
        kernel.launch_many(many)
    assert telling.stats().compiles == before + 1
    assert [int(x[0]) for (x,) in (*few[:1], *many[:1])] == [1, 2]


def test_rows_on_disk_keep_the_form(cache_root: Any, device_name: int | str) -> None:
    """A later process reads the entries and their form for large launches."""
    n = limits.LARGE_LAUNCH // 16 + 5
    for compiles in (3, 0):
        with vc.Device(device_name) as device:
            kernel = device.compile(ones(7))
            rows = [(device.zeros(n, vc.i32),) for _ in range(16)]
            kernel.launch_many(rows)
            assert all(x.numpy().min() == 7 for (x,) in rows)
            assert device.stats().compiles == compiles


def test_a_given_grid_has_one_element_a_thread(telling: vc.Device) -> None:
    kernel = telling.compile(ones(1))
    arrays = [telling.zeros(4 * BLOCK, vc.i32) for _ in range(20)]

    kernel.launch_many([(x,) for x in arrays], grid=4)

    for x in arrays:
        np.testing.assert_array_equal(x.numpy(), 1)


def test_results_that_are_cleared_by_rows(wide: vc.Device) -> None:
    """The kernel that clears has several elements a thread too."""
    b = vc.Builder("thirds", block=BLOCK)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(3 * i < z.size):
        z[3 * i] = x[3 * i]
    kernel = wide.compile(b.build())
    sizes = [3000 - 71 * k for k in range(24)]
    xs = [wide.array(np.full(n, 1 + k, np.float32)) for k, n in enumerate(sizes)]
    zs = [wide.array(np.full(n, 9, np.float32)) for n in sizes]

    kernel.launch_many(list(zip(xs, zs, strict=True)))

    for k, (n, z) in enumerate(zip(sizes, zs, strict=True)):
        np.testing.assert_array_equal(z.numpy(), np.where(np.arange(n) % 3 == 0, 1 + k, 0))


@pytest.mark.parametrize("type_", [vc.u8, vc.f16, vc.i32, vc.f32], ids=str)
def test_rows_that_begin_anywhere(wide: vc.Device, type_: vc.Type) -> None:
    b = vc.Builder("twice", block=BLOCK)
    x = b.input("x", type_)
    z = b.output("z", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i] + x[i]
    kernel = wide.compile(b.build())
    assert several_of(kernel) is not None
    rng = np.random.default_rng(3)
    given_ = rng.integers(0, 100, 40000).astype(wide.zeros(1, type_).dtype)
    x, z = wide.array(given_), wide.zeros(40000, type_)
    ends = np.sort(rng.integers(0, 40000, 60)).tolist()
    ranges = [*zip([0, *ends], [*ends, 40000], strict=True)]

    kernel.launch_many([(x[a:b], z[a:b]) for a, b in ranges])

    np.testing.assert_array_equal(z.numpy(), given_ + given_)


@pytest.mark.thin
@pytest.mark.slow
@RANDOM
@given(data=st.data())
def test_rows_of_random_programs_agree(wide: vc.Device, data: st.DataObject) -> None:
    program, arguments = data.draw(programs_with_inputs())

    assert_rows_agree(wide, program, rows_of(data, wide, program, arguments))


def test_any_number_of_blocks_a_row_divides_exactly(device: vc.Device) -> None:
    """By one multiplication: each block of each row has its number."""
    b = vc.Builder("numbers", block=1)
    z = b.inout("z", vc.u32)
    b.work(z.size)
    z[vc.block_id.x] = vc.block_id.x + 1
    kernel = device.compile(b.build())
    rows: Any
    for each in (1, 2, 3, 5, 7, 31, 63, 64, 65, 127, 641, 65537):
        rows = [(device.zeros(each, vc.u32),) for _ in range(5)]
        kernel.launch_many(rows)
        for (z_,) in rows:
            np.testing.assert_array_equal(z_.numpy(), 1 + np.arange(each))
