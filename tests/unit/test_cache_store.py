"""The disk cache: what was written is read by whoever asks, within bounds, whatever else befalls its files."""

from __future__ import annotations

import collections
import os
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vyre_cuda.cache import entry, files
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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def store(root: Path, counters: Counters) -> Store:
    return Store(str(root), counters)


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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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


# ---- bounds ----------------------------------------------------------------------------------------------------------


def used(root: Path, number: int, seconds_ago: float) -> None:
    then = time.time() - seconds_ago
    os.utime(file_of(root, number), (then, then))


def numbers(root: Path) -> set[int]:
    return {n for n in range(100) if file_of(root, n).exists()}


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
    with Faulty(monkeypatch, "utime", nth=1, code=30):
        assert store.read(key(1)) == SECTIONS
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


# ---- who may look ----------------------------------------------------------------------------------------------------


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


def write_and_miss(store: Store, count: int) -> None:
    for number in range(count):
        store.write(key(number), SECTIONS)
        assert store.read(key(number)) is None


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


# ---- a disk that fails -----------------------------------------------------------------------------------------------


class Faulty:
    """Lets the n-th call of a function of `os` fail, and counts the calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, *, nth: int, code: int, repeat: bool = False):
        self.calls = 0
        real = getattr(os, name)

        def call(*args, **kwargs):
            self.calls += 1
            if self.calls == nth or (repeat and self.calls > nth):
                raise OSError(code, os.strerror(code))
            return real(*args, **kwargs)

        self._patch = monkeypatch.context()
        self._set = lambda patch: patch.setattr(os, name, call)

    def __enter__(self):
        self._set(self._patch.__enter__())
        return self

    def __exit__(self, *error):
        return self._patch.__exit__(*error)


CALLS = ("open", "mkdir", "replace", "utime", "scandir", "fstat", "unlink", "fchmod", "urandom")
CODES = {"EACCES": 13, "ENOSPC": 28, "EROFS": 30, "EIO": 5, "ENOENT": 2}


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
print(values["disk_cache_hits"], values["disk_cache_evictions"])
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
    assert sum(int(out.split()[0]) for out, _ in outputs) > 0
    assert files.verify(str(root)) == {}
    assert files.contents(str(root)).partial == 0
