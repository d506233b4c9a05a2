"""Fewer moves: copies of mutable registers, and values computed only to be assigned, share the register itself.

The assembler would find most of this; text is shorter and the emulator faster with it. A copy may share its register
when nothing writes the register between the copy and the last use of the copy; a value may be computed in the register
it is assigned to when nothing needs the old content in between. Both are decided on the linear code, which is enough
because control flow is structured: a path that leaves the stretch between two places and comes back without passing
the first one must enter it at the head of a loop.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from vyre_cuda.codegen.ssa.ssa import Function

# Values with an instruction of their own that cannot write a mutable register, or does not need to.
_NEVER = frozenset({"read", "register", "const", "retype", "parameter", "special", "symbol", "atomic"})


def coalesce(function: Function, live: bytearray) -> None:
    """Fill `function.aliases` and extend `function.pinned`. Only live values count."""
    pass_ = _Coalescing(function, live)
    for position, item in enumerate(function.code):
        if isinstance(item, int) and live[item] and function.ops[item] == "read":
            pass_.share_copy(item, position)
    for position, item in enumerate(function.code):
        if not isinstance(item, int) and item[0] == "set":
            pass_.compute_in_place(item[1][0], item[2], position)


class _Coalescing:
    """Positions in the code of definitions, uses, writes, jumps and loop heads."""

    def __init__(self, function: Function, live: bytearray) -> None:
        self._function = function
        self._defined: dict[int, int] = {}
        self._uses: dict[int, list[int]] = {}
        self._writes: dict[int, list[int]] = {}  # by register
        self._needs: dict[int, list[int]] = {}  # places that need what a register holds
        self._jumps: list[int] = []
        self._heads: list[int] = []
        labels: dict[int, int] = {}
        for position, item in enumerate(function.code):
            if isinstance(item, int):
                if live[item] or function.ops[item] == "atomic":
                    self._defined[item] = position
                    self._use(function.args[item], position)
                    if item in function.pinned:
                        self._writes.setdefault(function.pinned[item], []).append(position)
                    if function.ops[item] == "read":
                        self._needs.setdefault(function.attrs[item], []).append(position)
                continue
            kind, args, attr = item
            self._use(args, position)
            if kind == "set":
                self._writes.setdefault(attr, []).append(position)
            elif kind == "label":
                labels[attr[0]] = position
                self._jumps.append(position)
            elif kind == "branch":
                self._jumps.append(position)
                if attr[0] in labels:
                    insort(self._heads, labels[attr[0]])
            elif kind == "return":
                self._jumps.append(position)

    def _use(self, args: tuple[int, ...], position: int) -> None:
        function = self._function
        for arg in args:
            value = self._origin(arg)
            self._uses.setdefault(value, []).append(position)
            if function.ops[value] == "register":
                self._needs.setdefault(function.attrs[value], []).append(position)

    def _origin(self, value: int) -> int:
        function = self._function
        while function.ops[value] == "retype":
            value = function.args[value][0]
        return value

    def share_copy(self, value: int, position: int) -> None:
        """Let a copy be the register, if it stays as it is until the last use."""
        function = self._function
        register = function.attrs[value]
        uses = self._uses.get(value, [])
        if uses and self._unchanged(register, position, uses[-1]):
            function.aliases[value] = register
            needs = self._needs[register]
            for use in uses:
                insort(needs, use)

    def compute_in_place(self, value: int, register: int, position: int) -> None:
        """Compute the value in the register that is set to it at `position`."""
        function = self._function
        value = self._origin(value)
        defined = self._defined.get(value)
        if defined is None or value in function.pinned or function.ops[value] in _NEVER:
            return
        if function.ops[value] == "load" and function.attrs[value].guarded:  # it is zeroed first
            return
        if _any_within(self._jumps, defined, position):
            return
        if _any_within(self._needs.get(register, []), defined, position + 1):
            return
        if _any_within(self._writes[register], defined, position):
            return
        uses = self._uses[value]
        if uses[-1] > position and not self._unchanged(register, position, uses[-1]):
            return
        function.pinned[value] = register
        needs = self._needs.setdefault(register, [])
        for use in uses:
            if use != position:
                insort(needs, use)

    def _unchanged(self, register: int, first: int, last: int) -> bool:
        """No write and no loop head strictly between two places."""
        return not (_any_within(self._writes.get(register, []), first, last) or _any_within(self._heads, first, last))


def _any_within(positions: list[int], first: int, last: int) -> bool:
    """Whether a position is strictly between the two."""
    return bisect_right(positions, first) < bisect_left(positions, last)
