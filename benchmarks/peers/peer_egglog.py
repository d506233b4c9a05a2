"""The closure of a table by egglog: rows become terms by two rules, and its rebuild merges what follows.

Needs `egglog.bindings`, from the package egglog or from the file that $EGGLOG_BINDINGS names.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

PROGRAM = """
(sort T)
(constructor Row (i64) T)
(constructor Leaf (i64) T)
(constructor Node (i64 T T) T)
(relation leaf (i64 i64))
(relation node (i64 i64 i64 i64))
(rule ((leaf i op)) ((union (Row i) (Leaf op))))
(rule ((node i op a b)) ((union (Row i) (Node op (Row a) (Row b)))))
"""


def bindings() -> Any | None:
    """The module, or None where it is not installed."""
    path = os.environ.get("EGGLOG_BINDINGS")
    if path is None:
        return importlib.import_module("egglog.bindings") if importlib.util.find_spec("egglog") else None
    loader = importlib.machinery.ExtensionFileLoader("bindings", path)
    spec = importlib.util.spec_from_loader("bindings", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def closed(
    module: Any, folder: str, op: npt.NDArray[np.uint32], left: npt.NDArray[np.uint32], right: npt.NDArray[np.uint32]
) -> tuple[float, float, int]:
    """Seconds to load the rows, seconds to close them, and the number of distinct terms. Leaves have no `left`."""
    rows = np.arange(op.size)
    is_leaf = left == 0xFFFFFFFF
    tables = {
        "leaf": np.stack([rows, op], axis=1)[is_leaf],
        "node": np.stack([rows, op, left, right], axis=1)[~is_leaf],
    }
    graph = module.EGraph()
    graph.run_program(*graph.parse_program(PROGRAM))
    words = []
    for name, table in tables.items():
        file = Path(folder) / f"{name}.csv"
        np.savetxt(file, table, "%d", "\t")
        words.append(f'(input {name} "{file}")')
    begin = perf_counter()
    graph.run_program(*graph.parse_program("\n".join(words)))
    loaded = perf_counter()
    graph.run_program(*graph.parse_program("(run 1)"))
    ended = perf_counter()
    sizes = graph.run_program(*graph.parse_program("(print-size Leaf) (print-size Node)"))
    return loaded - begin, ended - loaded, sum(size.size for size in sizes)
