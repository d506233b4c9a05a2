"""Connections between ranks that break, or that nobody reads at the other end."""

from __future__ import annotations

import ctypes
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

import vyre_cuda as vc
from vyre_cuda.distributed import messages
from vyre_cuda.distributed.session import Session, open_session

ENDS_WITHIN = 120.0  # seconds, on a machine that does much else


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Rank 0's, and that of another rank, over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mine = socket.create_connection(listener.getsockname())
        first, _ = listener.accept()
    yield first, mine
    for end in (first, mine):
        end.close()


def _cut(connection: socket.socket) -> None:
    """No packet comes in any more: the kernel drops them, as a network that is cut would."""
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # a packet filter: "return 0 bytes"
    connection.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HP", 1, ctypes.addressof(drop)))  # SO_ATTACH_FILTER


@pytest.mark.thin(2)
@pytest.mark.parametrize("is_told_more", [False, True], ids=["silent", "sending"])
def test_a_machine_that_is_cut_off_counts_as_gone(ends, monkeypatch, is_told_more):
    monkeypatch.setattr(messages, "_MOST_SILENCE", 1.0)
    first, mine = ends
    for end in ends:
        messages.prepare(end)
    session = Session(mine, 1, 2, None)

    for end in ends:
        _cut(end)
    if is_told_more:
        session.publish({"number": 1})

    assert session.has_lost_ranks(ENDS_WITHIN)
    assert session.gone == {0}
    assert messages.receive(first) is None  # rank 0 sees the same


@pytest.mark.thin
def test_a_rank_0_that_takes_no_messages_delays_nobody_for_ever(ends, monkeypatch):
    monkeypatch.setattr(messages, "_MOST_BACKLOG", 1.0)
    first, mine = ends
    messages.prepare(mine)
    session = Session(mine, 1, 2, None)
    refused = []

    def tell() -> None:
        try:
            while True:
                session.publish({"last": "x" * 100_000})
        except vc.CommunicationError as error:
            refused.append(str(error))

    telling = threading.Thread(target=tell)
    telling.start()
    messages.send(first, {"op": "left", "rank": 7})
    assert session.has_lost_ranks(ENDS_WITHIN)
    telling.join(ENDS_WITHIN)

    assert refused == ["rank 0 of 2 ranks is gone: it takes no more messages"]
    with pytest.raises(vc.CommunicationError, match="rank 0 of 2 ranks is gone"):
        session.gather("x", 1, ENDS_WITHIN)


def test_what_comes_is_taken_while_a_message_waits_to_go(ends):
    first, mine = ends
    session = Session(mine, 1, 2, None)

    def tell() -> None:
        with suppress(vc.CommunicationError):
            session.publish({"last": "x" * messages._MOST_BYTES})

    telling = threading.Thread(target=tell)
    telling.start()  # more than the connection holds, and nobody reads it yet
    assert first.recv(1, socket.MSG_PEEK)

    messages.send(first, {"op": "gone", "rank": 0})

    assert session.has_lost_ranks(ENDS_WITHIN)
    assert telling.is_alive()
    mine.shutdown(socket.SHUT_RDWR)
    telling.join(ENDS_WITHIN)


@pytest.mark.thin
def test_rank_0_that_accepts_and_says_nothing_is_said_not_to_answer():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(vc.KernelTimeoutError, match=r"rank 1 waited 1 s for rank 0 .* which does not answer"):
            open_session(1, 2, "127.0.0.1", port, "", timeout=1.0)


@pytest.mark.thin
def test_rank_0_that_ends_in_order_leaves_the_others_what_it_told_them():
    """As often as makes it likely that its threads would not have come to it."""
    for _ in range(4):
        first, second = _processes(2)
        with first, second:
            assert first.communicate(timeout=ENDS_WITHIN)[0] == "['0', '1']\n"
            assert second.communicate(timeout=ENDS_WITHIN)[0] == "['0', '1']\n[0] []\n"


def _processes(size: int) -> list[subprocess.Popen[str]]:
    """Ranks that meet, and end at once; all but rank 0 say who has left, and who is gone."""
    script = """
import atexit, sys, threading
from vyre_cuda.distributed.session import open_session
rank, size, port = map(int, sys.argv[1:])
session = open_session(rank, size, "127.0.0.1", port, "", 100.0)
atexit.register(session.leave)
print(session.gather("all", str(rank), 100.0), flush=True)
if rank > 0:
    session.has_lost_ranks(100.0)
    print(sorted(session.left), sorted(session.gone), flush=True)
"""
    with socket.create_server(("", 0)) as one:
        port = one.getsockname()[1]
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(size), str(port)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(size)
    ]
