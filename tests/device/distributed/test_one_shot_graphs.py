"""Small all-reduces in recorded graphs: kernels that write into each other's memory, as nodes of a graph."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.distributed.one_shot_program import BYTES_OF_BLOCK, THREADS, mark_of, one_shot_program, words_of

SMALL = 1 << 12
N = SMALL // 4


def _put(comm: vc.distributed.LocalCommunicator, hosts: list[np.ndarray]) -> list[vc.DeviceArray]:
    return [device.array(host) for device, host in zip(comm.devices, hosts, strict=True)]


def test_graphs_calls_and_streams_in_turn_count_on(pair):
    """The number of a call stands in device memory, so a replay, another graph's and a call follow each other, each on
    a stream of its own, in any number of blocks."""
    rng = np.random.default_rng(3)
    hosts = [rng.integers(-9, 9, N).astype(np.int32) for _ in range(2)]
    xs = _put(pair, hosts)
    graphs = []
    for size in (N, 5, 700):
        with pair.record() as graph:
            pair.all_reduce([x[:size] for x in xs])
            pair.all_reduce([x[size // 2 : size] for x in xs], op="max")
        graphs.append((size, graph))
    streams = [[None, device.stream(), device.stream()] for device in pair.devices]

    for turn in range(16):
        size, graph = graphs[rng.integers(3)]
        graph.replay(stream=[each[rng.integers(3)] for each in streams])
        pair.all_reduce([x[:40] for x in xs], op="min")
        for part, combine in ((slice(size), np.add), (slice(40), np.minimum)):
            both = combine(hosts[0][part], hosts[1][part])
            for host in hosts:
                host[part] = both
        if turn % 8 == 7:
            for device in pair.devices:
                device.synchronize()
            for x, host in zip(xs, hosts, strict=True):
                np.testing.assert_array_equal(host, x.numpy())
            hosts = [rng.integers(-9, 9, N).astype(np.int32) for _ in range(2)]
            for x, host in zip(xs, hosts, strict=True):
                x.copy_from(host)


def test_small_and_large_ones_keep_their_order(pair):
    """What NCCL does and what it does not, in rows and in groups."""
    small, large = (_put(pair, [np.full(n, rank + 1, np.int64) for rank in range(2)]) for n in (8, SMALL))
    with pair.record() as graph:
        for _ in range(2):
            pair.all_reduce(small)
            with pair.group():
                pair.all_reduce(large)
                pair.all_reduce(small, op="max")
                pair.all_reduce([x[:8] for x in large], out=small, op="min")
            pair.broadcast(small, root=1)

    graph.replay()
    graph.replay()

    value = 3
    for number in range(4):
        value = 3 if number == 0 else 2 * value
    assert [set(x.numpy().tolist()) for x in large] == [{value}] * 2
    assert len({tuple(x.numpy().tolist()) for x in small}) == 1


def test_such_a_graph_needs_no_launch_of_another_thread(pair):
    """One thread launches for both devices, in either order: no launch waits for another one."""
    xs = _put(pair, [np.full(8, rank + 1, np.int32) for rank in range(2)])
    with pair.record() as graph:
        pair.all_reduce(xs)
    graph.compile()

    for order in ((0, 1), (1, 0)):
        for rank in order:
            graph.graphs[rank].replay()

    assert [x.numpy().tolist() for x in xs] == [[6] * 8] * 2


@pytest.mark.emulator
def test_a_device_that_leaves_is_told_to_those_whose_replay_waits_for_it(devices):
    comm = vc.distributed.local(devices[:2], small=SMALL)
    with comm:
        xs = [device.zeros(4, vc.f32) for device in devices[:2]]
        with comm.record() as graph:
            comm.all_reduce(xs)
        graph.compile()
        graph.graphs[0].replay()
        comm.ranks[1].close()

        with pytest.raises(vc.CommunicationError, match="a rank left the group"):
            xs[0].numpy()
        with pytest.raises(vc.CommunicationError):
            graph.graphs[0].replay()
    assert devices[0].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4


@pytest.mark.emulator
def test_a_launch_that_the_driver_refuses_is_none(comm, emulator):
    """It is not counted, so the group goes on."""
    xs = _put(comm, [np.full(8, rank + 1, np.int32) for rank in range(2)])
    with comm.record() as graph:
        comm.all_reduce(xs)
    graph.compile()

    emulator.fail("cuGraphLaunch", result=2)
    with pytest.raises(vc.Error):
        graph.graphs[0].replay()
    graph.replay()

    assert [x.numpy().tolist() for x in xs] == [[3] * 8] * 2


@pytest.mark.parametrize("first", [2**16 - 2, 2**32 - 3, 2**32 - 2, 2**32 - 1, 0])
def test_the_number_of_a_call_begins_again(device, first):
    """Of all of it and of what stands in the words. Rank 0 alone, as in test_one_shot.py: what rank 1 sends is there
    from the start, beside what the last calls have left. No word of these is taken for one of a call that has not
    come."""
    most, n = BYTES_OF_BLOCK, 5
    kernel = device.compile(one_shot_program(vc.i32, "add", 2, most))
    sent = np.zeros((2, 2, 2, THREADS), np.uint64)  # half, rank, word of a thread, thread
    for past in (first - 1, first):  # the calls before
        sent[past & 1] = (mark_of(past, vc.i32, "add", n) << 32) | 77
    epochs = device.array(np.array([first], np.uint32))
    stops = device.full(1, 1, vc.u32)  # a word that is missing ends the call without a result

    for call in range(1, 5):
        epoch = (first + call) % 2**32
        for complete in (False, True):
            for rank in range(2 if complete else 1):
                sent[epoch & 1, rank] = (mark_of(epoch, vc.i32, "add", n) << 32) | (call * 100 + rank)
            x, out = device.full(n, call, vc.i32), device.zeros(n, vc.i32)
            before = device.array(np.array([(epoch - 1) % 2**32], np.uint32))
            inboxes = [device.zeros(words_of(2, most), vc.u64), device.array(sent.reshape(-1))]
            kernel.launch(x, out, *inboxes, inboxes[1].copy(), epochs if complete else before, stops, 0, grid=1)
            assert out.numpy().tolist() == ([call * 200 + 1] * n if complete else [0] * n)
        assert epochs.numpy().tolist() == [epoch]
