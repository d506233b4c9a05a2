"""Expressions as terms of classes: terms in one class are equal, and one of them will be computed.

An acyclic e-graph. A term is an op on classes; terms alike are one term (hash-consing), and where two classes are found
equal, so are the terms on top of them (congruence). A term is simplified, compared with others by its linear form and
given to the rules once, when it is made. Leaves are SSA values, so memory, effects and scopes are settled.

A class is a small int: an index into the parallel lists; `find` gives the one that represents it. What is learned in a
scope, from facts that hold only there, is undone when the scope closes, and terms made there are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_cuda.codegen.ssa.ssa import forget_behind
from vyre_cuda.codegen.terms import identities
from vyre_cuda.ir.affine import Affine
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import INTEGERS, Type
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.terms import constants, costs, known, linear, matching
    from vyre_cuda.codegen.terms.conditions import Interval
else:
    # What only constants and arithmetic on integers need.
    constants, costs, known, linear, matching = (
        later(f"vyre_cuda.codegen.terms.{name}") for name in ("constants", "costs", "known", "linear", "matching")
    )

Key: TypeAlias = tuple[Hashable, ...]

INTEGER_CODES = frozenset(type_.code for type_ in INTEGERS)

_COMMUTATIVE = frozenset(op.name for op in OPS.values() if op.commutative)
_CASTS = frozenset({"cast", "bitcast"})
QUOTIENT_OF_REST = {"remainder": "floor_divide", "fmod": "trunc_divide"}
_MIRRORED = {"greater": "less", "greater_equal": "less_equal"}
# Classes that a comparison of two forms may look at.
_MOST_COUNTED = 64
_NEVER = 1 << 30
# Terms on top of one that are looked at.
_MOST_ABOVE = 8
# Classes are made in steps.
_ROOM = 16
_NOTHING = (None,) * _ROOM
_NOT_YET = (False,) * _ROOM


class Terms:
    """The terms of one program in one precision.

    `interval_of` gives the interval of an SSA value of an integer type, as far as it is known now.
    """

    __slots__ = (
        "_above_of",
        "_changing",
        "_marks",
        "_parents",
        "_table",
        "_to_commit",
        "_undo",
        "_weights",
        "args",
        "attrs",
        "best",
        "committed",
        "fired",
        "forms",
        "interval_of",
        "keeps_subnormals",
        "linear",
        "link",
        "loose",
        "met",
        "ops",
        "outer",
        "pending",
        "precision",
        "types",
        "values",
    )

    def __init__(self, interval_of: Callable[[int], Interval], precision: str = "ieee") -> None:
        self.interval_of = interval_of
        self.precision = precision
        self.keeps_subnormals = precision == "ieee"
        # By term.
        self.ops: list[str] = []
        self.types: list[Type] = []
        self.args: list[tuple[int, ...]] = []
        self.met: set[str] = set()  # ops of which there are terms, or were
        self.attrs: list[Any] = []  # bits of a constant, SSA value of a leaf, linear form of a sum, type of a cast
        # By class.
        self.link: list[int] = []
        self._parents: list[list[int]] = []  # of the first terms, which `_above_of` counts
        self.forms: list[tuple[int, ...]] = []
        self.best: list[int] = []
        self.linear: list[Affine | None] = []
        self.values: list[int | None] = []  # SSA value, computed where the scope is open
        self.loose: list[int | None] = []  # of a narrow integer: the same with any upper bits
        self.committed: list[bool] = []  # whether that value is used for sure, but for what `_to_commit` needs
        self._to_commit: list[int] = []  # classes that are used for sure; no best form has changed since
        self._table: dict[Key, int] = {}
        self._above_of = 0
        self._weights: list[int | None] = []  # of terms of which they were asked
        self._changing: list[int] = []  # terms whose weight depends on the best forms of others
        self._undo: list[tuple[Any, Any, Any]] = []  # changes of what was there before the open scopes
        self._marks: list[tuple[int, int, int]] = []  # of each open scope: the terms, keys and changes before it
        self.outer = 0  # terms before the innermost scope
        self.pending: list[int] = []  # classes whose value is being computed
        self.fired: list[tuple[str, int, int]] | None = None  # rule, term and class, if anyone wants to know

    # ---- scopes ----

    def open_scope(self) -> None:
        self._note_parents()
        self._commit()
        self.outer = len(self.ops)
        self._marks.append((self.outer, len(self._table), len(self._undo)))

    def close_scope(self) -> None:
        """As it was when the scope was opened."""
        terms, keys, changes = self._marks.pop()
        self._to_commit.clear()
        self._forget_weights()
        self.outer = self._marks[-1][0] if self._marks else 0
        self._above_of = min(self._above_of, terms)
        undo, table = self._undo, self._table
        while len(undo) > changes:
            where, at, old = undo.pop()
            where[at] = old
        forget_behind(table, keys)
        for of_term in (self.ops, self.types, self.args, self.attrs):
            del of_term[terms:]
        for of_class in (
            self.link,
            self._parents,
            self.forms,
            self.best,
            self.linear,
            self.values,
            self.loose,
            self.committed,
            self._weights,
        ):
            del of_class[terms:]

    def put(self, where: list[Any], class_: int, new: Any) -> None:
        """Change what is known of a class until the scope closes."""
        if class_ < self.outer:
            self._undo.append((where, class_, where[class_]))
        where[class_] = new

    def _enter(self, key: Key, class_: int) -> None:
        table = self._table
        if self._marks and key in table:
            self._undo.append((table, key, table[key]))
        table[key] = class_

    # ---- making terms ----

    def find(self, class_: int) -> int:
        """The class that represents it."""
        link = self.link
        while link[class_] != class_:
            class_ = link[class_]
        return class_

    def leaf(self, type_: Type, value: int) -> int:
        """An SSA value that is not looked into."""
        key = ("leaf", type_.code, value)
        found = self._table.get(key)
        if found is not None:
            return self.find(found)
        made = self._append(key, "leaf", type_, (), value)
        self.values[made] = value
        self.committed[made] = True
        return made

    def literal(self, type_: Type, bits: int) -> int:
        """A literal, by its bits."""
        key = ("const", type_.code, bits)
        found = self._table.get(key)
        return self._append(key, "const", type_, (), bits) if found is None else found

    def number(self, type_: Type, number: int) -> int:
        """An integer literal, reduced to the type."""
        return self.literal(type_, number & ((1 << type_.bits) - 1))

    def apply(self, op: str, type_: Type, args: tuple[int, ...]) -> int:
        """The class of an op on classes; `type_` is the result's."""
        link, ops = self.link, self.ops
        for arg in args:
            if link[arg] != arg:
                args = tuple(map(self.find, args))
                break
        written = args
        if op in _COMMUTATIVE:
            left, right = args
            if ops[right] != "const":
                if ops[left] == "const":
                    written = args = (right, left)
                elif left > right:
                    args = (right, left)
        elif op in _MIRRORED:
            op, args = _MIRRORED[op], (args[1], args[0])
            written = args
        elif op in _CASTS and type_ is self.types[args[0]]:
            return args[0]
        code = type_.code
        key = (op, code, args)
        found = self._table.get(key)
        if found is not None:
            return found if link[found] == found else self.find(found)
        simpler = constants.folded(self, op, type_, args) if ops[args[0]] == "const" else None
        if simpler is None:
            simpler = identities.simpler(self, op, type_, args)
        if simpler is not None:
            self._enter(key, simpler)
            return simpler
        made = self._append(key, op, type_, written)
        self.met.add(op)
        if code not in INTEGER_CODES:
            return made
        if op in linear.LINEAR:
            linear.note(self, made)
        elif op in QUOTIENT_OF_REST:
            if ops[args[1]] != "const":
                self.attrs[made] = self.apply(QUOTIENT_OF_REST[op], type_, args)
            elif "floor_divide" in self.met or "trunc_divide" in self.met:
                linear.note_rest(self, made, QUOTIENT_OF_REST[op])
        matching.rewrite(self, made)
        return made if link[made] == made else self.find(made)

    def _are_swapped(self, left: int, right: int) -> bool:
        """Operands of commutative ops are ordered, with constants last."""
        ops = self.ops
        if ops[left] == "const":
            return ops[right] != "const"
        return left > right and ops[right] != "const"

    def lookup(self, op: str, type_: Type, args: tuple[int, ...]) -> int | None:
        """The class of an op on classes, if there is one."""
        args = tuple([self.find(arg) for arg in args])
        if op in _COMMUTATIVE and self._are_swapped(*args):
            args = (args[1], args[0])
        found = self._table.get((op, type_.code, args))
        return None if found is None else self.find(found)

    def sum(self, form: Affine, type_: Type) -> int:
        """The class of a linear form."""
        if not form.terms:
            return self.number(type_, form.constant)
        if len(form.terms) == 1 and form.terms[0][1] == 1 and not form.constant:
            return self.find(form.terms[0][0])
        key = (type_.code, form.terms, form.constant)
        found = self._table.get(key)
        if found is not None:
            return self.find(found)
        made = self._append(key, "sum", type_, tuple([self.find(term) for term, _ in form.terms]), form)
        self.linear[made] = form
        return made

    def add_sum(self, rule: str, class_: int, form: Affine, type_: Type) -> None:
        """A cheaper form, by this rule, of a class that was just made, so that no other depends on it."""
        made = self._append(None, "sum", type_, tuple([self.find(term) for term, _ in form.terms]), form)
        self.link[made] = class_
        self.forms[class_] += (made,)
        self.best[class_] = made
        if self.fired is not None:
            self.fired.append((rule, class_, made))

    def _append(self, key: Key | None, op: str, type_: Type, args: tuple[int, ...], attr: Any = None) -> int:
        """A new term, in a class of its own; without a key it is not found again."""
        made = len(self.ops)
        self.ops.append(op)
        self.types.append(type_)
        self.args.append(args)
        self.attrs.append(attr)
        if made == len(self.link):
            self._make_room(made)
        if key is not None:  # which nothing has
            self._table[key] = made
        return made

    def _make_room(self, first: int) -> None:
        """Classes that the next terms will be in."""
        made = range(first, first + _ROOM)
        self.link += made
        self.best += made
        self.forms += [(class_,) for class_ in made]
        self._parents += [[] for _ in made]
        self.linear += _NOTHING
        self.values += _NOTHING
        self._weights += _NOTHING
        self.loose += _NOTHING
        self.committed += _NOT_YET

    def _note_parents(self) -> None:
        """Which terms are on top of the operands of the new ones: asked for only where classes become equal."""
        for made in range(self._above_of, len(self.ops)):
            for arg in self.args[made]:
                self._put_above(arg, (made,))
        self._above_of = len(self.ops)

    def _put_above(self, class_: int, made: Iterable[int]) -> None:
        """These terms are on top of the class."""
        above = self._parents[class_]
        if class_ < self.outer:
            self._undo.append((above, slice(len(above), None), ()))
        above.extend(made)

    # ---- equality ----

    def same_sum(self, class_: int, form: Affine, type_: Type) -> int | None:
        """A class whose linear form this is, None if this is the first; from now on it is `class_`."""
        if not form.terms:
            return self.number(type_, form.constant)
        if len(form.terms) == 1 and form.terms[0][1] == 1 and not form.constant:
            return self.find(form.terms[0][0])
        key = (type_.code, form.terms, form.constant)
        found = self._table.setdefault(key, class_)
        return None if found == class_ else self.find(found)

    def union(self, one: int, other: int) -> None:
        """Both classes are equal, and so are terms on top of them that differ in nothing else."""
        work = [(one, other)]
        self._note_parents()
        self._commit()
        while work:
            one, other = (self.find(class_) for class_ in work.pop())
            if one == other:
                continue
            kept, gone = (other, one) if self._comes_first(other, one) else (one, other)
            best = self._better_of(kept, gone)
            self.put(self.link, gone, kept)
            self.put(self.forms, kept, self.forms[kept] + self.forms[gone])
            self.put(self.best, kept, best)
            self._forget_weights()
            if self.values[kept] is None and self.values[gone] is not None:
                self.put(self.values, kept, self.values[gone])
            if self.loose[kept] is None and self.loose[gone] is not None:
                self.put(self.loose, kept, self.loose[gone])
            if self.committed[gone] and not self.committed[kept]:
                self.put(self.committed, kept, True)
            above = self._parents[gone]
            self._put_above(kept, above)
            work += self._congruent(above)

    def _congruent(self, parents: list[int]) -> Iterator[tuple[int, int]]:
        """Pairs of terms that have become alike."""
        for parent in parents:
            op = self.ops[parent]
            if op == "sum":
                continue
            args = tuple([self.find(arg) for arg in self.args[parent]])
            if op in _COMMUTATIVE and self._are_swapped(*args):
                args = (args[1], args[0])
            key = (op, self.types[parent].code, args)
            found = self._table.get(key)
            if found is None:
                self._enter(key, parent)
            else:
                yield parent, found

    def _comes_first(self, one: int, other: int) -> bool:
        """Constants represent their class, then leaves, then what was made first."""
        ranks = {"const": 0, "leaf": 1}
        first, second = (ranks.get(self.ops[class_], 2) for class_ in (one, other))
        return (first, one) < (second, other)

    def _better_of(self, kept: int, gone: int) -> int:
        """The cheaper of two best forms that needs neither of the classes."""
        one, other = self.best[kept], self.best[gone]
        more = self.difference(one, other, (kept, gone)) or (-1 if kept < gone else 1)
        return one if more < 0 else other

    # ---- cost ----

    def parts(self, term: int) -> tuple[int, ...]:
        """The classes that computing it needs."""
        args = self.args[term]
        if self.ops[term] in QUOTIENT_OF_REST and self.attrs[term] is not None:
            return (*args, self.attrs[term])
        return args

    def difference(self, one: int, other: int, roots: tuple[int, ...]) -> int | None:
        """What one form costs more than another one, each with all that it needs and is not used anyway, each once;
        endless if it needs one of the roots. None if more would have to be looked at than is.

        Classes are taken from the last one on, as most are made of earlier ones: where both forms need all that is left
        to look at, the rest costs them the same.
        """
        link, best, committed, values, loose = self.link, self.best, self.committed, self.values, self.loose
        ops, args, weights = self.ops, self.args, self._weights
        sides: dict[int, int] = {}  # by class: 1 if the one needs it, 2 if the other does, 4 once it was looked at
        work: list[int] = []  # classes to look at, negated
        total = endless = alone = steps = 0  # alone: how many of these only one of them needs
        at, side = one, 1
        while True:
            if side != 3:
                price = weights[at]
                if price is None:
                    price = self._weight(at)
                total += price if side == 1 else -price
            for arg in args[at] if ops[at] not in QUOTIENT_OF_REST else self.parts(at):
                if link[arg] != arg:
                    arg = self.find(arg)
                before = sides.get(arg)
                if before is None:
                    if committed[arg] and (values[arg] is not None or loose[arg] is not None):
                        continue
                    if arg in roots:
                        endless |= side
                    elif args[best[arg]]:  # leaves and constants cost nothing
                        sides[arg] = side
                        heappush(work, -arg)
                        alone += side != 3
                elif side & ~before:
                    sides[arg] = 3
                    if before & 4:
                        price = weights[best[arg]]  # which was asked for there
                        if price is None:
                            price = self._weight(best[arg])
                        total -= price if before == 5 else -price
                        heappush(work, -arg)
                    else:
                        alone -= 1
            steps += 1
            if steps == 1:
                at, side = other, 2
                continue
            if not alone:
                break
            if steps > _MOST_COUNTED:
                return None
            class_ = -heappop(work)
            side = sides[class_]
            sides[class_] = side | 4
            alone -= side != 3
            at = best[class_]
        if endless:
            return {1: _NEVER, 2: -_NEVER}.get(endless, 0)
        return total

    def _nearest(self, forms: tuple[int, ...], best: int, roots: tuple[int, ...]) -> int:
        """The form that costs least from here on, where one of them needs more than is counted."""
        price = self._cost_from_here(best, roots)
        for form in forms:
            other = self._cost_from_here(form, roots)
            if other < price:
                best, price = form, other
        return best

    def _cost_from_here(self, term: int, roots: tuple[int, ...]) -> int:
        """The cost if what has a value is used anyway."""
        total = 0
        seen = set(roots)
        most = len(seen) + _MOST_COUNTED
        work = [term]
        while work:
            at = work.pop()
            price = self._weights[at]
            total += self._weight(at) if price is None else price
            for part in self.parts(at):
                arg = self.find(part)
                if self.values[arg] is not None or self.loose[arg] is not None:
                    continue
                if arg in roots or len(seen) > most:
                    return _NEVER
                if arg not in seen:
                    seen.add(arg)
                    work.append(self.best[arg])
        return total

    def _forget_weights(self) -> None:
        for term in self._changing:
            self._weights[term] = None
        self._changing.clear()

    def _weight(self, term: int) -> int:
        op = self.ops[term]
        if op == "sum":
            found = linear.weight(self.attrs[term], self.types[term])
        elif op == "add":
            ops, best, link = self.ops, self.best, self.link
            found = costs.weight(op, self.types[term])
            for arg in self.args[term]:
                if ops[best[arg if link[arg] == arg else self.find(arg)]] == "multiply":
                    found = 0
                    break
            self._changing.append(term)
        elif op in costs.DIVISIONS:
            return costs.weight_of_division(op, self.types[term], self.integer_of(self.args[term][-1]))
        else:
            found = costs.weight(op, self.types[term])
        self._weights[term] = found
        return found

    def choose(self, class_: int) -> int:
        """The form in which the class is computed now: at the same cost the one that was made first, as it is written,
        because it has parts that others may share.
        """
        before = self.best[class_]
        forms = self.forms[class_]
        if len(forms) == 1 or self.ops[before] in ("leaf", "const"):
            return before
        self._commit()
        roots = (class_, *self.pending)
        best, *others = sorted(forms)
        behind = 0  # what the form before costs more than the best so far
        for form in others:
            more = self.difference(form, best, roots)
            if more is None:
                best = self._nearest(forms, best, roots)
                break
            if form == before:
                behind = more
            if more < 0:
                best = form
                behind -= more
        else:
            if self.ops[before] == "sum":
                best = self._of_values(class_, before, best, roots, behind)
        if best != before:
            self.put(self.best, class_, best)
            self._forget_weights()
        return best

    def _of_values(self, class_: int, sum_: int, best: int, roots: tuple[int, ...], behind: int) -> int:
        """The best form of a class, or one of its sums with classes that have values, if that costs less; the sum as it
        is costs so much more than the best form.
        """
        type_ = self.types[class_]
        if behind >= self._weight(sum_) - (2 if type_.bits == 64 else 1):
            return best
        form = linear.of_values(self, self.attrs[sum_], type_)
        if form is None:
            return best
        made = self._append(None, "sum", type_, tuple([self.find(term) for term, _ in form.terms]), form)
        self.link[made] = class_
        self.put(self.forms, class_, (*self.forms[class_], made))
        if self.fired is not None:
            self.fired.append((linear.LINEAR_FORM, class_, made))
        more = self.difference(made, best, roots)
        return made if more is not None and more < 0 else best

    def sums_above(self, class_: int) -> Iterator[tuple[int, Affine]]:
        """Classes that have values, and their linear forms, which are made of this one in few steps."""
        self._note_parents()
        find, parents = self.find, self._parents
        above = [find(term) for term in parents[find(class_)][-_MOST_ABOVE:]]
        further = [find(term) for one in above if self.linear[one] for term in parents[one][-_MOST_ABOVE:]]
        for one in dict.fromkeys(above + further):
            form = self.linear[one]
            if form is not None and (self.values[one] is not None or self.loose[one] is not None):
                yield one, form

    def commit(self, class_: int) -> None:
        """The value of the class is used, and all that it was computed from."""
        if not self.committed[class_] or self.link[class_] != class_:
            self._to_commit.append(class_)

    def _commit(self) -> None:
        """Mark what is used: only costs ask for it, and only a few programs for costs."""
        work = self._to_commit
        if not work:
            return
        link, committed, best, args, ops = self.link, self.committed, self.best, self.args, self.ops
        outer = self.outer
        while work:
            at = work.pop()
            if link[at] != at:
                at = self.find(at)
            if not committed[at]:
                if at < outer:
                    self.put(committed, at, True)
                else:
                    committed[at] = True
                form = best[at]
                work += args[form] if ops[form] not in QUOTIENT_OF_REST else self.parts(form)

    # ---- questions ----

    def is_sum_of_values(self, class_: int) -> bool:
        """Whether the linear form of the class is one of classes that have values."""
        link, values, loose = self.link, self.values, self.loose
        form = self.linear[class_ if link[class_] == class_ else self.find(class_)]
        if form is None:
            return False
        for term, _ in reversed(form.terms):  # the newest one first, which is most likely to have none
            at = term if link[term] == term else self.find(term)
            if values[at] is None and loose[at] is None:
                return False
        return True

    def constant(self, class_: int) -> int | None:
        """The bits of a constant, None for others."""
        if self.link[class_] != class_:
            class_ = self.find(class_)
        return self.attrs[class_] if self.ops[class_] == "const" else None

    def integer_of(self, class_: int) -> int | None:
        """The number of an integer constant, None for others."""
        class_ = self.find(class_)
        type_ = self.types[class_]
        if self.ops[class_] != "const" or not type_.is_integer:
            return None
        bits: int = self.attrs[class_]
        return bits - (1 << type_.bits) if bits > type_.maximum else bits

    def interval(self, class_: int) -> Interval:
        """What an integer can be, as an exact number of its type."""
        return known.interval(self, class_)

    def ones(self, class_: int) -> int:
        """The bits of an integer that can be 1."""
        return known.ones(self, class_)

    def with_op(self, class_: int, op: str) -> Iterator[int]:
        """The terms of a class that have this op."""
        ops = self.ops
        return (form for form in self.forms[self.find(class_)] if ops[form] == op)
