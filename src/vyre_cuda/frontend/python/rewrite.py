"""Turns a kernel function into the Python function that one thread runs.

Almost everything stays as it is, so that a debugger shows the user's lines. Rewritten is what would lose a type:
numbers assigned to a variable that has one, first values with an annotation, loop counters, `and`, `or`, `not` and
conditional expressions; declarations, which take the name that they are assigned to; assertions, which end a thread.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from vyre_cuda.frontend.python import support

# The name under which rewritten code finds the functions of `support`.
SUPPORT = "_vyre_cuda_python"


def python_function(tree: ast.FunctionDef, filename: str, names: Mapping[str, Any]) -> Any:
    """The function of `tree`, at the lines of its file, with the global and captured `names` that it reads.

    Changes the tree.
    """
    module = ast.Module([_rewritten(tree)], [])
    namespace = {**names, SUPPORT: support}
    exec(compile(module, filename, "exec"), namespace)
    return namespace[tree.name]


def _rewritten(function: ast.FunctionDef) -> ast.FunctionDef:
    function.decorator_list = []
    function.returns = None
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in every:
        argument.annotation = None
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    function.body = _Rewriter({argument.arg for argument in every}).block(function.body)
    return ast.fix_missing_locations(function)


class _Rewriter(ast.NodeTransformer):
    """`visible` are the names that have a value in every thread that arrives here.

    Names that are first assigned under a condition live on if Python decides it, as a condition on a const: the code
    keeps those conditions.
    """

    def __init__(self, visible: Iterable[str]) -> None:
        self._visible = set(visible)
        self._conditional: dict[str, set[str]] = {}  # by name, what keeps the conditions
        self._tests = 0

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block, whose new names end with it."""
        before = set(self._visible)
        result: list[ast.stmt] = []
        for statement in body:
            found: Any = self.visit(statement)
            result.extend(found if isinstance(found, list) else [found])
        self._visible = before
        return result

    # ---- names

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        self.generic_visit(node)
        if len(node.targets) == 1:
            return [self._set(node.targets[0], node.value, node)]
        held = f"{SUPPORT}_value"
        first = ast.Assign([ast.Name(held, ast.Store())], node.value)
        rows: list[ast.stmt] = [ast.copy_location(first, node)]
        return rows + [self._set(target, ast.Name(held, ast.Load()), node) for target in node.targets]

    def _set(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> ast.stmt:
        """The assignment to one target."""
        if isinstance(target, ast.Name):
            value = _call("assigned", node, [ast.Constant(target.id), self._old(target), value])
        elif isinstance(target, (ast.Tuple, ast.List)):
            old = ast.List([self._old(element) for element in target.elts], ast.Load())
            names = [ast.Constant(element.id if isinstance(element, ast.Name) else "") for element in target.elts]
            value = _call("assigned_together", node, [ast.List([*names], ast.Load()), old, value])
        self._visible |= _stored(target)
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        value = _call("typed", node, [node.annotation, node.value])
        self._visible |= _stored(node.target)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def _old(self, target: ast.expr) -> ast.expr:
        """The value that a target has before it is assigned; None if it may have none."""
        if isinstance(target, ast.Name) and target.id in self._visible:
            return ast.Name(target.id, ast.Load())
        if isinstance(target, ast.Name) and target.id in self._conditional:
            tests = ast.Tuple([ast.Constant(each) for each in sorted(self._conditional[target.id])], ast.Load())
            names = ast.Call(ast.Name("locals", ast.Load()), [], [])
            return _call("kept", target, [names, ast.Constant(target.id), tests])
        return ast.Constant(None)

    # ---- blocks

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        new = {each for part in (*node.body, *node.orelse) for each in _stored(part)} - self._visible
        node.test = self.visit(node.test)
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        if not new:
            return [node]
        self._tests += 1
        test = f"{SUPPORT}_test_{self._tests}"
        for each in new:
            self._conditional.setdefault(each, set()).add(test)
        kept = ast.copy_location(ast.Assign([ast.Name(test, ast.Store())], node.test), node)
        node.test = ast.copy_location(ast.Name(test, ast.Load()), kept)
        return [kept, node]

    def visit_While(self, node: ast.While) -> ast.stmt:
        node.test = self.visit(node.test)
        node.body = self.block(node.body)
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        node.iter = self.visit(node.iter)
        iterated = node.iter
        if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "range":
            iterated.func = _support("counted", iterated)
        before = set(self._visible)
        self._visible |= _stored(node.target)
        node.body = self.block(node.body)
        self._visible = before
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        self._visible.add(node.name)
        return node

    # ---- expressions

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        how = "both" if isinstance(node.op, ast.And) else "either"
        return functools.reduce(lambda left, right: _call(how, node, [left, _later(right)]), node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call("negated", node, [node.operand]) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return node
        how = "among" if isinstance(node.ops[0], ast.In) else "not_among"
        return _call(how, node, [node.left, node.comparators[0]])

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return _call("chosen", node, [node.test, _later(node.body), _later(node.orelse)])

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        message = ast.Constant(ast.unparse(node.test)) if node.msg is None else node.msg
        return ast.copy_location(ast.Expr(_call("asserted", node, [node.test, message])), node)


def _stored(target: ast.AST) -> set[str]:
    """The names that this sets."""
    return {part.id for part in ast.walk(target) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _later(value: ast.expr) -> ast.expr:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(nothing, value), value)


def _support(name: str, at: ast.AST) -> ast.expr:
    found = ast.Attribute(ast.Name(SUPPORT, ast.Load()), name, ast.Load())
    return ast.fix_missing_locations(ast.copy_location(found, at))


def _call(name: str, at: ast.AST, arguments: list[ast.expr]) -> ast.expr:
    return ast.copy_location(ast.Call(_support(name, at), arguments, []), at)
