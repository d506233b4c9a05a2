"""A port for rank 0 of a group of processes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def free_port() -> Iterator[int]:
    """Rank 0 can listen there, and nobody else is given it meanwhile: it is bound, and this process does not listen."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("", 0))
        yield int(one.getsockname()[1])
