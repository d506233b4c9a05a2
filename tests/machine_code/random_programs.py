"""Draws small programs that a compiler folds, as program text, and arguments for them.

A program is one thread's: lets of one operation each, whose operands are earlier lets, loaded elements, scalars,
constants at the edges of their types, choices of two constants and conversions; some lets stand in a branch or in a
short loop, and some values go through an array of the thread. The bits of a NaN are nobody's business, so what reads
bits or a sign takes 1.0 instead of one.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import TYPES, Type
from vyre_cuda.testing.edges import EDGES, from_bits

_TYPES: dict[str, Type] = {type_.name: type_ for type_ in TYPES}
_FLOATS = ("f32", "f64", "f16", "bf16")
_INTEGERS = tuple(name for name in _TYPES if name[0] in "iu")
# The types of the results of a program, drawn together.
FOCUSES: dict[str, tuple[str, ...]] = {
    "integer": ("i32", "u32"),
    "long": ("i64", "u64", "i32"),
    "narrow": ("u8", "i8", "u16", "i16", "i32"),
    "float": ("f32", "f32", "bool_", "i32"),
    "double": ("f64", "bool_", "f64", "i64"),
    "half": ("f16", "bf16", "f32", "bool_"),
    "bool": ("bool_",),
    "mixed": tuple(_TYPES),
}
_FLOAT_OPS = (
    *("absolute", "negative", "sign", "trunc", "rint", "floor", "ceil"),
    *("add", "subtract", "multiply", "fmin", "fmax", "minimum", "maximum", "fmin", "fmax", "absolute", "negative"),
    *("fma", "copysign", "where", "where", "where", "bits", "cast", "cast", "clamp", "clamp"),
)
_INTEGER_OPS = (
    *("invert", "negative", "absolute", "sign"),
    *("add", "subtract", "multiply", "add", "subtract", "multiply", "minimum", "maximum", "minimum", "maximum"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "add_saturate", "subtract_saturate", "multiply_high"),
    *("shift", "shift", "shift", "where", "where", "bits", "cast", "cast", "cast", "integer_power"),
)
_TRUTH_OPS = (
    *("logical_and", "logical_or", "logical_xor", "logical_and", "logical_or", "logical_not", "where"),
    *("less", "less_equal", "equal", "not_equal", "less", "less_equal", "equal", "not_equal"),
    *("isnan", "isinf", "isfinite", "signbit", "cast"),
)
# Those that compilers have rules for.
_COMMON_FLOATS = ("0.0", "-0.0", "1.0", "-1.0", "nan", "inf", "-inf", "0.5", "2.0", "255.0")
_COMMON_INTEGERS = (0, 1, 2, 3, 7, 31, 127)
_ONE_OPERAND = {"absolute", "negative", "sign", "trunc", "rint", "floor", "ceil", "invert", "logical_not"}
ELEMENTS = 3


@dataclass(slots=True)
class _Drawing:
    rng: random.Random
    focus: tuple[str, ...]
    # How many elements of a buffer are operands: the fewer, the more often two operations have the same ones.
    elements: int
    values: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _TYPES})
    loads: dict[str, tuple[str, int]] = field(default_factory=dict)
    scalars: dict[str, str] = field(default_factory=dict)
    arrays: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    drawn: int = 0

    # ---- operands ----

    def operand(self, type_: str) -> str:
        rng = self.rng
        if self.values[type_] and rng.random() < 0.55:
            return rng.choice(self.values[type_][-6:])
        kind = rng.random()
        if type_ == "bool_" or kind > 0.65:
            return self.given(type_)
        if kind < 0.45:
            return self.constant(type_)
        if kind < 0.6:
            return f"where({self.given('bool_')}, {self.constant(type_)}, {self.constant(type_)})"
        return f"cast.{type_}({self.given(self.other(type_))})"

    def other(self, type_: str) -> str:
        """Another type, more often one of the program's own."""
        names = [name for name in (*self.focus, *self.focus, *_TYPES) if name != type_]
        return self.rng.choice(names)

    def given(self, type_: str) -> str:
        """An element or a scalar, of which the compiler knows nothing."""
        place = self.rng.randrange(self.elements)
        if self.rng.random() < 0.15:
            name = f"s_{type_}"
            self.scalars[name] = type_
        else:
            name = f"x{place}_{type_}"
            self.loads[name] = (type_, place)
        return name

    def constant(self, type_: str) -> str:
        kind = self.rng.random()
        if kind < 0.5:
            return f"{type_}:{self.rng.choice(_COMMON_FLOATS if type_ in _FLOATS else _COMMON_INTEGERS)}"
        if type_ in _INTEGERS and kind < 0.6:
            return literal(type_, self.rng.getrandbits(_TYPES[type_].bits))
        return literal(type_, self.rng.choice(EDGES[_TYPES[type_]]))

    def number(self, type_: str) -> str:
        """Not a NaN."""
        x = self.operand(type_)
        return f"where(isnan({x}), {type_}:1.0, {x})"

    # ---- operations ----

    def node(self, type_: str) -> str:
        if type_ == "bool_":
            return self._truth()
        return self._float(type_) if type_ in _FLOATS else self._integer(type_)

    def _plain(self, op: str, type_: str) -> str:
        count = 1 if op in _ONE_OPERAND else 3 if op == "fma" else 2
        return f"{op}({', '.join(self.operand(type_) for _ in range(count))})"

    def _where(self, type_: str) -> str:
        return f"where({self.operand('bool_')}, {self.operand(type_)}, {self.operand(type_)})"

    def _cast(self, type_: str) -> str:
        return f"cast.{type_}({self.operand(self.other(type_))})"

    def _float(self, type_: str) -> str:
        op = self.rng.choice(_FLOAT_OPS)
        if op == "where":
            return self._where(type_)
        if op == "cast":
            return self._cast(type_)
        if op == "bits":
            bits = _TYPES[type_].bits
            return f"bitcast.{type_}({self.operand(self.rng.choice((f'i{bits}', f'u{bits}')))})"
        if op == "copysign":
            return f"copysign({self.operand(type_)}, {self.number(type_)})"
        if op == "clamp":
            inner, outer = self.rng.choice((("fmin", "fmax"), ("fmax", "fmin")))
            return f"{outer}({inner}({self.operand(type_)}, {self.constant(type_)}), {self.constant(type_)})"
        return self._plain(op, type_)

    def _integer(self, type_: str) -> str:
        op = self.rng.choice(_INTEGER_OPS)
        bits = _TYPES[type_].bits
        if op == "where":
            return self._where(type_)
        if op == "shift":
            return self._shift(type_)
        floats = {16: ("f16", "bf16"), 32: ("f32",), 64: ("f64",)}.get(bits, ())
        if op == "bits" and floats:
            return f"bitcast.{type_}({self.number(self.rng.choice(floats))})"
        if op in ("bits", "cast"):
            return self._cast(type_)
        if (op in ("absolute", "sign") and type_[0] == "u") or (op == "multiply_high" and bits < 32):
            op = "invert"
        return self._plain(op, type_)

    def _shift(self, type_: str) -> str:
        op = self.rng.choice(("left_shift", "right_shift", "rotate_left", "left_shift", "right_shift"))
        bits = _TYPES[type_].bits
        count = self.rng.choice((0, 1, 2, bits // 4, bits // 2, bits - 8, bits - 2, bits - 1, bits, bits + 8, 7))
        by = f"{type_}:{count}" if self.rng.random() < 0.8 else self.operand(type_)
        return f"{op}({self.operand(type_)}, {by})"

    def _truth(self) -> str:
        op = self.rng.choice(_TRUTH_OPS if self.focus != ("bool_",) else _TRUTH_OPS[:7])
        if op == "where":
            return self._where("bool_")
        if op == "cast":
            return self._cast("bool_")
        if op.startswith("logical"):
            return self._plain(op, "bool_")
        floats = [name for name in self.focus if name in _FLOATS] or ["f32"]
        if op in ("isnan", "isinf", "isfinite"):
            return f"{op}({self.operand(self.rng.choice(floats))})"
        if op == "signbit":
            return f"signbit({self.number(self.rng.choice(floats))})"
        type_ = self.rng.choice([name for name in self.focus if name != "bool_"] or ["i32"])
        return self._plain(op, type_)

    # ---- statements ----

    def let(self, indent: str = "") -> tuple[str, str]:
        """A new value and its type."""
        type_ = self.rng.choice(self.focus)
        name = f"v{self.drawn}"
        self.drawn += 1
        self.lines.append(f"{indent}let {name} = {self.node(type_)}")
        self.values[type_].append(name)
        return name, type_

    def variable(self) -> tuple[str, str]:
        type_ = self.rng.choice(self.focus)
        name = f"w{self.drawn}"
        self.drawn += 1
        self.lines.append(f"var {name} = {self.operand(type_)}")
        return name, type_

    def assigned(self, name: str, type_: str) -> None:
        """A few lets of an inner block, and the variable set to what is made of them."""
        kept = {each: list(names) for each, names in self.values.items()}
        self.values[type_].append(name)
        for _ in range(self.rng.randint(0, 2)):
            self.let("  ")
        self.lines.append(f"  {name} = {self.node(type_)}")
        self.values = kept

    def branch(self) -> tuple[str, str]:
        name, type_ = self.variable()
        self.lines.append(f"if {self.operand('bool_')}")
        self.assigned(name, type_)
        if self.rng.random() < 0.5:
            self.lines.append("else")
            self.assigned(name, type_)
        return self._closed(name, type_)

    def loop(self) -> tuple[str, str]:
        """At most eight trips, over numbers near together or over most of the type."""
        rng = self.rng
        name, type_ = self.variable()
        counter = rng.choice(("i32", "u32", "i64", "u64"))
        limits = _TYPES[counter]
        step = rng.choice((1, 1, 2, 3, limits.maximum // 3, limits.maximum // 2, limits.maximum))
        start = rng.choice((0, 0, 1, limits.minimum, limits.maximum - rng.randint(0, 9)))
        trips = rng.choice((1, 1, 2, rng.randint(0, 8)))
        stop = min(start + trips * step + rng.randint(0, 1), limits.maximum)
        end = f"{counter}:{stop}" if rng.random() < 0.5 else f"minimum({self.given(counter)}, {counter}:{stop})"
        index = f"j{self.drawn}"
        self.lines.append(f"for {index} = {counter}:{start} to {end} step {counter}:{step}")
        self.values[counter].append(index)
        self.assigned(name, type_)
        self.values[counter].remove(index)
        return self._closed(name, type_)

    def array(self) -> tuple[str, str]:
        """An array of the thread, of one or two axes: some stores, perhaps out of bounds, and a load."""
        rng = self.rng
        type_, name = rng.choice(self.focus), f"a{self.drawn}"
        extents = rng.choice(((1,), (3,), (4,), (7,), (2, 3), (3, 2)))
        self.arrays.append(f"local {name}: {type_}[{', '.join(map(str, extents))}]")
        for _ in range(rng.randint(1, 3)):
            self.lines.append(f"store {name}[{self._place(extents)}], {self.operand(type_)}")
        result = f"v{self.drawn}"
        self.drawn += 1
        self.lines.append(f"let {result} = load({name}[{self._place(extents)}])")
        self.values[type_].append(result)
        return result, type_

    def _place(self, extents: tuple[int, ...]) -> str:
        """An index for each axis."""
        indices = []
        for extent in extents:
            kind = self.rng.choice(("i32", "u32", "i64", "u64"))
            known = f"{kind}:{self.rng.randint(0, extent)}"
            indices.append(known if self.rng.random() < 0.4 else f"remainder({self.given(kind)}, {kind}:{extent + 1})")
        return ", ".join(indices)

    def _closed(self, name: str, type_: str) -> tuple[str, str]:
        self.lines.append("end")
        result = f"v{self.drawn}"
        self.drawn += 1
        self.lines.append(f"let {result} = {name}")
        self.values[type_].append(result)
        return result, type_


def literal(type_: str, bits: int) -> str:
    """A constant of the program language."""
    value = from_bits(_TYPES[type_], [bits])[0]
    if type_ == "bool_":
        return f"bool_:{'true' if value else 'false'}"
    return f"{type_}:{float(value)!r}" if type_ in _FLOATS else f"{type_}:{int(value)}"


def draw_program(rng: random.Random, name: str) -> str:
    """The text of a program."""
    focus = rng.choice((*FOCUSES, "float", "bool"))
    drawing = _Drawing(rng, FOCUSES[focus], rng.randint(1, ELEMENTS))
    # A value that goes through a variable is one that the compiler sees through and the lowering does not.
    share = rng.choice((0.0, 0.1, 0.5))
    results = []
    for _ in range(rng.randint(2, 13)):
        inner = rng.random() < share
        results.append(rng.choice((drawing.branch, drawing.loop, drawing.array) if inner else (drawing.let,))())
    stored = rng.sample(results[:-1], min(len(results) - 1, rng.randint(0, 3))) + results[-1:]
    return _text(rng, name, drawing, stored)


def _text(rng: random.Random, name: str, drawing: _Drawing, stored: list[tuple[str, str]]) -> str:
    index = rng.choice(("u32", "u32", "u64", "i32", "i64"))
    lines = [f"program {name}", "block 1", f"index {index}", f"work {index}:1"]
    lines += [f"in x_{type_}: {type_}" for type_ in dict.fromkeys(type_ for type_, _ in drawing.loads.values())]
    lines += [f"scalar {scalar}: {type_}" for scalar, type_ in drawing.scalars.items()]
    lines += drawing.arrays
    counts = Counter(type_ for _, type_ in stored)
    lines += [f"out o_{type_}: {type_}[{index}:{count}]" for type_, count in counts.items()]
    lines.append("")
    lines += [f"let {x} = load(x_{type_}[{index}:{place}])" for x, (type_, place) in drawing.loads.items()]
    lines += drawing.lines
    places: Counter[str] = Counter()
    for value, type_ in stored:
        lines.append(f"store o_{type_}[{index}:{places[type_]}], {value}")
        places[type_] += 1
    return "\n".join(lines) + "\n"


def draw_arguments(rng: random.Random, program: Program, elements: int = ELEMENTS) -> list[Any]:
    """An array or number for each parameter but the outs; an array in eight is too short for all loads."""
    found = []
    for parameter in program.parameters:
        if parameter.kind == "out":
            continue
        type_ = parameter.type
        size = 1 if parameter.kind == "scalar" else rng.choice((*[elements] * 7, 1))
        bits = [
            rng.getrandbits(type_.bits) if type_.name in _INTEGERS and rng.random() < 0.2 else rng.choice(EDGES[type_])
            for _ in range(size)
        ]
        array = from_bits(type_, bits)
        found.append(array[0] if parameter.kind == "scalar" else array)
    return found
