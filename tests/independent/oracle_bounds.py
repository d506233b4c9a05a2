"""What a program may give where results are bounded and not defined to the bit: `fast`, `max_ulp`, functions.

The programs are straight lines. Operands are exact; only what is stored may come from an op whose result is bounded,
or from a product in a sum, which `fast` may round once or twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from float_ops import fused, quotient, square_root
from number_formats import FLOATS, ROUND, SMALLEST_NORMAL_F32, flush_f32, round_f32_flushing, to_bits
from oracle import Oracle
from program_tree import Expr, Program, Value

# Of the op table: f32 ops of `fast`, in ULP.
APPROXIMATE = {"divide": 2.0, "reciprocal": 1.0, "sqrt": 2.0}
_FAST_FUNCTION, _EXACT_FUNCTION, _HALF_FUNCTION = 8.0, 2.0, 0.51
# References are computed to 53 bits, with an error that is nothing in ULP of f32.
_SLACK = 1e-6
_UNITS = {"f16": (11, -24), "bf16": (8, -133), "f32": (24, -149)}
_LARGEST = {"f16": 65504.0, "bf16": (2.0 - 2.0**-7) * 2.0**127, "f32": (2.0 - 2.0**-23) * 2.0**127}


def _sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x)) if x > 0 else np.exp(x) / (1 + np.exp(x))


def _power(x: float, y: float) -> float:
    """As C has it: NumPy takes a root where y is 0.5, which is -0.0 of -0.0 and NaN of -inf."""
    return abs(x) if y == 0.5 and (x == 0 or math.isinf(x)) else float(np.power(x, y))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in (
            *("exp2", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos"),
            *("arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "arctan2", "hypot"),
        )
    },
    "power": _power,
    "erf": math.erf,
    "rsqrt": lambda x: quotient(1.0, square_root(x)),
    "sigmoid": _sigmoid,
    "divide": quotient,
    "reciprocal": lambda x: quotient(1.0, x),
    "sqrt": square_root,
}


@dataclass(frozen=True, slots=True)
class Allowed:
    """One of `values`; with `ulp` within so many ULP of one. `loses`: what is subnormal may come out as zero."""

    type: str
    values: tuple[Value, ...]
    ulp: float | None = None
    loses: bool = False

    def admits(self, found: Value) -> bool:
        if self.ulp is None:
            return any(to_bits(self.type, value) == to_bits(self.type, found) for value in self.values)
        return any(self._is_near(float(value), float(found)) for value in self.values)

    def _is_near(self, exact: float, found: float) -> bool:
        if exact != exact or found != found:
            return exact != exact and found != found
        if exact == 0 or found == 0 or math.isinf(exact):
            return self._is_near_zero_or_infinite(exact, found)
        precision, lowest = _UNITS[self.type]
        unit = math.ldexp(1.0, max(math.frexp(exact)[1] - precision, lowest))
        assert self.ulp is not None
        reach = (self.ulp + _SLACK) * unit
        if math.isinf(found):
            return found * exact > 0 and abs(exact) + reach > _LARGEST[self.type]
        return abs(found - exact) <= reach or (self.loses and found * exact > 0 and self._is_lost(exact, found))

    def _is_near_zero_or_infinite(self, exact: float, found: float) -> bool:
        if exact == 0 or math.isinf(exact):
            return found == exact and math.copysign(1.0, found) == math.copysign(1.0, exact)
        assert self.ulp is not None
        smallest = math.ldexp(1.0, _UNITS[self.type][1])
        is_small = abs(exact) <= (self.ulp + _SLACK) * smallest or (self.loses and self._is_lost(exact, found))
        return is_small and math.copysign(1.0, found) == math.copysign(1.0, exact)

    def _is_lost(self, exact: float, found: float) -> bool:
        """Both are about the smallest normal number, or below it."""
        edge = SMALLEST_NORMAL_F32 * (1 + 2.0**-20)
        return abs(exact) <= edge and abs(found) <= edge


class BoundedOracle:
    """What may be stored, for each buffer and element: `run` gives one Allowed for each."""

    def __init__(self, program: Program, options: dict[str, Any]) -> None:
        self.program = program
        self.precision = options.get("precision", "ieee")
        self.max_ulp = options.get("max_ulp")
        self.flushes = self.precision != "ieee"
        self._oracle = Oracle(program, flushes=self.flushes)
        self._thread = next(iter(self._oracle.threads()))

    def run(self) -> dict[str, list[Allowed]]:
        found = {
            name: [Allowed(self.program.buffers[name].type, (value,)) for value in self.program.buffers[name].values]
            for name in self.program.results
        }
        for statement in self.program.body:
            if statement.kind == "store":
                index, value = statement.exprs
                found[statement.word][int(self._exact(index))] = self._allowed(value)
            else:
                self._oracle.statement(statement)(self._thread)
        return found

    def _exact(self, expr: Expr) -> Any:
        return self._oracle.exprs.compile(expr)(self._thread)

    def _allowed(self, expr: Expr) -> Allowed:
        if expr.kind == "op" and expr.type in FLOATS:
            name = str(expr.word)
            bound = self._bound(name, expr.type)
            if bound is not None:
                return self._near(expr, name, bound)
            if name in ("add", "subtract") and self.precision == "fast" and expr.type in ("f32", "f64"):
                return Allowed(expr.type, tuple(self._sums(expr)))
        return Allowed(expr.type, (self._exact(expr),))

    def _bound(self, name: str, type_: str) -> float | None:
        """In ULP; None for what is rounded correctly."""
        if name in APPROXIMATE:
            if type_ != "f32" or (self.precision != "fast" and self.max_ulp is None):
                return None
            bound = APPROXIMATE[name]
            return bound if self.max_ulp is None or bound <= self.max_ulp else None
        if name not in FUNCTIONS:
            return None
        if type_ != "f32":
            return _HALF_FUNCTION
        if self.max_ulp is not None:
            return float(self.max_ulp)
        return _FAST_FUNCTION if self.precision == "fast" else _EXACT_FUNCTION

    def _near(self, expr: Expr, name: str, bound: float) -> Allowed:
        operands = [float(self._exact(operand)) for operand in expr.operands]
        given = [operands]
        loses = expr.type == "f32" and (self.flushes or self.max_ulp is not None)
        if loses:
            given.append([flush_f32(operand) for operand in operands])
        with np.errstate(all="ignore"):
            values = tuple(float(FUNCTIONS[name](*map(np.float64, some))) for some in given)
        return Allowed(expr.type, values, bound, loses)

    def _sums(self, expr: Expr) -> list[float]:
        """A sum as it is written, and each way in which a product in it is not rounded by itself."""
        left, right = expr.operands
        sign = -1.0 if expr.word == "subtract" else 1.0
        found = [self._exact(expr)]
        for product, other, signs in ((left, right, (1.0, sign)), (right, left, (sign, 1.0))):
            if product.kind == "op" and product.word == "multiply":
                x, y = (self._operand(operand) for operand in product.operands)
                found.append(
                    self._rounded(
                        fused(signs[0] * x, y, signs[1] * self._operand(other), to_odd=self._odd(expr)), expr.type
                    )
                )
        return found

    def _operand(self, expr: Expr) -> float:
        value = float(self._exact(expr))
        return flush_f32(value) if self.flushes and expr.type == "f32" else value

    @staticmethod
    def _odd(expr: Expr) -> bool:
        return expr.type != "f64"

    def _rounded(self, value: float, type_: str) -> float:
        return round_f32_flushing(value) if type_ == "f32" and self.flushes else ROUND[type_](value)
