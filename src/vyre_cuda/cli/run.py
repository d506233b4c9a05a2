"""`vyre-cuda run`: one call of a program with arguments from the command line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.devices import describe, opened
from vyre_cuda.cli.failures import UsageError, writing
from vyre_cuda.cli.sources import load_program
from vyre_cuda.cli.timing import EMULATED, Timing, duration, table
from vyre_cuda.cli.values import Given, read_arguments, takes_text
from vyre_cuda.errors import counted
from vyre_cuda.ir.call import call as calls
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bf16
from vyre_cuda.ir.semantics.elementwise import Array

Grid = tuple[int, ...]


def run(
    console: Console,
    *,
    file: Path,
    program: str | None,
    arguments: Sequence[str],
    device: str,
    seed: int,
    grid: Grid | None,
    save: Sequence[tuple[str, Path]],
    repeats: int | None,
) -> int:
    """Call it and print the results; `repeats` further calls are timed (None: no timings)."""
    chosen = load_program(file, program)
    given = read_arguments(chosen, arguments, seed=seed)
    _check(chosen, given, grid, save)
    with opened(device, console) as target:
        begin = time.perf_counter_ns()
        kernel = target.compile(chosen)
        compile_ns = time.perf_counter_ns() - begin
        results = kernel(*given.args, **given.kwargs, out=given.outs or None, grid=grid)
        timings = {} if repeats is None else _timings(kernel, given, grid, repeats)
        named = _named(chosen, results)
        types = {parameter.name: parameter.type for parameter in calls.result_parameters(chosen)}
        where, is_emulator = describe(target), target.properties.is_emulator
    for name, path in save:
        _save(path, named[name].view(types[name].storage))
    if console.json:
        document: dict[str, Any] = {"program": chosen.name, "device": where}
        document["results"] = {name: _as_json(types[name], array) for name, array in named.items()}
        if timings:
            document["compile_ns"] = compile_ns
            document["timings_ns"] = {name: timing.as_json() for name, timing in timings.items()}
        console.data(document)
        return 0
    for name, array in named.items():
        console.line(_shown(name, types[name], array))
    if timings and repeats is not None:
        console.line()
        times = counted(repeats, "time")
        console.heading(f"Compiled in {duration(compile_ns).strip()}; one call with host arrays, {times}:")
        console.line("\n".join(table(timings)))
        if is_emulator:
            console.line(EMULATED)
    return 0


def _save(path: Path, array: np.ndarray) -> None:
    with writing(path), path.open("wb") as destination:
        np.save(destination, array)


def _check(program: Program, given: Given, grid: Grid | None, save: Sequence[tuple[str, Path]]) -> None:
    """Check everything that the call would refuse before a device is opened."""
    try:
        calls.bind(program, given.args, given.kwargs, out=given.outs or None, grid=grid)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{error}; {takes_text(program)}") from None
    results = [parameter.name for parameter in calls.result_parameters(program)]
    names: dict[Path, str] = {}
    for name, path in save:
        if name not in results:
            raise UsageError(f"--out {name}: the results of {program.name} are {', '.join(results) or 'none'}")
        if (other := names.setdefault(path.absolute(), name)) != name:
            raise UsageError(f"--out {name}={path}: {other} goes to this file; give each result a file of its own")


def _named(program: Program, results: Any) -> dict[str, Array]:
    names = [parameter.name for parameter in calls.result_parameters(program)]
    return dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))


def _timings(kernel: vc.Kernel, given: Given, grid: Grid | None, repeats: int) -> dict[str, Timing]:
    timed = [kernel.timed(*given.args, **given.kwargs, out=given.outs or None, grid=grid) for _ in range(repeats)]
    return {
        "whole call": Timing.of([t.wall_ns for t in timed]),
        "until enqueued": Timing.of([t.enqueue_ns for t in timed]),
        "waiting": Timing.of([t.wait_ns for t in timed]),
        "kernel on the device": Timing.of([t.device_ns for t in timed]),
    }


def _numbers(type_: Type, array: Array) -> Array:
    """The array as numbers that print and convert to JSON."""
    if type_ is not bf16:
        return array
    numbers: Array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return numbers


def _shown(name: str, type_: Type, array: Array) -> str:
    head = f"{name}: {type_}[{', '.join(map(str, array.shape))}] = "
    return head + np.array2string(_numbers(type_, array), max_line_width=100, threshold=32, edgeitems=4, prefix=head)


def _as_json(type_: Type, array: Array) -> dict[str, Any]:
    numbers = _numbers(type_, array).reshape(-1)
    values = numbers.tolist()
    if type_.is_float:
        finite = np.isfinite(numbers)
        values = [value if ok else str(value) for value, ok in zip(values, finite, strict=True)]
    shape = {"shape": list(array.shape)} if array.ndim > 1 else {}
    return {"type": type_.name, "size": array.size, **shape, "values": values}
