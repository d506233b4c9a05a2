"""The largest error of every mathematical function of f64 that a million hard operands show, against mpmath.

    python benchmarks/function_errors.py [--count 1000000] [--output DIR]

As the interpreter computes it, which is what every device computes in "ieee". The operands are those of the tests of
the long mode. Writes one JSON file and prints a table; the exit code is 1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from harness.environment import commit_name

from vyre_cuda.functions import table
from vyre_cuda.ir.core.ops import FUNCTIONS
from vyre_cuda.testing.function_errors import measured

SEED = 2


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for name in FUNCTIONS:
        found, bound = measured(name, options.count, seed=SEED), table.exact_form(name, "f64").ulp
        rows.append(
            {
                "function": name,
                "type": "f64",
                "precision": "ieee",
                "max_ulp": None,
                "form": "steps",
                "bound": bound,
                "ulp": found.ulp,
                "argument": list(found.operands),
                "bits": np.array(found.operands).view(np.uint64).tolist(),
                "arguments": found.count,
            }
        )
        places = ", ".join(operand.hex() for operand in found.operands)
        print(f"{name:9} {found.ulp:6.3f} of {bound:4g} ULP at {places}", flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    path = options.output / f"{now}-f64-accuracy.json"
    result = {"commit": commit_name(), "oracle": f"mpmath {mpmath.__version__}", "seed": SEED, "rows": rows}
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(path)
    return int(any(row["ulp"] > row["bound"] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
