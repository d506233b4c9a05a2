"""Requests of a service's threads, by the layer and by the driver alone, with several ways to launch and to wait.

    python benchmarks/bench_service.py [--requests 100000] [--threads 1 2 4 8] [--device emulator]
    python benchmarks/bench_service.py --example [--requests 1000000] [--threads 1 8]

Which of the driver's calls keep other threads waiting is read off the ways that differ in one of them. With --example
the requests are those of examples/service/latency.cpp: the figures of docs/cpp.md, in under 40 s with the build.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.processes import BENCHMARKS
from harness.twins import build_example, build_service, driver_path

EXAMPLE = BENCHMARKS.parent / "examples" / "service"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--example", action="store_true", help="the requests of examples/service/latency.cpp")
    parser.add_argument("--requests", type=int, help="of each way: with every number of threads, or with the largest")
    parser.add_argument("--threads", type=int, nargs="+")
    parser.add_argument("--device", choices=("cuda", "emulator"), default="cuda")
    options = parser.parse_args()
    driver = driver_path(emulator=options.device == "emulator")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bundle = folder / "models.vyre"
        subprocess.run([sys.executable, str(EXAMPLE / "models.py"), str(bundle)], check=True)
        run = example if options.example else ways
        run(folder, bundle, driver, options.requests, options.threads)


def ways(folder: Path, bundle: Path, driver: str, requests: int | None, threads: list[int] | None) -> None:
    """Every way, with each number of threads."""
    program = build_service(folder)
    for number in threads or [1, 2, 4, 8]:
        subprocess.run([str(program), str(bundle), driver, str(requests or 100_000), str(number)], check=True)


def example(folder: Path, bundle: Path, driver: str, requests: int | None, threads: list[int] | None) -> None:
    """The ways of the example; fewer threads make as many requests each, so they take as long."""
    program = build_example(folder)
    numbers = threads or [1, 8]
    for number in numbers:
        share = (requests or 1_000_000) * number // max(numbers)
        subprocess.run([str(program), str(bundle), str(share), str(number), driver], check=True)


if __name__ == "__main__":
    main()
