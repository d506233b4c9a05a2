"""Which compilers tests, benchmarks and tools run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vyre_cuda.testing.compilers import c_compiler, cpp_compiler

each_language = pytest.mark.parametrize(
    ("variable", "compiler", "default"), [("CC", c_compiler, "cc"), ("CXX", cpp_compiler, "c++")], ids=["c", "cpp"]
)


@each_language
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("gcc-13", ["gcc-13"]),
        ("ccache gcc", ["ccache", "gcc"]),
        ("'/opt/my tools/cc' -m64", ["/opt/my tools/cc", "-m64"]),
    ],
)
def test_the_variable_names_a_program_and_its_arguments(
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    compiler: Callable[[], list[str]],
    default: str,
    value: str,
    expected: list[str],
) -> None:
    monkeypatch.setenv(variable, value)

    assert compiler() == expected


@each_language
@pytest.mark.parametrize("value", [None, "", " "])
def test_without_one_it_is_the_compiler_of_the_system(
    monkeypatch: pytest.MonkeyPatch, variable: str, compiler: Callable[[], list[str]], default: str, value: str | None
) -> None:
    monkeypatch.delenv(variable, raising=False)
    if value is not None:
        monkeypatch.setenv(variable, value)

    assert compiler() == [default]
