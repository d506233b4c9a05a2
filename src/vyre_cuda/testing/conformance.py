"""How many elements were compared for each op and type, counted by the tests as they run and stored as JSON.

A way is what was compared with what: "interpreter" (with NumPy and exact arithmetic), "emulator" and "cuda" (each with
the interpreter). `CELLS` are the cells that the op tables promise; one without a count is a hole.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from vyre_cuda.errors import Error
from vyre_cuda.ir.core.ops import ATOMICS, OPS, WARP_OPS
from vyre_cuda.ir.core.types import INDEX_TYPES, NUMBERS, TYPES, bf16, f32, u32

SCHEMA = 1
WAYS = ("interpreter", "emulator", "cuda")

_FACTS = ("date", "commit", "device", "python", "numpy")

# table -> row -> columns. Rows and columns are names of ops and types.
Cells = Mapping[str, Mapping[str, tuple[str, ...]]]
Counts = dict[str, dict[str, dict[str, int]]]
# A test calls this with table, row, column and the number of elements that it compared.
Count = Callable[[str, str, str, int], None]


class ConformanceError(Error):
    """A file is not a valid file of counts."""

    code = "conformance"


def _cells() -> Cells:
    warps: dict[str, tuple[str, ...]] = {}
    for warp in WARP_OPS.values():
        for combine in warp.combines or ("",):
            types = [t for t in warp.types if not combine or t in OPS[combine].types]
            warps[warp_row(warp.name, combine)] = tuple(t.name for t in types)
    tables: dict[str, dict[str, tuple[str, ...]]] = {
        "ops": {op.name: tuple(t.name for t in op.types) for op in OPS.values() if op.result != "explicit"},
        "casts": {source.name: tuple(t.name for t in TYPES) for source in TYPES},
        "bitcasts": {source.name: tuple(t.name for t in NUMBERS if t.bits == source.bits) for source in NUMBERS},
        "atomics": {op.name: tuple(t.name for t in op.types) for op in ATOMICS.values()},
        "shared atomics": {op.name: tuple(t.name for t in op.types) for op in ATOMICS.values()},
        "warp operations": warps,
        "tables, arrays of threads, prints, random numbers, indices": {
            "table": tuple(
                t.name for t in TYPES if t is not bf16
            ),  # NumPy alone has no bf16 that could be told from u16
            "array of a thread": tuple(t.name for t in TYPES),
            "print": tuple(t.name for t in TYPES),
            "philox": (u32.name,),
            "uniform": (f32.name,),
            "index": tuple(t.name for t in INDEX_TYPES),
        },
    }
    return MappingProxyType(tables)


def warp_row(name: str, combine: str = "") -> str:
    """The row of a warp operation: its name, with that of the combining op if there is one."""
    return f"{name} {combine}" if combine else name


CELLS: Cells = _cells()


@dataclass
class Tally:
    """What one run of the tests compared: way -> table -> row -> column -> elements."""

    counts: dict[str, Counts] = field(default_factory=dict)

    def add(self, way: str, table: str, row: str, column: str, elements: int) -> None:
        """Count elements that were compared and found correct. KeyError for a cell that the op tables do not have."""
        if way not in WAYS or column not in CELLS[table][row]:
            raise KeyError((way, table, row, column))
        columns = self.counts.setdefault(way, {}).setdefault(table, {}).setdefault(row, {})
        columns[column] = columns.get(column, 0) + elements


@dataclass(frozen=True)
class Recording:
    """The counts of one run, and what was run."""

    date: str
    commit: str
    device: str
    python: str
    numpy: str
    counts: Mapping[str, Counts]

    def holes(self, way: str) -> list[tuple[str, str, str]]:
        """Cells of the op tables, as (table, row, column), for which nothing was compared."""
        counted = self.counts.get(way, {})
        return [
            (table, row, column)
            for table, rows in CELLS.items()
            for row, columns in rows.items()
            for column in columns
            if counted.get(table, {}).get(row, {}).get(column, 0) == 0
        ]

    def total(self, way: str) -> int:
        """The total number of elements compared."""
        tables = self.counts.get(way, {}).values()
        return sum(count for rows in tables for columns in rows.values() for count in columns.values())


def recording(tally: Tally, *, commit: str, device: str) -> Recording:
    """The tally of a run that ends now, by this Python and NumPy."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Recording(now, commit, device, platform.python_version(), np.__version__, tally.counts)


def write(path: Path, made: Recording) -> None:
    """Write a recording to a file, with sorted keys."""
    document = {"schema": SCHEMA, **{name: getattr(made, name) for name in _FACTS}, "counts": made.counts}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read(path: Path) -> Recording:
    """The recording in a file. ConformanceError if the file does not have this schema."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise ConformanceError(f"{path.name} is of schema {document['schema']}; this reads {SCHEMA}")
        date, commit, device, python, numpy = (str(document[name]) for name in _FACTS)
        return Recording(date, commit, device, python, numpy, _counts(document["counts"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConformanceError(f"{path.name} holds no counts: {error!r}") from error


def _counts(raw: dict[str, Any]) -> dict[str, Counts]:
    """Way -> table -> row -> column -> elements; cells that the op tables no longer have are left out."""
    found: dict[str, Counts] = {}
    for way, tables in raw.items():
        for table, rows in CELLS.items():
            for row, columns in rows.items():
                have = tables.get(table, {}).get(row, {})
                kept = {column: int(have[column]) for column in columns if column in have}
                if kept:
                    found.setdefault(way, {}).setdefault(table, {})[row] = kept
    return found
