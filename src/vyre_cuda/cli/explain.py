"""`vyre-cuda explain`: what a program needs of a device, every limit on its launches, and what bounds its occupancy;
with `--rewrites`, how its expressions are rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vyre_cuda as vc
from vyre_cuda.cli.console import Console, columns
from vyre_cuda.cli.devices import opened
from vyre_cuda.cli.sources import load_program
from vyre_cuda.cli.values import read_known
from vyre_cuda.errors import Limit, UnsupportedError, counted
from vyre_cuda.ir.text.text import format_source
from vyre_cuda.later import later
from vyre_cuda.passes import ahead, elements
from vyre_cuda.passes.pipeline import optimize, prepared

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel import large_entry
else:
    large_entry = later("vyre_cuda.runtime.kernel.large_entry")

_GOOD, _FAILED = 0, 1


def explain(
    console: Console,
    *,
    file: Path,
    program: str | None,
    device: str,
    grid: tuple[int, ...] | None,
    auto: bool,
    known: Sequence[tuple[str, str]],
    rewrites: bool,
) -> int:
    """Print it; 1 if a launch could not work."""
    chosen = load_program(file, program)
    values = read_known(chosen, known)
    with opened(device, console) as on:
        try:
            kernel = on.compile(chosen, block="auto" if auto else None, specialize=values)
        except UnsupportedError as error:
            if not error.limits:
                raise
            return _unlaunchable(console, chosen, on, error)
        x, y, z = (*(grid or ()), 1, 1, 1)[:3]
        limits = kernel.limits(None if grid is None else (x, y, z))
        facts = _facts(kernel, on)
        major, minor = on.properties.compute_capability
        if rewrites:
            facts["rewrites"] = _rewrites(kernel.program, values, f"sm_{major}{minor}")
    exceeded = [limit for limit in limits if limit.is_exceeded]
    if console.json:
        console.data({**facts, "limits": [_row(limit) for limit in limits], "launchable": not exceeded})
    else:
        _print(console, facts, limits)
    return _FAILED if exceeded else _GOOD


def _facts(kernel: vc.Kernel, device: vc.Device) -> dict[str, Any]:
    occupancy = kernel.occupancy
    return {
        "program": kernel.program.name,
        "device": device.properties.name,
        "is_emulator": device.properties.is_emulator,
        "block": list(kernel.program.block),
        "specialize": dict(kernel.specialize),
        "elements": _elements(kernel),
        "loops": _loops(kernel),
        "vectors": dict(kernel.lowered.aligned),
        "cleared": _cleared(kernel),
        "attributes": asdict(kernel.attributes),
        "occupancy": {**asdict(occupancy), "fraction": round(occupancy.fraction, 4)},
    }


def _elements(kernel: vc.Kernel) -> dict[str, Any]:
    """How many elements a thread takes in large launches, from how many threads on, and why not several."""
    several = large_entry.several_of(kernel)
    if several is not None:
        why = "" if several.aligned else elements.why_apart(prepared(kernel.program))
        neighbors = {"neighbors": dict(several.aligned), "why_apart": why}
        return {"of_a_thread": several.elements, "from_threads": several.threads, "why_one": "", **neighbors}
    why = elements.why_one(prepared(kernel.program)) or "failures must name what the program says"
    return {"of_a_thread": 1, "from_threads": 0, "why_one": why, "neighbors": {}, "why_apart": ""}


def _loops(kernel: vc.Kernel) -> list[dict[str, Any]]:
    """The loops that read buffers: of how many trips they read at once, and why not of several."""
    found = list(ahead.loops(optimize(kernel.program)))
    if kernel.bounds == "trap":
        found = [(loop, "failures must name what the program says") for loop, _ in found]
    return [
        {"source": list(loop.source) if loop.source else None, "trips": 1 if why else ahead.TRIPS, "why_one": why}
        for loop, why in found
    ]


def _cleared(kernel: vc.Kernel) -> list[str]:
    """The outs that a launch clears first."""
    parameters = kernel.program.parameters
    return [p.name for p in parameters if p.kind == "out" and p.zeroed and p.name not in kernel.lowered.covered]


def _cleared_line(names: Sequence[str]) -> str:
    if not names:
        return "nothing, in a launch with a thread for each element of its outputs"
    several = len(names) > 1
    return (
        f"{', '.join(names)}, as nothing shows that {'they are' if several else 'it is'} written as a whole: another "
        "pass over memory. If nothing reads the elements that stay unwritten, declare zeroed=False"
    )


def _elements_line(found: Mapping[str, Any]) -> str:
    if found["why_one"]:
        return f"1 element a thread: {found['why_one']}"
    near = found["neighbors"]
    where = f"; neighbors, {_begins(near)}" if near else f"; a block apart, as {found['why_apart']}"
    return (
        f"1 element a thread; {found['of_a_thread']} in launches of {found['from_threads']:,} threads and more "
        f"without grid={where}"
    )


def _loop_line(loop: Mapping[str, Any]) -> str:
    where = f"{format_source(tuple(loop['source']))}: " if loop["source"] else ""
    if loop["why_one"]:
        return f"{where}reads one trip at a time: {loop['why_one']}"
    return f"{where}reads {loop['trips']} trips at once"


def _vectors_line(aligned: Mapping[str, int]) -> str:
    if not aligned:
        return "none: no thread is known to access neighboring elements that begin at a multiple of their number"
    return f"{_begins(aligned)}; otherwise element by element"


def _begins(aligned: Mapping[str, int]) -> str:
    where = ", ".join(f"{name} begins at a multiple of {size} bytes" for name, size in aligned.items())
    return f"if {where}"


def _rewrites(program: vc.Program, values: Mapping[str, Any], target: str) -> list[dict[str, Any]]:
    found = vc.rewrites(program, target=target, specialize=values)
    return [{**asdict(each), "source": list(each.source) if each.source else None} for each in found]


def _print_rewrites(console: Console, rewrites: list[dict[str, Any]]) -> None:
    console.heading("rewrites")
    if not rewrites:
        console.line("none")
    statement = None
    for each in rewrites:
        if each["statement"] != statement:
            statement = each["statement"]
            source = format_source(tuple(each["source"]) if each["source"] else None)
            console.line(f"statement {statement}" + (f" of {source}" if source else "") + f": {each['text']}")
        console.line(f"    {each['before']}\n    = {each['after']}\n        {each['rule']}: {each['why']}")


def _print(console: Console, facts: dict[str, Any], limits: list[Limit]) -> None:
    attributes, occupancy = facts["attributes"], facts["occupancy"]
    console.heading(f"{facts['program']} on {facts['device']}")
    rows = [
        ["block", " x ".join(map(str, facts["block"]))],
        ["registers per thread", str(attributes["registers"])],
        ["shared memory per block", f"{attributes['static_shared_bytes']} B, not counting what a launch requests"],
        ["local memory per thread", f"{attributes['local_bytes']} B, including spills"],
        ["constant memory", f"{attributes['constant_bytes']} B"],
        [
            "occupancy",
            f"{occupancy['fraction']:.0%}: {counted(occupancy['resident_blocks'], 'block')} per multiprocessor, "
            f"{occupancy['resident_threads']} of {occupancy['most_threads']} threads; "
            f"limited by {occupancy['limited_by']}",
        ],
    ]
    rows[1:1] = [
        ["large launches", _elements_line(facts["elements"])],
        *(["loop", _loop_line(loop)] for loop in facts["loops"]),
        ["vectors", _vectors_line(facts["vectors"])],
        ["cleared first", _cleared_line(facts["cleared"])],
    ]
    if facts["specialize"]:
        rows.append(["compiled for", ", ".join(f"{name} = {value}" for name, value in facts["specialize"].items())])
    if facts["is_emulator"]:
        rows.append(["note", "registers are the emulator's estimate; limits are those of an H200"])
    console.line("\n".join(columns(rows)))
    _print_limits(console, limits)
    if "rewrites" in facts:
        _print_rewrites(console, facts["rewrites"])


def _print_limits(console: Console, limits: list[Limit]) -> None:
    console.heading("limits")
    rows = [["", "required", "available", "change"]]
    for limit in limits:
        change = f"{limit.change}  <- exceeded" if limit.is_exceeded else limit.change
        rows.append([limit.name, str(limit.required), str(limit.available), change])
    console.line("\n".join(columns(rows)))


def _unlaunchable(console: Console, program: vc.Program, device: vc.Device, error: UnsupportedError) -> int:
    if console.json:
        console.data(
            {
                "program": program.name,
                "device": device.properties.name,
                "block": list(program.block),
                "limits": [_row(limit) for limit in error.limits],
                "launchable": False,
            }
        )
    else:
        console.heading(f"{program.name} cannot be launched on {device.properties.name}")
        _print_limits(console, list(error.limits))
    return _FAILED


def _row(limit: Limit) -> dict[str, Any]:
    return {**asdict(limit), "exceeded": limit.is_exceeded}
