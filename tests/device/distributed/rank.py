"""One rank of a group of processes, as tests start it: `python rank.py KIND SCENE`; it prints what it has seen."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial, reduce
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.distributed import joining, session, shared_memory, watching
from vyre_cuda.distributed.launchers import place_of
from vyre_cuda.testing.emulator import Emulator

N = 840
SMALL = 1 << 13
JOINS_WITHIN = 40.0 if sys.argv[1:2] == ["cuda"] else 200.0  # seconds, on a machine that does much else


def _join(device: vc.Device) -> vc.distributed.Communicator:
    """With what the test says of small all-reduces."""
    small = os.environ.get("SMALL_BYTES")
    return vc.distributed.join(device, timeout=JOINS_WITHIN, small=None if small is None else int(small))


def _meet(comm: vc.distributed.Communicator, name: str) -> None:
    """Wait for all ranks, also where the communicator has ended."""
    assert comm._watcher.session is not None
    comm._watcher.session.gather(name, 0, JOINS_WITHIN)


def _come(comm: vc.distributed.Communicator, name: str) -> None:
    """For a rank that waits in `_die_behind`; this one does not wait."""
    assert comm._watcher.session is not None
    comm._watcher.session._send({"op": "gather", "name": name, "value": 0})


def _die_behind(comm: vc.distributed.Communicator, name: str) -> None:
    """End without a word, once all others have come; before, what they wait for might be ended, too."""
    _meet(comm, name)
    _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _told(use: Callable[[], object], *others: type[Exception]) -> None:
    """What an error says, of communication or of these kinds."""
    try:
        use()
    except (vc.CommunicationError, *others) as error:
        print("told", error, flush=True)


def _states(comm: vc.distributed.Communicator) -> dict[int, Any]:
    """What the ranks have told of this communicator, and not of one that they joined before."""
    assert comm._watcher.session is not None
    told = comm._watcher.session.states() or {}
    return {rank: its for rank, its in told.items() if its["number"] == comm._watcher.number}


def _await(comm: vc.distributed.Communicator, has_come: Callable[[dict[int, Any]], bool]) -> None:
    """Until all ranks have told what they were given, and that fits."""
    while not (len(its := _states(comm)) == comm.size and has_come(its)):
        time.sleep(0.02)


def _late_once(comm: vc.distributed.Communicator, others: Callable[[dict[int, Any]], bool], limit: float) -> None:
    """What has not ended is late after `limit` seconds, once the others have done what they do in this scene; before,
    they may need long on a machine that does much else."""

    def wait() -> None:
        _await(comm, lambda states: bool(here.left) or others(states))
        comm._watcher.limit = limit

    here = comm._watcher.session
    assert here is not None
    threading.Thread(target=wait, daemon=True).start()


def sums(device: vc.Device) -> None:
    with _join(device) as comm:
        x = device.array(np.arange(N, dtype=np.int64) * (comm.rank + 1))
        comm.all_reduce(x)
        assert (x.numpy() == np.arange(N) * sum(range(1, comm.size + 1))).all()
        y = device.full(3, comm.rank, vc.i32)
        assert comm.all_gather(y, out=device.zeros(3 * comm.size, vc.i32)).numpy().tolist() == [
            rank for rank in range(comm.size) for _ in range(3)
        ]
        if comm.size > 1:
            received = device.zeros(3, vc.i32)
            with comm.group():
                comm.send(y, (comm.rank + 1) % comm.size)
                comm.recv(received, (comm.rank - 1) % comm.size)
            assert received.numpy().tolist() == [(comm.rank - 1) % comm.size] * 3
    with _join(device) as comm:  # another one of the same processes
        assert comm.broadcast(device.full(2, comm.rank + 5, vc.u8)).numpy().tolist() == [5, 5]
    print("sums hold", comm.rank, comm.size, flush=True)


def small_ones(device: vc.Device) -> None:
    """In one shot up to SMALL bytes, of several types and operations, alone, grouped, in graphs and on streams."""
    before = Emulator().live() if device.properties.is_emulator else None
    shared_memory._PATIENCE = JOINS_WITHIN  # with less, a rank that is late costs the others memory
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=SMALL) as comm:
        print("small", comm.small, comm.small_refusal, flush=True)
        size = comm.size
        for type_, combine, op in (
            (vc.f32, np.add, "add"),
            (vc.u8, np.maximum, "max"),
            (vc.f64, np.multiply, "multiply"),
        ):
            most = SMALL // type_.itemsize
            for n in (1, most - 1, most, most + 1):
                hosts = [np.random.default_rng(n + rank).integers(0, 5, n).astype(type_.dtype) for rank in range(size)]
                x, out = device.array(hosts[comm.rank]), device.zeros(n, type_)
                launches = device.stats().kernel_launches
                comm.all_reduce(x, op=op, out=out)
                if before is not None:  # NCCL's are not counted
                    assert device.stats().kernel_launches - launches == (n <= most), n
                expected = reduce(combine, hosts)
                assert out.numpy().tobytes() == expected.tobytes()
                assert x.numpy().tobytes() == hosts[comm.rank].tobytes()
                comm.all_reduce(x, op=op)
                assert x.numpy().tobytes() == expected.tobytes()
        x, on = device.full(N, 1, vc.i32), device.stream()
        with device.record() as graph:
            comm.all_reduce(x)
            comm.all_reduce(x[:7], op="max")
        for turn in range(6):
            if comm.rank == turn % size:
                time.sleep(0.01)  # ranks are late in turn
            graph.replay(stream=on if turn % 2 else None)
            comm.all_reduce(x, op="min", stream=on)
            with comm.group():
                comm.all_reduce(x[:3], op="max")
                comm.all_reduce(x[3:], op="max")
        assert x.numpy().tolist() == [size**6] * N
        del graph
    if before is not None:
        del x, out, on
        device.trim()
        kinds = ("allocations", "graphs", "execs")
        now = Emulator().live()
        print("left over", [kind for kind in kinds if now.get(kind, 0) > before.get(kind, 0)], flush=True)
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=SMALL) as comm:  # of the same processes
        assert comm.all_reduce(device.full(4, 1, vc.i32)).numpy().tolist() == [size] * 4
    print("small ones hold", flush=True)


def cannot_share(device: vc.Device) -> None:
    """Rank 1 cannot share its memory, or open that of rank 0: all ranks know why, and use NCCL."""
    number = int(os.environ["RANK"])
    for function in ("cuIpcGetMemHandle", "cuIpcOpenMemHandle"):
        if number == 1:
            Emulator().fail(function, result=801)
        with vc.distributed.join(device, timeout=JOINS_WITHIN) as comm:
            print(function, comm.small, comm.small_refusal, flush=True)
            x, launches = device.full(4, 1, vc.i32), device.stats().kernel_launches
            assert comm.all_reduce(x).numpy().tolist() == [comm.size] * 4
            assert device.stats().kernel_launches == launches
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=64 + number) as comm:
        print("sizes", comm.small, comm.small_refusal, flush=True)
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=64) as comm:
        print("then", comm.small, comm.small_refusal, flush=True)


def killed(device: vc.Device) -> None:
    """The last rank ends without a word while the others wait for it."""
    with _join(device) as comm:
        comm.all_reduce(device.zeros(4, vc.f32))
        device.synchronize()
        if comm.rank == comm.size - 1:
            _die_behind(comm, "ended")
        _come(comm, "ended")
        _told(lambda: comm.all_reduce(device.zeros(4, vc.f32)).numpy())


def _one_less(device: vc.Device, *, behind_one: bool, stays: bool) -> None:
    """The last rank closes its communicator one collective too early, behind another one or before all; then it stays
    until the others have been told, or ends."""
    if not stays:  # they know of its end before they tell of NCCL's error
        watching._AFTER_ERROR = JOINS_WITHIN
    with _join(device) as comm:
        last = comm.size - 1
        if behind_one:
            comm.all_reduce(device.zeros(4, vc.f32))
            device.synchronize()
        if comm.rank == last:
            comm.close()
            (_meet if stays else _come)(comm, "told")
            return
        _late_once(comm, lambda states: states[last]["has_closed"], 3.0)
        _told(lambda: comm.all_reduce(device.zeros(4, vc.f32)).numpy())
        session._AFTER_LEAVING = JOINS_WITHIN
        _meet(comm, "told")  # one that left before would be named, too
    print("closed", device.full(2, 1, vc.i32).numpy().tolist(), flush=True)


closes_early = partial(_one_less, behind_one=True, stays=True)
closes_before_the_first = partial(_one_less, behind_one=False, stays=True)
leaves_early = partial(_one_less, behind_one=True, stays=False)
leaves_before_the_first = partial(_one_less, behind_one=False, stays=False)


def other_orders(device: vc.Device) -> None:
    watching._OTHERS_TELL = JOINS_WITHIN
    with _join(device) as comm:
        x, watcher = device.zeros(8, vc.f32), comm._watcher
        watcher.stop()  # it would end the communicator between two calls
        for use in (comm.all_reduce, comm.broadcast)[:: 1 if comm.rank == 0 else -1]:
            use(x)
        comm._watcher = watching.Watcher(comm._member, watcher.session, watcher.number, watcher.limit)
        _told(x.numpy)
        _meet(comm, "told")


def other_operations(device: vc.Device) -> None:
    watching._OTHERS_TELL = JOINS_WITHIN
    with _join(device) as comm:
        _late_once(comm, lambda states: all(its["issued"] == 1 for its in states.values()), 2.0)
        _told(lambda: comm.all_reduce(device.zeros(8, vc.f32), op=("add", "max")[min(comm.rank, 1)]).numpy())
        _meet(comm, "told")


def other_sizes(device: vc.Device) -> None:
    watching._OTHERS_TELL = JOINS_WITHIN
    with _join(device) as comm:
        _late_once(comm, lambda states: all(its["issued"] == 1 for its in states.values()), 2.0)
        _told(lambda: comm.all_reduce(device.zeros(8 + comm.rank, vc.f32)).numpy())
        _meet(comm, "told")


def _sum(device: vc.Device, comm: vc.distributed.Communicator, x: vc.DeviceArray) -> vc.Graph:
    """x + 1 of all ranks, and what a copy keeps of it, once more added to itself by a group."""
    b = vc.Builder("add")
    p = b.inout("x", vc.i64)
    with b.if_(vc.global_id.x < p.size):
        p[vc.global_id.x] = p[vc.global_id.x] + 1
    kernel, copy = device.compile(b.build()), device.zeros(x.size, vc.i64)
    with device.record() as graph:
        kernel.launch(x)
        comm.all_reduce(x)
        copy.copy_from(x)
        with comm.group():
            comm.all_reduce(copy, op="max")
            comm.all_reduce(x, op="min")
        kernel.launch(x)
    return graph


def graphs(device: vc.Device) -> None:
    """Many replays, with work between them and data that changes."""
    with _join(device) as comm:
        x = device.array(np.arange(N, dtype=np.int64) * comm.rank)
        graph = _sum(device, comm, x)
        expected = [np.arange(N, dtype=np.int64) * rank for rank in range(comm.size)]
        for number in range(20):
            graph.replay()
            expected = [sum(each + 1 for each in expected) + 1] * comm.size
            if number % 5 == 4:
                expected = [(each + rank) % 1000 for rank, each in enumerate(expected)]
                x.copy_from((x.numpy() + comm.rank) % 1000)
        assert (x.numpy() == expected[comm.rank]).all()
        for _ in range(2):  # others of the same communicator, which go one after the other
            with device.record(fuse=True) as other:
                comm.all_reduce(x, op="min")
            other.replay()
            del other
        assert (x.numpy() == np.minimum.reduce(expected)).all()
    try:
        graph.replay()
    except ValueError as error:
        print("graphs hold, and then", error, flush=True)


def killed_in_a_replay(device: vc.Device) -> None:
    """The last rank ends without a word while the others' replays wait for it."""
    with _join(device) as comm:
        x = device.zeros(N, vc.i64)
        graph = _sum(device, comm, x)
        graph.replay()
        device.synchronize()
        if comm.rank == comm.size - 1:
            _die_behind(comm, "ended")
        _come(comm, "ended")

        def replay() -> None:
            graph.replay()
            x.numpy()

        _told(replay)
        try:
            graph.replay()
        except vc.CommunicationError:
            print("refused from then on", flush=True)
    print("closed", device.full(2, 1, vc.i32).numpy().tolist(), flush=True)


