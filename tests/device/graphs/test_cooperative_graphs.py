"""Kernels with grid barriers in recorded graphs: repeated, in loops, with symbols, in bundles, beside each other."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from ..launches.test_grid_barrier import expected, rotate

U32 = np.uint32
N = 64 * 6


def numbers(n: int = N, start: int = 0) -> np.ndarray:
    return np.arange(start, start + n, dtype=U32)


def test_replays_equal_launches(device: vc.Device) -> None:
    kernel, h = device.compile(rotate()), numbers()
    array, other = device.array(h), device.array(h)

    with device.record() as graph:
        kernel.launch(array)
        kernel.launch(array)

    for times in range(1, 4):
        graph.replay()
        kernel.launch(other)
        kernel.launch(other)
        np.testing.assert_array_equal(expected(h, 6 * times), array.numpy())
    np.testing.assert_array_equal(other.numpy(), array.numpy())


@pytest.mark.parametrize("times", [1, 3, 2500])
def test_every_repetition_begins_with_its_barrier_cleared(device: vc.Device, times: int) -> None:
    """Unrolled up to 4096 nodes, a loop on the device beyond."""
    kernel, h = device.compile(rotate(1)), numbers(128)
    array = device.array(h)

    with device.record() as graph, graph.repeat(times):
        kernel.launch(array)

    graph.replay()
    graph.replay()
    np.testing.assert_array_equal(expected(h, 2 * times), array.numpy())


def test_a_loop_that_ends_on_the_device_holds_them(device: vc.Device) -> None:
    b = vc.Builder("until_large", block=64)
    h, done = b.inout("h", vc.u32), b.inout("done", vc.u32)
    i = b.let("i", vc.global_id.x)
    value = b.let("value", h[(i + 1) % h.size])
    b.grid_barrier()
    h[i] = value + 1
    b.grid_barrier()
    with b.if_(i == 0):
        done[0] = vc.u32(h[h.size - 1] >= 1000)
    b.work(h.size)
    kernel = device.compile(b.build())
    array, done = device.zeros(N, vc.u32), device.zeros(1, vc.u32)

    with device.record() as graph:
        done.fill(0)
        with graph.repeat(until=done):
            kernel.launch(array, done)

    graph.replay()
    np.testing.assert_array_equal(np.full(N, 1000, U32), array.numpy())
    graph.replay()
    np.testing.assert_array_equal(np.full(N, 1001, U32), array.numpy())


@pytest.mark.thin
def test_symbols_change_the_grid_as_far_as_the_device_holds_it(device: vc.Device) -> None:
    kernel = device.compile(rotate())
    most = kernel.attributes.resident_blocks * device.properties.multiprocessor_count
    h = numbers()
    array, small = device.array(h), device.array(h[:128])
    large, full = device.zeros(64 * (most + 1), vc.u32), device.zeros(64 * most, vc.u32)
    with device.record() as graph:
        kernel.launch(vc.symbol("h", array))

    graph.replay(h=small)
    graph.replay(h=full)
    with pytest.raises(vc.UnsupportedError) as launched:
        kernel.launch(large)
    for use in (graph.replay, graph.update):
        with pytest.raises(vc.UnsupportedError, match=str(most)) as replayed:
            use(h=large)
        assert (str(replayed.value), replayed.value.capability) == (str(launched.value), launched.value.capability)
    graph.replay()

    np.testing.assert_array_equal(expected(h[:128]), small.numpy())
    np.testing.assert_array_equal(np.full(64 * most, 3, U32), full.numpy())
    np.testing.assert_array_equal(expected(h), array.numpy())
    assert not large.numpy().any()


def test_too_many_blocks_are_refused_where_they_are_recorded(device: vc.Device) -> None:
    kernel = device.compile(rotate())
    most = kernel.attributes.resident_blocks * device.properties.multiprocessor_count
    with pytest.raises(vc.UnsupportedError, match=str(most)), device.record():
        kernel.launch(device.zeros(64 * (most + 1), vc.u32))


@pytest.mark.thin
def test_independent_ones_run_one_behind_the_other(device: vc.Device) -> None:
    """Each may need the whole device: on branches of a graph two would wait for each other's blocks."""
    kernel = device.compile(rotate())
    most = kernel.attributes.resident_blocks * device.properties.multiprocessor_count
    h = numbers(64 * most)
    one, two, free = device.array(h), device.array(h[::-1].copy()), device.zeros(4, vc.u32)

    with device.record() as graph:
        kernel.launch(one)
        kernel.launch(two)
        free.fill(5)

    lines = graph.dot().splitlines()
    names = {line.split()[0]: line.split('label="')[1].split('"')[0] for line in lines if "label=" in line}
    first, second = (node for node, label in names.items() if label == "rotate")
    assert f"{first} -> {second};" in {line.strip() for line in lines}
    filled = next(node for node, label in names.items() if label == "fill")
    assert not any(filled in line for line in lines if "->" in line)
    for times in range(1, 4):
        graph.replay()
        np.testing.assert_array_equal(expected(h, 3 * times), one.numpy())
        np.testing.assert_array_equal(expected(h[::-1], 3 * times), two.numpy())


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["rotate", "fill", "copy", "repeat"]), st.integers(0, 2), st.integers(0, 2)), max_size=8
)


