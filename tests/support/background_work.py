"""Work that tests wait for, done one job after another in a process of its own while other tests run.

Building the native programs and running them, the type checker and whole runs of the benchmarks take processes of
their own and use one core; a run of the tests uses another. No thread and no pipe of the tests' process takes part, so
tests may fork and count what is open.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_SECONDS_BETWEEN_LOOKS = 0.02
_SECONDS_TO_END = 5.0  # for compilers and what started them, which write to the folder until they have ended


@dataclass(frozen=True)
class Job:
    """Commands that run in this order, up to the first that fails, in the folder `directory`."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    directory: str
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Done:
    """The exit status of the last command that ran, and all that was printed."""

    returncode: int
    stdout: str
    stderr: str


class BackgroundWork:
    """Jobs that have begun. `folder` is theirs."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="vyre-background-", ignore_cleanup_errors=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = Path(self._place.name)

    def start(self, jobs: Sequence[Job]) -> None:
        """Begin to do the jobs in this order."""
        words = [sys.executable, __file__, str(self.folder), json.dumps([asdict(job) for job in jobs])]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)

    def wait(self, name: str) -> Done:
        """What the job came to, when it has ended. RuntimeError if it never does."""
        status = self.folder / f"{name}.status"
        while not status.exists():
            if (self._process is None or self._process.poll() is not None) and not status.exists():
                raise RuntimeError(f"the work in the background has ended without {name}")
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        printed = [(self.folder / f"{name}.{end}").read_text(errors="replace") for end in ("out", "err")]
        return Done(int(status.read_text()), *printed)

    def stop(self) -> None:
        """End what still runs, and remove the folder."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, 15)
            self._process.wait()
            end = time.monotonic() + _SECONDS_TO_END
            while _has_processes(self._process.pid) and time.monotonic() < end:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        self._place.cleanup()


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _do(folder: Path, job: Job) -> None:
    status = 0
    with (folder / f"{job.name}.out").open("w") as out, (folder / f"{job.name}.err").open("w") as err:
        for command in job.commands:
            environment = {**os.environ, **dict(job.environment)}
            try:
                status = subprocess.run(
                    command, cwd=job.directory, env=environment, stdout=out, stderr=err, check=False
                ).returncode
            except OSError as error:
                print(error, file=err)
                status = 127
            if status != 0:
                break
    written = folder / f"{job.name}.writing"
    written.write_text(str(status))
    written.rename(folder / f"{job.name}.status")


def main(folder: str, jobs: str) -> None:
    """Do the jobs."""
    os.nice(10)
    for job in json.loads(jobs):
        commands = tuple(map(tuple, job["commands"]))
        environment = tuple(map(tuple, job["environment"]))
        _do(Path(folder), Job(job["name"], commands, job["directory"], environment))


if __name__ == "__main__":
    main(*sys.argv[1:])
