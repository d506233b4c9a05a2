"""What dispatch costs: Python beside its C twins with the targets, threads, start-up, and other packages.

python bench_dispatch.py --peers all                                        the first CUDA device, into results/
python bench_dispatch.py --rows call_sync,large_host --rounds 1             some rows or tasks
python bench_dispatch.py --device emulator --quick --output somewhere       each once: shows that it works
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from harness.processes import ChildFailed
from harness.report import summary
from harness.resultfile import save
from harness.rows import UnknownRow
from harness.runner import command_line, run

import vyre_cuda as vc


def main(words: Sequence[str] | None = None) -> int:
    """0 when every row that could be tried gave a figure; a peer that fails is no failure of the run."""
    parser = command_line(__doc__)
    options = parser.parse_args(words)
    try:
        result = run("dispatch", options)
    except UnknownRow as error:
        parser.error(str(error))
    except (ChildFailed, vc.Error) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"written: {save(result, options.output)}\n")
    print(summary(result))
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