@pytest.mark.slow
@given(operations=OPERATIONS)
def test_a_replay_equals_the_steps_one_by_one(shared_device: vc.Device, operations: list[tuple[str, int, int]]) -> None:
    device, program = shared_device, rotate(1)
    kernel = device.compile(program)
    model = [numbers(128, 1000 * k) for k in range(3)]
    arrays = [device.array(array) for array in model]

    def run(todo: list[tuple[str, int, int]], graph: vc.Graph | None) -> None:
        for place, (kind, to, source) in enumerate(todo):
            if kind == "repeat":
                rest = [operation for operation in todo[place + 1 : place + 3] if operation[0] != "repeat"]
                if graph is None:
                    for _ in range(to):
                        run(rest, None)
                    continue
                with graph.repeat(to):
                    run(rest, graph)
            elif kind == "rotate" and graph is None:
                model[to] = vc.evaluate(program, model[to])
            elif kind == "rotate":
                kernel.launch(arrays[to])
            elif kind == "fill" and graph is None:
                model[to][: 32 * source] = source
            elif kind == "fill":
                arrays[to][: 32 * source].fill(source)
            elif kind == "copy" and to != source and graph is None:
                model[to] = model[source].copy()
            elif kind == "copy" and to != source:
                arrays[to].copy_from(arrays[source])

    with device.record() as graph:
        run(operations, graph)
    for _ in range(2):
        run(operations, None)
        graph.replay()

    for wanted, array in zip(model, arrays, strict=True):
        np.testing.assert_array_equal(wanted, array.numpy())


def test_a_failed_check_does_not_spoil_later_replays(device: vc.Device) -> None:
    b = vc.Builder("checked", block=64)
    h = b.inout("h", vc.u32)
    i = b.let("i", vc.global_id.x)
    with b.for_(0, 3):
        b.assert_(h[i] < 1000, "small")
        b.grid_barrier()
        h[i] = h[i] + 1
    kernel, good = device.compile(b.build()), numbers()
    bad = good.copy()
    bad[[0, 64, 200]] = 5000
    array = device.array(good)
    with device.record() as graph:
        kernel.launch(vc.symbol("h", array))

    for times in range(1, 3):
        graph.replay(h=device.array(bad))
        with pytest.raises(vc.KernelAssertionError, match="small"):
            device.synchronize()
        graph.replay()
        np.testing.assert_array_equal(good + U32(3 * times), array.numpy())


def test_streams_take_turns_with_one_graph(device: vc.Device) -> None:
    kernel, h = device.compile(rotate()), numbers()
    array = device.array(h)
    with device.record() as graph:
        kernel.launch(array)
    streams = [device.stream() for _ in range(3)]

    for i in range(12):
        graph.replay(stream=streams[i % 3])

    np.testing.assert_array_equal(expected(h, 36), array.numpy())


def test_an_array_may_become_empty_and_full_again(device: vc.Device) -> None:
    kernel, h = device.compile(rotate()), numbers()
    array = device.array(h)
    with device.record() as graph:
        kernel.launch(vc.symbol("h", array))

    graph.replay(h=array[:0])
    np.testing.assert_array_equal(h, array.numpy())
    graph.replay()
    np.testing.assert_array_equal(expected(h), array.numpy())


