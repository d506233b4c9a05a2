"""Many random recordings, in several processes: the same bytes with fusing and without.

    python -m tests.device.graphs.many_recordings --device cuda --first 0 --count 20000 --processes 12
    python -m tests.device.graphs.many_recordings --device cuda --kinds table,beside --seconds 400 --processes 8

It says how often each kind of merge and each refusal came up in all processes, and writes that to a file of $OUT, or of
`benchmarks/results`. `--add FILE` goes on where the recordings of another file end, and adds to what it counted.
Nearly every merged kernel is new, so none is kept on disk. Each process needs 9 GB of an H200, for arrays of its
threads.

A recording that differs or fails is named by its seed, and its process goes on with a new device. One that does not
take another step for `--limit` seconds is looked at, and ended: the file has its seed, the step and what the other
processes did then, and a folder beside the file has stacks, what the device still answers, and what `nvidia-smi` says.
The same goes for a process that died. In the end such seeds are tried again alone. With `--connections` the driver has
so many queues to the device (CUDA_DEVICE_MAX_CONNECTIONS), which decides how many branches of a graph share one. With
`--core-dumps` a fault of the GPU leaves a file, of which `cuda-gdb -batch -ex 'target cudacore FILE'` names the kernel
and the instruction.

The exit status is 1 if any of these is wrong, or if a kind came up less than 500 times in 20,000 recordings of all
kinds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

import vyre_cuda as vc
from tests.support.watched import watching

from .test_varied_recordings import LEAST, SLICE
from .varied_programs import Kernels, doubled
from .varied_recordings import KINDS, compare, kind_of

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
WORK = "tests.device.graphs.many_recordings:Recordings"
_LOOK = 5.0  # seconds that a kernel on another stream may take


class Recordings:
    """The recordings of a process, for tests/support/watched."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        tell("opens the device")
        self.device = vc.Device(int(name) if name.isdigit() else name)
        tell("compiles the kernels")
        self.kernels = Kernels(self.device)
        tell("runs a kernel on another stream")
        self._stream = self.device.stream()
        self._arrays = [self.device.array(np.ones(32, np.float32)) for _ in range(2)]
        self._doubled = self.device.compile(doubled())
        self._doubled.launch(*self._arrays, stream=self._stream)
        self._stream.synchronize()

    def one(self, seed: int, tell: Callable[[str], None]) -> tuple[Counter[str], str, bool]:
        """Whether a recording is the same with fusing; after an error of the device, another process goes on."""
        step = ""

        def heard(what: str) -> None:
            nonlocal step
            step = what
            tell(what)

        try:
            return compare(self.device, self.kernels, range(seed, seed + 1), heard), "", True
        except AssertionError as error:
            return Counter(), f"{type(error).__name__}: {error}", True
        except vc.Error as error:
            return Counter(), f"{kind_of(seed)}, {step}: {type(error).__name__}: {error}", False

    def look(self, write: Callable[[str], None]) -> None:
        """Whether there is work that has not ended, which launches that may be, and whether other streams go on."""
        write("waiting for all work:")
        try:
            self.device.synchronize(timeout=1)
            write("  it has ended")
        except vc.KernelTimeoutError as error:
            write(f"  {error}")
            for launch in error.launches:
                write(f"  {launch}")
        write("a kernel on another stream:")
        begin = time.monotonic()
        self._doubled.launch(*self._arrays, stream=self._stream)
        try:
            self._stream.synchronize(timeout=_LOOK)
            write(f"  it has ended after {time.monotonic() - begin:.4f} s")
        except vc.KernelTimeoutError as error:
            write(f"  {error}")
        write(f"looked: {self.device.stats()}")


