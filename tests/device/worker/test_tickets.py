"""Rounds of random tickets: workers give what launches give, and a round finds it if they do not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.waiting.pending import Pending
from vyre_cuda.runtime.worker.worker import Worker

from .ticket_rows import PROGRAMS, SETS, Case, Row, drawn_cases
from .tickets import SETTINGS, Counts, Round

TICKETS = 4 * 500


@pytest.fixture
def of_round(device: vc.Device) -> Callable[..., Counts]:
    def counts_of(*, make: Callable[..., Worker] = Worker) -> Counts:
        counts = Counts([0] * len(Counts.FIELDS))
        Round.drawn(device, random.Random(1), 2).run(TICKETS, 3, 1, counts, lambda: False, make)
        return counts

    return counts_of


def test_workers_give_what_launches_give(of_round: Callable[..., Counts]) -> None:
    counts = of_round()
    assert counts.tickets >= TICKETS
    assert (counts.wrong, counts.workers, counts.programs) == (0, len(SETTINGS), PROGRAMS)
    assert counts.launches >= len(SETTINGS)


class Losing(Worker):
    """Some calls do not run."""

    lost = 0

    def bind(self, kernel: Any, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        bound = super().bind(kernel, *args, grid=grid, **kwargs)
        type(self).lost += 1
        return (lambda: None) if self.lost % 64 == 0 else bound


class Mistaken(Worker):
    """Some calls with host arrays find the arguments of others."""

    turn = 0
    last: dict[Any, tuple[Any, ...]]

    def submit(self, kernel: Any, *args: Any, out: Any = None, grid: Any = None, **kwargs: Any) -> Pending:
        self.turn += 1
        self.last = getattr(self, "last", {})
        args, self.last[kernel] = (self.last.get(kernel, args) if self.turn % 16 == 0 else args), args
        return super().submit(kernel, *args, out=out, grid=grid, **kwargs)


@pytest.mark.parametrize("make", [Losing, Mistaken])
def test_a_wrong_worker_is_found(of_round: Callable[..., Counts], make: type[Worker]) -> None:
    assert of_round(make=make).wrong > 0


def test_one_wrong_bit_is_found(device: vc.Device) -> None:
    cases = drawn_cases(device, random.Random(2))
    with device.worker([case.kernel for case in cases]) as worker:
        assert wrong_bytes(device, worker, cases) == 0
        flip_a_bit(cases[0])
        assert wrong_bytes(device, worker, cases) == 2 + 6  # of the tickets with these arguments


def wrong_bytes(device: vc.Device, worker: Worker, cases: list[Case]) -> int:
    row = Row(device, cases)
    return row.run(row.starts(worker))


def flip_a_bit(case: Case) -> None:
    case.results[SETS - 1][0][7] ^= 1 << 5
