"""The code of a function whose statements build a program, under the user's file and lines."""

from __future__ import annotations

import ast
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from vyre_cuda.errors import ProgramError
from vyre_cuda.frontend.names import Names
from vyre_cuda.frontend.rewriting.statements import Statements
from vyre_cuda.frontend.rewriting.syntax import ACTIVATION, at, name, nodes, refused, run, store, text
from vyre_cuda.frontend.source import FunctionSource, located
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.frontend.rewriting import returns
else:
    returns = later("vyre_cuda.frontend.rewriting.returns")


class Rewritten(FrozenRecord, eq=False):
    """`code` defines the function, which takes an activation before the user's parameters; `outer` are the names that
    it takes from around it, with their first place."""

    code: CodeType
    name: str
    outer: dict[str, ast.Name]
    tree: ast.FunctionDef

    def bound(self, namespace: dict[str, object]) -> FunctionType:
        """The function, with these as its globals."""
        around = namespace.get(self.name, self)
        exec(self.code, namespace)
        function = namespace.pop(self.name)
        if around is not self:  # the name means in the body what it means around it
            namespace[self.name] = around
        assert isinstance(function, FunctionType)
        return function


def rewrite(source: FunctionSource, called: str, *, returns_values: bool) -> Rewritten:
    """Rewrite the function; ProgramError for syntax that has no meaning on the device."""
    tree = source.tree(called)
    names = Names(tree)
    outer = _outer(tree, names)
    body = returns.tail_returns(source.filename, tree) if returns_values else tree.body
    statements = Statements(source.filename, names, returns_values=returns_values)
    given = [_parameter(each, tree) for each in names.parameters if each in names.reassigned]
    parameters = _parameters(tree, source.filename, names, returns_values=returns_values)
    rewritten = at(ast.FunctionDef(called, parameters, [*given, *statements.body(body)], [], None), tree)
    if hasattr(tree, "type_params"):  # since Python 3.12
        setattr(rewritten, "type_params", [])  # noqa: B010
    try:
        code = compile(ast.Module([rewritten], []), source.filename, "exec")
    except SyntaxError as error:
        line, column = error.lineno or tree.lineno, error.offset or 1
        raise located(error.msg, source.filename, line, column, (error.text or "").strip()) from None
    except RecursionError:
        message = (
            f"{called}: an expression or a block is nested too deep for Python to compile: "
            "move parts of it into a @vc.func"
        )
        raise ProgramError(message) from None
    return Rewritten(code, called, outer, tree)


def _parameters(tree: ast.FunctionDef, filename: str, names: Names, *, returns_values: bool) -> ast.arguments:
    """An activation and the user's parameters. A kernel is given all of them by position; a `vc.func` is called as its
    `def` says, so that defaults are those of the same parameters."""
    first = ast.arg(ACTIVATION)
    if not returns_values:
        return ast.arguments([], [first, *map(ast.arg, names.parameters)], None, [], [], None, [])
    given = tree.args
    for extra in (given.vararg, given.kwarg):
        if extra is not None:
            raise refused(filename, extra, "a function of kernels has a fixed number of parameters: name each")
    positional, plain, named = (
        [ast.arg(each.arg) for each in part] for part in (given.posonlyargs, given.args, given.kwonlyargs)
    )
    (positional or plain).insert(0, first)
    return ast.arguments(positional, plain, None, named, [None] * len(named), None, [])


def _parameter(called: str, tree: ast.FunctionDef) -> ast.stmt:
    """A parameter that the body assigns is a variable from the start."""
    stored = (n for n in nodes(tree) if isinstance(n, ast.Name) and n.id == called and isinstance(n.ctx, ast.Store))
    place = next(stored, tree)
    return store(called, run("parameter", text(called, place), name(called, place), place=place), place)


def _outer(tree: ast.FunctionDef, names: Names) -> dict[str, ast.Name]:
    found: dict[str, ast.Name] = {}
    for statement in tree.body:
        for node in nodes(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in names.assigned:
                found.setdefault(node.id, node)
    return found
