"""Wrong kernels: each error has file, line, column and expression, and says what to write instead.

`python -m pytest tests/unit/frontend/test_errors.py --update-golden` records errors.txt anew; then read the diff.
"""

from __future__ import annotations

import importlib.util
import linecache
import re
import sys
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.errors import type_name

T = TypeVar("T")
HERE = Path(__file__).parent
RECORD = HERE / "errors.txt"


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("wrong_kernels", HERE / "wrong_kernels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wrong_kernels"] = module
    spec.loader.exec_module(module)
    return module


WRONG = loaded().WRONG


def error_of(name: str) -> vc.ProgramError:
    with pytest.raises(vc.ProgramError) as caught:
        WRONG[name]().program()
    return caught.value


def recorded() -> dict[str, str]:
    parts = RECORD.read_text().split("\n\n") if RECORD.is_file() else []
    return dict(part.strip().split("\n", 1) for part in parts if part.strip())


def without_columns(texts: dict[str, str]) -> dict[str, str]:
    return {name: re.sub(r"(\.py:\d+):\d+: .*\)$", r"\1)", text) for name, text in texts.items()}


def test_errors_are_those_recorded(request: pytest.FixtureRequest) -> None:
    found = {name: str(error_of(name)).replace(str(HERE) + "/", "") for name in WRONG}
    if request.config.getoption("--update-golden"):
        RECORD.write_text("\n\n".join(f"{name}\n{text}" for name, text in found.items()) + "\n")

    expected = recorded()
    if sys.version_info < (3, 11):  # which knows the lines of instructions alone
        found, expected = without_columns(found), without_columns(expected)
    assert found == expected


@pytest.mark.parametrize("name", [name for name in WRONG if name not in ("no_source", "a_lambda")])
def test_error_is_at_its_line_column_and_expression(name: str) -> None:
    error = error_of(name)
    lines = (HERE / "wrong_kernels.py").read_text().splitlines()

    for finding in error.diagnostics:
        assert finding.source is not None
        assert finding.column is not None
        assert finding.expression
        file, line = finding.source
        assert Path(file).name == "wrong_kernels.py"
        text = " ".join(each.strip() for each in [lines[line - 1][finding.column - 1 :], *lines[line : line + 2]])
        assert text.startswith(finding.expression.removesuffix("...")) or finding.expression.startswith("def ")


@pytest.mark.parametrize("decorator", [vc.kernel, vc.func, vc.vectorize])
@pytest.mark.parametrize("what", [3, print, int, "kernel"])
def test_what_is_no_function_is_refused(decorator: Any, what: Any) -> None:
    with pytest.raises(TypeError, match=f"takes a function, not {type_name(what)}"):
        decorator(what)


def test_the_threads_of_a_block_are_told_to_be_an_option() -> None:
    with pytest.raises(TypeError, match=r"not an int: write @vc\.kernel\(block=128\)"):
        vc.kernel(128)  # type: ignore[call-overload]


def test_a_vectorized_function_is_called_so_in_what_is_wrong_with_it() -> None:
    with pytest.raises(vc.ProgramError, match=r"vc\.vectorize takes a function with a name"):
        vc.vectorize(lambda x: x)

    def of_two(x: vc.f32, scale: vc.f32 = 2.0) -> vc.f32:
        return x * scale

    with pytest.raises(vc.ProgramError, match="has no default: pass it in each call"):
        vc.vectorize(of_two)


@vc.kernel
def filled(x: vc.Out[vc.f32]):
    x[vc.global_id.x] = 1


def test_an_out_among_the_arguments_is_told_to_be_passed_by_name() -> None:
    with pytest.raises(TypeError, match=r"filled takes 0 arguments; 1 given \(pass x by out=\)"):
        filled(np.zeros(3, np.float32))


EAGER = """
import numpy as np
import vyre_cuda as vc

@vc.kernel
def f(x: vc.InOut[vc.f32], y: vc.In[np.float64]):
    x[0] = y[0]
"""


def test_an_annotation_that_python_evaluates_is_refused_at_its_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "eager.py"
    path.write_text(EAGER)
    spec = importlib.util.spec_from_file_location("eager", path)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(vc.ProgramError, match=r"float64 where a type .*: write vc.In\[vc.f64\]") as caught:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    finding = caught.value.diagnostics[0]
    assert finding.source == (str(path), 6)
    if sys.version_info >= (3, 11):
        assert (finding.column, finding.expression) == (31, "vc.In[np.float64]")


