"""The sums that integer values are (`ir/affine.py`), with values as terms.

Only what holds everywhere is used, no interval of a scope: the sum of a value is the same wherever it is asked for.
"""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import BITS
from vyre_cuda.codegen.ssa.intervals import FULL
from vyre_cuda.codegen.ssa.ssa import Function
from vyre_cuda.ir.affine import Affine, Interval, affine, number, single
from vyre_cuda.ir.core.limits import MAX_GRID
from vyre_cuda.records import FrozenRecord

# A value that is made of more terms, or through more values, is a term itself.
_MOST_TERMS = 8
_MOST_STEPS = 32
# Elements of the largest vector.
_MOST_MULTIPLE = 16


class Coordinate(FrozenRecord):
    """A special register of a launch: "%tid", "%ctaid" or "%nctaid" of one axis, and what it can be."""

    kind: str
    axis: int
    interval: Interval


class Linear:
    """The sums of one function's values. A term is a value as an exact integer of its own type."""

    __slots__ = ("_block", "_function", "_multiples", "_sums", "intervals")

    def __init__(self, function: Function, block: tuple[int, int, int]) -> None:
        self._function = function
        self._block = block
        self._sums: dict[int, Affine] = {}
        self.intervals: dict[int, Interval] = {}  # of counters, wherever they have a value
        self._multiples: dict[int, int] = {}  # powers of 2 of which counters are multiples

    def of(self, value: int) -> Affine:
        """The sum that an integer value is, modulo 2^32 or 2^64."""
        return self._of(value, _MOST_STEPS)

    def within_block(self, sum_: Affine, count: int) -> tuple[Affine, int] | None:
        """`Affine.within_block`, with what is known about counters."""
        return sum_.within_block(count, self._multiple)

    def note_counter(self, counter: int, start: int, step: int) -> None:
        """A value is the counter of a loop: it is a multiple of what its start and its step are multiples of."""
        count = _MOST_MULTIPLE
        while count > 1:
            found = [self.within_block(self.of(value), count) for value in (start, step)]
            if all(each is not None and each[1] == 0 for each in found):
                self._multiples[counter] = count
                return
            count //= 2

    def _multiple(self, term: int) -> int:
        return self._multiples.get(term, 1)

    def coordinate(self, term: int) -> Coordinate | None:
        """The special register that a term is."""
        if term < 0 or self._function.ops[term] != "special":
            return None
        kind, _, letter = self._function.attrs[term].partition(".")
        axis = "xyz".find(letter)
        if kind == "%tid":
            return Coordinate(kind, axis, (0, self._block[axis] - 1))
        if kind == "%ctaid":
            return Coordinate(kind, axis, (0, MAX_GRID[axis] - 1))
        return Coordinate(kind, axis, (1, MAX_GRID[axis])) if kind == "%nctaid" else None

    def _interval(self, term: int) -> Interval:
        known = self.intervals.get(term)
        if known is not None:
            return known
        coordinate = self.coordinate(term)
        return FULL[self._function.types[term]] if coordinate is None else coordinate.interval

    def _of(self, value: int, steps: int) -> Affine:
        found = self._sums.get(value)
        if found is None:
            found = self._sum(value, steps - 1) if steps else None
            if found is None or len(found.terms) > _MOST_TERMS:
                found = single(BITS[self._function.types[value]], value)
            self._sums[value] = found
        return found

    def _sum(self, value: int, steps: int) -> Affine | None:
        function = self._function
        op, args, type_ = function.ops[value], function.args[value], function.types[value]
        match op:
            case "const":
                return number(BITS[type_], function.attrs[value])
            case "add":
                return self._of(args[0], steps) + self._of(args[1], steps)
            case "subtract":
                return self._of(args[0], steps) - self._of(args[1], steps)
            case "negative":
                return -self._of(args[0], steps)
            case "invert":
                return -self._of(args[0], steps) - number(BITS[type_], 1)
            case "retype" | "copy":
                return self._of(args[0], steps)
            case "low":
                wide = self._of(args[0], steps)
                return affine(32, wide.terms, wide.constant)
            case "widen":
                return self._wide(args[0], steps)
            case "multiply":
                return _product(self._of(args[0], steps), self._of(args[1], steps))
            case "left_shift" if function.ops[args[1]] == "const":
                count: int = function.attrs[args[1]]
                return self._of(args[0], steps) << count if count < BITS[type_] else None
            case "multiply_add":
                return _plus(_product(self._of(args[0], steps), self._of(args[1], steps)), self._of(args[2], steps))
            case "multiply_wide":
                return _product(self._wide(args[0], steps), self._wide(args[1], steps))
            case "multiply_wide_add":
                product = _product(self._wide(args[0], steps), self._wide(args[1], steps))
                return _plus(product, self._of(args[2], steps))
        return None

    def _wide(self, value: int, steps: int) -> Affine | None:
        """The sum in 64 bits of a value of 32, extended as its type says."""
        signed = self._function.types[value][0] == "s"
        return self._of(value, steps).extended(64, self._interval, signed=signed)


def _product(left: Affine | None, right: Affine | None) -> Affine | None:
    if left is None or right is None:
        return None
    if not right.terms:
        return left * right.constant
    return None if left.terms else right * left.constant


def _plus(left: Affine | None, right: Affine) -> Affine | None:
    return None if left is None else left + right
