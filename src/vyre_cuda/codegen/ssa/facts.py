"""What is known about values when they are built: intervals, distances from a common origin, conditions that hold.

Everything here is sound and nothing is complete: an answer of False means "not proven". Intervals are of exact
integers in the value's own type. An origin (root, offset) says: value = root + offset modulo 2^32 or 2^64, the width
of both, as bit patterns. Conditions hold inside the scope in which they were assumed; they narrow intervals and add
edges a < b, a <= b of the unsigned order, which `proves_less` searches.
"""

from __future__ import annotations

from vyre_cuda.codegen.ssa.intervals import FULL, MODULUS, RULES, Range
from vyre_cuda.codegen.ssa.ssa import Function

# How far proofs look back through operands and edges, and how many steps a proof may take.
_DEPTH = 4
_STEPS = 64
# The maximum edges of one value, and the maximum conditions derived from one.
_MOST_EDGES = 32
_MOST_LEAVES = 64


# Ops that can give any number if one operand can be any.
_FULL_OF_FULL = frozenset({"add", "subtract", "bitwise_xor"})

# When a value's interval was last found to be all that its operands tell: at no time, or whatever is assumed.
_UNSETTLED = -1
_ALWAYS = 1 << 62


class Facts:
    """Facts about the values of one function."""

    __slots__ = (
        "_edges",
        "_origins",
        "_own_origins",
        "_scopes",
        "_settled",
        "_steps",
        "_time",
        "function",
        "known",
        "ranges",
    )

    def __init__(self, function: Function) -> None:
        self.function = function
        self.ranges: list[Range | None] = []
        self._origins: dict[int, Range] = {}
        self._own_origins = 0  # values below this have no other origin than themselves
        self._time = 0  # how often an interval was changed that others may have been derived from
        self._settled: list[int] = []  # the time when the interval followed from all operands'
        self.known: dict[int, bool] = {}
        self._edges: dict[int, list[tuple[int, bool]]] = {}
        self._scopes: list[list[tuple[str, int, Range | None]]] = []
        self._steps = 0

    def forget(self) -> None:
        """Of the values that exist, know no more than their types and constants: what holds at one place of the code
        may not hold at another one.
        """
        function = self.function
        count = len(function.ops)
        self.ranges = [None] * count
        self._origins.clear()
        self._own_origins = count
        self._time += 1
        self._settled = [_UNSETTLED] * count
        for value, op in enumerate(function.ops):
            if op == "const" and function.types[value] in FULL:
                self.ranges[value] = (function.attrs[value], function.attrs[value])
        self.known.clear()
        self._edges.clear()

    # ---- when a value is made ----

    def observe(self, value: int) -> None:
        """Derive what is known about a new value from its operands."""
        function = self.function
        for made in range(len(self.ranges), value + 1):
            op, type_ = function.ops[made], function.types[made]
            if op == "const":
                constant: int = function.attrs[made]
                self.ranges.append((constant, constant) if type_ in FULL else None)
                self._settled.append(_ALWAYS)
            else:
                self.observe_next(op, type_, function.args[made])

    def observe_next(self, op: str, type_: str, args: tuple[int, ...]) -> None:
        """The same for the next value, which is not a constant."""
        ranges, settled = self.ranges, self._settled
        full = FULL.get(type_)
        rule = RULES.get(op)
        if full is None or rule is None:
            ranges.append(full)
            settled.append(_ALWAYS)
            return
        now = self._time
        if len(args) == 2:
            one, other = args
            settled.append(now if settled[one] >= now and settled[other] >= now else _UNSETTLED)
            left, right = ranges[one] or full, ranges[other] or full
            if left is full or right is full:
                rest = right if left is full else left
                if op in _FULL_OF_FULL or (op == "multiply" and (rest[1] > 1 or rest[0] < -1)):
                    ranges.append(full)
                    return
            derived = rule(type_, (left, right))
        elif len(args) == 1:
            settled.append(now if settled[args[0]] >= now else _UNSETTLED)
            derived = rule(type_, (ranges[args[0]] or full,))
        else:
            settled.append(now if all(settled[arg] >= now for arg in args) else _UNSETTLED)
            derived = rule(type_, tuple([ranges[arg] or full for arg in args]))
        ranges.append(full if derived is None or derived[0] < full[0] or derived[1] > full[1] else derived)

    def _when_settled(self, value: int) -> int:
        """The time now, if the operands' intervals are all that can be known of them."""
        function = self.function
        if function.ops[value] not in RULES:
            return _ALWAYS
        settled, now = self._settled, self._time
        for arg in function.args[value]:
            if settled[arg] < now:
                return _UNSETTLED
        return now

    def observe_anywhere(self, value: int) -> None:
        """Like `observe`, for a value that other scopes will find: uses only what is known outside all scopes."""
        known: dict[int, Range | None] = {arg: self.ranges[arg] for arg in self.function.args[value]}
        for scope in reversed(self._scopes):
            for kind, narrowed, old in reversed(scope):
                if kind == "range" and narrowed in known:
                    known[narrowed] = old
        self.observe(value)
        type_ = self.function.types[value]
        if type_ in FULL:
            self.ranges[value] = self._derive(value, type_, known)
            if self.function.ops[value] in RULES:
                self._settled[value] = _UNSETTLED

    def _derive(self, value: int, type_: str, ranges: list[Range | None] | dict[int, Range | None]) -> Range:
        function = self.function
        op = function.ops[value]
        full = FULL[type_]
        if op == "const":
            constant: int = function.attrs[value]
            return (constant, constant)
        rule = RULES.get(op)
        if rule is None:
            return full
        derived = rule(type_, tuple([ranges[arg] or full for arg in function.args[value]]))
        return full if derived is None or derived[0] < full[0] or derived[1] > full[1] else derived

    def origin(self, value: int) -> Range:
        """Of what the value is the sum with a constant, and that constant."""
        function, origins = self.function, self._origins
        path: list[tuple[int, int]] = []
        while value not in origins:
            op, args = function.ops[value], function.args[value]
            if value < self._own_origins or function.types[value] not in FULL:
                break
            if op == "retype":
                path.append((value, 0))
            elif op in ("add", "subtract") and function.ops[args[1]] == "const":
                step = function.attrs[args[1]]
                path.append((value, step if op == "add" else -step))
            else:
                break
            value = args[0]
        root, offset = origins.get(value, (value, 0))
        for moved, step in reversed(path):
            offset = (offset + step) % MODULUS[function.types[moved]]
            origins[moved] = (root, offset)
        return root, offset

    # ---- scopes ----

    def open_scope(self) -> None:
        self._scopes.append([])

    def close_scope(self) -> None:
        """Forget what was assumed since the scope was opened."""
        for kind, value, old in reversed(self._scopes.pop()):
            if kind == "range":
                self.ranges[value] = old
                self._time += 1
            elif kind == "known":
                del self.known[value]
            else:
                self._edges[value].pop()

    def _log(self, kind: str, value: int, old: Range | None = None) -> None:
        if self._scopes:
            self._scopes[-1].append((kind, value, old))

    def set_range(self, value: int, low: int, high: int) -> None:
        """Narrow the interval of a value. An empty one (code that cannot run) changes nothing."""
        self.observe(value)
        old = self.ranges[value]
        if old is None or (low <= old[0] and high >= old[1]):
            return
        narrowed = (max(low, old[0]), min(high, old[1]))
        if narrowed[0] <= narrowed[1]:
            self._log("range", value, old)
            self.ranges[value] = narrowed
            self._time += 1

    def give_range(self, value: int, low: int, high: int) -> None:
        """State the interval of a new value permanently."""
        self.observe(value)
        self.ranges[value] = (low, high)
        if value + 1 < len(self.ranges):  # others may have been derived from it
            self._time += 1
        elif self.function.ops[value] in RULES:
            self._settled[value] = _UNSETTLED

    # ---- conditions ----

    def assume(self, condition: int, truth: bool) -> None:
        """From here to the end of the scope `condition` has this value."""
        leaves = self._split(condition, truth)
        for _ in range(2 if len(leaves) > 1 else 1):  # one leaf can make another useful
            for leaf, value in leaves:
                self._assume_leaf(leaf, value)

    def _split(self, condition: int, truth: bool) -> list[tuple[int, bool]]:
        """Conditions that hold when this one does, itself included."""
        function = self.function
        leaves: dict[int, bool] = {}
        work = [(condition, truth)]
        while work and len(leaves) < _MOST_LEAVES:
            part, value = work.pop()
            op = function.ops[part]
            if op == "const" or part in leaves:
                continue
            leaves[part] = value
            if op == "logical_not":
                work.append((function.args[part][0], not value))
            elif op == ("logical_and" if value else "logical_or"):
                work += [(arg, value) for arg in function.args[part]]
        return list(leaves.items())

    def _assume_leaf(self, condition: int, truth: bool) -> None:
        if condition not in self.known:
            self.known[condition] = truth
            self._log("known", condition)
        function = self.function
        op, args = function.ops[condition], function.args[condition]
        if len(args) != 2 or function.types[args[0]] not in FULL:
            return
        left, right = args
        if op in ("less", "less_equal"):
            strict = (op == "less") == truth
            if truth:
                self.assume_order(left, right, strict)
            else:
                self.assume_order(right, left, strict)
        elif op == ("equal" if truth else "not_equal"):
            self.assume_order(left, right, False)
            self.assume_order(right, left, False)
        elif op == ("not_equal" if truth else "equal"):
            self._assume_unequal(left, right)

    def assume_order(self, low: int, high: int, strict: bool) -> None:
        """From here to the end of the scope low < high (or <=), in the order of their type."""
        below, above = self.range(low), self.range(high)
        self.set_range(low, below[0], above[1] - strict)
        self.set_range(high, below[0] + strict, above[1])
        if self.range(low)[0] >= 0 and self.range(high)[0] >= 0:  # then the signed order is the unsigned order
            root, edge = self._root(low), (self._root(high), strict)
            edges = self._edges.setdefault(root, [])
            if edge not in edges and len(edges) < _MOST_EDGES:
                edges.append(edge)
                self._log("edge", root)

    def _assume_unequal(self, left: int, right: int) -> None:
        for value, other in ((left, right), (right, left)):
            low, high = self.range(value)
            excluded = self.range(other)
            if excluded[0] == excluded[1]:
                self.set_range(value, low + (low == excluded[0]), high - (high == excluded[0]))

    # ---- questions ----

    def range(self, value: int) -> Range:
        """The interval of an integer value."""
        if value >= len(self.ranges):
            self.observe(value)
        known = self.ranges[value]
        return known if known is not None else FULL[self.function.types[value]]

    def tight_range(self, value: int, depth: int = 3) -> Range:
        """Like `range`, derived again from what is known about the operands now."""
        known = self.range(value)
        if depth == 0 or known[0] == known[1] or self._settled[value] >= self._time:
            return known
        function = self.function
        if function.ops[value] not in RULES:
            return known
        types = function.types
        operands: dict[int, Range | None] = {}
        for arg in function.args[value]:
            operands[arg] = self.tight_range(arg, depth - 1) if types[arg] in FULL else None
        low, high = self._derive(value, types[value], operands)
        if low <= known[0] and high >= known[1]:
            self._settled[value] = self._when_settled(value)
            return known
        return (low if low > known[0] else known[0]), (high if high < known[1] else known[1])

    def unsigned_range(self, value: int) -> Range:
        """The interval of the bit pattern read as unsigned."""
        low, high = self.tight_range(value)
        if low >= 0:
            return low, high
        modulus = MODULUS[self.function.types[value]]
        return (low + modulus, high + modulus) if high < 0 else (0, modulus - 1)

    def proves_less(self, left: int, right: int, *, strict: bool = True) -> bool:
        """Whether left < right (or <=) is proven, bit patterns read as unsigned."""
        self._steps = _STEPS
        return self._proves(left, right, strict, _DEPTH)

    def _proves(self, left: int, right: int, strict: bool, depth: int) -> bool:
        left, right = self._root(left), self._root(right)
        if left == right:
            return not strict
        if self.unsigned_range(left)[1] + strict <= self.unsigned_range(right)[0]:
            return True
        self._steps -= 1
        if depth == 0 or self._steps < 0:
            return False
        edges = self._edges.get(left, ())
        if (right, True) in edges or (not strict and (right, False) in edges):
            return True
        for above, edge_strict in edges:
            if self._proves(above, right, strict and not edge_strict, depth - 1):
                return True
        return self._proves_by_operands(left, right, strict, depth - 1)

    def _proves_by_operands(self, left: int, right: int, strict: bool, depth: int) -> bool:
        """left is at most one of its operands, or right at least one of its own."""
        function = self.function
        op, args = function.ops[left], function.args[left]
        if op == "bitwise_and":
            return any(self._proves(arg, right, strict, depth) for arg in args)
        if function.types[left] in ("u32", "u64"):
            if op == "right_shift":
                return self._proves(args[0], right, strict, depth)
            if op == "minimum":
                return any(self._proves(arg, right, strict, depth) for arg in args)
            if op == "maximum":
                return all(self._proves(arg, right, strict, depth) for arg in args)
        if op == "where":
            return all(self._proves(arg, right, strict, depth) for arg in args[1:])
        if op in ("subtract", "add") and function.ops[args[1]] == "const":
            root, offset = self.origin(left)
            down = MODULUS[function.types[left]] - offset  # left = root - down, if that does not wrap
            if root != left and 0 < down <= self.unsigned_range(root)[0]:
                return self._proves(root, right, False, depth)
        return False

    def _root(self, value: int) -> int:
        """The value itself, below changes of signedness and extensions with zeros."""
        function = self.function
        while True:
            op = function.ops[value]
            if op != "retype" and not (op == "widen" and function.types[value] == "u64"):
                break
            value = function.args[value][0]
        self.observe(value)
        return value

    def displacement(self, value: int) -> tuple[int, int]:
        """(root, offset) with value = root + offset as exact unsigned integers, or (value, 0)."""
        self.observe(value)
        root, offset = self.origin(value)
        if root == value or self.function.ops[root] == "const":
            return value, 0
        modulus = MODULUS[self.function.types[value]]
        if offset >= modulus >> 1:
            offset -= modulus
        low, high = self.unsigned_range(root)
        return (root, offset) if low + offset >= 0 and high + offset < modulus else (value, 0)
