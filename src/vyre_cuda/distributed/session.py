"""This process among the ranks of its group: the connection to rank 0, and who of the others is gone.

Ranks meet at rank 0, over TCP, without PyTorch; NCCL has connections of its own. The connection stays while the process
lives, and so tells the others when it ends.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from vyre_cuda.distributed.messages import MAGIC, prepare, receive, send
from vyre_cuda.distributed.server import Server
from vyre_cuda.errors import CommunicationError, KernelTimeoutError

_AFTER_LEAVING = 5.0  # seconds
_ANSWER = 10.0  # seconds in which rank 0 answers, where it is not stopped


_open: weakref.WeakSet[Session] = weakref.WeakSet()


def _close_in_child() -> None:
    """A fork of a rank must not keep its connection: nobody would learn that the rank has ended."""
    for session in list(_open):
        session._forget()


os.register_at_fork(after_in_child=_close_in_child)


def listen(port: int) -> socket.socket:
    """A socket at a port of this machine; 0: any that is free."""
    listener = socket.create_server(("", port), backlog=512)
    listener.set_inheritable(False)
    return listener


class Session:
    """One rank; made by `open_session`. Every wait has a time limit, and says who is missing."""

    def __init__(self, connection: socket.socket, rank: int, size: int, server: Server | None) -> None:
        self.rank, self.size = rank, size
        self._connection, self._server = connection, server
        self._sending = threading.Lock()  # not the other: a send may wait, and what comes meanwhile is taken
        # Guards the rest, and is what the condition is entered by: a signal handler that raises within its own
        # `__enter__` would leave it locked for ever.
        self._lock = threading.RLock()
        self._change = threading.Condition(self._lock)
        self._gathered: dict[str, list[Any]] = {}
        self._missing: dict[str, list[int]] = {}
        self._states: dict[str, Any] | None = None
        self.gone: set[int] = set()
        self.left: set[int] = set()
        self._is_over = self._is_forked = False
        self._told: set[Callable[[], None]] = set()
        _open.add(self)
        threading.Thread(target=self._listen, name="vyre_cuda session", daemon=True).start()

    def gather(self, name: str, value: Any, timeout: float, purpose: str = "") -> list[Any]:
        """Each rank's value, once all have given theirs under this name; `purpose` says in errors what that is for."""
        self._send({"op": "gather", "name": name, "value": value})
        limit = time.monotonic() + timeout
        with self._lock:
            while name not in self._gathered:
                if name in self._missing:
                    break
                if self.gone:
                    raise self.error(f"rank {self.rank} waits for all {purpose or 'to join'}")
                if self.left:  # what they gave before has come by then
                    limit = min(limit, time.monotonic() + _AFTER_LEAVING)
                if not self._change.wait(max(limit - time.monotonic(), 0.0)) and time.monotonic() >= limit:
                    break
            else:
                return self._gathered.pop(name)
        return self._late(name, timeout, purpose)

    def publish(self, state: Any) -> None:
        """Tell rank 0 what this rank has given to its device."""
        self._send({"op": "state", "state": state})

    def states(self) -> dict[int, Any] | None:
        """What each rank has told; None where rank 0 does not answer."""
        with self._lock:
            self._states = None
        try:
            self._send({"op": "states"})
        except CommunicationError:
            return None
        with self._lock:
            self._change.wait_for(lambda: self._states is not None or self._is_over, _ANSWER)
            return self._told_states()

    def _told_states(self) -> dict[int, Any] | None:
        return None if self._states is None else {int(rank): state for rank, state in self._states.items()}

    def has_lost_ranks(self, timeout: float) -> bool:
        """Whether a rank is gone or has left, or does so within `timeout` seconds."""
        with self._lock:
            return bool(self._change.wait_for(lambda: self.gone or self.left, timeout))

    @contextmanager
    def telling(self, tell: Callable[[], None]) -> Iterator[None]:
        """`tell` is called, by another thread, too, where a rank is gone or has left, or does so within the block."""
        with self._lock:
            self._told.add(tell)
        try:
            if self.has_lost_ranks(0.0):
                tell()
            yield
        finally:
            with self._lock:
                self._told.discard(tell)

    def _tell(self) -> None:
        """The lock is held."""
        if self.gone or self.left:
            for tell in self._told:
                tell()

    def leave(self) -> None:
        """The process ends, as it should: the others need not call that a failure."""
        if self._is_forked:
            return
        if self._server is not None:  # whose threads end with the process
            self._server.leave(self.rank)
            return
        with suppress(CommunicationError):
            self._send({"op": "leave"})

    def error(self, what: str) -> CommunicationError:
        """For ranks that are gone."""
        return CommunicationError(
            f"{named(self.gone)} of {self.size} ranks {_is(self.gone)} gone: {what}", sorted(self.gone)
        )

    def _late(self, name: str, timeout: float, purpose: str) -> list[Any]:
        """The values after all, where it was this rank that was late to take them: one that was stopped, say."""
        with self._lock:
            if name in self._gathered:
                return self._gathered.pop(name)
            is_told = name in self._missing
        if not is_told:
            self._send({"op": "missing", "name": name})
        with self._lock:
            known = self._gathered, self._missing
            self._change.wait_for(lambda: any(name in its for its in known) or self._is_over, _ANSWER)
            if name in self._gathered:
                return self._gathered.pop(name)
            missing = self._missing.pop(name, None)
        if missing and self.left & set(missing):
            raise CommunicationError(f"{named(missing)} left the group while rank {self.rank} waits for all {purpose}")
        for_what = f" {purpose}" if purpose else ""
        waited = f"rank {self.rank} waited {_seconds(timeout)} s for the other ranks{for_what}, and"
        if missing is None:
            raise KernelTimeoutError(f"{waited} rank 0, where they meet, does not answer")
        who = named(missing) if missing else "some ranks"
        raise KernelTimeoutError(f"{waited} {who} of {self.size} did not come")

    def _forget(self) -> None:
        """In a child. No lock is taken: a thread that is not there may have it."""
        self._is_forked = True
        self._connection.close()
        if self._server is not None:
            self._server.forget()

    def _send(self, message: dict[str, Any]) -> None:
        if self._is_forked:
            raise CommunicationError(
                f"this process is a fork of the one that is rank {self.rank}, and cannot be a rank: start it with the "
                "spawn method, and join in it"
            )
        try:
            with self._sending:
                send(self._connection, message)
        except BlockingIOError:
            self._lose()
            raise self._lost("it takes no more messages") from None
        except OSError:
            self._lose()
            raise self._lost("its connection is closed") from None

    def _lost(self, why: str) -> CommunicationError:
        if self.gone:
            return self.error(why)
        return CommunicationError(f"rank 0 left the group, and rank {self.rank} reaches the others through it")

    def _listen(self) -> None:
        while (message := receive(self._connection)) is not None:
            with self._lock:
                self._take(message)
                self._tell()
                self._change.notify_all()
        self._lose()

    def _lose(self) -> None:
        with self._lock:
            self._is_over = True
            if 0 not in self.left and self.rank != 0:
                self.gone.add(0)
            self._tell()
            self._change.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        op = message["op"]
        if op == "gathered":
            self._gathered[message["name"]] = message["values"]
        elif op == "missing":
            self._missing[message["name"]] = message["ranks"]
        elif op == "states":
            self._states = message["states"]
        elif op == "gone":
            self.gone.add(message["rank"])
        elif op == "left":
            self.left.add(message["rank"])


