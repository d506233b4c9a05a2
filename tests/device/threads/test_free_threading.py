"""Objects that many threads share and change at once: one bound call, one array, one graph, one result, one recorded
call, one loaded kernel. Every result is one that some order of the operations gives, nothing is left behind.

Meaningful with a GIL; without one, threads meet inside of the extension too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .. import foreign_ptx, programs
from .test_threads import frequent_switches as frequent_switches
from .test_threads import run_all

F32 = np.float32
THREADS = 6
LENGTHS = [
    30,
    pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.thin]),
    pytest.param(8000, marks=pytest.mark.long),
]

_IMPORT_ALL = """
import importlib, json, pkgutil, sys
import vyre_cuda._native
names = [found.name for found in pkgutil.walk_packages(vyre_cuda._native.__path__, "vyre_cuda._native.")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, getattr(sys, "_is_gil_enabled", lambda: True)()]))
"""


def test_extensions_leave_the_gil_off_where_the_build_has_none() -> None:
    """An extension that does not say that it can do without would turn it on, with a RuntimeWarning."""
    without = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    command = [sys.executable, "-W", "error", "-c", _IMPORT_ALL]
    child = subprocess.run(command, capture_output=True, text=True, check=False)

    assert child.returncode == 0, child.stderr
    names, enabled = json.loads(child.stdout)
    assert {"vyre_cuda._native.call.bound", "vyre_cuda._native.memory.memory"} <= set(names)
    assert enabled is not without


def each(turns: int, work: Callable[[int, int], None]) -> None:
    """`work(thread, turn)` by THREADS threads at once."""

    def run(thread: int) -> None:
        for turn in range(turns):
            work(thread, turn)

    wrong = run_all([lambda thread=thread: run(thread) for thread in range(THREADS)])
    if wrong:
        raise wrong[0]


class Arrays:
    """What one thread binds: a launch with these writes a * x + y, with any other nothing."""

    def __init__(self, device: vc.Device, a: float, n: int = 300) -> None:
        x = np.arange(n, dtype=F32)
        self.a = a
        self.x, self.y, self.out = device.array(x), device.array(x + 1), device.zeros(n, vc.f32)
        self.expected = F32(a) * x + (x + 1)

    @property
    def all(self) -> tuple[Any, ...]:
        return self.x, self.y, self.out, self.a

    def check(self) -> None:
        out = self.out.numpy()
        np.testing.assert_array_equal(self.expected if out.any() else 0 * out, out)


@pytest.mark.parametrize("turns", LENGTHS)
def test_one_bound_call_is_called_and_rebound_by_all(own_device: vc.Device, turns: int) -> None:
    kernel = own_device.compile(programs.saxpy())
    sets = [Arrays(own_device, float(a + 1)) for a in range(THREADS)]
    call = kernel.bind(*sets[0].all)

    def work(thread: int, turn: int) -> None:
        mine = sets[thread]
        if turn % 3 == 0:
            call(*mine.all)
        elif turn % 3 == 1:
            call()
        else:
            call.set(x=mine.x, y=mine.y, out=mine.out, a=mine.a)
        assert tuple(call.values) in {one.all for one in sets}
        mine.check()

    each(turns, work)
    last = {one.all: one for one in sets}[tuple(call.values)]
    last.out.fill(0.0)
    call()
    np.testing.assert_array_equal(last.expected, last.out.numpy())


@pytest.mark.thin
@pytest.mark.parametrize("turns", LENGTHS)
def test_one_array_is_used_while_it_is_freed(leak_check: Any, device_name: int | str, turns: int) -> None:
    """Each use gives what the array had, or says that it was freed."""
    with vc.Device(device_name) as device:
        kernel = device.compile(programs.saxpy())
        x = np.arange(300, dtype=F32)
        outs = [device.zeros(300, vc.f32) for _ in range(THREADS)]
        other = device.zeros(300, vc.f32)
        calls = [kernel.bind(other, other, out, 0.0) for out in outs]
        loaded = device.load(foreign_ptx.SAXPY, "saxpy", signature="const_ptr ptr f32 u32")

        def uses(array: vc.DeviceArray, i: int) -> list[Callable[[], np.ndarray]]:
            def launched(launch: Callable[[], None]) -> np.ndarray:
                outs[i].fill(0.0)
                launch()
                return outs[i].numpy() / 2

            return [
                lambda: array.numpy(),
                lambda: array[:].numpy(),
                lambda: kernel(array, array, 1.0) / 2,
                lambda: kernel.submit(array, array, 1.0).result(timeout=60) / 2,
                lambda: launched(lambda: kernel.launch(array, array, outs[i], 1.0)),
                lambda: launched(lambda: calls[i](array, array, outs[i], 1.0)),
                lambda: launched(lambda: kernel.bind(array, array, outs[i], 1.0)()),
                lambda: launched(lambda: loaded.launch(array, outs[i], 2.0, 300, grid=2, block=256)),
            ]

        for turn in range(turns):
            array = device.array(x)

            def use(i: int, array: vc.DeviceArray = array, turn: int = turn) -> None:
                mine = uses(array, i)
                for step in range(len(mine)):
                    try:
                        got = mine[(step + i + turn) % len(mine)]()
                    except ValueError as error:
                        if "freed" not in str(error) or not array.is_freed:
                            raise
                    else:
                        np.testing.assert_array_equal(x, got)

            works = [lambda i=i: use(i) for i in range(THREADS - 1)]
            wrong = run_all([*works, array.free])
            if wrong:
                raise wrong[0]
            assert array.buffer is None


@pytest.mark.parametrize("turns", LENGTHS)
def test_one_graph_is_replayed_and_updated_by_all(own_device: vc.Device, turns: int) -> None:
    """A replay with arrays of a thread's own computes there; one without writes where an update said last."""
    kernel = own_device.compile(programs.saxpy())
    sets = [Arrays(own_device, float(a + 1)) for a in range(THREADS)]
    spare = own_device.zeros(300, vc.f32)
    with own_device.record() as graph:
        kernel.launch(vc.symbol("x"), vc.symbol("y"), vc.symbol("out"), vc.symbol("a"))
        spare.copy_from(vc.symbol("x"))
    streams = [own_device.stream() for _ in range(THREADS)]

    def work(thread: int, turn: int) -> None:
        mine = sets[thread]
        given = {"x": mine.x, "y": mine.y, "out": mine.out, "a": mine.a}
        if turn % 4 == 3:
            graph.update(**given)
            graph.replay()
            mine.check()
            return
        mine.out.fill(0.0)
        graph.replay(stream=streams[thread] if turn % 2 else None, **given)
        np.testing.assert_array_equal(mine.expected, mine.out.numpy())
        assert len(graph) == 2
        assert graph.node_count in (0, 2, 3)

    each(turns, work)


