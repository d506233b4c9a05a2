"""Programs to count the machine code of: those of users, of the package itself, and random ones.

A program is given as it is lowered, with the options that it is lowered with.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from kernels import KERNELS
from random_programs import draw_program

import vyre_cuda as vc
import vyre_cuda.codegen.lower
from vyre_cuda import algorithms
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.runtime.kernel.large_lowering import wide_of

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
# How each example is run, besides `--device emulator`.
_EXAMPLES: dict[str, tuple[str, ...]] = {
    "control": ("--springs", "40", "--steps", "3"),
    "duplicates": (str(_HERE / "kernels.py"), "--rows", "500"),
    "fir": ("--blocks", "2"),
    "groupby": ("--rows", "20"),
    "histogram": (str(_HERE / "kernels.py"),),
    "image": ("picture.png",),
    "mandelbrot": ("picture.png", "--width", "30", "--height", "20", "--limit", "10"),
    "mlp": ("--points", "60", "--size", "16"),
    "nbody": ("--bodies", "64", "--steps", "2"),
    "outliers": ("--count", "2000"),
    "reduction": ("--size", "3000"),
    "rnn": ("--units", "8", "--steps", "3"),
    "saxpy": ("--size", "1000"),
    "selfhost": ("--programs", "8", "--evaluated", "1"),
    "softmax": ("--rows", "2", "--columns", "100"),
    "transpose": ("--rows", "40", "--columns", "30"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A program before it is lowered."""

    name: str
    program: vc.Program
    precision: str = "ieee"
    bounds: str = "check"
    max_ulp: float | None = None


@contextmanager
def _noticed(into: list[Source], where: str) -> Iterator[None]:
    """What is lowered for kernels goes into the list."""
    before = vyre_cuda.codegen.lower.Lowering

    class Noticed(Lowering):
        def __init__(self, program: vc.Program, *rest: Any, precision: str, bounds: str, **options: Any) -> None:
            super().__init__(program, *rest, precision=precision, bounds=bounds, **options)
            if not (options.get("races") or options.get("initialized")):
                name = f"{where} {program.name}"
                into.append(Source(name, program, precision, bounds, options.get("max_ulp")))

    vyre_cuda.codegen.lower.Lowering = Noticed  # type: ignore[misc]
    try:
        yield
    finally:
        vyre_cuda.codegen.lower.Lowering = before  # type: ignore[misc]


def _with_wide(sources: list[Source]) -> list[Source]:
    """Each program once, and behind it the same with several elements a thread, for large launches."""
    found: dict[tuple[str, str, str], Source] = {}
    for source in sources:
        programs = [("", source.program)]
        wide = wide_of(source.program, bounds=source.bounds)
        if wide is not None:
            programs.append((" several", wide.program))
            if wide.neighbors is not None:
                programs.append((" neighbors", wide.neighbors))
        for suffix, program in programs:
            each = Source(source.name + suffix, program, source.precision, source.bounds, source.max_ulp)
            found.setdefault((program.text(), source.precision, source.bounds), each)
    return list(found.values())


def corpus(_count: int, _seed: int) -> list[Source]:
    """Kernels as users write them, and the programs whose text is kept."""
    written = {name: make() for name, make in KERNELS.items()}
    for path in sorted((*(_ROOT / "tests" / "golden" / "programs").glob("*.vir"), *(_ROOT / "examples").glob("*.vir"))):
        written[f"{path.parent.name} {path.stem}"] = vc.parse(path.read_text(encoding="utf-8"))
    return _with_wide([Source(name, prepared(program)) for name, program in written.items()])


def examples(_count: int, _seed: int) -> list[Source]:
    """All kernels that the examples launch."""
    found: list[Source] = []
    for name, words in _EXAMPLES.items():
        with _noticed(found, name), _run_as_script(_ROOT / "examples" / f"{name}.py", (*words, "--device", "emulator")):
            pass
    return _with_wide(found)


@contextmanager
def _run_as_script(path: Path, words: tuple[str, ...]) -> Iterator[None]:
    """Run it in a folder of its own; what it prints is nobody's business."""
    arguments, modules, before = sys.argv, sys.path[:], Path.cwd()
    sys.argv = [str(path), *words]
    sys.path.insert(0, str(path.parent))
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            os.chdir(folder)
            try:
                runpy.run_path(str(path), run_name="__main__")
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"{path.name} ended with {end.code}") from None
            finally:
                os.chdir(before)
            yield
    finally:
        sys.argv, sys.path[:] = arguments, modules


