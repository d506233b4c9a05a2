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


def cub(sizes: Sequence[int], program: Path | None) -> dict[tuple[str, int], float] | str:
    """Milliseconds of each task and number of elements, or why there are none. Without a program it is built here."""
    with tempfile.TemporaryDirectory() as folder:
        if program is None:
            compiler = shutil.which("nvcc")
            if compiler is None:
                return "nvcc is not installed, and no program is given"
            program = Path(folder) / "cub"
            source = Path(__file__).with_name("cub.cu")
            command = [compiler, "-O3", "-std=c++17", "-arch=native", "-o", str(program), str(source)]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                return f"nvcc: {made.stderr.strip()[-200:]}"
        done = subprocess.run([program.resolve(), *map(str, sizes)], capture_output=True, text=True, check=False)
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


# What a library says where it cannot do a task.
FAILURES = (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError)


def cupy(cp: Any, task: str, x: Any, y: Any) -> Launch | None:
    """The task with CuPy on arrays that share the memory of ours."""
    forms: dict[str, Callable[[Any, Any], Any]] = {
        "sum f32": lambda x, _: cp.sum(x),
        "cumsum f32": lambda x, _: cp.cumsum(x),
        "cumsum u32": lambda x, _: cp.cumsum(x, dtype=cp.uint32),
        "sort u32": lambda x, _: cp.sort(x),
        "bincount u8": lambda x, _: cp.bincount(x, minlength=256),
        "compress u32": lambda x, y: x[y != 0],
        "matmul f32": cp.matmul,
    }
    return _launch(forms.get(task), cp.asarray, x, y)


def torch(torch: Any, task: str, x: Any, y: Any) -> Launch | None:
    """The task with PyTorch, likewise; it has no arithmetic on u32, so it takes i32."""

    def shared(array: Any) -> Any:
        tensor = torch.as_tensor(array, device="cuda")
        return tensor.view(torch.int32) if tensor.dtype == torch.uint32 else tensor

    forms: dict[str, Callable[[Any, Any], Any]] = {
        "sum f32": lambda x, _: torch.sum(x),
        "cumsum f32": lambda x, _: torch.cumsum(x, 0),
        "cumsum u32": lambda x, _: torch.cumsum(x, 0, dtype=torch.int32),
        "sort u32": lambda x, _: torch.sort(x),
        "bincount u8": lambda x, _: torch.bincount(x, minlength=256),
        "compress u32": lambda x, y: x[y != 0],
        "matmul f32": torch.matmul,
    }
    return _launch(forms.get(task), shared, x, y)


def _launch(form: Callable[[Any, Any], Any] | None, shared: Callable[[Any], Any], x: Any, y: Any) -> Launch | None:
    if form is None:
        return None
    given = shared(x), shared(y)
    return lambda: form(*given)
