"""Mistakes of a first hour with the package: each is refused in words that say what to write, or does what is meant."""

from __future__ import annotations

import array
import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs

F32 = np.float32
X = np.arange(8, dtype=F32)


class Series:
    """As a column of a table in another library."""

    def to_numpy(self) -> np.ndarray:
        return X


class Things:
    """A device with one of everything on it."""

    def __init__(self, device: vc.Device) -> None:
        self.device = device
        self.program = programs.saxpy()
        self.kernel = device.compile(self.program)
        self.x, self.out = device.array(X), device.zeros(X.size, vc.f32)
        self.call = self.kernel.bind(self.x, self.x, self.out, 2.0)
        with device.record() as self.graph:
            self.call()
        self.stream = device.stream()
        self.event = self.stream.record()
        self.pending = self.kernel.submit(X, X, 2.0)
        self.replay = self.graph.submit()
        self.recorded = self.kernel.record(X, X, 2.0)
        self.worker = device.worker([self.kernel])


@pytest.fixture
def things(device: vc.Device) -> Things:
    return Things(device)


# ---- what belongs to a process --------------------------------------------------------------------------------------

BOUND = ["device", "kernel", "call", "graph", "stream", "event", "pending", "replay", "recorded", "worker"]


@pytest.mark.parametrize("name", [*BOUND, "x"])
def test_what_belongs_to_a_device_is_not_pickled(things: Things, name: str) -> None:
    with pytest.raises(TypeError, match=r"belongs to a device that this process has opened.*NumPy arrays"):
        pickle.dumps(getattr(things, name))


@pytest.mark.parametrize("name", BOUND)
def test_what_belongs_to_a_device_is_not_copied(things: Things, name: str) -> None:
    with pytest.raises(TypeError, match="belongs to a device"):
        copy.copy(getattr(things, name))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_an_array_has_memory_of_its_own(things: Things, copied: Callable[[Any], Any]) -> None:
    view = things.x[2:5]
    other = copied(view)

    other.fill(9.0)
    np.testing.assert_array_equal(X, things.x.numpy())
    np.testing.assert_array_equal(np.full(3, 9, F32), other.numpy())
    other.free()
    assert not view.is_freed


def test_a_copy_in_a_recording_is_made_at_each_replay(device: vc.Device) -> None:
    x = device.array(X)
    with device.record() as graph:
        other = copy.copy(x)

    for value in (3.0, 4.0):
        x.fill(value)
        graph.replay()
        np.testing.assert_array_equal(np.full(8, value, F32), other.numpy())


POOL = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
import vyre_cuda as vc

def fail():
    b = vc.Builder("fails", block=1)
    out = b.output("out", vc.u32, size=1)
    b.assert_(out.size > 5, "too small")
    vc.Device("emulator").run(b.build())

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        error = pool.submit(fail).exception(timeout=600)
    print(type(error).__name__, error.message, error.program, error.thread)
