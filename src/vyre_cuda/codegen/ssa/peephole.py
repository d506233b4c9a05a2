"""Values made through here are simplified first, by the rules of `simplify.py`.

Operands of commutative ops are ordered (constants last), `less` and `less_equal` are the only orders, and a negated
integer comparison is the opposite one, so that equal meanings meet in one value.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.forms.isel import PREDICATES, TYPED_BY_FIRST
from vyre_cuda.codegen.forms.precision import modes
from vyre_cuda.codegen.ssa.facts import Facts
from vyre_cuda.codegen.ssa.float_rules import flushed_constant, sign_in_bits
from vyre_cuda.codegen.ssa.foldable import may_fold
from vyre_cuda.codegen.ssa.intervals import FULL, Range, wrap
from vyre_cuda.codegen.ssa.simplify import OF_CONSTANTS, Rule, rules_of
from vyre_cuda.codegen.ssa.ssa import Function
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.ssa import conversions, truths
else:
    conversions, truths = later("vyre_cuda.codegen.ssa.conversions"), later("vyre_cuda.codegen.ssa.truths")

_COMMUTATIVE = frozenset(op.name for op in OPS.values() if op.commutative)
# Conversions of one integer to another.
_OF_INTEGERS = frozenset({"retype", "widen", "low"})


@cache
def _facts_of(op: str, type_: str) -> tuple[bool, bool, tuple[Rule, ...], tuple[Rule, ...], str]:
    """Of an op on operands of a type: whether they can be exchanged, whether constants among them are flushed, the
    rules that can apply where the last one is a constant and where it is none, and the type of the result.
    """
    flushes = type_ == "f32" and op.endswith((".ftz", ".fast"))
    rules = rules_of(op, type_)
    others = tuple([rule for rule in rules if rule not in OF_CONSTANTS])
    return op in _COMMUTATIVE, flushes, rules, others, "pred" if op in PREDICATES else type_


class Builder:
    """Makes the values of one function for one target in one precision.

    `modes` has the row to take for an op and operand type where the precision asks for one other than the plain one.
    `max_ulp` bounds the error of approximate ops and mathematical functions, None leaves that to the precision.
    """

    __slots__ = (
        "_zero_half",
        "facts",
        "false",
        "function",
        "keeps_rolled",
        "max_ulp",
        "modes",
        "precision",
        "target",
        "true",
    )

    def __init__(self, target: Target, precision: str = "ieee", *, max_ulp: float | None = None) -> None:
        self.target = target
        self.precision = precision
        self.max_ulp = max_ulp
        self.modes = modes(precision, max_ulp)
        self.function = Function()
        self.facts = Facts(self.function)
        self.false = self.function.constant("pred", 0)
        self.true = self.function.constant("pred", 1)
        self._zero_half: int | None = None
        self.keeps_rolled = False  # something was emitted that the assembler must not see with constants

    # ---- making values ----

    def constant(self, type_: str, value: int) -> int:
        return self.function.constant(type_, value)

    def apply(self, op: str, *args: int) -> int:
        """The value of an op on operands of one type (the first operand of `where` is a predicate)."""
        function = self.function
        ops = function.ops
        type_ = function.types[args[0 if op in TYPED_BY_FIRST else -1]]
        is_commutative, flushes, rules, others, result = _facts_of(op, type_)
        if is_commutative:
            left, right = args
            if ops[left] == "const" or (left > right and ops[right] != "const"):
                args = (right, left)
        if flushes:
            args = tuple([flushed_constant(self, arg) for arg in args])
        for rule in rules if ops[args[-1]] == "const" else others:
            simpler = rule(self, type_, *args)
            if simpler is not None:
                return simpler
        return self.emit(op, result, args)

    def entry(
        self, op: str, type_: str, args: tuple[int, ...], attr: Any = None, *, within: Range | None = None
    ) -> int:
        """A value of entry values alone, computed before all code; `within` is its interval when no rule knows it."""
        function, facts = self.function, self.facts
        facts.observe(len(function.ops) - 1)
        value = function.entry_value(op, type_, args, attr)
        if value >= len(facts.ranges):
            facts.observe_anywhere(value)
            if within is not None:
                facts.give_range(value, *within)
        return value

    def in_mode(self, op: str, *args: int) -> int:
        """Like `apply`, with the row that the precision calls for."""
        return self.apply(self.modes.get((op, self.function.types[args[-1]]), op), *args)

    def convert(self, op: str, type_: str, value: int) -> int:
        """A value of another type: retype, widen, low, cast.*, bits.*; `type_` is the result's."""
        function = self.function
        source, made_by = function.types[value], function.ops[value]
        if op == "retype":
            if source == type_:
                return value
            if made_by == "retype":
                return function.args[value][0]
            if made_by != "const":
                return self.emit(op, type_, (value,))
        if made_by == "const":
            folded = conversions.fold_conversion(op, type_, source, function.attrs[value])
            if folded is not None:
                return self.constant(type_, folded)
        if op == "widen" and type_ == "u64" and made_by == "multiply_high":
            return self._wide_high_half(*function.args[value])
        simpler = None if op in _OF_INTEGERS else self._simpler_conversion(op, type_, value)
        return self.emit(op, type_, (value,)) if simpler is None else simpler

    def _simpler_conversion(self, op: str, type_: str, value: int) -> int | None:
        """A conversion to or from floats without an instruction of its own, None if it has one."""
        function = self.function
        source, made_by = function.types[value], function.ops[value]
        inverse = conversions.INVERSES.get(op)
        if inverse is not None and made_by == inverse:
            origin = function.args[value][0]
            if function.types[origin] == type_:
                return origin
        if op in conversions.BITS_OF_FLOATS:
            changed = sign_in_bits(self, value)
            if changed is not None:
                return self.convert("retype", type_, changed)
        if op in truths.OF_TRUTHS:
            truth = truths.converted_truth(self, op, type_, value)
            if truth is not None:
                return truth
        if type_ == "f32" and source in ("u64", "s64") and may_fold(function, value):
            self.keeps_rolled = True  # folded, 4294967297 becomes 2^33 (docs/compiler-defects.md)
        return None

    def _wide_high_half(self, left: int, right: int) -> int:
        """The high half of a product in 64 bits: for mul.hi and a subtraction, ptxas loses a carry."""
        product = self.emit("multiply_wide", "u64", (left, right))
        return self.apply("right_shift", product, self.constant("u32", 32))

    def emit(self, op: str, type_: str, args: tuple[int, ...], attr: Any = None) -> int:
        """The requested value, or the constant that it is known to be."""
        function, facts = self.function, self.facts
        made = len(function.ops)
        value = function.shared.setdefault((op, type_, args, attr), made)
        if value == made:
            function.ops.append(op)
            function.types.append(type_)
            function.args.append(args)
            function.attrs.append(attr)
            function.code.append(made)
        if type_ not in FULL:  # it has no interval
            if type_ == "pred" and value in facts.known:
                return self.true if facts.known[value] else self.false
            return value
        ranges = facts.ranges
        if value >= len(ranges):
            if value > len(ranges):
                facts.observe(value - 1)
            facts.observe_next(op, type_, args)
        known = ranges[value]
        if known is None or known[0] != known[1]:
            return value
        return self.constant(type_, known[0])

    def integer(self, type_: str, value: int) -> int:
        """A constant of an integer type, reduced to its range."""
        return self.function.constant(type_, wrap(type_, value))

    def zero_half(self) -> int:
        """A 16-bit register that is 0, computed before all code."""
        found = self._zero_half
        if found is None:
            found = self._zero_half = self.function.entry_value("copy", "b16", (self.constant("b16", 0),))
        return found

    def in_register(self, value: int) -> int:
        """The value in a register, for instructions that take no immediate."""
        if not self.is_constant(value):
            return value
        return self.emit("copy", self.function.types[value], (value,))

    def read_register(self, register: int) -> int:
        """The current value of a mutable register."""
        value = self.function.fresh("read", self.function.registers[register], (), register)
        self.facts.observe(value)
        return value

    def branch(self, condition: int, sense: bool, label: int | None) -> None:
        """Go to the label, or return where it is None, when the condition is `sense`: at once or never when known."""
        function = self.function
        if function.ops[condition] == "logical_not":
            condition, sense = function.args[condition][0], not sense
        args: tuple[int, ...] = (condition,)
        negated = not sense
        if self.is_constant(condition):
            if (condition == self.true) != sense:
                return
            args, negated = (), False
        if label is None:
            function.effect("return", args, negated)
        else:
            function.effect("branch", args, (label, negated))

    # ---- asking ----

    def is_constant(self, value: int) -> bool:
        return self.function.ops[value] == "const"

    def constant_of(self, value: int) -> int | None:
        """The number that an integer or predicate value is known to be."""
        if self.function.ops[value] == "const":
            constant: int = self.function.attrs[value]
            return constant
        return None

    def open_scope(self) -> None:
        self.function.open_scope()
        self.facts.open_scope()

    def close_scope(self) -> None:
        self.facts.close_scope()
        self.function.close_scope()
