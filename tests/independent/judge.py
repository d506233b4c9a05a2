"""A case on a device: run, and compared with what it must give, element by element as bit patterns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from arrays import arguments, patterns, to_array
from bundled import Bundler
from draw_large import LargeCase
from draw_streams import StreamCase
from judge_arrays import StreamRunner, run_large, stream_differences
from number_formats import from_bits
from oracle import Failure
from oracle_bounds import Allowed
from program_text import program_text
from program_tree import Program
from random_cases import AnyCase, Case
from variants import constants_as_scalars

import vyre_cuda as vc
from vyre_cuda.ir.core import limits
from vyre_cuda.runtime.kernel import large_entry

AGREES, WRONG, REFUSED, KNOWN, SKIPPED = "agrees", "wrong", "refused", "known", "skipped"
# Elements of one result that a finding shows.
SHOWN = 16

# Defects that have a place in the queue: (name, what the error's text has). They are counted apart.
KNOWN_DEFECTS: tuple[tuple[str, str], ...] = ()

Outputs = dict[str, Any] | Failure


@dataclass(slots=True)
class Verdict:
    """`compared` counts elements; `differences` are lines for people."""

    state: str
    compared: int = 0
    bundled: bool = False
    differences: list[str] = field(default_factory=list)


@contextmanager
def several_elements() -> Iterator[None]:
    """Kernels compiled here take several elements a thread in launches of any size."""
    before, limits.LARGE_LAUNCH = limits.LARGE_LAUNCH, 1
    try:
        yield
    finally:
        limits.LARGE_LAUNCH = before


def run(kernel: Any, program: Program) -> Outputs:
    """The results of a call by name, or the failure that it reported."""
    if program.work is not None:
        return _launched(kernel, program)
    try:
        found = kernel(grid=program.grid, **arguments(program))
    except vc.KernelAssertionError as error:
        return Failure(error.thread, error.statement, error.message, _index(error.index))
    names = program.results
    results = dict(zip(names, found if len(names) > 1 else (found,), strict=True))
    for name, array in results.items():
        assert array.shape == (program.buffers[name].shape or (array.size,)), f"{name} has the shape {array.shape}"
    return {name: array.ravel() for name, array in results.items()}


def _launched(kernel: Any, program: Program) -> Outputs:
    """The results on device arrays: what a kernel reads in host memory has one element a thread."""
    if not isinstance(kernel, vc.Kernel):
        return dict(zip(program.results, _tuple(kernel(**arguments(program))), strict=True))
    given = {
        name: kernel.device.array(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments(program).items()
    }
    for name in program.results:
        buffer = program.buffers[name]
        if buffer.role == "out":
            given[name] = kernel.device.zeros(len(buffer.values), getattr(vc, buffer.type))
    kernel.launch(**given)
    return {name: given[name].numpy() for name in program.results}


def _tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def _index(index: int | None) -> int | None:
    """The record of a failure has 64 bits for an index of any type."""
    return None if index is None else index & (1 << 64) - 1


def wanted_outputs(case: Case) -> Outputs:
    assert case.wanted is not None
    failure = case.wanted.failure
    if failure is not None:
        return replace(failure, index=_index(failure.index))
    buffers = case.program.buffers
    return {name: to_array(buffers[name].type, case.wanted.buffers[name]) for name in case.program.results}


def differences(program: Program, wanted: Outputs, found: Outputs) -> list[str]:
    """One line for each element that differs, the first of each result."""
    if isinstance(wanted, Failure) or isinstance(found, Failure):
        return [] if wanted == found else [f"wanted {_told(wanted)}, found {_told(found)}"]
    lines: list[str] = []
    for name, array in wanted.items():
        type_ = program.buffers[name].type
        if array.dtype == found[name].dtype and array.tobytes() == found[name].tobytes():
            continue
        mine, theirs = patterns(type_, array), patterns(type_, np.asarray(found[name]))
        if mine.shape != theirs.shape:
            lines.append(f"{name}: wanted {mine.size} elements, found {theirs.size}")
            continue
        places = np.flatnonzero(mine != theirs)
        width = mine.dtype.itemsize * 2
        for at in places[:SHOWN]:
            pair = f"0x{mine[at]:0{width}x}", f"0x{theirs[at]:0{width}x}"
            lines.append(f"{name}[{at}]: wanted {array[at]} ({pair[0]}), found {found[name][at]} ({pair[1]})")
        if places.size > SHOWN:
            lines.append(f"{name}: {places.size} of {mine.size} elements differ")
    return lines


def _told(outputs: Outputs) -> str:
    return str(outputs) if isinstance(outputs, Failure) else "results"


class Judge:
    """Runs cases on one device.

    `bundles`: each so-manieth by way of a bundle. `large`: also those of arrays beyond 4 GiB, which few processes
    should at a time.
    """

    def __init__(self, device: vc.Device, *, bundles: int = 0, large: bool = False) -> None:
        self.device = device
        self.large = large
        self.bundler = Bundler(device, bundles) if bundles else None
        self._streams: StreamRunner | None = None
        self._emulator: vc.Device | None = None

    def described(self) -> dict[str, Any]:
        """What a summary says of the device."""
        properties = self.device.properties
        made = "" if self.bundler is None else self.bundler.described
        return {"device": properties.name, "driver": properties.driver_version, "images made ahead": made or "none"}

    def judge(self, case: AnyCase) -> Verdict:
        """The verdict. Raises what the package refuses the program with."""
        if isinstance(case, LargeCase):
            return self._large(case)
        if isinstance(case, StreamCase):
            return self._launches(case)
        program = vc.parse(program_text(case.program))
        bundled = self.bundler is not None and self.bundler.takes(case)
        if bundled:
            kernel = self.bundler.kernel(program, case.options)
        else:
            with several_elements() if case.program.work else nullcontext():
                kernel = self.device.compile(program, **case.options)
                large_entry.several_of(kernel)  # not at its first launch
        found = run(kernel, case.program)
        if case.allowed is not None:
            lines = not_allowed(case.allowed, found)
        elif case.wanted is None:
            lines = self._compared(case, program, found)
        else:
            lines = differences(case.program, wanted_outputs(case), found)
        return Verdict(WRONG if lines else AGREES, _count(found), bundled, lines)

    def _compared(self, case: Case, program: vc.Program, found: Outputs) -> list[str]:
        """Against interpreter or emulator, and the same program with nothing that folds."""
        if self.device.properties.is_emulator or len(case.program.body) % 4 == 0:
            reference = run(partial(vc.evaluate, program), case.program)
        else:
            self._emulator = self._emulator or vc.Device("emulator")
            reference = run(self._emulator.compile(program), case.program)
        lines = differences(case.program, reference, found)
        if not lines and len(case.program.body) % 3 == 0:
            variant = constants_as_scalars(case.program)
            other = run(self.device.compile(vc.parse(program_text(variant))), variant)
            lines = [f"without constants: {line}" for line in differences(case.program, other, found)]
        return lines

    def _launches(self, case: StreamCase) -> Verdict:
        self._streams = self._streams or StreamRunner(self.device)
        lines = stream_differences(case, self._streams.run(case))
        compared = sum(len(values) for values in case.wanted.values())
        return Verdict(WRONG if lines else AGREES, compared, differences=lines)

    def _large(self, case: LargeCase) -> Verdict:
        if not self.large or self.device.properties.is_emulator:
            return Verdict(SKIPPED)
        try:
            lines = run_large(self.device, case)
        except vc.ResourceError:
            return Verdict(SKIPPED)
        compared = sum(len(values) for values in case.wanted.values())
        return Verdict(WRONG if lines else AGREES, compared, differences=lines)


def _count(found: Outputs) -> int:
    return 1 if isinstance(found, Failure) else sum(array.size for array in found.values())


def not_allowed(allowed: dict[str, list[Allowed]], found: Outputs) -> list[str]:
    if isinstance(found, Failure):
        return [f"wanted results, found {found}"]
    lines = []
    for name, elements in allowed.items():
        if not elements:
            continue
        bits = patterns(elements[0].type, np.asarray(found[name]))
        for at, element in enumerate(elements):
            value = from_bits(element.type, int(bits[at]))
            if not element.admits(value):
                near = "" if element.ulp is None else f" within {element.ulp} ULP"
                lines.append(f"{name}[{at}]: wanted one of {element.values}{near}, found {value!r} ({bits[at]:#x})")
    return lines


def refusal(error: Exception) -> Verdict:
    """A valid program that was refused; by name where that is known."""
    text = f"{type(error).__name__}: {error}"
    for name, part in KNOWN_DEFECTS:
        if part in text:
            return Verdict(KNOWN, differences=[name])
    return Verdict(REFUSED, differences=[text])
