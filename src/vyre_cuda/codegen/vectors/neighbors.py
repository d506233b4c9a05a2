"""Loads and stores of neighboring elements by one thread, which can be made at once.

A group is of one buffer or shared array: elements within a block of up to 16 bytes that begins at a multiple of its
size, as `ir/affine.py` says of the sums that their numbers are. Where that depends on what is the same for all threads
of a block, such as a row times a width, the code looks. Its loads are made where the first of them stands, its
stores where the last one does. Nothing in between may jump, and nothing may touch what is moved over it: elements of
other arrays do not, as no call lets a buffer that is written share memory, nor do other elements of the same array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from vyre_cuda.codegen.lowering.access_forms import Form
from vyre_cuda.codegen.lowering.isel_memory import Memory
from vyre_cuda.codegen.lowering.linear import Linear
from vyre_cuda.codegen.ssa.ssa import OF_WARP, Effect, Function
from vyre_cuda.ir.affine import Affine, affine
from vyre_cuda.records import FrozenRecord, Record, field

# What one instruction loads or stores at most, in bytes (PTX ISA, ld and st).
VECTOR_BYTES = 16
# Groups that are looked at together, and stores that a load may be moved over: with more, the work would no longer be
# linear in the program.
_MOST_OPEN = 16
_MOST_STORES = 32
# Values that are moved with an access, whose guard or address they make.
_MOST_MOVED = 32

# Effects that an access may be moved over.
_PASSED = frozenset({"set", "comment", "statement"})
# Values that are not the same where they are moved to.
_FIXED = frozenset({"load", "load_vector", "lane", "atomic", "read"})

# Ops whose values are the same where their operands are.
_OF_OPERANDS = frozenset({"add", "subtract", "multiply", "multiply_add", "multiply_wide", "multiply_wide_add"}) | {
    *("widen", "low", "retype", "left_shift", "right_shift", "quotient", "minimum", "maximum"),
}

# The array, whether its elements are loaded or stored, the size of a block, where the block begins, whether the code
# must look if that is a multiple of its size, and the type of the numbers.
_Key: TypeAlias = tuple[str, str, int, Affine, bool, str]


class Access(Record):
    """A load, which is a value, or a store, at a place in the code. `above`: which element of its block it is."""

    position: int
    item: int | Effect
    place: str
    number: Affine
    above: int


class Group(Record):
    """Accesses to a block, by the element. The last one says how far the stores are moved."""

    kind: Literal["load", "store"]
    place: str
    size: int  # elements of the block
    looks: bool  # the code must look whether the block begins at a multiple of its size
    members: dict[int, Access] = field(default_factory=dict)

    @property
    def first(self) -> int:
        return next(iter(self.members.values())).position

    @property
    def last(self) -> int:
        return next(reversed(self.members.values())).position


class Chunk(FrozenRecord):
    """Accesses to neighbors that become one, in the order of the elements."""

    kind: Literal["load", "store"]
    place: str
    looks: bool
    members: tuple[Access, ...]

    @property
    def at(self) -> int:
        """Where in the code it is made."""
        positions = [member.position for member in self.members]
        return min(positions) if self.kind == "load" else max(positions)


def chunks(function: Function, memory: Memory, linear: Linear, live: bytearray, spaces: frozenset[str]) -> list[Chunk]:
    """The accesses in these memories that can be made at once; only values that are used count."""
    search = _Search(function, memory, linear, live, spaces)
    for position, item in enumerate(function.code):
        search.look(position, item)
    search.end()
    return search.found


class _Search:
    """The groups since the last jump, while the code is looked at from the front."""

    def __init__(
        self, function: Function, memory: Memory, linear: Linear, live: bytearray, spaces: frozenset[str]
    ) -> None:
        self._function = function
        self._memory = memory
        self._linear = linear
        self._live = live
        self._spaces = spaces
        self._positions: dict[int, int] = {}  # of the values since the last jump
        self._open: dict[_Key, Group] = {}
        self._stores: list[tuple[Access, Group | None]] = []
        self._forgotten = -1  # where the last store is that is no longer among them
        self.found: list[Chunk] = []

    def look(self, position: int, item: int | Effect) -> None:
        """The next place in the code."""
        if isinstance(item, int):
            self._positions[item] = position
            op = self._function.ops[item]
            if op == "load" and self._live[item]:
                self._access("load", position, item, self._function.attrs[item])
            elif op in ("atomic", "load_vector") or op.startswith(OF_WARP) or item in self._function.pinned:
                self.end()
        elif item[0] == "store":
            self._access("store", position, item, item[2])
        elif item[0] not in _PASSED:
            self.end()

    def end(self) -> None:
        """Nothing is moved over this place."""
        for group in self._open.values():
            self._close(group)
        self._open.clear()
        self._stores.clear()
        self._positions.clear()
        self._forgotten = -1

    # ---- one access ----

    def _access(self, kind: Literal["load", "store"], position: int, item: int | Effect, form: Form) -> None:
        if form.space not in ("global", "shared"):
            return
        if not form.place:
            self.end()
            return
        number = self._linear.of(form.number)
        access = Access(position, item, form.place, number, 0)
        found = self._block(access) if form.space in self._spaces else None
        key = None if found is None else (form.place, kind, *found, self._function.types[form.number])
        self._close_touched(access, key)
        group = None if key is None else self._joined(kind, access, key)
        if kind == "store":
            self._stores.append((access, group))
            if len(self._stores) > _MOST_STORES:
                old, of = self._stores.pop(0)
                self._forgotten = max(self._forgotten, old.position if of is None else of.last)

    def _block(self, access: Access) -> tuple[int, Affine, bool] | None:
        """The size of the largest block that the access has a certain place in, where it begins, and whether the code
        must look.

        An element of a buffer that all threads access is in a cache, and needs no second form of the kernel.
        """
        number = access.number
        place = self._memory.places[access.place]
        if not number.terms and not place.symbol:
            return None
        for looks in (False, True):
            count = VECTOR_BYTES // place.type.itemsize
            while count > 1:
                known = number.without(self._is_same(count)) if looks else number
                found = self._linear.within_block(known, count)
                if found is not None and (known.terms or not looks):
                    access.above = found[1]
                    return count, affine(number.bits, number.terms, number.constant - found[1]), looks
                count //= 2
        return None

    def _is_same(self, count: int) -> Callable[[int, int], bool]:
        """Whether a term is the same for all threads of a block, and its product may be no multiple of `count`."""
        return lambda term, coefficient: coefficient % count != 0 and is_of_block(self._function, term)

    def _joined(self, kind: Literal["load", "store"], access: Access, key: _Key) -> Group:
        group = self._open.get(key)
        if group is not None and (access.above in group.members or not self._can_join(group, access)):
            self._close(self._open.pop(key))
            group = None
        if group is None:
            if len(self._open) == _MOST_OPEN:
                self._close(self._open.pop(next(iter(self._open))))
            group = self._open[key] = Group(kind, access.place, key[2], key[4])
        group.members[access.above] = access
        return group

    def _can_join(self, group: Group, access: Access) -> bool:
        """Whether a load can be moved to the first one of its group. Stores are moved as long as a group is open."""
        if group.kind == "store":
            return True
        first = group.first
        if self._forgotten > first:
            return False
        for store, of in self._stores:
            made = store.position if of is None else of.last
            if made > first and _may_touch(store, access):
                return False
        assert isinstance(access.item, int)
        return moved_with(self._function, access.item, self._positions, first) is not None

    def _close_touched(self, access: Access, own: _Key | None) -> None:
        """Close the groups of stores that may not be moved over this access."""
        for key in list(self._open):
            group = self._open[key]
            if group.kind != "store" or key == own:
                continue
            if any(_may_touch(member, access) for member in group.members.values()):
                self._close(self._open.pop(key))

    # ---- the end of a group ----

    def _close(self, group: Group) -> None:
        """The largest runs of its elements that begin at a multiple of their size."""
        left = set(group.members)
        size = group.size
        while size > 1:
            for begin in range(0, group.size, size):
                wanted = range(begin, begin + size)
                if left.issuperset(wanted):
                    left.difference_update(wanted)
                    members = tuple([group.members[above] for above in wanted])
                    self.found.append(Chunk(group.kind, group.place, group.looks, members))
            size //= 2


def is_of_block(function: Function, value: int) -> bool:
    """Whether it is made of what a launch and a block are given alone."""
    work = [value]
    for _ in range(_MOST_MOVED):
        if not work:
            return True
        each = work.pop()
        op = function.ops[each]
        if op == "special":
            if not function.attrs[each].startswith(("%ctaid", "%nctaid")):
                return False
        elif op in _OF_OPERANDS:
            work.extend(function.args[each])
        elif op not in ("parameter", "const"):
            return False
    return False


def _may_touch(one: Access, other: Access) -> bool:
    """Whether two accesses may be to the same element."""
    if one.place != other.place:
        return False
    if one.number.bits != other.number.bits:
        return True
    distance = one.number.distance(other.number)
    return distance is None or distance == 0


def moved_with(function: Function, value: int, positions: dict[int, int], first: int) -> list[int] | None:
    """What must be computed before `first` so that the operands of a value are known there; None if that cannot be."""
    moved: set[int] = set()
    work = list(function.args[value])
    while work:
        arg = work.pop()
        at = positions.get(arg)
        if at is None:  # before the last jump, a constant, or silent
            if function.ops[arg] == "retype":
                work.extend(function.args[arg])
            continue
        if at < first or arg in moved:
            continue
        if function.ops[arg] in _FIXED or arg in function.pinned or len(moved) == _MOST_MOVED:
            return None
        moved.add(arg)
        work.extend(function.args[arg])
    return sorted(moved, key=positions.__getitem__)


def form_of(function: Function, access: Access) -> Form:
    """The form of an access."""
    attr: Any = function.attrs[access.item] if isinstance(access.item, int) else access.item[2]
    assert isinstance(attr, Form)
    return attr


def operands_of(function: Function, access: Access) -> tuple[int, ...]:
    """The operands of an access: address, stored value, guard."""
    return function.args[access.item] if isinstance(access.item, int) else access.item[1]
