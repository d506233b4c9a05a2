"""Recorded collectives of several devices: what is refused, and how graphs, communicators and devices end."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc

from .local_graphs import BY_NCCL, IN_ONE_SHOT, N, add, values, zeros


@pytest.fixture(params=[BY_NCCL, pytest.param(IN_ONE_SHOT, marks=pytest.mark.thin)])
def comm(request: pytest.FixtureRequest, devices: list[vc.Device]) -> Iterator[vc.distributed.LocalCommunicator]:
    with vc.distributed.local(devices, small=request.param) as made:
        yield made


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_recorded_is_refused_in_words(comm):
    device, first = comm.devices[0], comm.ranks[0]
    xs = zeros(comm)

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


@pytest.mark.ranks(2)
def test_devices_that_record_other_steps_are_told_before_anything_waits(comm):
    xs = zeros(comm)
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
    kernels = [device.compile(add(1.0)) for device in comm.devices]
    xs, ys = zeros(comm), zeros(comm)
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

    assert values(ys) == [[2.0]] * comm.size
    assert values(xs) == [[float(comm.size)]] * comm.size


def test_fusing_later_and_bundles_are_refused(comm, tmp_path):
    xs = zeros(comm)
    with comm.record() as graph:
        comm.all_reduce(xs)
    graph.replay()

    with pytest.raises(vc.RecordingError, match="already been made: record it with fuse=True"):
        graph.graphs[0].fuse()
    with pytest.raises(vc.UnsupportedError, match="a bundle cannot hold collectives"):
        graph.graphs[0].export(tmp_path / "a.vyre", "a")


def test_a_worker_is_refused_beside_a_replay_unless_it_is_paused(comm):
    device, xs = comm.devices[0], [one.full(4, 1.0, vc.f32) for one in comm.devices]
    kernel = device.compile(add(1.0))
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

    assert values(xs) == [[float(comm.size) ** 2]] * comm.size


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
    xs = zeros(comm, 4)
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
    xs = zeros(comm, 4)
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
            rank._watcher.limit = 0.1
        words = "the all_reduce of 4 f32 by add, collective 1, of rank 0 has not ended"

        def act() -> None:
            getattr(graph.graphs[0], alone)()  # NCCL keeps `compile` until the other device makes its own
            xs[0].numpy()

        with pytest.raises(vc.CommunicationError, match=words if alone == "replay" else "of rank 0 has not ended"):
            act()
        for use in (graph.replay, graph.graphs[0].replay, xs[0].numpy):
            with pytest.raises(vc.CommunicationError, match="has not ended"):
                use()
    assert devices[0].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4
