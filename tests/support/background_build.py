"""The C layer and the native programs, built by CMake in a process of its own while other tests run.

No thread and no pipe of the tests' process takes part, so tests may fork and count what is open.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


class BackgroundBuild:
    """One build folder; `wait` before it is used."""

    def __init__(self, options: Sequence[str], *, everything: bool) -> None:
        """Configure, and build all targets if `everything` is wanted."""
        self._place = tempfile.TemporaryDirectory(prefix="vyre-native-")
        self._log = Path(self._place.name, "log")
        words = [sys.executable, __file__, str(self.folder), str(int(everything)), *options]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def folder(self) -> Path:
        return Path(self._place.name, "build")

    def wait(self) -> Path:
        """The folder, when all is done. RuntimeError with what was printed if a step failed."""
        if self._process.wait() != 0:
            raise RuntimeError(self._log.read_text())
        return self.folder

    def stop(self) -> None:
        """End what still runs, and remove the folder."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, 15)
            self._process.wait()
        self._place.cleanup()


def main(folder: str, everything: str, *options: str) -> int:
    """Run CMake; the exit status is that of the first step that fails."""
    places = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
    cmake = shutil.which("cmake", path=places)
    if cmake is None:
        print("cmake is not installed")
        return 1
    os.nice(10)
    configure = [cmake, "-S", str(ROOT), "-B", folder, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}", *options]
    steps = [configure, [cmake, "--build", folder]]
    for command in steps if int(everything) else steps[:1]:
        status = subprocess.run(command, env={**os.environ, "PATH": places}, check=False).returncode
        if status != 0:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
