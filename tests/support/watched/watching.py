"""Seeds for several processes, each watched: see child.py for what they do.

A process that has told nothing new for `limit` seconds is examined (evidence.py). If it goes on meanwhile it was slow;
else it is ended. Another process takes its place, and that of one that died, and goes on with the next seed. At the end
each seed at which a process stopped is tried again, some times, by one process alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from . import evidence
from .child import ANSWERS, WAITS

ROOT = Path(__file__).parents[3]
PART = 50  # seeds that a process gets at once
_LOOK = 0.25  # seconds between looks at what the processes do
_STARTS = 3  # so often in a row a process may end before its first seed
_BEGINNING = 3  # a process has so many limits for what comes before its first seed
_MORE = 120.0  # seconds after those that were wanted, in which seeds are still tried again
_END = 30.0  # seconds that a killed process may take to be gone


@dataclass
class Stop:
    """A seed at which a process stopped or died."""

    seed: int | None
    how: str  # "hung", "slow" or "died"
    step: str
    seconds: float
    status: int | None = None
    evidence: str = ""
    others: list[dict[str, Any]] = field(default_factory=list)  # what the other processes did then
    alone: dict[str, int] | None = None  # of the seed, tried again by one process alone


@dataclass
class Result:
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[int, str]] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    done: int = 0  # seeds that ended
    given: int = 0  # seeds that a process got
    left: list[int] = field(default_factory=list)  # given, and taken by no process any more

    def as_lists(self) -> list[dict[str, Any]]:
        return [asdict(stop) for stop in self.stops]


class _Process:
    """A child, and what it has still to do."""

    def __init__(self, work: str, argument: str, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.left: deque[int] = deque()
        self.ended = 0  # seeds
        folder.mkdir(parents=True)
        answers, to_parent = os.pipe()
        words = [sys.executable, "-m", "tests.support.watched.child", work, argument, folder, os.getpid(), to_parent]
        with open(folder / "log", "w") as log:
            self.popen = subprocess.Popen(
                [str(each) for each in words],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[to_parent],
                env={**os.environ, **environment},
                start_new_session=True,  # a signal from the terminal is for the parent alone, which ends all
            )
        os.close(to_parent)
        self.answers = answers
        self.begun = time.monotonic()
        self._unread = b""

    def say(self, **what: Any) -> None:
        assert self.popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, as its answers will say
            self.popen.stdin.write(json.dumps(what).encode() + b"\n")
            self.popen.stdin.flush()

    def give(self, seeds: list[int]) -> None:
        self.left.extend(seeds)
        self.say(seeds=seeds)

    def read(self) -> list[dict[str, Any]] | None:
        """What it has answered; None at the end."""
        part = os.read(self.answers, 1 << 16)
        if not part:
            return None
        *lines, self._unread = (self._unread + part).split(b"\n")
        return [json.loads(line) for line in lines]

    def now(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):  # not written yet, or being written
            now: dict[str, Any] = json.loads((self.folder / "now").read_bytes())
            return now
        return {"seed": None, "step": "starts", "since": self.begun, "count": 0}

    def end(self) -> int | None:
        """Kill it; None if it is still there."""
        self.popen.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_END)
        if self.popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.popen.stdin.close()
        os.close(self.answers)
        return self.popen.returncode


class Watching:
    """Processes that work on seeds."""

    def __init__(
        self,
        work: str,
        argument: str,
        folder: Path,
        *,
        limit: float,
        patience: float = 15.0,
        environment: dict[str, str] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        """`patience`: seconds that a stopped process may take for each thing that it is asked for."""
        self._work, self._argument, self._folder = work, argument, folder
        self._limit, self._patience, self._environment, self._say = limit, patience, environment or {}, say
        self._number = 0
        self._processes: list[_Process] = []
        self._again: deque[int] = deque()  # what ended processes have left
        self._unstarted = 0  # processes in a row that ended before their first seed
        self._selector = selectors.DefaultSelector()

    def run(
        self, seeds: Iterable[int], processes: int, *, until: float | None = None, most_stops: int | None = None
    ) -> Result:
        """Do these, if they can be given until that time (of `time.monotonic`), and before so many stops."""
        result, rest = Result(), iter(seeds)

        def is_over() -> bool:
            late = until is not None and time.monotonic() >= until
            return late or (most_stops is not None and len(result.stops) >= most_stops)

        begun = told = time.monotonic()
        try:
            for _ in range(processes):
                self._start()
            while self._processes:
                ready = self._selector.select(_LOOK)
                for process in [key.data for key, _ in ready]:
                    self._hear(process, result, rest, is_over)
                for process in [each for each in self._processes if self._is_still(each)]:
                    self._hung(process, result)
                if time.monotonic() - told > 10:
                    told = time.monotonic()
                    self._say(self._progress(result, told - begun))
        finally:
            for process in self._processes:
                process.end()
            self._selector.close()
        result.left = sorted(self._again)
        return result

    def _progress(self, result: Result, seconds: float) -> str:
        kinds = Counter(stop.how for stop in result.stops)
        what = "".join(f", {number} {how}" for how, number in kinds.items())
        return f"{seconds:5.0f} s: {result.done:,} of {result.given:,} given, {len(self._processes)} processes{what}"

    # ---- processes ----

    def _start(self) -> None:
        self._number += 1
        folder = self._folder / f"process-{self._number}"
        process = _Process(self._work, self._argument, folder, self._environment)
        self._processes.append(process)
        self._selector.register(process.answers, selectors.EVENT_READ, process)

    def _leave(self, process: _Process, result: Result) -> int | None:
        """End it. What was found out about it stays. None: it is still there."""
        self._selector.unregister(process.answers)
        self._processes.remove(process)
        self._again.extend(process.left)
        status = process.end()
        if not any(stop.evidence == process.folder.name for stop in result.stops):
            shutil.rmtree(process.folder, ignore_errors=True)
        return status

    def _replace(self, process: _Process, result: Result) -> int | None:
        """End it, and have another one go on with what it has left."""
        status = self._leave(process, result)
        self._unstarted = 0 if process.ended else self._unstarted + 1
        if self._unstarted < _STARTS:
            self._start()
        elif not self._processes:
            self._say("no process can be started any more")
        return status

    def _hear(self, process: _Process, result: Result, rest: Iterator[int], is_over: Callable[[], bool]) -> None:
        answers = process.read()
        if answers is None:
            self._died(process, result)
            return
        for answer in answers:
            if "seed" in answer:
                with contextlib.suppress(ValueError):  # it was slow
                    process.left.remove(answer["seed"])
                process.ended += 1
                result.done += 1
                result.counts.update(answer["counts"])
                if answer["why"]:
                    result.wrong.append((answer["seed"], answer["why"]))
                    self._say(f"seed {answer['seed']}: {answer['why']}")
            elif is_over() or not self._give(process, result, rest):
                self._leave(process, result)

    def _give(self, process: _Process, result: Result, rest: Iterator[int]) -> bool:
        """The next seeds; False: there are none."""
        seeds = [self._again.popleft() for _ in range(min(PART, len(self._again)))]
        if not seeds:
            seeds = list(islice(rest, PART))
            result.given += len(seeds)
        if seeds:
            process.give(seeds)
        return bool(seeds)

    # ---- stops ----

    def _is_still(self, process: _Process) -> bool:
        now = process.now()
        if now["step"] in (WAITS, ANSWERS):
            return False
        limit = self._limit if now["seed"] is not None else self._limit * _BEGINNING
        return bool(time.monotonic() - now["since"] > limit)

    def _stop(self, process: _Process, how: str) -> Stop:
        now, time_now = process.now(), time.monotonic()
        if now["seed"] is not None and now["seed"] in process.left:
            process.left.remove(now["seed"])
        others = [
            {
                **{k: v for k, v in each.now().items() if k in ("seed", "step")},
                "for": round(time_now - each.now()["since"], 3),
            }
            for each in self._processes
            if each is not process
        ]
        stop = Stop(now["seed"], how, now["step"], round(time_now - now["since"], 3), None, process.folder.name, others)
        self._say(f"{how}: process {process.popen.pid}, seed {stop.seed}, {stop.step}, since {stop.seconds:.1f} s")
        return stop

    def _hung(self, process: _Process, result: Result) -> None:
        stop, count = self._stop(process, "hung"), process.now()["count"]
        result.stops.append(stop)
        found = evidence.collect(process.popen.pid, process.folder, lambda: process.say(look=True), self._patience)
        self._say(f"  what was found out is in {process.folder}: {', '.join(found)}")
        if process.now()["count"] != count:
            stop.how = "slow"
            self._say("  it goes on now")
            return
        stop.status = self._replace(process, result)
        if stop.status is None:
            self._say(f"  process {process.popen.pid} is still there {_END:.0f} s after it was killed")

    def _died(self, process: _Process, result: Result) -> None:
        """Its answers have ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.popen.wait(_END)
        if process.popen.returncode == 0:  # it said that it cannot go on
            self._replace(process, result)
            return
        stop = self._stop(process, "died")
        result.stops.append(stop)
        for line in (process.folder / "log").read_text(errors="replace").splitlines()[-12:]:
            self._say(f"  {line}")
        stop.status = self._replace(process, result)


