"""The disk cache is its user's alone, and is nowhere where that is in doubt."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from vyre_cuda.cache.store import Store

from .stores import SECTIONS, file_of, key, numbers, write_and_miss


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directory_and_files_are_the_users_alone(store, root):
    before = os.umask(0)
    try:
        store.write(key(1), SECTIONS)
    finally:
        os.umask(before)

    assert [mode(root), mode(root / "kernels"), mode(file_of(root, 1))] == [0o700, 0o700, 0o600]


def test_a_directory_that_others_can_enter_is_closed_to_them(store, root):
    (root / "kernels").mkdir(parents=True)
    (root / "kernels").chmod(0o777)
    store.write(key(1), SECTIONS)

    assert mode(root / "kernels") == 0o700


@pytest.mark.parametrize("inner", [False, True], ids=["root", "kernels"])
def test_a_directory_of_somebody_else_is_refused(inner, store, root, monkeypatch):
    store.write(key(1), SECTIONS)
    owner = os.fstat

    def status(handle):
        found = owner(handle)
        is_inner = os.readlink(f"/proc/self/fd/{handle}").endswith("/kernels")
        values = list(found[:10])
        values[4] += is_inner == inner and stat.S_ISDIR(found.st_mode)
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", status)
    with pytest.warns(RuntimeWarning, match="belongs to user"):
        assert store.read(key(1)) is None
    store.write(key(2), SECTIONS)  # without another warning
    monkeypatch.undo()

    assert numbers(root) == {1}


def test_a_link_in_place_of_the_directory_is_not_followed(store, root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.mkdir()
    (root / "kernels").symlink_to(elsewhere)
    with pytest.warns(RuntimeWarning, match="not cached on disk"):
        store.write(key(1), SECTIONS)

    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("place", ["root", "kernels"])
def test_a_file_in_place_of_the_directory_is_one_warning(place, store, root):
    if place == "root":
        root.write_text("a file")
    else:
        root.mkdir()
        (root / "kernels").write_text("a file")
    with pytest.warns(RuntimeWarning) as caught:
        write_and_miss(store, 3)

    assert len(caught) == 1
    assert store.read(key(1)) is None


def test_a_directory_that_cannot_be_made_is_one_warning(counters):
    store = Store("/proc/vyre-cuda-no-such-place/below", counters)

    with pytest.warns(RuntimeWarning, match="not cached on disk: /proc/vyre-cuda-no-such-place") as caught:
        write_and_miss(store, 2)

    assert len(caught) == 1
    assert counters["disk_cache_errors"] == 2
