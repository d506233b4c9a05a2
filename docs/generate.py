"""Writes the op table of docs/programs.md from the op table of the package.

Run it after a change of ir/ops.py: `python docs/generate.py`. With --check nothing is written, and the exit code is 1
when the page is not what this would write.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from vyre_cuda.ir.ops import OPS, Op
from vyre_cuda.ir.types import FLOATS, INTEGERS, NUMBERS, TYPES, Type

PAGE = Path(__file__).with_name("programs.md")
BEGIN = "<!-- op table: begin; written by docs/generate.py -->\n"
END = "<!-- op table: end -->\n"

# How a bar is written inside a cell.
BAR = "\\|"

_GROUPS = {TYPES: "all", NUMBERS: "numbers", INTEGERS: "integers", FLOATS: "floats"}
_RESULTS = {"same": "as the operands", "bool": "`bool_`", "explicit": "as named"}
_OPERANDS = ("x", "y", "z")
_UNARY_SYMBOLS = {"negative": "-x", "invert": "~x", "logical_not": "~x", "absolute": "abs(x)"}


def current(page: str) -> str:
    """The page with the op table as it is now. ValueError when the page has no place for it."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no op table: the lines that begin and end it are missing")
    return f"{head}{BEGIN}\n{op_table()}\n{END}{tail}"


def op_table() -> str:
    """Every op as a row of a Markdown table, in the order of the package's table."""
    lines = ["| write | or | operands | result | rule |", "| --- | --- | --- | --- | --- |"]
    for op in OPS.values():
        cells = (_call(op), _operator(op), _types(op.types), _RESULTS[op.result], op.rule)
        lines.append(f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _call(op: Op) -> str:
    if op.name == "cast":
        return "`vc.f32(x)`, `vc.u32(x)`, ..."
    if op.result == "explicit":
        return f"`vc.{op.name}(x, vc.u32)`"
    operands = ("c", "x", "y") if op.leading_bool else _OPERANDS[: op.arity]
    return f"`vc.{op.name}({', '.join(operands)})`"


def _operator(op: Op) -> str:
    if op.name in _UNARY_SYMBOLS:
        return f"`{_UNARY_SYMBOLS[op.name]}`"
    return f"`x {op.symbol} y`" if op.symbol else ""


def _types(types: tuple[Type, ...]) -> str:
    return _GROUPS.get(types, ", ".join(f"`{type_}`" for type_ in types))


def main(argv: Sequence[str] | None = None) -> int:
    check = "--check" in (sys.argv[1:] if argv is None else argv)
    before = PAGE.read_text(encoding="utf-8")
    after = current(before)
    if before == after:
        return 0
    if check:
        print(f"{PAGE.name} does not have the op table of today: run python docs/generate.py", file=sys.stderr)
        return 1
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
