"""`vyre-cuda bench`: times of calls, launches and copies on this machine, next to those of the bare driver calls."""

from __future__ import annotations

import vyre_cuda as vc
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.devices import describe, opened
from vyre_cuda.cli.measurements import EMULATED, FULL, QUICK, floors, measured, table_of_floors, table_of_ways
from vyre_cuda.cli.progress import Progress
from vyre_cuda.cli.timing import EMULATED as EMULATED_NOTE


def bench(console: Console, *, device: str, full: bool) -> int:
    """Measure and print; always 0."""
    progress = Progress(console)
    with opened(device, console) as on:
        emulated = on.properties.is_emulator
        effort = EMULATED if emulated else FULL if full else QUICK
        known = floors(on, effort, progress)
        found = list(measured(on, effort, known, progress, more=True))
        where = describe(on)
    if console.json:
        console.data(
            {
                "version": vc.__version__,
                "device": where,
                "is_emulator": emulated,
                "floors_ns": {name: timing.as_json() for name, timing in known.items()},
                "rows": {each.id: each.as_json() for each in found},
            }
        )
        return 0
    console.heading(f"{where}: driver calls alone")
    console.line("\n".join(table_of_floors(known)))
    console.heading("vyre_cuda from Python, compared with them")
    console.line("\n".join(table_of_ways(found)))
    if emulated:
        console.line(f"  {EMULATED_NOTE}")
    return 0