def run(
    work: str,
    argument: str,
    seeds: Iterable[int],
    *,
    processes: int,
    folder: Path,
    limit: float = 60.0,
    patience: float = 15.0,
    seconds: float | None = None,
    alone: int = 20,
    environment: dict[str, str] | None = None,
    say: Callable[[str], None] = print,
) -> Result:
    """Do the seeds, and then those at which a process stopped, so many times alone; `seconds` are for the former, and
    two minutes more for the latter."""
    until = None if seconds is None else time.monotonic() + seconds

    def watching(name: str) -> Watching:
        to = folder / name
        return Watching(work, argument, to, limit=limit, patience=patience, environment=environment, say=say)

    result = watching("together").run(seeds, processes, until=until)
    for stop in result.stops if alone > 0 else ():
        if stop.seed is None or (until is not None and time.monotonic() > until + _MORE):
            continue
        again = watching(f"alone-{stop.seed}").run([stop.seed] * alone, 1, most_stops=1)
        stop.alone = {"ended": again.done, "stopped": len(again.stops), "wrong": len(again.wrong)}
        say(f"seed {stop.seed} alone: {stop.alone}")
    for each in [*folder.glob("*"), folder]:
        with contextlib.suppress(OSError):  # there is something in it
            each.rmdir()
    return result
