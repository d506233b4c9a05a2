"""`check="initialized"` on the emulator: who reads or returns elements of a result that no thread wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.emulator import Emulator
from vyre_cuda.testing.strategies import programs_using

pytestmark = pytest.mark.emulator

HEAD = "program k\nblock 4\nin x: u32\nout o: u32[size(x)] unzeroed\n"
FILL = "store o[global_id.x], u32:1\n"
SOME = "if greater(load(x[global_id.x]), u32:1)\nstore o[global_id.x], u32:1\nend\n"
X = np.arange(8, dtype=np.uint32)


@pytest.fixture(scope="module")
def checked() -> Iterator[vc.Device]:
    with vc.Device("emulator", check="initialized") as device:
        yield device


def program(body: str, head: str = HEAD) -> vc.Program:
    return vc.parse(f"{head}\n{body}", filename="k.vir")


@pytest.mark.parametrize(
    "body",
    [
        FILL,
        FILL + "store o[global_id.x], add(load(o[global_id.x]), u32:1)",
        "for i = u32:0 to size(o) step u32:1\nstore o[i], u32:1\nend",
        SOME + "if less_equal(load(x[global_id.x]), u32:1)\nstore o[global_id.x], u32:3\nend",
        # Beyond the end a load is 0, and reads nothing.
        SOME + "store o[global_id.x], load(o[size(o)])",
        "if less(global_id.x, u32:4)\nstore o[global_id.x], u32:1\nstore o[add(global_id.x, u32:4)], "
        "load(o[global_id.x])\nend",
        "atomic store o[global_id.x], u32:1 order relaxed scope device",
    ],
)
def test_what_was_written_may_be_read_and_returned(checked: vc.Device, body: str) -> None:
    found = checked.run(program(body), X)

    np.testing.assert_array_equal(found, vc.evaluate(program(body), X, check="initialized"))


WRONG = [
    SOME,
    "store o[u32:7], u32:1",
    "store o[global_id.x], load(o[global_id.x])",
    "if greater(global_id.x, u32:4)\nstore o[global_id.x], load(o[global_id.x])\nend",
    "if less(global_id.x, u32:4)\nstore o[global_id.x], u32:1\nend\n"
    "store o[global_id.x], add(load(o[global_id.x]), u32:1)",
    "store o[load(x[global_id.x])], load(x[load(o[u32:3])])",
    "if equal(load(o[u32:1]), u32:0)\nstore o[u32:0], u32:1\nend",
    'assert greater(load(o[u32:1]), u32:0), "small"',
    "atomic add o[global_id.x], u32:1 order relaxed scope device",
    "let v = atomic exchange o[u32:3], u32:1 order relaxed scope device\nstore o[v], v",
    "let v = atomic compare_exchange o[u32:3], u32:1, u32:2 order relaxed scope device\nstore o[v], v",
]


def facts(run: Callable[[], Any]) -> tuple[Any, ...]:
    with pytest.raises(vc.UninitializedError) as caught:
        run()
    error = caught.value
    return str(error), error.program, error.buffer, error.index, error.statement, error.thread, error.source


@pytest.mark.parametrize("body", WRONG)
def test_the_error_is_the_interpreters(checked: vc.Device, body: str) -> None:
    made = program(body)

    assert facts(lambda: checked.run(made, X)) == facts(lambda: vc.evaluate(made, X, check="initialized"))


@pytest.mark.parametrize("element", [vc.u8, vc.bf16, vc.i32, vc.f64], ids=str)
@pytest.mark.parametrize("size", [40, 300_000], ids=["small", "large"])
def test_elements_of_every_width_are_named(checked: vc.Device, element: vc.Type, size: int) -> None:
    b = vc.Builder("gap", block=64)
    out = b.output("out", element, size=size, zeroed=False)
    i = vc.global_id.x
    with b.if_((i != 33) & (i != 37)):
        out[i] = element(1)

    text, _, buffer, index, *_ = facts(lambda: checked.run(b.build()))

    assert (buffer, index) == ("out", 33)
    assert text.endswith("(elements not written: 2)")


WAYS: dict[str, Callable[[vc.Device, vc.Kernel], Any]] = {
    "call": lambda device, kernel: kernel(X),
    "submit": lambda device, kernel: kernel.submit(X).result(),
    "timed": lambda device, kernel: kernel.timed(X),
    "out": lambda device, kernel: kernel(X, out=np.zeros(8, np.uint32)),
    "page-locked out": lambda device, kernel: kernel(X, out=device.pinned_empty(8, vc.u32)),
    "record": lambda device, kernel: kernel.record(X).replay(X),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_run_on_host_arrays_is_checked(checked: vc.Device, way: str) -> None:
    kernel = checked.compile(program(SOME))
    for _ in range(2):
        assert facts(lambda: WAYS[way](checked, kernel))[3] == 0
    fine = checked.compile(program(FILL))
    WAYS[way](checked, fine)  # the device goes on


def test_a_host_array_beside_a_device_array_is_checked(checked: vc.Device) -> None:
    kernel = checked.compile(program(SOME))

    assert facts(lambda: kernel(checked.array(X)))[3] == 0


def test_device_arrays_keep_what_they_hold_and_are_not_checked(checked: vc.Device) -> None:
    kernel = checked.compile(program(SOME))
    out = checked.array(np.full(8, 7, np.uint32))
    kernel.launch(checked.array(X), out)
    checked.synchronize()

    assert out.numpy().tolist() == [7, 7, 1, 1, 1, 1, 1, 1]


def test_several_iterations_are_not_checked(checked: vc.Device) -> None:
    checked.compile(program(SOME))(X, iterations=2)


def test_an_assertion_that_fails_comes_first(checked: vc.Device) -> None:
    made = program('assert greater(load(x[global_id.x]), u32:0), "zero"\n' + FILL)

    with pytest.raises(vc.KernelAssertionError):
        checked.run(made, X)


def test_races_and_reads_are_found_by_one_device() -> None:
    with vc.Device("emulator", check=["races", "initialized"]) as device:
        with pytest.raises(vc.UninitializedError):
            device.run(program(SOME), X)
        with pytest.raises(vc.DataRaceError):
            device.run(program(FILL + "store o[u32:0], global_id.x"), X)


def test_the_first_of_several_results_is_named(checked: vc.Device) -> None:
    made = program("store p[u32:1], u32:1", head=HEAD + "out p: u32[u32:2] unzeroed\nout q: u32[u32:2]\n")

    assert facts(lambda: checked.run(made, X))[2:4] == ("o", 0)


def test_shared_and_local_arrays_and_other_outs_begin_with_zeros(checked: vc.Device) -> None:
    head = "program k\nblock 4\nin x: u32\nout o: u32[size(x)]\nshared t: u32[4]\nlocal l: u32[2]\n"
    body = "store o[global_id.x], add(load(o[global_id.x]), add(load(t[u32:0]), load(l[u32:1])))"

    assert checked.run(program(body, head), X).tolist() == [0] * 8


def test_a_run_that_failed_leaves_nothing_behind(checked: vc.Device, emulator: Emulator) -> None:
    """What it announced is at the addresses of the next run."""
    some, fill = (checked.compile(program(body)) for body in (SOME, FILL))
    for kernel in (some, fill):
        for call in ("cuGraphLaunch", "cuLaunchKernel"):
            emulator.fail(call, result=1, repeat=True)
        with pytest.raises(vc.DriverError):
            kernel(X)
        emulator.reset()

    fill(X)
    assert facts(lambda: some(X))[3] == 0
    fill(X)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_programs_that_write_all_of_it_are_right(checked: vc.Device, data: st.DataObject) -> None:
    made, arguments = data.draw(programs_using(data.draw(st.sampled_from(sorted(OPS)))))

    assert_same(checked.run(made, *arguments), vc.evaluate(made, *arguments))
