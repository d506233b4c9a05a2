"""The emulator's check for data races on a worker's own kernel: between its threads, from call to call, and between the
blocks of a call, which are blocks of a grid no longer.

The ring is filled before the launch, and its last slot says to stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import target_for
from vyre_cuda.codegen.emit.resident import ANSWER_BYTES, ENTRY, HEADER_BYTES, SLOT_WORDS, STOP
from vyre_cuda.codegen.parts import Part
from vyre_cuda.codegen.worker import LoweredWorker, lower_worker

from .. import programs

pytestmark = pytest.mark.emulator

SLOTS = 64
FIRST = 2**32 - 3  # the numbers of calls wrap
NOTHING = 2**64 - 1  # in a report
REPORT_AT = 16  # the third parameter of the entry, which points to nothing that these kernels use
SIGNATURE = "ptr ptr ptr ptr u32 u32 u32 u32 u64 u64"
N = 200


def reversed_in_blocks() -> vc.Program:
    """out[i] is x in reverse within each block, by way of shared memory."""
    b = vc.Builder("reversed_in_blocks", block=64)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    kept = b.shared("kept", vc.u32, 64)
    kept[vc.thread_id.x] = x[vc.global_id.x]
    b.barrier()
    out[vc.global_id.x] = kept[63 - vc.thread_id.x]
    return b.build()


def overlapping() -> vc.Program:
    """Each block writes its number over what others write, with other threads."""
    b = vc.Builder("overlapping", block=64)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=64)
    with b.if_(vc.global_id.x < x.size):
        out[(vc.thread_id.x + 33 * vc.block_id.x) & 63] = vc.block_id.x
    return b.build()


class Filled:
    """A ring with calls, in device memory."""

    def __init__(self, device: vc.Device, kernels: list[vc.Kernel]) -> None:
        self._kernels = kernels
        self._words = np.full((SLOTS, SLOT_WORDS), FIRST - SLOTS & 0xFFFFFFFF, np.uint64) << np.uint64(32)
        self._next = FIRST
        self._device = device

    def put(self, number: int, grid: int, values: dict[str, Any]) -> None:
        kernel = self._kernels[number]
        block = bytearray(-(-kernel.lowered.parameter_bytes // 4) * 4)
        for p in kernel.lowered.parameters:
            value = values[p.name]
            if p.kind == "scalar":
                word = np.asarray(value, np.float32 if p.type == vc.f32 else np.uint32).tobytes()
            else:
                word = int(value.size if p.kind == "size" else np.from_dlpack(value).ctypes.data).to_bytes(
                    p.size, "little"
                )
            block[p.offset : p.offset + p.size] = word
        self._put([HEADER_BYTES // 4 + len(block) // 4 | number << 8, grid, 1 | 1 << 16, 0], bytes(block))

    def stop(self) -> None:
        self._put([HEADER_BYTES // 4 | STOP << 8, 1, 1 | 1 << 16, 0], b"")

    def _put(self, header: list[int], block: bytes) -> None:
        content = np.concatenate([np.array(header, np.uint64), np.frombuffer(block, np.uint32).astype(np.uint64)])
        self._words[self._next % SLOTS, : content.size] = np.uint64(self._next << 32) | content
        self._next = (self._next + 1) & 0xFFFFFFFF

    def run(self, lowered: LoweredWorker, ptx: str) -> tuple[int, int]:
        """The key of the report, and the number of the call after the last."""
        device = self._device
        answers = device.zeros(SLOTS * ANSWER_BYTES // 4, vc.u32)
        report = device.array(np.array([NOTHING, 0, 0, 0], np.uint64))
        ended = device.array(np.array([FIRST, 0], np.uint64))
        marked = ptx.replace(".address_size 64\n", f'.address_size 64\n.pragma "vyre_races 0 {REPORT_AT}";\n')
        entry = device.load(marked, ENTRY, signature=SIGNATURE)
        slots = device.array(self._words.reshape(-1))
        hour = 3600 * 10**9
        entry.launch(
            *(slots, answers, report, ended, FIRST, SLOTS - 1, 1, 0, hour, hour),
            grid=1,
            block=lowered.threads,
            shared_bytes=lowered.dynamic_shared_bytes,
        )
        device.synchronize()
        last = int(ended.numpy()[0])
        assert last >> 32 == 1
        return int(report.numpy()[0]), last & 0xFFFFFFFF


def lowered_of(device: vc.Device, kernels: list[vc.Kernel]) -> LoweredWorker:
    properties = device.properties
    parts = [Part(k.program, k.lowered, k.precision, k.bounds, k.max_ulp) for k in kernels]
    return lower_worker(parts, target_for(properties.compute_capability, properties.driver_version))


def found(device: vc.Device, change: tuple[str, str] | None = None) -> int:
    """The key of the report of a launch that takes several calls of three kernels, of different blocks."""
    kernels = [device.compile(p) for p in (programs.saxpy(64), reversed_in_blocks(), programs.histogram())]
    lowered = lowered_of(device, kernels)
    ring = Filled(device, kernels)
    floats, numbers = np.arange(N, dtype=np.float32), np.arange(256, dtype=np.uint32)
    x, y = device.array(floats), device.array(numbers)
    results = [(device.zeros(N, vc.f32), device.zeros(256, vc.u32), device.zeros(16, vc.u32)) for _ in range(3)]
    for a, (out, turned, counts) in enumerate(results):
        ring.put(0, 4, {"x": x, "y": x, "out": out, "a": float(a)})
        ring.put(1, 4, {"x": y, "out": turned})
        ring.put(2, 2, {"x": y, "h": counts})
    ring.stop()
    ptx = lowered.ptx
    if change is not None:
        assert ptx.count(change[0]) == 1
        ptx = ptx.replace(*change)
    key, last = ring.run(lowered, ptx)
    if change is None:
        assert last == FIRST + 10 - 2**32
        for a, (out, turned, _) in enumerate(results):
            np.testing.assert_array_equal(np.float32(a + 1) * floats, out.numpy())
            np.testing.assert_array_equal(numbers.reshape(4, 64)[:, ::-1].reshape(-1), turned.numpy())
    return key


def test_calls_one_after_the_other_do_not_race(device: vc.Device) -> None:
    assert found(device) == NOTHING


def test_calls_without_the_barrier_between_them_race(device: vc.Device) -> None:
    """The next call is written to shared memory while other warps read the parameters of this one."""
    assert found(device, ("$W_done:\n  bar.sync 0;", "$W_done:")) != NOTHING


def test_a_race_between_the_blocks_of_a_call_is_one_between_threads(device: vc.Device) -> None:
    kernel = device.compile(overlapping())
    lowered, ring = lowered_of(device, [kernel]), Filled(device, [kernel])
    x, out = device.zeros(N, vc.u32), device.zeros(64, vc.u32)
    ring.put(0, 4, {"x": x, "out": out})
    ring.stop()
    assert ring.run(lowered, lowered.ptx)[0] != NOTHING


@pytest.mark.parametrize("check", ["races", "initialized"])
def test_a_device_that_checks_launches_has_no_workers(check: str) -> None:
    """Its reports are of launches, and name the blocks of a grid."""
    with (
        vc.Device("emulator", check=check) as device,
        pytest.raises(vc.UnsupportedError, match="saxpy, which has checks of the emulator: launch it instead"),
    ):
        device.worker([programs.saxpy()])
