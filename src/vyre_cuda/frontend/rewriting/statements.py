"""Statements: assignments, branches, loops, `return`, `assert`; the rest is Python that runs at build time, or refused.

A branch `if test: body` becomes

    branch = activation.branch(test)
    if branch.then():
        body
        branch.end()

so that it serves a test on the device, whose both arms are built, and one on a Python bool, which takes one of them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from vyre_cuda.frontend.names import Names, targets
from vyre_cuda.frontend.rewriting.expressions import Expressions
from vyre_cuda.frontend.rewriting.syntax import at, later, method, name, run, store, text

_REFUSED: dict[str, str] = {
    "Try": "`try`: nothing is raised on the device; check with `if` or `assert`",
    "TryStar": "`try`: nothing is raised on the device; check with `if` or `assert`",
    "With": "`with`: nothing is entered or left on the device",
    "AsyncWith": "`with`: nothing is entered or left on the device",
    "AsyncFor": "`async for`: a kernel cannot wait for Python",
    "Raise": '`raise`: write assert condition, "message"',
    "Global": "`global`: a kernel sets no Python names; write to an array",
    "Nonlocal": "`nonlocal`: a kernel sets no Python names; write to an array",
    "Delete": "`del`: names end with their block",
    "Import": "`import` in a kernel: import above it",
    "ImportFrom": "`import` in a kernel: import above it",
    "ClassDef": "`class` in a kernel: define it above",
    "Match": "`match`: write if and elif",
    "AsyncFunctionDef": "`async def` in a kernel: a kernel cannot wait for Python",
    "TypeAlias": "`type` in a kernel: define it above",
}


class Statements(Expressions):
    """Rewrites the statements of one function; `returns_values` for those of a vc.func."""

    def __init__(self, filename: str, names: Names, *, returns_values: bool) -> None:
        super().__init__(filename, names)
        self.returns_values = returns_values
        self.loops: list[str | None] = []  # those around, innermost last: None on the device, else what holds its block
        self.temporaries = 0

    def body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        rewritten: list[ast.stmt] = []
        for statement in statements:
            found: Any = self.visit(statement)
            rewritten.extend(found if isinstance(found, list) else [found])
        return rewritten

    def visit(self, node: ast.AST) -> Any:
        reason = _REFUSED.get(type(node).__name__)
        if reason is not None:
            raise self.refused(node, reason)
        return super().visit(node)

    def _temporary(self) -> str:
        self.temporaries += 1
        return f".{self.temporaries}"

    # ---- assignments

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:  # noqa: N802
        if len(node.targets) == 1:
            return self._set(node.targets[0], self.held(node.value), node.value)
        held = self._temporary()
        rows: list[ast.stmt] = [store(held, self.expression(node.value), node.value)]
        for target in node.targets:
            rows += self._set(target, name(held, node.value), node.value)
        return rows

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:  # noqa: N802
        if not isinstance(node.target, ast.Name):
            raise self.refused(node, "only a name takes a type: an element has that of its array")
        if node.value is None:
            raise self.refused(node, f"{node.target.id} has a type and no value: write {node.target.id}: type = value")
        label = text(node.target.id, node)
        typed = run("typed", label, self.annotation(node.annotation), self.held(node.value), place=node.value)
        return self._set(node.target, typed, node.value)

    def annotation(self, node: ast.expr) -> ast.expr:
        """An annotation, which may be written as a string."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parsed = ast.parse(node.value, self.filename, mode="eval").body
            for inner in ast.walk(parsed):
                ast.copy_location(inner, node)
            return parsed
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:  # noqa: N802
        if isinstance(node.target, ast.Name):
            read = self.expression(name(node.target.id, node.target))
            return self._set(node.target, self._operation(read, node), node)
        if not isinstance(node.target, ast.Subscript):
            raise self.refused(node, "only a name or an element of an array can be updated")
        self._require_element(node.target)
        array, index = self._temporary(), self._temporary()
        old = at(ast.Subscript(name(array, node), name(index, node), ast.Load()), node.target)
        return [
            store(array, self.expression(node.target.value), node.target.value),
            store(index, self.expression(node.target.slice), node.target.slice),
            self._store_element(name(array, node), name(index, node), self._operation(old, node), node),
        ]

    def _operation(self, old: ast.expr, node: ast.AugAssign) -> ast.expr:
        return at(ast.BinOp(old, node.op, self.expression(node.value)), node)

    def _set(self, target: ast.expr, value: ast.expr, place: ast.AST) -> list[ast.stmt]:
        """The statements that assign a rewritten value to a target."""
        if isinstance(target, ast.Name):
            return [self._set_name(target.id, value, target, place)]
        if isinstance(target, ast.Subscript):
            array, index = self.expression(target.value), self._index(target)
            return [self._store_element(array, index, value, target)]
        if isinstance(target, (ast.Tuple, ast.List)):
            return self._unpack(target, value, place)
        kind = "a starred name" if isinstance(target, ast.Starred) else "an attribute"
        raise self.refused(target, f"{kind} cannot be assigned in a kernel: assign a name or an element of an array")

    def _set_name(self, identifier: str, value: ast.expr, target: ast.AST, place: ast.AST) -> ast.stmt:
        counter = self.names.counters.get(identifier)
        if counter is not None:
            message = f"{identifier} is the counter of the loop in line {counter.lineno} too: use two names"
            raise self.refused(target, message)
        how = "variable" if identifier in self.names.many else "let"
        assigned = run(how, text(identifier, place), value, place=place)
        return at(ast.Assign([ast.Name(identifier, ast.Store())], assigned), target)

    def _store_element(self, array: ast.expr, index: ast.expr, value: ast.expr, place: ast.AST) -> ast.stmt:
        return at(ast.Expr(run("store", array, index, value, place=place)), place)

    def _require_element(self, target: ast.Subscript) -> None:
        if any(isinstance(part, ast.Slice) for part in _parts(target)):
            raise self.refused(target, "one element is updated at a time: loop over range(...)")

    def _index(self, target: ast.Subscript) -> ast.expr:
        """The index of what is assigned, as an expression of its own; a slice is one only between brackets."""
        parts = [self._slice(part) if isinstance(part, ast.Slice) else self.expression(part) for part in _parts(target)]
        return at(ast.Tuple(parts, ast.Load()), target.slice) if isinstance(target.slice, ast.Tuple) else parts[0]

    def _slice(self, part: ast.Slice) -> ast.expr:
        bounds = [each and self.expression(each) for each in (part.lower, part.upper, part.step)]
        return run("slice", *(each or at(ast.Constant(None), part) for each in bounds), place=part)

    def _unpack(self, target: ast.Tuple | ast.List, value: ast.expr, place: ast.AST) -> list[ast.stmt]:
        """All values are there before the first name is set."""
        if any(isinstance(element, ast.Starred) for element in target.elts):
            raise self.refused(target, "a starred name cannot be assigned in a kernel: name each value")
        parts = [self._temporary() for _ in target.elts]
        count = at(ast.Constant(len(parts)), place)
        names: list[ast.expr] = [ast.Name(part, ast.Store()) for part in parts]
        rows: list[ast.stmt] = [
            at(ast.Assign([ast.Tuple(names, ast.Store())], run("several", value, count, place=place)), place)
        ]
        for part, element in zip(parts, target.elts, strict=True):
            rows += self._set(element, name(part, place), place)
        return rows

    # ---- branches and loops

    def visit_If(self, node: ast.If) -> list[ast.stmt]:  # noqa: N802
        branch = self._temporary()
        rows: list[ast.stmt] = [store(branch, run("branch", self.truth(node.test), place=node.test), node.test)]
        for arm, body in (("then", node.body), ("otherwise", node.orelse)):
            if body:
                entered = method(branch, arm, place=node.test)
                rows.append(at(ast.If(entered, [*self.body(body), self._end(branch, node.test)], []), node.test))
        return rows

    def visit_While(self, node: ast.While) -> list[ast.stmt]:  # noqa: N802
        if node.orelse:
            raise self.refused(node.orelse[0], "`else` of a loop: set a variable before `break`, and test it")
        return self._device_loop(run("while_", later(self.truth(node.test)), place=node.test), None, node)

    def visit_For(self, node: ast.For) -> list[ast.stmt]:  # noqa: N802
        if node.orelse:
            raise self.refused(node.orelse[0], "`else` of a loop: set a variable before `break`, and test it")
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        if isinstance(called, ast.Name) and called.id == "range" and "range" not in self.names.assigned:
            assert isinstance(node.iter, ast.Call)
            return self._range(node, node.iter)
        return self._build_time_loop(node)

    def _range(self, node: ast.For, call: ast.Call) -> list[ast.stmt]:
        if not isinstance(node.target, ast.Name):
            raise self.refused(node.target, "the counter of a range must be a name")
        if call.keywords or not 1 <= len(call.args) <= 3 or any(isinstance(a, ast.Starred) for a in call.args):
            raise self.refused(call, "range takes one to three numbers: range(stop), range(start, stop, step)")
        bounds = [self.expression(argument) for argument in call.args]
        loop = run("for_", text(node.target.id, node), *bounds, place=call)
        return self._device_loop(loop, node.target, node)

    def _device_loop(self, loop: ast.expr, counter: ast.Name | None, node: ast.For | ast.While) -> list[ast.stmt]:
        held = self._temporary()
        begun = method(held, "begin", place=loop)
        first: ast.stmt = at(ast.Expr(begun), loop) if counter is None else at(ast.Assign([counter], begun), counter)
        self.loops.append(None)
        body = self.body(node.body)
        self.loops.pop()
        return [store(held, loop, loop), first, *body, self._end(held, loop)]

    def _build_time_loop(self, node: ast.For) -> list[ast.stmt]:
        items = run("items", self.expression(node.iter), place=node.iter)
        block = self._temporary()
        self.loops.append(block)
        entered = [run("item", text(each, node.target), place=node.target) for each in targets(node.target)]
        body = [*(at(ast.Expr(call), node.target) for call in entered), *self.body(node.body)]
        self.loops.pop()
        return [store(block, run("here", place=node.iter), node), at(ast.For(node.target, items, body, []), node)]

    def _end(self, held: str, place: ast.AST) -> ast.stmt:
        return at(ast.Expr(method(held, "end", place=place)), place)

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:  # noqa: N802
        return self._leave(node, "break")

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:  # noqa: N802
        return self._leave(node, "continue")

    def _leave(self, node: ast.stmt, word: str) -> list[ast.stmt]:
        block = self.loops[-1]
        if block is None:
            return [at(ast.Expr(run(f"{word}_", place=node)), node)]
        return [at(ast.Expr(run("leave_items", text(word, node), name(block, node), place=node)), node), node]

    # ---- the rest

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:  # noqa: N802
        if self.returns_values:  # the last statement of its path
            if node.value is None:
                return [at(ast.Pass(), node)]
            return [at(ast.Expr(run("result", self.expression(node.value), place=node.value)), node)]
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            raise self.refused(node, "a kernel returns its outputs, made by vc.output: `return` takes no value here")
        ended = run("return_", place=node)
        return [at(ast.If(ended, [ast.Return(None)], []), node)]

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:  # noqa: N802
        if isinstance(node.test, ast.Tuple):
            raise self.refused(node, "a tuple is always true: write assert condition, message, without parentheses")
        message = text(ast.unparse(node.test), node) if node.msg is None else self.expression(node.msg)
        return at(ast.Expr(run("assert_", self.truth(node.test), message, place=node)), node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:  # noqa: N802
        if isinstance(node.value, (ast.Name, ast.Attribute)):
            called = f"{ast.unparse(node.value)}()"
            raise self.refused(node, f"this does nothing: write {called} to call a function, or use the value")
        if isinstance(node.value, ast.Compare):
            raise self.refused(node, "a comparison alone does nothing: write = to assign, or assert to check")
        node.value = self.expression(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:  # noqa: N802
        return node


def _parts(target: ast.Subscript) -> list[ast.expr]:
    """The index of each axis."""
    return target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
