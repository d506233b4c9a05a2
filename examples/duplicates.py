"""Equal expressions in Python files: which are written more than once, found by the closure of a table on a device.

Each node of an expression is a row. Its operation is the class of the node with all that it holds but other rows
(names, constants, operators, the lengths of lists), and its children are the rows that it holds. Two rows are equal if
their operations and their children are; the answer is compared with that of a dictionary in Python, and with NumPy's.

For a million rows an H200 takes 0.7 ms, or 0.13 s with the copy and the time to compile, the dictionary 0.9 s, and the
parser 8.6 s: it pays where there is a table already.

Run it: `python examples/duplicates.py --rows 20000 --device auto`, or with the files and folders to read.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import sysconfig
import tokenize
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc
from vyre_cuda import egraph

T = TypeVar("T")
ROOT = -1  # the parent of a whole expression
WIDTH = 64  # of the text of an expression
SPAN = ("lineno", "col_offset", "end_lineno", "end_col_offset")


class Rows:
    """The nodes of expressions; each comes before those that it holds."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.ops, self.offsets, self.lengths, self.children = (array("I") for _ in range(4))
        self.parents = array("i")
        self.files: list[Path] = []
        self.file = array("i")
        self.spans = array("i")  # of each row those of SPAN, 0 where a node has none

    def __len__(self) -> int:
        return len(self.ops)

    def add(self, expression: ast.expr) -> None:
        """All nodes of an expression in the last file."""
        first = len(self)
        nodes: list[ast.AST] = [expression]
        self.parents.append(ROOT)
        for node in nodes:  # which grows meanwhile
            kind, held = contents(node)
            row, start = len(self), first + len(nodes)
            self.ops.append(self.numbers.setdefault(kind, len(self.numbers)))
            self.offsets.append(len(self.children))
            self.lengths.append(len(held))
            self.children.extend(range(start, start + len(held)))
            self.parents.extend([row] * len(held))
            self.file.append(len(self.files) - 1)
            self.spans.extend(getattr(node, name, None) or 0 for name in SPAN)
            nodes += held

    def table(self) -> egraph.Table:
        return egraph.Table(*(np.array(column, np.uint32) for column in self.columns))

    @property
    def columns(self) -> tuple[array[int], ...]:
        return self.ops, self.offsets, self.lengths, self.children


def contents(node: ast.AST) -> tuple[tuple[Any, ...], list[ast.AST]]:
    """What distinguishes a node from others, and the nodes that it holds which are rows too."""
    kind: list[Any] = [type(node)]
    held: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        many = isinstance(value, list)
        if many:
            kind.append(len(value))
        for each in value if many else (value,):
            if isinstance(each, ast.AST) and each._fields:
                held.append(each)
                kind.append(ast.AST)
            else:  # an operator, a name or a constant, of which 1, 1.0 and True are equal in Python
                kind.append(type(each) if isinstance(each, ast.AST) else (type(each), each))
    return tuple(kind), held


def expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions of a file that no other one holds."""
    others = [tree]
    for node in others:  # which grows meanwhile
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield child
            else:
                others.append(child)


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files given, and those in the folders given, but for packages that are installed in them."""
    for path in paths:
        if not path.is_dir():
            yield path
        for folder, inner, names in os.walk(path):
            inner[:] = sorted(set(inner) - {"site-packages"})
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def rows_of(paths: Iterable[Path], most: int) -> tuple[Rows, int]:
    """The rows of these files, to the end of the expression that is the `most`-th; how many could not be parsed."""
    rows, skipped = Rows(), 0
    for path in files(paths):
        if len(rows) >= most:
            break
        try:
            with tokenize.open(path) as file, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the files, not of this program
                tree = ast.parse(file.read())
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # test files that are wrong or deep on purpose
            skipped += 1
            continue
        rows.files.append(path)
        for each in expressions(tree):
            if len(rows) >= most:
                break
            rows.add(each)
    return rows, skipped


