"""What is asked of a program for each step that launches it, found once for the program."""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import Apply, Atomic, Expr, For, Id, Load, Stmt, Store, While
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import in_any_order, operands, statements
from vyre_cuda.records import FrozenRecord


class Facts(FrozenRecord, eq=False):
    """`written` are buffers and shared arrays that a statement changes, `kinds` the classes of statements, `ids` the
    kinds of ids, `ops` is the number of operations and accesses to memory."""

    written: frozenset[str]
    kinds: frozenset[type[Stmt]]
    ids: frozenset[str]
    ops: int

    @property
    def has_loop(self) -> bool:
        return For in self.kinds or While in self.kinds


def facts_of(program: Program) -> Facts:
    if not program._facts:
        every = list(statements(program.body))
        ops = 0
        written: set[str] = set()
        ids: set[str] = set()
        for s in every:
            if type(s) is Store:
                ops += 1
                written.add(s.buffer)
            elif type(s) is Atomic:
                ops += 1
                written.update(() if s.op == "load" else (s.buffer,))
            for e in in_any_order(operands(s)):
                if type(e) is Apply or type(e) is Load:
                    ops += 1
                elif type(e) is Id:
                    ids.add(e.kind)
        program._facts.append(Facts(frozenset(written), frozenset(map(type, every)), frozenset(ids), ops))
    found: Facts = program._facts[0]
    return found


def ops_of(some: tuple[Expr, ...]) -> int:
    """Operations and loads."""
    return sum([type(e) is Apply or type(e) is Load for e in in_any_order(some)])


def with_facts_of(program: Program, same: Program) -> Program:
    """The program, whose statements are the same as those of another."""
    program._facts.append(facts_of(same))
    return program
