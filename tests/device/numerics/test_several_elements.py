"""Large launches with several elements a thread give what one element a thread gives.

`wide` has a threshold of one thread, so that each launch whose grid follows from its work takes that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import vyre_cuda as vc
from vyre_cuda.ir.core import limits
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.passes import elements, eligible
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.runtime.kernel.large_entry import several_of
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.strategies import programs_using

from .edge_values import edge_values
from .several_programs import BLOCK, GROUP, branches_and_variables, neighbors, saxpy, scattered, without_guard


def sizes_of(group: int) -> tuple[int, ...]:
    around = (group - 1, group, group + 1, group + BLOCK, 2 * group - BLOCK, 2 * group - BLOCK + 1)
    return (0, 1, BLOCK, *around, 5 * group + 7)


SIZES = sizes_of(GROUP)
TYPES = (vc.bool_, vc.u8, vc.i8, vc.u16, vc.i16, vc.u32, vc.i32, vc.f16, vc.bf16, vc.f32)


@pytest.fixture(scope="module")
def wide(device_name: int | str) -> Iterator[vc.Device]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "LARGE_LAUNCH", 1)
        patch.setenv("VYRE_CUDA_CACHE_DIR", "off")
        with vc.Device(device_name) as device:
            yield device


# ---- programs --------------------------------------------------------------------------------------------------------


def work_of_a_scalar() -> vc.Program:
    b = vc.Builder("work_of_a_scalar", block=BLOCK)
    x = b.inout("x", vc.u16)
    n = b.scalar("n", vc.u32)
    x[vc.global_id.x] = x[vc.global_id.x] + 1
    b.work(n + 3)
    return b.build()


def check(device: vc.Device, program: vc.Program, *arguments: Any) -> None:
    kernel = device.compile(program)
    assert several_of(kernel) is not None
    compare(kernel, program, *arguments)


def compare(kernel: vc.Kernel, program: vc.Program, *arguments: Any) -> None:
    """On device arrays: what a kernel reads in host memory has one element a thread."""
    device = kernel.device
    wanted = vc.evaluate(program, *arguments)
    results = wanted if isinstance(wanted, tuple) else (wanted,)
    rest, sizes = list(arguments), [result.size for result in results]
    given: list[Any] = []
    written: list[vc.DeviceArray] = []
    for parameter in program.parameters:
        value = device.zeros(sizes[len(written)], parameter.type) if parameter.kind == "out" else rest.pop(0)
        given.append(device.array(value) if isinstance(value, np.ndarray) else value)
        if parameter.kind in ("out", "inout"):
            written.append(given[-1])

    kernel.launch(*given)

    for result, array in zip(results, written, strict=True):
        assert_same(result, array.numpy())


@pytest.mark.thin
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_sizes_around_a_group_of_blocks(wide: vc.Device, type_: vc.Type, size: int) -> None:
    check(wide, saxpy(type_), edge_values(type_, size), edge_values(type_, size, 1))


@pytest.mark.parametrize("index", (vc.i32, vc.u64, vc.i64), ids=str)
def test_index_types(wide: vc.Device, index: vc.Type) -> None:
    check(wide, saxpy(vc.f32, index), edge_values(vc.f32, 999), edge_values(vc.f32, 999, 1))


@pytest.mark.parametrize("size", SIZES)
def test_inputs_of_other_sizes(wide: vc.Device, size: int) -> None:
    for other in (0, 1, size // 2, size + 1):
        check(wide, saxpy(vc.i32), edge_values(vc.i32, size), edge_values(vc.i32, other, 1))


@pytest.mark.parametrize("size", SIZES)
def test_threads_of_the_last_block_behind_the_end(wide: vc.Device, size: int) -> None:
    check(wide, without_guard(), edge_values(vc.f32, size), np.arange(size + 3 * GROUP, dtype=np.int32))


@pytest.mark.parametrize("size", SIZES)
def test_neighbors(wide: vc.Device, size: int) -> None:
    check(wide, neighbors(), edge_values(vc.i32, size))


@pytest.mark.parametrize("size", SIZES)
def test_branches_variables_and_returns(wide: vc.Device, size: int) -> None:
    check(wide, branches_and_variables(), edge_values(vc.i32, size), edge_values(vc.i32, size, 1))


@pytest.mark.parametrize("size", SIZES)
def test_places_from_memory(wide: vc.Device, size: int) -> None:
    place = np.random.default_rng(size).permutation(size + 5).astype(np.uint32)
    check(wide, scattered(), place, edge_values(vc.f64, size, 1), np.ones(size))


@pytest.mark.parametrize("size", SIZES)
def test_work_of_a_scalar(wide: vc.Device, size: int) -> None:
    check(wide, work_of_a_scalar(), np.arange(size + GROUP, dtype=np.uint16), size)


# ---- neighbors -------------------------------------------------------------------------------------------------------


NARROW = (vc.bool_, vc.u8, vc.i8, vc.u16, vc.i16, vc.f16, vc.bf16)
INDEX_TYPES = (vc.u32, vc.i32, vc.u64, vc.i64)


def check_neighbors(device: vc.Device, program: vc.Program, count: int, *arguments: Any) -> None:
    several = several_of(device.compile(program))
    assert several is not None
    assert several.elements == count
    assert several.aligned
    check(device, program, *arguments)


@pytest.mark.thin
@pytest.mark.parametrize("type_", NARROW, ids=str)
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_neighbors_of_narrow_types_around_a_group_of_blocks(wide: vc.Device, type_: vc.Type, number: int) -> None:
    count = elements.NEIGHBORS[type_.itemsize]
    size = sizes_of(BLOCK * count)[number]
    for block in (BLOCK, 3):
        check_neighbors(wide, saxpy(type_, block=block), count, edge_values(type_, size), edge_values(type_, size, 1))
    check_neighbors(wide, saxpy(type_), count, edge_values(type_, size), edge_values(type_, size // 2, 1))


@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
def test_neighbors_by_every_index_type(wide: vc.Device, index: vc.Type) -> None:
    for type_, count in ((vc.u8, 16), (vc.f16, 8)):
        for size in (BLOCK * count - 1, BLOCK * count, 3 * BLOCK * count + 5):
            check_neighbors(wide, saxpy(type_, index), count, edge_values(type_, size), edge_values(type_, size, 1))


@pytest.mark.thin
@pytest.mark.parametrize("block", (BLOCK, 5, 256))
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_neighbors_of_threads_of_the_last_block_behind_the_end(wide: vc.Device, number: int, block: int) -> None:
    for type_, far, count in ((vc.u8, vc.i8, 16), (vc.f16, vc.u8, 8), (vc.u8, vc.i32, 4)):
        size = sizes_of(block * count)[number]
        rest = np.arange(size + 3 * block * count).astype(far.dtype)
        check_neighbors(wide, without_guard(type_, far, block), count, edge_values(type_, size), rest)


@pytest.mark.thin
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_branches_variables_and_returns_of_neighbors(wide: vc.Device, number: int) -> None:
    for type_ in (vc.i8, vc.u8, vc.u16):
        for index in INDEX_TYPES:
            program = branches_and_variables(type_, index)
            count = elements.count_of(prepared(program))
            size = sizes_of(BLOCK * count)[number]
            check_neighbors(wide, program, count, edge_values(type_, size), edge_values(type_, size, 1))


@pytest.mark.parametrize("type_", (vc.u8, vc.f16), ids=str)
def test_neighbors_need_no_guards(wide: vc.Device, type_: vc.Type) -> None:
    """One comparison with each size, before them."""
    found = several_of(wide.compile(saxpy(type_)))
    assert found is not None
    several = found.ptx[found.ptx.index("// vectors, if") :]
    vectors = several[: several.index("st.global.v4.b32")]

    assert vectors.count("ld.global.v4.b32") == 2
    assert "ld.global." + ("u8" if type_ is vc.u8 else "b16") not in vectors


def test_neighbors_of_stencils_stay_a_block_apart(wide: vc.Device) -> None:
    b = vc.Builder("stencil", block=BLOCK)
    x = b.input("x", vc.u8)
    out = b.output("out", vc.u8, size=x.size)
    out[vc.global_id.x] = x[vc.global_id.x] + x[vc.global_id.x + 1]
    program = b.build()
    several = several_of(wide.compile(program))

    assert several is not None
    assert several.aligned == ()
    assert several.elements == elements.ELEMENTS
    assert elements.why_apart(prepared(program)) == "it accesses other elements than its own"
    assert elements.why_apart(prepared(saxpy(vc.f32))) == "no type has fewer than four bytes"
    compare(wide.compile(program), program, edge_values(vc.u8, 1000))


def test_much_work_has_fewer_neighbors() -> None:
    counts = []
    for steps in (1, 6, 12, 40):
        b = vc.Builder("work", block=BLOCK)
        x = b.inout("x", vc.u8)
        value = x[vc.global_id.x]
        for number in range(steps):
            value = value * 3 + number
        x[vc.global_id.x] = value
        counts.append(elements.count_of(prepared(b.build())))

    assert counts == [16, 8, 4, 4]


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("op", sorted(OPS))
def test_every_op(wide: vc.Device, op: str) -> None:
    @settings(max_examples=6, deadline=None)
    @given(case=programs_using(op))
    def agrees(case: tuple[vc.Program, list[object]]) -> None:
        program, arguments = case
        compare(wide.compile(program), program, *arguments)

    agrees()


@pytest.mark.thin
@pytest.mark.parametrize("offset", range(17))
def test_views_at_every_offset(wide: vc.Device, offset: int) -> None:
    """Of one array, and of all."""
    for type_ in (vc.u8, vc.f16, vc.f32):
        x, y = edge_values(type_, 1700), edge_values(type_, 1700, 1)
        kernel = wide.compile(saxpy(type_))
        for one, two, three in ((offset,) * 3, (0, 0, offset), (offset, 0, 16), (16, offset, 0)):
            out = wide.zeros(1700, type_)
            size = 1600 - 2 * offset
            with np.errstate(all="ignore"):
                wanted = vc.evaluate(kernel.program, x[one : one + size], y[two : two + size])

            kernel.launch(wide.array(x)[one : one + size], wide.array(y)[two : two + size], out[three : three + size])

            assert_same(wanted, out.numpy()[three : three + size])
            assert not out.numpy()[:three].any()
            assert not out.numpy()[three + size :].any()


# ---- which programs --------------------------------------------------------------------------------------------------


def refused(change: Callable[[vc.Builder, Any, Any], None], **options: Any) -> str:
    b = vc.Builder("refused", **{"block": BLOCK, **options})
    x = b.inout("x", vc.i32)
    i = b.let("i", vc.global_id.x)
    change(b, x, i)
    b.work(x.size)
    with pytest.raises(eligible.Refused) as error:
        elements.several(prepared(b.build()))
    return str(error.value)


def rows_and_columns(further: int) -> vc.Program:
    """The sum of elements in rows and columns further on; equal parts of their indices are written often."""
    b = vc.Builder("rows_and_columns", block=BLOCK)
    x, w = b.input("x", vc.f32), b.scalar("w", vc.u32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        row, column = i // w, i % w
        total = x[i]
        for k in range(further):
            total = total + x[(row + k) * w + (column + k % 3)]
        out[i] = total
    return b.build()


@pytest.mark.parametrize("size", [1, GROUP - 1, 5 * GROUP + 7])
def test_equal_expressions_cost_once(wide: vc.Device, size: int) -> None:
    program = rows_and_columns(6)
    assert eligible.cost_of(prepared(program).body) > elements._MOST_COST // elements.ELEMENTS
    assert elements.why_one(prepared(program)) == ""

    x = np.arange(size, dtype=np.float32)
    for width in (0, 1, 7):
        assert_same(wide.compile(program)(x, width), vc.evaluate(program, x, width))


def test_expressions_that_differ_cost_each() -> None:
    assert "computes so much" in elements.why_one(prepared(rows_and_columns(40)))


def test_refusals() -> None:
    def loop(b: vc.Builder, x: Any, i: Any) -> None:
        with b.for_(0, x[i]) as k:
            x[i] = x[i] + k

    def shared(b: vc.Builder, x: Any, i: Any) -> None:
        tile = b.shared("tile", vc.i32, BLOCK)
        tile[vc.thread_id.x] = x[i]
        b.barrier()
        x[i] = tile[0]

    def ids(b: vc.Builder, x: Any, i: Any) -> None:
        x[i] = vc.i32(vc.block_id.x)

    def other_place(b: vc.Builder, x: Any, i: Any) -> None:
        x[i] = x[i + 1]

    def atomics(b: vc.Builder, x: Any, i: Any) -> None:
        b.atomic_add(x, 0, vc.i32(i))

    def asserted(b: vc.Builder, x: Any, i: Any) -> None:
        b.assert_(x[i] > 0, "positive")

    def table(b: vc.Builder, x: Any, i: Any) -> None:
        x[i] = b.table("t", np.arange(4, dtype=np.int32))[i % 4]

    def own(b: vc.Builder, x: Any, i: Any) -> None:
        mine = b.local("mine", vc.i32, 4)
        mine[i % 4] = x[i]
        x[i] = mine[0]

    def long(b: vc.Builder, x: Any, i: Any) -> None:
        value = x[i]
        for number in range(80):
            value = value * 3 + number
        x[i] = value

    assert refused(loop) == "it has a loop"
    assert refused(shared) == "it has shared arrays"
    assert "eight bytes" in elements.why_one(saxpy(vc.f64))
    assert refused(table) == "it has tables"
    assert refused(own) == "its threads have arrays of their own"
    assert refused(ids) == "it uses block_id"
    assert refused(other_place) == "it reads x, which it also writes, at other places than its own element"
    assert refused(atomics) == "it has an atomic"
    assert refused(asserted) == "it has an assertion"
    assert "memory does not limit its speed" in refused(long)
    assert refused(ids, block=(8, 4)) == "its blocks have more than one axis"


def test_with_traps_and_races_there_is_one_element_a_thread(device_name: int | str) -> None:
    with vc.Device(device_name) as device:
        assert several_of(device.compile(saxpy(vc.f32), bounds="trap")) is None
    if device_name == "emulator":
        with vc.Device(device_name, check="races") as device:
            assert several_of(device.compile(saxpy(vc.f32))) is None