def test_a_cell_of_a_prompt_is_a_file_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython and Python's own prompt name cells so, and keep their lines."""
    name = "<ipython-input-1-abc>"
    text = "@vc.kernel\ndef f(x: vc.InOut[vc.f32]):\n    i = vc.global_id.x\n    x[i] = x[i] * i\n"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))
    names: dict[str, Any] = {"vc": vc}
    exec(compile(text, name, "exec"), names)
    with pytest.raises(vc.ProgramError, match=r"i32, operand 0 is f32") as caught:
        names["f"].program()

    finding = caught.value.diagnostics[0]
    assert finding.source == (name, 4)
    if sys.version_info >= (3, 11):
        assert (finding.column, finding.expression) == (12, "x[i] * i")


@pytest.mark.filterwarnings("ignore:assertion is always true:SyntaxWarning")
def test_an_assertion_in_parentheses_is_refused_rather_than_true(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "@vc.kernel\ndef f(x: vc.InOut[vc.f32]):\n    assert (x[0] > 0, 'positive')\n"
    monkeypatch.setitem(linecache.cache, "<cell>", (len(text), None, text.splitlines(True), "<cell>"))
    names: dict[str, Any] = {"vc": vc}
    exec(compile(text, "<cell>", "exec"), names)
    with pytest.raises(vc.ProgramError, match="a tuple is always true: write assert condition, message"):
        names["f"].program()


@pytest.mark.parametrize(
    ("name", "instead"),
    [("float32", "write vc.f32"), ("constexpr", "write vc.const"), ("array", r"write vc.In\[type\]"), ("f32x", "f32")],
)
def test_a_name_that_the_package_does_not_have_says_what_to_write(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=rf"module 'vyre_cuda' has no attribute '{name}': .*{instead}") as caught:
        getattr(vc, name)

    assert caught.value.name == name
    assert not hasattr(vc, name)


def test_a_static_method_is_made_a_kernel_first() -> None:
    with pytest.raises(TypeError, match=r"not a staticmethod: write @staticmethod above @vc\.kernel"):
        vc.kernel(staticmethod(error_of))  # type: ignore[arg-type]

    class Model:
        @staticmethod
        @vc.kernel
        def f(x: vc.InOut[vc.f32]) -> None:
            x[0] = 1

    assert np.array_equal(vc.evaluate(Model.f.program(), np.zeros(2, np.float32)), [1, 0])


def test_a_launch_with_brackets_says_how_a_kernel_is_called() -> None:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]) -> None:
        x[0] = 1

    with pytest.raises(TypeError, match=r"f\[...\]: a call needs no grid, f\(...\)"):
        f[1, 32](np.zeros(2, np.float32))


def test_texts_of_what_python_knows_can_be_filled_and_formatted() -> None:
    @vc.kernel
    def f(x: vc.InOut[vc.f32], n: vc.const) -> None:
        assert x[0] > 0, "n is %d" % n + " and {}".format(n)  # noqa: UP031, UP032
        x[0] = n % 3

    assert "n is 5 and 5" in f.program(n=5).text()


def test_what_is_no_device_is_refused() -> None:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]) -> None:
        x[0] = 1

    with pytest.raises(TypeError, match=r"f.on takes a device, not 'emulator': open it, vc.Device\('emulator'\)"):
        f.on("emulator")  # type: ignore[arg-type]


def test_a_program_is_where_its_function_is() -> None:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]) -> None:
        x[0] = 1

    line = f.__wrapped__.__code__.co_firstlineno + 1  # type: ignore[attr-defined]
    assert f.program().source == (__file__, line)


def test_where_a_program_is_needed_open_parameters_are_given_to_the_function() -> None:
    @vc.kernel
    def scaled(x: vc.InOut[T], k: vc.const):
        x[0] *= T(k)

    with pytest.raises(TypeError, match=r"leaves T, k open: write scaled\.program\(T=\.\.\., k=\.\.\.\)"):
        vc.evaluate(scaled, np.zeros(1, np.float32), 2)
