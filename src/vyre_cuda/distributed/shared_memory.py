"""Memory for small all-reduces of ranks that are processes of one machine: each shares its own and opens that of the
others (CUDA IPC). Handles go by the session of the group; where one rank cannot, all use NCCL.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_cuda.distributed.one_shot import OneShot, most_bytes_of
from vyre_cuda.errors import Error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_cuda._native.collective.collective import Member
    from vyre_cuda.distributed.session import Session
    from vyre_cuda.runtime.device.device import Device

_PATIENCE = 1.0  # seconds that a close waits for the others, to free memory that they have opened


def share_one_shot(
    device: Device, member: Member, session: Session, name: str, small: int | None, timeout: float
) -> tuple[OneShot | None, str]:
    """Returns when all ranks have said whether they can; None and why not where one cannot. `name` is that of the
    communicator in the session, for all ranks."""
    if member.size == 1:
        return None, "the group has one rank"
    told = session.gather(f"{name} shared", _shared(device, member, small), timeout, "to share memory")
    why = _why_not(told)
    if not why:
        opened = session.gather(f"{name} opened", _opened(member, told), timeout, "to share memory")
        why = next((f"rank {rank}: {failure}" for rank, failure in enumerate(opened) if failure), "")
    if why:
        _leave(member, session, name)
        return None, why
    return OneShot([device], [member], lambda: _leave(member, session, name)), ""


def limit_of_all(session: Session, name: str, limit: int, timeout: float) -> int:
    """Rank 0's; each has measured its own."""
    chosen = session.gather(f"{name} limit", limit, timeout, "to choose how small all-reduces go")[0]
    assert isinstance(chosen, int)
    return chosen


def _shared(device: Device, member: Member, small: int | None) -> dict[str, Any]:
    told = {"machine": f"{_machine()} {'emulator' if device.properties.is_emulator else 'cuda'}", "small": small}
    if small == 0:
        return told | {"why": "it was given small=0"}
    try:
        return told | {"why": "", "handle": member.share_one_shot(most_bytes_of(member.size)).hex()}
    except Error as error:
        return told | {"why": str(error)}


def _why_not(told: Sequence[dict[str, Any]]) -> str:
    for rank, its in enumerate(told):
        if its["why"]:
            return f"rank {rank}: {its['why']}"
        if its["small"] != told[0]["small"]:
            return f"rank {rank} was given small={its['small']}, and rank 0 small={told[0]['small']}"
        if its["machine"] != told[0]["machine"]:
            return f"ranks 0 and {rank} are on different machines"
    return ""


def _opened(member: Member, told: Sequence[dict[str, Any]]) -> str:
    try:
        member.connect_one_shot([bytes.fromhex(its["handle"]) for its in told])
    except Error as error:
        return str(error)
    return ""


def _leave(member: Member, session: Session, name: str) -> None:
    """Where others do not come, the memory that they have opened stays allocated until the device is closed."""
    member.leave_one_shot()
    with suppress(Error):
        session.gather(f"{name} left", 0, _PATIENCE)
        member.left_one_shot()


def _machine() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()
