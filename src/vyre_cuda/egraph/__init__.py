"""Congruence of tables of terms: which rows are equal, once their children are.

A table has a row for each term: an operation, and the classes of its children. `close` finds the least congruence on
a device, and `close_numpy` the same arrays in NumPy.
"""

from __future__ import annotations

from vyre_cuda.egraph.closure import close
from vyre_cuda.egraph.oracle import close_numpy
from vyre_cuda.egraph.result import Closure
from vyre_cuda.egraph.signature import signatures
from vyre_cuda.egraph.table import Table

__all__ = ["Closure", "Table", "close", "close_numpy", "signatures"]
