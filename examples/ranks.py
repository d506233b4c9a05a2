"""Least squares on several GPUs: each process has a part of the points, and all have the line.

The processes are joined without torchrun or mpiexec, by a broadcast of bytes of their own: another process keeps what
rank 0 gives until the others ask for it, as an actor of Ray would. Each step is the replay of a graph with the gradient
of the rank's points, an all-reduce of it, and the step along it; the line is compared with NumPy's.

Run it: `python examples/ranks.py --ranks 2`, with NCCL and as many GPUs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import threading
from collections.abc import Sequence
from multiprocessing.managers import BaseManager

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

STEPS, RATE = 400, 0.5
SLOPE, HEIGHT = 3.0, -1.5


class Board:
    """What one rank tells all others; lives in a process of its own, like an actor."""

    def __init__(self) -> None:
        self._told = threading.Event()
        self._data = b""

    def put(self, data: bytes) -> None:
        self._data = data
        self._told.set()

    def get(self) -> bytes:
        if not self._told.wait(60.0):
            raise TimeoutError("rank 0 has told nothing")
        return self._data


class Boards(BaseManager):
    pass


Boards.register("Board", Board)


def points(rank: int, count: int) -> npt.NDArray[np.float32]:
    """Two rows, x and y, near the line; of each rank others."""
    rng = np.random.default_rng(rank)
    x = rng.uniform(-1.0, 1.0, count)
    return np.array([x, SLOPE * x + HEIGHT + rng.normal(0.0, 0.1, count)], np.float32)


@vc.kernel
def gradient(x: vc.In[vc.f32], y: vc.In[vc.f32], line: vc.In[vc.f32], out: vc.InOut[vc.f32], share: vc.f32):
    i = vc.work(x.size)
    if i < x.size:
        wrong = line[0] * x[i] + line[1] - y[i]
        vc.atomic_add(out, 0, wrong * x[i] * share)
        vc.atomic_add(out, 1, wrong * share)


@vc.kernel
def step(line: vc.InOut[vc.f32], along: vc.In[vc.f32], rate: vc.f32):
    i = vc.global_id.x
    if i < line.size:
        line[i] = line[i] - rate * along[i]


def fit(device: vc.Device, comm: vc.distributed.Communicator, mine: npt.NDArray[np.float32]) -> list[float]:
    x, y = device.array(mine[0]), device.array(mine[1])
    line, along = device.zeros(2, vc.f32), device.zeros(2, vc.f32)
    share = np.float32(1.0 / (x.size * comm.size))
    with device.record() as graph:
        along.fill(0.0)
        gradient.on(device).launch(x, y, line, along, share)
        comm.all_reduce(along)
        step.on(device).launch(line, along, np.float32(RATE))
    for _ in range(STEPS):
        graph.replay()
    return [float(value) for value in line.numpy()]


def run(rank: int, size: int, kind: str, count: int, board: Board) -> None:
    def exchange(data: bytes | None) -> bytes:
        if data is not None:
            board.put(data)
        return board.get()

    with (
        vc.Device(f"{kind}:{rank}") as device,
        vc.distributed.join(device, exchange, rank=rank, size=size, timeout=60.0) as comm,
    ):
        found = fit(device, comm, points(rank, count))
        if rank == 0:
            together = np.concatenate([points(number, count) for number in range(size)], axis=1).astype(np.float64)
            expected = np.polyfit(together[0], together[1], 1)
            assert np.allclose(found, expected, atol=1e-3), (found, expected)
            print(f"{size} ranks with {count} points each: y = {found[0]:.3f} x {found[1]:+.3f}, as NumPy finds it")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="least squares on several GPUs")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--points", type=int, default=100_000, help="of each rank")
    parser.add_argument("--device", default="cuda", help="cuda or emulator")
    options = parser.parse_args(argv)
    spawn = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    with Boards(ctx=spawn) as boards:
        board = boards.Board()  # type: ignore[attr-defined]
        arguments = (options.ranks, options.device, options.points, board)
        processes = [spawn.Process(target=run, args=(rank, *arguments)) for rank in range(options.ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    return max(abs(process.exitcode or 0) for process in processes)


if __name__ == "__main__":
    sys.exit(main())