"""


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.emulator
def test_a_failed_assertion_in_a_process_pool_arrives_as_itself(tmp_path: Path) -> None:
    file = tmp_path / "pool.py"
    file.write_text(POOL)

    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=600, check=False)

    assert done.stdout == "KernelAssertionError too small fails 0\n", done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kernel", "<vyre_cuda.Kernel saxpy on "),
        ("program", "<vyre_cuda.Program saxpy(x, y, out, a)>"),
        ("call", "<vyre_cuda.BoundCall of saxpy on "),
        ("stream", "<vyre_cuda.Stream 0x"),
        ("event", "<vyre_cuda.Event "),
        ("pending", "<vyre_cuda.Pending of saxpy, "),
        ("replay", "<vyre_cuda.PendingReplay of <vyre_cuda.Graph 1 step"),
    ],
)
def test_things_say_what_they_are(things: Things, name: str, text: str) -> None:
    assert repr(getattr(things, name)).startswith(text)


def test_things_of_a_closed_device_say_what_they_are(device_name: int | str) -> None:
    things = Things(vc.Device(device_name))
    things.device.close()

    assert repr(things.stream) == "<vyre_cuda.Stream of a closed device>"
    assert "closed" in repr(things.event)
    for name in ("kernel", "call", "graph", "pending", "replay", "recorded", "x"):
        assert repr(getattr(things, name)).startswith("<vyre_cuda.")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (X.astype(">f4"), r"write x\.astype\(x\.dtype\.newbyteorder\('='\)\)"),
        (X.astype(np.complex64), r"pass x\.real and x\.imag as two arrays"),
        (np.zeros(3, [("mass", "f4")]), r"pass its fields as arrays of their own, such as x\['mass'\]"),
        (np.zeros(3, object), r"convert it with x\.astype"),
    ],
    ids=["byte order", "complex", "fields", "objects"],
)
def test_a_dtype_that_programs_do_not_have_is_told_what_to_write(
    device: vc.Device, array: np.ndarray[Any, Any], message: str
) -> None:
    for take in (device.array, device.empty_like):
        with pytest.raises(TypeError, match=message):
            take(array)


# ---- arrays that are none -------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "list": ([1.0, 2.0], r"a list \(write np.array\(x, dtype\)\)"),
    "tuple": ((1.0, 2.0), r"np.array\(x, dtype\)"),
    "series": (Series(), r"a Series \(write x.to_numpy\(\)\)"),
    "bytes": (bytes(32), r"a bytes \(write np.frombuffer\(x, dtype\)\)"),
    "array.array": (array.array("f", X), r"np.frombuffer"),
    "memoryview": (memoryview(bytes(32)), r"np.frombuffer"),
    "masked": (np.ma.masked_array(X, X > 3), r"MaskedArray, and a device has no masks"),
    "NumPy scalar": (F32(3), r"np.array\(\[x\]\)"),
    "number": (3.0, "a float"),
    "None": (None, "None"),
}


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(
    "take",
    [
        lambda t, v: t.device.array(v),
        lambda t, v: t.device.register(v),
        lambda t, v: t.device.upload([(t.x, v)]),
        lambda t, v: t.x.copy_from(v),
        lambda t, v: t.kernel(v, X, 2.0),
        lambda t, v: t.kernel(X, X, 2.0, out=(v,)) if v is not None else t.kernel(v, X, 2.0),
        lambda t, v: t.kernel.submit(X, v, 2.0),
        lambda t, v: t.recorded.replay(v),
        lambda t, v: vc.evaluate(t.program, v, X, 2.0),
        lambda t, v: t.x.numpy(out=v) if v is not None else t.device.array(v),
    ],
    ids=["array", "register", "upload", "copy_from", "call", "out=", "submit", "replay", "evaluate", "numpy"],
)
def test_what_is_no_array_is_refused_with_the_way_out(things: Things, take: Callable[..., Any], value: str) -> None:
    given, text = WRONG[value]

    with pytest.raises(TypeError, match=text):
        take(things, given)


def test_a_masked_page_locked_array_is_refused_in_a_recording(device: vc.Device) -> None:
    pinned, x = device.pinned_empty(8, vc.f32), device.array(X)

    with device.record() as graph:
        with pytest.raises(TypeError, match="masks"):
            x.copy_from(np.ma.masked_array(pinned, X > 3))
        with pytest.raises(TypeError, match="masks"):
            graph.download(x, np.ma.masked_array(pinned, X > 3))

    assert len(graph) == 0


# ---- sizes and numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda k, d: k(X),
        lambda k, d: k.submit(X),
        lambda k, d: k.timed(X),
        lambda k, d: k.record(X),
        lambda k, d: k(X, out=np.zeros(8, F32)),
        lambda k, d: k.launch(d.array(X), d.zeros(8, vc.f32)),
        lambda k, d: k.bind(d.array(X), d.zeros(8, vc.f32)),
        lambda k, d: vc.evaluate(k.program, X),
    ],
)
def test_an_output_size_that_wraps_is_refused_with_its_numbers(device: vc.Device, use: Callable[..., Any]) -> None:
    b = vc.Builder("shrinks", block=4)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size - 10)
    out[0] = x[0]
    kernel = device.compile(b.build())

    with pytest.raises(ValueError, match=r"is -2, which is out of range of u32; size\(x\) = 8"):
        use(kernel, device)
    assert kernel(np.ones(11, F32)).tolist() == [1]


def test_a_numpy_scalar_of_another_type_is_taken_where_it_is_exact(things: Things) -> None:
    for number in (np.float64(2.0), np.int64(2), np.float16(2), np.uint8(2)):
        np.testing.assert_array_equal(3 * X, things.kernel(X, X, number))
        things.kernel.launch(things.x, things.x, things.out, number)
        np.testing.assert_array_equal(3 * X, things.out.numpy())
    with pytest.raises(TypeError, match=r"cannot represent 0\.1 exactly \(write float\(\.\.\.\) to round it\)"):
        things.kernel(X, X, np.float64(0.1))
    np.testing.assert_array_equal(X * F32(0.1) + X, things.kernel(X, X, float(np.float64(0.1))))
    with pytest.raises(OverflowError, match="0 is beyond the largest finite f32"):
        things.kernel(X, X, -(10**400))
    with pytest.raises(OverflowError, match="beyond the largest finite f32"):
        things.kernel(X, X, np.float64(1e300))
    with pytest.raises(TypeError, match="bool"):
        things.kernel(X, X, np.bool_(True))


# ---- what is easily written -----------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[Callable[[Things], Any], type[Exception], str]] = {
    "a Builder for a Program": (lambda t: t.device.compile(vc.Builder("b")), TypeError, r"\.build\(\)"),
    "text for a Program": (lambda t: t.device.compile("program p"), TypeError, "str"),
    "a function for a Program": (lambda t: t.device.compile(lambda x: x), TypeError, r"decorate it with @vc\.kernel"),
    "a function evaluated": (lambda t: vc.evaluate(lambda x: x, X), TypeError, r"not a function \(decorate"),
    "a function bundled": (lambda t: vc.bundle([lambda x: x], "x.vyre"), TypeError, r"not a function \(decorate"),
    "a copied Builder": (lambda t: copy.copy(vc.Builder("b")), TypeError, "Program"),
    "np.asarray": (lambda t: np.asarray(t.x), TypeError, r"\.numpy\(\)"),
    "a truth value": (lambda t: bool(vc.global_id.x < 3), TypeError, r"b\.if_"),
    "a sum with NumPy": (lambda t: t.x + X, TypeError, "has no arithmetic"),
    "a method of NumPy": (lambda t: t.x.sum(), AttributeError, r"vc\.algorithms\.sum\(a\), or a\.numpy\(\)\.sum"),
    "an attribute of NumPy": (lambda t: t.x.T, AttributeError, r"vc\.algorithms\.transpose\(a\)"),
    "a cast as in NumPy": (lambda t: t.x.astype(F32), AttributeError, r"@vc\.vectorize, or a\.numpy\(\)\.astype"),
    "a copy as in CuPy": (lambda t: t.x.get(), AttributeError, r"write a\.numpy\(\)$"),
    "a loop over an array": (lambda t: list(t.x), TypeError, "iterable"),
    "a slice with a step": (lambda t: t.x[::2], ValueError, "step"),
    "an index beyond": (lambda t: t.x[8], IndexError, "8 elements"),
    "a host array launched": (lambda t: t.kernel.launch(X, X, t.out, 1.0), TypeError, r"device\.array\(x\)"),
    "no out launched": (lambda t: t.kernel.launch(t.x, t.x, 1.0), TypeError, "missing: a"),
    "an out called": (lambda t: t.kernel(X, X, X, 1.0), TypeError, "out="),
    "f64 for f32": (
        lambda t: t.kernel(X.astype(float), X, 1.0),
        TypeError,
        r"float64.*needs float32 \(write x\.astype\(vc\.f32\.dtype\)\)$",
    ),
    "a NumPy type": (lambda t: t.device.zeros(3, np.float32), TypeError, r"vc\.f32"),
    "a short out": (lambda t: t.kernel(X, X, 1.0, out=np.zeros(3, F32)), ValueError, "3 elements, not 8"),
    "a short inout launched": (lambda t: t.kernel.launch(t.x, t.x, t.out[:3], 1.0), ValueError, "3 elements, not 8"),
    "a freed array": (lambda t: (t.x.free(), t.kernel(t.x, X, 1.0)), ValueError, "freed"),
    "one array in and out": (lambda t: t.kernel.launch(t.x, t.x, t.x, 1.0), ValueError, "overlap"),
    "a grid of floats": (lambda t: t.kernel(X, X, 1.0, grid=2.0), TypeError, "grid"),
    "a grid of 0": (lambda t: t.kernel(X, X, 1.0, grid=0), ValueError, "grid"),
    "a misspelled parameter": (lambda t: t.kernel(X, X, alpha=1.0), TypeError, "not alpha"),
    "a stream of an event": (lambda t: t.kernel.launch(t.x, t.x, t.out, 1.0, stream=t.event), TypeError, "stream"),
    "a negative size": (lambda t: t.device.zeros(-1, vc.f32), ValueError, "-1"),
    "a size of a float": (lambda t: t.device.zeros(8.0, vc.f32), TypeError, "float"),
    "an unknown symbol": (lambda t: t.graph.replay(a=1.0), TypeError, "no symbol a"),
    "an unknown precision": (lambda t: t.device.compile(t.program, precision="fp16"), ValueError, "fp16"),
    "a word for max_ulp": (
        lambda t: t.device.compile(t.program, max_ulp="2"),
        TypeError,
        "max_ulp= is a str; it must be a number",
    ),
    "a number for a target": (lambda t: vc.ptx(t.program, target=90), TypeError, 'such as "sm_90", not an int'),
    "bytes for text": (lambda t: vc.parse(b"program p"), TypeError, "parse takes a str, not a bytes"),
    "a number bundled": (lambda t: vc.bundle(3, "x.vyre"), TypeError, "takes Programs, not an int"),
    "a kernel bundled": (lambda t: vc.bundle([t.kernel], "x.vyre"), TypeError, "not a Kernel .write .program"),
    "another kernel of a worker": (lambda t: t.worker.call("saxpy", X), ValueError, "give one of worker.kernels"),
    "a name that is none": (lambda t: vc.nosuch, AttributeError, "nosuch"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_and_the_device_goes_on(things: Things, mistake: str) -> None:
    make, kind, text = MISTAKES[mistake]

    with pytest.raises(kind, match=text):
        make(things)

    np.testing.assert_array_equal(3 * X, things.kernel(X, X, 2.0))


def test_completion_shows_what_users_call(device: vc.Device) -> None:
    b = vc.Builder("ones")
    x = b.inout("x", vc.f32)
    x[vc.global_id.x] = 1.0
    kernel = device.compile(b.build())
    array = device.zeros(4, vc.f32)
    recorded = kernel.record(np.ones(4, np.float32))

    def shown(of: object) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    assert {"bind", "launch", "ptx", "submit"} <= shown(kernel)
    assert not shown(kernel) & {"add_row", "lowered", "plain_arguments", "prepared", "scalar", "simple", "submit_plain"}
    assert shown(kernel.bind(array)) == {"set", "values"}
    assert shown(recorded) == {"replay", "skipped"}
    assert not shown(array) & {"buffer", "count", "offset", "release", "typenum"}
    assert not shown(device) & {"context", "explain", "waiter"}
