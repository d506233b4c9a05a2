"""What a program with barriers and warp operations computes: a statement by all threads before the next one.

Control flow around barriers and warp operations is the same for whole warps at least; what threads do in other
statements meets only at barriers, so a statement may run by one thread after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from number_formats import FLOATS, RANGES, ZERO, to_bits
from oracle import Execute, Failure, Oracle, Outcome
from oracle_expr import Thread
from program_tree import Body, Program, Stmt, Value, statements

WARP = 32
Lockstep = Callable[[list[Thread]], None]
TOGETHER = ("barrier", "grid_barrier", "warp")


def runs_together(statement: Stmt) -> bool:
    return any(inner.kind in TOGETHER for inner in statements([statement]))


class LockstepOracle(Oracle):
    """Block after block, or the whole grid together where it has a grid barrier."""

    def __init__(self, program: Program, *, flushes: bool = False, fuel: int = 200_000) -> None:
        super().__init__(program, flushes=flushes, fuel=fuel)

    def run(self) -> Outcome:
        lockstep = self._together(self.program.body)
        threads = list(self.threads())
        if any(statement.kind == "grid_barrier" for statement in statements(self.program.body)):
            lockstep(threads)
        else:
            for _, block in groupby(threads, lambda thread: thread["block"]):
                lockstep(list(block))
        return Outcome(self.memory.buffers, self.memory.is_missed, self._failure(threads))

    def _failure(self, threads: list[Thread]) -> Failure | None:
        return next((thread["failure"] for thread in threads if "failure" in thread), None)

    def _together(self, body: Body) -> Lockstep:
        steps = [self._step(statement) for statement in body]

        def run(threads: list[Thread]) -> None:
            for step in steps:
                step(threads)

        return run

    def _step(self, statement: Stmt) -> Lockstep:
        if statement.kind in ("barrier", "grid_barrier"):
            next(self._count)
            return lambda threads: None
        if statement.kind == "warp":
            next(self._count)
            return self._warp_step(statement)
        if not runs_together(statement):
            return self._alone(self.statement(statement))
        self._number = next(self._count)
        make: Callable[[Stmt], Lockstep] = getattr(self, f"_{statement.kind}_together")
        return make(statement)

    def _alone(self, execute: Execute) -> Lockstep:
        def run(threads: list[Thread]) -> None:
            self.fuel -= len(threads) - 1
            self.burn()
            for thread in threads:
                execute(thread)

        return run

    def _if_together(self, statement: Stmt) -> Lockstep:
        condition = self.head(statement.exprs[0])
        then, orelse = map(self._together, statement.bodies)

        def run(threads: list[Thread]) -> None:
            chosen: list[Thread] = []
            others: list[Thread] = []
            for thread in threads:
                (chosen if condition(thread) else others).append(thread)
            if chosen:
                then(chosen)
            if others:
                orelse(others)

        return run

    def _for_together(self, statement: Stmt) -> Lockstep:
        name = statement.word
        bounds = [self.exprs.compile(expr) for expr in statement.exprs]
        body = self._together(statement.bodies[0])

        def run(threads: list[Thread]) -> None:
            start, stop, step = (bound(threads[0]) for bound in bounds)
            for at in range(start, stop, step):
                self.burn()
                for thread in threads:
                    thread[name] = at
                body(threads)

        return run

    # ---- warp operations ----

    def _warp_step(self, statement: Stmt) -> Lockstep:
        name, combine = statement.detail
        type_ = statement.exprs[0].type
        value, *rest = map(self.exprs.compile, statement.exprs)
        operation = self._operation(name, combine, type_)

        def run(threads: list[Thread]) -> None:
            for _, group in groupby(threads, lambda thread: (thread["block"], thread["lane"] // WARP)):
                warp = list(group)
                values = [value(thread) for thread in warp]
                lanes = [rest[0](thread) for thread in warp] if rest else []
                for thread, result in zip(warp, operation(values, lanes), strict=True):
                    thread[statement.word] = result

        return run

    def _operation(self, name: str, combine: str, type_: str) -> Callable[[list[Any], list[int]], Iterable[Any]]:
        if combine:
            function = self.exprs.function(combine, type_)
            if type_ in FLOATS and combine == "add":
                sums = {"reduce": _reduced, "inclusive_scan": _scanned, "exclusive_scan": _scanned_before}[name]
                return lambda values, lanes: sums(function, values)
            ends = {
                "reduce": lambda lane, count: count,
                "inclusive_scan": lambda lane, count: lane + 1,
                "exclusive_scan": lambda lane, count: lane,
            }[name]
            neutral = _neutral(combine, type_)
            return lambda values, lanes: [
                _folded(function, neutral, values[: ends(lane, len(values))]) for lane in range(len(values))
            ]
        operations: dict[str, Callable[[list[Any], list[int]], Iterable[Any]]] = {
            "any": lambda values, lanes: [any(values)] * len(values),
            "all": lambda values, lanes: [all(values)] * len(values),
            "ballot": lambda values, lanes: [_mask(values)] * len(values),
            "match": lambda values, lanes: _matches([to_bits(type_, value) for value in values]),
            "shuffle": lambda values, lanes: _taken(values, lanes, ZERO[type_]),
            "broadcast": lambda values, lanes: _taken(values, lanes, ZERO[type_]),
            "shuffle_up": lambda values, lanes: _moved(values, [at - by for at, by in enumerate(lanes)]),
            "shuffle_down": lambda values, lanes: _moved(values, [at + by for at, by in enumerate(lanes)]),
            "shuffle_xor": lambda values, lanes: _moved(values, [at ^ by for at, by in enumerate(lanes)]),
        }
        return operations[name]


def _mask(values: Iterable[bool]) -> int:
    return sum(1 << lane for lane, value in enumerate(values) if value)


def _matches(patterns: list[int]) -> list[int]:
    return [_mask(pattern == mine for pattern in patterns) for mine in patterns]


def _taken(values: list[Any], lanes: list[int], zero: Value) -> list[Any]:
    """From the lane that is named, or zero where there is none."""
    return [values[lane] if lane < len(values) else zero for lane in lanes]


def _moved(values: list[Any], lanes: list[int]) -> list[Any]:
    """From another lane, or the thread's own where there is none."""
    return [values[lane] if 0 <= lane < len(values) else own for own, lane in zip(values, lanes, strict=True)]


