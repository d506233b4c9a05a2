"""Both pools under any sequence of operations, and one suite of promises that holds for each of them.

The model knows which blocks are live and what they hold; the device must agree on contents, on statistics, and that
no two live blocks share memory.
"""

from __future__ import annotations

import gc
import itertools
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

CUDA_ERROR_OUT_OF_MEMORY = 2
KINDS = ("device", "pinned")
ALLOC = {"device": "cuMemAlloc", "pinned": "cuMemHostAlloc"}
MIB = 1 << 20
SIZES = st.one_of(
    st.integers(0, 5000), st.sampled_from([4096, 4097, 65536, MIB, 2 * MIB, 2 * MIB + 1, 5 * MIB]), st.just(300)
)


def make(device: vc.Device, kind: str, nbytes: int) -> vc.DeviceArray | np.ndarray:
    return device.empty(nbytes, vc.u8) if kind == "device" else device.pinned_empty(nbytes, vc.u8)


def address_of(array: vc.DeviceArray | np.ndarray) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array._alive().address


@dataclass(frozen=True)
class Pool:
    live: int
    idle: int
    peak: int
    count: int
    hits: int
    misses: int
    frees: int
    budget: int


def pool_of(device: vc.Device, kind: str) -> Pool:
    stats, prefix = device.memory_stats(), "pinned_" if kind == "pinned" else ""
    names = ("live_bytes", "idle_bytes", "peak_bytes", "live_count", "hits", "misses", "frees", "budget_bytes")
    return Pool(*(getattr(stats, prefix + name) for name in names))


# ---- promises of each pool -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nbytes", [0, 1, 300, 4097, MIB, 3 * MIB])
def test_a_released_block_serves_the_next_allocation(own_device: vc.Device, kind: str, nbytes: int) -> None:
    array = make(own_device, kind, nbytes)
    where, before = address_of(array), pool_of(own_device, kind)
    del array
    array = make(own_device, kind, nbytes)
    after = pool_of(own_device, kind)

    assert address_of(array) == where
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)
    assert (after.live, after.count, after.peak) == (before.live, before.count, before.peak)


@pytest.mark.emulator
def test_a_warm_allocation_asks_the_driver_nothing(own_device: vc.Device, emulator: Emulator) -> None:
    own_device.empty(1000, vc.f32)
    before = emulator.count("calls")

    for _ in range(100):
        own_device.empty(1000, vc.f32)

    assert emulator.count("calls") == before


@pytest.mark.parametrize("kind", KINDS)
def test_idle_memory_stays_within_its_budget(own_device: vc.Device, kind: str) -> None:
    own_device.set_memory_budget(**{f"{kind}_bytes": 8 * MIB})
    arrays = [make(own_device, kind, 2 * MIB) for _ in range(10)]
    last = address_of(arrays[-1])
    for i in range(10):
        arrays[i] = None
    own_device.synchronize()
    kept = pool_of(own_device, kind)

    assert 0 < kept.idle <= kept.budget == 8 * MIB
    assert kept.frees >= 6
    assert address_of(make(own_device, kind, 2 * MIB)) == last
    own_device.set_memory_budget(**{f"{kind}_bytes": 0})
    assert pool_of(own_device, kind).idle == 0


@pytest.mark.emulator
@pytest.mark.parametrize("kind", KINDS)
def test_a_shortage_ends_idle_memory_and_is_tried_once_more(
    own_device: vc.Device, emulator: Emulator, kind: str
) -> None:
    own_device.trim()
    make(own_device, kind, 1000)
    emulator.fail(ALLOC[kind], result=CUDA_ERROR_OUT_OF_MEMORY)

    array = make(own_device, kind, 5 * MIB)

    assert pool_of(own_device, kind).idle == 0
    emulator.fail(ALLOC[kind], result=CUDA_ERROR_OUT_OF_MEMORY, repeat=True)
    with pytest.raises(vc.ResourceError, match=r"asked for 8388608 bytes, live \d+, idle in the pool 0, free on"):
        make(own_device, kind, 8 * MIB)
    emulator.reset()
    assert make(own_device, kind, 8 * MIB).size == 8 * MIB
    assert array.size == 5 * MIB


def test_device_arrays_can_be_referred_to_weakly_and_are_collected(device: vc.Device) -> None:
    array = device.empty(10, vc.f32)
    seen = weakref.ref(array)

    assert seen() is array
    del array
    gc.collect()
    assert seen() is None


# ---- against a model -------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Live:
    kind: str
    array: vc.DeviceArray | np.ndarray
    content: np.ndarray
    stream: int | None = None  # which used it last


