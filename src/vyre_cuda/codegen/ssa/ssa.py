"""A kernel as typed values and a linear list of what happens, built front to back.

A value is a small int: an index into the parallel lists `ops`, `types`, `args`, `attrs`. Pure values are hash-consed:
requesting one twice inside the scope where it was made gives the same int. Scopes follow the nesting of the program,
so a value that is found dominates the place that needs it. `code` holds value numbers where they are computed and
`Effect` tuples; values that stand before all control flow (parameters, ids) go to `entry`.

Types are PTX type words: u32 s32 u64 s64 f32 f64 b16 pred. Mutable state lives in registers: a `set` effect writes
one, a value `read` copies it, a value `register` is the register itself.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeAlias

# (kind, values it uses, what else it needs)
Effect: TypeAlias = tuple[str, tuple[int, ...], Any]
Key: TypeAlias = tuple[str, str, tuple[int, ...], Any]

# Values with an effect besides their result: they stay even if nothing uses the result.
EFFECTFUL = frozenset({"atomic"})


# What a value depends on besides constants: the launch, which no compiler knows, and mutable registers.
OF_LAUNCH = 1
OF_REGISTER = 2
_DEPENDS = {
    **dict.fromkeys(("parameter", "special", "symbol", "load", "atomic"), OF_LAUNCH),
    **dict.fromkeys(("read", "register"), OF_REGISTER),
}
OF_A_REGISTER = frozenset({"read", "register"})
# How ops begin that the lanes of a warp do together.
OF_WARP = ("shuffle.", "vote.", "match.", "redux.")


def forget_behind(found: dict[Any, Any], count: int) -> None:
    """Remove all but so many of the entries that were put in first."""
    gone = len(found) - count
    if gone > count:
        kept = dict(islice(found.items(), count))
        found.clear()
        found.update(kept)
    else:
        forget = found.popitem  # the last one
        for _ in range(gone):
            forget()


class Function:
    """The values and the code of one kernel."""

    __slots__ = (
        "_before",
        "_constants",
        "_depends",
        "_entry",
        "_late",
        "aliases",
        "args",
        "attrs",
        "code",
        "entry",
        "in_order",
        "labels",
        "ops",
        "pinned",
        "registers",
        "shared",
        "types",
    )

    def __init__(self) -> None:
        self.ops: list[str] = []
        self.types: list[str] = []
        self.args: list[tuple[int, ...]] = []
        self.attrs: list[Any] = []
        self.entry: list[int] = []
        self.code: list[int | Effect] = []
        self.registers: list[str] = []  # type of each mutable register
        self.pinned: dict[int, int] = {}  # value computed straight into a mutable register
        self.aliases: dict[int, int] = {}  # read that needs no copy of the register
        self.labels = 0
        self.in_order = True  # operands have smaller numbers than what is made of them
        self._depends = bytearray()  # of the first values
        self._entry: dict[Key, int] = {}
        self._constants: dict[tuple[str, int], int] = {}
        self.shared: dict[Key, int] = {}  # pure values that are found, with the entry values that no scope had before
        self._before: list[int] = []  # of each open scope: how many were shared
        self._late: list[Key] = []  # entry values that an open scope has shared

    # ---- values ----

    def constant(self, type_: str, value: int) -> int:
        """A literal: an int of the type's range, the bit pattern of a float, 0 or 1 of a pred."""
        key = (type_, value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._append("const", type_, (), value)
        return found

    def known_constant(self, type_: str, value: int) -> int | None:
        """The literal, if there is one."""
        return self._constants.get((type_, value))

    def entry_value(self, op: str, type_: str, args: tuple[int, ...], attr: Any = None) -> int:
        """A pure value of entry values alone, computed before all code."""
        key = (op, type_, args, attr)
        found = self._entry.get(key)
        if found is None:
            found = self._entry[key] = self._append(*key)
            self.entry.append(found)
            if key not in self.shared:
                self.shared[key] = found
                if self._before:
                    self._late.append(key)
        return found

    def fresh(self, op: str, type_: str, args: tuple[int, ...], attr: Any = None) -> int:
        """A value that is never shared, because it depends on more than its operands."""
        made = self.unplaced(op, type_, args, attr)
        self.code.append(made)
        return made

    def unplaced(self, op: str, type_: str, args: tuple[int, ...], attr: Any = None) -> int:
        """A value that is never shared and that is put into the code later."""
        return self._append(op, type_, args, attr)

    def find(self, key: Key) -> int | None:
        """What `remember` kept under this key in a scope that is still open."""
        return self.shared.get(key)

    def remember(self, key: Key, value: int) -> None:
        """Let `find` give this value until the scope closes."""
        self.shared.setdefault(key, value)

    def _append(self, op: str, type_: str, args: tuple[int, ...], attr: Any) -> int:
        made = len(self.ops)
        self.ops.append(op)
        self.types.append(type_)
        self.args.append(args)
        self.attrs.append(attr)
        return made

    def depends(self, value: int) -> int:
        """What a value depends on: the launch, or mutable registers."""
        known, ops, args = self._depends, self.ops, self.args
        for made in range(len(known), value + 1):
            op, of = ops[made], args[made]
            found = OF_LAUNCH if op.startswith(OF_WARP) else _DEPENDS.get(op, 0)
            for arg in of[1:] if op == "where" else of:
                found |= known[arg]
            known.append(found)
        return known[value]

    def redefine(self, value: int, op: str, args: tuple[int, ...], attr: Any) -> None:
        """Let a value that was never shared be computed in another way."""
        self.ops[value], self.args[value], self.attrs[value] = op, args, attr
        self.in_order = False

    # ---- state and effects ----

    def register(self, type_: str) -> int:
        """A new mutable register."""
        self.registers.append(type_)
        return len(self.registers) - 1

    def register_value(self, register: int) -> int:
        """The register as a value, for code in which nothing writes it."""
        return self._append("register", self.registers[register], (), register)

    def effect(self, kind: str, args: tuple[int, ...] = (), attr: Any = None) -> None:
        self.code.append((kind, args, attr))

    def label(self) -> int:
        """A new label; a `label` effect puts it somewhere."""
        self.labels += 1
        return self.labels

    def rewritten(self) -> list[int | Effect]:
        """Begin the code anew: what it was, to be put back with changes. Of values, only entry values are found."""
        before, self.code = self.code, []
        self.shared = dict(self._entry)
        return before

    # ---- scopes ----

    def open_scope(self) -> None:
        self._before.append(len(self.shared))

    def close_scope(self) -> None:
        """Values of the scope are no longer found."""
        shared = self.shared
        forget_behind(shared, self._before.pop())
        for key in self._late:
            shared.setdefault(key, self._entry[key])
        if not self._before:
            self._late.clear()


def liveness(function: Function) -> tuple[bytearray, set[int]]:
    """A 1 for each value whose result is used, from the effects backwards, and the registers that are read.

    The rest needs no code. Values with effects are not marked just because they exist; their operands are.
    """
    ops, args = function.ops, function.args
    live = bytearray(len(ops))
    writes: dict[int, list[int]] = {}
    work: list[tuple[int, ...]] = []
    pinned = function.pinned
    some = bool(pinned) or not EFFECTFUL.isdisjoint(ops)
    effects = [item for item in function.code if type(item) is tuple]
    for kind, of, attr in effects:
        if kind == "set":
            writes.setdefault(attr, []).extend(of)
        else:
            work.append(of)
    for item in function.code if some else ():
        if isinstance(item, int):
            if ops[item] in EFFECTFUL:
                work.append(args[item])
            if item in pinned:
                writes.setdefault(pinned[item], []).append(item)
    if function.in_order and not function.registers:
        for of in work:
            for value in of:
                live[value] = 1
        for value in range(len(ops) - 1, -1, -1):
            if live[value]:
                for operand in args[value]:
                    live[operand] = 1
        return live, set()
    return live, _spread(function, live, work, writes)


def _spread(function: Function, live: bytearray, work: list[tuple[int, ...]], writes: dict[int, list[int]]) -> set[int]:
    """Mark the values of the work and all that they need, also through registers; returns those that are read."""
    ops, args = function.ops, function.args
    live_registers: set[int] = set()
    while work:
        for value in work.pop():
            if not live[value]:
                live[value] = 1
                of = args[value]
                if of:
                    work.append(of)
                elif ops[value] in OF_A_REGISTER:
                    register = function.attrs[value]
                    if register not in live_registers:
                        live_registers.add(register)
                        work.append(tuple(writes.get(register, ())))
    return live_registers
