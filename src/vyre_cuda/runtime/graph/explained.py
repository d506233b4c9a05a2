"""What became of the steps of a recording, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vyre_cuda._native.graph.graph import Node
from vyre_cuda.runtime.graph.arena import intervals, places
from vyre_cuda.runtime.graph.fusing import Fused, Plan
from vyre_cuda.runtime.graph.graph_steps import RepeatStep, Step
from vyre_cuda.runtime.graph.versions import Versions

_PLURALS = {"copy": "copies"}


def explained(recorded: Sequence[Step | RepeatStep], versions: Versions, *, fuse: bool) -> str:
    """About the graph that the last replay ran."""
    last, plan = versions.last(), versions.plan
    nodes = [] if last is None else last.native.nodes()
    count = sum(not isinstance(step, RepeatStep) for step in recorded)
    lines = [f"{_many(count, 'step')}, {_many(len(nodes), 'node')} of the driver{_kinds(nodes)}"]
    lines += _state(versions, fuse=fuse)
    if plan is not None:
        lines += _rows(recorded, plan)
    return "\n".join([*lines, *_temporaries(recorded, plan if versions.runs_fused() else None)])


def _state(versions: Versions, *, fuse: bool) -> list[str]:
    if versions.note:
        return [f"as recorded: {versions.note}"]
    if not fuse:
        return ["as recorded: fuse() or record(fuse=True) lets launches become one kernel"]
    if versions.plan is not None and versions.plan.fused and not versions.runs_fused():
        return [
            "as recorded: with the values of its symbols the last replay had other launches, or arrays that share "
            "memory in another way; what follows runs with values like those before"
        ]
    return []


def _kinds(nodes: Sequence[Node]) -> str:
    counts = Counter(node.kind for node in nodes)
    return f": {', '.join(_many(n, kind) for kind, n in counts.items())}" if counts else ""


def _rows(recorded: Sequence[Step | RepeatStep], plan: Plan) -> Iterator[str]:
    numbers = _numbers(recorded)
    for row in plan.rows:
        if row.fused is not None:
            yield from _one_kernel(row.fused, numbers[row.first], numbers[row.end - 1])
        elif isinstance(loop := recorded[row.first], RepeatStep):
            inside = f"steps {numbers[row.first] + 1} to {numbers[loop.end - 1]}" if loop.end > row.end else "nothing"
            yield f"{loop.label}: {inside}"
        else:
            yield f"step {numbers[row.first]}, {recorded[row.first].label}"
        if row.apart:
            yield f"  apart: {row.apart}"
        if row.behind:
            yield f"  not with the next step: {row.behind}"


def _one_kernel(one: Fused, first: int, last: int) -> Iterator[str]:
    made = one.group.step
    assert made is not None  # it is fused
    barriers = one.group.barriers
    how = f" of one block, with {_many(barriers, 'barrier')}" if barriers else ""
    yield f"steps {first} to {last} are one kernel{how}, {made.program.name}: {made.lines()}"


def _numbers(recorded: Sequence[Step | RepeatStep]) -> list[int]:
    """The number of each step, from 1 on; a loop has that of the step before it."""
    found: list[int] = []
    number = 0
    for step in recorded:
        number += not isinstance(step, RepeatStep)
        found.append(number)
    return found


def _temporaries(recorded: Sequence[Step | RepeatStep], plan: Plan | None) -> list[str]:
    roots = {each.root for each in intervals(recorded)}
    if not roots:
        return []
    gone = 0 if plan is None else len(plan.gone)
    peak = places(intervals(recorded if plan is None else plan.steps))[1]
    text = f"{_many(len(roots), 'temporary array')} of {_many(sum(root.nbytes for root in roots), 'byte')}"
    if gone == len(roots):
        return [f"{text}, without memory"]
    return [f"{text}: {gone} without memory, the others in {_many(peak, 'byte')}"]


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {_PLURALS.get(what, what + 's')}"
