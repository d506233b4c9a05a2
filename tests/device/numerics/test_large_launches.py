"""Which launches have several elements a thread, and when the code for them is compiled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen import several as codegen_several
from vyre_cuda.codegen.core.lowered import Several
from vyre_cuda.descriptors import stored
from vyre_cuda.ir.core import limits
from vyre_cuda.passes import elements
from vyre_cuda.runtime.kernel.large_entry import several_of
from vyre_cuda.testing.compare import assert_same

from .edge_values import edge_values
from .several_programs import BLOCK, branches_and_variables, neighbors, saxpy, scattered, without_guard

# ---- which launches --------------------------------------------------------------------------------------------------


@pytest.fixture
def telling(device_name: int | str, monkeypatch: pytest.MonkeyPatch) -> Iterator[vc.Device]:
    """A device whose kernel `ones` writes 2 where it has several elements a thread."""
    right = elements.several

    def planted(program: vc.Program, count: int = elements.ELEMENTS, *, sized: bool = True) -> vc.Program:
        return right(ones(2), count, sized=sized)

    monkeypatch.setattr(elements, "several", planted)
    monkeypatch.setattr(limits, "LARGE_LAUNCH", 10 * BLOCK)
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    with vc.Device(device_name) as device:
        yield device


def ones(value: int) -> vc.Program:
    b = vc.Builder("ones", block=BLOCK)
    n = b.scalar("n", vc.u32)
    x = b.inout("x", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < n):
        x[i] = value
    b.work(n)
    return b.build()


MANY, FEW = 10 * BLOCK - BLOCK + 1, 9 * BLOCK
LARGE = 1 << 18  # elements of an array that is copied to the device


def test_calls_and_launches(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    out, result = np.zeros(LARGE, np.int32), np.zeros(LARGE, np.int32)
    on_device = telling.zeros(MANY, vc.i32)

    for n, value in ((FEW, 1), (MANY, 2), (FEW, 1)):
        assert (k(n, out, out=result)[:n] == value).all()
        assert (k.submit(n, out, out=result).result()[:n] == value).all()
        assert (k(n, out[:MANY])[:n] == 1).all()  # in the host's memory
        for _ in range(3):
            k.launch(n, on_device)
            assert (on_device.numpy()[:n] == value).all()
        stream = telling.stream()
        k.launch(n, on_device, stream=stream)
        stream.synchronize()
        assert (on_device.numpy()[:n] == value).all()


def test_a_given_grid_is_launched_as_it_is(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)

    assert (k(MANY, np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32), grid=100)[:MANY] == 1).all()
    assert (k(n=MANY, x=np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32), grid=100)[:MANY] == 1).all()
    k.launch(MANY, on_device, grid=(100,))
    assert (on_device.numpy() == 1).all()
    k.bind(MANY, on_device, grid=100)()
    assert (on_device.numpy() == 1).all()


def test_arguments_by_name(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)

    assert (k(n=MANY, x=np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32))[:MANY] == 2).all()
    k.launch(n=MANY, x=on_device)
    assert (on_device.numpy() == 2).all()


def test_bound_calls_take_the_form_of_their_arguments(telling: vc.Device) -> None:
    on_device = telling.zeros(MANY, vc.i32)
    call = telling.compile(ones(1)).bind(FEW, on_device)

    for n, value in ((FEW, 1), (MANY, 2), (MANY, 2), (FEW, 1), (MANY, 2)):
        call(n, on_device)
        assert (on_device.numpy()[:n] == value).all()
        call()
        assert (on_device.numpy()[:n] == value).all()


def test_recorded_calls(telling: vc.Device) -> None:
    k = telling.compile(ones(1))

    for n in (FEW, MANY):
        assert (k.record(n, np.zeros(MANY, np.int32)).replay()[:n] == 1).all()  # in page-locked memory


def test_graphs_take_the_form_of_their_symbols(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)
    with telling.record() as graph:
        k.launch(vc.symbol("n", FEW), on_device)

    for n, value in ((FEW, 1), (MANY, 2), (FEW, 1), (MANY, 2)):
        graph.replay(n=n)
        assert (on_device.numpy()[:n] == value).all()
        on_device.fill(0)
        graph.update(n=n)
        graph.replay()
        assert (on_device.numpy()[:n] == value).all()


def test_iterations(telling: vc.Device) -> None:
    k = telling.compile(ones(1))

    assert (k(MANY, np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32), iterations=3)[:MANY] == 2).all()


def test_kernels_on_disk_keep_the_form(cache_root: Any, device_name: int | str) -> None:
    """A later process reads the entry, as it reads the kernel, and what it knows of kernels without one."""
    x = edge_values(vc.f32, 3 * limits.LARGE_LAUNCH // 2 + 1)
    far = np.zeros(limits.LARGE_LAUNCH, np.float64)
    found = []
    for compiles in (3, 0):
        with vc.Device(device_name) as device:
            kernel = device.compile(saxpy(vc.f32, block=256))
            assert_same(vc.evaluate(kernel.program, x, x), kernel(x, x))
            assert device.compile(saxpy(vc.f64)).several is None
            device.compile(saxpy(vc.f64))(far, far)
            found.append((kernel.several, several_of(device.compile(saxpy(vc.f64)))))
            assert device.stats().compiles == compiles

    assert found[0] == found[1]
    assert found[0][0] is not None
    assert found[0][1] is None


def test_a_damaged_file_is_written_again(cache_root: Any, device_name: int | str) -> None:
    with vc.Device(device_name) as device:
        wanted = several_of(device.compile(saxpy(vc.f32)))
    with pytest.MonkeyPatch.context() as patch, vc.Device(device_name) as device:
        kernel = device.compile(saxpy(vc.f32))
        patch.setattr(stored, "decode_several", lambda *_: int("no number"))
        assert several_of(kernel) == wanted
        assert device.stats().compiles == 1
    with vc.Device(device_name) as device:
        assert several_of(device.compile(saxpy(vc.f32))) == wanted
        assert device.stats().compiles == 0


# ---- when it is compiled ---------------------------------------------------------------------------------------------


def test_small_launches_compile_nothing_more(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)
    k.launch(FEW, on_device)
    k(FEW, np.zeros(LARGE, np.int32), out=np.zeros(LARGE, np.int32))
    k.launch(MANY, on_device, grid=100)  # the caller's own grid is not large
    call = k.bind(FEW, on_device)
    call()
    assert (k.several, telling.stats().compiles) == (None, 1)

    call(MANY, on_device)
    assert (on_device.numpy() == 2).all()
    assert k.several is not None
    for _ in range(3):
        k.launch(MANY, on_device)
    assert telling.stats().compiles == 2


@pytest.mark.parametrize("way", ("call", "submit", "timed", "launch", "bind", "graph", "by name", "iterations", "many"))
def test_the_first_large_launch_has_the_form(telling: vc.Device, way: str) -> None:
    """By each way of its own, as what comes later finds it compiled."""
    k = telling.compile(ones(1))
    on_device, host, out = telling.zeros(MANY, vc.i32), np.zeros(LARGE, np.int32), np.zeros(LARGE, np.int32)
    match way:
        case "call":
            k(MANY, host, out=out)
        case "submit":
            k.submit(MANY, host, out=out).result()
        case "timed":
            k.timed(MANY, host, out=out)
        case "launch":
            k.launch(MANY, on_device)
        case "bind":
            k.bind(MANY, on_device)()
        case "graph":
            with telling.record() as graph:
                k.launch(MANY, on_device)
            graph.replay()
        case "by name":
            k.launch(x=on_device, n=MANY)
        case "iterations":
            k(MANY, host, out=out, iterations=2)
        case _:
            k.launch_many([(MANY, on_device), (MANY, telling.zeros(MANY, vc.i32))])
    written = out if way in ("call", "submit", "timed", "iterations") else on_device.numpy()

    assert (written[:MANY] == 2).all()


def test_a_graph_whose_symbol_makes_a_launch_large(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)
    with telling.record() as graph:
        k.launch(vc.symbol("n", FEW), on_device)
    graph.replay()
    assert k.several is None

    graph.replay(n=MANY)
    assert (on_device.numpy() == 2).all()


def test_a_warmup_leaves_nothing_to_compile(telling: vc.Device) -> None:
    (k,) = telling.warmup([ones(1)])
    assert telling.stats().compiles == 2

    on_device = telling.zeros(MANY, vc.i32)
    k.launch(MANY, on_device)
    assert (on_device.numpy() == 2).all()
    assert telling.stats().compiles == 2


def test_threads_that_launch_first_share_the_entry(telling: vc.Device) -> None:
    k = telling.compile(ones(1))
    arrays = [telling.zeros(MANY, vc.i32) for _ in range(8)]
    begin = threading.Barrier(len(arrays))

    def launch(array: vc.DeviceArray) -> None:
        begin.wait()
        k.launch(MANY, array)

    with ThreadPoolExecutor(len(arrays)) as pool:
        list(pool.map(launch, arrays))

    assert all((array.numpy() == 2).all() for array in arrays)
    assert telling.stats().compiles == 2


def test_a_failure_is_that_of_the_launch_and_the_next_one_tries_again(
    telling: vc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = telling.compile(ones(1))
    on_device = telling.zeros(MANY, vc.i32)
    with monkeypatch.context() as patch:
        patch.setattr(codegen_several, "lowered", lambda *_, **__: Several("no PTX", "k_ones_several", 4, 1))
        with pytest.raises(vc.CompileError):
            k.launch(MANY, on_device)
    assert (on_device.numpy() == 0).all()
    k.launch(FEW, on_device)
    assert (on_device.numpy()[:FEW] == 1).all()

    k.launch(MANY, on_device)
    assert (on_device.numpy() == 2).all()


def test_kernels_that_keep_one_element_are_plain_after_the_first_large_launch(telling: vc.Device) -> None:
    program = saxpy(vc.f64, block=BLOCK)
    kernel = telling.compile(program)
    x, y = np.arange(MANY, dtype=np.float64), np.ones(MANY)
    assert kernel.large_from != 0
    for _ in range(2):
        assert_same(vc.evaluate(program, x, y), kernel(x, y))

    assert (kernel.large_from, kernel.several) == (0, None)
    assert telling.stats().compiles == 1


@pytest.mark.parametrize("bounds", ("check", "off"))
def test_a_kernel_has_the_parameters_of_its_form(device_name: int | str, bounds: str) -> None:
    """Sizes that only the form reads, too."""
    for program in (saxpy(vc.f32), saxpy(vc.u8), without_guard(), neighbors(), branches_and_variables(), scattered()):
        with vc.Device(device_name) as device:
            assert several_of(device.compile(program, bounds=bounds)) is not None
