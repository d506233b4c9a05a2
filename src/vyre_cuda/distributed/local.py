"""Several devices of one process as a group."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.collective import collective as native
from vyre_cuda._native.collective.collective import Member
from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda.distributed.communicator import AFTER_EXCEPTION, Communicator
from vyre_cuda.distributed.elements import numbers_of_types, op_of, rank_of
from vyre_cuda.distributed.library import open_nccl
from vyre_cuda.distributed.limits import check_options, require_device
from vyre_cuda.distributed.local_graph import LocalGraph
from vyre_cuda.distributed.one_shot import OneShot, open_one_shot
from vyre_cuda.distributed.recording import Group
from vyre_cuda.distributed.threads import Threads
from vyre_cuda.distributed.watching import Watcher, await_work_of
from vyre_cuda.errors import CommunicationError, Error, KernelTimeoutError, counted, type_name
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device


def local(
    devices: Sequence[Device], *, timeout: float = 120.0, limit: float = 300.0, small: int | None = None
) -> LocalCommunicator:
    """Make several devices of this process a group; its methods take one array for each device.

    Parameters
    ----------
    devices
        Devices of different GPUs; the first is rank 0.
    timeout
        Seconds to wait for NCCL to connect them.
    limit
        Seconds after which a collective that has not ended is ended with an error.
    small
        Up to so many bytes an `all_reduce` goes in one shot, where the devices can access each other's memory; None:
        as measured now, with both ways. It is lowered to what there is room for.

    Returns
    -------
    LocalCommunicator
        The group.

    Raises
    ------
    UnsupportedError
        NCCL is not installed; it says what to install.
    KernelTimeoutError, CommunicationError
        NCCL has not connected them in time, or cannot.
    ValueError
        No devices, one GPU twice, a negative `small`, or a `timeout` or `limit` that is not more than 0.
    TypeError
        One of these is not a number.
    """
    check_options(timeout, limit, small)
    if not isinstance(devices, Iterable):
        raise TypeError(f"local takes a list of devices, not {type_name(devices)}")
    given = list(devices)
    for device in given:
        require_device("local", device)
    places = [(device.properties.is_emulator, device.properties.ordinal) for device in given]
    if not given or len(set(places)) != len(places):
        raise ValueError("a group needs devices of different GPUs: open each GPU once")
    open_nccl()
    identity = native.nccl_unique_id()
    members = _members(given, identity, timeout)
    one_shot, refusal = (None, "small=0 was given") if small == 0 else open_one_shot(given, members)
    ranks = [
        Communicator(device, member, Watcher(member, None, 0, limit), one_shot, refusal)
        for device, member in zip(given, members, strict=True)
    ]
    made = LocalCommunicator(ranks, one_shot)
    if one_shot is not None:
        try:
            one_shot.set_limit(one_shot.limit_for(small, made.all_reduce))
        except BaseException:
            made.close()
            raise
    return made


def _members(devices: list[Device], identity: bytes, timeout: float) -> list[Member]:
    """NCCL connects them while each waits, in a thread of its own."""
    made: dict[int, Member] = {}
    failures: list[BaseException] = []

    def meet(rank: int) -> None:
        try:
            made[rank] = Member(devices[rank].context, identity, rank, len(devices), int(timeout * 1e9))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in range(len(devices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [made[rank] for rank in range(len(devices))]


class LocalCommunicator:
    """A group of devices of one process; made by `vc.distributed.local`. Each method takes and returns a list with one
    array for each device, in their order; it is also a context manager that closes it.
    """

    def __init__(self, ranks: list[Communicator], one_shot: OneShot | None = None) -> None:
        self.ranks = tuple(ranks)
        members = tuple(rank._member for rank in ranks)
        self._together = native.Together(members, numbers_of_types()) if one_shot is None else one_shot.together
        self._threads = Threads(len(ranks))
        self._is_closing = False
        self._order = threading.RLock()  # all devices are given what several threads give in one order

    @property
    def size(self) -> int:
        """The number of devices."""
        return len(self.ranks)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices, by rank."""
        return tuple(rank.device for rank in self.ranks)

    @property
    def small(self) -> int:
        """Up to so many bytes an `all_reduce` goes in one shot over the devices' memory, without NCCL."""
        return self.ranks[0].small

    @property
    def small_refusal(self) -> str:
        """Why `small` is 0; empty where it is not."""
        return self.ranks[0].small_refusal

    def all_reduce(self, xs: Sequence[DeviceArray], op: str = "add", out: Sequence[DeviceArray] | None = None) -> Any:
        """`Communicator.all_reduce` of each device.

        Parameters
        ----------
        xs
            An array of each device.
        op
            "add", "multiply", "min" or "max".
        out
            An array of each device for the result; None for those of `xs`.

        Returns
        -------
        list of DeviceArray
            The results.

        Raises
        ------
        TypeError, ValueError, CommunicationError
            As for `Communicator.all_reduce`.
        """
        return self._all(native.ALL_REDUCE, xs, out, op_of("all_reduce", op), 0, op)

    def all_gather(self, xs: Sequence[DeviceArray], out: Sequence[DeviceArray] | None = None) -> Any:
        """`Communicator.all_gather` of each device.

        Parameters
        ----------
        xs, out
            An array of each device.

        Returns
        -------
        list of DeviceArray
            The results.

        Raises
        ------
        TypeError, ValueError, CommunicationError
            As for `Communicator.all_gather`.
        """
        return self._all(native.ALL_GATHER, xs, out)

    def reduce_scatter(
        self, xs: Sequence[DeviceArray], op: str = "add", out: Sequence[DeviceArray] | None = None
    ) -> Any:
        """`Communicator.reduce_scatter` of each device.

        Parameters
        ----------
        xs
            An array of each device.
        op
            "add", "multiply", "min" or "max".
        out
            An array of each device, for its part; None for a part of `xs`.

        Returns
        -------
        list of DeviceArray
            The results.

        Raises
        ------
        TypeError, ValueError, CommunicationError
            As for `Communicator.reduce_scatter`.
        """
        return self._all(native.REDUCE_SCATTER, xs, out, op_of("reduce_scatter", op), 0, op)

    def broadcast(self, xs: Sequence[DeviceArray], root: int = 0, out: Sequence[DeviceArray] | None = None) -> Any:
        """`Communicator.broadcast` of each device.

        Parameters
        ----------
        xs
            An array of each device.
        root
            The place of the device whose array it is.
        out
            An array of each device, for the result; None for `xs` themselves.

        Returns
        -------
        list of DeviceArray
            The results.

        Raises
        ------
        TypeError, ValueError, CommunicationError
            As for `Communicator.broadcast`.
        """
        return self._all(native.BROADCAST, xs, out, 0, rank_of("broadcast", root, self.size), root)

    def all_to_all(self, xs: Sequence[DeviceArray], out: Sequence[DeviceArray] | None = None) -> Any:
        """`Communicator.all_to_all` of each device.

        Parameters
        ----------
        xs, out
            An array of each device.

        Returns
        -------
        list of DeviceArray
            The results.

        Raises
        ------
        TypeError, ValueError, CommunicationError
            As for `Communicator.all_to_all`.
        """
        return self._all(native.ALL_TO_ALL, xs, out)

    def record(self, *, fuse: bool = False) -> LocalGraph:
        """Graphs that record, in a `with` statement, what this thread gives to the devices instead of running it.

        Parameters
        ----------
        fuse
            Whether launches in a row may become one kernel, as by `Device.record`.

        Returns
        -------
        LocalGraph
            The graphs, for a `with` statement.
        """
        return LocalGraph(self, fuse=fuse)

    def group(self) -> Group:
        """Collectives of this thread inside the `with` statement begin together at its end; after an exception none.

        Returns
        -------
        context manager
            For a `with` statement.
        """
        return Group(self._order)

    def close(self) -> None:
        """Wait for the devices' work and end the group. Graphs that have its collectives end before; their replays are
        refused from then on. Closing again does nothing.

        Raises
        ------
        Error
            Those of asynchronous launches, apart from collectives that have failed.
        ValueError
            As for `Communicator.close`.
        """
        self._end(None)

    def _end(self, timeout: float | None) -> None:
        """After `timeout` seconds work that has not ended is ended."""
        for rank in self.ranks:
            rank._member.check_close()
        # Threads that go on calling would keep the devices from ending their work: those calls get to `_each`.
        self._together, self._is_closing = native.Together((), {}), True
        if timeout is None:
            await_work_of([(rank._watcher, rank._member) for rank in self.ranks])
        failures: list[Error] = []
        for device in self.devices:  # the watchers end what would wait for ever
            try:
                if not device.is_closed:
                    device.synchronize(timeout)
            except CommunicationError:
                pass  # its waits have said so
            except KernelTimeoutError:
                for rank in self.ranks:
                    rank._member.abort("the group was left by an exception, with work that had not ended")
            except Error as error:
                failures.append(error)
        for rank in self.ranks:
            rank._watcher.stop()
        threads = [threading.Thread(target=rank.close) for rank in self.ranks]  # NCCL may wait for the others
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._threads.close()
        if failures:
            raise failures[0]

    def __enter__(self) -> LocalCommunicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end(None if kind is None else AFTER_EXCEPTION)

    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        return f"<vyre_cuda.distributed.LocalCommunicator of {', '.join(d.properties.label for d in self.devices)}>"

    def _all(self, kind: int, xs: Any, out: Any, op: int = 0, peer: int = 0, *given: Any) -> Any:
        """By one call, or, in a recording and where something is wrong or not compiled yet, by those of the ranks. They
        get `given`, what the caller gave for `op` or `peer`."""
        with self._order:
            results = self._together.run(kind, xs, out, op, peer)
        return self._each(native.KINDS[kind], xs, out, given) if results is None else results

    def _each(self, method: str, xs: Any, out: Any, given: tuple[Any, ...]) -> Any:
        if self._is_closing:
            raise ValueError(native.CLOSED)
        xs = self._one_each(method, "xs", xs)
        outs = [None] * self.size if out is None else self._one_each(method, "out", out)
        _check_alike(method, xs)
        with self._order, self.group():
            return [getattr(rank, method)(x, *given, out=to) for rank, x, to in zip(self.ranks, xs, outs, strict=True)]

    def _one_each(self, method: str, name: str, arrays: Any) -> list[Any]:
        if not isinstance(arrays, (list, tuple)):
            raise TypeError(f"{method}: {name} is {type_name(arrays)}; it must be a list with an array of each device")
        if len(arrays) != self.size:
            raise ValueError(f"{method}: {name} has {counted(len(arrays), 'array')} for {counted(self.size, 'device')}")
        return list(arrays)


def _check_alike(method: str, xs: list[Any]) -> None:
    """One process knows the arrays of all ranks, which would wait for each other for ever."""
    kinds = [(place, (x.dtype, x.size)) for place, x in enumerate(xs) if isinstance(x, DeviceArray)]
    for place, (dtype, size) in kinds:
        first, (other, count) = kinds[0]
        if (dtype, size) != (other, count):
            raise ValueError(
                f"{method}: the array of rank {first} has {counted(count, 'element')} of {other}, that of rank {place} "
                f"{size} of {dtype}: give each an array of the same dtype and size"
            )