def killed_before_a_replay(device: vc.Device) -> None:
    """The last rank ends before the first replay, which the others compare with it."""
    with _join(device) as comm:
        if comm.rank == comm.size - 1:
            time.sleep(1.0)
            _die()
        _told(lambda: _sum(device, comm, device.zeros(N, vc.i64)).replay())


def first_killed_in_a_group(device: vc.Device) -> None:
    """Rank 0, at which all meet, ends without a word before a group of the others is whole."""
    watching._AFTER_ERROR = JOINS_WITHIN

    def part() -> None:
        with comm.group():
            comm.send(x, (comm.rank + 1) % comm.size)
            if comm.rank == 0:
                _die_behind(comm, "ended")
            comm.recv(y, (comm.rank - 1) % comm.size)

    with vc.distributed.join(device, timeout=JOINS_WITHIN) as comm:
        x, y = device.zeros(4, vc.f32), device.zeros(4, vc.f32)
        comm.all_reduce(x)
        device.synchronize()
        if comm.rank > 0:
            _come(comm, "ended")
        _told(part)  # NCCL may see there that rank 0 has gone
        _told(lambda: comm.all_reduce(y).numpy())


def first_killed_behind(device: vc.Device) -> None:
    """Rank 0 ends before it has read what the others told it: their connections break, and do not just end."""

    def unread(connection: socket.socket) -> int:
        return int.from_bytes(fcntl.ioctl(connection, termios.FIONREAD, bytes(4)), sys.byteorder)

    def give_on() -> None:
        while True:  # each look of the watching thread has more to tell
            comm.all_reduce(x)
            time.sleep(0.05)

    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=0) as comm:
        x = device.zeros(4, vc.f32)
        comm.all_reduce(x).numpy()  # NCCL would wait in the call for all to connect
        if comm.rank > 0:
            _told(give_on)
            return
        server = comm._watcher.session._server
        with server._lock:
            while not all(unread(connection) for rank, connection in server._ranks.items() if rank > 0):
                time.sleep(0.01)
            _die()


