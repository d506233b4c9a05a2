"""What tests see of their work is not what the collector calls in the middle of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from interrupts import interrupted
from uncollected import uncollected


class Ring:
    """Garbage that calls Python when it is collected."""

    ended = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Ring.ended += 1


@pytest.fixture
def eager_collector() -> Iterator[None]:
    """It comes with the next objects that are made."""
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("eager_collector")
def test_the_collector_calls_nothing_within_it_and_is_back_behind_it() -> None:
    names: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    with uncollected():
        Ring()
        sys.setprofile(note)
        try:
            made = [[] for _ in range(100)]  # type: ignore[var-annotated]
        finally:
            sys.setprofile(None)
        within = Ring.ended
    made += [[] for _ in range(100)]

    assert "__del__" not in names
    assert len(made) == 200
    assert Ring.ended > within


@pytest.mark.usefixtures("eager_collector")
def test_no_interrupt_is_lost_in_what_the_collector_calls() -> None:
    def work() -> list[None]:
        Ring()
        return [len([[]]) and None for _ in range(20)]

    places = list(interrupted(work))

    assert len(places) > 20
