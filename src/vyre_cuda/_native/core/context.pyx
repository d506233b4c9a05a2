# cython: language_level=3, freethreading_compatible=True
"""Drivers, contexts, streams and events."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from vyre_cuda._native.core.c_context cimport (
    vyc_caps, vyc_caps_field, vyc_context_can_access_peer, vyc_context_caps, vyc_context_close_for,
    vyc_context_enable_peer, vyc_context_memory_stats, vyc_context_open, vyc_context_release,
    vyc_context_set_memory_budget, vyc_context_set_patience, vyc_context_supports, vyc_context_synchronize_for,
    vyc_context_trim, vyc_memory_stats,
)
from vyre_cuda._native.core.c_driver cimport (
    vyc_context, vyc_driver_device_name, vyc_driver_info, vyc_driver_info_get, vyc_driver_open, vyc_driver_release,
    vyc_driver_started, vyc_event, vyc_fence, vyc_stream,
)
from vyre_cuda._native.core.c_kernel cimport vyc_context_count_timing, vyc_timing
from vyre_cuda._native.core.c_status cimport VYC_E_LOST, VYC_NOT_READY, VYC_OK, vyc_status
from vyre_cuda._native.core.c_stream cimport (
    vyc_event_elapsed, vyc_event_query, vyc_event_release, vyc_event_synchronize_for, vyc_event_try_release,
    vyc_fence_create, vyc_fence_release, vyc_fence_wait, vyc_stream_create, vyc_stream_handle, vyc_stream_query,
    vyc_stream_record, vyc_stream_release, vyc_stream_synchronize_for, vyc_stream_wait,
)
from vyre_cuda._native.core.c_telemetry cimport (
    vyc_context_count, vyc_context_in_flight, vyc_context_measure, vyc_context_reset_stats, vyc_context_stats,
    vyc_context_trace, vyc_stats_row,
)
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.core.waiting cimport HELD_NS, nanoseconds, slice_of, wait_in_slices

from time import monotonic_ns
from weakref import WeakSet

from vyre_cuda._native.core.status import AssertReport
from vyre_cuda._native.core.waiting import explain_interrupts
from vyre_cuda.errors import DeviceLostError, DeviceUnavailableError, Error, KernelTimeoutError, type_name


cdef enum:
    MOST_ROWS = 256


def stats_rows() -> dict[str, tuple[str, str]]:
    """The counters of a context by name, in the order of their rows: kind (total, level or most) and meaning."""
    cdef const char *name = NULL
    cdef const char *meaning = NULL
    cdef uint32_t kind = 0
    kinds = ("", "total", "level", "most")
    rows = {}
    while vyc_stats_row(&name, &meaning, &kind, len(rows)) == VYC_OK:
        rows[name.decode("ascii")] = (kinds[kind], meaning.decode("ascii"))
    return rows


# The row of each counter by its name.
STATS = {name: row for row, name in enumerate(stats_rows())}


cdef bint ready(vyc_status status) except -1:
    if status == VYC_NOT_READY:
        return False
    check(status)
    return True


cdef vyc_status context_wait(void *context, int64_t timeout_ns) noexcept nogil:
    return vyc_context_synchronize_for(<vyc_context *>context, timeout_ns)


cdef vyc_status fence_wait(void *fence, int64_t timeout_ns) noexcept nogil:
    return vyc_fence_wait(<vyc_fence *>fence, timeout_ns)


cdef vyc_status stream_wait(void *stream, int64_t timeout_ns) noexcept nogil:
    return vyc_stream_synchronize_for(<vyc_stream *>stream, timeout_ns)


cdef vyc_status event_wait(void *event, int64_t timeout_ns) noexcept nogil:
    return vyc_event_synchronize_for(<vyc_event *>event, timeout_ns)


cdef tuple in_flight(vyc_context *context):
    """(launches not known to have finished, the number of all of them)."""
    cdef char text[16384]
    cdef uint32_t count = 0
    check(vyc_context_in_flight(context, text, sizeof(text), &count))
    return tuple(text.decode("utf-8", "replace").splitlines()), count


cdef str last_of(tuple launches, uint32_t count):
    return f"{launches[0]}, and {count - 1} more" if count > 1 else launches[0]


# The contexts that are open, of which an interrupted wait may be.
cdef object opened = WeakSet()


def name_what_runs(interrupt) -> None:
    """Adds to a KeyboardInterrupt of a wait what has not ended, which it does not stop."""
    if not hasattr(interrupt, "add_note"):  # before Python 3.11
        return
    for context in list(opened):
        try:
            launches, count = in_flight((<Context>context)._h)
        except Error:  # closed or lost: nothing runs
            continue
        if count:
            interrupt.add_note(
                f"device {ordinal_of((<Context>context)._h)} goes on with {last_of(launches, count)}; "
                "timeout= limits a wait for what may not end"
            )


explain_interrupts(name_what_runs)


cdef int ordinal_of(vyc_context *context) except -1:
    cdef vyc_caps caps
    caps.struct_size = sizeof(caps)
    check(vyc_context_caps(context, &caps))
    return caps.ordinal


cdef int require(bint finished, object timeout, vyc_context *context) except -1:
    if not finished:
        launches, count = in_flight(context)
        which = f"; launched last: {last_of(launches, count)}" if count else ""
        raise KernelTimeoutError(
            f"work on device {ordinal_of(context)} has not ended after {timeout} s{which}", launches=launches)
    return 0


def driver_started(path: str | None = None) -> bool:
    """Whether anything in this process has initialized that driver library; None means libcuda.so.1."""
    cdef bytes encoded = b"" if path is None else path.encode()
    cdef const char *c_path = NULL
    cdef int32_t started = 0
    if path is not None:
        c_path = encoded
    with nogil:
        check(vyc_driver_started(&started, c_path))
    return bool(started)


def refuse_pickle(self, protocol):
    """`__reduce_ex__` of objects that belong to a device."""
    raise TypeError(
        f"this {type(self).__name__} belongs to a device that this process has opened, and cannot be pickled: send "
        "programs, bundles and NumPy arrays (array.numpy()), and open the device where they arrive"
    )


cdef class Unwatched:
    """Stands for the Watch of a device (runtime/telemetry/profiler_ranges.py) while none of its options is set. Its
    range does nothing, and costs no Python frame.
    """

    traces = False
    ranges = False

    def profiled(self, kind, name) -> Unwatched:
        return self

    def __enter__(self) -> bool:
        return False

    def __exit__(self, kind, error, traceback) -> None:
        pass


UNWATCHED = Unwatched()


cdef class Driver:
    """An open driver library."""

    def __init__(self, path: str | None = None) -> None:
        cdef bytes encoded = b"" if path is None else path.encode()
        cdef const char *c_path = NULL
        if path is not None:
            c_path = encoded
        with nogil:
            check(vyc_driver_open(&self._h, c_path))

    def __dealloc__(self):
        vyc_driver_release(self._h)

    def info(self) -> tuple[int, int, bool]:
        """CUDA version (major * 1000 + minor * 10), number of devices, whether it is the emulator."""
        cdef vyc_driver_info info
        info.struct_size = sizeof(info)
        check(vyc_driver_info_get(self._h, &info))
        return info.version, info.device_count, bool(info.is_emulator)

    def device_name(self, int ordinal) -> str:
        cdef char name[256]
        check(vyc_driver_device_name(self._h, name, sizeof(name), ordinal))
        return name.decode("utf-8", "replace")


cdef class Context:
    """The retained primary context of one device. `explain` turns an AssertReport into the error to raise, `awaiting`
    an event into an iterator for `await`.
    """

    def __init__(self, Driver driver not None, int ordinal) -> None:
        self.adopted = {}
        with nogil:
            check(vyc_context_open(&self._h, driver._h, ordinal))
        opened.add(self)

    def __dealloc__(self):
        with nogil:
            vyc_context_release(self._h)

    @property
    def recordings(self) -> int:
        """The number of graphs being recorded, plus 1 while launches are watched."""
        return load(self._recordings)

    def count_recording(self, int more) -> None:
        add(self._recordings, more)

    def caps(self) -> dict[str, object]:
        cdef vyc_caps caps
        cdef const char *name = NULL
        cdef size_t offset = 0
        cdef unsigned int index = 0
        caps.struct_size = sizeof(caps)
        check(vyc_context_caps(self._h, &caps))
        values = {
            "name": caps.name.decode("utf-8", "replace"),
            "ordinal": caps.ordinal,
            "compute_capability": (caps.compute_capability_major, caps.compute_capability_minor),
            "driver_version": caps.driver_version,
            "is_emulator": bool(caps.is_emulator),
            "total_memory": caps.total_memory,
            "uuid": (<char *>caps.uuid)[:16],
        }
        while vyc_caps_field(&name, &offset, index) == VYC_OK:
            values[name.decode("ascii")] = (<int32_t *>(<char *>&caps + offset))[0]
            index += 1
        return values

    def synchronize(self, object timeout=None) -> None:
        """Wait for all work given so far. KernelTimeoutError after `timeout` seconds."""
        cdef vyc_status status = VYC_NOT_READY
        if timeout is None:
            status = vyc_context_synchronize_for(self._h, HELD_NS)
        if status == VYC_NOT_READY:
            self.wait(timeout)
        else:
            check(status)

    cdef int wait(self, object timeout) except -1:
        """Like `synchronize`, without the GIL and checking for signals."""
        cdef int64_t timeout_ns = nanoseconds(timeout)
        cdef vyc_fence *fence = NULL
        if wait_in_slices(context_wait, self._h, slice_of(timeout_ns)):
            return 0
        try:
            with nogil:
                check(vyc_fence_create(&fence, self._h))
            left = -1 if timeout_ns < 0 else timeout_ns - slice_of(timeout_ns)
            require(wait_in_slices(fence_wait, fence, left), timeout, self._h)
        finally:
            with nogil:
                vyc_fence_release(fence)
        return 0

    def close(self, object timeout=None, collect=None) -> None:
        """Wait, then free everything. KernelTimeoutError after `timeout` seconds: unfinished work is abandoned.

        `collect` is called in between, when results can still be collected.
        """
        cdef int64_t timeout_ns = nanoseconds(timeout)
        cdef int64_t left = timeout_ns
        cdef uint64_t begin = monotonic_ns()
        cdef bint was_lost = vyc_context_supports(self._h, "captured_replay") == VYC_E_LOST  # each answer says it
        failure = None
        try:
            self.synchronize(timeout)
        except (Error, AssertReport) as error:
            failure = error
        if collect is not None:
            collect()
        if timeout_ns >= 0:
            left = max(timeout_ns - <int64_t>(monotonic_ns() - begin), 0)
        try:
            with nogil:
                check(vyc_context_close_for(self._h, left))
        except KernelTimeoutError as late:
            if not isinstance(failure, KernelTimeoutError):
                raise
            # The waiting time is shared by both.
            raise KernelTimeoutError(
                f"{failure}; it was abandoned, and the driver keeps what it uses until the process ends",
                launches=late.launches,
            ) from None
        if isinstance(failure, DeviceLostError):
            if not was_lost:
                raise failure
        elif failure is not None and not isinstance(failure, (DeviceUnavailableError, KernelTimeoutError)):
            raise failure

    def set_patience(self, double seconds) -> None:
        """How long releases, and a close without a timeout, wait for work."""
        check(vyc_context_set_patience(self._h, <int64_t>(seconds * 1e9)))

    cdef object error(self, object report):
        """The error for a failed check, made by `explain` if it was set."""
        return report if self.explain is None else self.explain(report)

    def require(self, capability: str) -> None:
        """UnsupportedError where the device or its driver lacks it, ValueError for an unknown name."""
        cdef bytes encoded = capability.encode("utf-8", "replace")
        check(vyc_context_supports(self._h, encoded))

    def can_access_peer(self, int ordinal) -> bool:
        """Whether this device can reach the memory of another one of its driver."""
        cdef uint32_t can = 0
        with nogil:
            check(vyc_context_can_access_peer(self._h, ordinal, &can))
        return can != 0

    def enable_peer(self, Context other not None) -> None:
        """Let kernels of this context use memory of the other one. UnsupportedError where that is impossible."""
        with nogil:
            check(vyc_context_enable_peer(self._h, other._h))

    def trim(self) -> None:
        with nogil:
            check(vyc_context_trim(self._h))

    def set_memory_budget(self, uint64_t nbytes, uint64_t pinned_bytes) -> None:
        with nogil:
            check(vyc_context_set_memory_budget(self._h, nbytes, pinned_bytes))

    def stats(self) -> dict[str, int]:
        """Every counter by name; works in every state of the context."""
        cdef uint64_t values[MOST_ROWS]
        check(vyc_context_stats(self._h, values, len(STATS)))
        return {name: values[row] for row, name in enumerate(STATS)}

    def reset_stats(self) -> None:
        check(vyc_context_reset_stats(self._h))

    def in_flight(self) -> tuple[str, ...]:
        """The launches not known to have finished, newest first on each stream; works in every state of the context."""
        return in_flight(self._h)[0]

    def measure(self, uint32_t what, uint32_t count, uint64_t nbytes) -> list[int]:
        """Nanoseconds of `count` driver calls, see VYC_FLOOR_ of vyre_cuda.h."""
        cdef uint64_t *times = <uint64_t *>calloc(count + 1, sizeof(uint64_t))
        if times == NULL:
            raise MemoryError
        try:
            with nogil:
                check(vyc_context_measure(self._h, times, count, what, nbytes))
            return [times[i] for i in range(count)]
        finally:
            free(times)

    def trace(self, text: str) -> None:
        """Set how messages describe this thread's next launch."""
        cdef bytes encoded = text.encode("utf-8", "replace")
        check(vyc_context_trace(self._h, encoded))

    def count(self, uint32_t row, n: int) -> None:
        """Add to a counter of the host's: `row` of STATS. A level may be lowered."""
        check(vyc_context_count(self._h, row, <uint64_t>(n & 0xFFFFFFFFFFFFFFFF)))

    def count_timing(self, uint64_t wall_ns, uint64_t enqueue_ns, uint64_t wait_ns, uint64_t device_ns) -> None:
        """Count work that was timed by the caller."""
        cdef vyc_timing timing
        memset(&timing, 0, sizeof(timing))
        timing.struct_size = sizeof(timing)
        timing.wall_ns = wall_ns
        timing.enqueue_ns = enqueue_ns
        timing.wait_ns = wait_ns
        timing.device_ns = device_ns
        check(vyc_context_count_timing(self._h, &timing))

    def memory_stats(self) -> dict[str, int]:
        cdef vyc_memory_stats stats
        memset(&stats, 0, sizeof(stats))
        stats.struct_size = sizeof(stats)
        with nogil:
            check(vyc_context_memory_stats(self._h, &stats))
        values = dict(stats)
        del values["struct_size"]
        return values


