"""How much of a GPU's memory bandwidth kernels reach, beside CUDA C++, CuPy and PyTorch in the same run.

    OUT=folder python benchmarks/bench_memory.py [--elements 28] [--limit 110]
    python benchmarks/bench_memory.py --device emulator --output somewhere      # shows that it works, measures nothing

A figure is the number of bytes that a task must move over the median time between two events; ours and the peers take
turns on one stream. Small arrays are cycled through several sets, which together do not fit into the L2 cache (but for
the smallest). Every result is compared with NumPy before it is timed. Writes one JSON file and prints the table, with
what each row is to reach. The exit code is 1 where a row misses that.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bandwidth import peers, programs
from mathematics.results import write

import vyre_cuda as vc

EXAMPLES = Path(__file__).parents[1] / "examples"
A = 3
ROUNDS, WARM = 15, 3
# Inputs repeat with this period, and so do results.
PERIOD = 1 << 10
# More than the L2 cache of any GPU; at most so many sets.
CYCLED, MOST_SETS = 256 << 20, 64
# Of a form with one element a thread: what two measurements of the same may differ by.
NO_SLOWER = 0.97
SIZES = range(10, 23, 2)
DTYPES = (vc.f32, vc.f16, vc.u8, vc.f64)

# GB/s that these reach on an H200; elsewhere, and for the other tasks, a share of what a peer reaches.
AIMS = {("saxpy", "f32"): 4250.0, ("copy", "f32"): 4100.0, ("transpose", "f32"): 3600.0, ("softmax", "f32"): 3700.0}

Launch = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """GB/s of a task and of its peers. `to_reach` is None where nothing is asked or the peer is missing."""

    task: str
    type: str
    elements: int
    gb_s: float
    peers: dict[str, float]
    to_reach: float | None
    verdict: str

    def line(self) -> str:
        aim = f"{self.to_reach:8.1f} {self.verdict}" if self.to_reach is not None else f"{'-':>8}"
        others = ", ".join(f"{name} {rate:.1f}" for name, rate in self.peers.items())
        return f"{self.task:24} {self.type:4} {self.elements:>10} {self.gb_s:8.1f} {aim}  {others}"


class Bench:
    """Measures rows on one device; `absent` says what could not be measured."""

    def __init__(self, device: vc.Device, emulated: bool, limit: float) -> None:
        self.device, self.emulated = device, emulated
        self.stream = device.stream()
        self.rows: list[Row] = []
        self.absent: dict[str, str] = {}
        self._until = time.monotonic() + limit
        self._modules: dict[str, Any] = {}
        for name in ("cupy", "torch"):
            module = None if emulated else peers.found(name)
            if module is None:
                self.absent[name] = "the emulator has no peers" if emulated else "not installed"
            else:
                self._modules[name] = module

    def on_h200(self, aim: float | None) -> float | None:
        return aim if "H200" in self.device.properties.name else None

    def has_time(self, what: str) -> bool:
        if time.monotonic() < self._until:
            return True
        self.absent[what] = "the time limit was reached"
        return False

    def add(self, task: str, type_: vc.Type, elements: int, rates: dict[str, float], aim: float | None) -> None:
        ours = rates.pop("vyre_cuda")
        verdict = "" if aim is None or self.emulated else "met" if ours >= aim else "missed"
        row = Row(task, str(type_), elements, ours, rates, aim, verdict)
        self.rows.append(row)
        print(row.line(), flush=True)

    def rates(self, launches: dict[str, Sequence[Launch]], moved: int) -> dict[str, float]:
        """GB/s of each way, whose launches (one for each set of arrays) are repeated in turn."""
        times: dict[str, list[float]] = {name: [] for name in launches}
        for turn in range(1 if self.emulated else WARM + ROUNDS):
            for name, each in launches.items():
                begin = self.stream.record()
                for launch in each:
                    launch()
                end = self.stream.record()
                end.synchronize()
                if self.emulated or turn >= WARM:
                    times[name].append(max(end.elapsed_ms(begin), 1e-6) / len(each))
        return {name: moved / statistics.median(each) / 1e6 for name, each in times.items()}

    def peer_launches(
        self, task: str, type_: vc.Type, inputs: Sequence[Any], out: Any, check: Callable[[str], None]
    ) -> dict[str, list[Launch]]:
        """Of each peer that is installed, checked."""
        launches: dict[str, Launch | None] = {}
        compile_errors: tuple[type[Exception], ...] = ()
        if "cupy" in self._modules:
            cp = self._modules["cupy"]
            compile_errors = (cp.cuda.compiler.CompileException,)
            cupy_stream = cp.cuda.ExternalStream(self.stream.handle)
            xs, result = [cp.asarray(each) for each in inputs], cp.asarray(out)
            forms = peers.cuda(cp, task, type_, xs, result, A) if task in peers.VALUES else {}
            for name, form in {**forms, "CuPy": peers.cupy(cp, task, xs, result, A)}.items():
                launches[name] = None if form is None else _on(cupy_stream, form)
        if "torch" in self._modules:
            torch = self._modules["torch"]
            torch_stream = torch.cuda.stream(torch.cuda.ExternalStream(self.stream.handle))
            xs, result = ([torch.as_tensor(each, device="cuda") for each in group] for group in (inputs, [out]))
            form = peers.torch(torch, task, xs, result[0], A)
            launches["PyTorch"] = None if form is None else _on(torch_stream, form)
        good: dict[str, list[Launch]] = {}
        for name, launch in launches.items():
            if launch is None:
                continue
            try:
                launch()
                self.stream.synchronize()
                check(name)
                self.device.synchronize()
                good[name] = [launch]
            except (RuntimeError, ValueError, TypeError, *compile_errors) as error:
                self.absent[f"{task} {type_} {name}"] = str(error)[:300]
        return good


def _on(context: Any, launch: Launch) -> Launch:
    def run() -> None:
        with context:
            launch()

    return run


def drawn(type_: vc.Type, size: int, number: int) -> np.ndarray[Any, Any]:
    """Positive numbers with a period."""
    part = np.random.default_rng(number).random(PERIOD) * 7 + 1
    return np.resize(part.astype(type_.dtype), size)


def expected(task: str, inputs: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Of one period, with the roundings of the type."""
    x, y = inputs[0][:PERIOD], inputs[-1][:PERIOD]
    if task == "saxpy":
        return x.dtype.type(A) * x + y
    if task == "copy":
        return x
    wide = x.astype(np.float64)
    return (np.exp(np.sin(wide)) * np.log(wide)).astype(x.dtype)