def of_algorithms(_count: int, _seed: int) -> list[Source]:
    """The kernels of the algorithms for some types, on arrays of one block and of several."""
    found: list[Source] = []
    with vc.Device("emulator") as device:
        for type_ in (np.uint8, np.int32, np.float32, np.int64, np.float64, np.float16):
            for size in (100, 5000):
                for call in _CALLS:
                    with _noticed(found, f"{call.__name__} {np.dtype(type_)}"):
                        _attempt(call, device, np.dtype(type_), size)
    return _with_wide(found)


def _attempt(call: Callable[..., None], device: vc.Device, type_: np.dtype[Any], size: int) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 100, size).astype(type_)
    with contextlib.suppress(TypeError, vc.UnsupportedError):  # not for this type
        call(device, device.array(numbers), numbers)


def _reduced(_device: vc.Device, x: Any, _numbers: Any) -> None:
    for name in ("sum", "prod", "mean", "min", "max", "any", "all", "argmin", "argmax"):
        getattr(algorithms, name)(x)
        getattr(algorithms, name)(x.reshape(4, x.size // 4), axis=0)
        getattr(algorithms, name)(x.reshape(4, x.size // 4), axis=1)


def _scanned(_device: vc.Device, x: Any, _numbers: Any) -> None:
    for name in ("cumsum", "cumprod", "cummax"):
        getattr(algorithms, name)(x)
        getattr(algorithms, name)(x.reshape(4, x.size // 4), axis=1, exclusive=True)


def _sorted(device: vc.Device, x: Any, _numbers: Any) -> None:
    algorithms.sort(x)
    algorithms.sort(x, device.array(np.arange(x.size, dtype=np.uint32)))
    algorithms.argsort(x)
    algorithms.sort(x.reshape(4, x.size // 4))
    algorithms.searchsorted(x, x)
    algorithms.unique(x)


def _selected(device: vc.Device, x: Any, numbers: Any) -> None:
    places = device.array(np.arange(0, x.size, 3))
    algorithms.compress(device.array(numbers > numbers.mean()), x)
    algorithms.nonzero(x)
    algorithms.put(x, places, algorithms.take(x, places))


def _counted(_device: vc.Device, x: Any, _numbers: Any) -> None:
    algorithms.bincount(x)


def _binned(_device: vc.Device, x: Any, _numbers: Any) -> None:
    algorithms.histogram(x, 7)


def _segmented(device: vc.Device, x: Any, _numbers: Any) -> None:
    offsets = device.array(np.array([0, x.size // 3, x.size // 3, x.size]))
    algorithms.segmented_sum(x, offsets)
    algorithms.segmented_min(x, offsets)


def _multiplied(_device: vc.Device, x: Any, _numbers: Any) -> None:
    algorithms.matmul(x.reshape(20, x.size // 20), x.reshape(x.size // 20, 20))


def _transposed(_device: vc.Device, x: Any, _numbers: Any) -> None:
    algorithms.transpose(x.reshape(20, x.size // 20))
    algorithms.transpose(x.reshape(2, 10, x.size // 20), (1, 2, 0))


_CALLS = (_reduced, _scanned, _sorted, _selected, _counted, _binned, _segmented, _multiplied, _transposed)


def drawn(count: int, seed: int) -> list[Source]:
    """Random programs: a third each of `random_programs.py`, of tests/independent, of hypothesis."""
    return [*_folded(count - 2 * (count // 3), seed), *_independent(count // 3, seed), *_strategic(count // 3, seed)]


def _folded(count: int, seed: int) -> Iterator[Source]:
    rng = random.Random(seed)
    for place in range(count):
        yield Source(f"folded {place}", prepared(vc.parse(draw_program(rng, f"f{place}"))))


def _independent(count: int, seed: int) -> Iterator[Source]:
    sys.path.insert(0, str(_HERE.parent / "independent"))
    from draw_folding import draw_folding
    from draw_general import draw_general
    from draw_wide import draw_wide
    from program_text import program_text

    rng = random.Random(seed)
    for place in range(count):
        draw = (draw_general, draw_folding, draw_wide)[place % 3]
        drawn = draw(rng)
        drawn.name = f"i{place}"
        yield Source(f"independent {place}", prepared(vc.parse(program_text(drawn))))


def _strategic(count: int, seed: int) -> Iterator[Source]:
    import hypothesis
    from hypothesis import HealthCheck, settings

    from vyre_cuda.testing.strategies import programs

    found: list[vc.Program] = []

    @hypothesis.seed(seed)
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @hypothesis.given(programs())
    def draw(program: vc.Program) -> None:
        found.append(program)

    draw()
    for place, program in enumerate(found[:count]):
        yield Source(f"strategy {place}", prepared(program))


SETS: dict[str, Callable[[int, int], list[Source]]] = {
    "corpus": corpus,
    "examples": examples,
    "algorithms": of_algorithms,
    "random": drawn,
}
