"""Collectives of several devices of one process."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from importlib import import_module

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.distributed import watching

from ..foreign_library import Library

N = 840  # with parts for 1 to 8 ranks
DTYPES = ("i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16")
AROUND_NCCL = 3  # calls: a context becomes the thread's, and the one before again
OPS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.fixture
def comm(devices: list[vc.Device]) -> Iterator[vc.distributed.LocalCommunicator]:
    with vc.distributed.local(devices) as made:
        yield made


def _hosts(comm: vc.distributed.LocalCommunicator, dtype: np.dtype, n: int = N) -> list[np.ndarray]:
    """Small whole numbers, whose sums and products are exact."""
    rng = np.random.default_rng(3)
    return [rng.integers(0, 3, n).astype(dtype) for _ in range(comm.size)]


def _put(comm: vc.distributed.LocalCommunicator, hosts: list[np.ndarray]) -> list[vc.DeviceArray]:
    return [device.array(host) for device, host in zip(comm.devices, hosts, strict=True)]


@pytest.mark.thin(12)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", DTYPES)
def test_all_reduce_equals_numpy(comm, name, op):
    hosts = _hosts(comm, getattr(vc, name).dtype)
    expected = hosts[0]
    for host in hosts[1:]:
        expected = OPS[op](expected, host)

    results = comm.all_reduce(_put(comm, hosts), op=op)

    for result in results:
        np.testing.assert_array_equal(expected, result.numpy())


@pytest.mark.parametrize("small", [0, 1 << 14])
def test_other_threads_may_copy_between_the_devices_meanwhile(devices, small):
    """A ring of copies: each orders one device behind the next one."""
    done = threading.Event()
    with vc.distributed.local(devices, small=small, limit=30.0) as comm:
        xs = [device.full(4, 1.0, vc.f32) for device in devices]
        rings = [[device.full(4, 7.0, vc.f32) for device in devices] for _ in range(2)]

        def copy(ring: list[vc.DeviceArray]) -> None:
            while not done.is_set():
                for place, to in enumerate(ring):
                    to.copy_from(ring[place - 1])

        with ThreadPoolExecutor(2) as pool:
            copies = [pool.submit(copy, rings[0]), pool.submit(copy, rings[1][::-1])]
            try:
                for _ in range(50):
                    comm.all_reduce(xs, op="max")
                    with comm.group():
                        comm.all_reduce(xs, op="max")
            finally:
                done.set()
            for each in copies:
                each.result()

        assert [x.numpy().tolist() for x in [*xs, *rings[0], *rings[1]]] == (
            [[1.0] * 4] * len(xs) + [[7.0] * 4] * 2 * len(xs)
        )


@pytest.mark.emulator
@pytest.mark.parametrize("method", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"])
@pytest.mark.parametrize("name", ["f32", "bf16"])
def test_all_devices_are_given_a_collective_with_few_driver_calls(devices, emulator, method, name):
    n = len(devices)
    of_the_stand_in = 5 * n + 1  # fake_nccl.c
    elements = {"all_gather": N * n, "reduce_scatter": N // n}.get(method, N)
    with vc.distributed.local(devices, small=0) as comm:
        xs = [device.full(N, 1, getattr(vc, name)) for device in devices]
        outs = [device.full(elements, 0, getattr(vc, name)) for device in devices]
        for rank in comm.ranks:
            rank._watcher.stop()  # it makes calls of its own
        give = getattr(comm, method)
        give(xs, out=outs)
        before = emulator.count("calls")

        give(xs, out=outs)

        assert emulator.count("calls") - before == AROUND_NCCL + of_the_stand_in
        expected = n if "reduce" in method else 1
        assert [out.numpy().tolist() for out in outs] == [[expected] * elements] * n


@pytest.mark.emulator
@pytest.mark.parametrize("is_measured", [False, True])
def test_an_all_reduce_in_one_shot_takes_a_launch_of_each_device_and_little_else(devices, emulator, is_measured):
    """Also in a group whose NCCL has connected, as where both ways are measured."""
    with vc.distributed.local(devices, small=1 << 14) as comm:
        xs = [device.full(4, 1.0, vc.f32) for device in devices]
        if is_measured:
            comm.all_reduce([device.zeros(1 << 13, vc.f32) for device in devices])
        for rank in comm.ranks:
            rank._watcher.stop()  # it makes calls of its own
        for _ in range(3):
            comm.all_reduce(xs, op="max")
        before = {name: emulator.count(name) for name in emulator.functions()}

        comm.all_reduce(xs, op="max")

        made = {name: emulator.count(name) - count for name, count in before.items()}
        n = len(devices)  # each context becomes the thread's, and at the end the one before again
        assert {name: count for name, count in made.items() if count} == {
            "cuCtxGetCurrent": 1,
            "cuCtxSetCurrent": n + 1,
            "cuGraphLaunch": n,
        }


@pytest.mark.emulator
def test_a_group_of_collectives_takes_few_driver_calls(devices, emulator):
    with vc.distributed.local(devices, small=0) as comm:
        xs = [device.full(4, 1.0, vc.f32) for device in devices]

        def give(times: int) -> None:
            with comm.group():
                for _ in range(times):
                    comm.all_reduce(xs, op="max")

        for rank in comm.ranks:
            rank._watcher.stop()  # it makes calls of its own
        give(1)
        before = emulator.count("calls")

        give(7)

        of_the_stand_in = 5 * len(devices) + 1
        assert emulator.count("calls") - before == AROUND_NCCL + of_the_stand_in


@pytest.mark.parametrize("small", [0, 1 << 14])
@pytest.mark.parametrize("place", [None, 0, -1])
def test_a_thread_keeps_its_context(devices, device_name, small, place):
    """None, or that of one of the devices."""

    def grouped() -> None:
        with comm.group():
            comm.all_reduce(xs)
            comm.broadcast(xs)

    library = Library(0 if place is None else range(len(devices))[place], is_emulator=device_name == "emulator")
    with vc.distributed.local(devices, small=small) as comm:
        xs = [device.full(8, 1.0, vc.f32) for device in devices]
        library.call("cuCtxSetCurrent", None)
        with nullcontext() if place is None else library.current():
            before = library.current_context()
            found = []
            for use in (lambda: comm.all_reduce(xs), lambda: comm.broadcast(xs), grouped):
                use()
                found.append(library.current_context())

    assert found == [before] * 3


def test_out_leaves_the_arrays_as_they_are(comm):
    hosts = _hosts(comm, np.dtype(np.float32))
    xs = _put(comm, hosts)
    outs = [device.zeros(N, vc.f32) for device in comm.devices]

    results = comm.all_reduce(xs, out=outs)

    assert all(result is out for result, out in zip(results, outs, strict=True))

    for host, x, out in zip(hosts, xs, outs, strict=True):
        np.testing.assert_array_equal(host, x.numpy())
        np.testing.assert_array_equal(sum(hosts), out.numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_])
def test_gathers_broadcasts_and_exchanges_move_any_type(comm, dtype):
    hosts = _hosts(comm, np.dtype(dtype))
    size, part = comm.size, N // comm.size
    type_ = comm.devices[0].array(hosts[0]).type

    outs = [device.zeros(N * size, type_) for device in comm.devices]
    for result in comm.all_gather(_put(comm, hosts), out=outs):
        np.testing.assert_array_equal(np.concatenate(hosts), result.numpy())
    in_place = [np.where(np.arange(N) // part == rank, host, 0).astype(dtype) for rank, host in enumerate(hosts)]
    for result in comm.all_gather(_put(comm, in_place)):
        np.testing.assert_array_equal(sum(in_place[1:], in_place[0]), result.numpy())
    for result in comm.broadcast(_put(comm, hosts), root=size - 1):
        np.testing.assert_array_equal(hosts[-1], result.numpy())
    for rank, result in enumerate(comm.all_to_all(_put(comm, hosts))):
        expected = np.concatenate([host[rank * part : (rank + 1) * part] for host in hosts])
        np.testing.assert_array_equal(expected, result.numpy())


def test_reduce_scatter_gives_each_its_part(comm):
    hosts = _hosts(comm, np.dtype(np.int32))
    part = N // comm.size
    outs = [device.zeros(part, vc.i32) for device in comm.devices]

    apart, inside = comm.reduce_scatter(_put(comm, hosts), out=outs), comm.reduce_scatter(_put(comm, hosts))

    for rank in range(comm.size):
        expected = sum(hosts)[rank * part : (rank + 1) * part]
        np.testing.assert_array_equal(expected, apart[rank].numpy())
        np.testing.assert_array_equal(expected, inside[rank].numpy())


def test_a_ring_of_sends_and_receives_is_a_group(comm):
    hosts = _hosts(comm, np.dtype(np.float64))
    xs, size = _put(comm, hosts), comm.size
    if size == 1:
        return
    outs = [device.zeros(N, vc.f64) for device in comm.devices]

    with comm.group():
        for rank, one in enumerate(comm.ranks):
            one.send(xs[rank], (rank + 1) % size)
            one.recv(outs[rank], (rank - 1) % size)

    for rank, out in enumerate(outs):
        np.testing.assert_array_equal(hosts[rank - 1], out.numpy())


def test_collectives_follow_and_precede_other_work(comm):
    b = vc.Builder("twice")
    a = b.inout("a", vc.f32)
    with b.if_(vc.global_id.x < a.size), b.for_(0, 100):
        a[vc.global_id.x] = a[vc.global_id.x] + 1.0
    program = b.build()
    kernels = [device.compile(program) for device in comm.devices]
    xs = [device.zeros(N, vc.f32) for device in comm.devices]

    for _ in range(3):
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x)
        comm.all_reduce(xs)
        for kernel, x in zip(kernels, xs, strict=True):
            kernel.launch(x)

    value = 0.0
    for _ in range(3):
        value = (value + 100) * comm.size + 100
    for x in xs:
        np.testing.assert_array_equal(np.full(N, value, np.float32), x.numpy())


def test_streams_and_memory_that_is_freed_at_once(comm):
    streams = [device.stream() for device in comm.devices]
    outs = [device.zeros(N, vc.f32) for device in comm.devices]

    with comm.group():
        for rank, stream, out in zip(comm.ranks, streams, outs, strict=True):
            x = rank.device.full(N, 2.0, vc.f32)
            rank.all_reduce(x, out=out, stream=stream)
            x.free()
            rank.device.full(N, 9.0, vc.f32)

    for out in outs:
        np.testing.assert_array_equal(np.full(N, 2.0 * comm.size), out.numpy())


def test_a_stream_may_be_closed_before_its_collective_was_looked_at(comm):
    for rank in comm.ranks:
        rank._watcher.stop()  # it looks ten times a second, and here at the worst moment
    before = [rank._member.watch()[1] for rank in comm.ranks]  # on GPUs, those that found out what is faster
    xs = [device.full(N, 2.0, vc.f32) for device in comm.devices]
    streams = [device.stream() for device in comm.devices]
    with comm.group():
        for rank, stream, x in zip(comm.ranks, streams, xs, strict=True):
            rank.all_reduce(x, stream=stream)
    for x in xs:
        np.testing.assert_array_equal(np.full(N, 2.0 * comm.size), x.numpy())
    del stream, streams

    for rank, given in zip(comm.ranks, before, strict=True):
        is_ended, issued, _, waiting, *_ = rank._member.watch()
        assert (is_ended, issued - given, waiting) == (False, 1, 0.0)


@pytest.mark.parametrize("small", [0, 1 << 14])
@pytest.mark.parametrize("way", ["call", "group", "graph"])
@pytest.mark.parametrize("dtype", [vc.bool_, vc.u8, vc.bf16, vc.f16])
def test_arrays_of_no_element_and_of_one_take_part_in_all_collectives(devices, dtype, way, small):
    methods = ["all_gather", "broadcast", "all_to_all"] + ["all_reduce", "reduce_scatter"] * (dtype != vc.bool_)
    with vc.distributed.local(devices, small=small) as comm:
        for count in (0, comm.size):  # one element in each part
            xs = [device.array(np.ones(count, dtype.dtype)) for device in devices]
            for method in methods:
                if way == "call":
                    getattr(comm, method)(xs)
                    continue
                with comm.group() if way == "group" else comm.record() as graph:
                    getattr(comm, method)(xs)
                if way == "graph":
                    graph.replay()
            for rank, x in enumerate(xs):
                expected = np.ones(count, dtype.dtype)
                if dtype != vc.bool_:
                    expected[:] = comm.size
                    expected[rank : rank + 1] = comm.size**2  # the last one writes only the part of the rank
                np.testing.assert_array_equal(expected, x.numpy())


def test_what_does_not_fit_is_refused_before_anything_is_given(comm):
    xs = _put(comm, _hosts(comm, np.dtype(np.float32)))
    first = comm.ranks[0]
    small = first.device.zeros(3, vc.f32)

    for use, kind, words in (
        (lambda: comm.all_reduce(xs[:-1]), ValueError, "arrays for"),
        (lambda: comm.all_reduce(xs[0]), TypeError, "list"),
        (lambda: comm.all_reduce(xs, op="xor"), ValueError, "must be one of add, multiply, max, min"),
        (lambda: first.all_reduce(xs[0], out=small), ValueError, "out has 3 elements; it needs 840"),
        (lambda: first.all_reduce(np.zeros(3)), TypeError, "must be a DeviceArray"),
        (lambda: first.all_reduce(xs[0], out=first.device.zeros(N, vc.i32)), TypeError, "float32"),
        (lambda: first.all_reduce(first.device.zeros(3, vc.i16)), TypeError, "NCCL combines"),
        (lambda: first.broadcast(xs[0], root=comm.size), ValueError, "there is no rank"),
        (lambda: first.send(xs[0], 0), ValueError, "this rank itself"),
        (
            lambda: first.all_reduce(xs[0][:10], out=xs[0][5:15]),
            ValueError,
            "all_reduce: the input and `out` overlap: give separate memory, or the same for both",
        ),
        (lambda: first.broadcast(xs[0][:10], out=xs[0][1:11]), ValueError, "or the same for both"),
        (lambda: first.all_gather(xs[0][1:3], out=xs[0][: 2 * comm.size]), ValueError, "part of `out` as the input"),
        (lambda: first.reduce_scatter(xs[0][: 2 * comm.size], out=xs[0][1:3]), ValueError, "part of the input as"),
        (lambda: comm.all_to_all(xs, out=xs), ValueError, "all_to_all: .*overlap: give separate memory$"),
        (
            lambda: comm.ranks[-1].all_reduce(xs[0]),
            ValueError,
            "all_reduce: the input is memory of device 0, but",
        ),
    )[: None if comm.size > 1 else -1]:
        with pytest.raises(kind, match=words):
            use()
    xs[0].free()
    with pytest.raises(ValueError, match="freed"):
        comm.all_reduce(xs)
    for result in comm.all_reduce([device.full(4, 1.0, vc.f32) for device in comm.devices]):
        assert result.numpy().tolist() == [float(comm.size)] * 4


@pytest.mark.parametrize("method", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"])
@pytest.mark.parametrize("dtype, elements", [(vc.f32, 24), (vc.i32, 48)])
def test_ranks_with_other_sizes_or_types_are_refused_at_once(comm, method, dtype, elements):
    *alike, last = comm.devices
    xs = [device.zeros(48, vc.f32) for device in alike]
    words = f"{method}: the array of rank 0 has 48 elements of float32, that of rank {comm.size - 1} {elements} of"

    for begin in (comm.record, comm.group, nullcontext)[: None if alike else 0]:  # one is like itself
        with pytest.raises(ValueError, match=words), begin():
            getattr(comm, method)([*xs, last.zeros(elements, dtype)])
    for result in comm.all_reduce([device.full(4, 1.0, vc.f32) for device in comm.devices]):
        assert result.numpy().tolist() == [float(comm.size)] * 4


def test_a_worker_and_a_collective_are_refused_together(comm):
    b = vc.Builder("add", block=64)
    x = b.inout("x", vc.f32)
    with b.if_(vc.global_id.x < x.size):
        x[vc.global_id.x] = x[vc.global_id.x] + 1.0
    device = comm.devices[0]
    xs = [one.zeros(N, vc.f32) for one in comm.devices]

    kernel = device.compile(b.build())

    with device.worker([kernel]) as worker:
        worker.submit(kernel, np.zeros(4, np.float32)).result()
        with pytest.raises(ValueError, match="pause the worker, or close it"):
            comm.all_reduce(xs)
    comm.all_reduce(xs)


def test_a_closed_communicator_is_refused(comm):
    xs = [device.zeros(4, vc.f32) for device in comm.devices]
    comm.close()

    for use in (lambda: comm.all_reduce(xs), lambda: comm.ranks[0].broadcast(xs[0])):
        with pytest.raises(ValueError, match=r"^the communicator is closed: make another one$"):
            use()
    comm.close()


def test_calls_and_replays_are_refused_from_the_begin_of_a_close(comm, monkeypatch):
    """Those of threads that go on would keep it waiting for ever."""
    xs = [device.full(4, 1.0, vc.f32) for device in comm.devices]
    with comm.record() as graph:
        comm.broadcast(xs)
    graph.replay()
    synchronize = vc.Device.synchronize
    refused = []

    def use_and_synchronize(device: vc.Device, timeout: float | None = None) -> None:
        for use in (lambda: comm.broadcast(xs), graph.replay):
            with pytest.raises(ValueError, match="the communicator is closed"):
                use()
            refused.append(device)
        synchronize(device, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(vc.Device, "synchronize", use_and_synchronize)
        comm.close()

    assert refused == [device for device in comm.devices for _ in range(2)]


@pytest.mark.emulator
@pytest.mark.ranks(2)
@pytest.mark.parametrize("small", [0, 1 << 14])
def test_a_close_ends_a_collective_in_which_another_device_has_no_part(devices, monkeypatch, small):
    monkeypatch.setattr(watching, "_CLOSE", 0.2)
    with vc.distributed.local(devices[:2], small=small) as comm:
        xs = comm.all_reduce([device.full(4, 1.0, vc.f32) for device in comm.devices])
        xs[1].numpy()
        comm.ranks[0].all_reduce(xs[0])

    assert xs[1].numpy().tolist() == [2.0] * 4
    assert devices[0].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4


@pytest.mark.ranks(2)
def test_a_close_waits_for_a_call_of_another_thread_that_returns(devices):
    with vc.distributed.local(devices[:2], small=0) as comm:
        xs = [device.full(4, 1.0, vc.f32) for device in comm.devices]
        for rank in comm.ranks:
            rank._watcher.stop()  # it looks ten times a second, for a moment
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(comm.ranks[0].broadcast, xs[0])
            while comm.ranks[0]._member.watch()[3] == 0.0:  # NCCL keeps it until the other makes its call
                time.sleep(0.01)
            second = pool.submit(lambda: (time.sleep(0.2), comm.ranks[1].broadcast(xs[1])))
            comm.ranks[0].close()
            first.result()
            second.result()

        assert comm.ranks[0].is_closed


@pytest.mark.emulator
@pytest.mark.ranks(2)
def test_a_handler_inside_a_call_of_a_rank_cannot_close_the_group(devices):
    """The handler runs in the thread that NCCL keeps, until the other rank makes its call."""
    refused = []

    def handle(number: int, frame: object) -> None:
        try:
            comm.close()
        except ValueError as error:
            refused.append(str(error))

    def other() -> None:
        while comm.ranks[0]._member.watch()[3] == 0.0:
            time.sleep(0.01)
        signal.raise_signal(signal.SIGUSR1)
        while not refused:
            time.sleep(0.01)
        comm.ranks[1].broadcast(xs[1])

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with vc.distributed.local(devices[:2], small=0) as comm, ThreadPoolExecutor(1) as pool:
            xs = [device.full(4, 1.0, vc.f32) for device in comm.devices]
            done = pool.submit(other)
            comm.ranks[0].broadcast(xs[0])
            done.result()
            assert not comm.ranks[0].is_closed
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(refused) == 1
    assert "this thread is inside a call of the communicator" in refused[0]


def test_one_gpu_twice_is_no_group(devices):
    with pytest.raises(ValueError, match="different GPUs"):
        vc.distributed.local([devices[0], devices[0]])


@pytest.mark.parametrize("name", ["timeout", "limit"])
def test_a_time_that_is_not_more_than_0_is_refused(devices, name):
    with pytest.raises(ValueError, match="more than 0 seconds"):
        vc.distributed.local(devices, **{name: -1.0})


@pytest.mark.emulator
def test_work_that_never_ends_is_ended_at_the_limit_and_waits_say_why(devices):
    with vc.distributed.local(devices[:2], limit=0.5) as comm:
        xs = [device.zeros(4, vc.f32) for device in devices[:2]]
        comm.ranks[0].all_reduce(xs[0])

        with pytest.raises(vc.CommunicationError, match=r"the all_reduce of 4 f32 by add, collective 1, of rank 0"):
            xs[0].numpy()
        with pytest.raises(vc.CommunicationError):
            devices[0].synchronize()
        with pytest.raises(vc.CommunicationError, match="has not ended"):
            comm.ranks[0].all_reduce(xs[0])
        assert xs[1].numpy().tolist() == [0.0] * 4  # the other device has nothing to do with it
    assert devices[0].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4  # usable without the group


@pytest.mark.emulator
@pytest.mark.parametrize("recorded", [False, True])
def test_an_exception_does_not_wait_for_what_never_ends(devices, monkeypatch, recorded):
    monkeypatch.setattr(import_module("vyre_cuda.distributed.local"), "AFTER_EXCEPTION", 0.2)
    xs = [device.full(4, 2.0, vc.f32) for device in devices[:2]]

    def leave() -> None:
        with vc.distributed.local(devices[:2]) as comm:
            comm.broadcast(xs)  # else NCCL waits in the call below for both to connect
            with comm.record() as graph:
                comm.all_reduce(xs)
            graph.compile()
            if recorded:
                graph.graphs[0].replay()
            else:
                comm.ranks[0].broadcast(xs[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave()

    assert xs[1].numpy().tolist() == [2.0] * 4
    assert devices[0].full(4, 3.0, vc.f32).numpy().tolist() == [3.0] * 4


@pytest.mark.emulator
@pytest.mark.parametrize("count", [32, 33])
def test_a_group_has_collectives_of_32_devices_at_most(devices, count):
    """Devices that are opened again are others; each is a group of its own here."""
    with ExitStack() as stack:
        opened = [stack.enter_context(vc.Device("emulator:0")) for _ in range(count)]
        comms = [stack.enter_context(vc.distributed.local([device])) for device in opened]
        xs = [device.full(4, 3.0, vc.f32) for device in opened]
        outs = [device.zeros(4, vc.f32) for device in opened]
        refused = pytest.raises(ValueError, match="collectives of at most 32 devices") if count > 32 else nullcontext()
        with refused, comms[0].group():
            for comm, x, out in zip(comms, xs, outs, strict=True):
                comm.all_reduce([x], out=[out])
        expected = 0.0 if count > 32 else 3.0  # none of them, or all
        for out in outs:
            np.testing.assert_array_equal(np.full(4, expected, np.float32), out.numpy())
