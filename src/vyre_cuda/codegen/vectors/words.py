"""Elements of fewer than 32 bits in words: the first element of a word is in its low bits."""

from __future__ import annotations

from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type, f16

WORD_BYTES = 4
_WORD_BITS = 32


def unpack(b: Builder, value: int, type_: Type, word: int, place: int) -> None:
    """Let the value, which was an element as loaded, be the one at this place of a word, in the code from here on."""
    function = b.function
    bits = type_.itemsize * 8
    at = b.constant("u32", place * bits)
    signed = type_.is_integer and type_.minimum < 0
    if type_ is not f16 and not signed and (place + 1) * bits == _WORD_BITS:
        function.redefine(value, "right_shift", (word, at), None)
    else:
        low = b.apply("right_shift", word, at) if place else word
        if type_ is f16:
            function.redefine(value, "short", (low,), None)
        elif signed:
            function.redefine(value, f"sign{bits}", (low,), None)
        else:
            function.redefine(value, "bitwise_and", (low, b.constant("u32", (1 << bits) - 1)), None)
    function.code.append(value)


def packed(b: Builder, values: list[int], type_: Type) -> int:
    """Elements as they are stored, as one word; of each only the bits of the type count."""
    if all(b.function.types[value] == "b16" and not b.is_constant(value) for value in values):
        return b.emit("pair", "u32", tuple(values))  # the assembler joins it with conversions to f16
    bits = type_.itemsize * 8
    word = b.constant("u32", 0)
    for place, value in enumerate(values):
        is_half = b.function.types[value] == "b16"
        part = b.convert("zero_extend", "u32", value) if is_half else b.convert("retype", "u32", value)
        if (place + 1) * bits < _WORD_BITS:
            part = b.apply("bitwise_and", part, b.constant("u32", (1 << bits) - 1))
        word = b.apply("bitwise_or", word, b.apply("left_shift", part, b.constant("u32", place * bits)))
    return word
