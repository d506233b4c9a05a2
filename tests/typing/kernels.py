"""Kernel functions of a typed user. Checked by mypy in strict mode, never run."""

from __future__ import annotations

from typing import Any, TypeVar, no_type_check

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

T = TypeVar("T")


@vc.kernel(block=256)
def saxpy(x: vc.In[vc.f32], y: vc.In[vc.f32], a: vc.f32) -> None:
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    if i < out.size:
        out[i] = a * x[i] + y[i]


@vc.func
def clamped(v: vc.f32, low: vc.f32, high: vc.f32) -> Any:
    if v < low:
        return low
    return vc.minimum(v, high)


@vc.kernel(block=(32, 8), index=vc.i64)
def sums(x: vc.In[T], count: vc.InOut[vc.u32], n: vc.const = 3) -> None:
    out = vc.output(vc.f32, 1)
    part = vc.shared(vc.f32, 32)
    vc.work(n)
    total = vc.f32(0)
    for k in range(n):
        total += vc.f32(x[k]) * 2
    for c in vc.unrolled(n):
        total = total + c
    part[vc.thread_id.x] = clamped(total, vc.f32(0), vc.f32(1))
    vc.barrier()
    if 0 < total < 10 and not vc.any(x[0] > 1):
        out[0] = vc.warp_reduce(total, "sum")
        vc.atomic_add(count, 0, 1)
    assert total > 0, "nothing"


@vc.kernel(block=(16, 16))
def rows(x: vc.In2[vc.f32], counts: vc.InOut2[vc.u32]) -> None:
    out = vc.output(vc.f32, x.shape)
    y, k = vc.global_id.yx
    first, second = x[y, :2]
    out[y, :2] = second, first
    counts[y, :2] = 1, 2
    seen = vc.atomic_load(counts, (y, k))
    vc.atomic_add(counts, (y, k), seen + vc.u32(first + x[y, k]))


@vc.vectorize
def mix(a: vc.f32, b: vc.f32) -> vc.f32:
    return a * 2 + b


@vc.vectorize(block=128)
def limited(a: vc.i32, most: vc.i32) -> vc.i32:
    if a > most:
        return most
    return vc.i32(vc.maximum(a, 0))


@vc.kernel
@no_type_check
def unchecked(x: vc.In[vc.f32]):
    acc: vc.f32 = 0
    for k in range(x.size):
        acc += x[k]
    x.nothing()


def use(x: npt.NDArray[np.float32], device: vc.Device) -> None:
    result: npt.NDArray[np.float32] = saxpy(x, x, 2.5)
    result = mix(x, limited(x, 3), out=saxpy.python(x, x, 2.5))
    kernel: vc.Kernel = saxpy.on(device)
    program: vc.Program = sums.program(T=vc.f16, n=4)
    program = mix.program()
    function: vc.KernelFunction = unchecked
    same: vc.Kernel = device.compile(saxpy)
    type_: vc.Type = vc.f32
    default: vc.Device = vc.default_device()
    print(result, kernel, program, function, same, type_.bits, default, vc.evaluate(saxpy, x, x, 1.0), vc.ptx(saxpy))
