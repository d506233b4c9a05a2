"""Collectives as steps of recorded graphs, for several devices of one process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc

from .local_graphs import BY_NCCL, IN_ONE_SHOT, N, add, failure, scale, values, zeros

CUDA_ERROR_NOT_PERMITTED = 800


@pytest.fixture(params=[BY_NCCL, pytest.param(IN_ONE_SHOT, marks=pytest.mark.thin)])
def comm(request: pytest.FixtureRequest, devices: list[vc.Device]) -> Iterator[vc.distributed.LocalCommunicator]:
    with vc.distributed.local(devices, small=request.param) as made:
        yield made


@pytest.fixture(
    params=[
        (2, BY_NCCL),
        (2, IN_ONE_SHOT),
        pytest.param((4, BY_NCCL), marks=pytest.mark.thin),
        pytest.param((4, IN_ONE_SHOT), marks=pytest.mark.thin),
    ]
)
def some(request: pytest.FixtureRequest, devices: list[vc.Device]) -> Iterator[vc.distributed.LocalCommunicator]:
    count, small = request.param
    with vc.distributed.local(devices[:count], small=small) as made:
        yield made


def test_replays_follow_the_order_of_steps_and_of_other_work(some):
    """Kernels and copies before and behind, and work between replays: whole numbers, so every sum is exact."""
    kernels = [device.compile(add(1.0)) for device in some.devices]
    xs, copies, size = zeros(some), zeros(some), some.size
    with some.record() as graph:
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x)
        some.all_reduce(xs)
        for kernel, x, copy in zip(kernels, xs, copies, strict=True):
            copy.copy_from(x)
            kernel.launch(x)

    value = 0.0
    for _ in range(8):
        graph.replay()
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x)
        value = (value + 1) * size + 2

    assert values(xs) == [[value]] * size
    assert values(copies) == [[value - 2]] * size


def test_data_changes_between_replays(some):
    xs = zeros(some)
    outs = [device.zeros(N, vc.f32) for device in some.devices]
    with some.record() as graph:
        some.all_reduce(xs, op="max", out=outs)
        some.broadcast(xs, root=some.size - 1)
    rng = np.random.default_rng(5)

    for _ in range(5):
        hosts = [rng.integers(-50, 50, N).astype(np.float32) for _ in xs]
        for x, host in zip(xs, hosts, strict=True):
            x.copy_from(host)
        graph.replay()
        for x, out in zip(xs, outs, strict=True):
            np.testing.assert_array_equal(np.maximum.reduce(hosts), out.numpy())
            np.testing.assert_array_equal(hosts[-1], x.numpy())


def test_every_method_is_a_step(comm):
    size, part = comm.size, N // comm.size
    hosts = [np.arange(N, dtype=np.float32) % 7 + rank for rank in range(size)]
    xs = [device.array(host) for device, host in zip(comm.devices, hosts, strict=True)]
    all_of = [device.zeros(N * size, vc.f32) for device in comm.devices]
    parts = [device.zeros(part, vc.f32) for device in comm.devices]
    swapped, ring = zeros(comm), zeros(comm)
    with comm.record() as graph:
        comm.all_gather(xs, out=all_of)
        comm.reduce_scatter(xs, out=parts)
        comm.all_to_all(xs, out=swapped)
        if size > 1:
            with comm.group():
                for rank, one in enumerate(comm.ranks):
                    one.send(xs[rank], (rank + 1) % size)
                    one.recv(ring[rank], (rank - 1) % size)
        comm.all_to_all(xs)  # in place, by a copy

    for _ in range(2):
        for x, host in zip(xs, hosts, strict=True):
            x.copy_from(host)
        graph.replay()

    for rank in range(size):
        mine = slice(rank * part, (rank + 1) * part)
        exchanged = np.concatenate([host[mine] for host in hosts])
        np.testing.assert_array_equal(np.concatenate(hosts), all_of[rank].numpy())
        np.testing.assert_array_equal(sum(hosts)[mine], parts[rank].numpy())
        np.testing.assert_array_equal(exchanged, swapped[rank].numpy())
        np.testing.assert_array_equal(exchanged, xs[rank].numpy())
        if size > 1:
            np.testing.assert_array_equal(hosts[rank - 1], ring[rank].numpy())
    assert len(graph.graphs[0]) == 6 if size > 1 else 5


def test_symbols_of_kernels_beside_a_collective(comm):
    kernels = [device.compile(scale()) for device in comm.devices]
    xs = [device.full(N, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x, k=vc.symbol("k"))
        comm.all_reduce(xs)

    graph.replay(k=3.0)
    graph.replay(k=[1.0 + rank for rank in range(comm.size)])

    assert graph.symbols == ("k",)
    expected = 3.0 * comm.size * sum(1.0 + rank for rank in range(comm.size))
    assert values(xs) == [[expected]] * comm.size
    with pytest.raises(TypeError, match="needs a value for k"):
        graph.replay()
    with pytest.raises(TypeError, match="no symbol j"):
        graph.replay(j=1)


def test_a_collective_ends_a_row_of_merged_steps(comm):
    kernels = [device.compile(add(1.0)) for device in comm.devices]
    xs = zeros(comm)
    with comm.record(fuse=True) as graph:
        for _ in range(2):
            for kernel, x in zip(kernels, xs, strict=True):
                kernel.launch(x)
                kernel.launch(x)
            comm.all_reduce(xs)

    text = graph.explain()
    graph.replay()
    graph.replay()

    value, size = 0.0, comm.size
    for _ in range(4):
        value = (value + 2) * size
    assert values(xs) == [[value]] * size
    assert "steps 1 and 2 are one kernel" in text or "steps 1 to 2 are one kernel" in text
    assert f"step 3, all_reduce of {N} f32" in text
    assert "it is a collective, which other devices take part in" in text
    assert "collective" in text.splitlines()[1]


def test_temporary_arrays_take_part(comm):
    ys = zeros(comm)
    kernels = [device.compile(add(1.0)) for device in comm.devices]
    with comm.record() as graph:
        temporaries = [one.temporary(N, vc.f32) for one in graph.graphs]
        for kernel, t in zip(kernels, temporaries, strict=True):
            t.fill(1.0)
            kernel.launch(t)
        comm.all_reduce(temporaries)
        for y, t in zip(ys, temporaries, strict=True):
            y.copy_from(t)

    graph.replay()

    assert values(ys) == [[2.0 * comm.size]] * comm.size


def test_steps_without_elements_are_none(comm):
    xs, empty = zeros(comm), [device.zeros(0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        comm.all_reduce(empty)
        for x in xs:
            x.fill(2.0)
        comm.all_reduce(xs)

    graph.replay()

    assert values(xs) == [[2.0 * comm.size]] * comm.size


def test_graphs_and_calls_take_turns_on_one_communicator(comm):
    xs = [device.full(8, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as first:
        comm.all_reduce(xs)
    with comm.record() as second:
        comm.all_reduce(xs, op="max")
        comm.all_reduce(xs)

    for _ in range(2):
        first.replay()
        comm.all_reduce(xs)
        second.replay()

    assert values(xs) == [[float(comm.size) ** 6]] * comm.size


def test_a_graph_replayed_in_a_recording_becomes_its_steps(comm):
    xs = [device.full(8, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as inner:
        comm.all_reduce(xs)
    with comm.record() as outer:
        inner.replay()
        inner.replay()

    outer.replay()

    assert values(xs) == [[float(comm.size) ** 2]] * comm.size


def test_streams_of_a_replay(comm):
    xs = [device.full(8, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        comm.all_reduce(xs)

    graph.replay(stream=[device.stream() for device in comm.devices])

    assert values(xs) == [[float(comm.size)]] * comm.size
    with pytest.raises(TypeError, match="list"):
        graph.replay(stream=comm.devices[0].stream())


def test_threads_of_the_callers_replay_what_was_made(comm):
    xs = [device.full(8, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        comm.all_reduce(xs)
    graph.compile()

    side_by_side([one.replay for one in graph.graphs])

    assert values(xs) == [[float(comm.size)]] * comm.size


# ---- all or none -----------------------------------------------------------------------------------------------------


def test_what_one_device_refuses_is_launched_on_none(comm):
    kernels = [device.compile(add(1.0)) for device in comm.devices]
    xs, ys = zeros(comm), zeros(comm)
    with comm.record() as graph:
        for kernel, x, y in zip(kernels, xs, ys, strict=True):
            kernel.launch(vc.symbol("of", default=y))
            kernel.launch(x)
        comm.all_reduce(xs)
    graph.replay()

    for wrong in (comm.devices[-1].zeros(0, vc.f32), xs[-1], np.zeros(N, np.float32)):
        with pytest.raises((TypeError, ValueError)):
            graph.replay(of=[*ys[:-1], wrong])

    assert values(ys) == [[1.0]] * comm.size
    graph.replay()  # nobody waits for what was refused
    assert values(ys) == [[2.0]] * comm.size
    assert values(xs) == [[float(comm.size * (comm.size + 1))]] * comm.size


@pytest.mark.emulator
@pytest.mark.parametrize("depth", [1, 3])
def test_one_thread_launches_for_all_devices_while_their_queues_are_full(emulator, some, depth):
    kernels = [device.compile(add(1.0)) for device in some.devices]
    xs = zeros(some, 4)
    with some.record() as graph:
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x)
        some.all_reduce(xs, op="max")
    graph.replay()
    emulator.set("queue_depth", depth)

    for _ in range(20):
        graph.replay()

    assert values(xs) == [[21.0]] * some.size


def test_many_replays_in_a_row_from_one_thread(comm):
    """More than the queues of a GPU hold, behind work that takes long."""
    count = 3000 if not comm.devices[0].properties.is_emulator else 30
    kernels = [device.compile(add(1.0)) for device in comm.devices]
    xs, large = zeros(comm), comm.devices[0].zeros(1 << 24 if count > 1000 else 64, vc.f32)
    with comm.record() as graph:
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x)
        kernels[0].launch(large)
        comm.all_reduce(xs, op="max")

    for _ in range(count):
        graph.replay()

    assert values(xs) == [[float(count)]] * comm.size
    assert set(large.numpy().tolist()) == {float(count)}


def test_threads_replay_graphs_of_one_communicator(comm):
    """Each thread has arrays of its own; all devices must run what they give in one order."""
    sizes = range(1, 5)
    arrays = [[device.full(n, 1.0, vc.f32) for device in comm.devices] for n in sizes]
    graphs = []
    for xs in arrays:
        with comm.record() as graph:
            comm.all_reduce(xs)
        graph.compile()
        graphs.append(graph)

    def work(graph: vc.distributed.LocalGraph, xs: list[vc.DeviceArray]) -> None:
        for _ in range(3):
            graph.replay()
            comm.all_reduce(xs, op="max")
            with comm.group():
                comm.all_reduce(xs)

    side_by_side([partial(work, *each) for each in zip(graphs, arrays, strict=True)])

    for xs in arrays:
        assert values(xs) == [[float(comm.size) ** 6]] * comm.size


def test_threads_make_graphs_of_one_communicator(comm):
    """NCCL takes what one device makes for the part of what another one makes at the same time."""
    sizes = range(1, 9)
    arrays = [[device.full(n, 1.0, vc.f32) for device in comm.devices] for n in sizes]
    graphs = []
    for xs in arrays:
        with comm.record() as graph:
            comm.all_reduce(xs)
        graphs.append(graph)

    side_by_side([graph.compile for graph in graphs])
    for graph in graphs:
        graph.replay()

    for xs in arrays:
        assert values(xs) == [[float(comm.size)]] * comm.size


@pytest.mark.emulator
@pytest.mark.parametrize("small", [BY_NCCL, IN_ONE_SHOT])
def test_a_launch_that_the_driver_refuses_ends_what_the_others_wait_for(emulator, devices, small):
    with vc.distributed.local(devices[:2], small=small) as comm:
        xs = [device.zeros(4, vc.f32) for device in devices[:2]]
        with comm.record() as graph:
            comm.all_reduce(xs)
        graph.replay()
        for device in comm.devices:
            device.synchronize()
        emulator.fail("cuGraphLaunch", nth=2, result=CUDA_ERROR_NOT_PERMITTED)

        with pytest.raises(vc.DriverError, match="cuGraphLaunch"):
            graph.replay()
        told = [failure(x.numpy) for x in xs]
        words = "refused its part of graphs that are launched together (cuGraphLaunch gave"
        assert [words in text for text in told].count(True) == 1, told  # of the device which was launched
        assert "" in told