def first_stopped(device: vc.Device) -> None:
    """Rank 0 stops for good: all that the others wait for ends at its limit."""
    with vc.distributed.join(device, timeout=JOINS_WITHIN) as comm:
        session._ANSWER = 2.0
        x = device.zeros(4, vc.f32)
        with device.record() as graph:
            comm.all_reduce(x)
        comm.all_reduce(x).numpy()
        if comm.rank == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        comm._watcher.limit = 3.0
        _told(graph.replay, vc.KernelTimeoutError)
        _told(lambda: comm.all_reduce(x).numpy())
    _told(lambda: vc.distributed.join(device, timeout=3.0), vc.KernelTimeoutError)


def _say(what: str, text: str) -> None:
    """To the test, also where what started this process is gone, and with it the output."""
    path = os.path.join(os.environ["SAID_IN"], what)
    with open(path + ".part", "w") as file:
        file.write(text)
    os.rename(path + ".part", path)


def _heard(what: str) -> None:
    while not os.path.exists(os.path.join(os.environ["SAID_IN"], what)):
        time.sleep(0.01)


def under_mpiexec(device: vc.Device) -> None:
    """The last rank takes part in one collective alone, and stops itself where the test says so; all end."""
    with vc.distributed.join(device, timeout=JOINS_WITHIN) as comm:
        comm.all_reduce(device.zeros(4, vc.f32)).numpy()
        _say(f"here {comm.rank}", str(os.getpid()))
        if comm.rank == comm.size - 1:
            if os.environ.get("STOPS"):
                os.kill(os.getpid(), signal.SIGSTOP)
            for rank in range(comm.size - 1):
                _heard(f"told {rank}")
            return
        _heard("go on")
        comm._watcher.limit = 2.0
        try:
            comm.all_reduce(device.zeros(4, vc.f32)).numpy()
        except vc.CommunicationError as error:
            _say(f"told {comm.rank}", str(error))


