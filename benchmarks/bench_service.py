"""Requests of a service's threads, by the layer and by the driver alone, with several ways to launch and to wait.

    python benchmarks/bench_service.py [--requests 100000] [--threads 1 2 4 8] [--device emulator]

Which of the driver's calls keep other threads waiting is read off the ways that differ in one of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.processes import BENCHMARKS
from harness.twins import build_service

import vyre_cuda as vc
from vyre_cuda.locations import EMULATOR_LIBRARY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, help="of each way and number of threads")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--device", choices=("cuda", "emulator"), default="cuda")
    options = parser.parse_args()
    driver = "libcuda.so.1" if options.device == "cuda" else str(Path(vc.get_library_dir()) / EMULATOR_LIBRARY)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bundle = folder / "models.vyre"
        models = BENCHMARKS.parent / "examples" / "service" / "models.py"
        subprocess.run([sys.executable, str(models), str(bundle)], check=True)
        program = build_service(folder)
        for threads in options.threads:
            words = [str(bundle), driver, str(options.requests), str(threads)]
            subprocess.run([str(program), *words], check=True)


if __name__ == "__main__":
    main()
