"""Many small launches of one kernel as one: `launch_many` and `many`, beside a loop and one launch over all the bytes.

python bench_many.py                                                the first CUDA device, into results/; under a minute
python bench_many.py --device emulator --quick --output somewhere   a few calls: shows that it works

A row is a saxpy of 4 KiB. The forms take turns; a figure is the median of its rounds. "from C" is the call of the C
layer alone, with all arguments in its structs; with arrays of their own, rows are allocated one by one, and in another
order than they are launched in. Results are compared with NumPy, bit for bit.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeAlias

import numpy as np
from harness.environment import describe
from harness.processes import BENCHMARKS
from harness.resultfile import file_name

import vyre_cuda as vc
from vyre_cuda._native.call.many import Launches
from vyre_cuda.runtime.kernel.many import entry

ROWS, ELEMENTS, BLOCK = 1024, 1024, 256
Row: TypeAlias = "tuple[vc.DeviceArray, vc.DeviceArray, vc.DeviceArray, float]"
Form: TypeAlias = "tuple[str, Callable[[], None]]"


@dataclass(frozen=True)
class Figure:
    """Microseconds of one form: until the call returns, and until the device has done the work."""

    form: str
    rows: int
    enqueue_us: float
    whole_us: float
    us_a_row: float


def saxpy(name: str = "saxpy", *, covered: bool = True) -> vc.Program:
    """Without `covered`, nothing shows that all of the output is written, so it is cleared first."""
    b = vc.Builder(name, block=BLOCK)
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size if covered else (i < out.size) & (a != 0)):
        out[i] = a * x[i] + y[i]
    return b.build()


def arrays_of(device: vc.Device, sizes: Sequence[int], *, own: bool) -> tuple[list[Row], Row]:
    """Rows, of three large arrays or with arrays of their own, and the large arrays."""
    total = sum(sizes)
    rng = np.random.default_rng(total)
    x, y = (device.array(rng.standard_normal(total, dtype=np.float32)) for _ in range(2))
    out = device.zeros(total, vc.f32)
    rows, begin = [], 0
    for n in sizes:
        parts = (x[begin : begin + n], y[begin : begin + n], out[begin : begin + n])
        rows.append((*(tuple(part.copy() for part in parts) if own else parts), 2.5))
        begin += n
    if own:
        rows = [rows[i] for i in rng.permutation(len(rows))]
    return rows, (x, y, out, 2.5)


def check(rows: Sequence[Row]) -> None:
    for x, y, out, a in rows:
        wanted = np.float32(a) * x.numpy() + y.numpy()
        if out.numpy().tobytes() != wanted.tobytes():
            raise SystemExit("a row has a wrong result")


def forms(device: vc.Device, sizes: Sequence[int], *, own: bool = False, covered: bool = True) -> list[Form]:
    kernel = device.compile(saxpy(covered=covered))
    rows, whole = arrays_of(device, sizes, own=own)
    kernels = entry(kernel).kernels()
    ready = Launches(kernel, tuple(rows), None, None)

    def loop() -> None:
        for row in rows:
            kernel.launch(*row)

    def launch_many() -> None:
        kernel.launch_many(rows)

    def from_c() -> None:
        ready.launch(*kernels)

    def one() -> None:
        kernel.launch(*whole)

    for form in (loop, launch_many, from_c):
        for _, _, out, _ in rows:
            out.fill(-1.0)
        form()
        check(rows)
    one()
    check([whole])
    return [("launch_many", launch_many), ("from C", from_c), ("loop of launch", loop), ("one launch of all", one)]


def host_forms(device: vc.Device, count: int) -> list[Form]:
    kernel = device.compile(saxpy())
    rng = np.random.default_rng(count)
    rows: list[tuple[Any, ...]] = [
        (*(rng.standard_normal(ELEMENTS, dtype=np.float32) for _ in range(2)), 2.5) for _ in range(count)
    ]

    def many() -> None:
        kernel.many(rows)

    def loop() -> None:
        for row in rows:
            kernel(*row)

    for (x, y, a), found in zip(rows, kernel.many(rows), strict=True):
        if found.tobytes() != (np.float32(a) * x + y).tobytes():
            raise SystemExit("a row has a wrong result")
    return [("many", many), ("loop of calls", loop)]


def measured(device: vc.Device, what: str, rows: int, taken: Sequence[Form], rounds: int) -> list[Figure]:
    times: dict[str, list[tuple[int, int]]] = {name: [] for name, _ in taken}
    gc.collect()
    gc.disable()
    for turn in range(rounds + 2):
        for name, form in taken:
            device.synchronize()
            begin = perf_counter_ns()
            form()
            enqueued = perf_counter_ns()
            device.synchronize()
            if turn >= 2:
                times[name].append((enqueued - begin, perf_counter_ns() - begin))
    gc.enable()
    found = []
    for name, both in times.items():
        enqueue, whole = (statistics.median(column) / 1e3 for column in zip(*both, strict=True))
        figure = Figure(f"{what}: {name}", rows, round(enqueue, 2), round(whole, 2), round(enqueue / rows, 4))
        print(
            f"{figure.form:58s} {enqueue:10.1f} us  whole {whole:10.1f} us  {figure.us_a_row:8.3f} us a row", flush=True
        )
        found.append(figure)
    return found


def run(device: vc.Device, rows: int, rounds: int) -> list[Figure]:
    same = [ELEMENTS] * rows
    mixed = [int(n) for n in np.random.default_rng(1).integers(1, 2 * ELEMENTS, rows)]
    found = measured(device, f"{rows} rows of 4 KiB", rows, forms(device, same), rounds)
    found += measured(device, f"{rows} rows, arrays of their own", rows, forms(device, same, own=True), rounds)
    found += measured(device, f"{rows} rows of other sizes", rows, forms(device, mixed), rounds)
    found += measured(device, f"{rows} rows, cleared first", rows, forms(device, same, covered=False), rounds)
    own = forms(device, same, own=True, covered=False)
    found += measured(device, f"{rows} rows, own arrays, cleared first", rows, own, rounds)
    found += measured(device, "2 rows of 4 KiB", 2, forms(device, same[:2]), rounds)
    found += measured(device, f"{rows} rows of host arrays", rows, host_forms(device, rows), max(rounds // 4, 1))
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "emulator"], help="cuda: the first device")
    parser.add_argument("--quick", action="store_true", help="a few calls: no measurement")
    parser.add_argument("--output", type=Path, default=BENCHMARKS / "results", help="folder of the result file")
    parser.add_argument("--commit", help="state of the project, where there is no git")
    options = parser.parse_args(words)
    emulator = options.device == "emulator"
    with vc.Device("emulator" if emulator else 0) as device:
        found = run(device, 16 if options.quick else ROWS, 2 if options.quick else 200)
        environment = describe(
            commit=options.commit,
            emulator=emulator,
            device=device.properties.name,
            driver_version=device.properties.driver_version,
            python_timer_ns=0,
            c_timer_ns=0,
        )
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / file_name(environment, "many")
    content = {"benchmark": "many", "environment": asdict(environment), "figures": [asdict(f) for f in found]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
