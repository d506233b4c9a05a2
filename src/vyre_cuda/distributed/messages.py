"""Messages between the ranks of a group: JSON behind its length."""

from __future__ import annotations

import json
import socket
import struct
from contextlib import suppress
from typing import Any

MAGIC = "vyre_cuda rendezvous 1"
_MOST_BYTES = 1 << 24
# Seconds after which a machine that answers nothing counts as gone: it has lost its power or its network. A process
# that is stopped is no such case: its machine answers for it.
_MOST_SILENCE = 30.0
# Seconds that a message may wait for the other side to take earlier ones.
_MOST_BACKLOG = 10.0


def prepare(connection: socket.socket) -> None:
    """Small messages go at once, and neither a machine that has gone nor a process that has stopped is waited for
    without an end."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    between = max(int(_MOST_SILENCE / 3), 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, between)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, between)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_MOST_SILENCE * 1000))
    seconds = int(_MOST_BACKLOG)
    backlog = struct.pack("@ll", seconds, int((_MOST_BACKLOG - seconds) * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, backlog)


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """OSError where it cannot go; the connection has ended then, because a part of the message may have gone."""
    data = json.dumps(message).encode()
    try:
        connection.sendall(struct.pack("!I", len(data)) + data)
    except OSError:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        raise


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """The next message; None when the other side has gone, or is not a rank."""
    try:
        head = _exactly(connection, 4)
        if head is None:
            return None
        (size,) = struct.unpack("!I", head)
        data = _exactly(connection, size) if size <= _MOST_BYTES else None
        message = None if data is None else json.loads(data)
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return None
        data += more
    return data
