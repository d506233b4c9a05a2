"""The mathematical functions as the benchmarks know them: CUDA's names, arguments of interest, programs of one op."""

from __future__ import annotations

from dataclasses import dataclass

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import FUNCTIONS


@dataclass(frozen=True)
class Subject:
    """One function. `f32` and `f64` are CUDA C++ in x (and y); timed arguments are uniform from `low` to `high`."""

    name: str
    f32: str
    f64: str
    low: float
    high: float

    @property
    def arity(self) -> int:
        return FUNCTIONS[self.name].arity


def _plain(name: str, cuda: str, low: float, high: float) -> Subject:
    operands = "(x, y)" if FUNCTIONS[name].arity == 2 else "(x)"
    return Subject(name, f"{cuda}f{operands}", f"{cuda}{operands}", low, high)


SUBJECTS = (
    _plain("exp", "exp", -20, 20),
    _plain("exp2", "exp2", -20, 20),
    _plain("expm1", "expm1", -5, 5),
    _plain("log", "log", 0, 1000),
    _plain("log2", "log2", 0, 1000),
    _plain("log10", "log10", 0, 1000),
    _plain("log1p", "log1p", -0.5, 10),
    _plain("sin", "sin", -100, 100),
    _plain("cos", "cos", -100, 100),
    _plain("tan", "tan", -100, 100),
    _plain("arcsin", "asin", -1, 1),
    _plain("arccos", "acos", -1, 1),
    _plain("arctan", "atan", -10, 10),
    _plain("arctan2", "atan2", -10, 10),
    _plain("sinh", "sinh", -10, 10),
    _plain("cosh", "cosh", -10, 10),
    _plain("tanh", "tanh", -5, 5),
    _plain("arcsinh", "asinh", -100, 100),
    _plain("arccosh", "acosh", 1, 100),
    _plain("arctanh", "atanh", -1, 1),
    _plain("power", "pow", 0, 10),
    _plain("hypot", "hypot", -100, 100),
    _plain("cbrt", "cbrt", -100, 100),
    _plain("erf", "erf", -4, 4),
    Subject("rsqrt", "rsqrtf(x)", "(1.0 / sqrt(x))", 0, 100),
    Subject(
        "sigmoid", "(1.0f / (1.0f + expf(-x)))", "(x < 0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x)))", -20, 20
    ),
)


def program(name: str, type_: vc.Type, block: int = 256) -> vc.Program:
    """out[i] = name(x[i]), or name(x[i], y[i])."""
    b = vc.Builder(name, block=block)
    inputs = [b.input("xy"[number], type_) for number in range(FUNCTIONS[name].arity)]
    out = b.output("out", type_, size=inputs[0].size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = getattr(vc, name)(*[x[i] for x in inputs])
    return b.build()


def chosen(words: str | None) -> tuple[Subject, ...]:
    """The subjects named, separated by commas; all without a word. ValueError for an unknown one."""
    if words is None:
        return SUBJECTS
    known = {subject.name: subject for subject in SUBJECTS}
    unknown = [word for word in words.split(",") if word not in known]
    if unknown:
        raise ValueError(f"no function {', '.join(unknown)}; there are {', '.join(known)}")
    return tuple(known[word] for word in words.split(","))
