"""A graph as text in the DOT language."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vyre_cuda._native.graph.graph import Node

SHAPES = {"kernel": "box", "copy": "cds", "fill": "note", "clear": "note", "control": "point"}


def dot(nodes: Sequence[Node], labels: Mapping[int, str]) -> str:
    """`labels` are by step number. Loops are clusters; an edge to a loop goes to the box around it."""
    inside: defaultdict[int | None, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        inside[node.parent].append(number)
    lines = ["digraph {", "  compound=true; rankdir=TB;"]
    lines += _level(nodes, labels, inside, None, "  ")
    for number, node in enumerate(nodes):
        for before in node.behind:
            lines.append(f"  n{before} -> n{number}{_ends(nodes, before, number)};")
    return "\n".join([*lines, "}"]) + "\n"


def _level(
    nodes: Sequence[Node], labels: Mapping[int, str], inside: Mapping[int | None, list[int]], of: int | None, pad: str
) -> list[str]:
    lines = []
    for number in inside.get(of, []):
        node = nodes[number]
        text = labels.get(node.step, "")
        if node.kind == "loop":
            lines += [f"{pad}subgraph cluster{number} {{", f'{pad}  label="{text}";']
            lines += [f"{pad}  n{number} [style=invis];"]
            lines += [*_level(nodes, labels, inside, number, pad + "  "), f"{pad}}}"]
        else:
            text = f"clear for {text}" if node.kind == "clear" else "" if node.kind == "control" else text
            lines.append(f'{pad}n{number} [shape={SHAPES[node.kind]}, label="{text}"];')
    return lines


def _ends(nodes: Sequence[Node], before: int, number: int) -> str:
    clusters = []
    if nodes[before].kind == "loop":
        clusters.append(f"ltail=cluster{before}")
    if nodes[number].kind == "loop":
        clusters.append(f"lhead=cluster{number}")
    return f" [{', '.join(clusters)}]" if clusters else ""
