"""The instructions of a kernel, one line each.

Constants are immediates; an unused value has no instruction, nor has a branch to what follows it. A comment says which
statement the lines after it are of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.forms.isel import BITS, FLOATS, TYPED_BY_FIRST, select
from vyre_cuda.codegen.lowering.access_forms import AtomicForm, Form, VectorForm
from vyre_cuda.codegen.ssa.ssa import Effect, Function
from vyre_cuda.errors import InternalError
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.emit.resident import Resident
    from vyre_cuda.codegen.emit.rows import Rows
    from vyre_cuda.codegen.lowering import atomics, prints
else:
    atomics, prints = later("vyre_cuda.codegen.lowering.atomics"), later("vyre_cuda.codegen.lowering.prints")

# What is around the result and one or two operands, if the instruction has each once in order; of other instructions
# a %-format and its places.
_Line: TypeAlias = tuple[Any, ...]
_OF_ONE, _OF_TWO = 3, 4  # parts of such a line

_SILENT = ("comment", "statement")
# How a line begins that says which statement the instructions after it belong to.
STATEMENT_MARK = "  // s"


def statement_comment(number: int) -> str:
    """The comment before the instructions of a statement, by its number in the order of the program's text."""
    return f"s{number}"


class Emitter:
    """Writes the instructions of one function in order.

    `fresh` gives the name of the next register of a type, `loads` the instruction for a parameter.
    """

    def __init__(
        self,
        function: Function,
        target: Target,
        live: tuple[bytearray, set[int]],
        fresh: Mapping[str, Callable[[], str]],
        loads: Mapping[tuple[str, str], str],
        *,
        debug: bool,
        rows: Rows | Resident | None,
    ) -> None:
        self._function = function
        self._target = target
        self._rows = rows
        self._live, self._live_registers = live
        self._debug = debug
        self._names: list[str] = [""] * len(function.ops)
        self._register_names: dict[int, str] = {}
        # By op: the place of the operand whose type selects the instruction, and the instructions by that type.
        self._templates: dict[str, tuple[int, dict[str, _Line]]] = {}
        self._lanes_of: dict[int, list[int]] | None = None
        self._lines: list[str] = []
        self._leave = "ret;" if rows is None else rows.leave
        self._barrier = "bar.sync 0;" if rows is None else rows.barrier
        self._marked = 0  # lines so far when the last was a mark
        self._fresh = fresh
        self._loads = loads

    def run(self) -> list[str]:
        """The lines."""
        function, live = self._function, self._live
        code = function.code
        needless, labels = _needless_and_targets(code)
        self._write([value for value in function.entry if live[value]], needless, labels)
        self._write(code, needless, labels)
        last = code[-1] if code else None
        if last is None or isinstance(last, int) or last[0] != "return" or last[1]:
            self._lines.append(f"  {self._leave}")
        return self._lines

    # ---- names ----

    def _register(self, register: int) -> str:
        name = self._register_names.get(register)
        if name is None:
            name = self._register_names[register] = self._fresh[self._function.registers[register]]()
        return name

    def _name(self, value: int) -> str:
        """How an instruction refers to a value that is defined, or that needs no definition."""
        name = self._names[value]
        if name:
            return name
        function = self._function
        op = function.ops[value]
        if op == "const":
            constant = function.attrs[value]
            name = _literal(function.types[value], constant)
        elif op == "register":
            name = self._register(function.attrs[value])
        elif op == "retype":
            return self._name(function.args[value][0])
        else:
            raise InternalError(f"value {value} ({op}) is used before it is defined")
        self._names[value] = name
        return name

    def _define(self, value: int) -> str:
        function = self._function
        if function.pinned and value in function.pinned:
            name = self._register(function.pinned[value])
        else:
            name = self._fresh[function.types[value]]()
        self._names[value] = name
        return name

    # ---- lines ----

    def _emit(self, text: str, value: int | None = None) -> None:
        if self._debug and value is not None:
            function = self._function
            operands = ", ".join(f"%{arg}" for arg in function.args[value])
            text = f"{text}  // %{value} = {function.ops[value]} {operands}".rstrip()
        self._lines.append("  " + text)

    def _label(self, label: int, nounroll: bool) -> None:
        self._lines.append(f"$L{label}:")
        if nounroll:
            self._lines.append('  .pragma "nounroll";')

    def _write(self, code: Sequence[int | Effect], needless: set[int], labels: set[int]) -> None:
        """The lines of the values that are used and of the effects but those branches, with those labels."""
        function, live, names = self._function, self._live, self._names
        ops, types, args, templates = function.ops, function.types, function.args, self._templates
        lines, fresh, pinned, debug = self._lines, self._fresh, function.pinned, self._debug
        for position, item in enumerate(code):
            if not isinstance(item, int):
                kind, _, attr = item
                if kind == "statement":
                    self._mark(attr)
                elif kind == "label":
                    if attr[0] in labels:
                        self._label(*attr)
                elif position not in needless:
                    self._effect(item)
                continue
            op = ops[item]
            if not live[item] and op != "atomic":
                continue
            of, found = args[item], templates.get(op)
            if found is None:
                if op in _SPECIAL:
                    _SPECIAL[op](self, item, of)
                    continue
                found = templates[op] = (0 if op in TYPED_BY_FIRST else -1, {})
            place, by_type = found
            type_ = types[of[place]]
            line = by_type.get(type_) or self._template(op, type_, len(of))
            size = len(line)
            if size == _OF_TWO:
                begin, second, third, end = line
                one, other = of
                left, right = names[one] or self._name(one), names[other] or self._name(other)
                name = names[item] = self._register(pinned[item]) if item in pinned else fresh[types[item]]()
                text = f"{begin}{name}{second}{left}{third}{right}{end}"
            elif size == _OF_ONE:
                begin, second, end = line
                left = names[of[0]] or self._name(of[0])
                name = names[item] = self._register(pinned[item]) if item in pinned else fresh[types[item]]()
                text = f"{begin}{name}{second}{left}{end}"
            else:
                text_format, places = line
                operands = [names[arg] or self._name(arg) for arg in of]
                name = names[item] = self._register(pinned[item]) if item in pinned else fresh[types[item]]()
                words = (name, *operands)
                text = text_format % tuple([words[place] for place in places])
            if debug:
                self._emit(text, item)
            else:
                lines.append(text)

    def _nothing(self, _value: int, _args: tuple[int, ...]) -> None:
        """A value that has no instruction of its own."""

    def _template(self, op: str, type_: str, operands: int) -> _Line:
        """The instruction of an op."""
        text, places = select(op, type_, self._target)
        text = text if self._debug else f"  {text}"
        in_order = places == tuple(range(operands + 1)) and "%%" not in text and operands in (1, 2)
        line: _Line = tuple(text.split("%s")) if in_order else (text, places)
        self._templates[op][1][type_] = line
        return line

    def _parameter(self, value: int, _args: tuple[int, ...]) -> None:
        self._emit(self._loads[self._function.attrs[value]] % self._define(value), value)

    def _global_pointer(self, value: int, args: tuple[int, ...]) -> None:
        pointer = self._name(args[0])
        self._emit(f"cvta.to.global.u64 {self._define(value)}, {pointer};", value)

    def _move_from_name(self, value: int, _args: tuple[int, ...]) -> None:
        type_ = self._function.types[value]
        name = self._function.attrs[value]
        if self._rows is not None:
            name = self._rows.names.get(name, name)
        self._emit(f"mov.{type_} {self._define(value)}, {name};", value)

    def _read(self, value: int, _args: tuple[int, ...]) -> None:
        register = self._register(self._function.attrs[value])
        if value in self._function.aliases:
            self._names[value] = register
            return
        self._emit(f"mov.{self._function.types[value]} {self._define(value)}, {register};", value)

    def _address(self, form: Form, args: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """The address in brackets, and the operands after it."""
        base, rest = (form.symbol, args) if form.symbol else (self._name(args[0]), args[1:])
        if form.displacement == 0:
            return f"[{base}]", rest
        return f"[{base}+{form.displacement}]", rest

    def _guard(self, form: Form, args: tuple[int, ...]) -> str:
        return f"@{self._name(args[-1])} " if form.guarded else ""

    def _load(self, value: int, args: tuple[int, ...]) -> None:
        form: Form = self._function.attrs[value]
        address, _ = self._address(form, args)
        guard = self._guard(form, args)
        name = self._define(value)
        if guard:
            self._zero(value, name)
        self._emit(f"{guard}ld.{form.space}.{form.word} {name}, {address};", value)

    def _load_vector(self, value: int, args: tuple[int, ...]) -> None:
        vector: VectorForm = self._function.attrs[value]
        form = vector.form
        address, _ = self._address(form, args)
        names = ", ".join(map(self._define, self._lanes()[value]))
        self._emit(f"ld.{form.space}.v{vector.lanes}.{form.word} {{{names}}}, {address};", value)

    def _lanes(self) -> dict[int, list[int]]:
        """The values of each load of a vector, in order."""
        if self._lanes_of is None:
            self._lanes_of = {}
            for item in self._function.code:
                if isinstance(item, int) and self._function.ops[item] == "lane":
                    self._lanes_of.setdefault(self._function.args[item][0], []).append(item)
        return self._lanes_of

    def _zero(self, value: int, name: str) -> None:
        """The result of a guarded access that does not happen."""
        type_ = self._function.types[value]
        self._emit(f"mov.{type_} {name}, {_literal(type_, 0)};")

    def _atomic(self, value: int, args: tuple[int, ...]) -> None:
        atomic: AtomicForm = self._function.attrs[value]
        form = atomic.form
        address, rest = self._address(form, args)
        guard = self._guard(form, args)
        operands = ", ".join([address, *(self._name(arg) for arg in rest[: len(rest) - form.guarded])])
        used = bool(self._live[value])
        if form.word.startswith("ld."):
            if not used:  # orders nothing that a program could observe; ptxas compiled some to illegal instructions
                return
            name = self._define(value)
            if guard:
                self._zero(value, name)
            self._emit(f"{guard}{_access_words(atomic)} {name}, {address};", value)
            return
        where = f"{atomic.order}.{atomic.scope}.{form.space}.{form.word}"
        if not used and atomic.order in atomics.RED_ORDERS and not form.word.startswith(("cas", "exch")):
            self._emit(f"{guard}red.{where} {operands};", value)
            return
        name = self._define(value)
        if guard and used:
            self._zero(value, name)
        self._emit(f"{guard}atom.{where} {name}, {operands};", value)

    def _effect(self, effect: Effect) -> None:
        kind, args, attr = effect
        if kind == "store":
            address, rest = self._address(attr, args)
            guard = self._guard(attr, args)
            self._emit(f"{guard}st.{attr.space}.{attr.word} {address}, {self._name(rest[0])};")
        elif kind == "store_vector":
            address, rest = self._address(attr.form, args)
            guard = self._guard(attr.form, args)
            names = ", ".join(map(self._name, rest[: attr.lanes]))
            self._emit(f"{guard}st.{attr.form.space}.v{attr.lanes}.{attr.form.word} {address}, {{{names}}};")
        elif kind == "atomic_store":
            address, rest = self._address(attr.form, args)
            guard = self._guard(attr.form, args)
            self._emit(f"{guard}{_access_words(attr)} {address}, {self._name(rest[0])};")
        elif kind == "set":
            if attr in self._live_registers:
                register, value = self._register(attr), self._name(args[0])
                if register != value:
                    self._emit(self._assignment(register, args[0], value))
        elif kind == "branch":
            self._emit(f"{self._when(args, attr[1])}bra $L{attr[0]};")
        elif kind == "return":
            self._emit(f"{self._when(args, attr)}{self._leave}")
        elif kind == "barrier":
            self._emit(self._barrier)
        elif kind == "sleep":
            self._emit(f"nanosleep.u32 {attr};")
        elif kind == "print":
            self._print(args, attr)
        elif kind == "comment":
            self._emit(f"// {attr}")
        else:
            raise InternalError(f"effect {kind} has no text")

    def _print(self, args: tuple[int, ...], symbol: str) -> None:
        addresses = self._fresh["u64"](), self._fresh["u64"]()
        named = [(self._function.types[arg], self._name(arg)) for arg in args]
        for line in (*prints.stores(named), *prints.call(symbol, *addresses)):
            self._emit(line)

    def _assignment(self, register: str, value: int, name: str) -> str:
        """Float constants as bits: of two that meet in a register the compiler makes a choice, see peephole.py."""
        type_ = self._function.types[value]
        if type_ in FLOATS and self._function.ops[value] == "const":
            bits = BITS[type_]
            return f"mov.b{bits} {register}, 0x{self._function.attrs[value]:0{bits // 4}X};"
        return f"mov.{type_} {register}, {name};"

    def _mark(self, statement: int) -> None:
        """Mark the following lines as those of this statement. A mark that nothing followed is replaced."""
        if self._lines and self._marked == len(self._lines):
            self._lines.pop()
        self._lines.append(f"  // {statement_comment(statement)}")
        self._marked = len(self._lines)

    def _when(self, args: tuple[int, ...], negated: bool) -> str:
        return f"@{'!' * negated}{self._name(args[0])} " if args else ""


_SPECIAL = {
    **dict.fromkeys(("const", "register", "retype", "lane"), Emitter._nothing),
    "parameter": Emitter._parameter,
    "global_pointer": Emitter._global_pointer,
    "special": Emitter._move_from_name,
    "symbol": Emitter._move_from_name,
    "read": Emitter._read,
    "load": Emitter._load,
    "load_vector": Emitter._load_vector,
    "atomic": Emitter._atomic,
}


def _literal(type_: str, value: int) -> str:
    """A constant as an immediate: floats by their bits."""
    if type_ == "f32":
        return f"0f{value:08X}"
    return f"0d{value:016X}" if type_ == "f64" else str(value)


def _access_words(atomic: AtomicForm) -> str:
    """An atomic load or store: ld.acquire.gpu.global.u32 (PTX ISA, ld and st)."""
    instruction, type_ = atomic.form.word.split(".")
    return f"{instruction}.{atomic.order}.{atomic.scope}.{atomic.form.space}.{type_}"


def _needless_and_targets(code: list[int | Effect]) -> tuple[set[int], set[int]]:
    """The places of branches that are separated from their label only by labels and comments, and the labels that the
    other branches go to.
    """
    needless: set[int] = set()
    labels: set[int] = set()
    ahead: set[int] = set()  # labels from here to the next instruction
    following = len(code)
    effects = [(position, item) for position, item in enumerate(code) if type(item) is tuple]
    for position, (kind, _, attr) in reversed(effects):
        if following != position + 1:
            ahead.clear()
        following = position
        if kind == "label":
            ahead.add(attr[0])
        elif kind not in _SILENT:
            if kind == "branch":
                if attr[0] in ahead:
                    needless.add(position)
                else:
                    labels.add(attr[0])
            ahead.clear()
    return needless, labels