def two_killed_in_recordings(device: vc.Device) -> None:
    """The first and the last rank end while they record, when all have joined."""

    def record() -> None:
        x = device.zeros(4, vc.f32)
        with device.record() as graph:
            comm.all_reduce(x)  # which may know already that a rank has ended
            if is_ending:
                _die()
        graph.replay()

    with vc.distributed.join(device, timeout=JOINS_WITHIN) as comm:
        is_ending = comm.rank in (0, comm.size - 1)
        if is_ending:
            with suppress(vc.CommunicationError):  # the other one has ended already
                _meet(comm, "joined")
        else:
            _come(comm, "joined")
        _told(record)


def forked(device: vc.Device) -> None:
    """A child that ends is no end of the rank, and one that outlives its rank does not hide that end."""
    with vc.distributed.join(device, timeout=JOINS_WITHIN) as comm:
        comm.all_reduce(device.zeros(4, vc.f32)).numpy()
        if (child := os.fork()) == 0:
            try:
                comm._watcher.session.gather("x", 1, 5.0)
            except vc.CommunicationError as error:
                print("child", error, flush=True)
            sys.exit(0)  # not os._exit: what was registered for the exit runs
        os.waitpid(child, 0)
        assert comm.all_reduce(device.full(4, 1.0, vc.f32)).numpy().tolist() == [comm.size] * 4
        if comm.rank == comm.size - 1:
            _meet(comm, "ended")
            if os.fork() == 0:
                os.close(1)
                os.close(2)
                time.sleep(20.0)
                os._exit(0)
            _die()
        _come(comm, "ended")
        _told(lambda: comm.all_reduce(device.zeros(4, vc.f32)).numpy())


