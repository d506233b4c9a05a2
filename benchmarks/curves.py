"""What an operation costs over the number of arguments, streams, threads, bound calls and waiting blocks.

python curves.py                                                    the first CUDA device, into results/; under 100 s
python curves.py --curves streams,calls                             some curves
python curves.py --device emulator --quick --output somewhere       a few calls of a few points: shows that it works

Beside each curve stands what the driver itself takes (raw/curve_driver.c), and each point that costs more than 1.5
times what the one before it explains is reported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.curves.report import summary
from harness.curves.resultfile import as_json
from harness.curves.runner import MEASURES, run
from harness.processes import BENCHMARKS, ChildFailed
from harness.resultfile import file_name

import vyre_cuda as vc


def chosen(text: str) -> list[str]:
    """The names of curves, with commas."""
    names = text.split(",")
    unknown = sorted(set(names) - MEASURES.keys())
    if unknown:
        raise argparse.ArgumentTypeError(f"no curve {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    return names


def main(words: Sequence[str] | None = None) -> int:
    """0 when every point that could be tried gave a figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "emulator"], help="cuda: the first device")
    parser.add_argument("--quick", action="store_true", help="a few calls of a few points: no measurement")
    parser.add_argument("--curves", type=chosen, default=[], help=f"some of {','.join(MEASURES)}; all without it")
    parser.add_argument("--seconds", type=float, default=0.06, help="for each point")
    parser.add_argument("--limit", type=float, default=95, help="seconds after which no new point begins")
    parser.add_argument("--output", type=Path, default=BENCHMARKS / "results", help="folder of the result file")
    parser.add_argument("--commit", help="state of the project, where there is no git")
    options = parser.parse_args(words)
    try:
        result = run(options)
    except (ChildFailed, vc.Error) as error:
        print(error, file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / file_name(result.environment, result.benchmark)
    path.write_text(as_json(result), encoding="utf-8")
    print(f"written: {path}\n\n{summary(result)}")
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
