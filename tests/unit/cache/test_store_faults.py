"""The disk cache where files are damaged, calls fail or the disk is full: a miss, told once, and well afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vyre_cuda.cache import entry, files
from vyre_cuda.cache.store import Store

from .stores import SECTIONS, Counters, Faulty, file_of, key, write_and_miss

# ---- damage ----------------------------------------------------------------------------------------------------------


def _cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def _empty(path):
    path.write_bytes(b"")


def _flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _other(path):
    path.write_bytes(entry.encode(bytes.fromhex(key(2)), SECTIONS))


def _newer(path):
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)


def _foreign(path):
    path.write_bytes(b"\x7fELF" + bytes(1000))


def _link(path):
    kept = path.with_name("elsewhere")
    path.rename(kept)
    path.symlink_to(kept)


def _dangling(path):
    path.unlink()
    path.symlink_to("/nowhere")


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


def _directory(path):
    path.unlink()
    path.mkdir()


def _huge(path):
    with path.open("ab") as file:
        file.truncate(entry.MAX_BYTES + 1)


DAMAGE = (_cut, _empty, _flip, _other, _newer, _foreign, _link, _dangling, _pipe, _directory, _huge)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_missing_and_is_replaced(damage, store, counters, root):
    store.write(key(1), SECTIONS)
    damage(file_of(root, 1))

    assert list(files.verify(str(root))) == [f"{key(1)}.kernel"]
    assert store.read(key(1)) is None
    store.write(key(1), SECTIONS)
    assert store.read(key(1)) == SECTIONS
    assert files.verify(str(root)) == {}
    assert counters["disk_cache_errors"] == 1


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_that_nobody_read_is_replaced_too(damage, store, root):
    store.write(key(1), SECTIONS)
    damage(file_of(root, 1))
    store.write(key(1), SECTIONS)

    assert store.read(key(1)) == SECTIONS


@given(data=st.binary(max_size=400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_file_of_any_bytes_is_never_read_as_an_entry(data, store, root):
    store.write(key(1), SECTIONS)
    file_of(root, 1).write_bytes(data)

    assert store.read(key(1)) is None


def test_an_unreadable_file_is_missing_and_is_replaced(store, root, monkeypatch):
    """As one of mode 0; the user who runs the tests may be one for whom that is no obstacle."""
    store.write(key(1), SECTIONS)
    with Faulty(monkeypatch, "open", nth=3, code=13):
        assert store.read(key(1)) is None
    store.write(key(1), SECTIONS)

    assert store.read(key(1)) == SECTIONS


def test_files_of_others_are_left_alone(store, root):
    store.write(key(1), SECTIONS)
    foreign = root / "kernels" / "notes.txt"
    foreign.write_text("mine")

    assert files.clear(str(root)) == 1
    assert foreign.read_text() == "mine"


# ---- a disk that fails -----------------------------------------------------------------------------------------------


CALLS = ("open", "mkdir", "replace", "utime", "scandir", "fstat", "unlink", "fchmod", "urandom")
CODES = {"EACCES": 13, "ENOSPC": 28, "EROFS": 30, "EIO": 5, "ENOENT": 2}


@pytest.mark.thin(3)
@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
@pytest.mark.parametrize("name", CALLS)
def test_whatever_call_fails_nobody_does_and_all_is_well_afterwards(name, code, root, monkeypatch):
    """Every call of one write and one read fails in turn."""
    nth = 0
    while True:
        nth += 1
        counters = Counters()
        store = Store(str(root), counters)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with Faulty(monkeypatch, name, nth=nth, code=code) as fault:
                store.write(key(1), SECTIONS)
                found = store.read(key(1))
        assert found in (SECTIONS, None)
        assert len(caught) <= 1
        if fault.calls < nth:
            break
        store.write(key(1), SECTIONS)
        assert store.read(key(1)) == SECTIONS
        assert files.contents(str(root)).partial == 0 or name == "unlink"
        for path in [*(root / "kernels").iterdir(), root / "kernels", root] if nth % 2 else []:
            path.rmdir() if path.is_dir() else path.unlink()
    assert nth > 1 or name in ("fchmod", "unlink")


@pytest.mark.parametrize("code", [28, 30])
def test_a_full_or_read_only_disk_is_one_warning(code, store, counters, monkeypatch):
    with Faulty(monkeypatch, "mkdir", nth=1, code=code, repeat=True), pytest.warns(RuntimeWarning) as caught:
        write_and_miss(store, 3)

    assert len(caught) == 1
    assert os.strerror(code) in str(caught[0].message)
    assert counters["disk_cache_errors"] == 3


FULL = """
import resource, sys, warnings
from vyre_cuda.cache.store import Store
from vyre_cuda.cache import files
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
store = Store(sys.argv[1], lambda name, n: None)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for number in range(3):
        store.write(f"{number:064x}", [bytes(1000)])
        assert store.read(f"{number:064x}") is None
    store.write("f" * 64, [])
assert [w.category for w in caught] == [RuntimeWarning], caught
assert store.read("f" * 64) == (), "what fits is written"
assert files.contents(sys.argv[1]) == files.Contents(1, 88, 0)
"""


@pytest.mark.slow
def test_a_disk_that_takes_part_of_a_file_keeps_none_of_it(root):
    done = subprocess.run([sys.executable, "-c", FULL, str(root)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_a_directory_that_goes_away_comes_back(store, root):
    store.write(key(1), SECTIONS)
    for path in [*(root / "kernels").iterdir(), root / "kernels", root]:
        path.rmdir() if path.is_dir() else path.unlink()

    assert store.read(key(1)) is None
    store.write(key(1), SECTIONS)
    assert store.read(key(1)) == SECTIONS