def interrupted(device: vc.Device) -> None:
    """Ctrl-C in a wait for a rank that does not take part."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background may begin without
    comm = _join(device)
    try:
        with comm:
            comm.all_reduce(device.zeros(4, vc.f32)).numpy()
            if comm.rank == 1:
                _meet(comm, "interrupted")
                return
            x = comm.all_reduce(device.zeros(4, vc.f32))
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            x.numpy()
    except KeyboardInterrupt:
        print("interrupted", comm.is_closed, device.full(2, 1, vc.i32).numpy().tolist(), flush=True)
        _meet(comm, "interrupted")


def _all_are_in_the_first(but: int) -> Callable[[dict[int, Any]], bool]:
    return lambda states: all(its["issued"] > 0 for rank, its in states.items() if rank != but)


def _interrupt_in_the_first(comm: vc.distributed.Communicator) -> None:
    """Rank 0 alone, by a signal of its own, once it is in the call in which NCCL waits for rank 1."""

    def interrupt() -> None:
        _await(comm, _all_are_in_the_first(but=1))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


def alone(comm: vc.distributed.Communicator) -> None:
    """A first call, in which NCCL keeps a rank until the others make theirs."""
    comm.all_reduce(comm.device.zeros(4, vc.f32))


def grouped(comm: vc.distributed.Communicator) -> None:
    """The same at the end of a group."""
    x, y = comm.device.zeros(4, vc.f32), comm.device.zeros(4, vc.f32)
    with comm.group():
        comm.send(x, 1 - comm.rank)
        comm.recv(y, 1 - comm.rank)


def interrupted_in_the_first(device: vc.Device) -> None:
    """Ctrl-C in the call in which NCCL keeps rank 0, alone and at the end of a group: rank 1 does not make its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

    for use in (alone, grouped):
        comm = vc.distributed.join(device, timeout=JOINS_WITHIN, small=0)
        try:
            with comm:
                if comm.rank == 0:
                    _interrupt_in_the_first(comm)
                    use(comm)
                _meet(comm, f"interrupted {use.__name__}")
        except KeyboardInterrupt:
            print("interrupted", use.__name__, comm.is_closed, device.full(2, 1, vc.i32).numpy().tolist(), flush=True)
            _meet(comm, f"interrupted {use.__name__}")


