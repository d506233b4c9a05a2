"""A case on a device: run, and compared with what it must give, element by element as bit patterns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from arrays import arguments, patterns, to_array
from bundled import Bundler
from oracle import Failure
from program_text import program_text
from program_tree import Program
from random_cases import Case

import vyre_cuda as vc

AGREES, WRONG, REFUSED, KNOWN = "agrees", "wrong", "refused", "known"
# Elements of one result that a finding shows.
SHOWN = 16

# Defects that have a place in the queue: (name, what the error's text has). They are counted apart.
KNOWN_DEFECTS: tuple[tuple[str, str], ...] = (
    ("fmod behind a decided condition", "@!0"),
    ("a loop of 2^63 trips", "OverflowError"),
)

Outputs = dict[str, Any] | Failure


@dataclass(slots=True)
class Verdict:
    """`compared` counts elements; `differences` are lines for people."""

    state: str
    compared: int = 0
    bundled: bool = False
    differences: list[str] = field(default_factory=list)


def run(kernel: Any, program: Program) -> Outputs:
    """The results of a call by name, or the failure that it reported."""
    try:
        found = kernel(grid=program.grid, **arguments(program))
    except vc.KernelAssertionError as error:
        return Failure(error.thread, error.statement, error.message, _index(error.index))
    names = program.results
    return dict(zip(names, found if len(names) > 1 else (found,), strict=True))


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
        lines += [
            f"{name}[{at}]: wanted {array[at]} (0x{mine[at]:0{width}x}), found {found[name][at]} (0x{theirs[at]:0{width}x})"
            for at in places[:SHOWN]
        ]
        if places.size > SHOWN:
            lines.append(f"{name}: {places.size} of {mine.size} elements differ")
    return lines


def _told(outputs: Outputs) -> str:
    return str(outputs) if isinstance(outputs, Failure) else "results"


class Judge:
    """Runs cases on one device."""

    def __init__(self, device: vc.Device, *, bundles: bool = False) -> None:
        self.device = device
        self.bundler = Bundler(device) if bundles else None

    def described(self) -> dict[str, Any]:
        """What a summary says of the device."""
        properties = self.device.properties
        made = "" if self.bundler is None else self.bundler.described
        return {"device": properties.name, "driver": properties.driver_version, "images made ahead": made or "none"}

    def judge(self, case: Case) -> Verdict:
        """The verdict. Raises what the package refuses the program with."""
        program = vc.parse(program_text(case.program))
        bundled = self.bundler is not None and self.bundler.takes(case)
        if bundled:
            kernel = self.bundler.kernel(program, case.options)
        else:
            kernel = self.device.compile(program, **case.options)
        found, wanted = run(kernel, case.program), wanted_outputs(case)
        lines = differences(case.program, wanted, found)
        compared = 1 if isinstance(wanted, Failure) else sum(array.size for array in wanted.values())
        return Verdict(WRONG if lines else AGREES, compared, bundled, lines)


def refusal(error: Exception) -> Verdict:
    """A valid program that was refused; by name where that is known."""
    text = f"{type(error).__name__}: {error}"
    for name, part in KNOWN_DEFECTS:
        if part in text:
            return Verdict(KNOWN, differences=[name])
    return Verdict(REFUSED, differences=[text])
