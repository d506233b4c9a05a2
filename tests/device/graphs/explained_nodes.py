"""What `explain` says about the driver's nodes, read from its text."""

from __future__ import annotations

import re
from collections import Counter
from math import prod

_LOOP = re.compile(r"repeat (?:(\d+) times)?(?:,? ?(?:or )?until an array ends it)?: ")
_STEPS = re.compile(r"steps? ((?:\d+|, | and | to |others up )+)")
_TABLES = re.compile(r"are (\d+) launches, each with a table")
_ONE = {
    "copies": "copy",
    "kernels that clear": "kernel that clears",
    "kernel that clears": "kernel that clears",
    "fill of temporary arrays": "fill of temporary arrays",
}
_NO_NODE = "  apart: it has no threads"


def nodes(text: str) -> Counter[str]:
    """How many nodes of each kind its first line names."""
    kinds = text.splitlines()[0].partition(" of the driver: ")[2]
    counts = [each.split(" ", 1) for each in kinds.split(", ") if each]
    return Counter({_ONE.get(kind, kind.removesuffix("s")): int(count) for count, kind in counts})


def nodes_of_steps(text: str) -> Counter[str]:
    """How many nodes of each kind its other lines stand for: those of a loop that is no node as often as it repeats."""
    found: Counter[str] = Counter()
    loops: list[tuple[int, int]] = []  # how often its nodes are there, and its last step
    lines = text.splitlines()[1:]
    for line, behind in zip(lines, [*lines[1:], ""], strict=True):
        if " of device memory: " in line:
            found["kernel"] += int(re.findall(r"(\d+) nodes at the head", line)[0]) if "nodes at" in line else 1
        loop = _LOOP.match(line)
        steps = _STEPS.match(line, loop.end() if loop else 0)
        if steps is None:
            continue
        numbers = [int(number) for number in re.findall(r"\d+", steps[1])]
        while loops and numbers[0] > loops[-1][1]:
            loops.pop()
        if loop is not None:
            loops.append((1 if "until" in loop[0] else int(loop[1]), numbers[-1]))
        elif not behind.startswith(_NO_NODE):
            kind, count = _of_row(line[steps.end() :])
            found[kind] += count * prod(times for times, _ in loops)
    return found


def _of_row(rest: str) -> tuple[str, int]:
    if rest in ("copy", "fill"):
        return rest, 1
    several = _TABLES.match(rest)
    return "kernel", int(several[1]) if several else 1
