"""Which names a function assigns, how often and where: what decides between a `let` and a variable."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BLOCKS = (ast.If, ast.For, ast.While)


class Names:
    """The names of one function.

    `many` are assigned more than once, a parameter's value counting as one. `tracked` are `many` and what is first
    assigned in a block: reading them is checked. `counters` are targets of loops.
    """

    def __init__(self, function: ast.FunctionDef) -> None:
        arguments = function.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.parameters = [argument.arg for argument in given]
        self.counts: Counter[str] = Counter()
        self.counters: dict[str, ast.For] = {}
        self.in_blocks: set[str] = set()
        for statement in function.body:
            self._visit(statement, in_block=False)
        self.reassigned = {name for name in self.parameters if self.counts[name]}
        self.many = {name for name, count in self.counts.items() if count > 1} | self.reassigned
        self.tracked = self.many | self.in_blocks
        self.assigned = {*self.parameters, *self.counts, *self.counters}

    def _visit(self, node: ast.AST, *, in_block: bool) -> None:
        if isinstance(node, _SCOPES):
            return
        if isinstance(node, ast.For):
            for name in targets(node.target):
                self.counters[name] = node
                if in_block:
                    self.in_blocks.add(name)
        for name in _assigned_by(node):
            self.counts[name] += 2 if isinstance(node, ast.AugAssign) else 1
            if in_block:
                self.in_blocks.add(name)
        inside = in_block or isinstance(node, _BLOCKS)
        for child in (*getattr(node, "body", ()), *getattr(node, "orelse", ())):
            self._visit(child, in_block=inside)


def _assigned_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from targets(target)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        yield from targets(node.target)


def targets(target: ast.expr) -> Iterator[str]:
    """The names that an assignment to this target sets."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from targets(element)
    elif isinstance(target, ast.Starred):
        yield from targets(target.value)


def own_names(node: ast.AST) -> set[str]:
    """The names that a lambda or a comprehension has for itself."""
    if isinstance(node, ast.Lambda):
        given = node.args
        names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        return names | {extra.arg for extra in (given.vararg, given.kwarg) if extra is not None}
    if isinstance(node, _COMPREHENSIONS):
        return {name for generator in node.generators for name in targets(generator.target)}
    return set()
