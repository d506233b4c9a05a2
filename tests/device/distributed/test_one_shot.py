"""Small all-reduces of devices of one process, which write into each other's memory."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.distributed.one_shot import most_bytes_of
from vyre_cuda.distributed.one_shot_program import BYTES_OF_BLOCK, THREADS, mark_of, one_shot_program, words_of

DTYPES = ("i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16")
OPS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
SMALL = 1 << 14


def _launches(comm: vc.distributed.LocalCommunicator) -> int:
    return sum(device.stats().kernel_launches for device in comm.devices)


def _put(comm: vc.distributed.LocalCommunicator, hosts: list[np.ndarray]) -> list[vc.DeviceArray]:
    return [device.array(host) for device, host in zip(comm.devices, hosts, strict=True)]


def _hosts(comm: vc.distributed.LocalCommunicator, dtype: np.dtype, n: int) -> list[np.ndarray]:
    """Any numbers: whether sums of floats are those of the ranks' order is to be seen."""
    rng = np.random.default_rng(n)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return [rng.integers(info.min, info.max, n, dtype, endpoint=True) for _ in range(comm.size)]
    return [(rng.standard_normal(n) * 3).astype(dtype) for _ in range(comm.size)]


def _in_order(op: str, hosts: list[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return reduce(OPS[op], hosts)


@pytest.mark.thin(9)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", DTYPES)
def test_all_ranks_have_the_bits_of_the_ranks_order(comm, name, op):
    for n in (1, 3, 8, 9, 255, 1025):
        hosts = _hosts(comm, getattr(vc, name).dtype, n)
        before = _launches(comm)

        results = comm.all_reduce(_put(comm, hosts), op=op)

        assert _launches(comm) == before + comm.size
        for result in results:
            assert result.numpy().tobytes() == _in_order(op, hosts).tobytes()


@pytest.mark.parametrize("name", ["f32", "u8", "f64"])
def test_sizes_around_blocks_the_limit_and_beyond(comm, name):
    dtype = getattr(vc, name).dtype
    block, most = BYTES_OF_BLOCK // dtype.itemsize, SMALL // dtype.itemsize
    for n in (0, block - 1, block, block + 1, most - 1, most, most + 1, 3 * most):
        hosts = _hosts(comm, dtype, n) if n <= most else [np.arange(n) % 7 + r for r in range(comm.size)]
        hosts = [host.astype(dtype) for host in hosts]
        before = _launches(comm)

        results = comm.all_reduce(_put(comm, hosts), op="max")

        if comm.devices[0].properties.is_emulator:  # NCCL's kernels are not counted
            assert _launches(comm) == before + (comm.size if 0 < n <= most else 0)
        for result in results:
            np.testing.assert_array_equal(reduce(np.maximum, hosts), result.numpy())


def test_out_views_and_streams(comm):
    hosts = _hosts(comm, np.dtype(np.float32), 1000)
    xs = _put(comm, hosts)
    outs = [device.zeros(1000, vc.f32) for device in comm.devices]
    streams = [[device.stream() for _ in range(3)] for device in comm.devices]

    for first in range(1, 40, 3):  # of any alignment
        views = [x[first : first + 500] for x in xs]
        parts = [out[first + 100 : first + 600] for out in outs]
        with comm.group():
            for rank, x, part, own in zip(comm.ranks, views, parts, streams, strict=True):
                rank.all_reduce(x, out=part, stream=own[first % 3])
        for rank in comm.ranks:
            rank.device.synchronize()
        for x, host, part in zip(xs, hosts, parts, strict=True):
            np.testing.assert_array_equal(host, x.numpy())
            expected = _in_order("add", [h[first : first + 500] for h in hosts])
            np.testing.assert_array_equal(expected, part.numpy())


@pytest.mark.parametrize("calls", [40, pytest.param(10_000, marks=pytest.mark.long)])
def test_calls_back_to_back_on_streams_in_turn_with_ranks_of_uneven_pace(comm, calls):
    n = 40
    rng = np.random.default_rng(5)
    hosts = [rng.integers(-(2**31), 2**31, calls * n, np.int32) for _ in range(comm.size)]
    xs = _put(comm, hosts)
    outs = [device.zeros(calls * n, vc.i32) for device in comm.devices]
    streams = [[None, device.stream()] for device in comm.devices]
    b = vc.Builder("slow")
    work = b.inout("work", vc.f32)
    with b.for_(0, 300):
        work[0] = work[0] * 0.5
    slow = b.build()
    kernels = [device.compile(slow) for device in comm.devices]
    works = [device.full(1, 1.0, vc.f32) for device in comm.devices]
    for device in comm.devices:
        device.synchronize()

    for call in range(calls):
        part = slice(call * n, call * n + n - call % 7)
        late = rng.integers(0, 20)
        with comm.group():
            for number, rank in enumerate(comm.ranks):
                stream = streams[number][call // 3 % 2]
                if late == number:
                    kernels[number].launch(works[number], stream=stream)
                rank.all_reduce(xs[number][part], out=outs[number][part], stream=stream)
    for device in comm.devices:
        device.synchronize()

    with np.errstate(over="ignore"):
        expected = sum(hosts[1:], hosts[0]).reshape(calls, n)
    for call in range(calls):
        expected[call, n - call % 7 :] = 0
    for out in outs:
        np.testing.assert_array_equal(expected.reshape(-1), out.numpy())


def test_what_a_slower_rank_has_not_read_is_not_written_over(device):
    """Rank 0 alone; what rank 1 would send is in its inbox from the start. It has ended call 2 before rank 1, whose
    inbox is looked at, has read anything of call 1: both are there. Call 3, which needs that rank 1 has ended call 1,
    has the place of call 1."""
    most, n = BYTES_OF_BLOCK, 5
    kernel = device.compile(one_shot_program(vc.i32, "add", 2, most))
    words = words_of(2, most)
    sent = np.zeros((2, 2, 2, THREADS), np.uint64)  # half, rank, word of a thread, thread
    inbox = device.zeros(words, vc.u64)
    epochs, ended = device.zeros(1, vc.u32), device.zeros(1, vc.u32)
    seen = []
    for epoch in (1, 2, 3):
        for rank in range(2):
            sent[epoch & 1, rank] = (mark_of(epoch, vc.i32, "add", n) << 32) | (epoch * 100 + rank)
        x, out = device.full(n, epoch, vc.i32), device.zeros(n, vc.i32)
        own = device.array(sent.reshape(-1))
        kernel.launch(x, out, device.zeros(words, vc.u64), inbox, own, epochs, ended, 0, grid=1)
        assert out.numpy().tolist() == [epoch * 200 + 1] * n
        assert epochs.numpy().tolist() == [epoch]
        marks = inbox.numpy().reshape(sent.shape) >> np.uint64(32) & np.uint64(0xFFFF)
        assert not marks[:, 1].any()  # the part of rank 1 is its own
        seen.append([np.unique(half).tolist() for half in marks[:, 0]])

    assert seen == [[[0], [1]], [[2], [1]], [[2], [3]]]


def test_ranks_of_several_types_share_the_words_of_their_threads(comm):
    """The words are a thread's own, whatever the type and size of a call, so no call takes those of another."""
    rng = np.random.default_rng(2)
    for _ in range(12):
        name = ("u8", "f32", "f64")[rng.integers(3)]
        dtype = getattr(vc, name).dtype
        hosts = _hosts(comm, dtype, int(rng.integers(1, SMALL // dtype.itemsize)))
        for result in comm.all_reduce(_put(comm, hosts), op="min"):
            assert result.numpy().tobytes() == _in_order("min", hosts).tobytes()


@pytest.mark.emulator
def test_more_ranks_and_the_same_as_by_nccl(devices):
    hosts = [np.arange(700, dtype=np.int64) * (rank + 3) for rank in range(len(devices))]
    found = []
    for small in (0, 1, None):
        with vc.distributed.local(devices, small=small) as comm:
            before = _launches(comm)
            found.append([result.numpy() for result in comm.all_reduce(_put(comm, hosts))])
            assert _launches(comm) == before + (comm.size if small is None else 0)
    for by in found:
        for result in by:
            np.testing.assert_array_equal(sum(hosts), result)


def test_the_room_is_for_all_ranks():
    for ranks in range(2, 9):
        assert most_bytes_of(ranks) % BYTES_OF_BLOCK == 0
        assert words_of(ranks, most_bytes_of(ranks)) * 8 <= 1 << 23


# ---- what fails ------------------------------------------------------------------------------------------------------


@pytest.mark.emulator
def test_a_rank_that_never_comes_is_not_waited_for_beyond_the_limit(devices):
    for _ in range(2):  # the devices are usable, and another group too
        with vc.distributed.local(devices[:2], limit=0.5, small=SMALL) as comm:
            xs = [device.zeros(4, vc.f32) for device in devices[:2]]
            comm.ranks[0].all_reduce(xs[0])

            with pytest.raises(vc.CommunicationError, match=r"the all_reduce of 4 f32 by add, collective 1, of rank 0"):
                xs[0].numpy()
            with pytest.raises(vc.CommunicationError, match="has not ended"):
                comm.ranks[0].all_reduce(xs[0])
            assert xs[1].numpy().tolist() == [0.0] * 4
        assert devices[0].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4
    with vc.distributed.local(devices[:2], small=SMALL) as comm:
        for result in comm.all_reduce([device.full(4, 1.0, vc.f32) for device in devices[:2]]):
            assert result.numpy().tolist() == [2.0] * 4


@pytest.mark.emulator
def test_a_close_does_not_wait_for_ranks_that_never_come(devices):
    with vc.distributed.local(devices[:2], limit=0.5, small=SMALL) as comm:
        comm.ranks[1].all_reduce(devices[1].zeros(4, vc.f32))
    assert devices[1].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4


@pytest.mark.emulator
def test_a_rank_that_leaves_is_told_to_those_that_wait_for_it(devices):
    comm = vc.distributed.local(devices[:2], small=SMALL)
    with comm:
        x = devices[0].zeros(4, vc.f32)
        comm.ranks[0].all_reduce(x)
        comm.ranks[1].close()

        with pytest.raises(vc.CommunicationError, match="a rank left the group"):
            x.numpy()
        with pytest.raises(vc.CommunicationError):
            comm.ranks[0].all_reduce(devices[0].zeros(4, vc.f32))


@pytest.mark.emulator
def test_a_device_that_is_closed_is_told_to_those_that_wait_for_it(devices):
    comm = vc.distributed.local(devices[:2], small=SMALL)
    x = devices[0].zeros(4, vc.f32)
    comm.ranks[0].all_reduce(x)
    devices[1].close()

    with pytest.raises(vc.CommunicationError, match="a rank left the group"):
        x.numpy()
    comm.close()
    assert devices[0].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4


@pytest.mark.emulator
def test_devices_without_access_go_by_nccl(devices, emulator):
    emulator.set("peer_access", 0)
    with vc.distributed.local(devices[:2]) as comm:
        before = _launches(comm)
        for result in comm.all_reduce([device.full(4, 1.0, vc.f32) for device in devices[:2]]):
            assert result.numpy().tolist() == [2.0] * 4
        assert _launches(comm) == before


def test_users_kernels_are_not_given_access(pair):
    b = vc.Builder("add")
    a = b.inout("a", vc.f32)
    with b.if_(vc.global_id.x < a.size):
        a[vc.global_id.x] = a[vc.global_id.x] + 1.0
    kernel = pair.devices[0].compile(b.build())
    pair.all_reduce([device.zeros(4, vc.f32) for device in pair.devices])

    with pytest.raises(ValueError, match="array on another device"):
        kernel.launch(pair.devices[1].zeros(4, vc.f32))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"small": -1}, ValueError, "small=-1"),
        ({"small": "1"}, TypeError, "small= is a str; it must be a number of bytes"),
        ({"timeout": 0}, ValueError, "timeout=0; it must be more than 0 seconds"),
        ({"limit": float("nan")}, ValueError, "limit=nan; it must be more than 0 seconds"),
        ({"timeout": "1"}, TypeError, "timeout= is a str; it must be a number of seconds"),
        ({"limit": None}, TypeError, "limit= is None; it must be a number of seconds"),
    ],
)
def test_options_that_are_not_such_numbers_are_refused(devices, options, kind, message):
    with pytest.raises(kind, match=message):
        vc.distributed.local(devices[:1], **options)


@pytest.mark.emulator
@pytest.mark.parametrize("differs", ["size", "op", "type"])
def test_ranks_that_are_given_other_calls_are_told_at_the_limit(devices, differs):
    """As many blocks, so every word comes; nobody takes it for its own."""
    with vc.distributed.local(devices[:2], small=SMALL) as comm:
        xs = [device.full(8, 1.0, vc.f32) for device in devices[:2]]
        other = devices[1].full(9 if differs == "size" else 8, 1, vc.f32 if differs != "type" else vc.i32)
        with comm.group():
            comm.ranks[0].all_reduce(xs[0])
            comm.ranks[1].all_reduce(other, op="max" if differs == "op" else "add")
        for rank in comm.ranks:
            rank._watcher.limit = 0.1

        for x in (xs[0], other):
            with pytest.raises(vc.CommunicationError, match="has not ended after"):
                x.numpy()


def test_marks_of_other_sizes_types_and_operations_differ():
    kinds = [(type_, op) for type_ in (getattr(vc, name) for name in DTYPES) for op in OPS]
    assert len({mark_of(7, type_, op, 64) for type_, op in kinds}) == len(kinds)
    for count in (1, 500, 1 << 17):
        near = range(max(count - 300, 1), count + 300)
        assert len({mark_of(7, vc.f32, "add", n) for n in near}) == len(near)