def _neutral(combine: str, type_: str) -> Any:
    if combine in ("minimum", "maximum"):
        if type_ in FLOATS:
            return float("inf" if combine == "minimum" else "-inf")
        return RANGES[type_][combine == "minimum"]
    if combine == "bitwise_and":
        return -1 if RANGES[type_][0] < 0 else RANGES[type_][1]
    return 0


def _folded(function: Callable[..., Any], neutral: Any, values: list[Any]) -> Any:
    result = neutral
    for value in values:
        result = function(result, value)
    return result


# Lanes past the end of the block bring -0.0 to a float sum, whose order is part of its meaning.


def _reduced(add: Callable[..., Any], values: list[float]) -> list[float]:
    """The butterfly: with the lane 16 away, then 8, 4, 2 and 1."""
    lanes = values + [-0.0] * (WARP - len(values))
    for distance in (16, 8, 4, 2, 1):
        lanes = [add(lanes[at], lanes[at ^ distance]) for at in range(WARP)]
    return lanes[: len(values)]


def _scanned(add: Callable[..., Any], values: list[float]) -> list[float]:
    """With the lane 1 below, then 2, 4, 8 and 16."""
    lanes = values
    for distance in (1, 2, 4, 8, 16):
        lanes = [add(lane, lanes[at - distance]) if at >= distance else lane for at, lane in enumerate(lanes)]
    return lanes


def _scanned_before(add: Callable[..., Any], values: list[float]) -> list[float]:
    return [-0.0, *_scanned(add, values)[:-1]]
