"""The digest of the generator is computed while the driver makes a context, and is the same if that failed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.kernel import compiler_fingerprint
from vyre_cuda.runtime.kernel.compiler_fingerprint import begin, digest_of, generator_digest

PACKAGE = str(Path(vc.__file__).parent)


@pytest.fixture(autouse=True)
def nothing_computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(compiler_fingerprint, "_begun", [])
    compiler_fingerprint._computed.cache_clear()
    yield
    compiler_fingerprint._computed.cache_clear()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that compute the digest."""
    threads = []

    def noted(package: str) -> bytes:
        threads.append(threading.get_ident())
        return digest_of(package)

    monkeypatch.setattr(compiler_fingerprint, "digest_of", noted)
    return threads


def test_opening_devices_begins_it_once(device_name: int | str, computed: list[int]) -> None:
    for _ in range(2):
        with vc.Device(device_name):
            assert generator_digest() == digest_of(PACKAGE)

    assert len(computed) == 1
    assert computed != [threading.get_ident()]


@pytest.mark.emulator
def test_a_device_that_checks_keeps_nothing_on_disk_and_needs_none(computed: list[int]) -> None:
    with vc.Device("emulator", check="races"):
        pass

    assert computed == []


def test_who_asks_first_waits_for_it(monkeypatch: pytest.MonkeyPatch, computed: list[int]) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def held(package: str) -> bytes:
        reached.set()
        go_on.wait()
        return digest_of(package)

    monkeypatch.setattr(compiler_fingerprint, "digest_of", held)
    begin()
    reached.wait()
    found: list[bytes] = []
    asking = threading.Thread(target=lambda: found.append(generator_digest()))
    asking.start()
    go_on.set()
    asking.join()

    assert found == [digest_of(PACKAGE)]


def test_without_another_thread_who_asks_computes_it(monkeypatch: pytest.MonkeyPatch, computed: list[int]) -> None:
    def refuse(*words: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(compiler_fingerprint, "start_new_thread", refuse)
    begin()

    assert generator_digest() == digest_of(PACKAGE)
    assert computed == [threading.get_ident()]


def test_a_file_that_cannot_be_read_is_reported_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(package: str) -> bytes:
        raise PermissionError("codegen")

    monkeypatch.setattr(compiler_fingerprint, "digest_of", unreadable)
    begin()

    with pytest.raises(PermissionError, match="codegen"):
        generator_digest()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_was_forked_in_the_meantime_computes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reached, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    def held(package: str) -> bytes:
        if os.getpid() == parent:
            reached.set()
            go_on.wait()
        return digest_of(package)

    monkeypatch.setattr(compiler_fingerprint, "digest_of", held)
    begin()
    reached.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if generator_digest() == digest_of(PACKAGE) else 1)
    go_on.set()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert generator_digest() == digest_of(PACKAGE)
