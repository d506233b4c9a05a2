"""`Program`: an immutable value that everything else works on.

Equality, hash and fingerprint depend on structure alone; source positions and how the object was made play no part.
A Program made by `Builder.build`, `parse` or `from_bytes` is valid; one put together from nodes by hand is checked
when it is compiled or evaluated.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from vyre_cuda.errors import type_name
from vyre_cuda.ir.core.nodes import Expr, OwnArray, Parameter, SharedArray, Source, Stmt
from vyre_cuda.ir.core.types import Type, u32
from vyre_cuda.ir.wire import wire
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord, field

if TYPE_CHECKING:
    import hashlib

    from vyre_cuda.ir.text import text
else:
    hashlib = later("hashlib")
    text = later("vyre_cuda.ir.text.text")


class Program(FrozenRecord):
    """A kernel as data: what `vc.Builder` makes and `Device.compile` takes.

    `block` is the threads per axis. `work` is the number of items per axis (1 to 3 expressions over scalars and
    sizes of buffers), None for the size of the first out, else inout, else in buffer. `auto_block`: a device may
    choose another number of threads; this is a hint and not part of the program's meaning, text or bytes.
    `arrays` are tables and the arrays of each thread. `min_blocks`: how many blocks a multiprocessor should hold at the
    same time, 0 for any number.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Stmt, ...]
    block: tuple[int, int, int] = (256, 1, 1)
    index: Type = u32
    work: tuple[Expr, ...] | None = None
    shared: tuple[SharedArray, ...] = ()
    source: Source | None = field(default=None, compare=False, repr=False)
    auto_block: bool = field(default=False, compare=False, repr=False)
    arrays: tuple[OwnArray, ...] = ()
    min_blocks: int = 0
    # Filled once; init=False so that dataclasses.replace starts afresh.
    _bytes: list[bytes] = field(default_factory=list, init=False, compare=False, repr=False)
    _valid: list[bool] = field(default_factory=list, init=False, compare=False, repr=False)
    _consts: list[str] = field(default_factory=list, init=False, compare=False, repr=False)  # of a kernel function
    _walks: list[tuple[Any, ...]] = field(default_factory=list, init=False, compare=False, repr=False)
    _facts: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)

    def text(self) -> str:
        """The program as text, which `vyre_cuda.parse` reads.

        Returns
        -------
        str
            Lines of text.
        """
        return text.format_program(self)

    def to_bytes(self) -> bytes:
        """The program as bytes, which `Program.from_bytes` reads: equal programs give equal bytes.

        Returns
        -------
        bytes
            The canonical wire bytes.
        """
        if not self._bytes:
            self._bytes.append(wire.encode(self))
        return self._bytes[0]

    @classmethod
    def from_bytes(cls, data: bytes) -> Program:
        """The program of these wire bytes.

        Parameters
        ----------
        data
            What `to_bytes` returned.

        Returns
        -------
        Program
            The program.

        Raises
        ------
        ProgramError
            They are not the bytes of a program.
        """
        return wire.decode(data, cls)

    @property
    def fingerprint(self) -> str:
        """BLAKE2b-256 of the wire bytes, in hex."""
        return hashlib.blake2b(self.to_bytes(), digest_size=32).hexdigest()

    def __repr__(self) -> str:
        return f"<vyre_cuda.Program {self.name}({', '.join(parameter.name for parameter in self.parameters)})>"

    def __str__(self) -> str:
        return self.text()


class ProgramSource:
    """What is taken wherever a program is: a kernel function."""

    __slots__ = ()
    __name__: str

    @property
    def is_open(self) -> bool:
        """Whether it has parameters that are still to be given."""
        raise NotImplementedError

    def program(self) -> Program:
        """The program."""
        raise NotImplementedError


def program_of(given: object) -> Program | None:
    """The program itself, or that of a kernel function; None for anything else."""
    if isinstance(given, Program):
        return given
    return given.program() if isinstance(given, ProgramSource) else None


def no_program(taking: str, given: object) -> TypeError:
    """What to raise where `taking`, such as "compile takes a Program", is given something else."""
    way = ""
    if isinstance(given, FunctionType):
        way = " (decorate it with @vc.kernel)"
    elif hasattr(given, "build"):
        way = " (write .build() behind it)"
    elif hasattr(given, "program"):
        way = " (write .program behind it)"
    return TypeError(f"{taking}, not {type_name(given)}{way}")


def primary_buffer(program: Program) -> Parameter | None:
    """The buffer whose size is the work when the program names none: the first out, else inout, else in."""
    for kind in ("out", "inout", "in"):
        for parameter in program.parameters:
            if parameter.kind == kind:
                return parameter
    return None
