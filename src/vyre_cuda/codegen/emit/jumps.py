"""Branches that need no text, and the labels that the rest needs."""

from __future__ import annotations

from vyre_cuda.codegen.ssa.ssa import Effect

_SILENT = ("comment", "statement")


def needless_and_targets(code: list[int | Effect]) -> tuple[set[int], set[int]]:
    """The places of branches that are separated from their label only by labels and comments, and the labels that the
    other branches go to.
    """
    needless: set[int] = set()
    labels: set[int] = set()
    ahead: set[int] = set()  # labels from here to the next instruction
    following = len(code)
    effects = [(position, item) for position, item in enumerate(code) if type(item) is tuple]
    for position, (kind, _, attr) in reversed(effects):
        if following != position + 1:
            ahead.clear()
        following = position
        if kind == "label":
            ahead.add(attr[0])
        elif kind not in _SILENT:
            if kind == "branch":
                if attr[0] in ahead:
                    needless.add(position)
                else:
                    labels.add(attr[0])
            ahead.clear()
    return needless, labels
