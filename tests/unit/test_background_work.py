"""What the suite does in the background is waited for, and says how it ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest
from background_work import BackgroundWork, Job


def python(name: str, *texts: str) -> Job:
    return Job(name, tuple((sys.executable, "-c", text) for text in texts), "/")


@pytest.fixture
def work() -> Iterator[BackgroundWork]:
    work = BackgroundWork()
    yield work
    work.stop()


def test_a_job_ends_with_its_status_and_what_it_printed(work: BackgroundWork) -> None:
    work.start([python("first", "print(1)", "import sys; sys.exit('no')", "print(3)"), python("second", "print(4)")])

    second, first = work.wait("second"), work.wait("first")
    assert (second.returncode, second.stdout) == (0, "4\n")
    assert (first.returncode, first.stdout, first.stderr) == (1, "1\n", "no\n")


def test_a_program_that_is_not_installed_is_a_failure(work: BackgroundWork) -> None:
    work.start([Job("absent", (("vyre-no-such-program",),), "/")])

    assert work.wait("absent").returncode == 127


def test_a_job_that_never_begins_is_not_waited_for(work: BackgroundWork) -> None:
    work.start([python("one", "pass")])

    with pytest.raises(RuntimeError, match="ended without another"):
        work.wait("another")


def test_what_still_runs_is_ended(work: BackgroundWork) -> None:
    work.start([python("endless", "import time; time.sleep(1000)")])
    folder = work.folder
    work.stop()

    assert not folder.exists()


@pytest.mark.thin
def test_nothing_is_written_to_a_folder_that_is_gone(work: BackgroundWork) -> None:
    """What a job has started, too: here it ends when it has written something else."""
    waiting = "import pathlib, signal, sys, time; folder = pathlib.Path(sys.argv[1])\n"
    waiting += "def end(*_): time.sleep(0.05); (folder / 'late').mkdir(parents=True); sys.exit()\n"
    waiting += "signal.signal(signal.SIGTERM, end); (folder / 'begun').touch(); time.sleep(1000)"
    job = Job("late", ((sys.executable, "-c", waiting, str(work.folder)),), "/")
    work.start([job])
    while not (work.folder / "begun").exists():
        time.sleep(0.01)
    work.stop()

    time.sleep(0.1)
    assert not work.folder.exists()
