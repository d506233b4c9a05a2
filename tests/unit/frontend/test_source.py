"""The lines of a definition: those that `inspect` finds, which is asked only where the indentation does not tell."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from uncollected import uncollected

import vyre_cuda as vc
from vyre_cuda.frontend.source import source_of

PLAIN = {
    "one line": "def f(x): return x\ny = 1\n",
    "last of the file": "def f(x):\n    return x",
    "empty lines and comments": "def f(x):\n\n# here\n    y = x\n    # there\n    return y\n\n\n# behind\ny = 1\n",
    "a signature on several lines": "def f(\n    x,\n):\n    return x\n\n\ny = 1\n",
    "decorators": "@same\n@made(\n    1,\n)\ndef f(x):\n    return x\ny = 1\n",
    "a call that ends on a line of its own": "def f(x):\n    max(\n        x,\n        x,\n    )\n\ny = 1\n",
    "blocks": "def f(x):\n    if x:\n        x = 1\n    else:\n        x = 2\nif 1:\n    y = 1\nelse:\n    y = 2\n",
    "an inner function": "def f(x):\n    def g(\n        y,\n    ):\n        return y\n    return g\ny = 1\n",
    "a docstring alone": 'def f(x):\n    """Text.\n\n    More.\n    """\n\n\ny = 1\n',
    "a method": "class C:\n    @same\n    def f(x):\n        return x\n\n    y = 1\n\n\nf = C.f\n",
    "tabs": "if 1:\n\tdef f(x):\n\t\treturn x\n\ty = 1\n",
}
ODD = {
    "a text that is indented less": 'def f(x):\n    return """\nno end\n"""\n\n\ny = 1\n',
    "an expression that is indented less": "def f(x):\n    return (\nx\n+ 1\n)\n\n\ny = 1\n",
    "a line that goes on": "def f(x):\n    return x + \\\n1\n\n\ny = 1\n",
    "a default that is indented less": "def f(x, y=[\n1,\n2,\n]): pass\ny = 1\n",
}
AROUND = "def same(f):\n    return f\n\n\ndef made(n):\n    return same\n\n\n"


def loaded(folder: Path, text: str) -> Any:
    path = folder / "written.py"
    path.write_text(AROUND + text)
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def expected(function: FunctionType) -> str:
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    return ast.dump(ast.increment_lineno(tree, first - 1), include_attributes=False)


@pytest.fixture
def without_inspect(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(*_: object) -> None:
        raise AssertionError("inspect was asked")

    return lambda: monkeypatch.setattr(inspect, "getblock", refuse)


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_the_indentation_tells_where_a_definition_ends(
    tmp_path: Path, text: str, without_inspect: Callable[[], None]
) -> None:
    function = loaded(tmp_path, text)
    wanted = expected(function)
    without_inspect()
    tree = source_of(function, "kernel").tree("f")

    assert ast.dump(tree) == wanted
    assert tree.lineno == (AROUND + text).splitlines().index(next(s for s in text.splitlines() if "def f" in s)) + 1


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_inspect_is_asked_where_it_does_not(tmp_path: Path, text: str) -> None:
    function = loaded(tmp_path, text)

    assert ast.dump(source_of(function, "kernel").tree("f")) == expected(function)


@vc.kernel(block=256)
def counted(x: vc.In[vc.f32], y: vc.In[vc.f32], a: vc.f32):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    if i < out.size:
        out[i] = a * x[i] + y[i]


# Calls of Python and C functions, which are what a build spends its time in. More are no mistake; they are a decision.
MOST_CALLS = 5500


def test_a_build_takes_few_calls():
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    with uncollected():
        sys.setprofile(count)
        try:
            counted.program()
        finally:
            sys.setprofile(None)

    assert 0 < calls <= MOST_CALLS