def named(ranks: Any) -> str:
    listed = [str(rank) for rank in sorted(ranks)]
    return f"rank {listed[0]}" if len(listed) == 1 else f"ranks {', '.join(listed)}"


def _seconds(time: float) -> str:
    """Rounded, as what is left of a time limit has many digits."""
    return f"{round(time, 1 if time >= 1.0 else 3):g}"


def _is(ranks: Any) -> str:
    return "is" if len(ranks) == 1 else "are"


def open_session(
    rank: int, size: int, address: str, port: int, token: str, timeout: float, listener: socket.socket | None = None
) -> Session:
    """Meet at rank 0, which listens there. KernelTimeoutError where it does not come, CommunicationError where the two
    do not fit."""
    server = None
    if rank == 0:
        try:
            server = Server(listener if listener is not None else listen(port), size, token)
        except OSError as error:
            raise CommunicationError(
                f"rank 0 cannot listen at port {port}: {error}; set VYRE_CUDA_RENDEZVOUS_PORT to a free one for all "
                "ranks"
            ) from None
        address = "127.0.0.1"
    begin = time.monotonic()
    connection = _connected(address, port, rank, timeout)
    try:
        # One that comes late, or was stopped, gives rank 0 time to answer, too.
        left = max(begin + timeout - time.monotonic(), min(timeout, _ANSWER))
        _introduce(connection, {"magic": MAGIC, "rank": rank, "size": size, "token": token}, left)
    except _NoAnswer as error:
        connection.close()
        where = f"{address}:{port}"
        if error.is_late:
            raise KernelTimeoutError(
                f"rank {rank} waited {_seconds(timeout)} s for rank 0 at {where}, which does not answer"
            ) from None
        raise CommunicationError(
            f"what listens at {where} is not rank 0 of this group; set VYRE_CUDA_RENDEZVOUS_PORT to a free port for "
            "all ranks"
        ) from None
    except CommunicationError:
        connection.close()
        raise
    return Session(connection, rank, size, server)


class _NoAnswer(Exception):
    """Nothing has come, or nothing that rank 0 would say."""

    def __init__(self, is_late: bool) -> None:
        self.is_late = is_late


def _introduce(connection: socket.socket, hello: dict[str, Any], timeout: float) -> None:
    answer, begin = None, time.monotonic()
    connection.settimeout(timeout)
    with suppress(OSError):
        send(connection, hello)
        answer = receive(connection)
    connection.settimeout(None)
    if answer is None:
        raise _NoAnswer(time.monotonic() - begin >= timeout)
    if answer["op"] == "refused":
        raise CommunicationError(f"rank 0 refused rank {hello['rank']}: {answer['why']}")


def _connected(address: str, port: int, rank: int, timeout: float) -> socket.socket:
    limit = time.monotonic() + timeout
    pause = 0.01
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=max(limit - time.monotonic(), 0.1))
            connection.settimeout(None)
            prepare(connection)
            return connection
        except OSError as error:
            if time.monotonic() + pause > limit:
                raise KernelTimeoutError(
                    f"rank {rank} waited {_seconds(timeout)} s for rank 0 at {address}:{port}, which did not come: "
                    f"{error}"
                ) from None
        time.sleep(pause)
        pause = min(pause * 2, 0.5)
