"""The device's side of the ring: slots whose words arrive one by one, in any order, and how the worker ends."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.emit.resident import (
    ANSWER_BYTES,
    ENTRY,
    HEADER_BYTES,
    MORE_BYTES,
    PARAMETERS,
    SLOT_PARAMETER_BYTES,
    SLOT_WORDS,
    STOP,
)
from vyre_cuda.codegen.parts import Part
from vyre_cuda.codegen.worker import lower_worker

SLOTS = 4
LONG = 60_000_000_000  # ns: never
PATIENCE = 60.0  # seconds
LAUNCH = 7  # the number of each launch


def sums(count: int) -> vc.Program:
    """out = the sum of so many scalars, in each block"""
    b = vc.Builder("sums", block=32)
    out = b.output("out", vc.f64, zeroed=False)
    total = vc.f64(0)
    for number in range(count):
        total = total + b.scalar(f"s{number}", vc.f64)
    value = b.let("value", total)
    with b.if_(vc.global_id.x < out.size):
        out[vc.global_id.x] = value
    return b.build()


class Ring:
    """A worker of `sums(count)` that is launched as any kernel, and its ring."""

    def __init__(self, device: vc.Device, count: int, first: int) -> None:
        kernel = device.compile(sums(count))
        part = Part(kernel.program, kernel.lowered, "ieee", "check", None)
        made = lower_worker([part], device.target)
        self.layout = {(p.kind, p.name): p for p in kernel.lowered.parameters}
        self.parameter_bytes = kernel.lowered.parameter_bytes
        self.count = count
        self.slots = device.pinned_empty(SLOTS * SLOT_WORDS, vc.u64)
        self.answers = device.pinned_empty(SLOTS * ANSWER_BYTES // 4, vc.u32)
        self.more = device.pinned_empty(SLOTS * MORE_BYTES, vc.u8)
        self.ended = device.pinned_empty(2, vc.u64)
        self.out = device.pinned_empty(3, vc.f64)
        self.next = first
        self.slots[:] = ((first - SLOTS) % 2**32) << 32
        self.answers[:] = (first - SLOTS) % 2**32
        self.ended[:] = first
        self._worker = device.load(made.ptx, ENTRY, signature=" ".join(word for _, word in PARAMETERS))
        self._threads = made.threads

    def launch(self, idle: int = LONG, busy: int = LONG, until: int | None = None) -> None:
        until = (self.next - SLOTS) % 2**32 if until is None else until
        at = [array.ctypes.data for array in (self.slots, self.answers, self.more, self.ended)]
        self._worker.launch(*at, until, SLOTS - 1, LAUNCH, 0, idle, busy, grid=1, block=self._threads)

    def words(self, values: list[float], kernel: int = 0) -> list[int]:
        """Those of the next call, each with its number."""
        block = bytearray(self.parameter_bytes)
        fields = {("buffer", "out"): struct.pack("<Q", self.out.ctypes.data), ("size", "out"): struct.pack("<I", 3)}
        fields |= {("scalar", f"s{i}"): struct.pack("<d", value) for i, value in enumerate(values)}
        for key, data in fields.items():
            if key in self.layout:
                block[self.layout[key].offset : self.layout[key].offset + len(data)] = data
        block += bytes(-len(block) % 4)
        content = [kernel << 8, 1, 1 | 1 << 16, 0]
        if self.parameter_bytes > SLOT_PARAMETER_BYTES:
            row = self.next % SLOTS * MORE_BYTES
            self.more[row : row + len(block)] = np.frombuffer(bytes(block), np.uint8)
        elif kernel != STOP:
            content += struct.unpack(f"<{len(block) // 4}I", block)
        content[0] |= len(content)
        return [self.next << 32 | word for word in content]

    def write(self, word: int, value: int) -> None:
        self.slots[self.next % SLOTS * SLOT_WORDS + word] = value

    def is_answered(self) -> bool:
        return int(self.answers[self.next % SLOTS * ANSWER_BYTES // 4]) == self.next

    def finish(self, **limits: int) -> None:
        """Wait for the answer; the next call begins. A launch with limits may have ended before it took the call, if it
        or this thread was held up for so long; then there is another one."""
        end = time.monotonic() + PATIENCE
        while not self.is_answered():
            assert time.monotonic() < end
            if limits and int(self.ended[0]) >> 32 == LAUNCH and not self.is_answered():
                self.ended[:] = self.next
                self.launch(**limits)
        self.next = (self.next + 1) % 2**32

    def stop(self) -> None:
        for word, value in reversed(list(enumerate(self.words([], STOP)))):
            self.write(word, value)
        self.finish()


@pytest.fixture(params=[(2, 1), (10, 2**32 - 3), (20, 5)], ids=["half a slot", "a slot", "a row beside it"])
def ring(request: pytest.FixtureRequest, device: vc.Device) -> Iterator[Ring]:
    made = Ring(device, *request.param)
    yield made
    device.synchronize()


def test_a_slot_counts_when_all_its_words_are_there(ring: Ring) -> None:
    chance = random.Random(1)
    assert ring.parameter_bytes + HEADER_BYTES > 4 * SLOT_WORDS or ring.count < 20
    ring.launch()
    try:
        for turn in range(8):
            values = [float(chance.randrange(1000)) for _ in range(ring.count)]
            ring.out[:] = -1
            order = list(enumerate(ring.words(values)))
            chance.shuffle(order)
            for word, value in order[:-1]:
                ring.write(word, value)
                if turn < 2:
                    time.sleep(0.002)
                assert not ring.is_answered()
            time.sleep(0.01)
            assert not ring.is_answered()
            assert ring.out.tolist() == [-1.0] * 3
            ring.write(*order[-1])
            ring.finish()
            assert ring.out.tolist() == [sum(values)] * 3
    finally:
        ring.stop()


def test_several_calls_that_are_there_already(ring: Ring) -> None:
    first = ring.next
    for turn in range(SLOTS):
        for word, value in enumerate(ring.words([float(turn)] * ring.count)):
            ring.write(word, value)
        ring.next = (ring.next + 1) % 2**32
    ring.next = first
    ring.launch(idle=50_000_000)
    for _ in range(SLOTS):
        ring.finish()
    assert ring.out.tolist() == [float((SLOTS - 1) * ring.count)] * 3


@pytest.mark.thin(4)
@pytest.mark.parametrize("limit", ["idle", "busy"])
def test_it_notes_the_call_with_which_the_next_launch_begins(device: vc.Device, ring: Ring, limit: str) -> None:
    limits = {limit: 20_000_000}
    for _ in range(3):
        ring.ended[:] = ring.next
        ring.launch(**limits)
        for word, value in enumerate(ring.words([1.0] * ring.count)):
            ring.write(word, value)
        ring.finish(**limits)
        while limit == "busy":  # it ends between two calls, once the time is over
            time.sleep(0.05)
            if int(ring.ended[0]) >> 32 == LAUNCH:
                break
            for word, value in enumerate(ring.words([1.0] * ring.count)):
                ring.write(word, value)
            ring.finish(**limits)
        device.synchronize()
        assert int(ring.ended[0]) == LAUNCH << 32 | ring.next
        assert int(ring.ended[1]) == {"idle": 0xFFFD, "busy": 0xFFFE}[limit]
