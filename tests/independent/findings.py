"""What was found wrong, as files: each program with arguments, what was wanted and what came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draw_large import LargeCase
from draw_streams import StreamCase
from judge import REFUSED, Verdict
from program_json import program_from_json, program_to_json
from program_text import literal, program_text
from program_tree import Program
from random_cases import AnyCase, Case, checked, draw_case

# So many findings have a file each; `findings.jsonl` has them all.
FILES = 40


def finding(case: AnyCase, verdict: Verdict, *, profile: str, seed: int, number: int) -> dict[str, Any]:
    found = {
        "state": verdict.state,
        "kind": case.kind,
        "profile": profile,
        "seed": seed,
        "number": number,
        "bundled": verdict.bundled,
        "differences": verdict.differences,
    }
    if isinstance(case, StreamCase):
        return {**found, **_launches(case)}
    found["text"] = program_text(case.program).splitlines()
    if isinstance(case, LargeCase):
        return {**found, "far": repr(case.far.value), "looked at": case.looked_at}
    return {
        **found,
        "options": case.options,
        "grid": case.program.grid,
        "arguments": shown_arguments(case.program),
        "program": program_to_json(case.program),
    }


def _drawn_again(found: dict[str, Any], profile: str, seed: int) -> dict[str, Any]:
    verdict = Verdict(REFUSED, differences=[found["problem"]])
    try:
        case = draw_case(profile, seed, found["number"])
    except Exception:  # which is the problem, then
        return {**found, "state": REFUSED, "kind": "undrawn", "profile": profile, "seed": seed}
    return finding(case, verdict, profile=profile, seed=seed, number=found["number"])


def _launches(case: StreamCase) -> dict[str, Any]:
    return {
        "arrays": {name: [literal(type_, value) for value in values] for name, (type_, values) in case.arrays.items()},
        "launches": [
            {
                "stream": launch.stream,
                "after": launch.after,
                "text": program_text(launch.program).splitlines(),
                "scalars": {name: literal(*scalar) for name, scalar in launch.program.scalars.items()},
            }
            for launch in case.launches
        ],
    }


def shown_arguments(program: Program) -> dict[str, Any]:
    """For people; the tree has the bits."""
    buffers = {
        name: [literal(buffer.type, value) for value in buffer.values]
        for name, buffer in program.buffers.items()
        if buffer.role != "out"
    }
    return {**buffers, **{name: literal(type_, value) for name, (type_, value) in program.scalars.items()}}


def read_finding(path: Path) -> tuple[Case | None, bool]:
    """The case, None where it has more than a program and a call; whether it ran by way of a bundle."""
    data = json.loads(path.read_text())
    if "options" not in data:
        return None, False
    return checked(data["kind"], program_from_json(data["program"]), data["options"]), data["bundled"]


class Findings:
    """A folder of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, found: dict[str, Any], *, profile: str, seed: int) -> None:
        """A finding of a process that ended at the case has no more than its number: the case is drawn again."""
        if "problem" in found:
            found = _drawn_again(found, profile, seed)
        with (self.folder / "findings.jsonl").open("a") as lines:
            lines.write(json.dumps(found) + "\n")
        self.count += 1
        if self.count <= FILES:
            path = self.folder / f"{found['state']}-{found['kind']}-{found['number']}.json"
            path.write_text(json.dumps(found, indent=1) + "\n")
