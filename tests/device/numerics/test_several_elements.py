"""Large launches with several elements a thread give what one element a thread gives.

`wide` has a threshold of one thread, so that each launch whose grid follows from its work takes that form.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import vyre_cuda as vc
from vyre_cuda.codegen import several as codegen_several
from vyre_cuda.codegen.core.lowered import Several
from vyre_cuda.descriptors import stored
from vyre_cuda.ir.core import limits
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.passes import elements, eligible
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.runtime.kernel.large_entry import several_of
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.edges import EDGES, from_bits
from vyre_cuda.testing.strategies import programs_using

BLOCK = 32
GROUP = BLOCK * elements.ELEMENTS


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


def edge_values(type_: vc.Type, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    drawn = np.random.default_rng(seed).choice(np.array(EDGES[type_], object), count)
    return from_bits(type_, [int(bits) for bits in drawn])


# ---- programs --------------------------------------------------------------------------------------------------------


def saxpy(type_: vc.Type, index: vc.Type = vc.u32, block: int = BLOCK) -> vc.Program:
    b = vc.Builder("saxpy", block=block, index=index)
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = y[i] if type_ is vc.bool_ else x[i] + y[i]
    return b.build()


def without_guard(type_: vc.Type = vc.f32, of_far: vc.Type = vc.i32, block: int = BLOCK) -> vc.Program:
    """Threads behind the end still read and write `far`, which is longer, and in bounds for them."""
    b = vc.Builder("without_guard", block=block)
    x = b.input("x", type_)
    far = b.inout("far", of_far)
    b.output("out", type_, size=x.size)[vc.global_id.x] = x[vc.global_id.x]
    far[vc.global_id.x] = far[vc.global_id.x] * 3 + 1
    b.work(x.size)
    return b.build()


def neighbors() -> vc.Program:
    b = vc.Builder("neighbors", block=BLOCK, index=vc.i32)
    x = b.input("x", vc.i32)
    out = b.output("out", vc.i32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_((i > 0) & (i < out.size - 1)):
        out[i] = x[i - 1] - 2 * x[i] + x[i + 1]
    return b.build()


def branches_and_variables(type_: vc.Type = vc.i32, index: vc.Type = vc.u32) -> vc.Program:
    b = vc.Builder("branches", block=BLOCK, index=index)
    x = b.input("x", type_)
    state = b.inout("state", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i >= out.size):
        b.return_()
    value = b.var("value", x[i])
    with b.if_(value % 3 == 0):
        value.set(value + state[i])
        state[i] = value
    with b.else_():
        twice = b.let("twice", value * 2)
        out[i] = twice
        value.set(twice - 1)
    out[i] = value + state[i]
    state[i] = state[i] ^ value
    return b.build()


def scattered() -> vc.Program:
    b = vc.Builder("scattered", block=BLOCK)
    place = b.input("place", vc.u32)
    x = b.input("x", vc.f64)
    out = b.inout("out", vc.f64)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < place.size):
        out[place[i]] = x[place[i]] * 2.0
    b.work(place.size)
    return b.build()


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
    assert "memory is not what takes its time" in refused(long)
    assert refused(ids, block=(8, 4)) == "its blocks have more than one axis"


def test_with_traps_and_races_there_is_one_element_a_thread(device_name: int | str) -> None:
    with vc.Device(device_name) as device:
        assert several_of(device.compile(saxpy(vc.f32), bounds="trap")) is None
    if device_name == "emulator":
        with vc.Device(device_name, check="races") as device:
            assert several_of(device.compile(saxpy(vc.f32))) is None


# ---- which launches --------------------------------------------------------------------------------------------------


@pytest.fixture
def telling(device_name: int | str, monkeypatch: pytest.MonkeyPatch) -> Iterator[vc.Device]:
    """A device whose kernel `ones` writes 2 where it has several elements a thread."""
    right = elements.several

    def planted(program: vc.Program, count: int = elements.ELEMENTS, *, sized: bool = True) -> vc.Program:
        return right(ones(2), count, sized=sized)

    monkeypatch.setattr(elements, "several", planted)
    monkeypatch.setattr(limits, "LARGE_LAUNCH", 10 * BLOCK)
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    with vc.Device(device_name) as device:
        yield device


def ones(value: int) -> vc.Program:
    b = vc.Builder("ones", block=BLOCK)
    n = b.scalar("n", vc.u32)
    x = b.inout("x", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < n):
        x[i] = value
    b.work(n)
    return b.build()


MANY, FEW = 10 * BLOCK - BLOCK + 1, 9 * BLOCK
LARGE = 1 << 18  # elements of an array that is copied to the device


def test_calls_and_launches(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    out, result = np.zeros(LARGE, np.int32), np.zeros(LARGE, np.int32)
    on_device = telling.zeros(MANY, vc.i32)

    for n, value in ((FEW, 1), (MANY, 2), (FEW, 1)):
        assert (k(n, out, out=result)[:n] == value).all()
        assert (k.submit(n, out, out=result).result()[:n] == value).all()
        assert (k(n, out[:MANY])[:n] == 1).all()  # in the host's memory
        for _ in range(3):
            k.launch(n, on_device)
            assert (on_device.numpy()[:n] == value).all()
        stream = telling.stream()
        k.launch(n, on_device, stream=stream)
        stream.synchronize()
        assert (on_device.numpy()[:n] == value).all()


def test_a_given_grid_is_launched_as_it_is(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)

    assert (k(MANY, np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32), grid=100)[:MANY] == 1).all()
    assert (k(n=MANY, x=np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32), grid=100)[:MANY] == 1).all()
    k.launch(MANY, on_device, grid=(100,))
    assert (on_device.numpy() == 1).all()
    k.bind(MANY, on_device, grid=100)()
    assert (on_device.numpy() == 1).all()


def test_arguments_by_name(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)

    assert (k(n=MANY, x=np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32))[:MANY] == 2).all()
    k.launch(n=MANY, x=on_device)
    assert (on_device.numpy() == 2).all()


def test_bound_calls_take_the_form_of_their_arguments(telling: vc.Device) -> None:
    on_device = telling.zeros(MANY, vc.i32)
    call = telling.compile(ones(1)).bind(FEW, on_device)

    for n, value in ((FEW, 1), (MANY, 2), (MANY, 2), (FEW, 1), (MANY, 2)):
        call(n, on_device)
        assert (on_device.numpy()[:n] == value).all()
        call()
        assert (on_device.numpy()[:n] == value).all()


def test_recorded_calls(telling: vc.Device) -> None:
    k = telling.compile(ones(1))

    for n in (FEW, MANY):
        assert (k.record(n, np.zeros(MANY, np.int32)).replay()[:n] == 1).all()  # in page-locked memory


def test_graphs_take_the_form_of_their_symbols(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)
    with telling.record() as graph:
        k.launch(vc.symbol("n", FEW), on_device)

    for n, value in ((FEW, 1), (MANY, 2), (FEW, 1), (MANY, 2)):
        graph.replay(n=n)
        assert (on_device.numpy()[:n] == value).all()
        on_device.fill(0)
        graph.update(n=n)
        graph.replay()
        assert (on_device.numpy()[:n] == value).all()


def test_iterations(telling: vc.Device) -> None:
    k = telling.compile(ones(1))

    assert (k(MANY, np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32), iterations=3)[:MANY] == 2).all()


def test_kernels_on_disk_keep_the_form(cache_root: Any, device_name: int | str) -> None:
    """A later process reads the entry, as it reads the kernel, and what it knows of kernels without one."""
    x = edge_values(vc.f32, 3 * limits.LARGE_LAUNCH // 2 + 1)
    far = np.zeros(limits.LARGE_LAUNCH, np.float64)
    found = []
    for compiles in (3, 0):
        with vc.Device(device_name) as device:
            kernel = device.compile(saxpy(vc.f32, block=256))
            assert_same(vc.evaluate(kernel.program, x, x), kernel(x, x))
            assert device.compile(saxpy(vc.f64)).several is None
            device.compile(saxpy(vc.f64))(far, far)
            found.append((kernel.several, several_of(device.compile(saxpy(vc.f64)))))
            assert device.stats().compiles == compiles

    assert found[0] == found[1]
    assert found[0][0] is not None
    assert found[0][1] is None


def test_a_damaged_file_is_written_again(cache_root: Any, device_name: int | str) -> None:
    with vc.Device(device_name) as device:
        wanted = several_of(device.compile(saxpy(vc.f32)))
    with pytest.MonkeyPatch.context() as patch, vc.Device(device_name) as device:
        kernel = device.compile(saxpy(vc.f32))
        patch.setattr(stored, "decode_several", lambda *_: int("no number"))
        assert several_of(kernel) == wanted
        assert device.stats().compiles == 1
    with vc.Device(device_name) as device:
        assert several_of(device.compile(saxpy(vc.f32))) == wanted
        assert device.stats().compiles == 0


# ---- when it is compiled ---------------------------------------------------------------------------------------------


def test_small_launches_compile_nothing_more(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)
    k.launch(FEW, on_device)
    k(FEW, np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32))
    k.launch(MANY, on_device, grid=100)  # the caller's own grid is not large
    call = k.bind(FEW, on_device)
    call()
    assert (k.several, telling.stats().compiles) == (None, 1)

    call(MANY, on_device)
    assert (on_device.numpy() == 2).all()
    assert k.several is not None
    for _ in range(3):
        k.launch(MANY, on_device)
    assert telling.stats().compiles == 2


@pytest.mark.parametrize("way", ("call", "submit", "timed", "launch", "bind", "graph", "by name", "iterations", "many"))
def test_the_first_large_launch_has_the_form(telling: vc.Device, way: str) -> None:
    """By each way of its own, as what comes later finds it compiled."""
    k = telling.compile(ones(1))
    on_device, host, out = telling.zeros(MANY, vc.i32), np.zeros(LARGE, np.int32), np.zeros(LARGE, np.int32)
    match way:
        case "call":
            k(MANY, host, out=out)
        case "submit":
            k.submit(MANY, host, out=out).result()
        case "timed":
            k.timed(MANY, host, out=out)
        case "launch":
            k.launch(MANY, on_device)
        case "bind":
            k.bind(MANY, on_device)()
        case "graph":
            with telling.record() as graph:
                k.launch(MANY, on_device)
            graph.replay()
        case "by name":
            k.launch(x=on_device, n=MANY)
        case "iterations":
            k(MANY, host, out=out, iterations=2)
        case _:
            k.launch_many([(MANY, on_device), (MANY, telling.zeros(MANY, vc.i32))])
    written = out if way in ("call", "submit", "timed", "iterations") else on_device.numpy()

    assert (written[:MANY] == 2).all()


def test_a_graph_whose_symbol_makes_a_launch_large(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)
    with telling.record() as graph:
        k.launch(vc.symbol("n", FEW), on_device)
    graph.replay()
    assert k.several is None

    graph.replay(n=MANY)
    assert (on_device.numpy() == 2).all()


def test_a_warmup_leaves_nothing_to_compile(telling: vc.Device) -> None:
    (k,) = telling.warmup([ones(1)])
    assert telling.stats().compiles == 2

    on_device = telling.zeros(MANY, vc.i32)
    k.launch(MANY, on_device)
    assert (on_device.numpy() == 2).all()
    assert telling.stats().compiles == 2


def test_threads_that_launch_first_share_the_entry(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    arrays = [telling.zeros(MANY, vc.i32) for _ in range(8)]
    begin = threading.Barrier(len(arrays))

    def launch(array: vc.DeviceArray) -> None:
        begin.wait()
        k.launch(MANY, array)

    with ThreadPoolExecutor(len(arrays)) as pool:
        list(pool.map(launch, arrays))

    assert all((array.numpy() == 2).all() for array in arrays)
    assert telling.stats().compiles == 2


def test_a_failure_is_that_of_the_launch_and_the_next_one_tries_again(
    telling: vc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)
    with monkeypatch.context() as patch:
        patch.setattr(codegen_several, "lowered", lambda *_, **__: Several("no PTX", "k_ones_several", 4, 1))
        with pytest.raises(vc.CompileError):
            k.launch(MANY, on_device)
    assert (on_device.numpy() == 0).all()
    k.launch(FEW, on_device)
    assert (on_device.numpy()[:FEW] == 1).all()

    k.launch(MANY, on_device)
    assert (on_device.numpy() == 2).all()


def test_kernels_that_keep_one_element_are_plain_after_the_first_large_launch(telling: vc.Device) -> None:
    program = saxpy(vc.f64, block=BLOCK)
    kernel = telling.compile(program)
    x, y = np.arange(MANY, dtype=np.float64), np.ones(MANY)
    assert kernel.large_from != 0
    for _ in range(2):
        assert_same(vc.evaluate(program, x, y), kernel(x, y))

    assert (kernel.large_from, kernel.several) == (0, None)
    assert telling.stats().compiles == 1


@pytest.mark.parametrize("bounds", ("check", "off"))
def test_a_kernel_has_the_parameters_of_its_form(device_name: int | str, bounds: str) -> None:
    """Sizes that only the form reads, too."""
    for program in (saxpy(vc.f32), saxpy(vc.u8), without_guard(), neighbors(), branches_and_variables(), scattered()):
        with vc.Device(device_name) as device:
            assert several_of(device.compile(program, bounds=bounds)) is not None