def python_classes(rows: Rows) -> npt.NDArray[np.uint32]:
    """For each row the least one that is equal to it, by a dictionary: children come before their parents."""
    ops, offsets, lengths, children = (column.tolist() for column in rows.columns)
    known: dict[tuple[int, ...], int] = {}
    number = [0] * len(rows)
    least = [0] * len(rows)
    for row in range(len(rows) - 1, -1, -1):
        offset = offsets[row]
        key = (ops[row], *[number[child] for child in children[offset : offset + lengths[row]]])
        number[row] = known.setdefault(key, len(known))
        least[number[row]] = row
    return np.array(least, np.uint32)[np.array(number, np.int64)] if len(rows) else np.empty(0, np.uint32)


class Repeated(NamedTuple):
    """An expression that is written in several places."""

    nodes: int
    places: int
    row: int


def repeated(rows: Rows, classes: npt.NDArray[np.uint32], top: int) -> list[Repeated]:
    """The largest ones, without those that are written only inside a larger one."""
    parents = np.array(rows.parents, np.int64)
    size = [1] * len(rows)
    for row in range(len(rows) - 1, -1, -1):
        if rows.parents[row] != ROOT:
            size[rows.parents[row]] += size[row]
    places = np.bincount(classes, minlength=len(rows))
    inside = (parents != ROOT) & (places[classes[parents]] > 1)
    whole = np.unique(classes[(places[classes] > 1) & ~inside])
    found = [Repeated(size[row], int(places[row]), row) for row in whole.tolist() if rows.spans[4 * row]]
    return sorted(found, key=lambda each: (-each.nodes, -each.places, each.row))[:top]


def shown(rows: Rows, row: int) -> str:
    """The beginning of an expression's text, and where it is."""
    path = rows.files[rows.file[row]]
    line, column, last, end = rows.spans[4 * row : 4 * row + 4]
    with tokenize.open(path) as file:
        lines = [each.encode() for each in file.read().splitlines(keepends=True)[line - 1 : last]]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][column:]
    text = " ".join(b"".join(lines).decode(errors="replace").split())
    return f"{text if len(text) <= WIDTH else text[: WIDTH - 3] + '...'}  {path.name}:{line}"


def waited(closure: egraph.Closure[vc.DeviceArray]) -> egraph.Closure[vc.DeviceArray]:
    """The closure after the device has finished it."""
    assert closure.converged
    return closure


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and its milliseconds."""
    start = perf_counter()
    result = work()
    return result, (perf_counter() - start) * 1e3


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="equal expressions in Python files, checked against a dictionary")
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders (default: the standard library)")
    parser.add_argument("--rows", type=int, default=20_000, help="rows after which to stop reading (default: 20000)")
    parser.add_argument("--top", type=int, default=8, help="how many repeated expressions to show (default: 8)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)

    paths = options.paths or [Path(sysconfig.get_path("stdlib"))]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        parser.error(f"there is no {missing[0]}")
    (rows, skipped), reading = timed(lambda: rows_of(paths, options.rows))
    table, building = timed(rows.table)
    with vc.Device(options.device) as device:
        print(f"{len(rows):,} rows of {len(rows.files)} files ({skipped} not parsed) on {device.properties.name}")
        _, first = timed(lambda: egraph.close(table, device).converged)  # compiles, and copies the table
        closure, device_ms = timed(lambda: waited(egraph.close(table, device)))
        classes = closure.classes.numpy()
    expected, python_ms = timed(lambda: python_classes(rows))
    oracle, numpy_ms = timed(lambda: egraph.close_numpy(table))

    print(f"{np.unique(classes).size:,} classes after {closure.rounds} rounds")
    print("parsing      table   device at first   device again   dictionary   NumPy")
    print(f"{reading:7.0f}{building:11.1f}{first:18.1f}{device_ms:15.3f}{python_ms:13.1f}{numpy_ms:8.0f}  ms")
    print("nodes  places  expression")
    for each in repeated(rows, classes, options.top):
        print(f"{each.nodes:5}{each.places:8}  {shown(rows, each.row)}")
    same = {
        "the dictionary": np.array_equal(classes, expected),
        "NumPy": np.array_equal(classes, oracle.classes) and closure.rounds == oracle.rounds,
    }
    wrong = [name for name in same if not same[name]]
    if wrong:
        print(f"differs from {' and '.join(wrong)}", file=sys.stderr)
        return 1
    print("the same classes as the dictionary's and NumPy's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
