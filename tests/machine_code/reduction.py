"""Cuts a program down while the machine code differs from the interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import vyre_cuda as vc

_AT_A_TIME = 60
_LONGEST_BLOCK = 8
_CALL = re.compile(r"[\w.]+\(")
_NAME = re.compile(r"^program \w+$", re.MULTILINE)

Differs = Callable[[Sequence[str]], list[bool]]


def reduced(text: str, differs: Differs) -> str:
    """The shortest program that steps of one line or one call lead to."""
    while True:
        for batch in _batches(_candidates(text)):
            answers = differs(batch)
            found = [candidate for candidate, answer in zip(batch, answers, strict=True) if answer]
            if found:
                text = min(found, key=len)
                break
        else:
            return text


def _batches(candidates: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for candidate in candidates:
        named = _NAME.sub(f"program r{len(batch)}", candidate, count=1)
        try:
            vc.parse(named)
        except vc.Error:
            continue
        batch.append(named)
        if len(batch) == _AT_A_TIME:
            yield batch
            batch = []
    if batch:
        yield batch


def _candidates(text: str) -> Iterator[str]:
    """Without some lines in a row, or with an operand in the place of a call; the large steps first."""
    lines = text.splitlines()
    for size in range(_LONGEST_BLOCK, 0, -1):
        for place in range(1, len(lines) - size + 1):
            yield "\n".join(lines[:place] + lines[place + size :]) + "\n"
    for place, line in enumerate(lines):
        for shorter in _without_a_call(line):
            yield "\n".join([*lines[:place], shorter, *lines[place + 1 :]]) + "\n"


def _without_a_call(line: str) -> Iterator[str]:
    for call in _CALL.finditer(line):
        operands, end = _operands(line, call.end())
        for operand in operands:
            yield line[: call.start()] + operand + line[end:]


def _operands(line: str, place: int) -> tuple[list[str], int]:
    """The operands of a call that opens before a place, and where it ends."""
    operands, depth, begin = [], 0, place
    for at in range(place, len(line)):
        if line[at] in "([":
            depth += 1
        elif line[at] in ")]" and depth:
            depth -= 1
        elif line[at] in ",)" and not depth:
            operands.append(line[begin:at].strip())
            begin = at + 1
            if line[at] == ")":
                return operands, at + 1
    return operands, len(line)
