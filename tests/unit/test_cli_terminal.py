"""The command line at a terminal: its colors, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vyre_cuda.cli import main

BROKEN = "program broken\nin x: f32\nout y: f32[size(z)]\n\nlet i = global_id.x\nstore y[i], load(x[i])\n"
BUILT = 'import vyre_cuda as vc\n\nb = vc.Builder("first")\nb.output("y", vc.f32)\nFIRST = b.build()\n'


def write(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


def everything_read(terminal: int) -> bytes:
    """In parts, as the kernel hands them over, up to the error that is the end of a terminal."""
    parts: list[bytes] = []
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.thin
@pytest.mark.parametrize(("no_color", "expected"), [("", True), ("1", False)])
def test_colors_are_for_terminals_that_want_them(no_color: str, expected: bool, tmp_path: Path) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "-m", "vyre_cuda", "check", write(tmp_path, "broken.vir", BROKEN)]
    subprocess.run(command, stdout=slave, stderr=slave, env={**os.environ, "NO_COLOR": no_color}, check=False)
    os.close(slave)
    shown = everything_read(master)
    os.close(master)

    assert b"^" in shown
    assert (b"\x1b[" in shown) == expected


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_command_needs_neither_stdout_nor_stderr(closed: str, tmp_path: Path) -> None:
    command = f'exec "$0" -m vyre_cuda check "$1" {closed}'

    for text, code in ((BUILT, 0), ("import nothing_like_it\n", 2)):
        done = subprocess.run(["sh", "-c", command, sys.executable, write(tmp_path, "some.py", text)], check=False)
        assert done.returncode == code


def test_no_colors_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", write(tmp_path, "broken.vir", BROKEN)])

    assert "\x1b" not in "".join(capsys.readouterr())


SWALLOWED = (
    "import time\nclass Held:\n    def __del__(self):\n        raise KeyboardInterrupt\n\nHeld()\ntime.sleep(60)\n"
)


def interrupted(tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(tmp_path, "built.py", source + BUILT), "--program", "first"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("delay", [0.0, 0.2], ids=["behind the hook", "within the hook"])
def test_an_interrupt_that_a_callback_swallows_ends_the_command(
    delay: float, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the callbacks of Python's import locks do, where Ctrl-C now and then arrives."""
    start = threading.Thread.start

    def slow_start(thread: threading.Thread) -> None:
        start(thread)
        time.sleep(delay)

    monkeypatch.setattr(threading.Thread, "start", slow_start)

    interrupted(tmp_path, SWALLOWED, capsys)


def test_a_signal_that_comes_late_interrupts_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = signal.pthread_kill

    def kill_now_and_late(thread: int, number: int) -> None:
        for delay in (0.0, 0.3):
            time.sleep(delay)
            kill(thread, number)

    monkeypatch.setattr(signal, "pthread_kill", kill_now_and_late)

    interrupted(tmp_path, SWALLOWED, capsys)
    time.sleep(0.4)  # a signal would come within this time


def test_interrupts_that_are_swallowed_one_after_the_other_end_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(tmp_path, SWALLOWED.replace("Held()\n", "Held()\nHeld()\n"), capsys)
    time.sleep(0.05)  # a signal would come within this time