def environment_of(options: argparse.Namespace) -> dict[str, str]:
    """Of the processes that record: looking through a full cache takes longer than compiling."""
    environment = {"VYRE_CUDA_CACHE_DIR": "off", "CUDA_CACHE_DISABLE": "1"}
    if options.connections is not None:
        environment["CUDA_DEVICE_MAX_CONNECTIONS"] = str(options.connections)
    if options.core_dumps:
        environment |= {
            "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
            "CUDA_COREDUMP_GENERATION_FLAGS": "skip_abort,skip_global_memory,skip_shared_memory,skip_local_memory",
            "CUDA_COREDUMP_FILE": str(options.output.resolve() / "gpu-core-%p"),
        }
    return environment


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Random recordings with fusing and without.")
    parser.add_argument("--device", default="emulator", help="emulator, cuda, or a number")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--add", type=Path, help="a file of earlier recordings, which end where these begin")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", RESULTS)), help="folder of the file")
    parser.add_argument("--kinds", default="", help=f"only these, with commas: {', '.join(KINDS)}")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a step of a recording may take")
    parser.add_argument("--seconds", type=float, help="begin no more recordings after so many")
    parser.add_argument("--alone", type=int, default=20, help="tries of a seed at which a process stopped")
    parser.add_argument(
        "--core-dumps", action="store_true", help="after a fault of the GPU, a file gpu-core-* for cuda-gdb in --output"
    )
    parser.add_argument("--connections", type=int, help="queues of each process to the device, 1 to 32")
    options = parser.parse_args(arguments)
    unknown = {*filter(None, options.kinds.split(","))} - {*KINDS}
    if unknown:
        parser.error(f"there are no recordings of the kinds {', '.join(sorted(unknown))}")
    if options.kinds and options.add:
        parser.error("--add is for recordings of all kinds")
    return options


def main(arguments: Sequence[str] | None = None, work: str = WORK) -> int:
    options = options_of(arguments)
    told = json.loads(options.add.read_text()) if options.add else {"first": options.first, "count": 0, "counts": {}}
    first, kinds = told["first"] + told["count"], {*filter(None, options.kinds.split(","))}
    seeds = [each for each in range(first, first + options.count) if not kinds or kind_of(each) in kinds]
    facts = _facts(options.device)  # now, because a device may not open any more after what stopped
    folder = options.output / f"stopped-{datetime.now(timezone.utc):%Y-%m-%dT%H%M%SZ}"
    begin = time.monotonic()
    result = watching.run(
        work,
        options.device,
        seeds,
        processes=options.processes,
        folder=folder,
        limit=options.limit,
        seconds=options.seconds,
        alone=options.alone,
        environment=environment_of(options),
        say=lambda text: print(text, flush=True),
    )
    counts = result.counts + Counter(told["counts"])
    print(f"{result.counts['recordings']} recordings in {time.monotonic() - begin:.0f} s")
    count = told["count"] + (seeds[result.given - 1] + 1 - first if result.given else 0)
    few = {} if kinds else {w: counts[w] for w, least in LEAST.items() if counts[w] < least * count // SLICE}
    for what, number in sorted(counts.items()):
        print(f"{number:9,} {what}")
    for what, number in few.items():
        print(f"too few: {what}, {number}")
    wrong = [*told.get("wrong", []), *({"seed": seed, "why": without_folders(why)} for seed, why in result.wrong)]
    stopped = [*told.get("stopped", []), *({**stop, "kind": _kind(stop["seed"])} for stop in result.as_lists())]
    for stop in stopped:
        print(f"{stop['how']}: seed {stop['seed']} ({stop['kind']}), {stop['step']}; alone {stop['alone']}")
    content = {
        "first": told["first"],
        "count": count,
        "kinds": sorted(kinds),
        "processes": options.processes,
        "connections": options.connections,
        "counts": dict(sorted(counts.items())),
        "wrong": wrong,
        "stopped": stopped,
        "left": [*told.get("left", []), *result.left],
    }
    print(f"written: {_write(options.output, {**facts, **content})}")
    return 1 if wrong or stopped or few else 0


def without_folders(why: str) -> str:
    """The first line of a reason, with places in this project and in the package alone: a file of results is kept."""
    first = why.splitlines()[0]
    for folder in (Path(vc.__file__).parents[1], Path(__file__).parents[3]):  # the former may lie in the latter
        first = first.replace(f"{folder}/", "")
    return first


def _kind(seed: int | None) -> str | None:
    return None if seed is None else kind_of(seed)


def _facts(device_name: str) -> dict[str, str]:
    with vc.Device(int(device_name) if device_name.isdigit() else device_name) as device:
        return {"time": "", "device": device.properties.name, "version": vc.__version__}


def _write(folder: Path, content: dict[str, Any]) -> Path:
    now = datetime.now(timezone.utc)
    place = "-".join(content["device"].lower().replace("(", "").replace(")", "").split())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%dT%H%M%SZ}-{place}-recordings.json"
    path.write_text(json.dumps({**content, "time": now.isoformat(timespec="seconds")}, indent=1) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
