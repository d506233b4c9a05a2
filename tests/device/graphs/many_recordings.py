"""Many random recordings, in several processes: the same bytes with fusing and without.

    python -m tests.device.graphs.many_recordings --device cuda --first 0 --count 20000 --processes 12

It says how often each kind of merge and each refusal came up in all processes, and writes that to a file of $OUT, or of
`benchmarks/results`. `--add FILE` goes on where the recordings of another file end, and adds to what it counted. A
recording that differs or fails is named by its seed; one that loses the device is tried again in a new process, alone.
The exit status is 1 if any of them is wrong, or if a kind came up less than 500 times in 20,000 recordings. Nearly
every merged kernel is new, so none is kept on disk. Each process needs 9 GB of an H200, for arrays of its threads.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timezone
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import vyre_cuda as vc

from .test_varied_recordings import LEAST, SLICE
from .varied_recordings import Kernels, compare

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
_PART = 50  # seeds of one task


class _Here:
    """What a process keeps from one task to the next."""

    device: vc.Device | None = None
    kernels: Kernels | None = None


def compared(name: str, seeds: range) -> tuple[Counter[str], list[tuple[int, str]], list[int]]:
    """How often what came up in these recordings, which are wrong and why, and those not reached by a lost device."""
    if _Here.device is None or _Here.kernels is None:
        _Here.device = vc.Device(int(name) if name.isdigit() else name)
        _Here.kernels = Kernels(_Here.device)
    counts: Counter[str] = Counter()
    wrong: list[tuple[int, str]] = []
    for seed in seeds:
        try:
            counts += compare(_Here.device, _Here.kernels, range(seed, seed + 1))
        except (AssertionError, vc.Error) as error:
            wrong.append((seed, f"{type(error).__name__}: {error}"))
            if not isinstance(error, AssertionError):  # the device may be lost
                _Here.device = _Here.kernels = None
                return counts, wrong, list(range(seed + 1, seeds.stop))
    return counts, wrong, []


def _parts(first: int, count: int) -> Iterator[range]:
    for begin in range(first, first + count, _PART):
        yield range(begin, min(begin + _PART, first + count))


def run(name: str, first: int, count: int, processes: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    """What all of these recordings were."""
    counts: Counter[str] = Counter()
    wrong: list[tuple[int, str]] = []
    parts = list(_parts(first, count))
    begin = time.monotonic()
    while parts:
        left: list[range] = []
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for found, failed, rest in pool.map(compared, [name] * len(parts), parts):
                counts += found
                wrong += failed
                left += [range(rest[0], rest[-1] + 1)] if rest else []
                if failed:
                    print(*[f"seed {seed}: {why}" for seed, why in failed], sep="\n", flush=True)
        parts = left
    print(f"{counts['recordings']} recordings in {time.monotonic() - begin:.0f} s")
    return counts, wrong


def keep_nothing() -> None:
    """For this process and those that it starts: looking through a full cache takes longer than compiling."""
    os.environ["VYRE_CUDA_CACHE_DIR"] = "off"
    os.environ["CUDA_CACHE_DISABLE"] = "1"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Random recordings with fusing and without.")
    parser.add_argument("--device", default="emulator", help="emulator, cuda, or a number")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--add", type=Path, help="a file of earlier recordings, which end where these begin")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", RESULTS)), help="folder of the file")
    options = parser.parse_args(arguments)
    keep_nothing()
    told = json.loads(options.add.read_text()) if options.add else {"first": options.first, "count": 0, "counts": {}}
    first = told["first"] + told["count"]
    counts, wrong = run(options.device, first, options.count, options.processes)
    counts += Counter(told["counts"])
    count = told["count"] + options.count
    few = {what: counts[what] for what, least in LEAST.items() if counts[what] < least * count // SLICE}
    for what, number in sorted(counts.items()):
        print(f"{number:9,} {what}")
    for what, number in few.items():
        print(f"too few: {what}, {number}")
    failed = [*told.get("wrong", []), *({"seed": seed, "why": why.splitlines()[0]} for seed, why in wrong)]
    content = {"first": told["first"], "count": count, "counts": dict(sorted(counts.items())), "wrong": failed}
    print(f"written: {_write(options.output, options.device, content)}")
    return 1 if failed or few else 0


def _write(folder: Path, device_name: str, content: Mapping[str, Any]) -> Path:
    with vc.Device(int(device_name) if device_name.isdigit() else device_name) as device:
        name = device.properties.name
    now = datetime.now(timezone.utc)
    facts = {"time": now.isoformat(timespec="seconds"), "device": name, "version": vc.__version__}
    place = "-".join(name.lower().replace("(", "").replace(")", "").split())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%dT%H%M%SZ}-{place}-recordings.json"
    path.write_text(json.dumps({**facts, **content}, indent=1) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
