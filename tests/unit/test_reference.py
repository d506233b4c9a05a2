"""The reference: what users call has its parameters, results and errors in sections of its docstring."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import vyre_cuda as vc

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
# Classes that users make themselves; all others are made by functions and methods.
MADE_BY_USERS = ("Builder", "Device")
# What other parts of the package call.
INNER = {
    "BoundCall.set_arguments",
    "Device.explain",
    "DeviceProperties.of",
    "Graph.bundled",
    "Kernel.add_row",
    "Kernel.add_steps",
    "Kernel.leave_from",
    "Kernel.plain_arguments",
    "Kernel.scalar",
    "Kernel.sizes_and_grid",
    "Kernel.submit_plain",
    "ForeignKernel.prepared_and_arguments",
    "Variable.peek",
    "Variable.read",
    "Value.read",
    "RecordedCall.run",
    "Type.convert",
    "Worker.end_pause",
    "Worker.number_of",
    "Worker.read_stats",
    "Worker.run_arguments",
    "Worker.submit_arguments",
    "Worker.submit_plain",
    "Worker.try_close",
    "Worker.try_pause",
}
# Methods of Python's protocols: mappings and awaitables.
PROTOCOLS = {"get", "items", "keys", "values", "send", "throw"}


def callables() -> Iterator[tuple[str, Any]]:
    names = [
        name for block in re.findall(r"```\{api\}\n(.*?)```", PAGE.read_text(), re.DOTALL) for name in block.split()
    ]
    for name in names:
        found = attrgetter(name)(vc)
        if not inspect.isclass(found):
            yield name, found
            continue
        if name in MADE_BY_USERS:
            yield name, found
        if not issubclass(found, BaseException):
            for method, value in inspect.getmembers(found, callable):
                if not method.startswith("_") and method not in PROTOCOLS and f"{name}.{method}" not in INNER:
                    yield f"{name}.{method}", value


CALLABLES = dict(callables())


def signature(found: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(found)
    except ValueError:  # a function of C
        return None


def section(name: str, title: str) -> list[str]:
    """The names at the margin of a section."""
    text = inspect.getdoc(CALLABLES[name]) or ""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n\w+\n---|\Z)", text, re.DOTALL | re.MULTILINE)
    return re.findall(r"^(\S.*)$", found[1], re.MULTILINE) if found else []


@pytest.mark.parametrize("name", CALLABLES)
def test_the_parameters_are_those_of_the_signature(name: str) -> None:
    described = [each.strip("*") for line in section(name, "Parameters") for each in line.split(", ")]
    taken = signature(CALLABLES[name])
    if taken is None:  # the first line of the docstring is the signature
        line = (inspect.getdoc(CALLABLES[name]) or "").splitlines()[0]
        expected = re.findall(r"(\w+)(?:=\w+)?[,)]", line)
    else:
        expected = [each for each in taken.parameters if each != "self"]

    assert described == expected


@pytest.mark.parametrize("name", CALLABLES)
def test_what_takes_arguments_and_returns_something_says_what(name: str) -> None:
    taken = signature(CALLABLES[name])
    returns = taken is not None and taken.return_annotation not in (None, "None", inspect.Signature.empty)

    assert bool(section(name, "Returns")) or not (returns and section(name, "Parameters"))


@pytest.mark.parametrize("name", CALLABLES)
def test_errors_are_named_as_they_are(name: str) -> None:
    named = [each for line in section(name, "Raises") for each in line.split(", ")]

    assert [each for each in named if not hasattr(vc, each) and not hasattr(builtins, each)] == []
