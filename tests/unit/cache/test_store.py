"""The disk cache: what was written is read by whoever asks, within bounds, by many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vyre_cuda.cache import entry, files
from vyre_cuda.cache.store import Store

from .stores import SECTIONS, Counters, Faulty, file_of, key, numbers

# ---- hits and misses -------------------------------------------------------------------------------------------------


def test_nothing_is_found_where_nothing_was_written(store, counters, root):
    assert store.read(key(1)) is None
    assert counters["disk_cache_misses"] == 1
    assert not root.exists()


def test_what_was_written_is_read_by_another(store, counters, root):
    store.write(key(1), SECTIONS)
    other = Counters()

    assert Store(str(root), other).read(key(1)) == SECTIONS
    assert Store(str(root), other).read(key(2)) is None
    size = file_of(root, 1).stat().st_size
    assert counters["disk_cache_written_bytes"] == size
    assert other == {"disk_cache_hits": 1, "disk_cache_misses": 1, "disk_cache_read_bytes": size}


def test_a_later_write_replaces_the_earlier(store):
    store.write(key(1), [b"old"])
    store.write(key(1), [b"new"])

    assert store.read(key(1)) == (b"new",)


def test_what_the_driver_refused_is_gone(store, counters):
    store.write(key(1), SECTIONS)
    store.discard(key(1))
    store.discard(key(1))

    assert store.read(key(1)) is None
    assert counters["disk_cache_errors"] == 2


# ---- bounds ----------------------------------------------------------------------------------------------------------


def used(root: Path, number: int, seconds_ago: float) -> None:
    then = time.time() - seconds_ago
    os.utime(file_of(root, number), (then, then))


def test_the_files_used_longest_ago_go_first(root, counters):
    size = entry.file_bytes(SECTIONS)
    store = Store(str(root), counters, max_bytes=size * 8)
    for number in range(8):
        store.write(key(number), SECTIONS)
        used(root, number, 1000 - number)
    assert store.read(key(0)) == SECTIONS  # a use: now it is the newest

    store.write(key(50), SECTIONS)

    assert numbers(root) == {0, 3, 4, 5, 6, 7, 50}
    assert counters["disk_cache_evictions"] == 2
    assert files.contents(str(root)).bytes <= size * 8


def test_a_file_that_was_just_written_stays(root, counters):
    """Times of files are those of the kernel's ticks, so an older file may seem as new."""
    small, large = (b"x",), (bytes(1000),)
    store = Store(str(root), counters, max_bytes=entry.file_bytes(large))
    for number in range(3):
        store.write(key(number), small)
        used(root, number, -10)
    store.write(key(50), large)

    assert numbers(root) == {50}


def test_a_use_that_cannot_be_noted_is_one(store, counters, monkeypatch):
    store.write(key(1), SECTIONS)
    with Faulty(monkeypatch, "utime", nth=1, code=30) as fault:
        assert store.read(key(1)) == SECTIONS
    assert fault.calls == 1
    assert counters["disk_cache_errors"] == 0


def test_a_time_to_come_keeps_no_file(root, counters):
    size = entry.file_bytes(SECTIONS)
    store = Store(str(root), counters, max_bytes=size * 2)
    store.write(key(1), SECTIONS)
    used(root, 1, -1e6)
    store.write(key(2), SECTIONS)
    store.write(key(3), SECTIONS)

    assert 1 not in numbers(root)


def test_what_others_write_counts(root, counters):
    size = entry.file_bytes(SECTIONS)
    ours, theirs = (Store(str(root), counters, max_bytes=size * 20) for _ in range(2))
    for number in range(40):
        (ours, theirs)[number % 2].write(key(number), SECTIONS)

    assert len(numbers(root)) <= 20 + 16


def test_an_entry_larger_than_all_is_not_written(root, counters):
    store = Store(str(root), counters, max_bytes=100)
    store.write(key(1), SECTIONS)

    assert not root.exists()


def test_files_that_were_never_finished_are_removed_after_a_while(store, root):
    store.write(key(1), SECTIONS)
    old, new = (root / "kernels" / f"{files.PARTIAL}{name}" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    Store(str(root), Counters()).write(key(2), SECTIONS)

    assert (old.exists(), new.exists()) == (False, True)
    assert files.contents(str(root)).partial == 1
    files.clear(str(root))
    assert not new.exists()


# ---- many processes --------------------------------------------------------------------------------------------------


HAMMER = """
import collections, random, sys, warnings
from vyre_cuda.cache.store import Store
warnings.simplefilter("error")
root, seed, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def content(number): return (str(number).encode(), bytes([number]) * 3000)
random.seed(seed)
values = collections.Counter()
store = Store(root, lambda name, n: values.update({name: n}), max_bytes=60000)
for _ in range(rounds):
    number = random.randrange(30)
    found = store.read(f"{number:064x}")
    if found is None:
        store.write(f"{number:064x}", content(number))
    else:
        assert found == content(number), number
assert values["disk_cache_errors"] == 0, values
print(values["disk_cache_hits"])
"""

CLEAR = """
import sys
from vyre_cuda.cache import files
while not sys.stdin.closed and not select.select([sys.stdin], [], [], 0)[0]:
    assert files.verify(sys.argv[1]) == {}
    files.clear(sys.argv[1])
"""


@pytest.mark.slow
def test_processes_share_one_directory_while_another_clears_it(root):
    hammers = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, str(root), str(seed), "400"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for seed in range(4)
    ]  # fmt: skip
    clear = subprocess.Popen(
        [sys.executable, "-c", "import select\n" + CLEAR, str(root)],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    outputs = [hammer.communicate() for hammer in hammers]
    _, complaint = clear.communicate("")

    assert [hammer.returncode for hammer in hammers] == [0] * 4, outputs
    assert clear.returncode == 0, complaint
    assert sum(int(out) for out, _ in outputs) > 0
    assert files.verify(str(root)) == {}
    assert files.contents(str(root)).partial == 0
