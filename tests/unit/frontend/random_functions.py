"""Random small kernel functions, as source text."""

from __future__ import annotations

import random

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("u8", "i16", "i32", "u32", "i64")
_UNARY = {
    "float": ("vc.sqrt", "vc.floor", "abs", "-", "vc.exp", "vc.sin"),
    "int": ("abs", "-", "~", "vc.bitwise_count"),
}
_BINARY = {"float": ["+", "-", "*", "/"], "int": ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"]}
_COMPARE = ["<", "<=", ">", ">=", "==", "!="]


class RandomFunction:
    """`text` is a module with one kernel, which takes an array of each of two types and a scalar of the first."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.types = (self._random.choice(FLOATS), self._random.choice(INTEGERS))
        self._names: list[tuple[str, str]] = [("a", self.types[0])]
        self._count = 0
        self._loops = 0
        self._lines: list[str] = []
        self._body(1, self._random.randint(3, 7))
        one, other = self.types
        self.text = "\n".join(
            [
                "import vyre_cuda as vc",
                "@vc.kernel(block=4)",
                f"def k(x: vc.In[vc.{one}], y: vc.In[vc.{other}], a: vc.{one}):",
                f"    p = vc.output(vc.{one}, x.size)",
                f"    q = vc.output(vc.{other}, x.size)",
                "    i = vc.global_id.x",
                *self._lines,
                f"    p[i] = {self._expression(one, 2)}",
                f"    q[i] = {self._expression(other, 2)}",
                "",
            ]
        )

    # ---- statements

    def _body(self, depth: int, count: int) -> None:
        before = list(self._names)
        for _ in range(count):
            self._statement(depth)
        self._names = before if depth > 1 else self._names

    def _statement(self, depth: int) -> None:
        kind = self._random.choice(["let", "var", "set", "add", "store", "if", "for", "while", "swap"])
        if kind in ("if", "for", "while") and depth > 2:
            kind = "set"
        getattr(self, f"_{kind}")(depth)

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _new(self, type_: str) -> str:
        self._count += 1
        return f"{type_}_{self._count}"

    def _let(self, depth: int) -> None:
        type_ = self._random.choice(self.types)
        text, name = self._expression(type_, 3), self._new(type_)
        self._line(depth, f"{name} = vc.{type_}({text})")
        self._names.append((name, type_))

    def _var(self, depth: int) -> None:
        type_ = self._random.choice(self.types)
        name = self._new(type_)
        self._line(depth, f"{name}: vc.{type_} = {self._number(type_)}")
        self._names.append((name, type_))

    def _set(self, depth: int) -> None:
        name, type_ = self._random.choice(self._names)
        self._line(depth, f"{name} = {self._random.choice([self._number(type_), self._expression(type_, 3)])}")

    def _add(self, depth: int) -> None:
        name, type_ = self._random.choice(self._names)
        self._line(depth, f"{name} {self._operator(type_)}= {self._expression(type_, 2)}")

    def _swap(self, depth: int) -> None:
        (one, type_), (other, second) = self._random.choice(self._names), self._random.choice(self._names)
        if one == other:
            self._set(depth)
        else:
            self._line(depth, f"{one}, {other} = {self._expression(type_, 1)}, {self._expression(second, 1)}")

    def _store(self, depth: int) -> None:
        which = self._random.randrange(2)
        value = self._expression(self.types[which], 2)
        index = self._random.choice(["i", "i", "i + 100", "-1 - i"])  # no thread writes to another one's element
        self._line(depth, f"{'pq'[which]}[{index}] = {value}")

    def _if(self, depth: int) -> None:
        self._line(depth, f"if {self._condition(2)}:")
        self._body(depth + 1, self._random.randint(1, 3))
        if self._random.random() < 0.6:
            word = self._random.choice(["else", f"elif {self._condition(1)}"])
            self._line(depth, f"{word}:")
            self._body(depth + 1, self._random.randint(1, 3))

    def _for(self, depth: int) -> None:
        counter = f"j{len(self._lines)}"
        bounds = self._random.choice(["3", "i", "1, 8, 3", "5, -2, -2", "i, x.size"])
        self._line(depth, f"for {counter} in range({bounds}):")
        if self._random.random() < 0.3:
            self._line(depth + 1, f"if {counter} == {self._random.randint(0, 4)}:")
            self._line(depth + 2, self._random.choice(["break", "continue"]))
        self._body(depth + 1, self._random.randint(1, 3))

    def _while(self, depth: int) -> None:
        self._loops += 1
        turns = f"turns_{self._loops}"
        self._line(depth, f"{turns}: vc.i32 = {self._random.randint(0, 3)}")
        self._line(depth, f"while {turns} > 0 and {self._condition(1)}:")
        self._line(depth + 1, f"{turns} -= 1")
        self._body(depth + 1, self._random.randint(1, 2))

    # ---- expressions

    def _kind(self, type_: str) -> str:
        return "float" if type_ in FLOATS else "int"

    def _operator(self, type_: str) -> str:
        return self._random.choice(_BINARY[self._kind(type_)])

    def _number(self, type_: str) -> str:
        if self._kind(type_) == "float":
            return self._random.choice(["0", "1.5", "-0.0", "3", "-2.25", "1000"])
        return str(self._random.choice([0, 1, 3, 7, 100]))

    def _index(self) -> str:
        return self._random.choice(["i", "i - 1", "i + 1", "0", "i - 9", "i * 2", "x.size - i"])

    def _leaf(self, type_: str) -> str:
        found = [name for name, each in self._names if each == type_]
        array = "xy"[self.types.index(type_)]
        return self._random.choice([*found, f"{array}[{self._index()}]", f"vc.{type_}({self._number(type_)})"])

    def _expression(self, type_: str, depth: int) -> str:
        """A value of the type; never a Python number."""
        if depth == 0:
            return self._leaf(type_)
        kind = self._random.randrange(6)
        inner = self._expression(type_, depth - 1)
        if kind == 0:
            unary = self._random.choice(_UNARY[self._kind(type_)])
            return f"{unary}({inner})"
        if kind == 1:
            return f"({self._number(type_)} {self._operator(type_)} {inner})"
        if kind == 2:
            other = self._random.choice([self._number(type_), self._leaf(type_)])
            return f"({inner} if {self._condition(1)} else {other})"
        if kind == 3:
            return f"vc.{self._random.choice(['minimum', 'maximum'])}({inner}, {self._leaf(type_)})"
        if kind == 4:
            other = self.types[1 - self.types.index(type_)]
            return f"vc.{type_}({self._expression(other, depth - 1)})"
        return f"({inner} {self._operator(type_)} {self._leaf(type_)})"

    def _condition(self, depth: int) -> str:
        type_ = self._random.choice(self.types)
        compare = self._random.choice(_COMPARE)
        simple = f"{self._leaf(type_)} {compare} {self._random.choice([self._number(type_), self._leaf(type_)])}"
        if depth == 0:
            return simple
        kind = self._random.randrange(5)
        if kind == 0:
            return f"not ({self._condition(depth - 1)})"
        if kind in (1, 2):
            return f"({self._condition(depth - 1)} {'and' if kind == 1 else 'or'} {self._condition(depth - 1)})"
        if kind == 3:
            return f"{self._number(type_)} < {self._leaf(type_)} <= {self._leaf(type_)}"
        return simple
