"""The numbers that stand for node kinds in wire bytes. They are never reused, so a version reads what it wrote.

Positions in `nodes.PARAMETER_KINDS`, `ID_KINDS`, `ORDERS` and `SCOPES` are wire numbers too: append to those only.
Ops, atomics, warp operations and types have their codes in their tables.
"""

from __future__ import annotations

from enum import IntEnum

MAGIC = b"VYCP"
VERSION = 1


class ExprTag(IntEnum):
    """Kinds of expression; locals and by-value scalars share one, because their names tell them apart."""

    CONST = 0
    NAME = 1
    SIZE = 2
    ID = 3
    LOAD = 4
    APPLY = 5


class StatementTag(IntEnum):
    """Kinds of statement."""

    LET = 0
    VAR = 1
    ASSIGN = 2
    STORE = 3
    ATOMIC = 4
    IF = 5
    FOR = 6
    WHILE = 7
    BREAK = 8
    CONTINUE = 9
    RETURN = 10
    BARRIER = 11
    ASSERT = 12
    WARP = 13
    GRID_BARRIER = 14
