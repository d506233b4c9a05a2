"""Connections between ranks that break, or that nobody reads at the other end."""

from __future__ import annotations

import ctypes
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import pytest

import vyre_cuda as vc
from vyre_cuda.distributed import messages
from vyre_cuda.distributed import session as session_module
from vyre_cuda.distributed.server import Server
from vyre_cuda.distributed.session import Session, open_session

from .ports import free_port

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


def _end(before: list[threading.Thread], *ends: socket.socket) -> None:
    """And the threads that have begun since."""
    for end in ends:
        end.shutdown(socket.SHUT_RDWR)
    for thread in set(threading.enumerate()) - set(before):
        thread.join(ENDS_WITHIN)
    for end in ends:
        end.close()


@pytest.mark.thin
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
        with suppress(vc.CommunicationError):  # it is known already
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


def test_a_rank_that_is_stopped_beyond_its_limit_takes_what_has_come_meanwhile(ends):
    """All have given their values, and it has not seen that in time. It asks who is missing, and is told the values."""
    first, mine = ends
    session = Session(mine, 1, 2, None)
    told = []

    def tell() -> None:
        told.extend([messages.receive(first), messages.receive(first)])
        messages.send(first, {"op": "gathered", "name": "x", "values": [4, 5]})

    telling = threading.Thread(target=tell)
    telling.start()
    values = session.gather("x", 5, 0.0)
    telling.join(ENDS_WITHIN)

    assert values == [4, 5]
    assert told == [{"op": "gather", "name": "x", "value": 5}, {"op": "missing", "name": "x"}]


def test_nobody_is_missing_where_all_have_given_their_values():
    before, listener = threading.enumerate(), socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    first = open_session(0, 2, "127.0.0.1", port, "", ENDS_WITHIN, listener)
    second = open_session(1, 2, "127.0.0.1", port, "", ENDS_WITHIN)
    first._send({"op": "gather", "name": "x", "value": 4})
    assert first.states() == {}  # so rank 0 has taken what was sent before

    assert second.gather("x", 5, 0.0) == [4, 5]

    assert second.states() == {}
    assert first.states() == {}
    assert (first._gathered, first._missing) == ({"x": [4, 5]}, {})
    _end(before, listener, second._connection, first._connection)


@pytest.mark.thin
def test_rank_0_that_accepts_and_says_nothing_is_said_not_to_answer():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(vc.KernelTimeoutError, match=r"rank 1 waited 1 s for rank 0 .* which does not answer"):
            open_session(1, 2, "127.0.0.1", port, "", timeout=1.0123)


@pytest.mark.long
def test_a_rank_may_be_stopped_for_long_before_it_says_who_it_is():
    before, listener = threading.enumerate(), socket.create_server(("127.0.0.1", 0))
    Server(listener, 2, "")
    connection = socket.create_connection(listener.getsockname())

    assert select.select([connection], [], [], 32.0) == ([], [], [])  # it is not closed meanwhile
    messages.send(connection, {"magic": messages.MAGIC, "rank": 1, "size": 2, "token": ""})

    assert messages.receive(connection) == {"op": "welcome"}
    _end(before, listener, connection)


@pytest.mark.thin
def test_a_rank_that_was_stopped_beyond_its_limit_is_answered(monkeypatch):
    """It has connected, and is stopped before it says who it is: by 500 seconds on its clock. Rank 0 needs a moment."""
    before, listener, stopped_for = threading.enumerate(), socket.create_server(("127.0.0.1", 0)), [0.0]
    connected, greet = session_module._connected, Server._greet

    def stopped(*where):
        stopped_for[0] += 500.0
        return connected(*where)

    def late(server, connection):
        time.sleep(0.3)
        return greet(server, connection)

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + stopped_for[0], sleep=time.sleep)
    monkeypatch.setattr(session_module, "_connected", stopped)
    monkeypatch.setattr(session_module, "time", clock)
    monkeypatch.setattr(Server, "_greet", late)
    Server(listener, 2, "")

    met = open_session(1, 2, "127.0.0.1", listener.getsockname()[1], "", timeout=ENDS_WITHIN)

    assert met.rank == 1
    _end(before, listener, met._connection)


@pytest.mark.thin
def test_rank_0_that_ends_in_order_leaves_the_others_what_it_told_them():
    """As often as makes it likely that its threads would not have come to it."""
    for _ in range(4):
        with free_port() as port, ExitStack() as ends:
            first, second = (ends.enter_context(process) for process in _processes(2, port))
            assert first.communicate(timeout=ENDS_WITHIN)[0] == "['0', '1']\n"
            assert second.communicate(timeout=ENDS_WITHIN)[0] == "['0', '1']\n[0] []\n"


def _processes(size: int, port: int) -> list[subprocess.Popen[str]]:
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
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(size), str(port)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(size)
    ]
