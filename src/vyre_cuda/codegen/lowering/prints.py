"""Prints as calls of vprintf, which the driver supplies (CUDA C++ programming guide, "Formatted output").

A format is a zero-terminated array of bytes of the module, in the words of C. Each value takes eight bytes of a buffer
in local memory: integers and bools are extended to 64 bits, floats to f64, and a NaN has its sign removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.codegen.lowering.casts import cast
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.nodes import Print
from vyre_cuda.ir.core.printing import DIGITS, texts
from vyre_cuda.ir.core.types import Type, f64, i64, u64

VALUES_SYMBOL = "print_values"
FUNCTION = "vprintf"
_VALUE_BYTES = 8
_NAN = 0x7FF8 << 48


class Prints:
    """The prints of one kernel: its formats by number, and the most values that one of them has."""

    __slots__ = ("_builder", "_most_values", "formats")

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.formats: dict[bytes, int] = {}
        self._most_values = 0

    def lower(self, statement: Print, values: Sequence[int]) -> None:
        """A call; the values have the machine types of their IR types."""
        types = [value.type for value in statement.values]
        number = self.formats.setdefault(_c_format(statement.format, types), len(self.formats))
        self._most_values = max(self._most_values, len(values))
        promoted = tuple(self._promoted(type_, value) for type_, value in zip(types, values, strict=True))
        self._builder.function.effect("print", promoted, _symbol(number))

    def declarations(self) -> tuple[list[str], list[str]]:
        """The lines before the kernel, and those at its beginning."""
        if not self.formats:
            return [], []
        outside = [f".extern .func (.param .b32 count) {FUNCTION} (.param .b64 format, .param .b64 values);"]
        outside += [_declaration(_symbol(number), text) for text, number in self.formats.items()]
        size = max(self._most_values, 1) * _VALUE_BYTES
        return outside, [f"  .local .align {_VALUE_BYTES} .b8 {VALUES_SYMBOL}[{size}];"]

    def _promoted(self, type_: Type, value: int) -> int:
        b = self._builder
        if not type_.is_float:
            return cast(b, type_, i64 if type_.kind == "signed" else u64, value)
        number = value if type_ is f64 else b.convert("cast.f64", "f64", value)
        return b.apply("where", b.apply("unordered", number, number), b.constant("f64", _NAN), number)


def stores(names: Sequence[tuple[str, str]]) -> list[str]:
    """The instructions that put values, each the type and the name of a register or literal, into the buffer."""
    return [
        f"st.local.{type_} [{VALUES_SYMBOL}+{number * _VALUE_BYTES}], {name};"
        for number, (type_, name) in enumerate(names)
    ]


def call(format_symbol: str, format_: str, values: str) -> list[str]:
    """The call, with two registers for addresses."""
    return [
        f"mov.u64 {format_}, {format_symbol};",
        f"cvta.global.u64 {format_}, {format_};",
        f"mov.u64 {values}, {VALUES_SYMBOL};",
        f"cvta.local.u64 {values}, {values};",
        "{",
        ".param .b64 format;",
        ".param .b64 values;",
        ".param .b32 count;",
        f"st.param.b64 [format], {format_};",
        f"st.param.b64 [values], {values};",
        f"call (count), {FUNCTION}, (format, values);",
        "}",
    ]


def _symbol(number: int) -> str:
    return f"print_{number}"


def _declaration(symbol: str, text: bytes) -> str:
    return f".global .align 1 .b8 {symbol}[{len(text)}] = {{{', '.join(map(str, text))}}};"


def _c_format(format_: str, types: Sequence[Type]) -> bytes:
    first, *others = (text.replace("%", "%%") for text in texts(format_))
    parts = [first]
    for type_, text in zip(types, others, strict=True):
        parts += (_conversion(type_), text)
    return "".join([*parts, "\n\0"]).encode()


def _conversion(type_: Type) -> str:
    if type_.is_float:
        return f"%.{DIGITS[type_]}g"
    return "%lld" if type_.kind == "signed" else "%llu"