class Pools(RuleBasedStateMachine):
    """Allocation, writing, use on streams, views, release, budgets, trims and shortages of both pools."""

    lives = Bundle("lives")

    def __init__(self) -> None:
        super().__init__()
        self.emulator = Emulator()
        self.device = vc.Device("emulator")
        self.emulator.stream_mode("lazy")
        self.kernel = self.device.compile(programs.add_to())
        self.one = self.device.array(np.ones(5 * MIB // 4, np.int32))
        self.streams = [self.device.stream() for _ in range(2)]
        self.one[:1].numpy()  # what small copies go by is there from now on
        self.all: list[Live] = []
        self.base = {kind: pool_of(self.device, kind) for kind in KINDS}
        self.allocations = dict.fromkeys(KINDS, 0)

    @rule(target=lives, kind=st.sampled_from(KINDS), nbytes=SIZES, short=st.booleans(), seed=st.integers(0, 99))
    def allocate(self, kind: str, nbytes: int, short: bool, seed: int) -> Live:
        if short:
            self.emulator.fail(ALLOC[kind], result=CUDA_ERROR_OUT_OF_MEMORY)
        array = make(self.device, kind, nbytes // 4 * 4)
        self.emulator.reset()
        self.emulator.stream_mode("lazy")
        content = np.random.default_rng(seed).integers(0, 256, nbytes // 4 * 4, np.uint8)
        if kind == "device":
            array.copy_from(content)
        else:
            array[:] = content
        self.allocations[kind] += 1
        live = Live(kind, array, content)
        self.all.append(live)
        return live

    @rule(kind=st.sampled_from(KINDS), nbytes=SIZES)
    def fail_to_allocate(self, kind: str, nbytes: int) -> None:
        before = pool_of(self.device, kind)
        self.emulator.fail(ALLOC[kind], result=CUDA_ERROR_OUT_OF_MEMORY, repeat=True)
        try:
            make(self.device, kind, nbytes)
            self.allocations[kind] += 1
        except vc.ResourceError:
            assert pool_of(self.device, kind).idle == 0
        self.emulator.reset()
        self.emulator.stream_mode("lazy")
        after = pool_of(self.device, kind)
        assert (after.live, after.count) == (before.live, before.count)

    @rule(live=lives, stream=st.sampled_from([None, 0, 1]), times=st.integers(1, 3))
    def use(self, live: Live, stream: int | None, times: int) -> None:
        """Adds one to every word of it, later."""
        if live not in self.all or live.kind != "device" or not live.content.size:
            return
        if live.stream not in (None, stream):
            self.streams[live.stream].synchronize()  # nothing else orders what follows with it
        live.stream = stream
        words = live.array.size // 4
        view = type(live.array)(self.device, live.array._alive(), live.array.offset, words, np.dtype(np.int32))
        for _ in range(times):
            self.kernel.launch(view, self.one[:words], stream=None if stream is None else self.streams[stream])
            live.content.view(np.int32)[:] += 1

    @rule(live=consumes(lives))
    def release(self, live: Live) -> None:
        if live in self.all:
            self.all.remove(live)
            live.array = None

    @rule(live=lives)
    def free_with_a_view_left(self, live: Live) -> None:
        if live not in self.all or live.kind != "device" or live.array.size < 8:
            return
        view = live.array[4:]
        live.array.free()
        with pytest.raises(ValueError, match="freed"):
            live.array.numpy()
        live.array, live.content = view, live.content[4:]

    @rule()
    def trim(self) -> None:
        self.device.trim()
        for kind in KINDS:
            pool = pool_of(self.device, kind)
            assert (pool.idle, pool.misses - pool.frees) == (0, pool.count)
        self.one[:1].numpy()

    @rule(kind=st.sampled_from(KINDS), nbytes=st.sampled_from([0, 4096, MIB, 16 * MIB, 1 << 30]))
    def budget(self, kind: str, nbytes: int) -> None:
        self.device.set_memory_budget(**{f"{kind}_bytes": nbytes})

    @rule()
    def synchronize(self) -> None:
        self.device.synchronize()
        for kind in KINDS:
            pool = pool_of(self.device, kind)
            assert pool.idle <= pool.budget

    @rule(live=lives)
    def read(self, live: Live) -> None:
        if live in self.all:
            host = live.array if live.kind == "pinned" else live.array.numpy()
            np.testing.assert_array_equal(live.content, host)

    @invariant()
    def no_two_live_blocks_overlap(self) -> None:
        spans = sorted(
            (address_of(x.array) + (x.array.offset if x.kind == "device" else 0), x.array.nbytes) for x in self.all
        )
        for (begin, size), (after, _) in itertools.pairwise(spans):
            assert begin + size <= after

    @invariant()
    def statistics_are_exact(self) -> None:
        for kind in KINDS:
            pool, base = pool_of(self.device, kind), self.base[kind]
            mine = [x for x in self.all if x.kind == kind]
            assert pool.count - base.count == len(mine)
            if kind == "device":  # copies stage through the pinned pool
                assert pool.hits + pool.misses - base.hits - base.misses == self.allocations[kind]
            assert pool.live - base.live >= sum(x.array.nbytes for x in mine)
            assert pool.peak >= pool.live

    @precondition(lambda self: self.all)
    @rule()
    def read_all(self) -> None:
        for live in self.all:
            self.read(live)

    def teardown(self) -> None:
        for live in self.all:
            self.read(live)
        self.all.clear()
        self.emulator.reset()
        self.device.close()


TestPools = pytest.mark.thin(pytest.mark.emulator(Pools.TestCase))
TestPools.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
