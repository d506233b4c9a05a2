"""Cases of device arrays: launches on several streams, and arrays beyond 4 GiB."""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, arguments, patterns, to_array
from draw_large import LargeCase
from draw_streams import STREAMS, StreamCase
from program_text import program_text
from program_tree import Program

import vyre_cuda as vc


def scalars_of(program: Program) -> dict[str, Any]:
    return {name: value for name, (_, value) in program.scalars.items()}


def unequal(name: str, type_: str, wanted: Array, found: Array) -> list[str]:
    mine, theirs = patterns(type_, wanted), patterns(type_, found)
    places = np.flatnonzero(mine != theirs)[:16]
    return [f"{name}[{at}]: wanted {wanted[at]} ({mine[at]:#x}), found {found[at]} ({theirs[at]:#x})" for at in places]


class StreamRunner:
    """Streams are made once."""

    def __init__(self, device: vc.Device) -> None:
        self._device = device
        self._streams: list[vc.Stream | None] = [*(device.stream() for _ in range(STREAMS)), None]

    def run(self, case: StreamCase) -> dict[str, Array]:
        """What the arrays hold in the end."""
        device = self._device
        kernels = [device.compile(vc.parse(program_text(launch.program))) for launch in case.launches]
        arrays = {name: device.array(to_array(type_, values)) for name, (type_, values) in case.arrays.items()}
        events: list[Any] = []
        for launch, kernel in zip(case.launches, kernels, strict=True):
            stream = self._streams[launch.stream]
            for earlier, how in launch.after:
                self._order(case.launches[earlier].stream, launch.stream, events[earlier], how)
            given = {name: arrays[name] for name in launch.program.buffers}
            kernel.launch(grid=launch.program.grid, stream=stream, **given, **scalars_of(launch.program))
            events.append(None if stream is None else stream.record())
        return {name: array.numpy() for name, array in arrays.items()}

    def _order(self, before: int, after: int, event: Any, how: str) -> None:
        """The order of calls has no events: it is waited for, or waits."""
        if before == after:
            return
        earlier, later = self._streams[before], self._streams[after]
        if how == "device" or earlier is None:
            self._device.synchronize()
        elif how == "stream" or later is None:
            earlier.synchronize()
        else:
            later.wait(event)


def stream_differences(case: StreamCase, found: dict[str, Array]) -> list[str]:
    lines = []
    for name, (type_, _) in case.arrays.items():
        lines += unequal(name, type_, to_array(type_, case.wanted[name]), found[name])
    return lines


def run_large(device: vc.Device, case: LargeCase) -> list[str]:
    """Differences."""
    type_ = case.program.buffers["far"].type
    kernel = device.compile(vc.parse(program_text(case.program)))
    given = arguments(case.program, without=("far",))
    far = device.empty(len(case.far), getattr(vc, type_))
    try:
        far.fill(case.far.value)
        found = device.zeros(len(case.wanted["found"]), getattr(vc, type_))
        kernel.launch(far=far, at=device.array(given["at"]), given=device.array(given["given"]), found=found)
        elements = device.download([(far, at, 1) for at in case.looked_at])
        held = np.concatenate([np.asarray(element) for element in elements])
        lines = unequal("found", type_, to_array(type_, case.wanted["found"]), found.numpy())
        wanted = to_array(type_, case.wanted["far"])
        return lines + [f"far, at {case.looked_at}: {line}" for line in unequal("far", type_, wanted, held)]
    finally:
        far.free()
        device.trim()
