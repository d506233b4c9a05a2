"""What rank 0 runs for its group: it collects values, keeps what each rank has done, and tells who is gone."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

from vyre_cuda.distributed.messages import MAGIC, prepare, receive, send


class Server:
    """Serves `size` ranks at a port, with a thread for each; it stays until the process ends or `close`."""

    def __init__(self, listener: socket.socket, size: int, token: str) -> None:
        self._listener, self._size, self._token = listener, size, token
        self._lock = threading.Lock()  # guards the rest, and every send
        self._ranks: dict[int, socket.socket] = {}
        self._gathered: dict[str, dict[int, Any]] = {}
        self._states: dict[int, Any] = {}
        self._gone: set[int] = set()
        self._left: set[int] = set()
        threading.Thread(target=self._accept, name="vyre_cuda rendezvous", daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def leave(self, rank: int) -> None:
        """All others know when this returns, and have what was told them before."""
        with self._lock:
            self._left.add(rank)
            self._tell({"op": "left", "rank": rank})

    def forget(self) -> None:
        """In a process that was forked from the one that serves."""
        self._listener.close()
        for connection in self._ranks.values():
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            prepare(connection)
            threading.Thread(target=self._serve, args=(connection,), name="vyre_cuda rank", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        rank = self._greet(connection)
        if rank is None:
            connection.close()
            return
        while (message := receive(connection)) is not None:
            with self._lock:
                if message["op"] != "leave":
                    self._answer(rank, connection, message)
            if message["op"] == "leave":
                self.leave(rank)
                break
        with self._lock:
            if rank not in self._left:
                self._gone.add(rank)
                self._tell({"op": "gone", "rank": rank})
            self._ranks.pop(rank, None)
        connection.close()

    def _greet(self, connection: socket.socket) -> int | None:
        """The rank that has come; one that cannot be of this group is told why. It may be stopped before it says who it
        is, for as long as its machine answers."""
        hello = receive(connection)
        if hello is None or hello.get("magic") != MAGIC:
            return None
        rank = hello.get("rank")
        with self._lock:
            wrong = self._wrong(hello, rank)
            _try_send(connection, {"op": "refused", "why": wrong} if wrong else {"op": "welcome"})
            if wrong or not isinstance(rank, int):
                return None
            self._ranks[rank] = connection
            for op, ranks in (("gone", self._gone), ("left", self._left)):
                for other in sorted(ranks):
                    _try_send(connection, {"op": op, "rank": other})
        return rank

    def _wrong(self, hello: dict[str, Any], rank: Any) -> str | None:
        if hello.get("token") != self._token:
            return "another job meets here: set VYRE_CUDA_RENDEZVOUS_PORT to a port of its own for each"
        if hello.get("size") != self._size:
            return f"rank {rank} says that there are {hello.get('size')} ranks, and rank 0 that there are {self._size}"
        if not isinstance(rank, int) or not 0 <= rank < self._size:
            return f"there is no rank {rank} in a group of {self._size}"
        if rank in self._ranks or rank in self._gone or rank in self._left:
            return f"there are two processes of rank {rank}: give each its own"
        return None

    def _answer(self, rank: int, connection: socket.socket, message: dict[str, Any]) -> None:
        """The lock is held."""
        op, name = message["op"], message.get("name", "")
        if op == "gather":
            values = self._gathered.setdefault(name, {})
            values[rank] = message["value"]
            if len(values) == self._size:
                del self._gathered[name]
                self._tell({"op": "gathered", "name": name, "values": [values[r] for r in range(self._size)]})
        elif op == "missing" and name in self._gathered:  # else all have come meanwhile, and have been told
            missing = [r for r in range(self._size) if r not in self._gathered[name]]
            # To all: who waits longer would else see only that this one has given up.
            self._tell({"op": "missing", "name": name, "ranks": missing})
        elif op == "state":
            self._states[rank] = message["state"]
        elif op == "states":
            states = {str(r): state for r, state in self._states.items()}
            _try_send(connection, {"op": "states", "states": states})

    def _tell(self, message: dict[str, Any]) -> None:
        """The lock is held."""
        for connection in list(self._ranks.values()):
            _try_send(connection, message)


def _try_send(connection: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):  # its own thread notices that it is gone
        send(connection, message)
