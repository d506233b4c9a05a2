"""The arrays of a thread, in .local memory: zeroed before anything else, as far as the program may read them first."""

from __future__ import annotations

from vyre_cuda.codegen.lowering.access_forms import Form
from vyre_cuda.codegen.lowering.isel_memory import Memory, Place

# Bytes of a store, and how many stores are written out; a larger array is zeroed by a loop.
_WORD = 8
_UNROLLED_STORES = 16


def zero(memory: Memory, places: list[Place]) -> None:
    """Zero those that are read, in whole words: an array takes a multiple of 16 bytes."""
    for place in places:
        if place.space != "local" or not place.is_read:
            continue
        words = -(-(place.size or 0) * place.type.itemsize // _WORD)
        if words > _UNROLLED_STORES:
            _zero_in_loop(memory, place, words)
        else:
            _zero_words(memory, place, words)


def _zero_words(memory: Memory, place: Place, words: int) -> None:
    b = memory.builder
    for word in range(words):
        b.function.effect("store", (b.constant("u64", 0),), Form("local", "u64", place.symbol, word * _WORD, False))


def _zero_in_loop(memory: Memory, place: Place, words: int) -> None:
    """Values are made without facts, because this runs before the code that they are about."""
    b = memory.builder
    function = b.function
    start = memory.base(place)
    end = function.fresh("add", "u64", (start, b.constant("u64", words * _WORD)))
    register = function.register("u64")
    function.effect("set", (start,), register)
    label = function.label()
    function.effect("label", (), (label, True))
    at = function.register_value(register)
    function.effect("store", (at, b.constant("u64", 0)), Form("local", "u64", "", 0, False))
    following = function.fresh("add", "u64", (at, b.constant("u64", _WORD)))
    function.pinned[following] = register
    again = function.fresh("less", "pred", (following, end))
    function.effect("branch", (again,), (label, False))