def gone_before_a_close(device: vc.Device) -> None:
    """The last rank has ended when the others close; their work has ended, and their watchers have not looked."""
    with _join(device) as comm:
        device.context.set_patience(10_000.0)
        comm.broadcast(device.zeros(4, vc.f32))
        comm.all_reduce(device.zeros(4, vc.f32))
        device.synchronize()
        here = comm._watcher.session
        assert here is not None
        if comm.rank == comm.size - 1:
            _die_behind(comm, "idle")
        comm._watcher.stop()
        _come(comm, "idle")
        here.has_lost_ranks(JOINS_WITHIN)
    print("closed", device.full(2, 1, vc.i32).numpy().tolist(), flush=True)


def gone_in_a_close(device: vc.Device) -> None:
    """The last rank ends while the others wait in their close, for a collective in which it has no part."""
    with _join(device) as comm:
        device.context.set_patience(10_000.0)
        comm.broadcast(device.zeros(4, vc.f32))
        comm.all_reduce(device.zeros(4, vc.f32))
        device.synchronize()
        last = comm.size - 1
        if comm.rank == last:
            _await(comm, lambda states: all(states[rank]["has_closed"] for rank in range(last)))
            _die()
        comm.all_reduce(device.zeros(4, vc.f32))
    print("closed", device.full(2, 1, vc.i32).numpy().tolist(), flush=True)


def _once_in_nccl(comm: vc.distributed.Communicator, use: Callable[[], object]) -> threading.Thread:
    """In another thread, when this one is in a call of NCCL; it has given no work that could be waited for."""

    def wait() -> None:
        while comm._member.watch()[3] == 0.0:
            time.sleep(0.02)
        use()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def _compared(comm: vc.distributed.Communicator) -> vc.Graph:
    """A graph whose first replay NCCL keeps on rank 0: rank 1 only says what it has recorded."""
    x = comm.device.full(4, 1.0, vc.f32)
    with comm.device.record() as graph:
        comm.broadcast(x)
    if comm.rank == 1:
        graph._agree()
    return graph


def interrupted_in_a_first_replay(device: vc.Device) -> None:
    """A handler that returns, whose call is refused, and then Ctrl-C."""
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=0) as comm:
        graph = _compared(comm)
        if comm.rank == 1:
            _meet(comm, "interrupted")
            return

        def handle(number: int, frame: object) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                comm.broadcast(device.zeros(4, vc.f32))
            except ValueError as error:
                print("handled", error, flush=True)
            os.kill(os.getpid(), signal.SIGINT)

        signal.signal(signal.SIGINT, handle)
        _once_in_nccl(comm, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            with comm:
                graph.replay()
        except KeyboardInterrupt:
            print("interrupted", comm.is_closed, device.full(2, 1, vc.i32).numpy().tolist(), flush=True)
        _meet(comm, "interrupted")


def closed_in_a_first_replay(device: vc.Device) -> None:
    """By another thread."""
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=0) as comm:
        device.context.set_patience(1.0)
        graph = _compared(comm)
        if comm.rank == 0:
            closing = _once_in_nccl(comm, comm.close)
            _told(graph.replay, ValueError)
            closing.join()  # until then waits for the device say the same
            print("usable", device.full(2, 1, vc.i32).numpy().tolist(), flush=True)
        _meet(comm, "told")


