"""Several GPUs: collectives and copies between devices, beside NCCL from C and torch.distributed in the same run.

python bench_distributed.py                                 all CUDA devices of this machine, into results/; a minute
python bench_distributed.py --device emulator --quick --output somewhere    shows that it works, with a fake libnccl

"waited" is the median time of one collective from its call until all devices have done it, "in a row" the time of each
of many; rows of "host" are what one call takes the caller, in each of two processes that joined as under torchrun, and
as "ours, local" in one process for all devices. Results of all-reduces are compared with NumPy. "graph" is a recorded
graph of one all-reduce, "further" what each of more costs in it. Rows of torch.distributed are there where PyTorch with
NCCL is installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns

import numpy as np
from harness.figures import parsed, written
from harness.processes import BENCHMARKS

import vyre_cuda as vc
from vyre_cuda.distributed.library import open_nccl, wheels
from vyre_cuda.distributed.one_shot import most_bytes_of
from vyre_cuda.testing.compilers import c_compiler

SIZES = (1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 24, 1 << 28)
LARGE = 1 << 22
IN_GRAPH = 21  # all-reduces, as in raw/nccl_local.c


@dataclass(frozen=True)
class Figure:
    """Microseconds of one way of one row."""

    row: str
    way: str
    bytes: int
    waited_us: float
    in_a_row_us: float


def measured(once: Callable[[], object], wait: Callable[[], object], rounds: int) -> tuple[float, float]:
    for _ in range(5):
        once()
    wait()
    times = []
    for _ in range(rounds):
        begin = perf_counter_ns()
        once()
        wait()
        times.append(perf_counter_ns() - begin)
    begin = perf_counter_ns()
    for _ in range(rounds):
        once()
    wait()
    return statistics.median(times) / 1e3, (perf_counter_ns() - begin) / rounds / 1e3


def wait_for(devices: Sequence[vc.Device]) -> None:
    for device in devices:
        device.synchronize()


def all_reduces(
    devices: list[vc.Device], sizes: Sequence[int], rounds: int, way: str, small: int | None
) -> list[Figure]:
    found = []
    with vc.distributed.local(devices, small=small) as comm:
        for nbytes in sizes:
            n = nbytes // 4
            xs = [device.array(np.full(n, rank + 1, np.float32)) for rank, device in enumerate(devices)]
            comm.all_reduce(xs)
            assert (xs[-1].numpy() == sum(range(1, len(devices) + 1))).all()
            zeros = [device.zeros(n, vc.f32) for device in devices]
            few = rounds if nbytes <= LARGE else max(rounds // 10, 2)
            times = measured(lambda zs=zeros: comm.all_reduce(zs), lambda: wait_for(devices), few)  # type: ignore[misc]
            found.append(Figure("all_reduce", way, nbytes, *times))
    return found


def ours(devices: list[vc.Device], sizes: Sequence[int], rounds: int) -> list[Figure]:
    """The small ones also by NCCL alone, and, whatever was measured, all that fit in one shot."""
    found = all_reduces(devices, sizes, rounds, "ours", None)
    few = [nbytes for nbytes in sizes if nbytes <= most_bytes_of(len(devices))]
    found += all_reduces(devices, few, rounds, "ours by NCCL", 0)
    found += all_reduces(devices, few, rounds, "ours in one shot", 1 << 30)
    x, y = devices[1].zeros(sizes[-1] // 4, vc.f32), devices[0].empty(sizes[-1] // 4, vc.f32)
    times = measured(lambda: y.copy_from(x), lambda: wait_for(devices), max(rounds // 10, 2))
    return [*found, *in_graphs(devices, rounds), Figure("copy", "ours", sizes[-1], *times)]


def in_graphs(devices: list[vc.Device], rounds: int) -> list[Figure]:
    """A graph of one all-reduce of 4 KiB, and what each further one costs, as in raw/nccl_local.c."""
    times = []
    with vc.distributed.local(devices) as comm:
        for count in (1, IN_GRAPH):
            xs = [device.full(1024, 1.0, vc.f32) for device in devices]
            with comm.record() as graph:
                for _ in range(count):
                    comm.all_reduce(xs, op="max")
            graph.replay()
            assert (xs[-1].numpy() == 1.0).all()
            times.append(measured(graph.replay, lambda: wait_for(devices), rounds))
    (one, one_in_a_row), (many, many_in_a_row) = times
    further = (many - one) / (IN_GRAPH - 1), (many_in_a_row - one_in_a_row) / (IN_GRAPH - 1)
    return [Figure("graph", "ours", 4096, one, one_in_a_row), Figure("further", "ours", 4096, *further)]


def from_c(gpus: int, folder: Path) -> list[Figure]:
    """The rows of raw/nccl_local.c."""
    program = folder / "nccl_local"
    subprocess.run(
        [*c_compiler(), "-std=c11", "-O2", "-o", str(program), str(BENCHMARKS / "raw" / "nccl_local.c"), "-ldl"],
        check=True,
    )
    library = os.environ.get("VYRE_CUDA_NCCL") or next(iter(wheels()), "libnccl.so.2")
    done = subprocess.run([str(program), library, str(gpus)], capture_output=True, text=True, check=True, timeout=300)
    rows = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 4]
    return [Figure(name, "NCCL from C", int(n), float(waited), float(row)) for name, n, waited, row in rows]


# ---- in processes ----------------------------------------------------------------------------------------------------


def host_of(call: Callable[[], object], wait: Callable[[], object], rounds: int) -> float:
    """Microseconds that a call takes the caller: the least median of some rows of calls."""
    medians = []
    for _ in range(5):
        times = []
        for _ in range(rounds):
            begin = perf_counter_ns()
            call()
            times.append(perf_counter_ns() - begin)
        wait()
        medians.append(statistics.median(times) / 1e3)
    return min(medians)


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
N = 1024  # elements of the larger array


def sizes_of(collective: str, ranks: int) -> tuple[int, int]:
    """Elements of what is given and of the result."""
    return N // ranks if collective == "all_gather" else N, N // ranks if collective == "reduce_scatter" else N


def rank_ours(kind: str, rounds: int) -> list[float]:
    found = []
    with vc.Device(f"{kind}:{os.environ['LOCAL_RANK']}") as device, vc.distributed.join(device, timeout=60) as comm:
        for collective in COLLECTIVES:
            x, out = (device.zeros(n, vc.f32) for n in sizes_of(collective, comm.size))
            call = partial(getattr(comm, collective), x, out=out)
            found.append(host_of(call, device.synchronize, rounds))
    return found


def rank_torch(_: str, rounds: int) -> list[float]:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    found = []
    for collective in COLLECTIVES:
        x, out = (torch.zeros(n, device="cuda") for n in sizes_of(collective, dist.get_world_size()))
        call = {
            "all_reduce": partial(dist.all_reduce, x),
            "all_gather": partial(dist.all_gather_into_tensor, out, x),
            "reduce_scatter": partial(dist.reduce_scatter_tensor, out, x),
            "broadcast": partial(dist.broadcast, x, 0),
            "all_to_all": partial(dist.all_to_all_single, out, x),
        }[collective]
        found.append(host_of(call, torch.cuda.synchronize, rounds))
    dist.destroy_process_group()
    return found


def host_of_local(devices: list[vc.Device], rounds: int) -> list[Figure]:
    found = []
    with vc.distributed.local(devices) as comm:
        for collective in COLLECTIVES:
            given, made = sizes_of(collective, len(devices))
            xs, outs = ([device.zeros(n, vc.f32) for device in devices] for n in (given, made))
            call = partial(getattr(comm, collective), xs, out=outs)
            host = host_of(call, lambda: wait_for(devices), rounds)
            found.append(Figure(host_row(collective), "ours, local", 4 * N, host, host))
    return found


def host_row(collective: str) -> str:
    return "host" if collective == "all_reduce" else f"host {collective}"


def in_processes(way: str, kind: str, rounds: int) -> list[Figure]:
    """Two processes of this file, with what torchrun would set; none where they cannot run."""
    port = 29600 if way == "ours" else 29700
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--rank", way, "--device", kind, "--rounds", str(rounds)],
            env=os.environ
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
            | {"MASTER_PORT": str(port)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=180)[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        return []
    name = "ours" if way == "ours" else "torch.distributed"
    of_ranks = [map(float, output.split()[-len(COLLECTIVES) :]) for output in outputs]
    hosts = zip(COLLECTIVES, map(max, *of_ranks), strict=True)
    return [Figure(host_row(collective), name, 4 * N, host, host) for collective, host in hosts]


def has_torch() -> bool:
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return False
    return bool(torch.cuda.is_available() and dist.is_nccl_available())


def table(figures: list[Figure]) -> str:
    lines = [f"{'row':20}{'way':20}{'bytes':>12}{'waited us':>12}{'in a row us':>13}"]
    lines += [f"{f.row:20}{f.way:20}{f.bytes:12}{f.waited_us:12.2f}{f.in_a_row_us:13.2f}" for f in figures]
    return "\n".join(lines)


def add_words_of_ranks(parser: argparse.ArgumentParser) -> None:
    """With which this program starts itself."""
    parser.add_argument("--rank", choices=("ours", "torch"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=200, help=argparse.SUPPRESS)


def main(words: Sequence[str] | None = None) -> int:
    options = parsed(__doc__, words, quick="two sizes, five rounds", add=add_words_of_ranks)
    if options.rank:
        rank = {"ours": rank_ours, "torch": rank_torch}[options.rank]
        print(*rank(options.device, options.rounds), flush=True)
        return 0
    kind = options.device
    count = sum(info.kind == kind for info in vc.devices())
    if count < 2:
        print(f"this machine has {count} devices of this kind; two are needed")
        return 1
    open_nccl()
    rounds = 5 if options.quick else 200
    sizes = SIZES[:2] if options.quick else SIZES
    devices = [vc.Device(f"{kind}:{number}") for number in range(count)]
    figures = ours(devices, sizes, rounds) + host_of_local(devices, rounds)
    for device in devices:
        device.close()
    if kind == "cuda":
        with tempfile.TemporaryDirectory() as folder:
            figures += from_c(count, Path(folder))
    figures += in_processes("ours", kind, rounds)
    if kind == "cuda" and has_torch():
        figures += in_processes("torch", kind, rounds)
    print(table(figures))
    written(options, devices[0], "distributed", figures, gpus=count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
