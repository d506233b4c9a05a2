"""Six kernels of six fields, written as functions, each with arguments for a call and what it must return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

import vyre_cuda as vc

WT = TypeVar("WT")
EMPTY = 2**64 - 1


@vc.kernel(block=128)
def fir(line: vc.In[vc.f32], h: vc.In[vc.f32], count: vc.const, step: vc.const):
    """A filter with `count` taps that keeps one of `step` samples."""
    out = vc.output(vc.f32, (line.size - h.size + 1) // step)
    taps = vc.shared(vc.f32, count)
    for k in range(vc.thread_id.x, count, 128):
        taps[k] = h[k]
    vc.barrier()
    i = vc.global_id.x
    if i < out.size:
        acc: vc.f32 = 0
        for k in range(count):
            acc = vc.fma(taps[k], line[i * step + (count - 1) - k], acc)
        out[i] = acc


@vc.kernel(block=64)
def accel(pos: vc.In[vc.f32], mass: vc.In[vc.f32], eps2: vc.f32):
    """The acceleration of each body by all others."""
    acc = vc.output(vc.f32, pos.size)
    vc.work(mass.size)
    i = vc.global_id.x
    if i >= mass.size:
        return
    p = [pos[i * 3 + c] for c in range(3)]
    ax: vc.f32 = 0
    ay: vc.f32 = 0
    az: vc.f32 = 0
    for j in range(mass.size):
        dx, dy, dz = pos[j * 3] - p[0], pos[j * 3 + 1] - p[1], pos[j * 3 + 2] - p[2]
        inv = vc.rsqrt(dx * dx + dy * dy + dz * dz + eps2)
        s = mass[j] * inv * inv * inv
        ax += s * dx
        ay += s * dy
        az += s * dz
    acc[i * 3], acc[i * 3 + 1], acc[i * 3 + 2] = ax, ay, az


@vc.kernel(block=(32, 8))
def edges(src: vc.In[vc.u8], w: vc.u32, h: vc.u32):
    """The gradient of an image, 0 at its border."""
    out = vc.output(vc.u8, src.size)
    vc.work(w, h)
    x, y = vc.i32(vc.global_id.x), vc.i32(vc.global_id.y)
    width, height = vc.i32(w), vc.i32(h)
    if 0 < x < width - 1 and 0 < y < height - 1:
        at = y * width + x
        gx = vc.i32(src[at + 1]) - vc.i32(src[at - 1])
        gy = vc.i32(src[at + width]) - vc.i32(src[at - width])
        m = abs(gx) + abs(gy)
        out[at] = vc.u8(m if m < 255 else 255)
    elif x < width and y < height:
        out[y * width + x] = 0


@vc.kernel(block=128)
def count_keys(key: vc.In[vc.u64], table: vc.InOut[vc.u64], count: vc.InOut[vc.u32]):
    """How often each key occurs, in a hash table."""
    vc.work(key.size)
    i = vc.global_id.x
    if i < key.size:
        k = key[i]
        slots = vc.u32(table.size)
        slot = vc.u32((k ^ (k >> 33)) * 0xFF51AFD7ED558CCD >> 33) % slots
        tries: vc.u32 = 0
        while tries < slots:
            old = vc.atomic_compare_exchange(table, slot, EMPTY, k)
            if old == EMPTY or old == k:  # noqa: SIM109
                vc.atomic_add(count, slot, 1)
                break
            slot = (slot + 1) % slots
            tries += 1
        assert tries < slots, "table full"


@vc.kernel(block=128)
def linear(x: vc.In[vc.f32], weights: vc.In[WT], bias: vc.In[vc.f32], rows: vc.const, columns: vc.const, act: vc.const):
    """A layer of a network: a warp for each row."""
    y = vc.output(vc.f32, rows)
    vc.work(rows * 32)
    row = vc.global_id.x // 32
    acc: vc.f32 = 0
    for k in range(vc.lane_id, columns, 32):
        acc = vc.fma(x[k], vc.f32(weights[row * columns + k]), acc)
    total = vc.warp_reduce(acc, "add")
    if vc.lane_id == 0 and row < rows:
        y[row] = act(total + bias[row])


@vc.kernel(block=64)
def fib(n: vc.In[vc.u32]):
    """Fibonacci numbers."""
    out = vc.output(vc.u64, n.size)
    i = vc.global_id.x
    if i < n.size:
        a: vc.u64 = 0
        b: vc.u64 = 1
        for _ in range(n[i]):
            a, b = b, a + b
        out[i] = a


def relu(v: Any) -> Any:
    return vc.maximum(v, 0.0)


@dataclass
class Case:
    """A call of a kernel; `expected` are its results within `tolerance`."""

    kernel: Any
    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]
    tolerance: float = 0
    given: dict[str, Any] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)


def cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    yield "fir", _fir
    yield "accel", _accel
    yield "edges", _edges
    yield "count_keys", _count_keys
    yield "linear_f16", lambda: _linear(vc.f16)
    yield "linear_f32", lambda: _linear(vc.f32)
    yield "fib", _fib


def _fir() -> Case:
    rng = np.random.default_rng(1)
    taps, line = rng.standard_normal(65).astype(np.float32), rng.standard_normal(64 + 1024).astype(np.float32)
    return Case(fir, (line, taps), (np.convolve(line, taps, "valid")[::4],), 1e-4, {"count": 65, "step": 4})


def _accel() -> Case:
    rng = np.random.default_rng(2)
    pos, mass = rng.standard_normal((100, 3)).astype(np.float32), rng.random(100).astype(np.float32)
    apart = pos[None] - pos[:, None]
    squares = (apart * apart).sum(-1) + np.float32(0.01)
    expected = (mass[None, :, None] * apart * (squares**-1.5)[..., None]).sum(1)
    return Case(accel, (pos, mass, 0.01), (expected.ravel(),), 0.05)


def _edges() -> Case:
    image = np.random.default_rng(3).integers(0, 256, (40, 50), dtype=np.uint8)
    whole, expected = image.astype(int), np.zeros((40, 50), np.uint8)
    expected[1:-1, 1:-1] = np.minimum(
        255, abs(whole[1:-1, 2:] - whole[1:-1, :-2]) + abs(whole[2:, 1:-1] - whole[:-2, 1:-1])
    )
    return Case(edges, (image, 50, 40), (expected.ravel(),))


def _count_keys() -> Case:
    """One key, so that the place of each is known whatever the order of the threads."""
    keys = np.full(1000, 77, np.uint64)
    slot = (((77 ^ (77 >> 33)) * 0xFF51AFD7ED558CCD % 2**64) >> 33) % 2**32 % 128
    table, count = np.full(128, EMPTY, np.uint64), np.zeros(128, np.uint32)
    table[slot], count[slot] = 77, 1000
    return Case(count_keys, (keys, np.full(128, EMPTY, np.uint64), np.zeros(128, np.uint32)), (table, count))


def _linear(type_: vc.Type) -> Case:
    rng = np.random.default_rng(4)
    weights = (rng.standard_normal((20, 64)) / 8).astype(type_.dtype)
    x, bias = rng.standard_normal(64).astype(np.float32), rng.standard_normal(20).astype(np.float32)
    expected = np.maximum(weights.astype(float) @ x + bias, 0)
    given = {"rows": 20, "columns": 64, "act": relu}
    return Case(linear, (x, weights, bias), (expected,), 1e-5, given, {"WT": type_})


def _fib() -> Case:
    expected = [0, 1]
    while len(expected) < 90:
        expected.append(expected[-1] + expected[-2])
    return Case(fib, (np.arange(90, dtype=np.uint32),), (np.array(expected, np.uint64),))
