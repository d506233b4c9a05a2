"""What became of the steps of a recording, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vyre_cuda.errors import counted
from vyre_cuda.runtime.graph.arena import intervals, places
from vyre_cuda.runtime.graph.built import CLEAR, FILL, Built
from vyre_cuda.runtime.graph.bundled_plan import BundledPlan
from vyre_cuda.runtime.graph.cells import writers_of_cells
from vyre_cuda.runtime.graph.fusing import Fused, Plan
from vyre_cuda.runtime.graph.graph_steps import RepeatStep, RowsStep, Step, TablesStep
from vyre_cuda.runtime.graph.versions import Versions

_RUNS = 4  # of numbers of steps in one line
_CLEARING = "kernel that clears"
_PLURALS = {"copy": "copies", FILL: FILL.replace("fill", "fills"), _CLEARING: "kernels that clear"}


def explained(recorded: Sequence[Step | RepeatStep], versions: Versions, *, fuse: bool) -> str:
    """About the graph that the last replay ran."""
    last, plan = versions.last(), versions.plan
    kinds = Counter[str]() if last is None else _kinds(last)
    count = sum(not isinstance(step, RepeatStep) for step in recorded)
    of = f": {', '.join(_many(number, kind) for kind, number in kinds.items())}" if kinds else ""
    lines = [f"{_many(count, 'step')}, {_many(kinds.total(), 'node')} of the driver{of}"]
    lines += _state(versions, fuse=fuse)
    lines += _cells(recorded if plan is None else plan.steps)
    if isinstance(plan, BundledPlan):
        lines.append(f"{_many(len(plan.steps), 'step')} as merged when the bundle was written")
    elif plan is not None:
        lines += _kept(plan)
        lines += _rows(recorded, plan)
    return "\n".join([*lines, *_temporaries(recorded, plan if versions.runs_fused() else None)])


def _state(versions: Versions, *, fuse: bool) -> list[str]:
    if versions.note:
        return [f"as recorded: {versions.note}"]
    if not fuse:
        return ["as recorded: fuse() or record(fuse=True) lets launches become one kernel"]
    if versions.plan is not None and versions.plan.differs and not versions.runs_fused():
        why = "the last replay was before fuse()"
        if isinstance(versions.plan, BundledPlan) or versions.plan.decisive:
            why = (
                "with the values of its symbols the last replay had other launches, or arrays that share memory in "
                "another way, or it was before fuse()"
            )
        return [f"as recorded: {why}; what follows runs with values like those before"]
    return []


def _kinds(built: Built) -> Counter[str]:
    """How many nodes of each kind there are. What no recorded step is has a kind of its own."""
    found: Counter[str] = Counter()
    for node in built.native.nodes():
        label = built.labels.get(node.step, "")
        if label.startswith(CLEAR):
            found[_CLEARING if node.kind == "kernel" else "clear"] += 1
        else:
            found[FILL if label == FILL else node.kind] += 1
    return found


def _cells(steps: Sequence[Step | RepeatStep]) -> Iterator[str]:
    """Of the steps that run, which is more than are recorded, but for those from a bundle."""
    writers = writers_of_cells(steps)
    cells = sorted({symbol.name for writer in writers for symbol in writer.symbols})
    if cells:
        one, nodes = len(cells) == 1, len(writers)
        yield (
            f"symbol{'' if one else 's'} {_listed(cells)} {'is a cell' if one else 'are cells'} of device memory: "
            f"{'a node at the head writes' if nodes == 1 else f'{nodes} nodes at the head write'} what the others read"
        )


def _kept(plan: Plan) -> Iterator[str]:
    kept = sorted(plan.cells.by_value)
    if kept:
        one = len(kept) == 1
        yield (
            f"symbol{'' if one else 's'} {_listed(kept)} {'stays' if one else 'stay'} by value where "
            f"{'it decides' if one else 'they decide'} sizes or how many threads a launch has"
        )


def _rows(recorded: Sequence[Step | RepeatStep], plan: Plan) -> Iterator[str]:
    numbers = _numbers(recorded)
    for row in plan.rows:
        places = [place for unit in plan.places[row.first : row.end] for place in unit]
        steps = [numbers[place] for place in places if row.fused is None or not isinstance(recorded[place], RepeatStep)]
        first = plan.order[row.first]
        if row.fused is not None:
            yield from _one_kernel(row.fused, steps)
        elif isinstance(first, RepeatStep):
            places = [place for unit in plan.places[row.end : first.end] for place in unit]
            inside = [numbers[place] for place in places if not isinstance(recorded[place], RepeatStep)]
            yield f"{_loop(first)}: {_steps(inside) if inside else 'nothing'}"
        elif isinstance(first, RowsStep):
            yield from _table(first, steps, plan.split.get(row.first))
        elif isinstance(first, TablesStep):
            yield from _tables(first, steps, plan.split.get(row.first))
        else:
            yield f"{_steps(steps)}, {first.label}"
        if row.apart:
            yield f"  apart: {row.apart}"
        if row.behind:
            yield f"  not with the next step: {row.behind}"
        if row.fused is None and (why := plan.refused.get(plan.places[row.first][0])):
            yield f"  not a row of a table: {why}"


def _loop(step: RepeatStep) -> str:
    if step.until is None:
        return step.label
    return f"{step.label}{', or' if step.times else ''} until an array ends it"


def _one_kernel(one: Fused, steps: Sequence[int]) -> Iterator[str]:
    made = one.group.step
    assert made is not None  # it is fused
    barriers = one.group.barriers
    how = f" of one block, with {_many(barriers, 'barrier')}" if barriers else ""
    if one.group.times or one.group.until is not None:
        often = [_many(one.group.times, "time")] if one.group.times else []
        often += ["until an array ends it"] if one.group.until is not None else []
        how += f"{',' if barriers else ''} that repeats {', or '.join(often)}"
    yield f"{_steps(steps)} {'is' if len(steps) == 1 else 'are'} one kernel{how}, {made.program.name}: {made.lines()}"


def _table(step: RowsStep, numbers: Sequence[int], split: tuple[int, str] | None) -> Iterator[str]:
    if split is None:
        yield f"{_steps(numbers)} are one launch with a table of {len(numbers)} rows: {step.kernel.program.name}"
    else:
        yield f"{_steps(numbers)} are {split[0]} launches: {step.kernel.program.name}"
        yield f"  not one launch: {split[1]}"


def _tables(step: TablesStep, numbers: Sequence[int], split: tuple[int, str] | None) -> Iterator[str]:
    rows = _listed([f"{len(table.launches)} of {table.kernel.program.name}" for table in step.tables])
    if split is None:
        yield f"{_steps(numbers)} are one launch with a table of {len(step.launches)} rows: {rows}"
        return
    own = ", each with a table of its own" if split[0] == len(step.tables) else ""
    yield f"{_steps(numbers)} are {split[0]} launches{own}: rows are {rows}"
    yield f"  not one launch: {split[1]}"


def _steps(numbers: Sequence[int]) -> str:
    """`step 1`, `steps 1 to 4`, `steps 1, 3 and 5 to 9`"""
    ordered = sorted(set(numbers))
    if len(ordered) == 1:
        return f"step {ordered[0]}"
    runs: list[list[int]] = []
    for number in ordered:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{low}" if low == high else f"{low} to {high}" for low, high in runs[:_RUNS]]
    if len(runs) > _RUNS:
        texts.append(f"others up to {runs[-1][1]}")
    return f"steps {_listed(texts)}"


def _listed(texts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`"""
    return f"{', '.join(texts[:-1])}{' and ' if len(texts) > 1 else ''}{texts[-1]}"


