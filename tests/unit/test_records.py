"""Records behave as the standard library's dataclasses do, in all that the project uses of them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from vyre_cuda import records
from vyre_cuda.record_templates import INITIALIZERS


class _Standard(type):
    """The metaclass of a base whose classes the standard library makes."""

    options: dict[str, bool]

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        if not bases:
            return type.__new__(cls, name, bases, body)
        return dataclasses.dataclass(slots=True, **bases[0].options)(type(name, (), body))


class _StandardRecord(metaclass=_Standard):
    options: ClassVar = {}


class _StandardFrozenRecord(metaclass=_Standard):
    options: ClassVar = {"frozen": True}


STANDARD = SimpleNamespace(FrozenRecord=_StandardFrozenRecord, Record=_StandardRecord, field=dataclasses.field)


def _frozen(kind: Any) -> Any:
    class Sample(kind.FrozenRecord):
        """A sample."""

        shared: ClassVar[int] = 3

        name: str
        size: int = 4
        source: tuple[str, int] | None = kind.field(default=None, compare=False, repr=False)

        @property
        def double(self) -> int:
            return self.size * 2

    return Sample


def _mutable(kind: Any) -> Any:
    class Sample(kind.Record):
        name: str
        found: list[int] = kind.field(default_factory=list)
        label: str = kind.field(default="none", init=False)

    return Sample


def _wide(kind: Any) -> Any:
    class Sample(kind.FrozenRecord):
        a: int
        b: int
        c: int
        d: int
        e: int
        f: int
        g: int = 7
        h: int = 8
        i: int = 9
        j: int = 10

    assert len(Sample.__slots__) >= len(INITIALIZERS)
    return Sample


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPair:
    first: Any
    second: Any = 2


class Pair(records.FrozenRecord):
    first: Any
    second: Any = 2


CALLS = (
    ((), {}),
    (("x",), {}),
    (("x", 2), {}),
    (("x",), {"size": 2}),
    ((), {"size": 2, "name": "x"}),
    (("x", 2, ("f", 3)), {}),
    (("x", 2, None, 5), {}),
    (("x",), {"name": "y"}),
    (("x",), {"other": 1}),
)


@pytest.mark.parametrize("args, kwargs", CALLS)
def test_a_record_is_made_of_the_same_arguments_and_shown_the_same(args, kwargs):
    def outcome(kind: Any) -> Any:
        try:
            return repr(_frozen(kind)(*args, **kwargs)).split(".")[-1]
        except TypeError:
            return TypeError

    expected = outcome(STANDARD)

    assert outcome(records) == expected


MANY_CALLS = (*((range(count), {}) for count in (5, 6, 8, 9)), *((range(6), {name: 1}) for name in "haz"))


@pytest.mark.parametrize("args, kwargs", MANY_CALLS)
def test_a_record_of_many_fields_takes_the_same_arguments(args, kwargs):
    def outcome(kind: Any) -> Any:
        try:
            return dataclasses.astuple(_wide(kind)(*args, **kwargs))
        except TypeError:
            return TypeError

    expected = outcome(STANDARD)

    assert outcome(records) == expected


@pytest.mark.parametrize("make", [_frozen, _mutable])
def test_equality_and_hash_are_of_the_compared_fields(make):
    def outcome(kind: Any) -> list[Any]:
        cls = make(kind)
        values = [cls("x"), cls("x"), cls("y")]
        if make is _frozen:
            values.append(cls("x", 4, ("file", 1)))
        hashes = [hash(v) == hash(("x", 4)) for v in values] if cls.__hash__ else None
        return [[a == b for a in values] for b in values] + [hashes, values[0] == "x", values[0] != values[1]]

    expected = outcome(STANDARD)

    assert outcome(records) == expected


def test_records_of_two_classes_are_never_equal():
    assert Pair(1) != StandardPair(1)
    assert _frozen(records)("x") != _frozen(records)("x")


def test_a_frozen_record_refuses_assignment_and_deletion():
    sample = _frozen(records)("x")

    with pytest.raises(dataclasses.FrozenInstanceError):
        sample.size = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        del sample.size
    assert sample == _frozen_like(sample)


def _frozen_like(sample: Any) -> Any:
    return type(sample)("x")


def test_each_mutable_record_has_a_list_of_its_own():
    cls = _mutable(records)
    first, second = cls("a"), cls("b")
    first.found.append(1)

    assert (first.found, second.found, first.label) == ([1], [], "none")
    assert cls("c", [7]).found == [7]


def test_methods_and_class_variables_stay():
    cls = _frozen(records)

    assert cls("x", 3).double == 6
    assert cls.shared == 3
    assert cls.__doc__ == "A sample."
    assert not hasattr(cls("x"), "__dict__")


def test_the_class_of_a_record_is_a_plain_one_and_keeps_the_cell_of_its_methods():
    class Named(records.FrozenRecord):
        name: str

        def own_class(self) -> type:
            return __class__  # type: ignore[name-defined]

    assert type(Named) is type
    assert Named("x").own_class() is Named


def test_patterns_match_by_position():
    match Pair(1, 3):
        case Pair(first, second):
            assert (first, second) == (1, 3)


@pytest.mark.parametrize("count", range(len(INITIALIZERS) + 2))
def test_any_number_of_fields_is_set_in_order(count):
    names = [f"field{number}" for number in range(count)]
    made = type("Sample", (records.FrozenRecord,), {"__annotations__": dict.fromkeys(names, "int")})

    assert [getattr(made(*range(count)), name) for name in names] == list(range(count))
    assert made(**dict(zip(names, range(count), strict=True))) == made(*range(count))


@pytest.mark.parametrize("make", [_frozen, _mutable, _wide])
def test_the_standard_library_reads_records(make):
    def outcome(kind: Any) -> Any:
        cls = make(kind)
        value = cls(*["x"] * 6) if make is _wide else cls("x")
        changed = dataclasses.replace(value, **({"a": 9} if make is _wide else {"name": "z"}))
        rows = [(f.name, f.init, f.repr, f.compare, f.type) for f in dataclasses.fields(cls)]
        return rows, dataclasses.asdict(changed), dataclasses.astuple(value), dataclasses.is_dataclass(cls)

    expected = outcome(STANDARD)

    assert outcome(records) == expected


def test_replace_changes_the_named_fields_alone():
    sample = _frozen(records)("x", 2, ("f", 1))
    changed = records.replace(sample, size=5)

    assert (changed.name, changed.size, changed.source) == ("x", 5, ("f", 1))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_records_are_pickled_and_copied(protocol):
    pair = Pair([1], (2, "x"))
    copied = pickle.loads(pickle.dumps(pair, protocol))

    assert copied == pair == copy.copy(pair) == copy.deepcopy(pair)
    assert copy.deepcopy(pair).first is not pair.first


def test_a_record_in_itself_is_shown():
    cyclic = Pair([])
    cyclic.first.append(cyclic)

    assert repr(cyclic) == "Pair(first=[...], second=2)"


def test_the_names_of_parameters_are_those_of_the_fields():
    with pytest.raises(TypeError, match="first"):
        Pair()  # type: ignore[call-arg]
    assert Pair.__init__.__code__.co_varnames == ("self", "first", "second")
    assert Pair.__init__.__defaults__ == (2,)


@pytest.mark.parametrize("count", range(len(INITIALIZERS) + 3))
def test_a_record_of_any_number_of_fields_keeps_each_value(count):
    names = [f"field{n}" for n in range(count)]
    cls = type("Made", (records.FrozenRecord,), {"__annotations__": dict.fromkeys(names, "int")})
    value = cls(*range(count))

    assert [getattr(value, name) for name in names] == list(range(count))
    assert value == cls(**dict(zip(names, range(count), strict=True)))


def test_a_field_without_a_default_after_one_with_one_is_refused():
    with pytest.raises(TypeError, match="without a default"):

        class _Wrong(records.FrozenRecord):
            a: int = 1
            b: int  # type: ignore[misc]
