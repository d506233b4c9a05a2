"""What rewritten code calls: one activation for each time a function runs to build a program.

Values on the device become lets and variables of the Builder; what Python knows stays Python's. A name belongs to the
block in which it was first assigned, whatever kind of value it has.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vyre_cuda.errors import counted
from vyre_cuda.frontend.building import logic
from vyre_cuda.frontend.building.blocks import DeviceBranch, Loop, PythonBranch
from vyre_cuda.frontend.building.builtins import replaced, same_for_all
from vyre_cuda.frontend.building.declarations import Declaration
from vyre_cuda.frontend.building.text import Text, formatter, joined, require_known
from vyre_cuda.frontend.building.values import any_equal, condition, current, is_dynamic, scope_of
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.declarations import is_host_expression
from vyre_cuda.ir.builder.handles import Buffer, Variable
from vyre_cuda.ir.builder.operators import Expression
from vyre_cuda.ir.builder.scopes import Block, caller, program_error
from vyre_cuda.ir.builder.values import node_of, place
from vyre_cuda.ir.core.identifiers import RESERVED, is_identifier
from vyre_cuda.ir.core.types import Type
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.frontend import other_names
else:
    other_names = later("vyre_cuda.frontend.other_names")

_CHANGING = (list, dict, set, bytearray)
_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_IDENTITIES: dict[str, Callable[[Any, Any], bool]] = {
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
    "is": operator.is_,
    "is not": operator.is_not,
}


class Activation:
    """One run of a function: its names, its blocks, the program that it adds to."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.scope = scope_of(builder)
        self.entry = self.scope.block
        self._values: dict[str, Any] = {}
        self._blocks: dict[str, Block] = {}

    # ---- names

    def let(self, name: str, value: Any) -> Any:
        """The value of a name that is assigned once."""
        if isinstance(value, Declaration):
            value = value.declare(self.builder, name)
        elif is_dynamic(value) and not self._is_of_the_call(value):
            value = self.builder.let(_local(name), value)
        self._blocks[name] = self.scope.block
        return value

    def _is_of_the_call(self, value: Expression) -> bool:
        """Whether it is known before the launch; it then has no let, so that a size can be computed from it."""
        if isinstance(value, Variable):
            return False
        return is_host_expression(node_of(place(self.scope, value, caller())))

    def variable(self, name: str, value: Any) -> Any:
        """The value of a name that is assigned more than once."""
        block = self._blocks.get(name)
        old = self._values.get(name)
        if isinstance(old, Buffer) and old._kind == "out" and not isinstance(value, Declaration):
            raise program_error(f"{name} is an output: it cannot be assigned, its elements can", caller())
        if block is not None and block.is_open and isinstance(old, Variable):
            old.set(value)
            return old
        if block is not None and block.is_open and block is not self.scope.block:
            self._refuse_untyped(name, old)
        if isinstance(value, Declaration):
            value = value.declare(self.builder, name)
        elif is_dynamic(value):
            value = self.builder.var(_local(name), value)
        self._values[name] = value
        self._blocks[name] = self.scope.block
        return value

    def parameter(self, name: str, value: Any) -> Any:
        """A parameter that the body assigns."""
        if isinstance(value, Buffer):
            raise program_error(f"{name} is a buffer: it cannot be assigned, its elements can", caller())
        return self.variable(name, value)

    def read(self, name: str, value: Any) -> Any:
        """The value of a name now."""
        return current(self.held(name, value))

    def held(self, name: str, value: Any) -> Any:
        """The value of a name; a variable itself."""
        block = self._blocks.get(name)
        if block is not None and not block.is_open:
            kind = block.kind.rstrip("_").removesuffix("_ test")
            raise program_error(
                f"{name} was first assigned in the `{kind}` block of line {block.source[1]}, which has ended: assign "
                "it before the block too",
                caller(),
            )
        return value

    def typed(self, name: str, type_: Any, value: Any) -> Any:
        """`name: type_ = value`"""
        source = caller()
        if not isinstance(type_, Type):
            way = other_names.type_instead(type_)
            raise program_error(
                f"{type_!r} is not a type of the device, as vc.f32 is{way and f': write {way}'}", source
            )
        return place(self.scope, value, source, type_, f"value of {name}")

    def several(self, values: Any, count: int) -> tuple[Any, ...]:
        """The values of an unpacking, all read now."""
        if isinstance(values, (Expression, Buffer)):
            raise program_error("one value cannot be unpacked into several names", caller())
        found = tuple(map(current, values))
        if len(found) != count:
            raise program_error(f"{counted(len(found), 'value')} for {counted(count, 'name')}", caller())
        return found

    def _refuse_untyped(self, name: str, old: Any) -> None:
        if isinstance(old, (bool, int, float)):
            message = (
                f"{name} is the Python number {old!r} outside this block, which runs on the device: give it a type "
                f"there, {name}: vc.{_LIKELY_TYPES[type(old)]} = {old!r}"
            )
        else:
            message = f"{name} is a Python object outside this block, which runs on the device: it cannot change here"
        raise program_error(message, caller())

    # ---- elements

    slice = slice

    def store(self, array: Any, index: Any, value: Any) -> None:
        """`array[index] = value`"""
        if isinstance(array, Expression):
            raise program_error("only a buffer has elements; this is one value", caller())
        if not isinstance(array, Buffer):
            self._require_python(array, index, value)
        array[index] = value

    def _require_python(self, array: Any, index: Any, value: Any) -> None:
        """Whether a Python object can have an element set when the program is built."""
        kind = type(array).__name__
        if self.scope.block is not self.entry:
            self._refuse_change(array)
        if is_dynamic(index) or (is_dynamic(value) and not isinstance(array, _CHANGING)):
            raise program_error(
                f"a Python {kind} holds no elements of the device: write vc.local(type, n) for an array of each "
                "thread, vc.output(type, size) for a result",
                caller(),
            )

    def _refuse_change(self, owner: Any) -> None:
        raise program_error(
            f"a Python {type(owner).__name__} cannot change in a block that runs on the device: use a variable, "
            "vc.local or vc.shared",
            caller(),
        )

    def changing(self, owner: Any, method: str) -> Any:
        """A method that changes a Python object, such as `append`."""
        if isinstance(owner, _CHANGING) and self.scope.block is not self.entry:
            self._refuse_change(owner)
        return getattr(owner, method)

    # ---- conditions

    def truth(self, value: Any) -> Any:
        """A condition: a bool_ of the device, or what Python takes for true or false."""
        if isinstance(value, Buffer):
            raise program_error(f"{value.name} is a buffer and has no truth value: compare an element", caller())
        return condition(self.scope, value, "condition") if is_dynamic(value) else value

    def both(self, left: Any, make: Callable[[], Any]) -> Any:
        return logic.both(self.builder, left, make) if is_dynamic(left) else left and make()

    def either(self, left: Any, make: Callable[[], Any]) -> Any:
        return logic.either(self.builder, left, make) if is_dynamic(left) else left or make()

    def opposite(self, value: Any) -> Any:
        return ~value if is_dynamic(value) else not value

    def choice(self, test: Any, make: Callable[[], Any], make_other: Callable[[], Any]) -> Any:
        if is_dynamic(test):
            return logic.choice(self.builder, test, make, make_other)
        return make() if test else make_other()

    def chain(self, left: Any, *links: tuple[str, Callable[[], Any]]) -> Any:
        """`a < b < c`: each operand is evaluated once, those behind the second only while the comparisons hold."""
        (symbol, make), *others = links
        right = current(make())
        first = _COMPARISONS[symbol](left, right)
        return self.both(first, lambda: self.chain(right, *others)) if others else first

    def identity(self, symbol: str, left: Any, right: Any) -> Any:
        if symbol.endswith("in") and isinstance(right, (tuple, list)):
            found = any_equal(left, right)
            return found if symbol == "in" else self.opposite(found)
        if is_dynamic(left) or is_dynamic(right) or isinstance(right, Buffer):
            better = (
                "compare with ==" if symbol.startswith("is") else "write it with a tuple, as in v in (1, 2), or a loop"
            )
            raise program_error(f"`{symbol}` has no meaning on the device: {better}", caller())
        return _IDENTITIES[symbol](left, right)

    def joined(self, *parts: Any) -> Any:
        """An f-string: its texts, and a tuple for each value."""
        return joined(parts)

    def filled(self, text: Any, values: Any) -> Any:
        """`text % values`"""
        require_known(text, *(values if isinstance(values, tuple) else (values,)))
        return text % values

    def formatter(self, owner: Any) -> Any:
        """`owner.format`"""
        return formatter(owner) if isinstance(owner, str) else owner.format

    def drawn(self, function: Any) -> Any:
        """A function that may give another value at each call."""
        return same_for_all(function)

    def builtin(self, function: Any) -> Any:
        """A function of Python's, or what stands for it here."""
        return replaced(self.builder, function)

    # ---- blocks

    def branch(self, test: Any) -> DeviceBranch | PythonBranch:
        return DeviceBranch(self.builder, test) if is_dynamic(test) else PythonBranch(bool(test))

    def while_(self, test: Callable[[], Any]) -> Loop:
        return Loop(self.builder.while_(lambda: _bool(test())))

    def for_(self, name: str, *bounds: Any) -> Loop:
        block = self.builder.for_(*(bounds if len(bounds) > 1 else (0, *bounds)))
        block.counter = _local(name)
        return Loop(block)

    def items(self, values: Any) -> Iterator[Any]:
        """What a `for` over Python objects takes one by one, when the program is built."""
        if isinstance(values, (Expression, Buffer)) or not isinstance(values, Iterable):
            raise program_error(
                "a kernel loops over range(...) on the device, and over Python's tuples and lists or vc.unrolled(...) "
                "when it is built",
                caller(),
            )
        return iter(values)

    def item(self, name: str) -> None:
        """The target of such a loop has its next value, in this block."""
        self._blocks[name] = self.scope.block

    def here(self) -> Block:
        return self.scope.block

    def leave_items(self, word: str, block: Block) -> None:
        """`break` or `continue` of a loop that runs when the program is built."""
        if self.scope.block is not block:
            raise program_error(
                f"`{word}` under a condition of the device, in a loop that runs when the program is built: loop over "
                "range(...)",
                caller(),
            )

    def break_(self) -> None:
        self.builder.break_()

    def continue_(self) -> None:
        self.builder.continue_()

    def return_(self) -> bool:
        """Whether nothing follows."""
        self.builder.return_()
        return self.scope.block is self.entry

    def assert_(self, test: Any, message: Any) -> None:
        if is_dynamic(test):
            self.builder.assert_(test, str(message) if isinstance(message, Text) else message)
        elif not test:
            raise program_error(f"the assertion failed when the program was built: {message}", caller())


def _bool(value: Any) -> Any:
    return value if is_dynamic(value) else bool(value)


def _local(name: str) -> str:
    """A name that the text format can hold."""
    return name if is_identifier(name) and name not in RESERVED else "v"


_LIKELY_TYPES: dict[type, str] = {bool: "bool_", int: "i32", float: "f32"}
