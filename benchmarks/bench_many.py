"""Many small launches of one kernel as one: `launch_many` and `many`, beside a loop and one launch over all the bytes.

python bench_many.py                                                the first CUDA device, into results/; under a minute
python bench_many.py --device emulator --quick --output somewhere   a few calls: shows that it works

A row is a saxpy of 4 KiB. The forms take turns; a figure is the median of its rounds. With arrays of their own, rows
are allocated one by one, and in another order than they are launched in. "in C" is a C program on the public header of
the library (raw/many_driver.c), with a bundle of the same kernel. Results are compared bit for bit. At the end stands
what a row takes beyond one launch, from C and from Python, and what it may take.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeAlias

import numpy as np
from harness.figures import parsed, written
from harness.twins import build_many, driver_path

import vyre_cuda as vc

ROWS, ELEMENTS, BLOCK = 1024, 1024, 256
# Microseconds of each row beyond one launch, at most: from C and from Python.
C_SHARE, PYTHON_SHARE = 0.05, 0.3
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

    def line(self) -> str:
        return (
            f"{self.form:70s} {self.enqueue_us:10.1f} us  whole {self.whole_us:10.1f} us  {self.us_a_row:8.3f} us a row"
        )


@dataclass(frozen=True)
class Share:
    """Microseconds until a call returns: of one launch, and what each row of many takes beyond that."""

    what: str
    one_us: float
    row_us: float
    to_reach: float
    verdict: str


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

    def loop() -> None:
        for row in rows:
            kernel.launch(*row)

    def launch_many() -> None:
        kernel.launch_many(rows)

    def one() -> None:
        kernel.launch(*whole)

    for form in (loop, launch_many):
        for _, _, out, _ in rows:
            out.fill(-1.0)
        form()
        check(rows)
    one()
    check([whole])
    return [("launch_many", launch_many), ("loop of launch", loop), ("one launch of all", one)]


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
        print(figure.line(), flush=True)
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


def in_c(device: vc.Device, rows: int, rounds: int) -> list[Figure]:
    """The forms of the C program."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vc.bundle(saxpy(), folder / "many.vyre", targets=[str(device.target)], cubins=False, many=["saxpy"])
        driver = driver_path(emulator=device.properties.is_emulator)
        words = [build_many(folder), driver, folder / "many.vyre", rows, ELEMENTS, rounds]
        child = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if child.returncode != 0:
        raise SystemExit(f"many_driver failed: {child.stderr}")
    found = []
    for line in [json.loads(line) for line in child.stdout.splitlines()][1:]:
        launched = 1 if line["form"].startswith("one launch") else rows
        enqueue, whole = line["enqueue_ns"] / 1e3, line["whole_ns"] / 1e3
        what = f"{rows} rows of 4 KiB" if line["rows"] == "same" else f"{rows} rows, arrays of their own"
        figure = Figure(
            f"{what}, in C: {line['form']}", launched, round(enqueue, 2), round(whole, 2), round(enqueue / launched, 4)
        )
        print(figure.line(), flush=True)
        found.append(figure)
    return found


def share(figures: Sequence[Figure], rows: int, *, judged: bool) -> list[Share]:
    """What a row takes beyond one launch, by the calls of Python and of C."""
    by_form = {figure.form: figure.enqueue_us for figure in figures}
    found = []
    for what in (f"{rows} rows of 4 KiB", f"{rows} rows, arrays of their own"):
        one = by_form[f"{what}, in C: one launch of one row"], by_form[f"{what}: one launch of all"]
        many = by_form[f"{what}, in C: vyc_prepared_launch_many"], by_form[f"{what}: launch_many"]
        for side, single, whole, most in zip(("C", "Python"), one, many, (C_SHARE, PYTHON_SHARE), strict=True):
            each = (whole - single) / rows
            verdict = "" if not judged else "met" if each <= most else "missed"
            found.append(Share(f"{what}, from {side}", round(single, 2), round(each, 4), most, verdict))
            print(f"{found[-1].what:42} one launch {single:7.2f} us, each row {each:7.4f} us, asked {most} {verdict}")
    return found


def main(words: Sequence[str] | None = None) -> int:
    options = parsed(__doc__, words, quick="a few calls")
    rows, rounds = (16, 2) if options.quick else (ROWS, 200)
    with vc.Device(options.device) as device:
        found = run(device, rows, rounds)
        found += in_c(device, rows, rounds)
        judged = not options.quick and not device.properties.is_emulator
        shares = share(found, rows, judged=judged)
        written(options, device, "many", found, shares=[asdict(each) for each in shares])
    return 0


if __name__ == "__main__":
    sys.exit(main())