def _kept_calls(comm: vc.distributed.Communicator) -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls in which NCCL keeps a rank until the other makes its own."""
    yield "alone", partial(alone, comm)
    yield "grouped", partial(grouped, comm)
    graph = _compared(comm)
    if comm.rank == 1:
        vars(comm)["_agree"] = lambda steps: None  # it has
    yield "replayed", graph.replay


def closed_by_a_handler(device: vc.Device) -> None:
    """Of a signal, inside the call that the close would end; the call goes on."""

    def handle(number: int, frame: object) -> None:
        try:
            comm.close()
        except ValueError as error:
            print(name, comm.is_closed, error, flush=True)
        _come(comm, f"handled {name}")

    signal.signal(signal.SIGINT, handle)
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=0) as comm:
        for name, use in _kept_calls(comm):
            if comm.rank == 0:
                _once_in_nccl(comm, lambda: os.kill(os.getpid(), signal.SIGINT))
            else:
                _meet(comm, f"handled {name}")
            use()
            device.synchronize()
            while comm._member.watch()[3] != 0.0:  # a look may wait for what has ended
                time.sleep(0.01)
    print("usable", device.full(2, 1, vc.i32).numpy().tolist(), flush=True)


def signalled_in_the_first(device: vc.Device) -> None:
    """A handler of a signal runs in that call, and what it calls of the communicator is refused; the call goes on."""
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=0) as comm:

        def handle(number: int, frame: object) -> None:
            try:
                comm.all_reduce(device.zeros(4, vc.f32))
            except ValueError as error:
                print("handled", error, flush=True)
            _come(comm, "handled")

        x = device.full(4, 1.0, vc.f32)
        if comm.rank == 0:
            signal.signal(signal.SIGINT, handle)
            _interrupt_in_the_first(comm)
        else:
            _meet(comm, "handled")
        print("sum", comm.all_reduce(x).numpy().tolist(), flush=True)


def one_too_many(device: vc.Device) -> None:
    """For all-reduces in one shot, so NCCL does them."""
    with _join(device) as comm:
        x = device.full(4, comm.rank, vc.i32)
        print("sum", comm.all_reduce(x).numpy().tolist(), comm.small, comm.small_refusal, flush=True)


def killed_before_the_first(device: vc.Device) -> None:
    """The last rank ends while the others are in the call of their first collective, where NCCL connects them."""
    watching._AFTER_ERROR = JOINS_WITHIN
    with vc.distributed.join(device, timeout=JOINS_WITHIN, small=0) as comm:
        last = comm.size - 1
        if comm.rank == last:
            _await(comm, _all_are_in_the_first(but=last))
            _die()
        _told(lambda: comm.all_reduce(device.zeros(4, vc.f32)).numpy())


def never_in_the_first(device: vc.Device) -> None:
    """Rank 1 never makes the call in which rank 0 waits to be connected; alone, or at the end of a group."""

    for use in (alone, grouped):
        with vc.distributed.join(device, timeout=JOINS_WITHIN, small=0) as comm:
            if comm.rank == 1:
                _meet(comm, f"told {use.__name__}")
                continue
            _late_once(comm, _all_are_in_the_first(but=1), 1.0)
            _told(partial(use, comm))
            _meet(comm, f"told {use.__name__}")
    print("usable", device.full(2, 1, vc.i32).numpy().tolist(), flush=True)


def left_alone(device: vc.Device) -> None:
    """Rank 0 leaves in order and goes on, while rank 1 stays in the group and ends with the process."""
    comm = vc.distributed.join(device, timeout=JOINS_WITHIN, small=0)
    assert comm.all_reduce(device.full(4, 1, vc.i32)).numpy().tolist() == [comm.size] * 4
    if comm.rank == 1:
        _meet(comm, "has left")
        return
    comm.close()
    print("left", comm.is_closed, device.full(2, 1, vc.i32).numpy().tolist(), flush=True)
    _meet(comm, "has left")
    assert comm._watcher.session is not None
    comm._watcher.session.has_lost_ranks(JOINS_WITHIN)  # its exit waits for NCCL, but only for seconds


def ending_before_another(device: vc.Device) -> None:
    """Rank 0 leaves and ends, and NCCL ends its communicator when rank 1 leaves, while rank 0 is in its exit."""
    comm = vc.distributed.join(device, timeout=JOINS_WITHIN, small=0)
    assert comm.all_reduce(device.full(4, 1, vc.i32)).numpy().tolist() == [comm.size] * 4
    here = comm._watcher.session
    assert here is not None
    if comm.rank == 1:
        here.has_lost_ranks(JOINS_WITHIN)
        time.sleep(0.3)  # it is at the end of Python then, and soon in its exit
    else:
        comm._member.left()  # its close waits a second for NCCL, and its exit longer
    comm.close()
    print("ends", flush=True)


def ended_before_another(device: vc.Device) -> None:
    """Rank 0 leaves and ends, while rank 1 stays in the group: NCCL still ends the communicator then."""
    device.context.set_patience(0.1)
    comm = vc.distributed.join(device, timeout=JOINS_WITHIN, small=0)
    first = comm.broadcast(device.full(1, os.getpid(), vc.i64)).numpy().tolist()[0]
    if comm.rank == 1:
        while _is_running(first):
            time.sleep(0.02)
    comm.close()
    print("ends", flush=True)


def _is_running(process: int) -> bool:
    """And has not ended without being waited for."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def ending_with_work_in_flight(device: vc.Device) -> None:
    """Nothing is waited for, or closed; the last rank takes part in less."""
    comm = vc.distributed.join(device, timeout=JOINS_WITHIN)
    x = device.zeros(4, vc.f32)
    with device.record() as graph:
        comm.all_reduce(x)
    graph.replay()
    comm._watcher.limit = 2.0
    if comm.rank != comm.size - 1:
        with suppress(vc.CommunicationError):  # the last rank has ended long ago, and with it the communicator
            graph.replay()
    print("ends", flush=True)
    globals()["kept"] = comm, graph, x


