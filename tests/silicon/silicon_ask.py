"""Put questions to a device and to the emulator, and tell where they differ.

The emulator is held to recorded silicon with operands from memory; it knows nothing of constants, so it answers a
question as an assembler that folds nothing would. Where silicon itself was recorded, that is what is expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from silicon_driver import Device, DriverCallError
from silicon_questions import LANES, Batch, Question, Words, batch, differing

Answers = dict[str, Any]


@dataclass(slots=True)
class Outcome:
    """How many questions were asked, by (group, form, way), and what differs or was refused."""

    asked: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    words: int = 0
    differences: list[Answers] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Take in another outcome."""
        self.asked.update(other.asked)
        self.words += other.words
        self.differences += other.differences


def answers(device: Device, asked: Batch) -> Words:
    """One row a result, one word a lane."""
    handle = device.load(asked.text)
    source, target = device.allocate(8 * asked.rows.size), device.allocate(8 * LANES * asked.results)
    device.write(source, asked.rows.ravel())
    device.launch(handle, "k", LANES, [source.to_bytes(8, "little"), target.to_bytes(8, "little")])
    met = device.read(target, LANES * asked.results).reshape(asked.results, LANES)
    device.free(source)
    device.free(target)
    device.unload(handle)
    return met


def ask(device: Device, emulator: Device, questions: Sequence[Question]) -> Outcome:
    """One kernel on both. Raises DriverCallError when one of them refuses it."""
    asked = batch(questions)
    try:
        emulated = answers(emulator, asked)
    except DriverCallError as error:
        raise DriverCallError(f"the emulator: {error}") from None
    met = answers(device, asked)
    return compare(asked, emulated, met)


def compare(asked: Batch, emulated: Words, met: Words) -> Outcome:
    """What differs between a device's answers and the expected ones."""
    outcome = Outcome(words=met.size)
    same = bool((emulated == met).all())
    row = 0
    for question in asked.questions:
        outcome.asked[question.group, question.form, question.way] += 1
        for k, (_, type_) in enumerate(question.results):
            known = question.known[k] if question.known else None
            if known is not None or not same:
                outcome.differences += _difference(question, k, type_, known, emulated[row], met[row])
            row += 1
    return outcome


def _difference(
    question: Question, k: int, type_: str, known: Sequence[int | None] | None, emulated: Words, met: Words
) -> list[Answers]:
    expected = emulated
    found = []
    if known is not None and not all(a is None or a == int(b) for a, b in zip(known, emulated, strict=True)):
        expected = np.array([b if a is None else a for a, b in zip(known, emulated.tolist(), strict=True)], np.uint64)
        lanes = differing(type_, expected, emulated)
        if lanes:
            found.append(_record(question, k, type_, "oracle", lanes, expected, emulated))
    lanes = differing(type_, expected, met)
    if lanes:
        found.append(_record(question, k, type_, "wrong", lanes, expected, met))
    return found


def _record(
    question: Question, k: int, type_: str, kind: str, lanes: list[int], expected: Words, met: Words
) -> Answers:
    lane = lanes[0]
    return {
        "kind": kind,
        "group": question.group,
        "form": question.form,
        "way": question.way,
        "pattern": question.pattern,
        "result": k,
        "type": type_,
        "register": question.results[k][0],
        "lane": lane,
        "predicate": bool(lane & 1),
        "lanes": len(lanes),
        "inputs": {name: hex(words[lane]) for name, _, words in question.inputs},
        "expected": hex(int(expected[lane])),
        "got": hex(int(met[lane])),
        "ptx": question.snippet(),
        "program": batch([question]).text,
    }
