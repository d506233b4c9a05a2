"""Branches that need no text, and the labels that the rest needs."""

from __future__ import annotations

from vyre_cuda.codegen.ssa.ssa import Effect

_SILENT = ("comment", "statement")


def needless_branches(code: list[int | Effect]) -> set[int]:
    """The places of branches that are separated from their label only by labels and comments."""
    needless: set[int] = set()
    ahead: set[int] = set()  # labels from here to the next instruction
    following = len(code)
    for position in range(len(code) - 1, -1, -1):
        item = code[position]
        if isinstance(item, int):
            continue
        if following != position + 1:
            ahead.clear()
        following = position
        kind, _, attr = item
        if kind == "label":
            ahead.add(attr[0])
        elif kind not in _SILENT:
            if kind == "branch" and attr[0] in ahead:
                needless.add(position)
            ahead.clear()
    return needless


def targets(code: list[int | Effect], needless: set[int]) -> set[int]:
    """The labels that some branch goes to."""
    return {
        item[2][0]
        for position, item in enumerate(code)
        if not isinstance(item, int) and item[0] == "branch" and position not in needless
    }
