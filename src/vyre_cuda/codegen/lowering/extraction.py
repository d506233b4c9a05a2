"""Values of classes of terms: of the terms that are equal, the one that costs least is computed.

An 8- or 16-bit integer is computed in 32 bits, of which only the lower ones count in what follows, and is brought into
the range of its type where somebody looks at it: a sum does not, nor does a store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vyre_cuda.codegen.forms.isel import MACHINE_TYPE
from vyre_cuda.codegen.lowering.legalize import Way, apply_op, instruction_of
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.ssa.ssa import Effect
from vyre_cuda.codegen.terms.terms import QUOTIENT_OF_REST, Terms
from vyre_cuda.ir.affine import Affine
from vyre_cuda.ir.core.types import INTEGERS, Type, bf16, f16
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering import halves, integers
else:
    halves = later("vyre_cuda.codegen.lowering.halves")
    integers = later("vyre_cuda.codegen.lowering.integers")

_ANYWHERE = frozenset({"const", "parameter", "special", "symbol"})  # values before all code
_WITHOUT_OPERANDS = frozenset({"sum", "const", "leaf"})
_NARROW = frozenset(type_.code for type_ in INTEGERS if type_.bits < 32)
# Ops whose lower bits depend on nothing but those of their operands.
_LOOSE = frozenset(
    {"add", "subtract", "multiply", "negative", "invert", "bitwise_and", "bitwise_or", "bitwise_xor", "where"}
)
_OF_BITS = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})
# Comparisons that may be written the other way round; what was made first is computed first.
_ORDERED = frozenset({"less", "less_equal"})


class Extraction:
    """Makes values of one builder from the terms of one program."""

    __slots__ = ("_b", "_instructions", "_loose_lets", "_moves", "_placed", "_terms", "_waiting")

    def __init__(self, builder: Builder, terms: Terms) -> None:
        self._b = builder
        self._terms = terms
        self._instructions: dict[tuple[str, Type], str | Way | None] = {}  # of ops on types that were met
        self._waiting: dict[int, tuple[int, int]] = {}  # lets of this block that others may take up, and their places
        self._moves: list[tuple[int, int, int]] = []  # of code: to where, from where, up to where
        self._placed: dict[int | Effect, int] = {}  # values that are moved, and to where
        self._loose_lets: set[int] = set()  # lets of this block of which only the lower bits were computed

    def leaf(self, type_: Type, value: int) -> int:
        """The class of a value."""
        constant = self._b.constant_of(value)
        if constant is None or type_ is f16 or type_ is bf16:
            return self._terms.leaf(type_, value)
        return self._terms.number(type_, constant) if type_.is_integer else self._terms.literal(type_, constant)

    def named(self, class_: int) -> None:
        """The class of a let. A sum of what has values is computed once it is needed, as others may take it up; an
        integer of 8 or 16 bits is brought into range where somebody looks at it.
        """
        if self._terms.is_sum_of_values(class_):
            function = self._b.function
            self._waiting[class_] = len(function.code), len(function.ops)
        elif self._terms.types[class_].code in _NARROW:
            if self._waiting:
                self._settle_parts(class_)
            self._loose(class_)
            self._loose_lets.add(class_)
        else:
            self.needed(class_)

    def settle(self) -> None:
        """Compute the lets that wait, because what follows may not run, or may run often."""
        for class_ in sorted(self._loose_lets.union(self._waiting)):
            self._at_its_place(class_, self.value)
        self.forget()

    def forget(self) -> None:
        """The lets that wait are out of scope."""
        self._waiting.clear()
        self._loose_lets.clear()

    def used(self, class_: int) -> int:
        """The value of a class, which has an effect."""
        value = self.needed(class_)
        self._terms.commit(class_)
        return value

    def stored(self, class_: int) -> int:
        """The same for somebody who looks only at the bits that the type has."""
        if self._waiting:
            self._settle_parts(class_)
        value = self._loose(class_)
        self._terms.commit(class_)
        return value

    def needed(self, class_: int) -> int:
        """The value of a class that a statement needs."""
        if self._waiting:
            self._settle_parts(class_)
        return self.value(class_)

    def _settle_parts(self, class_: int) -> None:
        """Compute the lets that wait and that the class is made of, the first one first: chains may be long."""
        terms = self._terms
        values, loose, best, forms, waiting = terms.values, terms.loose, terms.best, terms.forms, self._waiting
        seen: set[int] = set()
        found: set[int] = set()
        work = [class_]
        while work:
            at = terms.find(work.pop())
            if values[at] is None and loose[at] is None and at not in seen:
                seen.add(at)
                if len(forms[at]) > 1:
                    found.update(waiting.keys() & forms[at])
                elif at in waiting:
                    found.add(at)
                work += terms.parts(best[at])
        for let in sorted(found):
            self._at_its_place(let, self._loose)

    def _at_its_place(self, class_: int, compute: Callable[[int], int]) -> None:
        """Compute a let, where it stands if that is possible: so that code has the order in which it was written."""
        code = self._b.function.code
        begin = len(code)
        compute(class_)
        end = len(code)
        place, before = self._waiting.get(class_, (begin, 0))
        if place < begin < end and self._needs_none_since(place, before, code[begin:]):
            self._moves.append((place, begin, end))
            self._placed.update(dict.fromkeys(code[begin:], place))

    def _needs_none_since(self, place: int, before: int, made: list[int | Effect]) -> bool:
        """Whether new code needs nothing but itself and values that were there before."""
        ops, args, placed = self._b.function.ops, self._b.function.args, self._placed
        own = set(made)
        for item in made:
            if not isinstance(item, int):
                return False
            for arg in args[item]:
                is_new = arg >= before and arg not in own and ops[arg] not in _ANYWHERE
                if is_new and placed.get(arg, place + 1) > place:
                    return False
        return True

    def in_order(self, code: list[int | Effect]) -> list[int | Effect]:
        """The code with what the lets that waited have computed where they stand."""
        if not self._moves:
            return code
        places: list[float] = list(range(len(code)))
        for place, begin, end in self._moves:
            places[begin:end] = [place - 0.5] * (end - begin)
        return [code[at] for at in sorted(range(len(code)), key=places.__getitem__)]

    def value(self, class_: int) -> int:
        """The value of a class, computed here unless it is known."""
        terms = self._terms
        if terms.link[class_] != class_:
            class_ = terms.find(class_)
        value = terms.values[class_]
        if value is not None:
            return value
        type_ = terms.types[class_]
        if terms.ops[class_] == "const":
            value = self._literal(type_, terms.attrs[class_])
        elif type_.code in _NARROW:
            value = self._of_bits(class_, type_) if type_.minimum < 0 and terms.loose[class_] is None else None
            if value is None:
                value = integers.narrowed(self._b, type_, self._loose(class_))
        else:
            form = terms.best[class_] if len(terms.forms[class_]) == 1 else terms.choose(class_)
            value = self._of_form(class_, form)
        if class_ < terms.outer:
            terms.put(terms.values, class_, value)
        else:
            terms.values[class_] = value
        return value

    def _of_bits(self, class_: int, type_: Type) -> int | None:
        """The value of a bitwise op on signed numbers in range, which is in range, if at most one of them is to be
        brought there: others may need it too, and there it costs no more than behind the op. Of unsigned ones the mask
        joins the op.
        """
        terms = self._terms
        form = terms.best[class_] if len(terms.forms[class_]) == 1 else terms.choose(class_)
        if terms.ops[form] not in _OF_BITS:
            return None
        args = [terms.find(arg) for arg in terms.args[form]]
        if len([arg for arg in args if terms.values[arg] is None and terms.ops[arg] != "const"]) > 1:
            return None
        terms.pending.append(class_)
        operands = [self.value(arg) for arg in args]
        terms.pending.pop()
        return self._b.apply(terms.ops[form], *operands)

    def _loose(self, class_: int) -> int:
        """A value with the lower bits of the class; a narrow integer may have others above."""
        terms = self._terms
        if terms.link[class_] != class_:
            class_ = terms.find(class_)
        value = terms.values[class_]
        if value is not None:
            return value
        if terms.types[class_].code not in _NARROW:
            return self.value(class_)
        value = terms.loose[class_]
        if value is None:
            form = terms.best[class_] if len(terms.forms[class_]) == 1 else terms.choose(class_)
            value = self._of_form(class_, form)
            if class_ < terms.outer:
                terms.put(terms.loose, class_, value)
            else:
                terms.loose[class_] = value
        return value

    def _of_form(self, class_: int, term: int) -> int:
        """The value of a class by this term."""
        terms = self._terms
        op, type_, args, pending = terms.ops[term], terms.types[term], terms.args[term], terms.pending
        pending.append(class_)
        if op in _WITHOUT_OPERANDS:
            value = self._of_attribute(op, type_, terms.attrs[term])
            pending.pop()
            return value
        if type_.code in _NARROW:
            loose = self._loosely(op, type_, args)
            if loose is not None:
                pending.pop()
                return loose
        operands = []
        link, values = terms.link, terms.values
        if op in _ORDERED and args[0] > args[1]:
            self.value(args[1])
        for arg in terms.parts(term) if op in QUOTIENT_OF_REST else args:
            known = values[arg] if link[arg] == arg else None
            operands.append(self.value(arg) if known is None else known)
        pending.pop()
        source = terms.types[args[-1]]
        instruction = self._instructions.get((op, source))
        if instruction is None:
            instruction = self._instructions[op, source] = instruction_of(self._b, op, source)
        if isinstance(instruction, str):
            return self._b.apply(instruction, *operands)
        if len(operands) > len(args):  # a quotient that its rest needs is computed by now
            operands = operands[: len(args)]
        if instruction is None:
            return apply_op(self._b, op, type_, source, operands)
        return instruction(self._b, *operands)

    def _of_attribute(self, op: str, type_: Type, attr: Any) -> int:
        """The value of a term which has something other than classes."""
        if op == "sum":
            return self._sum(type_, attr)
        if op == "const":
            return self._literal(type_, attr)
        value: int = attr
        return value

    def _loosely(self, op: str, type_: Type, args: tuple[int, ...]) -> int | None:
        """An op on lower bits; None if it looks at others."""
        b, terms = self._b, self._terms
        if op in _LOOSE:
            values, loose, link = terms.values, terms.loose, terms.link
            operands = []
            for arg in args:
                known = None
                if link[arg] == arg:
                    known = loose[arg] if values[arg] is None else values[arg]
                operands.append(self._loose(arg) if known is None else known)
            if op == "invert" and type_.minimum == 0 and b.facts.range(operands[0])[1] <= type_.maximum:
                return b.apply("bitwise_xor", operands[0], b.constant("u32", type_.maximum))  # it is in range then
            return b.apply(op, *operands)
        if op == "left_shift":
            count = terms.constant(args[1])
            if count is not None and count < type_.bits:
                return b.apply(op, self._loose(args[0]), b.constant("u32", count))
        if op == "cast":
            source = terms.types[args[0]]
            if source.is_integer and source.bits >= type_.bits:
                value = self._loose(args[0])
                if source.bits == 64:
                    value = b.convert("low", "u32", value)
                return b.convert("retype", MACHINE_TYPE[type_], value)
        return None

    def _literal(self, type_: Type, bits: int) -> int:
        if type_ is f16 or type_ is bf16:
            return halves.constant(self._b, type_, bits)
        return self._b.constant(MACHINE_TYPE[type_], integers.wrap_to(type_, bits) if type_.is_integer else bits)

    def _sum(self, type_: Type, form: Affine) -> int:
        """Coefficients times classes, the constant last, as addresses can hold it."""
        b = self._b
        machine = MACHINE_TYPE[type_]
        total: int | None = None
        half = 1 << (form.bits - 1)
        # A first part that is not subtracted.
        parts = list(form.terms)
        if len(parts) > 1:
            parts.sort(key=lambda part: (part[1] >= half, part[1] != 1))
        for class_, residue in parts:
            coefficient = residue - 2 * half if residue >= half else residue
            value = self._loose(class_)
            if total is not None and coefficient == -1:
                total = b.apply("subtract", total, value)
                continue
            if coefficient != 1:
                value = b.apply("multiply", value, b.integer(machine, coefficient))
            total = value if total is None else b.apply("add", total, value)
        if total is None:
            return b.integer(machine, form.constant)
        constant = form.constant - 2 * half if form.constant >= half else form.constant
        return b.apply("add", total, b.integer(machine, constant)) if constant else total
