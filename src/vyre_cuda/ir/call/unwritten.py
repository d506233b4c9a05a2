"""The errors for elements of an out without zeros that no thread wrote: of the interpreter and of the emulator."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.errors import UninitializedError
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import statements


def read_error(
    program: Program,
    buffer: str,
    index: int,
    *,
    statement: int | None,
    thread: int,
    axes: Sequence[int] = (),
    is_temporary: bool = False,
) -> UninitializedError:
    """A thread, by its linear id, read the element in the statement of this number; `axes`: its place in a shape.

    `is_temporary`: of a temporary array of a graph, which nothing wrote in this replay."""
    found = None if statement is None else next(s for n, s in enumerate(statements(program.body)) if n == statement)
    source = None if found is None else found.source
    where = "" if statement is None else f", at statement {statement}"
    where += f" ({source[0]}:{source[1]})" if source else ""
    nobody, why = ("nothing", "begins unspecified") if is_temporary else ("no thread", "is not zeroed")
    return UninitializedError(
        f"program {program.name} reads {_element(buffer, index, axes)}, which {nobody} wrote{where} in "
        f"thread {thread}: {buffer} {why}",
        program=program.name,
        buffer=buffer,
        index=index,
        statement=statement,
        thread=thread,
        source=source,
    )


def returned_error(
    program: Program, buffer: str, index: int, *, count: int, axes: Sequence[int] = ()
) -> UninitializedError:
    """The call returns the element, the first of `count` that are not written."""
    return UninitializedError(
        f"program {program.name} returns {_element(buffer, index, axes)}, which no thread wrote: {buffer} is not "
        f"zeroed (elements not written: {count})",
        program=program.name,
        buffer=buffer,
        index=index,
    )


def _element(buffer: str, index: int, axes: Sequence[int]) -> str:
    return f"{buffer}[{', '.join(map(str, axes or (index,)))}]"
