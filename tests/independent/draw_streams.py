"""Several launches on several streams, which meet in device arrays; the host orders those that do.

A launch waits for the last one that wrote what it uses, and before it writes for all that have read since.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from draw_expr import Scope
from draw_general import ROW, add_scalars
from draw_stmt import Rules, Statements
from draw_values import draw_values
from number_formats import TYPES, ZERO
from oracle import Oracle
from program_tree import Buffer, Program, Value, const

STREAMS = 3
# How a stream is put behind another.
ORDERINGS = ("event", "event", "event", "stream", "device")


@dataclass(slots=True)
class Launch:
    """`program` with arrays as its buffers, by their names. `stream`: STREAMS is none, the order of calls.

    `after` are the launches that must have ended before, with how that is seen to.
    """

    program: Program
    stream: int
    after: list[tuple[int, str]]


@dataclass(slots=True)
class StreamCase:
    """`arrays` as they are at first and as they are `wanted`, with their types."""

    launches: list[Launch]
    arrays: dict[str, tuple[str, list[Value]]]
    wanted: dict[str, list[Value]]
    kind: str = "streams"


def draw_streams(rng: random.Random) -> StreamCase:
    """Raises OutOfFuel."""
    arrays: dict[str, tuple[str, list[Value]]] = {}
    for number in range(rng.randint(2, 5)):
        type_ = rng.choice(TYPES)
        arrays[f"array{number}"] = (type_, draw_values(rng, type_, rng.choice((1, 2, 3, 5, 8))))
    contents = {name: list(values) for name, (_, values) in arrays.items()}
    launches: list[Launch] = []
    written: dict[str, int] = {}
    read: dict[str, list[int]] = {name: [] for name in arrays}
    for number in range(rng.randint(3, 7)):
        program, writable = _program(rng, arrays)
        for name, buffer in program.buffers.items():
            buffer.values = [ZERO[buffer.type]] * len(contents[name]) if buffer.role == "out" else contents[name]
        contents.update(Oracle(program).run().buffers)
        after = {written[name] for name in program.buffers if name in written}
        after.update(earlier for name in writable for earlier in read[name])
        ordered = [(earlier, rng.choice(ORDERINGS)) for earlier in sorted(after)]
        launches.append(Launch(program, rng.randrange(STREAMS + 1), ordered))
        for name in program.buffers:
            if name in writable:
                written[name], read[name] = number, []
            else:
                read[name].append(number)
    return StreamCase(launches, arrays, contents)


def _program(rng: random.Random, arrays: dict[str, tuple[str, list[Value]]]) -> tuple[Program, list[str]]:
    """A program of one thread, and the arrays that it writes."""
    program = Program(index=rng.choice(("u32", "u64")))
    scope = Scope(rng, program)
    names = rng.sample(sorted(arrays), rng.randint(1, min(3, len(arrays))))
    writable = names[: rng.randint(1, len(names))]
    for name in names:
        type_, values = arrays[name]
        role = rng.choice(("inout", "inout", "out")) if name in writable else "in"
        size = const(program.index, len(values)) if role == "out" else None
        program.buffers[name] = Buffer(type_, role, values, size)
    scope.readable = names
    add_scalars(scope, rng.randint(0, 2))
    rules = Rules(writable, alone=True, row=ROW, statements=rng.choice((3, 5, 8)))
    program.body = Statements(scope, rules).body(2, rng.randint(2, 5), in_loop=False)
    return program, writable
