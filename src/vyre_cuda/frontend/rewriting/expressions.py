"""Expressions: `and`, `or`, `not`, conditions, chained comparisons, reads of variables, Python's own functions."""

from __future__ import annotations

import ast
import builtins
import functools
from typing import Any

from vyre_cuda.frontend.names import Names, own_names
from vyre_cuda.frontend.rewriting.syntax import Refusals, at, later, name, run, text

# Methods of Python's lists, dicts and sets that change them.
_CHANGING = {
    *("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault"),
    *("sort", "update"),
}
# Functions of `random`, `numpy.random` and `time`.
_DRAWN = {
    *("random", "rand", "randn", "randint", "randrange", "uniform", "normal", "gauss", "choice", "random_sample"),
    *("integers", "standard_normal", "getrandbits", "normalvariate", "shuffle", "seed"),
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"),
}
_SYMBOLS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_MEMBERSHIP = {ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not"}


class Expressions(ast.NodeTransformer, Refusals):
    """Rewrites expressions; names in `hidden` are those of a lambda or comprehension around them."""

    def __init__(self, filename: str, names: Names) -> None:
        super().__init__(filename)
        self.names = names
        self.hidden: list[set[str]] = []

    def expression(self, node: ast.expr) -> ast.expr:
        rewritten: ast.expr = self.visit(node)
        return rewritten

    def held(self, node: ast.expr) -> ast.expr:
        """A value that is bound right away: a variable is not read yet."""
        return self.expression(node) if not self._is_tracked(node) else self._tracked("held", node)

    def truth(self, node: ast.expr) -> ast.expr:
        """A condition."""
        return run("truth", self.expression(node), place=node)

    # ---- names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not self._is_tracked(node):
            return node
        return self._tracked("read", node)

    def _tracked(self, how: str, node: ast.expr) -> ast.expr:
        assert isinstance(node, ast.Name)
        return run(how, text(node.id, node), name(node.id, node), place=node)

    def _is_tracked(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node.id in self.names.tracked
            and not any(node.id in own for own in self.hidden)
        )

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._with_own_names(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda  # type: ignore[assignment]  # noqa: N815

    def _with_own_names(self, node: Any) -> ast.AST:
        self.hidden.append(own_names(node))
        visited = self.generic_visit(node)
        self.hidden.pop()
        return visited

    # ---- operators

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        how = "both" if isinstance(node.op, ast.And) else "either"
        first, *others = [self.truth(value) for value in node.values]
        return functools.reduce(lambda left, right: run(how, left, later(right), place=node), others, first)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return run("opposite", self.truth(node.operand), place=node)
        return self._generic(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        arms = later(self.expression(node.body)), later(self.expression(node.orelse))
        return run("choice", self.truth(node.test), *arms, place=node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        strange = next((op for op in node.ops if type(op) in _MEMBERSHIP), None)
        if len(node.ops) == 1 and strange is None:
            return self._generic(node)
        if strange is not None:
            if len(node.ops) > 1:
                raise self.refused(
                    node,
                    f"a chain of comparisons with `{_MEMBERSHIP[type(strange)]}`: write each comparison separately",
                )
            operands = self.expression(node.left), self.expression(node.comparators[0])
            return run("identity", text(_MEMBERSHIP[type(strange)], node), *operands, place=node)
        symbols = [text(_SYMBOLS[type(op)], node) for op in node.ops]
        makers = [later(self.expression(operand)) for operand in node.comparators]
        pairs = [at(ast.Tuple([s, m], ast.Load()), node) for s, m in zip(symbols, makers, strict=True)]
        return run("chain", self.expression(node.left), *pairs, place=node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        called = node.func
        visited = self._generic(node)
        assert isinstance(visited, ast.Call)
        if isinstance(called, ast.Name) and hasattr(builtins, called.id) and called.id not in self.names.assigned:
            visited.func = run("builtin", called, place=called)
        elif isinstance(called, ast.Attribute) and called.attr in _CHANGING:
            visited.func = run("changing", called.value, text(called.attr, called), place=called)
        elif isinstance(called, ast.Attribute) and called.attr == "format":
            visited.func = run("formatter", called.value, place=called)
        elif (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in _DRAWN:
            visited.func = run("drawn", visited.func, place=called)
        return visited

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, ast.Mod) and _is_text(node.left):
            return run("filled", self.expression(node.left), self.expression(node.right), place=node)
        return self._generic(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts: list[ast.expr] = []
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                parts.append(part)
                continue
            spec = text("", part) if part.format_spec is None else self.expression(part.format_spec)
            shown = [self.expression(part.value), at(ast.Constant(part.conversion), part), spec]
            parts.append(at(ast.Tuple(shown, ast.Load()), part))
        return run("joined", *parts, place=node)

    # ---- what has no meaning

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        raise self.refused(node, "`:=` inside an expression: assign on a line of its own")

    def visit_Await(self, node: ast.AST) -> ast.expr:
        raise self.refused(node, f"`{_KEYWORDS[type(node)]}`: a kernel can neither wait for Python nor yield to it")

    visit_Yield = visit_YieldFrom = visit_Await  # noqa: N815

    def _generic(self, node: ast.expr) -> ast.expr:
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.expr)
        return visited


_KEYWORDS: dict[type[ast.AST], str] = {ast.Await: "await", ast.Yield: "yield", ast.YieldFrom: "yield from"}


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
