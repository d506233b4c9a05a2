"""What can be found out from outside about a process that has stopped: its stacks, its threads, and the GPU."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_SECONDS = 30.0  # that a program may take


def said(*words: str) -> str:
    """What a program says, or why it says nothing."""
    if shutil.which(words[0]) is None:
        return f"{words[0]} is not here\n"
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{words[0]} has not ended in {_SECONDS:.0f} s\n"
    return done.stdout + done.stderr


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"


def threads(pid: int) -> str:
    """Each thread: its name, its state, where in the kernel it is, and how long it has computed, in ticks."""
    lines = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        fields = _read(task / "stat").rpartition(")")[2].split()
        state, user, system = (fields[0], fields[11], fields[12]) if len(fields) > 12 else ("?", "?", "?")
        where = " ".join((_read(task / "wchan"), "call", _read(task / "syscall")))
        lines.append(f"{task.name} {_read(task / 'comm'):16} {state} user {user} system {system} in {where}")
        stack = _read(task / "stack")
        lines += [f"    {line}" for line in stack.splitlines() if not stack.startswith("(")]
    return "\n".join(lines) + "\n"


def gpu() -> str:
    """What the GPUs do, who uses them, and what the kernel's log has of them."""
    use = "timestamp,index,utilization.gpu,utilization.memory,memory.used,memory.total,clocks.sm,pstate"
    log = [line for line in said("dmesg").splitlines() if "NVRM" in line or "Xid" in line]
    return "\n".join(
        (
            said("nvidia-smi", f"--query-gpu={use}", "--format=csv"),
            said("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv"),
            *log[-20:],
        )
    )


def _await(is_there: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_there() and time.monotonic() < end:
        time.sleep(0.05)


def _signalled(pid: int, which: signal.Signals, path: Path, seconds: float) -> None:
    """Have the process write a file, which is there when it is not empty and does not grow."""
    os.kill(pid, which)
    _await(lambda: path.exists() and path.stat().st_size > 0, seconds)
    time.sleep(0.2)


def collect(pid: int, folder: Path, ask: Callable[[], None], seconds: float) -> list[str]:
    """All of it, in files of the folder; their names. `ask` has the process look around, which may take so long; what
    may end it comes last."""
    before = threads(pid)
    _signalled(pid, signal.SIGUSR1, folder / "python", seconds)
    (folder / "threads").write_text(f"{before}\nlater:\n{threads(pid)}")
    (folder / "gpu").write_text(gpu())
    ask()
    _await(lambda: "looked" in _read(folder / "look"), seconds)
    stacks = said("gdb", "-p", str(pid), "-batch", "-nx", "-ex", "set pagination off", "-ex", "thread apply all bt 60")
    (folder / "gdb").write_text(stacks)
    _signalled(pid, signal.SIGUSR2, folder / "c", seconds / 3)
    return sorted(each.name for each in folder.iterdir() if each.stat().st_size > 0)
