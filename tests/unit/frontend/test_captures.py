"""What a program was built from and changes later without being replaced makes another program."""

from __future__ import annotations

import functools
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

XS = np.arange(1, 6, dtype=np.float32)


class Settings:
    factor = 3

    class Inner:
        factor = 3

    @staticmethod
    def scaled(v: Any) -> Any:
        return v * 3


class Derived(Settings):
    pass


class Scale:
    def __init__(self) -> None:
        self.factor = 3

    def __call__(self, v: Any) -> Any:
        return v * Settings.factor

    def times(self, v: Any) -> Any:
        return v * self.factor


def scaled_by(function: Any) -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        if i < out.size:
            out[i] = function(x[i])

    return f


def scaled_by_const() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32], function: vc.const):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        if i < out.size:
            out[i] = function(x[i])

    return f


def require_change(kernel: Any, change: Any, **given: Any) -> None:
    assert np.array_equal(vc.evaluate(kernel.program(**given), XS), XS * 3)
    change()
    assert np.array_equal(vc.evaluate(kernel.program(**given), XS), XS * 7)


@pytest.mark.parametrize("name", ["Settings", "Inner", "Derived", "staticmethod"])
def test_attributes_of_classes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "staticmethod":
        require_change(
            scaled_by(lambda v: Settings.scaled(v)),
            lambda: monkeypatch.setattr(Settings, "scaled", staticmethod(lambda v: v * 7)),
        )
        return
    function, changed = {
        "Settings": (lambda v: v * Settings.factor, Settings),
        "Inner": (lambda v: v * Settings.Inner.factor, Settings.Inner),
        "Derived": (lambda v: v * Derived.factor, Settings),
    }[name]
    require_change(scaled_by(function), lambda: monkeypatch.setattr(changed, "factor", 7))


def test_an_attribute_that_hides_an_inherited_one(monkeypatch: pytest.MonkeyPatch) -> None:
    function = scaled_by(lambda v: v * Derived.factor)

    require_change(function, lambda: monkeypatch.setattr(Derived, "factor", 7, raising=False))


def test_attributes_of_functions_modules_and_objects() -> None:
    def helper(v: Any) -> Any:
        return v * helper.factor  # type: ignore[attr-defined]

    module, scale, space = ModuleType("module"), Scale(), SimpleNamespace(factor=3)
    for holder, function in (
        (helper, helper),
        (module, lambda v: v * module.factor),
        (scale, lambda v: v * scale.factor),
        (scale, lambda v: scale.times(v)),
        (space, lambda v: v * space.factor),
    ):
        holder.factor = 3  # type: ignore[attr-defined]

        def change(holder: Any = holder) -> None:
            holder.factor = 7

        require_change(scaled_by(function), change)


@pytest.mark.parametrize("kind", [list, dict, np.array, bytearray, "nested"])
def test_contents_of_what_a_plain_function_uses(kind: Any) -> None:
    """A kernel itself, and a vc.func, may not use them."""
    holder: Any = {dict: {0: 3}, "nested": ([3],)}.get(kind) or kind([3])

    def helper(v: Any) -> Any:
        return v * int(holder[0][0] if kind == "nested" else holder[0])

    def change() -> None:
        (holder[0] if kind == "nested" else holder)[0] = 7

    require_change(scaled_by(helper), change)


def test_a_list_that_holds_itself() -> None:
    factors: list[Any] = [3]
    factors.append(factors)

    require_change(scaled_by(lambda v: v * factors[0]), lambda: factors.__setitem__(0, 7))


def test_what_partial_functions_methods_and_callable_consts_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def product(unused: int, v: Any) -> Any:
        return v * Settings.factor

    partial = functools.partial(product, 1)
    require_change(scaled_by(partial), lambda: monkeypatch.setattr(Settings, "factor", 7))
    for function in (partial, Scale(), Scale().__call__):
        monkeypatch.setattr(Settings, "factor", 3)
        require_change(scaled_by_const(), lambda: monkeypatch.setattr(Settings, "factor", 7), function=function)


def test_a_vectorized_function(monkeypatch: pytest.MonkeyPatch) -> None:
    @vc.vectorize
    def f(a: vc.f32) -> vc.f32:
        return a * Settings.factor

    require_change(f, lambda: monkeypatch.setattr(Settings, "factor", 7))


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 3

    def __call__(self, v: Any) -> Any:
        return v * self.factor


def with_default(v: Any, factor: int = 3) -> Any:
    return v * factor


def with_named_default(v: Any, *, factor: int = 3) -> Any:
    return v * factor


def with_object(v: Any, settings: Any = None) -> Any:
    return v * settings.factor


def set_items(function: Any, **values: Any) -> None:
    function.__kwdefaults__.update(values)


