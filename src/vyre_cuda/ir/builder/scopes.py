"""Where the statements of a program go while it is being built: open blocks, names, source lines.

One `Scope` belongs to one builder and is the only thing that appends statements. A `Block` is a statement list that is
open until its with-block ends; what was named in it cannot be used afterwards. Nothing here knows about operators or
types.
"""

from __future__ import annotations

import os.path
import sys
from _thread import _local as thread_local  # threading takes two milliseconds to import
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar

from vyre_cuda.errors import Diagnostic, ProgramError, type_name
from vyre_cuda.ir.core.identifiers import RESERVED, is_identifier
from vyre_cuda.ir.core.limits import MAX_NESTING
from vyre_cuda.ir.core.nodes import Expr, If, Let, Local, Source, Stmt
from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import FrozenRecord, Record, field

BlockKind = Literal["program", "if_", "elif_", "else_", "for_", "while_ test", "while_"]
T = TypeVar("T")

_PACKAGE = sys.modules["vyre_cuda"].__path__[0]
_OWN_FILES = (os.path.join(_PACKAGE, "ir", ""), os.path.join(_PACKAGE, "frontend", ""))


def caller() -> Source:
    """The file and line of the innermost frame outside `vyre_cuda.ir` and `vyre_cuda.frontend`: the user's line."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OWN_FILES) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def program_error(message: str, source: Source) -> ProgramError:
    """The error for one mistake in the program at `source`."""
    return ProgramError(f"{message} ({source[0]}:{source[1]})", [Diagnostic(message, source=source)])


class Block(Record, eq=False):
    """One statement list under construction; `depth` counts the blocks around it.

    `arms` are those of the if statement that an `else_` or `elif_` may still complete: it was the last statement
    appended, except for `reads`, values that were read since, perhaps for the condition of an `elif_`.
    """

    kind: BlockKind
    source: Source
    parent: Block | None = None
    depth: int = 0
    is_open: bool = True
    statements: list[Stmt] = field(default_factory=list)
    arms: tuple[Arm, ...] = ()
    reads: list[Any] = field(default_factory=list)


class Arm(FrozenRecord):
    """One condition of an if statement with its block; `before` computes what the condition reads."""

    condition: Expr
    body: tuple[Stmt, ...]
    source: Source
    before: tuple[Stmt, ...] = ()


def nested(arms: tuple[Arm, ...], orelse: tuple[Stmt, ...]) -> If:
    """The if statement with these arms: each further one is in the other arm of the one before."""
    for arm in reversed(arms):
        made = If(arm.condition, arm.body, orelse, arm.source)
        orelse = (*arm.before, made)
    return made


def out_of_block(name: str, block: Block, source: Source) -> ProgramError:
    """The error for a value or a variable whose block has ended."""
    return program_error(
        f"{name} is used outside the block in which it was made: the {block.kind} block of line {block.source[1]} has "
        "ended (to use a value after its block, set a b.var that was made before the block)",
        source,
    )


class Scope:
    """The program under construction: the innermost open block, and the names that are taken.

    In a scope that `runs`, a statement is executed when it is appended, and an expression has a value at once.
    """

    runs: ClassVar[bool] = False

    __slots__ = ("_names", "_suffixes", "block", "built", "index", "placed", "program", "unentered")

    def __init__(self, program: str, index: Type, source: Source) -> None:
        self.program = program
        self.index = index
        self.built = False
        self.block = Block("program", source)
        self.unentered: dict[int, tuple[str, Source]] = {}
        self.placed: dict[int, tuple[Any, Any]] = {}  # unplaced values, kept alive, and their placed values, by id
        self._names: set[str] = {"lane_id"}  # a local of that name gets a number: in the text format it is the id
        self._suffixes: dict[str, int] = {}

    def begin(self) -> Source:
        """The source line that adds to the program. Raises ProgramError after `build`."""
        source = caller()
        self.require_unbuilt(source)
        return source

    def require_unbuilt(self, source: Source) -> None:
        """Raises ProgramError after `build`."""
        if self.built:
            raise program_error(
                f"the builder of {self.program} is finished: build() was called, so make another Builder", source
            )

    def value(self, node: Expr, source: Source) -> Any:
        """The value of a node now, in a scope that runs."""
        raise NotImplementedError

    # ---- statements

    def append(self, statement: Stmt) -> None:
        self.block.statements.append(statement)
        self.block.arms = ()

    def append_if(self, arms: tuple[Arm, ...]) -> None:
        """Append an if statement, which an `else_` or `elif_` may complete until another statement follows."""
        self.append(nested(arms, ()))
        self.block.arms = arms
        self.block.reads = []

    def append_read(self, name: str, read: Expr, source: Source, made: Callable[[Local], T]) -> T:
        """Append a let for what an expression reads right here, and return the value that is `made` of it."""
        arms = self.block.arms
        value = made(self.let(name, read, source))
        if arms:
            self.block.arms = arms
            self.block.reads.append(value)
        return value

    def complete_if(self, arms: tuple[Arm, ...], orelse: tuple[Stmt, ...]) -> None:
        """Give the last statement of the current block, which has these arms, one for the other case."""
        self.block.statements[-1] = nested(arms, orelse)
        self.block.arms = ()

    def extend_if(self, arms: tuple[Arm, ...]) -> None:
        """Give the last statement of the current block one more arm, the last of these."""
        self.block.statements[-1] = nested(arms, ())
        self.block.arms = arms
        self.block.reads = []

    def take_reads(self) -> tuple[tuple[Stmt, ...], list[Any]]:
        """Remove what was read since the last if statement: its lets, and the values."""
        block = self.block
        reads, block.reads = block.reads, []
        lets = tuple(block.statements[len(block.statements) - len(reads) :])
        del block.statements[len(block.statements) - len(reads) :]
        return lets, reads

    def let(self, given: str, value: Expr, source: Source) -> Local:
        """Bind `value` to a new immutable local named `given` or, when that is taken, `given` with a number."""
        name = self.name_local(given, source)
        self.append(Let(name, value, source))
        return Local(value.type, name, source)

    # ---- blocks

    def enter(self, kind: BlockKind, source: Source) -> Block:
        """Open a block inside the current one."""
        if self.block.depth == MAX_NESTING:
            raise program_error(f"blocks are nested more than {MAX_NESTING} levels deep", source)
        self.block = Block(kind, source, self.block, self.block.depth + 1)
        return self.block

    def leave(self, block: Block, source: Source) -> tuple[Stmt, ...]:
        """Close the innermost block and return its statements."""
        if self.block is not block or block.parent is None:
            inner = self.block
            raise program_error(
                f"the {block.kind} block of line {block.source[1]} ends before the {inner.kind} block of line "
                f"{inner.source[1]} inside it",
                source,
            )
        block.is_open = False
        self.block = block.parent
        return tuple(block.statements)

    def discard(self, block: Block) -> None:
        """Forget a block whose with-statement an exception ended, and any block still open inside it."""
        inner: Block | None = self.block
        while inner is not None and inner.depth >= block.depth:
            inner.is_open = False
            inner = inner.parent
        if inner is not None and block.depth <= self.block.depth:
            self.block = inner

    def in_loop(self) -> bool:
        """Whether `break_` and `continue_` are inside a loop here."""
        block: Block | None = self.block
        while block is not None and block.kind not in ("for_", "while_", "while_ test"):
            block = block.parent
        return block is not None and block.kind != "while_ test"

    # ---- names

    def declare(self, name: str, what: str, source: Source) -> str:
        """Take exactly this name, for a parameter: calls use it as a keyword."""
        check_name(name, what, source)
        if name in self._names:
            raise program_error(f"{what} {name}: the name is taken (declare parameters before locals)", source)
        self._names.add(name)
        return name

    def name_local(self, given: str, source: Source) -> str:
        """A free name that is `given` or begins with it."""
        check_name(given, "local", source)
        name = given
        while name in self._names:
            number = self._suffixes.get(given, 0) + 1
            self._suffixes[given] = number
            name = f"{given}_{number}"
        self._names.add(name)
        return name


def check_name(name: str, what: str, source: Source) -> None:
    """Raises ProgramError unless the text format can hold the name, TypeError if it is not a string."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} must be a str, not {type_name(name)}")
    if not is_identifier(name):
        raise program_error(
            f"{what} {name!r}: a name is ASCII letters, digits and _, and does not begin with a digit", source
        )
    if name in RESERVED and (what, name) != ("local", "lane_id"):
        raise program_error(f"{what} {name}: the name is a keyword of the text format", source)


class _Running(thread_local):
    scope: Scope | None = None


# The scope that runs on this host thread: what belongs to no builder gets its value there.
running = _Running()
