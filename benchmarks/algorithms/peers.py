"""The tasks with CUB, CuPy and PyTorch, where these are installed."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Launch = Callable[[], Any]


def cub(sizes: Sequence[int]) -> dict[tuple[str, int], float] | str:
    """Milliseconds of each task and number of elements, or why there are none."""
    compiler = shutil.which("nvcc")
    if compiler is None:
        return "nvcc is not installed"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "cub"
        source = Path(__file__).with_name("cub.cu")
        command = [compiler, "-O3", "-std=c++17", "-arch=native", "-o", program, source]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            return f"nvcc: {made.stderr.strip()[-200:]}"
        done = subprocess.run([program, *map(str, sizes)], capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        task, elements, ms = line.split("\t")
        found[task, int(elements)] = float(ms)
    return found if done.returncode == 0 else f"CUB: {done.stderr.strip()[-200:]}"


def found(name: str) -> Any:
    """A library that can use the GPU, or None."""
    try:
        module = importlib.import_module(name)
        usable = module.cuda.is_available()
    except (ImportError, RuntimeError):
        return None
    return module if usable else None


def cupy(cp: Any, task: str, x: Any, y: Any) -> Launch | None:
    """The task with CuPy on arrays that share the memory of ours."""
    x, y = cp.asarray(x), cp.asarray(y)
    forms: dict[str, Launch] = {
        "sum f32": lambda: cp.sum(x),
        "cumsum f32": lambda: cp.cumsum(x),
        "cumsum u32": lambda: cp.cumsum(x, dtype=cp.uint32),
        "sort u32": lambda: cp.sort(x),
        "bincount u8": lambda: cp.bincount(x, minlength=256),
        "compress u32": lambda: x[y != 0],
        "matmul f32": lambda: cp.matmul(x, y),
    }
    return forms.get(task)


def torch(torch: Any, task: str, x: Any, y: Any) -> Launch | None:
    """The task with PyTorch, likewise; it has no arithmetic on u32, so it takes i32."""
    x, y = (torch.as_tensor(each, device="cuda") for each in (x, y))
    x = x.view(torch.int32) if x.dtype == torch.uint32 else x
    forms: dict[str, Launch] = {
        "sum f32": lambda: torch.sum(x),
        "cumsum f32": lambda: torch.cumsum(x, 0),
        "cumsum u32": lambda: torch.cumsum(x, 0, dtype=torch.int32),
        "sort u32": lambda: torch.sort(x),
        "bincount u8": lambda: torch.bincount(x, minlength=256),
        "compress u32": lambda: x[y != 0],
        "matmul f32": lambda: torch.matmul(x, y),
    }
    return forms.get(task)