DEFAULTS = {
    "positional": (with_default, lambda f: setattr(f, "__defaults__", (7,))),
    "named": (with_named_default, lambda f: setattr(f, "__kwdefaults__", {"factor": 7})),
    "item": (with_named_default, lambda f: set_items(f, factor=7)),
}


@pytest.mark.parametrize("decorated", [False, True], ids=["plain", "func"])
@pytest.mark.parametrize("name", DEFAULTS)
def test_replaced_defaults(name: str, decorated: bool) -> None:
    function, change = DEFAULTS[name]
    before = function.__defaults__, dict(function.__kwdefaults__ or {}) or None
    used: Any = vc.func(function) if decorated else function
    try:
        require_change(scaled_by(lambda v: used(v)), lambda: change(function))
        assert np.array_equal(scaled_by(lambda v: used(v)).python(XS), XS * 7)
    finally:
        function.__defaults__, function.__kwdefaults__ = before


def test_attributes_of_an_object_that_is_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_object, "__defaults__", (Settings,))

    require_change(scaled_by(with_object), lambda: monkeypatch.setattr(Settings, "factor", 7))


def test_replaced_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As IPython's autoreload replaces it."""

    def helper(v: Any) -> Any:
        return v * 3

    require_change(scaled_by(helper), lambda: setattr(helper, "__code__", (lambda v: v * 7).__code__))


class Named(Slotted):
    """With slots and a dictionary."""


class Plain:
    def __init__(self) -> None:
        self.factor = 3

    __call__ = Slotted.__call__

    def __getitem__(self, _: int) -> int:
        return self.factor


USES: dict[str, Any] = {
    "read": lambda o: lambda v: v * o.factor,
    "called": lambda o: lambda v: o(v),
}


@pytest.mark.parametrize("kind", [Slotted, Named, Plain])
@pytest.mark.parametrize("use", USES)
def test_attributes_of_an_object(use: str, kind: type) -> None:
    found = kind()

    require_change(scaled_by(USES[use](found)), lambda: setattr(found, "factor", 7))
    setattr(found, "factor", 3)  # noqa: B010 - the type has one of several classes
    require_change(scaled_by_const(), lambda: setattr(found, "factor", 7), function=USES[use](found))


def test_what_an_operator_of_an_object_reads() -> None:
    found = Plain()

    require_change(scaled_by(lambda v: v * found[0]), lambda: setattr(found, "factor", 7))


def views_of_memory_that_is_written() -> Any:
    owner = np.array([3, 3], np.float32)
    raw = bytearray(owner.tobytes())
    yield owner, owner[:]
    yield owner, owner[:].reshape(2, 1)[:, 0]
    yield raw, np.frombuffer(raw, np.float32)


@pytest.mark.parametrize("number", range(3))
def test_a_read_only_view_of_memory_that_can_be_written(number: int) -> None:
    owner, view = list(views_of_memory_that_is_written())[number]
    view.flags.writeable = False

    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = x[vc.global_id.x] * view[0]

    with pytest.raises(vc.ProgramError, match=r"a view of memory that can be written.*view = view.copy\(\)"):
        f.program()

    def change() -> None:
        owner[:] = np.array([7, 7], np.float32).tobytes() if isinstance(owner, bytearray) else 7

    require_change(scaled_by(lambda v: v * float(view[0])), change)


def test_a_view_of_read_only_memory_is_a_table() -> None:
    owner, data = np.array([3, 7], np.float32), np.frombuffer(np.float32(3).tobytes(), np.float32)
    owner.flags.writeable = False
    view = owner[1:]

    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = x[vc.global_id.x] * view[0] + data[0]

    assert np.array_equal(vc.evaluate(f, XS), XS * 7 + 3)


def test_unchanged_contents_keep_the_program() -> None:
    factors, settings = [3], {"factor": (1, np.float32(2))}
    kernel = scaled_by(lambda v: v * factors[0] * settings["factor"][0])

    first = kernel.program()
    factors[0] = 5
    other = kernel.program()
    factors[0] = 3

    assert other is not first
    assert kernel.program() is first


@pytest.mark.parametrize("word", ["globals", "locals", "vars"])
def test_namespaces_as_dictionaries_are_refused(word: str) -> None:
    @vc.kernel
    def by_globals(x: vc.InOut[vc.i32]):
        x[0] = globals()["__name__"]

    @vc.kernel
    def by_locals(x: vc.InOut[vc.i32]):
        x[0] = locals()["x"]

    @vc.kernel
    def by_vars(x: vc.InOut[vc.i32]):
        x[0] = vars(Settings)["factor"]

    with pytest.raises(vc.ProgramError, match=rf"{word}\(.*\) has no meaning in a kernel: write the name"):
        {"globals": by_globals, "locals": by_locals, "vars": by_vars}[word].program()