def checked(out: vc.DeviceArray, wanted: np.ndarray[Any, Any], exact: bool, what: str) -> None:
    """ValueError unless start, middle and end are right; then the array is emptied for the next."""
    size = out.size
    near = 3e-6 if wanted.itemsize >= 4 else 2e-3  # f16: a product and a sum that are rounded once
    for first in {0, size // 2 // PERIOD * PERIOD, size - min(size, PERIOD)}:
        found = out[first : first + PERIOD].numpy()
        same = found.tobytes() == wanted[: found.size].tobytes()
        if not same and (exact or not np.allclose(found, wanted[: found.size], rtol=near, atol=near)):
            raise ValueError(f"{what} is wrong at {first} of {size}")
    out.fill(0)


def elementwise(
    bench: Bench,
    task: str,
    type_: vc.Type,
    size: int,
    program: vc.Program,
    *,
    sets: int = 1,
    grid: bool = False,
    max_ulp: float | None = None,
) -> tuple[list[Launch], list[Any], vc.DeviceArray]:
    """Checked launches of a program on sets of arrays, and the arrays of the last set."""
    device, kernel = bench.device, bench.device.compile(program, max_ulp=max_ulp)
    count = sum(p.kind == "in" for p in program.parameters)
    host = [drawn(type_, size, number) for number in range(count)]
    scalars = [A] * any(p.kind == "scalar" for p in program.parameters)
    blocks = {"grid": -(-size // programs.BLOCK)} if grid else {}
    launches: list[Launch] = []
    for _ in range(sets):
        inputs, out = [device.array(each) for each in host], device.zeros(size, type_)
        call = kernel.bind(*inputs, out, *scalars, stream=bench.stream, **blocks)
        call()
        bench.stream.synchronize()
        checked(out, expected(task, host), task != "mathematics", f"{program.name} of {type_}")
        device.synchronize()
        launches.append(call)
    return launches, inputs, out


def moved_by(task: str, type_: vc.Type, size: int) -> int:
    return (3 if task == "saxpy" else 2) * size * int(type_.dtype.itemsize)


def beside_peers(bench: Bench, task: str, type_: vc.Type, size: int) -> None:
    """A program as one writes it, beside the best form of CUDA C++ and the other peers."""
    if not bench.has_time(f"{task} {type_}"):
        return
    ours, inputs, out = elementwise(bench, task, type_, size, getattr(programs, task)(type_))
    wanted = expected(task, [each[:PERIOD].numpy() for each in inputs])

    def check(who: str) -> None:
        checked(out, wanted, exact=task != "mathematics" and who not in ("CuPy", "PyTorch"), what=who)

    ways = {"vyre_cuda": ours, **bench.peer_launches(task, type_, inputs, out, check)}
    if task == "mathematics":  # CUDA's functions are within 1 or 2 ULP, ours within 1 to 1.6
        ways["within 2 ULP"] = elementwise(bench, task, type_, size, programs.mathematics(type_), max_ulp=2)[0]
    rates = bench.rates(ways, moved_by(task, type_, size))
    cuda = {name: rate for name, rate in rates.items() if name.startswith(("apart", "vectors"))}
    share = 0.95 if task == "mathematics" else 0.97
    aim = share * max(cuda.values()) if cuda else None
    bench.add(task, type_, size, rates, bench.on_h200(AIMS.get((task, str(type_)))) or aim)


def by_hand(bench: Bench, size: int) -> None:
    """Programs with four elements a thread written out: as fast with an output as with an inout."""
    for step, name in ((programs.BLOCK, "a block apart"), (1, "neighbors")):
        if bench.has_time(name):
            ways = {
                who: elementwise(bench, "saxpy", vc.f32, size, programs.by_hand(step, kind))[0]
                for who, kind in (("vyre_cuda", "output"), ("inout", "inout"))
            }
            rates = bench.rates(ways, moved_by("saxpy", vc.f32, size))
            bench.add(f"4 a thread, {name}", vc.f32, size, rates, NO_SLOWER * rates["inout"])


def matrices(bench: Bench, side: int) -> None:
    """The examples of a transpose and of softmax."""
    transpose, softmax = _example("transpose"), _example("softmax")
    x = np.random.default_rng(1).standard_normal((side, side), dtype=np.float32)
    device_x, out = bench.device.array(x), bench.device.zeros((side, side), vc.f32)
    for task, name, kernel, const in (
        ("transpose", "transpose, tile of 32", transpose.transpose, 32),
        ("transpose", "transpose, tile of 64", transpose.transpose, 64),
        ("softmax", "softmax", softmax.softmax_of, side),
    ):
        if not bench.has_time(name):
            continue
        names = {"tile": const, "T": vc.f32} if task == "transpose" else {"columns": const}
        call = kernel.on(bench.device, **names).bind(device_x, out, stream=bench.stream)
        rows = slice(0, min(side, 256))
        wanted = x[:, rows].T if task == "transpose" else softmax.numpy_softmax(x[rows])
        bound = 0.0 if task == "transpose" else softmax.bound(x) + 2.0**-22  # a peer's order is another

        def check(who: str, wanted: Any = wanted, rows: slice = rows, bound: float = bound) -> None:
            if not np.allclose(out[rows].numpy(), wanted, rtol=bound, atol=0):
                raise ValueError(f"{who} is wrong")
            out.fill(0)

        call()
        bench.stream.synchronize()
        check(name)
        bench.device.synchronize()
        ways = {"vyre_cuda": [call], **bench.peer_launches(task, vc.f32, [device_x], out, check)}
        bench.add(name, vc.f32, side * side, bench.rates(ways, 8 * side * side), bench.on_h200(AIMS[task, "f32"]))


def sizes(bench: Bench, powers: Sequence[int]) -> None:
    """The form that a launch takes, beside one element a thread, which a given grid has."""
    cases = [("saxpy", type_) for type_ in DTYPES] + [("copy", vc.f32), ("mathematics", vc.f32)]
    for task, type_ in cases:
        for power in powers:
            if not bench.has_time(f"{task} {type_} 2^{power}"):
                return
            size, program = 1 << power, getattr(programs, task)(type_)
            moved = moved_by(task, type_, size)
            sets = 1 if bench.emulated else max(4, min(MOST_SETS, CYCLED // moved))
            ways = {
                name: elementwise(bench, task, type_, size, program, sets=sets, grid=name != "vyre_cuda")[0]
                for name in ("vyre_cuda", "one a thread")
            }
            rates = bench.rates(ways, moved)
            bench.add(f"{task}, 2^{power}", type_, size, rates, NO_SLOWER * rates["one a thread"])


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="0", help="ordinal, or emulator")
    parser.add_argument("--elements", type=int, default=28, help="binary logarithm of their number (default: 28)")
    parser.add_argument("--limit", type=float, default=110, help="seconds, after which no row is begun (default: 110)")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", ".")), help="folder for the result")
    options = parser.parse_args()
    emulated = options.device == "emulator"
    power, side = (12, 64) if emulated else (options.elements, 8192)
    with vc.Device("emulator" if emulated else int(options.device)) as device:
        bench = Bench(device, emulated, options.limit)
        print(f"{'GB/s':24} {'':4} {'elements':>10} {'ours':>8} {'to reach':>8}")
        for type_ in DTYPES:
            beside_peers(bench, "saxpy", type_, 1 << (power - (type_ is vc.f64)))
        for task in ("copy", "mathematics"):
            beside_peers(bench, task, vc.f32, 1 << power)
        by_hand(bench, 1 << power)
        matrices(bench, side)
        sizes(bench, SIZES[:2] if emulated else SIZES)
        for what, reason in bench.absent.items():
            print(f"not measured: {what}: {reason}")
        content = {"unit": "GB/s", "rows": [asdict(row) for row in bench.rows], "absent": bench.absent}
        print(write(options.output, "memory", device, emulated, content))
    return int(any(row.verdict == "missed" for row in bench.rows))


if __name__ == "__main__":
    sys.exit(main())
