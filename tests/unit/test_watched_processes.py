"""Processes that stop are noticed, examined and replaced, and none outlives who started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.watched import watching
from tests.support.watched.stopping import CANNOT_GO_ON, DIES, FAILS, IS_SLOW, LONG, SLEEPS

ROOT = Path(__file__).parents[2]
WORK = "tests.support.watched.stopping:"
LIMIT = 600  # seconds: no process is taken for one that has stopped because the machine is busy


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[watching.Result, Path, list[str]]:
    folder, markers, said = tmp_path_factory.mktemp("stopped"), tmp_path_factory.mktemp("markers"), []
    result = watching.run(
        f"{WORK}Stopping",
        str(markers),
        range(120),
        processes=2,
        folder=folder,
        limit=LIMIT,
        patience=LIMIT,
        alone=3,
        say=said.append,
    )
    return result, folder, said


@pytest.mark.thin
@pytest.mark.slow
def test_what_does_not_stop_is_done(stopped: tuple[watching.Result, Path, list[str]]) -> None:
    result, _, _ = stopped

    assert (result.given, result.done, result.left) == (120, 118, [])
    assert result.counts == {"seeds": 118, "odd": 59}
    assert sorted(result.wrong) == [(FAILS, "it differs"), (CANNOT_GO_ON, "it differs")]


@pytest.mark.thin
@pytest.mark.slow
def test_stops_are_told_with_their_seeds(stopped: tuple[watching.Result, Path, list[str]]) -> None:
    result, _, said = stopped
    stops = {stop.seed: stop for stop in result.stops}

    assert {seed: stop.how for seed, stop in stops.items()} == {SLEEPS: "hung", DIES: "died", IS_SLOW: "slow"}
    assert (stops[SLEEPS].step, stops[SLEEPS].status) == ("sleeps", -signal.SIGKILL)
    assert stops[SLEEPS].seconds >= LONG
    assert (stops[DIES].step, stops[DIES].status) == ("works", -signal.SIGKILL)
    assert "  this is the end" in said
    assert all({"seed", "step", "for"} == {*other} for stop in stops.values() for other in stop.others)


@pytest.mark.thin
@pytest.mark.slow
def test_seeds_that_stopped_are_tried_again_alone(stopped: tuple[watching.Result, Path, list[str]]) -> None:
    result, _, _ = stopped

    assert {stop.seed: stop.alone for stop in result.stops} == {
        seed: {"ended": 3, "stopped": 0, "wrong": 0} for seed in (SLEEPS, DIES, IS_SLOW)
    }


@pytest.mark.thin
@pytest.mark.slow
def test_what_stopped_is_examined(stopped: tuple[watching.Result, Path, list[str]]) -> None:
    result, folder, _ = stopped
    (stop,) = (each for each in result.stops if each.seed == SLEEPS)
    found = folder / "together" / stop.evidence

    assert "stopping.py" in (found / "python").read_text()
    assert "in one" in (found / "python").read_text()
    assert (found / "look").read_text().split("\n") == ["this thread still runs", "looked", ""]
    assert json.loads((found / "now").read_text())["step"] == "sleeps"
    assert "listener" not in (found / "log").read_text()
    assert (found / "threads").read_text().count("python") >= 2
    assert {each.name for each in (folder / "together").iterdir()} == {each.evidence for each in result.stops}


@pytest.mark.slow
def test_seeds_are_given_up_when_no_process_can_begin(tmp_path: Path) -> None:
    said: list[str] = []
    result = watching.run(
        f"{WORK}Unable", "nowhere", range(9), processes=2, folder=tmp_path / "stops", limit=LIMIT, say=said.append
    )

    assert (result.given, result.done) == (0, 0)
    assert {(stop.seed, stop.how, stop.status) for stop in result.stops} == {(None, "died", 1)}
    assert len(result.stops) == 4  # three in a row, and the other of the two
    assert "  OSError: nothing can begin in nowhere" in said


@pytest.mark.slow
def test_no_more_seeds_are_given_when_the_time_is_over(tmp_path: Path) -> None:
    result = watching.run(
        f"{WORK}Stopping", str(tmp_path), range(100), processes=1, folder=tmp_path / "stops", limit=LIMIT, seconds=0
    )

    assert (result.given, result.done, result.stops) == (0, 0, [])
    assert not (tmp_path / "stops").exists()


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


WATCHING = """
from pathlib import Path
from tests.support.watched import watching
if __name__ == "__main__":
    stops = Path({0!r}) / "stops"
    watching.run("tests.support.watched.stopping:Sleeping", {0!r}, range(200), processes=2, folder=stops, limit=600)
"""
POOL = """
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tests.support.watched.child import end_with_parent
from tests.support.watched.stopping import sleep_in
if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn"), end_with_parent, (os.getpid(),)) as pool:
        list(pool.map(sleep_in, [{0!r}] * 2))
"""


@pytest.mark.slow
@pytest.mark.parametrize("source", [WATCHING, POOL], ids=["watching", "pool"])
def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path: Path, source: str) -> None:
    (tmp_path / "source.py").write_text(source.format(str(tmp_path)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "source.py"], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        while len(pids := [int(each.name) for each in tmp_path.iterdir() if each.name.isdigit()]) < 2:
            assert parent.poll() is None
            time.sleep(0.05)
        assert not any(map(has_ended, pids))
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()

    while not all(map(has_ended, pids)):
        time.sleep(0.05)
