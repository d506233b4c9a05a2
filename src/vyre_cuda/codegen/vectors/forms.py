"""The form of a kernel with vectors, for launches whose arrays begin where vectors can, beside the form without."""

from __future__ import annotations

from vyre_cuda.codegen.lowering.isel_memory import Memory
from vyre_cuda.codegen.lowering.linear import Linear
from vyre_cuda.codegen.ssa.copies import copied
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.ssa.ssa import Effect, Function, liveness
from vyre_cuda.codegen.vectors.merged import is_within_reach, merge
from vyre_cuda.codegen.vectors.neighbors import Chunk, chunks

# Values and effects of a kernel that gets a second form: of a longer one memory is not what takes the time.
_MOST_CODE = 8192


def with_vectors(
    builder: Builder, memory: Memory, linear: Linear, *, otherwise: Function | None = None
) -> dict[str, int]:
    """Let a kernel load and store neighbors at once.

    Shared arrays begin at multiples of 16 bytes. Where buffers must begin at multiples of more bytes than an element
    has, the kernel looks once whether they do, and if not continues in its form without vectors, or in `otherwise`.
    The result has these buffers and bytes; if it is empty, the kernel has one form.
    """
    found = _found(builder, memory, linear, "shared")
    if found:
        merge(builder, memory, found)
    found = _found(builder, memory, linear, "global")
    function = builder.function
    if not found or len(function.code) > _MOST_CODE:
        return {}
    aligned = _aligned(memory, found)
    if not aligned:
        merge(builder, memory, found)
        return {}
    other = copied(function if otherwise is None else otherwise, function)
    merge(builder, memory, found)
    _choose(builder, memory, aligned, other)
    return aligned


def _found(builder: Builder, memory: Memory, linear: Linear, space: str) -> list[Chunk]:
    function = builder.function
    found = chunks(function, memory, linear, liveness(function)[0], frozenset((space,)))
    return [chunk for chunk in found if is_within_reach(builder, memory, chunk)]


def _aligned(memory: Memory, found: list[Chunk]) -> dict[str, int]:
    """The bytes at whose multiples buffers must begin; arrays of the text do."""
    aligned: dict[str, int] = {}
    for chunk in found:
        place = memory.places[chunk.place]
        if not place.symbol:
            size = len(chunk.members) * place.type.itemsize
            aligned[chunk.place] = max(aligned.get(chunk.place, 0), size)
    return {name: aligned[name] for name in memory.places if name in aligned}


def _choose(builder: Builder, memory: Memory, aligned: dict[str, int], other: list[int | Effect]) -> None:
    """Put the other form behind the code, and a branch to it before it."""
    function = builder.function
    label = function.label()
    test = _begin_there(builder, memory, aligned)
    said = ", ".join(f"{name} at a multiple of {size} bytes" for name, size in aligned.items())
    function.code[:0] = [
        ("comment", (), f"vectors, if the buffers begin there: {ascii(said)[1:-1]}"),
        ("branch", (test,), (label, True)),
    ]
    function.code += [("label", (), (label, False)), ("comment", (), "otherwise: without vectors"), *other]


def _begin_there(builder: Builder, memory: Memory, aligned: dict[str, int]) -> int:
    """Whether each buffer begins at a multiple of its bytes."""
    entry = builder.entry
    beyond: int | None = None  # bits of addresses that must be 0
    for size in sorted(set(aligned.values())):
        joined: int | None = None
        for name in aligned:
            if aligned[name] == size:
                low = entry("low", "u32", (memory.base(memory.places[name]),))
                joined = low if joined is None else entry("bitwise_or", "u32", (joined, low))
        assert joined is not None
        bits = entry("bitwise_and", "u32", (joined, builder.constant("u32", size - 1)))
        beyond = bits if beyond is None else entry("bitwise_or", "u32", (beyond, bits))
    assert beyond is not None
    return entry("equal", "pred", (beyond, builder.constant("u32", 0)))
