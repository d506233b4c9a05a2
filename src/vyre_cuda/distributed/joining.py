"""Joining a group of processes, each with a device."""

from __future__ import annotations

import atexit
import json
import os
import reprlib
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_cuda._native.collective.collective import Member, nccl_unique_id
from vyre_cuda.distributed.communicator import Communicator
from vyre_cuda.distributed.launchers import Place, place_of
from vyre_cuda.distributed.library import open_nccl
from vyre_cuda.distributed.limits import check_options, require_device
from vyre_cuda.distributed.session import Session, listen, open_session
from vyre_cuda.distributed.shared_memory import limit_of_all, share_one_shot
from vyre_cuda.distributed.watching import Watcher
from vyre_cuda.errors import type_name

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device

# Any broadcast of bytes from rank 0: rank 0 gives them, the others None, and all get them.
Exchange: TypeAlias = Callable[[bytes | None], bytes]

_lock = threading.Lock()
_sessions: dict[tuple[int, int, str, int], Session] = {}  # of the launcher's group: one for the process
_joined = 0  # communicators that this process has joined by it


def join(
    device: Device,
    exchange: Exchange | None = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    timeout: float = 120.0,
    limit: float = 300.0,
    small: int | None = None,
) -> Communicator:
    """Make this process, with a device of its own, one rank of a group, and wait for the others.

    All ranks must call it. Without `exchange` the rank comes from what torchrun, mpiexec or Slurm has set, and ranks
    meet at a port of rank 0's machine, next to MASTER_PORT: docs/distributed.md.

    Parameters
    ----------
    device
        The device of this rank; no two ranks have the same GPU.
    exchange
        A broadcast of bytes from rank 0, such as `lambda data: comm.bcast(data, root=0)` of mpi4py, or one made with
        Ray: rank 0 gives bytes, the others None, and all get rank 0's.
    rank, size
        With `exchange`: which rank this is, of how many. None for what the launcher has set.
    timeout
        Seconds to wait for the other ranks.
    limit
        Seconds after which a collective that has not ended is ended, on all ranks, with an error that says what the
        ranks were doing.
    small
        Up to so many bytes an `all_reduce` goes in one shot, where all ranks are on one machine and can share memory,
        the same for all ranks; None: as measured now, with both ways. It is lowered to what there is room for, and
        `Communicator.small` says what it is.

    Returns
    -------
    Communicator
        The group, as this rank sees it.

    Raises
    ------
    UnsupportedError
        NCCL is not installed; it says what to install.
    KernelTimeoutError
        Ranks that have not come in time; it says which.
    CommunicationError
        A rank ended meanwhile, or the ranks do not fit together.
    ValueError
        No launcher has set a rank, and it was not given; `exchange` returns other bytes than rank 0's; a rank that
        the group does not have; a negative `small`, or a `timeout` or `limit` that is not more than 0.
    TypeError
        `exchange` does not return bytes, or a number is of another type.
    """
    require_device("join", device)
    check_options(timeout, limit, small)
    open_nccl()
    begin = time.monotonic()
    place = place_of(os.environ)
    if exchange is None:
        if rank is not None or size is not None:
            raise ValueError("rank= and size= are for a group with exchange=; without it the launcher has set them")
        if place is None:
            raise ValueError(
                "this process was not started by torchrun, mpiexec or Slurm: give exchange=, a broadcast of bytes, "
                "with rank= and size=, or use vc.distributed.local for several devices of one process"
            )
        session, number = _launched(place, timeout)
        rank, size = place.rank, place.size
    else:
        rank = rank if rank is not None else place.rank if place is not None else None
        size = size if size is not None else place.size if place is not None else None
        if rank is None or size is None or not 0 <= rank < size:
            raise ValueError(f"rank={rank!r}, size={size!r}; with exchange= both are needed, and 0 <= rank < size")
        session, number = _exchanged(exchange, rank, size, timeout), 0
    left = max(timeout - (time.monotonic() - begin), 0.1)
    identity = nccl_unique_id() if rank == 0 else b""
    given = session.gather(f"join {number}", identity.hex(), left)
    left = max(timeout - (time.monotonic() - begin), 0.1)
    member = Member(device.context, bytes.fromhex(given[0]), rank, size, int(left * 1e9))
    return _with_one_shot(device, member, Watcher(member, session, number, limit), small, left)


def _with_one_shot(device: Device, member: Member, watcher: Watcher, small: int | None, timeout: float) -> Communicator:
    session, name = watcher.session, f"join {watcher.number}"
    assert session is not None
    one_shot, refusal = share_one_shot(device, member, session, name, small, timeout)
    made = Communicator(device, member, watcher, one_shot, refusal)
    if one_shot is not None:
        mine = one_shot.limit_for(small, lambda arrays: made.all_reduce(arrays[0]))
        one_shot.set_limit(limit_of_all(session, name, mine, timeout))
    return made


def _launched(place: Place, timeout: float) -> tuple[Session, int]:
    """The session of the launcher's group, and how many communicators have been joined by it."""
    global _joined
    key = (place.rank, place.size, place.address, place.port)
    with _lock:
        session = _sessions.get(key)
        if session is None:
            token = f"{place.launcher} {os.environ.get('TORCHELASTIC_RUN_ID', '')}"
            session = open_session(place.rank, place.size, place.address, place.port, token, timeout)
            _sessions[key] = session
            atexit.register(session.leave)
        _joined += 1
        return session, _joined


def _exchanged(exchange: Exchange, rank: int, size: int, timeout: float) -> Session:
    """Rank 0 listens wherever a port is free, and says so by the broadcast."""
    listener = listen(0) if rank == 0 else None
    told = None
    if listener is not None:
        where = {"address": _own_address(), "port": listener.getsockname()[1], "token": secrets.token_hex(8)}
        told = json.dumps(where).encode()
    try:
        address, port, token = _where(exchange(told))
    except BaseException:
        if listener is not None:
            listener.close()
        raise
    session = open_session(rank, size, address, port, token, timeout, listener)
    atexit.register(session.leave)
    return session


def _where(answer: Any) -> tuple[str, int, str]:
    if not isinstance(answer, (bytes, bytearray)):
        raise TypeError(f"exchange returned {type_name(answer)}; it must return the bytes that rank 0 gave")
    try:
        where = json.loads(answer)
        return where["address"], where["port"], where["token"]
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"exchange returned {reprlib.repr(bytes(answer))}, which rank 0 has not given: it must be a broadcast, of "
            "nothing else at the same time"
        ) from None


def _own_address() -> str:
    """How other machines reach this one; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
