"""What there is to ask, by unit: one form, one outer form of pairs, one kind of loop."""

from __future__ import annotations

import functools
from collections.abc import Callable

import silicon_folding
import silicon_loops
import silicon_pairs
from silicon_questions import Question

GROUPS = ("1", "pairs", "loops", "2")


@functools.cache
def _forms() -> dict[str, silicon_folding.Form]:
    return {f"{silicon_folding.group_of(form)}:{form.key}": form for form in silicon_folding.pure_forms()}


def units(groups: list[str]) -> list[str]:
    """The units of some groups, in their order."""
    found: list[str] = []
    for group in groups:
        if group == "pairs":
            found += [f"pairs:{name}" for name in silicon_pairs.units()]
        elif group == "loops":
            found += [f"loops:{name}" for name in silicon_loops.units()]
        else:
            found += [name for name in _forms() if name.startswith(f"{group}:")]
    return found


@functools.lru_cache(maxsize=2)
def plan(unit: str, sample: int = 1) -> list[Callable[[], Question]]:
    """What makes the questions of a unit, or every `sample`-th."""
    group, _, name = unit.partition(":")
    if group == "pairs":
        made = silicon_pairs.plan(name)
    elif group == "loops":
        made = silicon_loops.plan(name)
    else:
        made = silicon_folding.form_plan(_forms()[unit])
    return made[::sample]