cdef class Stream:
    """A stream of a device, made by `Device.stream`: work that it is given runs in order."""

    def __init__(self, context=None) -> None:
        if not isinstance(context, Context):
            raise TypeError("a Stream is made by Device.stream()")
        self._context = context
        with nogil:
            check(vyc_stream_create(&self._h, self._context._h))

    def __dealloc__(self):
        with nogil:
            vyc_stream_release(self._h)

    @property
    def handle(self) -> int:
        """The driver's CUstream as a number."""
        cdef uint64_t handle = 0
        check(vyc_stream_handle(self._h, &handle))
        return handle

    def synchronize(self, object timeout=None) -> None:
        """Wait for the work enqueued so far.

        Parameters
        ----------
        timeout
            Seconds to wait; None for no limit.

        Raises
        ------
        KernelTimeoutError
            It has not ended.
        ValueError
            The timeout is NaN.
        Error
            Those of asynchronous launches.
        """
        cdef vyc_status status = VYC_NOT_READY
        if timeout is None:
            status = vyc_stream_synchronize_for(self._h, HELD_NS)
        if status == VYC_OK:
            return
        try:
            if status == VYC_NOT_READY:
                self.finish(timeout)
            else:
                check(status)
        except AssertReport as report:
            raise self._context.error(report) from None

    cdef int finish(self, object timeout) except -1:
        """Like `synchronize`, without the GIL and checking for signals."""
        cdef int64_t timeout_ns = nanoseconds(timeout)
        cdef Event event
        if not wait_in_slices(stream_wait, self._h, slice_of(timeout_ns)):
            event = self.record()
            left = -1 if timeout_ns < 0 else timeout_ns - slice_of(timeout_ns)
            require(wait_in_slices(event_wait, event._h, left), timeout, self._context._h)
        return 0

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version of the protocol, handle), for other libraries."""
        return 0, self.handle

    def __repr__(self) -> str:
        cdef uint64_t handle = 0
        cdef vyc_status status = vyc_stream_handle(self._h, &handle)
        return f"<vyre_cuda.Stream {hex(handle) if status == VYC_OK else 'of a closed device'}>"

    def __reduce_ex__(self, protocol):
        return refuse_pickle(self, protocol)

    def query(self) -> bool:
        """Whether all enqueued work has ended.

        Returns
        -------
        bool
            True if nothing is left.

        Raises
        ------
        Error
            Those of asynchronous launches.
        """
        return ready(vyc_stream_query(self._h))

    def record(self) -> Event:
        """An event after all work enqueued so far.

        Returns
        -------
        Event
            The event.
        """
        cdef Event event = Event.__new__(Event)
        event._context = self._context
        check(vyc_stream_record(self._h, &event._h))
        return event

    def wait(self, event) -> None:
        """Make work enqueued from now on wait for an event, or for calls of a worker.

        Parameters
        ----------
        event
            An event of any stream of the device; or a worker of the device, for all calls that were submitted to it.

        Raises
        ------
        TypeError
            It is neither.
        DeviceUnavailableError
            The worker is paused, with calls that have not begun.
        """
        if isinstance(event, Event):
            check(vyc_stream_wait(self._h, (<Event>event)._h))
            return
        hold_back = getattr(event, "_hold_back", None)
        if hold_back is None:
            raise TypeError(
                f"a stream waits for an event or a worker, not for {type_name(event)}: "
                "pass what Stream.record() returned"
            )
        hold_back(self)


@cython.freelist(8)
cdef class Event:
    """A point in a stream's work; made by Stream.record()."""

    def __init__(self) -> None:
        raise TypeError("an Event is made by Stream.record()")

    def __dealloc__(self):
        if vyc_event_try_release(self._h) != VYC_OK:
            with nogil:
                vyc_event_release(self._h)

    def synchronize(self, object timeout=None) -> None:
        """Wait until it has been reached.

        Parameters
        ----------
        timeout
            Seconds to wait; None for no limit.

        Raises
        ------
        KernelTimeoutError
            It has not been reached.
        ValueError
            The timeout is NaN.
        Error
            Those of asynchronous launches.
        """
        try:
            require(wait_in_slices(event_wait, self._h, nanoseconds(timeout)), timeout, self._context._h)
        except AssertReport as report:
            raise self._context.error(report) from None

    def __repr__(self) -> str:
        cdef vyc_status status
        with nogil:
            status = vyc_event_query(self._h)
        state = "not reached" if status == VYC_NOT_READY else "reached" if status == VYC_OK else "of a closed device"
        return f"<vyre_cuda.Event {state}>"

    def __reduce_ex__(self, protocol):
        return refuse_pickle(self, protocol)

    def __await__(self):
        """Wait without blocking the event loop. Raises the same errors as `synchronize`."""
        return self._context.awaiting(self)

    def query(self) -> bool:
        """Whether it has been reached.

        Returns
        -------
        bool
            True if all work before it has ended.

        Raises
        ------
        Error
            Those of asynchronous launches.
        """
        return ready(vyc_event_query(self._h))

    def elapsed_ms(self, Event start not None) -> float:
        """The time from another event to this one; both must have been reached.

        Parameters
        ----------
        start
            The earlier event.

        Returns
        -------
        float
            Milliseconds; negative if the other event is the later one.

        Raises
        ------
        DriverError
            One of them has not been reached.
        """
        cdef float milliseconds = 0
        check(vyc_event_elapsed(self._h, &milliseconds, start._h))
        return milliseconds
