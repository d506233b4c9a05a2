"""Launches and host dispatch of saxpy on 3 x 4 KiB: Python beside its C twins, and other packages on the same tasks.

python bench_dispatch.py --peers all                                        the first CUDA device, into results/
python bench_dispatch.py --device emulator --quick --output somewhere       each once: shows that it works
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.inputs import input_sets
from harness.processes import ChildFailed
from harness.report import summary
from harness.resultfile import save
from harness.runner import Case, command_line, emit_header, run
from harness.saxpy import WAYS, Saxpy
from harness.timing import FULL, QUICK, timer_ns

import vyre_cuda as vc

CASES = (
    Case("call_enqueue_same", "replay_enqueue", "launch_enqueue_graph_same", "bound call, nothing changed"),
    Case("launch_enqueue_same", "replay_enqueue", "launch_enqueue_graph_same", "k.launch, nothing changed"),
    Case("call_enqueue_changed", "launch_enqueue", "launch_enqueue_graph_changed", "bound call, all changed"),
    Case("launch_enqueue_changed", "launch_enqueue", "launch_enqueue_graph_changed", "k.launch, all changed"),
    Case("call_sync", "launch_sync", "graph_launch_sync", "bound call, synchronize"),
    Case("launch_sync", "launch_sync", "graph_launch_sync_changed", "k.launch, all changed, synchronize"),
    Case("host_dispatch_out", "host_dispatch", "host_dispatch_zero_copy", "k(x, y, a, out=r)"),
    Case("host_dispatch_new", "host_dispatch", "host_dispatch_zero_copy", "k(x, y, a)"),
)


def work(device_name: str, seed: int, *, quick: bool) -> None:
    """One Python pass: a line for each case."""
    with vc.Device(device_name) as device:
        emit_header(device, timer_ns())
        saxpy = Saxpy(device, input_sets(seed), QUICK if quick else FULL)
        for case in CASES:
            WAYS[case.id](saxpy, case.id).emit()


def main(words: Sequence[str] | None = None) -> int:
    """0 when everything but the peers worked."""
    options = command_line(__doc__).parse_args(words)
    if options.worker:
        work(options.device, options.seed, quick=options.quick)
        return 0
    try:
        result = run("dispatch", Path(__file__).resolve(), CASES, options)
    except (ChildFailed, vc.Error) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"written: {save(result, options.output)}\n")
    print(summary(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