GRID_BARRIER = """.version 7.8
.target sm_75
.address_size 64
.visible .entry meet(.param .u64 state, .param .u64 out, .param .u32 blocks)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [state];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r0, [blocks];
    atom.acq_rel.gpu.global.add.u32 %r1, [%rd0], 1;
LOOK:
    ld.acquire.gpu.global.u32 %r2, [%rd0];
    setp.lt.u32 %p, %r2, %r0;
    @%p bra LOOK;
    mov.u32 %r3, %ctaid.x;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def test_loaded_kernels_are_cooperative_on_request(device: vc.Device) -> None:
    """Blocks that wait for all others: they must all be resident."""
    kernel = device.load(GRID_BARRIER, "meet", signature="ptr ptr u32")
    state, out = device.zeros(1, vc.u32), device.zeros(8, vc.u32)
    with device.record() as graph:
        state.fill(0)
        kernel.launch(state, out, 8, grid=8, block=1, cooperative=True)

    graph.replay()
    graph.replay()

    np.testing.assert_array_equal(np.full(8, 8), out.numpy())


def test_recorded_calls_with_host_arrays_replay(device: vc.Device) -> None:
    program, h = rotate(), numbers()
    recorded = device.compile(program).record(h)

    for start in (0, 7, 7, 100):
        given = numbers(start=start)
        np.testing.assert_array_equal(vc.evaluate(program, given), recorded.replay(given))


def test_graphs_of_bundles_hold_them(device: vc.Device, tmp_path: Path) -> None:
    kernel, h = device.compile(rotate()), numbers()
    array = device.array(h)
    with device.record() as graph, graph.repeat(2):
        kernel.launch(vc.symbol("h", array))
    graph.export(tmp_path / "rotate.vyre", "turns")

    loaded = vc.load_bundle(tmp_path / "rotate.vyre").on(device).graph("turns")
    other = device.array(h)
    loaded.replay(h=other)
    loaded.replay(h=other)

    np.testing.assert_array_equal(expected(h, 12), other.numpy())
    np.testing.assert_array_equal(h, array.numpy())


@pytest.mark.emulator
def test_nothing_is_instantiated_for_another_grid(device: vc.Device, emulator: Emulator) -> None:
    kernel = device.compile(rotate())
    array, small = device.array(numbers()), device.array(numbers(128))
    with device.record() as graph:
        kernel.launch(vc.symbol("h", array))
    before = emulator.count("cuGraphInstantiateWithFlags")

    graph.replay(h=small)
    graph.replay()

    assert emulator.count("cuGraphInstantiateWithFlags") == before
    np.testing.assert_array_equal(expected(numbers(128)), small.numpy())


@pytest.mark.thin(3)
@pytest.mark.emulator
@pytest.mark.parametrize("call", ["cuGraphKernelNodeSetAttribute", "cuGraphAddMemsetNode", "cuMemAlloc"])
def test_failing_driver_calls_are_told_and_nothing_is_leaked(emulator: Emulator, leak_check: object, call: str) -> None:
    with vc.Device("emulator") as device:
        kernel, h = device.compile(rotate()), numbers()
        array = device.array(h)
        emulator.fail(call, nth=1, result=999)
        with pytest.raises(vc.DriverError), device.record():
            kernel.launch(array)
        with device.record() as graph:
            kernel.launch(array)
        graph.replay()
        np.testing.assert_array_equal(expected(h), array.numpy())


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("call", "capability"),
    [("cuGraphKernelNodeSetAttribute", "cooperative_graph"), ("cuGraphInstantiateWithFlags", "cooperative_loop")],
)
def test_a_driver_that_does_not_take_them_is_told(
    emulator: Emulator, leak_check: object, call: str, capability: str
) -> None:
    with vc.Device("emulator") as device:
        kernel, array, never = device.compile(rotate()), device.array(numbers()), device.zeros(1, vc.u8)
        emulator.fail(call, nth=1, result=801)  # CUDA_ERROR_NOT_SUPPORTED
        with pytest.raises(vc.UnsupportedError) as caught, device.record() as graph, graph.repeat(2, until=never):
            kernel.launch(array)
        assert caught.value.capability == capability
