"""The thread that watches a communicator, with a group whose connections end when the test says so."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import vyre_cuda as vc
from vyre_cuda.distributed import messages, watching
from vyre_cuda.distributed.session import Session
from vyre_cuda.distributed.watching import Watcher

ENDS_WITHIN = 120.0  # seconds, on a machine that does much else


class Rank:
    """A member that is given a collective between any two looks, and never ends one."""

    rank, size = 1, 2

    def __init__(self) -> None:
        self.issued, self.waiting, self.error = 0, 0.0, 0
        self.why = ""
        self.is_looked_at, self.is_aborted = threading.Event(), threading.Event()

    def watch(self) -> tuple[bool, int, int, float, tuple[int, int, int, int, int], int]:
        self.issued += 1
        self.is_looked_at.set()
        return False, self.issued, 0, self.waiting, (0, 7, 0, 0, 4), self.error

    def abort(self, why: str) -> None:
        self.why = why
        self.is_aborted.set()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Rank 0's, and this rank's."""
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


def test_a_rank_that_cannot_tell_rank_0_what_it_does_learns_that_it_is_gone(ends):
    first, mine = ends
    member = Rank()
    watcher = Watcher(member, Session(mine, 1, 2, None), 1, limit=1000.0)
    assert member.is_looked_at.wait(ENDS_WITHIN)

    first.close()  # with what this rank has told it unread: from now on telling it more fails

    assert member.is_aborted.wait(ENDS_WITHIN), "nobody watches any more"
    assert member.why.startswith("rank 0 of 2 ranks is gone: rank 1 ended its communicator")
    watcher.stop()


def test_what_a_rank_waits_for_is_not_late_because_the_rank_itself_was_stopped(ends, monkeypatch):
    """Another one has left, so what has not come within seconds never will; but only those count in which it could have
    been taken."""
    _, mine = ends
    member, session = Rank(), Session(mine, 1, 2, None)
    watcher = Watcher(member, session, 1, limit=1000.0)
    watcher.stop()
    session.left.add(0)
    now = time.monotonic()
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: now))
    assert watcher.look(member)

    now += 5000.0  # nothing of this process ran
    member.waiting = 5000.0
    assert watcher.look(member), member.why
    for _ in range(20):
        now += 0.1
        member.waiting += 0.1
        assert watcher.look(member), member.why

    for _ in range(50):
        now += 0.1
        watcher.look(member)
    last = f"the all_reduce of 4 f32 by add, collective {member.issued}"
    assert member.why == f"rank 0 left the group while rank 1 waits for {last}"


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_rank_that_is_gone_is_named_once_in_the_error_of_a_call(ends, is_ended):
    """Where the communicator has ended, for that reason, the error of the call says it already."""
    first, mine = ends
    session = Session(mine, 1, 2, None)
    watcher = Watcher(member := Rank(), session, 1, limit=1000.0)
    watcher.stop()
    first.close()
    session.has_lost_ranks(ENDS_WITHIN)
    member.watch = lambda: (is_ended, 1, 0, 0.0, (0, 7, 0, 0, 4), 0)  # type: ignore[method-assign]
    ended = "rank 0 of 2 ranks is gone: rank 1 ended its communicator"

    error = watcher.explained(member, "all_reduce", vc.CommunicationError(ended if is_ended else "gave 3"))

    assert str(error) == (ended if is_ended else "rank 0 of 2 ranks is gone: rank 1 was refused all_reduce (gave 3)")
    assert error.ranks == (0,)


def test_an_error_of_nccl_is_told_as_the_end_of_the_rank_from_which_it_comes(ends, monkeypatch):
    """NCCL's connections may break before those of the group."""
    first, mine = ends
    monkeypatch.setattr(watching, "_AFTER_ERROR", ENDS_WITHIN)
    member = Rank()
    watcher = Watcher(member, Session(mine, 1, 2, None), 1, limit=1000.0)
    watcher.stop()
    member.error = 6
    breaks = threading.Timer(0.3, first.close)
    breaks.start()

    watcher.look(member)

    assert member.why.startswith("rank 0 of 2 ranks is gone: rank 1 ended its communicator"), member.why
    breaks.join()


def test_a_close_ends_although_another_thread_closes_at_the_same_time(ends):
    class Closing(Rank):
        """Closed by another thread while this one asks what its work does."""

        is_closed = False

        def watch(self) -> tuple[bool, int, int, float, tuple[int, int, int, int, int], int]:
            raise ValueError("the communicator is closed: make another one")

    _, mine = ends
    watcher = Watcher(Rank(), Session(mine, 1, 2, None), 1, limit=1000.0)

    watcher.close(closing := Closing())

    assert not closing.is_aborted.is_set()
    assert not watcher._thread.is_alive()


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (
            {"last": "recv of 3 f32 from rank 1", "issued": 2},
            "rank 0 was given as many: its last is recv of 3 f32 from",
        ),
        (
            {"digest": "1" * 16, "issued": 2, "has_closed": True},
            "rank 0 was given others: its last is all_reduce of 3 f32 by max",
        ),
        ({"issued": 1, "has_closed": True}, "rank 0 has closed its communicator after collective 1"),
        ({"issued": 2}, "all ranks were given the same collectives"),
    ],
)
def test_an_error_of_nccl_says_what_both_were_given(ends, monkeypatch, others, words):
    first, mine = ends
    monkeypatch.setattr(watching, "_AFTER_ERROR", 0.0)
    its = {"number": 1, "digest": "0" * 16, "last": "all_reduce of 3 f32 by max", "has_closed": False} | others
    watcher = Watcher(member := Rank(), Session(mine, 1, 2, None), 1, limit=1000.0)
    watcher.stop()
    member.issued, member.error = 1, 6

    def answer() -> None:
        while (message := messages.receive(first)) is not None:
            if message["op"] == "states":
                messages.send(first, {"op": "states", "states": {"0": its, "1": its | {"issued": 2}}})

    answering = threading.Thread(target=answer)
    answering.start()
    watcher.look(member)
    mine.shutdown(socket.SHUT_RDWR)
    answering.join(ENDS_WITHIN)

    assert member.why.startswith(
        f"NCCL reports error 6 for rank 1, whose last is the all_reduce of 4 f32 by add, collective 2; {words}"
    )
