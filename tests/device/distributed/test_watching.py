"""The thread that watches a communicator, with a group whose connections end when the test says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from vyre_cuda.distributed.session import Session
from vyre_cuda.distributed.watching import Watcher

ENDS_WITHIN = 120.0  # seconds, on a machine that does much else


class Rank:
    """A member that is given a collective between any two looks, and never ends one."""

    rank, size = 1, 2

    def __init__(self) -> None:
        self.issued, self.waiting = 0, 0.0
        self.why = ""
        self.is_looked_at, self.is_aborted = threading.Event(), threading.Event()

    def watch(self) -> tuple[bool, int, int, float, str, int, int]:
        self.issued += 1
        self.is_looked_at.set()
        return False, self.issued, 0, self.waiting, "all_reduce", 4, 0

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
