"""Workers: what their calls compute and refuse, how they end and begin again, and what they are paused around."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker
from vyre_cuda.testing.compare import assert_same

from .. import programs

F32 = np.float32
X = np.arange(300, dtype=F32)
IDLE = 0.2  # seconds


def reversed_blocks() -> vc.Program:
    """Each block of 8 x 8 threads reverses its 64 elements, by way of shared memory that begins as 0."""
    b = vc.Builder("reversed_blocks", block=(8, 8, 1))
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    s = b.shared("s", vc.f32, 64)
    i = b.let("i", vc.thread_id.x + vc.thread_id.y * vc.u32(8))
    at = b.let("at", vc.block_id.x * vc.u32(64) + i)
    with b.if_(at < x.size):
        s[i] = x[at]
    b.barrier()
    out[at] = s[vc.u32(63) - i]
    return b.build()


def many_parameters(count: int) -> vc.Program:
    """out = the sum of the scalars, which are more than a slot holds."""
    b = vc.Builder("many_parameters", block=32)
    out = b.output("out", vc.f64, zeroed=False)
    total = vc.f64(0)
    for number in range(count):
        total = total + b.scalar(f"s{number}", vc.f64)
    value = b.let("value", total)
    with b.if_(vc.global_id.x < out.size):
        out[vc.global_id.x] = value
    return b.build()


# ---- what calls compute ----------------------------------------------------------------------------------------------


@vc.kernel
def doubled(x: vc.In[vc.u32]) -> None:
    out = vc.output(vc.u32, x.size)
    out[vc.global_id.x] = x[vc.global_id.x] * 2


def test_one_kernel_function_or_program_needs_no_list(device: vc.Device) -> None:
    values = np.arange(40, dtype=np.uint32)
    for given in (doubled, doubled.program(), device.compile(doubled)):
        with device.worker(given) as worker:
            np.testing.assert_array_equal(2 * values, worker.call(given, values))


def test_calls_with_host_arrays_return_what_the_kernel_does(worker: vc.Worker, saxpy: vc.Kernel) -> None:
    for size in (0, 1, 255, 256, 257, 5000):
        x = np.linspace(-1, 1, size, dtype=F32)
        assert_same(saxpy(x, x, 3.0), worker.call(saxpy, x, x, 3.0))


def test_calls_by_name_with_out_and_conversions(worker: vc.Worker, saxpy: vc.Kernel) -> None:
    out = np.empty_like(X)

    assert worker.call(saxpy, X, y=X, a=2) is not None
    assert worker.call(saxpy, X, X, 2.0, out=out) is out
    np.testing.assert_array_equal(3 * X, out)
    np.testing.assert_array_equal(5 * X, worker.call(saxpy, X, X, np.float64(4.0), timeout=60.0))


def test_the_kernel_of_a_call_by_name(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    np.testing.assert_array_equal(4 * X, worker.call(kernel=saxpy, y=X, a=3.0, x=X))
    with pytest.raises(TypeError, match="needs a kernel of the worker before its arguments"):
        worker.call()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="needs a kernel"):
        worker.call(x=X, y=X, a=3.0)  # type: ignore[call-arg]
    b = vc.Builder("named", block=32)
    given, out = b.scalar("kernel", vc.u32), b.output("out", vc.u32, size=1)
    out[0] = given
    named = device.compile(b.build())
    with device.worker([named]) as other:
        np.testing.assert_array_equal([7], other.call(named, kernel=7))


def test_device_arrays_are_used_in_place(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    x, out = device.array(X), device.zeros(300, vc.f32)

    for a in range(20):
        assert worker.call(saxpy, x, x, out, float(a)) is None
        np.testing.assert_array_equal((a + 1) * X, out.numpy())
    worker.call(saxpy, x, x, out=out, a=7.0)
    np.testing.assert_array_equal(8 * X, out.numpy())


def test_inouts(device: vc.Device, worker: vc.Worker) -> None:
    add = worker.kernels[1]
    one = np.ones(100, np.int32)
    h = device.array(one)

    np.testing.assert_array_equal(2 * one, worker.call(add, one, one))
    worker.call(add, h, device.array(one))
    worker.call(add, h, device.array(one))
    np.testing.assert_array_equal(3 * one, h.numpy())


def test_results_are_zero_where_the_kernel_does_not_write(device: vc.Device) -> None:
    kernel = device.compile(programs.every_second())
    x = np.arange(1, 400, dtype=np.uint32)
    spread = device.array(np.full(798, 7, np.uint32))
    expected = kernel(x)

    with device.worker([kernel], idle=IDLE) as worker:
        for _ in range(3):
            assert_same(expected, worker.call(kernel, x))
            worker.call(kernel, device.array(x), spread)
            assert_same(expected, spread.numpy())


def test_kernels_of_several_block_sizes_with_shared_memory(device: vc.Device, saxpy: vc.Kernel) -> None:
    reverse = device.compile(reversed_blocks())
    x = np.arange(64 * 5, dtype=F32)
    expected = reverse(x, grid=5)
    np.testing.assert_array_equal(x.reshape(5, 64)[:, ::-1].ravel(), expected)

    with device.worker([reverse, saxpy], idle=IDLE) as worker:
        for _ in range(5):
            assert_same(expected, worker.call(reverse, x, grid=5))
            assert_same(saxpy(x, x, 2.0), worker.call(saxpy, x, x, 2.0))


@pytest.mark.thin
@pytest.mark.parametrize("count", [3, 7, 12, 13, 60, 250])
def test_parameters_of_half_a_slot_a_slot_and_more(device: vc.Device, count: int) -> None:
    kernel = device.compile(many_parameters(count))
    values = [float(2**i % 1009) for i in range(count)]

    with device.worker([kernel], idle=IDLE) as worker:
        for turn in range(130):
            out = np.empty(3)
            worker.call(kernel, *values[:-1], float(turn), out=out)
            assert out.tolist() == [sum(values[:-1]) + turn] * 3


def test_programs_and_grids_that_are_given(device: vc.Device) -> None:
    program = programs.saxpy()
    with device.worker([program], idle=IDLE) as worker:
        np.testing.assert_array_equal(3 * X, worker.call(program, X, X, 2.0))
        np.testing.assert_array_equal(3 * X, worker.call(worker.kernels[0], X, X, 2.0, grid=40))
        half = worker.call(program, X, X, 2.0, grid=1)
    np.testing.assert_array_equal(3 * X[:256], half[:256])
    assert not half[256:].any()


def test_large_launches_and_known_values(device: vc.Device, saxpy: vc.Kernel) -> None:
    size = (1 << 18) + 77
    known = device.compile(programs.saxpy(), specialize={"a": 3.0})
    x, out = device.array(np.arange(size, dtype=F32)), device.zeros(size, vc.f32)

    with device.worker([saxpy, known], idle=IDLE) as worker:
        worker.call(saxpy, x, x, out, 2.0)
        np.testing.assert_array_equal(3 * np.arange(size, dtype=F32), out.numpy())
        np.testing.assert_array_equal(4 * X, worker.call(known, X, X, 3.0))
        with pytest.raises(ValueError, match="a"):
            worker.call(known, X, X, 2.0)


def test_kernel_functions(device: vc.Device) -> None:
    @vc.kernel
    def double(x: vc.In[vc.f32], out: vc.Out[vc.f32]) -> None:
        i = vc.global_id.x
        if i < x.size:
            out[i] = x[i] + x[i]

    with device.worker([double], idle=IDLE) as worker:
        np.testing.assert_array_equal(2 * X, worker.call(double, X, out=np.empty_like(X)))


def test_bound_calls(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    x, out = device.array(X), device.zeros(300, vc.f32)
    call = worker.bind(saxpy, x, x, out, 5.0)
    del x

    for _ in range(3):
        out.fill(0)
        call()
        np.testing.assert_array_equal(6 * X, out.numpy())


# ---- tickets ---------------------------------------------------------------------------------------------------------


def test_more_submitted_calls_than_slots(worker: vc.Worker, saxpy: vc.Kernel) -> None:
    pending = [worker.submit(saxpy, X, X, float(a)) for a in range(200)]
    pending.pop(100)

    for a, one in reversed(list(enumerate(pending))):
        np.testing.assert_array_equal(F32(a + 1 + (a >= 100)) * X, one.result())
    assert worker.stats().calls == 200


def test_submitted_calls_can_be_awaited(worker: vc.Worker, saxpy: vc.Kernel) -> None:
    async def all_of_them() -> list[np.ndarray]:
        return await asyncio.gather(*(asyncio.create_task(worker.submit(saxpy, X, X, float(a))) for a in range(20)))

    for a, found in enumerate(asyncio.run(all_of_them())):
        np.testing.assert_array_equal(F32(a + 1) * X, found)


def test_submit_refuses_device_arrays(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    x = device.array(X)
    with pytest.raises(vc.UnsupportedError, match="host arrays"):
        worker.submit(saxpy, x, x, 1.0)


# ---- the ring --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [1, 63, 64, 200])
def test_numbers_of_calls_wrap(device: vc.Device, saxpy: vc.Kernel, before: int) -> None:
    with Worker(device, [saxpy], idle=IDLE, first=2**32 - before) as worker:
        for a in range(2 * before + 10):
            np.testing.assert_array_equal(F32(a + 1) * X, worker.call(saxpy, X, X, float(a)))


def test_a_worker_ends_when_idle_and_begins_again(device: vc.Device, saxpy: vc.Kernel) -> None:
    with device.worker([saxpy], idle=0.01) as worker:
        assert worker.stats() == vc.WorkerStats(running=False, calls=0, launches=0, pauses=0)
        for turn in range(1, 4):
            np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
            assert worker.stats().launches >= turn
            end = time.monotonic() + 60
            while worker.stats().running:
                assert time.monotonic() < end
                time.sleep(0.005)


def test_a_busy_worker_ends_between_calls_and_is_launched_again(device: vc.Device, saxpy: vc.Kernel) -> None:
    with Worker(device, [saxpy], idle=10.0, busy=1e-4) as worker:
        for a in range(50):
            np.testing.assert_array_equal(F32(a + 1) * X, worker.call(saxpy, X, X, float(a)))
            time.sleep(0.0005)
        assert worker.stats().launches > 5
        pending = [worker.submit(saxpy, X, X, float(a)) for a in range(150)]
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(F32(a + 1) * X, one.result())


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_long_call_has_ended_when_a_wait_for_the_device_returns(device: vc.Device, timeout: float | None) -> None:
    spin = device.compile(programs.spin())
    with device.worker(spin) as worker:
        pending = worker.submit(spin, np.zeros(1, np.uint32), 4_000_000)  # 0.2 s or more
        device.synchronize(timeout=timeout)
        assert pending.done()
        worker.submit(spin, np.zeros(1, np.uint32), 4_000_000)
        with pytest.raises(vc.KernelTimeoutError):
            device.synchronize(timeout=0.1)
        worker.close(timeout=None)


def test_threads(device: vc.Device, saxpy: vc.Kernel) -> None:
    failures: list[BaseException] = []

    def use(worker: vc.Worker, number: int) -> None:
        try:
            for turn in range(60):
                a = float(number * 1000 + turn)
                np.testing.assert_array_equal(F32(a) * X + X, worker.call(saxpy, X, X, a))
        except BaseException as error:
            failures.append(error)

    with Worker(device, [saxpy], idle=IDLE, busy=0.002) as worker:
        threads = [threading.Thread(target=use, args=(worker, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            worker.pause(60.0)
            assert not worker.stats().running
            worker.resume()
        for thread in threads:
            thread.join()
    assert failures == []


# ---- order and pauses ------------------------------------------------------------------------------------------------


def test_calls_come_after_launches_and_before_later_ones(
    device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel
) -> None:
    stream = device.stream()
    x, y, z = device.array(X), device.zeros(300, vc.f32), device.zeros(300, vc.f32)
    for turn in range(20):
        saxpy.launch(x, x, y, float(turn), stream=stream)  # y = (turn + 1) x
        worker.call(saxpy, y, x, z, 2.0)  # z = (2 turn + 3) x
        saxpy.launch(z, x, y, 1.0)  # y = (2 turn + 4) x
        np.testing.assert_array_equal(F32(2 * turn + 4) * X, y.numpy())
        x.copy_from(X)


def test_arrays_that_others_change_between_calls(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    x, out = device.array(X), device.zeros(300, vc.f32)
    for turn in range(20):
        x.copy_from(X + F32(turn))
        worker.call(saxpy, x, x, out, 1.0)
        np.testing.assert_array_equal(2 * (X + F32(turn)), out.numpy())


def test_what_waits_for_the_device_pauses_the_worker(device: vc.Device, saxpy: vc.Kernel) -> None:
    with Worker(device, [saxpy], idle=300.0, busy=300.0) as worker:
        np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
        begin = time.monotonic()
        device.synchronize()
        assert worker.stats().running
        device.zeros(1 << 20, vc.u8).free()
        device.trim()
        assert time.monotonic() - begin < 100
        np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
        other = device.compile(programs.saxpy(block=96))  # loads a module
        np.testing.assert_array_equal(3 * X, other(X, X, 2.0))
        np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
    assert worker.stats().pauses > 0


def test_calls_wait_for_resume(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    worker.call(saxpy, X, X, 2.0)
    worker.pause()
    worker.pause()
    assert not worker.stats().running
    pending = worker.submit(saxpy, X, X, 2.0)
    with pytest.raises(vc.KernelTimeoutError):
        pending.result(0.02)
    worker.resume()
    with pytest.raises(vc.KernelTimeoutError, match=r"kernel saxpy has not .*: the worker is paused, so resume it"):
        worker.call(saxpy, X, X, 2.0, timeout=0.02)
    worker.resume()
    np.testing.assert_array_equal(3 * X, pending.result())
    with pytest.raises(ValueError, match="not paused"):
        worker.resume()


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused_programs() -> Iterator[tuple[str, vc.Program]]:
    b = vc.Builder("meets", block=32)
    out = b.output("out", vc.u32, zeroed=False)
    b.grid_barrier()
    out[vc.global_id.x] = vc.u32(1)
    yield "grid barriers", b.build()
    b = vc.Builder("asserts", block=32)
    out = b.output("out", vc.u32, zeroed=False)
    b.assert_(vc.global_id.x < vc.u32(5), "small")
    out[vc.global_id.x] = vc.u32(1)
    yield "assertions", b.build()
    b = vc.Builder("prints", block=32)
    out = b.output("out", vc.u32, zeroed=False)
    b.print("i {}", vc.global_id.x)
    out[vc.global_id.x] = vc.u32(1)
    yield "prints", b.build()


@pytest.mark.parametrize(("what", "program"), list(refused_programs()), ids=lambda value: str(value)[:10])
def test_kernels_that_a_worker_does_not_run(device: vc.Device, what: str, program: vc.Program) -> None:
    with pytest.raises(vc.UnsupportedError, match=what):
        device.worker([program])


def test_other_refusals(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    with pytest.raises(vc.UnsupportedError, match="trap"):
        device.worker([device.compile(programs.saxpy(), bounds="trap")])
    with pytest.raises(vc.UnsupportedError, match="at most 63 kernels, not 64"):
        device.worker([saxpy] * 64)
    for idle in (0, -1.0, float("nan"), 1e9):
        with pytest.raises(ValueError, match="idle"):
            device.worker([saxpy], idle=idle)
    with pytest.raises(TypeError, match="idle='1'; it must be a number of seconds"):
        device.worker([saxpy], idle="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an int"):
        device.worker([saxpy], blocks=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs at least one kernel"):
        device.worker([])
    for what in (3, [3], None):
        with pytest.raises(TypeError, match="a worker takes kernels, Programs and kernel functions, not "):
            device.worker(what)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a kernel of this worker"):
        worker.call(device.compile(programs.every_second()), np.zeros(3, np.uint32))
    with pytest.raises(vc.UnsupportedError, match="1048576 bytes"):
        worker.call(saxpy, np.zeros(1 << 18, F32), np.zeros(1 << 18, F32), 1.0)
    with pytest.raises(TypeError):
        worker.call(saxpy, X)
    with pytest.raises(TypeError):
        worker.call(saxpy, X, X.astype(np.complex64), 1.0)
    with device.record(), pytest.raises(vc.RecordingError):
        worker.call(saxpy, X, X, 1.0)


def test_blocks_that_are_no_whole_warps(device: vc.Device, saxpy: vc.Kernel) -> None:
    b = vc.Builder("meet_in_40", block=40)
    out = b.output("out", vc.u32, zeroed=False)
    s = b.shared("s", vc.u32, 40)
    s[vc.thread_id.x] = vc.thread_id.x
    b.barrier()
    out[vc.global_id.x] = s[vc.u32(39) - vc.thread_id.x]
    program = b.build()

    with pytest.raises(vc.UnsupportedError, match="not a multiple of 32"):
        device.worker([program, saxpy])
    with device.worker([program], idle=IDLE) as worker:
        out_ = np.empty(80, np.uint32)
        worker.call(program, out=out_)
    np.testing.assert_array_equal(np.tile(np.arange(40)[::-1], 2), out_)
