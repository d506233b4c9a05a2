"""Messages between the ranks of a group: JSON behind its length."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

MAGIC = "vyre_cuda rendezvous 1"
_MOST_BYTES = 1 << 24


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    connection.sendall(struct.pack("!I", len(data)) + data)


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
