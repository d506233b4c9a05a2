"""The line of a program that made a launch is told with a later fault, always and of every way of launching."""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda._native.trace import origin
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..foreign_ptx import POKE

pytestmark = [pytest.mark.device, pytest.mark.emulator]

N = 256
X = np.ones(N, np.float32)
GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


@pytest.fixture(autouse=True)
def lazy(device: vc.Device, emulator: Emulator) -> None:
    """What is launched stays in flight until somebody waits."""
    emulator.stream_mode("lazy")


def lines(device: vc.Device) -> list[int]:
    """Of this file, which launched what is in flight, oldest first."""
    found = []
    for text in reversed(device.context.in_flight()):
        match = re.search(r", launched at (.*):(\d+), ", text)
        assert match is not None, text
        assert match[1] == __file__
        found.append(int(match[2]))
    return found


def here() -> int:
    """The line that calls this."""
    return sys._getframe(1).f_lineno


# ---- every way -------------------------------------------------------------------------------------------------------


def test_every_way_of_launching_says_its_line(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    call = saxpy.bind(*arrays, 2.0)
    poke = device.load(POKE, "poke", signature="ptr")
    bound_poke = poke.bind(arrays[2], grid=1, block=1)
    with device.record() as graph:
        saxpy.launch(*arrays, vc.symbol("a", 2.0))
    kept: list[Any] = []
    ways: dict[int, Callable[[], object]] = {
        here(): lambda: saxpy.launch(*arrays, 2.0),
        here(): lambda: saxpy.launch(*arrays, grid=4, a=2.0),
        here(): lambda: call(),
        here(): lambda: call(*arrays, 3.0),
        here(): lambda: call(*arrays, np.float32(3.0)),
        here(): lambda: graph.replay(),
        here(): lambda: graph.replay(a=4.0),
        here(): lambda: poke.launch(arrays[2], grid=1, block=1),
        here(): lambda: bound_poke(),
        here(): lambda: bound_poke(arrays[2]),
        here(): lambda: kept.append(saxpy.submit(X, X, 2.0)),
        here(): lambda: kept.append(saxpy.submit(X, y=X, a=2.0)),
    }
    for line, way in ways.items():
        for _ in range(3):
            device.synchronize()
            kept.clear()
            way()

            assert lines(device) == [line]


@pytest.mark.thin(4)
@pytest.mark.parametrize("way", ["call", "keywords", "run", "timed", "record"])
def test_call_that_waits_says_its_line_while_it_runs(way: str, emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        saxpy = device.compile(programs.saxpy())
        recorded = saxpy.record(X, X, 2.0)
        ways: dict[str, tuple[int, Callable[[], object]]] = {
            "call": (here(), lambda: saxpy(X, X, 2.0)),
            "keywords": (here(), lambda: saxpy(X, y=X, a=2.0)),
            "run": (here(), lambda: device.run(programs.saxpy(), X, X, 2.0)),
            "timed": (here(), lambda: saxpy.timed(X, X, 2.0)),
            "record": (here(), lambda: recorded.replay(X, X)),
        }
        line, call = ways[way]
        call()
        emulator.set("delay_us", 100_000)
        seen: list[str] = []

        def look() -> None:
            while not seen:
                seen.extend(device.context.in_flight())

        watcher = threading.Thread(target=look)
        watcher.start()
        call()
        emulator.set("delay_us", 0)
        while watcher.is_alive():
            call()
        watcher.join()

        assert f", launched at {__file__}:{line}, a call with host arrays" in seen[0]


def test_fault_names_the_line_that_launched_it_among_later_ones(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    poke = device.load(POKE, "poke", signature="ptr")
    call = saxpy.bind(*arrays, 2.0)
    culprit = here() + 1
    poke.launch(16, grid=1, block=1)
    for _ in range(3):
        call()
    saxpy.launch(*arrays, 2.0)
    with pytest.raises(vc.DeviceLostError) as caught:
        device.synchronize()

    assert f"poke with 0x10, launched at {__file__}:{culprit}, 5 launches ago in call order" in caught.value.launches


# ---- the same place and others ---------------------------------------------------------------------------------------


def test_two_lines_that_take_turns_keep_theirs(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    call = saxpy.bind(*arrays, 2.0)
    first = here() + 2
    for _ in range(4):
        call()
        call()
        saxpy.launch(*arrays, 2.0)

    assert lines(device) == [first, first + 1, first + 2] * 4


def test_a_place_is_remembered_once(device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]) -> None:
    call = saxpy.bind(*arrays, 2.0)

    def again() -> None:
        call()

    for _ in range(100):  # the interpreter specializes what runs often
        again()
    gc.collect()  # places of code that nothing refers to are not forgotten in between
    before = origin.places()
    for _ in range(1000):
        again()

    assert origin.places() == before


def launcher(line: int) -> Callable[[Callable[[], object]], None]:
    """A function that calls what it is given in this line of this file; its code is like that of others."""
    made: dict[str, Callable[[Callable[[], object]], None]] = {}
    exec(compile("\n" * (line - 1) + "def f(call): call()", __file__, "exec"), made)
    return made["f"]


def test_code_in_the_place_of_code_that_died_has_its_own_line(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    call = saxpy.bind(*arrays, 2.0)
    addresses: set[int] = set()
    before = origin.places()
    for line in range(1000, 20_000):
        if line >= 1200 and len(addresses) < line - 1000:
            break  # some came again
        function = launcher(line)
        code: CodeType = function.__code__  # type: ignore[attr-defined]
        addresses.add(id(code))
        for _ in range(2):
            function(call)
        assert lines(device) == [line, line]
        device.synchronize()
        del function, code
        if not GIL and line % 10 == 0:
            gc.collect()  # which is what frees code there
    gc.collect()

    assert len(addresses) < line - 1000, "no address came again, so nothing was tested"
    assert origin.places() <= before + 1


def test_threads_that_share_a_call_keep_their_lines(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    """One kernel, so one remembered place, and a stream for each thread."""
    rounds = 10
    wrong: list[tuple[int, list[str]]] = []
    streams = [device.stream() for _ in range(4)]
    names = [f"0x{stream.handle:x}" for stream in streams]

    def launched(number: int) -> None:
        function = launcher(2000 + number)
        bound = saxpy.bind(*arrays, 2.0, stream=streams[number])
        for _ in range(rounds):
            function(bound)

    side_by_side([partial(launched, number) for number in range(4)])
    for number, name in enumerate(names):
        found = [text for text in device.context.in_flight() if text.endswith(f"on stream {name}")]
        if len(found) != rounds or any(f"{__file__}:{2000 + number}, " not in text for text in found):
            wrong.append((number, found))

    assert wrong == []


def test_a_long_path_is_cut_in_front(device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]) -> None:
    made: dict[str, Any] = {}
    path = f"/{'deep/' * 100}file.py"
    exec(compile("def f(call): call()", path, "exec"), made)
    made["f"](saxpy.bind(*arrays, 2.0))
    (text,) = device.context.in_flight()

    assert "launched at ..." in text
    assert text.endswith("/deep/file.py:1, 1 launch ago in call order")


def test_a_path_that_is_no_utf8_is_told_as_far_as_it_is(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    made: dict[str, Any] = {}
    exec(compile("def f(call): call()", "/tmp/\udcff.py", "exec"), made)
    made["f"](saxpy.bind(*arrays, 2.0))

    assert "launched at /tmp/?.py:1, 1 launch ago" in device.context.in_flight()[0]
