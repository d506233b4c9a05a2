"""Random programs on a device against an oracle that shares nothing with the package.

    python tests/independent/run.py --device cuda --seconds 500 --processes 128 --output DIR
    python tests/independent/run.py --reduce DIR/wrong-folding-1234.json --device cuda

A run is spread over all GPUs. Its seed and the number of a case give the case again (`--seed`, `--case`). DIR gets
`summary.json`, a file for each of the first findings and `findings.jsonl` with all. The exit status is 1 when a result
is wrong or a valid program is refused.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import time
from pathlib import Path

# Programs come once: no cache of compiled ones helps. A process is one of many: libraries have no threads of their own.
os.environ["VYRE_CUDA_CACHE_DIR"] = "off"
os.environ["CUDA_CACHE_DISABLE"] = "1"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from bundled import SHARE
from findings import Findings
from pool import Pool
from random_cases import PROFILES
from summary import Summary, commit
from worker import Share

import vyre_cuda as vc

PROGRESS_EVERY_S = 10.0
# Processes of a GPU that may hold 4.5 GiB each at a time.
LARGE_AT_A_TIME = 8
UNBOUNDED = 1 << 48


def main() -> int:
    options = _options()
    if options.reduce is not None:
        from reduce_case import reduce_file

        return reduce_file(options.reduce, _ordinals(options.device)[0])
    if options.case is not None:
        from reduce_case import show_case

        return show_case(options.profile, options.seed, options.case, _ordinals(options.device)[0])
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    # Whoever ends the run has what was found until then.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    ordinals = _ordinals(options.device)
    begin = time.monotonic()
    end = options.first + options.programs if options.programs else UNBOUNDED
    shares = [
        Share(
            place=place,
            first=options.first + place,
            step=options.processes,
            end=end,
            deadline=begin + options.seconds,
            profile=options.profile,
            seed=options.seed,
            device=ordinals[place % len(ordinals)],
            bundles=SHARE if options.bundles else 0,
            large=place // len(ordinals) < LARGE_AT_A_TIME,
        )
        for place in range(options.processes)
    ]
    summary = Summary(options.profile, options.seed, options.first, commit())
    findings = Findings(options.output)
    print(
        f"seed {options.seed}, profile {options.profile}, {options.processes} processes on {len(ordinals)} of "
        f"{options.device}",
        flush=True,
    )
    pool = Pool(shares)
    try:
        for report in pool.reports(PROGRESS_EVERY_S):
            if report is None:
                print(summary.progress(), flush=True)
                continue
            summary.add(report)
            if report.finding is not None:
                findings.add(report.finding, profile=options.profile, seed=options.seed)
    finally:
        pool.close()
        summary.described, summary.problems = pool.described, pool.problems
        summary.write(options.output / "summary.json")
        print(summary.table(), flush=True)
    return 0 if summary.is_good else 1


def _ordinals(device: str) -> list[int | str]:
    """What `vc.Device` takes for each device of the kind."""
    if device != "cuda":
        return [int(device) if device.isdigit() else device]
    found: list[int | str] = [info.ordinal for info in vc.devices() if info.kind == "cuda"]
    if not found:
        raise SystemExit("there is no CUDA device")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="emulator", help="cuda (all of them), the ordinal of one, or emulator")
    parser.add_argument("--seconds", type=float, default=None, help="how long to go on")
    parser.add_argument("--programs", type=int, default=None, help="how many to run")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=None, help="of the run; drawn and printed when not given")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="all")
    parser.add_argument("--bundles", action="store_true", help="a share of the programs by images made ahead")
    parser.add_argument("--output", type=Path, default=Path("independent"))
    parser.add_argument("--case", type=int, default=None, metavar="NUMBER", help="show and judge one case")
    parser.add_argument("--reduce", type=Path, default=None, metavar="FILE", help="cut a finding down")
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = 60.0 if options.programs is None else 24 * 3600.0
    if options.seed is None:
        options.seed = secrets.randbits(40)
    return options


if __name__ == "__main__":
    sys.exit(main())
