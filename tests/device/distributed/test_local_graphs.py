"""Collectives as steps of recorded graphs, for several devices of one process."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import vyre_cuda as vc

N = 840
CUDA_ERROR_NOT_PERMITTED = 800
BY_NCCL, IN_ONE_SHOT = 0, None  # `small` of a group


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


def _add(n: float) -> vc.Program:
    b = vc.Builder("add")
    x = b.inout("x", vc.f32)
    with b.if_(vc.global_id.x < x.size):
        x[vc.global_id.x] = x[vc.global_id.x] + n
    return b.build()


def _scale() -> vc.Program:
    b = vc.Builder("scale")
    x = b.inout("x", vc.f32)
    k = b.scalar("k", vc.f32)
    with b.if_(vc.global_id.x < x.size):
        x[vc.global_id.x] = x[vc.global_id.x] * k
    return b.build()


def _zeros(comm: vc.distributed.LocalCommunicator, n: int = N) -> list[vc.DeviceArray]:
    return [device.zeros(n, vc.f32) for device in comm.devices]


def _values(xs: list[vc.DeviceArray]) -> list[list[float]]:
    return [sorted(set(x.numpy().tolist())) for x in xs]


def _failure(use: Callable[[], object]) -> str:
    """What the error says; empty where there is none."""
    try:
        use()
    except vc.Error as error:
        return str(error)
    return ""


def test_replays_follow_the_order_of_steps_and_of_other_work(some):
    """Kernels and copies before and behind, and work between replays: whole numbers, so every sum is exact."""
    kernels = [device.compile(_add(1.0)) for device in some.devices]
    xs, copies, size = _zeros(some), _zeros(some), some.size
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

    assert _values(xs) == [[value]] * size
    assert _values(copies) == [[value - 2]] * size


def test_data_changes_between_replays(some):
    xs = _zeros(some)
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
    swapped, ring = _zeros(comm), _zeros(comm)
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
    kernels = [device.compile(_scale()) for device in comm.devices]
    xs = [device.full(N, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x, k=vc.symbol("k"))
        comm.all_reduce(xs)

    graph.replay(k=3.0)
    graph.replay(k=[1.0 + rank for rank in range(comm.size)])

    assert graph.symbols == ("k",)
    expected = 3.0 * comm.size * sum(1.0 + rank for rank in range(comm.size))
    assert _values(xs) == [[expected]] * comm.size
    with pytest.raises(TypeError, match="needs a value for k"):
        graph.replay()
    with pytest.raises(TypeError, match="no symbol j"):
        graph.replay(j=1)


def test_a_collective_ends_a_row_of_merged_steps(comm):
    kernels = [device.compile(_add(1.0)) for device in comm.devices]
    xs = _zeros(comm)
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
    assert _values(xs) == [[value]] * size
    assert "steps 1 and 2 are one kernel" in text or "steps 1 to 2 are one kernel" in text
    assert f"step 3, all_reduce of {N} f32" in text
    assert "it is a collective, which other devices take part in" in text
    assert "collective" in text.splitlines()[1]


def test_temporary_arrays_take_part(comm):
    ys = _zeros(comm)
    kernels = [device.compile(_add(1.0)) for device in comm.devices]
    with comm.record() as graph:
        temporaries = [one.temporary(N, vc.f32) for one in graph.graphs]
        for kernel, t in zip(kernels, temporaries, strict=True):
            t.fill(1.0)
            kernel.launch(t)
        comm.all_reduce(temporaries)
        for y, t in zip(ys, temporaries, strict=True):
            y.copy_from(t)

    graph.replay()

    assert _values(ys) == [[2.0 * comm.size]] * comm.size


def test_steps_without_elements_are_none(comm):
    xs, empty = _zeros(comm), [device.zeros(0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        comm.all_reduce(empty)
        for x in xs:
            x.fill(2.0)
        comm.all_reduce(xs)

    graph.replay()

    assert _values(xs) == [[2.0 * comm.size]] * comm.size


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

    assert _values(xs) == [[float(comm.size) ** 6]] * comm.size


def test_a_graph_replayed_in_a_recording_becomes_its_steps(comm):
    xs = [device.full(8, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as inner:
        comm.all_reduce(xs)
    with comm.record() as outer:
        inner.replay()
        inner.replay()

    outer.replay()

    assert _values(xs) == [[float(comm.size) ** 2]] * comm.size


def test_streams_of_a_replay(comm):
    xs = [device.full(8, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        comm.all_reduce(xs)

    graph.replay(stream=[device.stream() for device in comm.devices])

    assert _values(xs) == [[float(comm.size)]] * comm.size
    with pytest.raises(TypeError, match="list"):
        graph.replay(stream=comm.devices[0].stream())


def test_threads_of_the_callers_replay_what_was_made(comm):
    xs = [device.full(8, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        comm.all_reduce(xs)
    graph.compile()

    threads = [threading.Thread(target=one.replay) for one in graph.graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert _values(xs) == [[float(comm.size)]] * comm.size


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_recorded_is_refused_in_words(comm):
    device, first = comm.devices[0], comm.ranks[0]
    xs = _zeros(comm)

    with device.record(), pytest.raises(vc.RecordingError, match="record\\(\\) of the group instead"):
        first.all_reduce(xs[0])
    with comm.record() as graph:
        with pytest.raises(TypeError, match="Symbol; it must be a DeviceArray"):
            first.all_reduce(vc.symbol("x"))
        with pytest.raises(vc.RecordingError, match="stream of its own"):
            first.all_reduce(xs[0], stream=device.stream())
        with pytest.raises(ValueError, match="overlap"):
            first.all_reduce(xs[0][:10], out=xs[0][5:15])
        with (
            graph.graphs[0].repeat(3),
            pytest.raises(vc.RecordingError, match="inside repeat 3 times: the device cannot repeat it alone"),
        ):
            first.all_reduce(xs[0])
        with (
            graph.graphs[0].repeat(until=device.zeros(1, vc.i32)),
            pytest.raises(vc.RecordingError, match="record it for each pass, in a Python loop"),
        ):
            first.all_reduce(xs[0])


def test_devices_that_record_other_steps_are_told_before_anything_waits(comm):
    if comm.size < 2:
        return
    xs = _zeros(comm)
    with comm.record() as orders:
        comm.all_reduce(xs)
        for one, x in zip(comm.ranks[1:], xs[1:], strict=True):
            one.broadcast(x)
    with comm.record() as sizes:
        for rank, (one, x) in enumerate(zip(comm.ranks, xs, strict=True)):
            one.all_reduce(x[: 8 + (rank == 1)])
    with comm.record() as letters:
        comm.ranks[0].send(xs[0], 1)
        comm.ranks[1].recv(xs[1][:5], 0)

    for graph, words in (
        (orders, f"collective 2 of rank 0 is none, and of rank 1 broadcast of {N} f32 from rank 0"),
        (sizes, "collective 1 of rank 0 is all_reduce of 8 f32 by add, and of rank 1 all_reduce of 9 f32 by add"),
        (letters, f"rank 0 sends {N} f32 to rank 1, which receives 5 f32"),
    ):
        for use in (graph.replay, graph.compile):
            with pytest.raises(vc.CommunicationError, match=words):
                use()
    for result in comm.all_reduce([device.full(4, 1.0, vc.f32) for device in comm.devices]):
        assert result.numpy().tolist() == [float(comm.size)] * 4  # nobody waits for anything


def test_a_replay_that_needs_another_graph_is_refused(comm):
    kernels = [device.compile(_add(1.0)) for device in comm.devices]
    xs, ys = _zeros(comm), _zeros(comm)
    with comm.record() as graph:
        for kernel, x, y in zip(kernels, xs, ys, strict=True):
            kernel.launch(vc.symbol("of", default=y))
            x.fill(1.0)
        comm.all_reduce(xs)

    graph.replay()
    for refused in ([device.zeros(0, vc.f32) for device in comm.devices], xs):
        with pytest.raises(ValueError, match="made once, by all ranks together"):
            graph.replay(of=refused)
        with pytest.raises(ValueError, match="record another graph for it"):
            graph.graphs[-1].replay(of=refused[-1])
    graph.replay()

    assert _values(ys) == [[2.0]] * comm.size
    assert _values(xs) == [[float(comm.size)]] * comm.size


def test_fusing_later_and_bundles_are_refused(comm, tmp_path):
    xs = _zeros(comm)
    with comm.record() as graph:
        comm.all_reduce(xs)
    graph.replay()

    with pytest.raises(vc.RecordingError, match="made already: record it with fuse=True"):
        graph.graphs[0].fuse()
    with pytest.raises(vc.UnsupportedError, match="a bundle cannot hold collectives"):
        graph.graphs[0].export(tmp_path / "a.vyre", "a")


def test_a_worker_is_refused_beside_a_replay_unless_it_is_paused(comm):
    device, xs = comm.devices[0], [one.full(4, 1.0, vc.f32) for one in comm.devices]
    kernel = device.compile(_add(1.0))
    with comm.record() as graph:
        comm.all_reduce(xs)
    graph.replay()

    with device.worker([kernel]) as worker:
        worker.submit(kernel, np.zeros(4, np.float32)).result()
        with pytest.raises(ValueError, match="pause the worker, or close it"):
            graph.replay()
        worker.pause()
        graph.replay()
        for one in comm.devices:
            one.synchronize()
        worker.resume()

    assert _values(xs) == [[float(comm.size) ** 2]] * comm.size


@pytest.mark.emulator
def test_drivers_before_12_3_are_refused(emulator, devices):
    emulator.set("driver_version", 12020)
    words = r"CUDA 12\.3 or later; this one is for CUDA 12\.2"
    with vc.Device("emulator:0") as one, vc.distributed.local([one]) as comm:
        x = one.zeros(4, vc.f32)
        with comm.record(), pytest.raises(vc.UnsupportedError, match=words):
            comm.all_reduce([x])


# ---- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [BY_NCCL, IN_ONE_SHOT])
def test_a_communicator_that_closes_ends_its_graphs(devices, small):
    comm = vc.distributed.local(devices, small=small)
    xs = _zeros(comm, 4)
    with comm.record() as graph:
        comm.all_reduce(xs)
    with comm.record() as never_made:
        comm.all_reduce(xs)
    graph.replay()

    comm.close()  # with the replay in flight

    with pytest.raises(ValueError, match="closed"):
        graph.replay()
    with pytest.raises(ValueError, match="closed"):
        graph.graphs[0].replay()
    with pytest.raises(ValueError, match="closed"):
        never_made.replay()
    for device in devices:
        assert device.full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4


@pytest.mark.parametrize("small", [BY_NCCL, IN_ONE_SHOT])
def test_graphs_that_go_first_and_devices_that_close_first(devices, small):
    comm = vc.distributed.local(devices, small=small)
    xs = _zeros(comm, 4)
    for _ in range(3):
        with comm.record() as graph:
            comm.all_reduce(xs)
        graph.replay()
        del graph
        gc.collect()
    with comm.record() as last:
        comm.all_reduce(xs)
    last.replay()
    for device in devices:
        device.synchronize()
        device.close()
    comm.close()

    with pytest.raises((vc.DeviceUnavailableError, ValueError)):
        last.graphs[0].replay()


@pytest.mark.emulator
@pytest.mark.parametrize(("alone", "small"), [("compile", BY_NCCL), ("replay", BY_NCCL), ("replay", IN_ONE_SHOT)])
def test_what_only_one_device_does_is_ended_at_the_limit_and_all_say_why(devices, alone, small):
    with vc.distributed.local(devices[:2], small=small) as comm:
        xs = [device.zeros(4, vc.f32) for device in devices[:2]]
        with comm.record() as graph:
            comm.all_reduce(xs)
        if alone == "replay":
            graph.compile()
        else:
            graph._agree()
        for rank in comm.ranks:
            rank._watcher.limit = 0.5
        words = "the all_reduce of 4 elements, collective 1, of rank 0 has not ended"

        def act() -> None:
            getattr(graph.graphs[0], alone)()  # NCCL keeps `compile` until the other device makes its own
            xs[0].numpy()

        with pytest.raises(vc.CommunicationError, match=words if alone == "replay" else "of rank 0 has not ended"):
            act()
        for use in (graph.replay, graph.graphs[0].replay, xs[0].numpy):
            with pytest.raises(vc.CommunicationError, match="has not ended"):
                use()
    assert devices[0].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4


# ---- all or none -----------------------------------------------------------------------------------------------------


def test_what_one_device_refuses_is_launched_on_none(comm):
    kernels = [device.compile(_add(1.0)) for device in comm.devices]
    xs, ys = _zeros(comm), _zeros(comm)
    with comm.record() as graph:
        for kernel, x, y in zip(kernels, xs, ys, strict=True):
            kernel.launch(vc.symbol("of", default=y))
            kernel.launch(x)
        comm.all_reduce(xs)
    graph.replay()

    for wrong in (comm.devices[-1].zeros(0, vc.f32), xs[-1], np.zeros(N, np.float32)):
        with pytest.raises((TypeError, ValueError)):
            graph.replay(of=[*ys[:-1], wrong])

    assert _values(ys) == [[1.0]] * comm.size
    graph.replay()  # nobody waits for what was refused
    assert _values(ys) == [[2.0]] * comm.size
    assert _values(xs) == [[float(comm.size * (comm.size + 1))]] * comm.size


@pytest.mark.emulator
@pytest.mark.parametrize("depth", [1, 3])
def test_one_thread_launches_for_all_devices_while_their_queues_are_full(emulator, some, depth):
    kernels = [device.compile(_add(1.0)) for device in some.devices]
    xs = _zeros(some, 4)
    with some.record() as graph:
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x)
        some.all_reduce(xs, op="max")
    graph.replay()
    emulator.set("queue_depth", depth)

    for _ in range(20):
        graph.replay()

    assert _values(xs) == [[21.0]] * some.size


def test_many_replays_in_a_row_from_one_thread(comm):
    """More than the queues of a GPU hold, behind work that takes long."""
    count = 3000 if not comm.devices[0].properties.is_emulator else 30
    kernels = [device.compile(_add(1.0)) for device in comm.devices]
    xs, large = _zeros(comm), comm.devices[0].zeros(1 << 24 if count > 1000 else 64, vc.f32)
    with comm.record() as graph:
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x)
        kernels[0].launch(large)
        comm.all_reduce(xs, op="max")

    for _ in range(count):
        graph.replay()

    assert _values(xs) == [[float(count)]] * comm.size
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
    failures: list[BaseException] = []

    def work(graph: vc.distributed.LocalGraph, xs: list[vc.DeviceArray]) -> None:
        try:
            for _ in range(3):
                graph.replay()
                comm.all_reduce(xs, op="max")
                with comm.group():
                    comm.all_reduce(xs)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=each) for each in zip(graphs, arrays, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    for xs in arrays:
        assert _values(xs) == [[float(comm.size) ** 6]] * comm.size


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
        told = [_failure(x.numpy) for x in xs]
        words = "refused its part of graphs that are launched together (cuGraphLaunch gave"
        assert [words in text for text in told].count(True) == 1, told  # of the device which was launched
        assert "" in told
