"""The mathematical functions of the table: within their bounds, on special values as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_cuda.functions import table
from vyre_cuda.ir.ops import OPS
from vyre_cuda.ir.types import Type, bf16, f16, f32
from vyre_cuda.testing.accuracy import Array, worst
from vyre_cuda.testing.conformance import Count

from .grid import computed, operand_types, operands

pytestmark = pytest.mark.conformance

FUNCTIONS = [(name, type_) for name in table.ARITY for type_ in OPS[name].types]


def bound(name: str, type_: Type) -> float:
    return table.HALF_ULP if type_ in (f16, bf16) else table.exact_form(name, type_.name).ulp


def spread(type_: Type, arity: int) -> list[Array]:
    """Bit patterns at even distances, for two operands in an order that mixes them."""
    if type_.bits == 16:
        return []
    step = 1 << (type_.bits - 18)
    rng = np.random.default_rng(5)
    patterns = np.arange(0, 1 << type_.bits, step, np.uint64) + rng.integers(0, step, 1 << 18, np.uint64)
    column = patterns.astype(type_.unsigned).view(type_.storage)
    return [column, *(rng.permutation(column) for _ in range(arity - 1))]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "type_"), FUNCTIONS, ids=str)
def test_function_is_within_its_bound(name: str, type_: Type, count_interpreter: Count) -> None:
    types = operand_types(name, type_)
    columns = operands(types)
    more = spread(type_, len(types))
    if more:
        columns = [np.concatenate([c, s]) for c, s in zip(columns, more, strict=True)]

    found = computed(name, types, columns)

    off, place = worst(name, type_, columns, found)
    assert off <= bound(name, type_), place
    count_interpreter("ops", name, type_.name, found.size)


@pytest.mark.parametrize("name", [name for name, type_ in FUNCTIONS if type_ is f32])
def test_function_of_special_values_is_numpys(name: str) -> None:
    """Where the result is exact: infinities, NaN, zeros of either sign."""
    types = operand_types(name, f32)
    special = [0.0, 1.0, np.inf, np.nan, 2.0**-149, 3.4028234663852886e38]
    grid = np.array(special + [-x for x in special], np.float32)
    columns = [c.ravel() for c in np.meshgrid(*[grid] * len(types))]

    found = computed(name, types, columns)

    off, place = worst(name, f32, columns, found)
    assert off <= bound(name, f32), place
