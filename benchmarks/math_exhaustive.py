"""The largest error of every mathematical function: one-argument functions of f32 over all 2^32 arguments on a GPU.

    OUT=folder python benchmarks/math_exhaustive.py [--functions exp,sin]
    python benchmarks/math_exhaustive.py --device emulator --output somewhere   # every 65,537th argument

Each function in "ieee", "ftz" and "fast"; then f16 and bf16 over all their arguments, f64 and two-argument functions
over samples, on the host. Writes one JSON file and prints a table; the exit code is 1 where a bound is not kept. Needs
CuPy on a GPU, whose double precision is the oracle there (see `mathematics/checks.py` for what that is worth).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from mathematics.checks import Check, GpuCheck, HostCheck
from mathematics.functions import Subject, chosen, program
from mathematics.results import write

import vyre_cuda as vc
from vyre_cuda.functions import table
from vyre_cuda.functions.forms import Form
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import FLOATS, Type, f32
from vyre_cuda.testing.accuracy import errors, exact, wide

HOST_STEP = 65537
SAMPLES = 20_000


def exhaustive(device: vc.Device, check: Check, subject: Subject) -> Iterator[dict[str, Any]]:
    """A row per precision, and one per form that only `max_ulp` takes."""
    major, minor = device.properties.compute_capability
    options: list[tuple[str, float | None]] = [("ieee", None), ("ftz", None), ("fast", None)]
    options += [("ftz" if form.flushes else "ieee", form.ulp) for form in table.forms(subject.name, "f32")[1:]]
    met: list[Form] = []
    for precision, max_ulp in options:
        choice = table.choose(subject.name, "f32", precision=precision, max_ulp=max_ulp, sm=major * 10 + minor)
        if choice is None:
            raise ValueError(f"{subject.name} has no form within {max_ulp}")
        if max_ulp is not None and choice in met:
            continue
        met.append(choice)
        kernel = device.compile(program(subject.name, f32), precision=precision, max_ulp=max_ulp)
        worst = check.worst(subject, kernel, flushes=precision != "ieee")
        yield {
            "function": subject.name,
            "type": "f32",
            "precision": precision,
            "max_ulp": max_ulp,
            "form": choice.name,
            "bound": choice.ulp,
            **asdict(worst),
        }


def sampled(device: vc.Device, subject: Subject, type_: Type) -> dict[str, Any]:
    """A row of a type in "ieee": all arguments where there are 2^16, else random bits and values of like exponents."""
    rng = np.random.default_rng(OPS[subject.name].code)
    if type_.bits == 16 and subject.arity == 1:
        columns = [np.arange(1 << 16, dtype=np.uint16).view(type_.dtype)]
    else:
        columns = [_column(rng, type_) for _ in range(subject.arity)]
    found = np.asarray(device.run(program(subject.name, type_), *columns)).view(type_.storage)
    off = errors(type_, exact(subject.name, type_, [c.view(type_.storage) for c in columns]), found)
    at = int(off.argmax())
    arguments = [c.view(type_.storage)[at : at + 1] for c in columns]
    bound = table.exact_form(subject.name, type_.name).ulp if type_.bits > 16 else table.HALF_ULP
    return {
        "function": subject.name,
        "type": type_.name,
        "precision": "ieee",
        "max_ulp": None,
        "form": "steps",
        "bound": bound,
        "ulp": float(off[at]),
        "argument": [float(wide(type_, a)[0]) for a in arguments],
        "bits": [int(a.view(type_.unsigned)[0]) for a in arguments],
        "arguments": int(found.size),
    }


def _column(rng: np.random.Generator, type_: Type) -> np.ndarray[Any, Any]:
    bits = rng.integers(0, 2**type_.bits - 1, SAMPLES, np.uint64, endpoint=True).astype(type_.unsigned)
    near = (rng.normal(size=SAMPLES) * 2.0 ** rng.integers(-8, 8, SAMPLES)).astype(np.float32).astype(type_.dtype)
    return np.concatenate([bits.view(type_.dtype), near])


def table_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{'function':<9} {'type':<5} {'precision':<9} {'form':<32} {'bound':>6} {'worst':>8}  argument"
    for row in rows:
        mark = "" if row["ulp"] <= row["bound"] else "  BEYOND"
        yield (
            f"{row['function']:<9} {row['type']:<5} {row['precision']:<9} {row['form']:<32} {row['bound']:>6g} "
            f"{row['ulp']:>8.3f}  {row['argument']}{mark}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="0", help="ordinal, or emulator")
    parser.add_argument("--functions", help="names, separated by commas; default: all")
    parser.add_argument("--host-step", type=int, default=HOST_STEP, help="distance of arguments on the emulator")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", ".")), help="folder for the result")
    options = parser.parse_args()
    try:
        subjects = chosen(options.functions)
    except ValueError as error:
        parser.error(str(error))
    emulated = options.device == "emulator"
    device = vc.Device("emulator" if emulated else int(options.device))
    check: Check = HostCheck(device, options.host_step) if emulated else GpuCheck()
    rows: list[dict[str, Any]] = []
    for subject in subjects:
        if subject.arity == 1:
            rows += exhaustive(device, check, subject)
        others = [t for t in OPS[subject.name].types if t in FLOATS and (t is not f32 or subject.arity == 2)]
        rows += [sampled(device, subject, type_) for type_ in others]
    path = write(options.output, "math-accuracy", device, emulated, {"rows": rows})
    print("\n".join(table_lines(rows)))
    print(path)
    return int(any(not row["ulp"] <= row["bound"] or math.isnan(row["ulp"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
