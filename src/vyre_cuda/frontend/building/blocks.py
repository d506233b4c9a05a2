"""Branches and loops that rewritten code opens and closes, statement by statement."""

from __future__ import annotations

from typing import Any

from vyre_cuda.ir.builder.blocks import BlockStatement, ForBlock, WhileBlock
from vyre_cuda.ir.builder.builder import Builder


class DeviceBranch:
    """An `if` on the device: both arms are built."""

    __slots__ = ("_builder", "_open", "_test")

    def __init__(self, builder: Builder, test: Any) -> None:
        self._builder = builder
        self._test = test
        self._open: BlockStatement | None = None

    def then(self) -> bool:
        return self._enter(self._builder.if_(self._test))

    def otherwise(self) -> bool:
        return self._enter(self._builder.else_())

    def end(self) -> None:
        assert self._open is not None
        self._open.__exit__(None, None, None)

    def _enter(self, block: Any) -> bool:
        block.__enter__()
        self._open = block
        return True


class PythonBranch:
    """An `if` on a value that Python knows: one arm is built."""

    __slots__ = ("_test",)

    def __init__(self, test: bool) -> None:
        self._test = test

    def then(self) -> bool:
        return self._test

    def otherwise(self) -> bool:
        return not self._test

    def end(self) -> None:
        pass


class Loop:
    """A loop on the device."""

    __slots__ = ("_block",)

    def __init__(self, block: ForBlock | WhileBlock) -> None:
        self._block = block

    def begin(self) -> Any:
        """Open the body; the counter of a `for`."""
        return self._block.__enter__()

    def end(self) -> None:
        self._block.__exit__(None, None, None)
