"""Code in which neighbors are loaded and stored at once.

Where some of the elements have a guard, or it depends on the launch or the block whether they begin at a multiple of
their number, a branch takes the vector if all is well, and otherwise each for itself. More than four elements travel
in words.
"""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import UNSIGNED
from vyre_cuda.codegen.lowering.access_forms import Form, VectorForm
from vyre_cuda.codegen.lowering.isel_memory import REACH, Memory
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.vectors.neighbors import Access, Chunk, form_of, moved_with, operands_of
from vyre_cuda.codegen.vectors.words import WORD_BYTES, packed, unpack
from vyre_cuda.records import replace

# Of one instruction (PTX ISA, ld and st).
_MOST_LANES = 4


def merge(builder: Builder, memory: Memory, chunks: list[Chunk]) -> None:
    """Make these accesses at once."""
    _Merging(builder, memory, chunks).run()


def is_within_reach(builder: Builder, memory: Memory, chunk: Chunk) -> bool:
    """Whether an instruction can hold the distance from each element's address to the first element."""
    function = builder.function
    return all(abs(_displacement(memory, chunk, m, form_of(function, m))) < REACH for m in chunk.members)


class _Merging:
    """Puts back the code of one function, with the chunks."""

    def __init__(self, builder: Builder, memory: Memory, chunks: list[Chunk]) -> None:
        self._b = builder
        self._memory = memory
        self._at = {chunk.at: chunk for chunk in chunks}
        self._gone = {member.position for chunk in chunks for member in chunk.members}
        self._made: set[int] = set()  # values that were moved to the front
        self._positions: dict[int, int] = {}

    def run(self) -> None:
        function = self._b.function
        code = function.rewritten()
        self._b.facts.forget()
        self._positions = {item: at for at, item in enumerate(code) if isinstance(item, int)}
        for position, item in enumerate(code):
            chunk = self._at.get(position)
            if chunk is not None:
                self._b.open_scope()
                self._chunk(chunk)
                self._b.close_scope()
            elif position not in self._gone and not (isinstance(item, int) and item in self._made):
                function.code.append(item)

    # ---- chunks ----

    def _chunk(self, chunk: Chunk) -> None:
        function = self._b.function
        guarded = [member for member in chunk.members if form_of(function, member).guarded]
        if guarded or chunk.looks:
            self._either(chunk, guarded)
        elif chunk.kind == "load":
            self._load(chunk, [_value(member) for member in chunk.members])
        else:
            self._store(chunk)

    def _either(self, chunk: Chunk, guarded: list[Access]) -> None:
        """The vector if its elements are inside and begin where it can, else each access for itself."""
        function = self._b.function
        if chunk.kind == "load":
            self._move_operands(chunk)
        condition = self._all_inside(chunk, guarded) if guarded else self._b.true
        if chunk.looks:
            condition = self._b.apply("logical_and", self._begins_there(chunk), condition)
        otherwise, end = function.label(), function.label()
        self._b.branch(condition, False, otherwise)
        if chunk.kind == "load":
            self._load_either(chunk, otherwise, end)
            return
        self._b.open_scope()
        self._store(chunk)
        self._b.close_scope()
        function.effect("branch", (), (end, False))
        function.effect("label", (), (otherwise, False))
        function.code += [member.item for member in sorted(chunk.members, key=_position)]
        function.effect("label", (), (end, False))

    def _load_either(self, chunk: Chunk, otherwise: int, end: int) -> None:
        """The elements in registers, from the vector or one by one."""
        function = self._b.function
        values = [_value(member) for member in chunk.members]
        registers = [function.register(function.types[value]) for value in values]
        each = [("load", function.types[value], function.args[value], function.attrs[value]) for value in values]
        self._b.open_scope()
        lanes = [self._unplaced(*one) for one in each]
        self._load(chunk, lanes)
        for register, lane in zip(registers, lanes, strict=True):
            function.effect("set", (lane,), register)
        self._b.close_scope()
        function.effect("branch", (), (end, False))
        function.effect("label", (), (otherwise, False))
        for register, one in zip(registers, each, strict=True):
            function.effect("set", (function.fresh(*one),), register)
        function.effect("label", (), (end, False))
        for register, value in zip(registers, values, strict=True):
            function.redefine(value, "read", (), register)
            function.code.append(value)

    def _move_operands(self, chunk: Chunk) -> None:
        function = self._b.function
        for member in chunk.members:
            for value in moved_with(function, _value(member), self._positions, chunk.at) or ():
                if value not in self._made:
                    self._made.add(value)
                    function.code.append(value)

    def _begins_there(self, chunk: Chunk) -> int:
        """Whether the number of the first element is a multiple of how many they are, by that of one known here."""
        b = self._b
        member = min(chunk.members, key=_position)
        number = form_of(b.function, member).number
        type_ = UNSIGNED[b.function.types[number]]
        count = len(chunk.members)
        rest = b.apply("bitwise_and", b.convert("retype", type_, number), b.constant(type_, count - 1))
        return b.apply("equal", rest, b.constant(type_, member.above % count))

    def _all_inside(self, chunk: Chunk, guarded: list[Access]) -> int:
        """Whether all elements are inside: where each is compared with the size, it is enough that the last one is, as
        they begin at a multiple of their number.
        """
        function = self._b.function
        guards = list(dict.fromkeys(operands_of(function, member)[-1] for member in guarded))
        sizes = {self._size_compared(member) for member in guarded}
        if guarded[-1] is chunk.members[-1] and len(sizes) == 1 and None not in sizes:
            return guards[-1]
        inside = guards[0]
        for guard in guards[1:]:
            inside = self._b.apply("logical_and", inside, guard)
        return inside

    def _size_compared(self, member: Access) -> int | None:
        """The value with which the guard of an access compares the element's number; None if it does something else."""
        function = self._b.function
        guard = operands_of(function, member)[-1]
        if function.ops[guard] != "less":
            return None
        index, size = function.args[guard]
        return size if self._origin(index) == self._origin(form_of(function, member).number) else None

    def _origin(self, index: int) -> int:
        function = self._b.function
        while function.ops[index] in ("retype", "widen"):
            index = function.args[index][0]
        return index

    # ---- vectors ----

    def _load(self, chunk: Chunk, values: list[int]) -> None:
        """Let the values be the elements, in the code from here on."""
        function = self._b.function
        type_ = self._memory.places[chunk.place].type
        if len(values) <= _MOST_LANES:
            self._load_lanes(chunk, values, form_of(function, chunk.members[0]).word)
            return
        each = WORD_BYTES // type_.itemsize
        words = [self._unplaced("lane", "u32", (), None) for _ in range(len(values) // each)]
        self._load_lanes(chunk, words, "b32")
        for number, value in enumerate(values):
            unpack(self._b, value, type_, words[number // each], number % each)

    def _load_lanes(self, chunk: Chunk, lanes: list[int], word: str) -> None:
        function = self._b.function
        address, form = self._first(chunk, min(chunk.members, key=_position), word)
        attr = VectorForm(form, len(lanes))
        vector = function.fresh("load_vector", function.types[lanes[0]], address, attr)
        for number, lane in enumerate(lanes):
            function.redefine(lane, "lane", (vector,), number)
            function.code.append(lane)

    def _unplaced(self, op: str, type_: str, args: tuple[int, ...], attr: object) -> int:
        """A value of which nothing is known, whatever it is later computed by."""
        made = self._b.function.unplaced(op, type_, args, attr)
        self._b.facts.observe(made)
        return made

    def _store(self, chunk: Chunk) -> None:
        function = self._b.function
        type_ = self._memory.places[chunk.place].type
        forms = [form_of(function, member) for member in chunk.members]
        values = [operands_of(function, m)[not f.symbol] for m, f in zip(chunk.members, forms, strict=True)]
        word = forms[0].word
        if len(values) > _MOST_LANES:
            each, word = WORD_BYTES // type_.itemsize, "b32"
            values = [packed(self._b, values[at : at + each], type_) for at in range(0, len(values), each)]
        address, form = self._first(chunk, chunk.members[0], word)
        function.effect("store_vector", (*address, *values), VectorForm(form, len(values)))

    def _first(self, chunk: Chunk, member: Access, word: str) -> tuple[tuple[int, ...], Form]:
        """The address of the first element, from that of another one."""
        function = self._b.function
        form = form_of(function, member)
        displacement = _displacement(self._memory, chunk, member, form)
        first = replace(form, word=word, displacement=displacement, guarded=False)
        return operands_of(function, member)[: not form.symbol], first


def _displacement(memory: Memory, chunk: Chunk, member: Access, form: Form) -> int:
    apart = member.above - chunk.members[0].above
    return form.displacement - apart * memory.places[chunk.place].type.itemsize


def _position(member: Access) -> int:
    return member.position


def _value(member: Access) -> int:
    assert isinstance(member.item, int)
    return member.item
