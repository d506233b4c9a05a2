"""A function's code once more, in another function or in itself: with values, registers and labels of its own."""

from __future__ import annotations

from vyre_cuda.codegen.ssa.ssa import Effect, Function


def copied(source: Function, into: Function) -> list[int | Effect]:
    """The code of a function that is built, as code for another one; what stands before it is shared."""
    return _Copies(source, into).code()


class _Copies:
    def __init__(self, source: Function, into: Function) -> None:
        self._source = source
        self._into = into
        self._values: dict[int, int] = {}
        self._registers: dict[int, int] = {}
        self._labels: dict[int, int] = {}
        if source is not into:
            for value in source.entry:
                args = tuple(map(self._value, source.args[value]))
                self._values[value] = into.entry_value(
                    source.ops[value], source.types[value], args, source.attrs[value]
                )

    def code(self) -> list[int | Effect]:
        return [self._made(item) if isinstance(item, int) else self._effect(item) for item in list(self._source.code)]

    def _made(self, value: int) -> int:
        source = self._source
        attr = source.attrs[value]
        if source.ops[value] == "read":
            attr = self._register(attr)
        args = tuple([self._value(arg) for arg in source.args[value]])
        made = self._into.unplaced(source.ops[value], source.types[value], args, attr)
        if value in source.pinned:
            self._into.pinned[made] = self._register(source.pinned[value])
        self._values[value] = made
        return made

    def _value(self, value: int) -> int:
        found = self._values.get(value)
        if found is not None:
            return found
        source = self._source
        if source.ops[value] == "register":
            found = self._into.register_value(self._register(source.attrs[value]))
        elif source.ops[value] == "const":
            found = self._into.constant(source.types[value], source.attrs[value])
        else:  # before all code of the same function
            found = value
        self._values[value] = found
        return found

    def _register(self, register: int) -> int:
        found = self._registers.get(register)
        if found is None:
            found = self._registers[register] = self._into.register(self._source.registers[register])
        return found

    def _label(self, label: int) -> int:
        found = self._labels.get(label)
        if found is None:
            found = self._labels[label] = self._into.label()
        return found

    def _effect(self, effect: Effect) -> Effect:
        kind, args, attr = effect
        if kind == "set":
            attr = self._register(attr)
        elif kind in ("branch", "label"):
            attr = (self._label(attr[0]), attr[1])
        return kind, tuple([self._value(arg) for arg in args]), attr