@pytest.mark.parametrize("turns", LENGTHS)
def test_one_result_is_awaited_and_dropped_by_all(own_device: vc.Device, turns: int) -> None:
    kernel = own_device.compile(programs.saxpy())
    x = np.arange(500, dtype=F32)
    box: list[vc.Pending] = []

    for turn in range(turns):
        expected = F32(turn) * x + x
        box[:] = [kernel.submit(x, x, float(turn))]
        taken: list[np.ndarray] = []

        def take(expected: np.ndarray = expected, taken: list[np.ndarray] = taken) -> None:
            pending = box[0]
            pending.done()
            result = pending.result(timeout=60)
            assert pending.done()
            box[:] = [pending]
            np.testing.assert_array_equal(expected, result)
            taken.append(result)

        wrong = run_all([take] * THREADS)
        if wrong:
            raise wrong[0]
        assert all(one is taken[0] for one in taken)


@pytest.mark.parametrize("turns", LENGTHS)
def test_one_recorded_call_is_replayed_by_all(own_device: vc.Device, turns: int) -> None:
    kernel = own_device.compile(programs.saxpy())
    x = np.arange(200, dtype=F32)
    recorded = kernel.record(x, x, 1.0, skip_identical=True)

    def work(thread: int, turn: int) -> None:
        a = float(turn // 4)
        np.testing.assert_array_equal(F32(a) * (x + 1) + x, recorded.replay(x + 1, x, a))
        assert 0 <= recorded.skipped < THREADS * turns

    each(turns, work)
    recorded.replay()
    assert recorded.skipped > 0


@pytest.mark.parametrize("turns", LENGTHS)
def test_kernels_counters_and_pools_are_shared_by_all(own_device: vc.Device, turns: int) -> None:
    """The same programs give the same kernels, counters only grow, and none of what was counted is lost."""
    programs_ = [programs.guarded(100 + limit) for limit in range(4)]
    kernels: list[set[vc.Kernel]] = [set() for _ in programs_]
    x = np.arange(64, dtype=np.uint32)
    seen = [0] * THREADS
    own_device.reset_stats()

    def work(thread: int, turn: int) -> None:
        which = (thread + turn) % len(programs_)
        kernel = own_device.compile(programs_[which])
        kernels[which].add(kernel)
        array = own_device.array(x)
        out = own_device.empty(64, vc.u32)
        kernel.launch(array, out)
        np.testing.assert_array_equal(x, kernel(x))
        np.testing.assert_array_equal(x, out.numpy())
        launches = own_device.stats().launches
        assert launches > seen[thread]
        seen[thread] = launches
        assert own_device.memory_stats().live_bytes >= array.nbytes
        if turn % 8 == 0:
            own_device.trim()

    each(turns, work)
    assert [len(one) for one in kernels] == [1] * len(programs_)
    assert own_device.stats().launches >= THREADS * turns
    assert own_device.memory_stats().live_bytes == 0


@pytest.mark.thin
@pytest.mark.parametrize("turns", LENGTHS)
def test_one_capsule_is_consumed_once(own_device: vc.Device, turns: int) -> None:
    """Of threads that import one DLPack capsule, one gets the tensor."""

    class Offers:
        def __init__(self, array: vc.DeviceArray) -> None:
            self.capsule = array.__dlpack__()
            self.device = array.__dlpack_device__()

        def __dlpack__(self, **_: Any) -> Any:
            return self.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.device

    for _ in range(turns):
        offer = Offers(own_device.array(np.arange(10, dtype=F32)))
        wrong = run_all([lambda offer=offer: vc.from_dlpack(offer, device=own_device).free()] * THREADS)

        assert [type(error) for error in wrong] == [BufferError] * (THREADS - 1)


# ---- what runs between taking an array and giving it to the device ---------------------------------------------------


class FreesOnStream:
    """A stream of another library that frees an array when it is asked for its handle."""

    def __init__(self, array: vc.DeviceArray, handle: int) -> None:
        self.array = array
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        self.array.free()
        return 0, self.handle


def test_launch_refuses_an_array_that_its_own_stream_freed(own_device: vc.Device) -> None:
    kernel = own_device.compile(programs.saxpy())
    mine = Arrays(own_device, 2.0)
    own = own_device.stream()  # which a handle does not keep
    stream = FreesOnStream(mine.x, own.handle)

    with pytest.raises(ValueError, match="freed"):
        kernel.launch(*mine.all, stream=stream)
    assert not mine.out.numpy().any()


class Frees(int):
    """A number that frees an array when it is converted."""

    array: vc.DeviceArray

    def __and__(self, mask: int) -> int:
        self.array.free()
        return int(self) & mask


def test_loaded_kernel_keeps_an_array_that_a_conversion_frees(own_device: vc.Device) -> None:
    loaded = own_device.load(foreign_ptx.SAXPY, "saxpy", signature="const_ptr ptr f32 u32")
    x, out = own_device.array(np.ones(300, F32)), own_device.zeros(300, vc.f32)
    count = Frees(300)
    count.array = x
    before = own_device.memory_stats().live_bytes

    bound = loaded.bind(x, out, 2.0, count, grid=2, block=256)
    assert x.is_freed
    assert own_device.memory_stats().live_bytes == before
    bound()
    np.testing.assert_array_equal(np.full(300, 2.0, F32), out.numpy())


def test_replay_keeps_a_symbol_that_a_later_step_frees(own_device: vc.Device) -> None:
    """The arguments of one step are made while those of the next are not yet, which may run anything."""
    kernel = own_device.compile(programs.saxpy())
    loaded = own_device.load(foreign_ptx.SAXPY, "saxpy", signature="const_ptr ptr f32 u32")
    mine, copied = Arrays(own_device, 2.0), own_device.zeros(300, vc.f32)
    with own_device.record() as graph:
        kernel.launch(vc.symbol("x", mine.x), mine.y, mine.out, 2.0)
        copied.copy_from(vc.symbol("x", mine.x))
        loaded.launch(mine.y, copied, 0.0, vc.symbol("n", 300), grid=2, block=256)
    given = own_device.array(np.arange(300, dtype=F32))
    count = Frees(300)
    count.array = given

    graph.replay(x=given, n=count)
    others = [own_device.array(np.full(300, -1.0, F32)) for _ in range(8)]
    np.testing.assert_array_equal(mine.expected, mine.out.numpy())
    np.testing.assert_array_equal(np.arange(300, dtype=F32), copied.numpy())
    assert given.is_freed
    assert all((other.numpy() == -1.0).all() for other in others)