def other_steps(device: vc.Device) -> None:
    """One rank has recorded other collectives; then all the same."""
    with _join(device) as comm:
        x = device.full(8, 1, vc.i32)
        with device.record() as graph:
            comm.all_reduce(x)
            if comm.rank == 1:
                comm.all_reduce(x, op="max")
        _told(graph.replay)
        with device.record() as graph:
            comm.all_reduce(x)
        graph.replay()
        assert x.numpy().tolist() == [comm.size] * 8
        print("usable", flush=True)


def late_replay(device: vc.Device) -> None:
    """Rank 1 never replays its graph."""
    with _join(device) as comm:
        with device.record() as graph:
            comm.all_reduce(device.zeros(8, vc.f32))
        if comm.rank == 0:
            comm._watcher.limit = 1.0
            _told(graph.replay, vc.KernelTimeoutError)
        _meet(comm, "told")


def never_coming(device: vc.Device) -> None:
    """Those that come do so at one time."""
    folder, count = os.environ["MEET_IN"], int(os.environ["MEETING"])
    place = place_of(os.environ)
    if count > 1:
        assert place is not None
        joining._launched(place, JOINS_WITHIN)  # so that they know of each other before the time begins
    _meet_in(folder, "came", count)
    _told(lambda: vc.distributed.join(device, timeout=5.0), vc.KernelTimeoutError)
    _meet_in(folder, "told", count)  # rank 0 that ends is not said to have never come


def _meet_in(folder: str, what: str, count: int) -> None:
    """By files: the ranks are no group."""
    with open(os.path.join(folder, f"{what} {os.environ['RANK']}"), "w"):
        pass
    limit = time.monotonic() + JOINS_WITHIN  # one of them may not have started
    while sum(name.startswith(what) for name in os.listdir(folder)) < count:
        assert time.monotonic() < limit, f"not all of {count} ranks have come"
        time.sleep(0.01)


def by_exchange(device: vc.Device) -> None:
    """Ray's way: the group has a broadcast of bytes of its own; here, a file."""
    rank, size, path = int(os.environ["OWN_RANK"]), int(os.environ["OWN_SIZE"]), os.environ["OWN_FILE"]

    def exchange(data: bytes | None) -> bytes:
        if data is not None:
            with open(path + ".part", "wb") as file:
                file.write(data)
            os.rename(path + ".part", path)
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, "rb") as file:
            return file.read()

    with vc.distributed.join(device, exchange, rank=rank, size=size, timeout=JOINS_WITHIN) as comm:
        assert comm.all_reduce(device.full(4, 1.0, vc.f64)).numpy().tolist() == [size] * 4
    print("sums hold", rank, size, flush=True)


def main(kind: str, scene: str) -> None:
    names = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "OWN_RANK")
    number = next(os.environ[name] for name in names if name in os.environ)
    device = vc.Device(f"{kind}:{number}")
    session._ANSWER = JOINS_WITHIN
    globals()[scene](device)
    if scene != "ending_with_work_in_flight":
        device.close()


if __name__ == "__main__":
    faulthandler.enable()  # the test that finds it late sends SIGABRT
    main(*sys.argv[1:])
