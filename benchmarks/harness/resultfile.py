"""The result file: what was measured, on what, and from which state of the project.

Times are microseconds of one call. A file made on the emulator says so in `environment.emulator` and in its name: its
times are no measurements. Reading checks the schema number and the names of all fields; files of schema 1 lack targets,
rates and what was not there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

SCHEMA = 2

Verdict = Literal["met", "missed", ""]


class BadResultFile(ValueError):
    """The file is not a result file of this schema."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`driver` is the installed driver's release, `driver_api` the CUDA version it offers; timers as in `timer_us`."""

    date: str
    commit: str
    emulator: bool
    device: str
    driver: str
    driver_api: str
    cpu: str
    cores: int
    python: str
    numpy: str
    package: str
    python_timer_us: float
    c_timer_us: float


@dataclass(frozen=True, slots=True)
class Series:
    """`median_us`: the median of the passes' medians; `p99_us`: the largest of theirs; `passes`: each pass's median."""

    median_us: float
    p99_us: float
    passes: list[float]
    samples: int
    calls_per_sample: int

    @property
    def best_us(self) -> float:
        """The least of the passes' medians: what the host disturbed least."""
        return min(self.passes)


@dataclass(frozen=True, slots=True)
class Figure:
    """One way of doing a task, beside its twin of the same run: `ratio` and `difference_us` of medians.

    The twin's numbers are None when it is not there. `limit_us` is the most that `series.best_us` may be to meet the
    target; an emulator run has no verdict. `bytes_moved` cross the link in a call whose task is to move them.
    """

    id: str
    task: str
    what: str
    series: Series
    twin: str
    twin_median_us: float | None
    twin_p99_us: float | None
    ratio: float | None
    difference_us: float | None
    target: str = ""
    limit_us: float | None = None
    verdict: Verdict = ""
    bytes_moved: int = 0


@dataclass(frozen=True, slots=True)
class TwinFigure:
    """One series in C."""

    id: str
    series: Series


@dataclass(frozen=True, slots=True)
class Absence:
    """A row without a figure: something it needs is not there, or it failed."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rate:
    """Launches a second from so many threads: "python", "layer" (libvyre_cuda from C) or "raw" (the driver from C)."""

    side: str
    threads: int
    launches_per_second: float
    passes: list[float]


@dataclass(frozen=True, slots=True)
class PeerFigure:
    """Another package on a task."""

    peer: str
    version: str
    task: str
    what: str
    series: Series


@dataclass(frozen=True, slots=True)
class PeerFailure:
    """A peer that is missing, failed or took too long."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one benchmark. `layer` is libvyre_cuda called from C."""

    schema: int
    benchmark: str
    seed: int
    environment: Environment
    figures: list[Figure]
    twins: list[TwinFigure]
    layer: list[TwinFigure]
    rates: list[Rate]
    absent: list[Absence]
    failed: list[Absence]
    peers: list[PeerFigure]
    peer_failures: list[PeerFailure]

    @property
    def title(self) -> str:
        """Device, driver, commit and date on a line."""
        e = self.environment
        driver = f"driver {e.driver} (API {e.driver_api})" if e.driver else f"driver API {e.driver_api}"
        return f"{self.benchmark}: {e.device}, {driver}, commit {e.commit}, {e.date}"


def file_name(e: Environment, benchmark: str) -> str:
    """Date, device and benchmark; a run on the emulator begins with that word."""
    device = "emulator" if e.emulator else "-".join(e.device.lower().split())
    day = e.date.replace(":", "")
    return f"{device}-{benchmark}-{day}.json" if e.emulator else f"{day}-{device}-{benchmark}.json"


def save(result: Result, folder: Path) -> Path:
    """Write the result into the folder, which is made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(result.environment, result.benchmark)
    path.write_text(json.dumps(asdict(result), indent=1) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> Result:
    """Read a result; BadResultFile when it is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] == 1:
            data = {**data, "layer": [], "rates": [], "absent": [], "failed": []}
        elif data["schema"] != SCHEMA:
            raise BadResultFile(f"{path}: schema {data['schema']}; this version reads 1 to {SCHEMA}")
        return Result(
            **{
                **data,
                "environment": Environment(**data["environment"]),
                "figures": [Figure(**_series(row)) for row in data["figures"]],
                "twins": [TwinFigure(**_series(row)) for row in data["twins"]],
                "layer": [TwinFigure(**_series(row)) for row in data["layer"]],
                "rates": [Rate(**row) for row in data["rates"]],
                "absent": [Absence(**row) for row in data["absent"]],
                "failed": [Absence(**row) for row in data["failed"]],
                "peers": [PeerFigure(**_series(row)) for row in data["peers"]],
                "peer_failures": [PeerFailure(**row) for row in data["peer_failures"]],
            }
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise BadResultFile(f"{path} is no result file: {error}") from None


def _series(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "series": Series(**row["series"])}
