"""A store and its files as the tests of the cache see them, and calls of `os` that fail."""

from __future__ import annotations

import collections
import os
from pathlib import Path
from typing import Any

import pytest

from vyre_cuda.cache.digest import key_of
from vyre_cuda.cache.store import Store


class Counters(collections.Counter[str]):
    """What a store told."""

    def __call__(self, name: str, n: int) -> None:
        self[name] += n


SECTIONS = (b"facts", b"text", b"image" * 50)


def key(number: int) -> str:
    return key_of([str(number).encode()])


def file_of(root: Path, number: int) -> Path:
    return root / "kernels" / f"{key(number)}.kernel"


def numbers(root: Path) -> set[int]:
    return {n for n in range(100) if file_of(root, n).exists()}


def write_and_miss(store: Store, count: int) -> None:
    for number in range(count):
        store.write(key(number), SECTIONS)
        assert store.read(key(number)) is None


class Faulty:
    """Lets the n-th call of a function of `os` fail, and counts the calls."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, name: str, *, nth: int, code: int, repeat: bool = False
    ) -> None:
        self.calls = 0
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == nth or (repeat and self.calls > nth):
                raise OSError(code, os.strerror(code))
            return real(*args, **kwargs)

        self._patched = monkeypatch.context()
        self._name = name
        self._call = call

    def __enter__(self) -> Faulty:
        self._patched.__enter__().setattr(os, self._name, self._call)
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._patched.__exit__(*error)
