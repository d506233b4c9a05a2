"""One process of a run: draws and judges every so-manieth case, and tells each verdict.

It ends when its share is done, at the deadline, or when its device is lost; who started it then starts another.
"""

from __future__ import annotations

import gc
import time
from collections.abc import MutableSequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

# Cases between two collections of garbage: the trees and the package's programs are dropped without.
COLLECT_EVERY = 200


@dataclass(frozen=True, slots=True)
class Share:
    """Cases first, first + step ... below `end`, until `deadline` (of time.monotonic)."""

    place: int
    first: int
    step: int
    end: int
    deadline: float
    profile: str
    seed: int
    device: int | str
    bundles: int
    large: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a case. `seconds`: drawing it with the oracle, and running it."""

    number: int
    kind: str
    state: str
    compared: int = 0
    bundled: bool = False
    seconds: tuple[float, float] = (0.0, 0.0)
    finding: dict[str, Any] | None = None


def work(share: Share, sender: Connection, current: MutableSequence[int], since: MutableSequence[float]) -> None:
    """`current` and `since` have a place for this process: which case it is at, from when on."""
    # The package opens the driver here, not in the process that watches.
    from findings import finding
    from judge import REFUSED, WRONG, Judge, refusal
    from oracle import OutOfFuel
    from random_cases import draw_case

    import vyre_cuda as vc

    judge = Judge(vc.Device(share.device), bundles=share.bundles, large=share.large)
    sender.send(judge.described())
    gc.freeze()
    gc.disable()
    for turn, number in enumerate(range(share.first, share.end, share.step)):
        begin = time.monotonic()
        if begin > share.deadline:
            break
        current[share.place], since[share.place] = number, begin
        if turn % COLLECT_EVERY == COLLECT_EVERY - 1:
            gc.collect()
        try:
            case = draw_case(share.profile, share.seed, number)
        except OutOfFuel:
            sender.send(Report(number, "discarded", "discarded"))
            continue
        except Exception as error:  # of the oracle or the generator: the others go on
            problem = {"problem": f"no case: {type(error).__name__}: {error}", "number": number}
            sender.send(Report(number, "undrawn", REFUSED, finding=problem))
            continue
        drawn = time.monotonic()
        lost = False
        try:
            verdict = judge.judge(case)
        except Exception as error:  # whatever it is, the package refused a valid program with it
            verdict, lost = refusal(error), isinstance(error, vc.DeviceLostError)
        seconds = (drawn - begin, time.monotonic() - drawn)
        found = None
        if verdict.state in (WRONG, REFUSED):
            found = finding(case, verdict, profile=share.profile, seed=share.seed, number=number)
        sender.send(Report(number, case.kind, verdict.state, verdict.compared, verdict.bundled, seconds, found))
        if lost:
            break
    else:
        sender.send(None)
        return
    sender.send(None if time.monotonic() > share.deadline else "lost")
