"""Benchmarks with figures of a kind of their own: the words of their command line, and their result file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import vyre_cuda as vc
from harness.environment import describe
from harness.processes import BENCHMARKS
from harness.resultfile import file_name


def parsed(
    description: str | None,
    words: Sequence[str] | None,
    *,
    quick: str,
    add: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
) -> argparse.Namespace:
    """`device`, "cuda" or "emulator"; `quick`, which makes what it says; `output`, a folder; `commit`; and what `add`
    adds."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "emulator"], help="cuda: the first device")
    parser.add_argument("--quick", action="store_true", help=f"{quick}: no measurement")
    parser.add_argument("--output", type=Path, default=BENCHMARKS / "results", help="folder of the result file")
    parser.add_argument("--commit", help="state of the project, where there is no git")
    add(parser)
    return parser.parse_args(words)


def written(
    options: argparse.Namespace, device: vc.Device, benchmark: str, figures: Sequence[Any], **more: Any
) -> Path:
    """Keep the figures, which are dataclasses, and say where."""
    properties = device.properties
    environment = describe(
        commit=options.commit,
        emulator=properties.is_emulator,
        device=properties.name,
        driver_version=properties.driver_version,
        python_timer_ns=0,
        c_timer_ns=0,
    )
    options.output.mkdir(parents=True, exist_ok=True)
    path: Path = options.output / file_name(environment, benchmark)
    facts = {"benchmark": benchmark, "environment": asdict(environment), **more}
    content = {**facts, "figures": [asdict(figure) for figure in figures]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}")
    return path