def _numbers(recorded: Sequence[Step | RepeatStep]) -> list[int]:
    """The number of each step, from 1 on; a loop has that of the step before it."""
    found: list[int] = []
    number = 0
    for step in recorded:
        number += not isinstance(step, RepeatStep)
        found.append(number)
    return found


def _temporaries(recorded: Sequence[Step | RepeatStep], plan: Plan | BundledPlan | None) -> list[str]:
    roots = {each.root for each in intervals(recorded)}
    if not roots:
        return []
    shared = len(plan.shared & roots) if isinstance(plan, Plan) else 0
    gone = len(plan.gone & roots) - shared if isinstance(plan, Plan) else 0
    peak = places(intervals(recorded if plan is None else plan.steps))[1]
    text = f"{_many(len(roots), 'temporary array')} of {_many(sum(root.nbytes for root in roots), 'byte')}"
    if gone == len(roots):
        return [f"{text}, without memory"]
    if shared == len(roots):
        return [f"{text}, in shared memory"]
    if not gone and not shared:
        return [f"{text}, in {_many(peak, 'byte')}"]
    parts = [f"{gone} without memory"] if gone else []
    parts += [f"{shared} in shared memory"] if shared else []
    parts += [f"the others in {_many(peak, 'byte')}"] if gone + shared < len(roots) else []
    return [f"{text}: {', '.join(parts)}"]


def _many(count: int, what: str) -> str:
    return counted(count, what, _PLURALS.get(what, ""))
