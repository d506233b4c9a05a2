# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Calls of a kernel that stays on the device.

Plain calls go through a frame of their kernel, as its own calls and launches do; all others go to `_general`, which the
runtime supplies.
"""
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from vyre_cuda._native.core.c_driver cimport vyc_prepared, vyc_ticket
from vyre_cuda._native.core.c_bundle cimport VYC_ROLE_SCALAR
from vyre_cuda._native.core.c_kernel cimport vyc_run, vyc_ticket_release
from vyre_cuda._native.core.c_status cimport VYC_E_TIMEOUT, VYC_NOT_READY, VYC_OK, vyc_status
from vyre_cuda._native.core.c_worker cimport (
    vyc_stream_wait_worker, vyc_worker, vyc_worker_close, vyc_worker_create, vyc_worker_desc, vyc_worker_pause,
    vyc_worker_pause_wait, vyc_worker_release, vyc_worker_resume, vyc_worker_run, vyc_worker_stats,
    vyc_worker_stats_get, vyc_worker_submit,
)
from vyre_cuda._native.core.context cimport Context, Stream, load
from vyre_cuda._native.call.dispatch cimport Dispatcher
from vyre_cuda._native.call.frame cimport Frame, give_frame, take_frame
from vyre_cuda._native.call.prepared cimport Arguments, PreparedKernel
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.call.ticket cimport Ticket, ticket_wait
from vyre_cuda._native.core.waiting cimport HELD_NS, SLICE_NS, check_signals, nanoseconds, slice_of, wait_in_slices
from vyre_cuda._native.memory.memory cimport Span
from vyre_cuda._native.trace.origin cimport Seen, origin_of

from vyre_cuda.errors import KernelTimeoutError

cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject *ob_item[1]
    ctypedef struct PyMethodDef:
        const char *ml_name
        void *ml_meth
        int ml_flags
        const char *ml_doc
    int METH_FASTCALL
    int METH_KEYWORDS
    object PyDescr_NewMethod(PyTypeObject *, PyMethodDef *)

cdef enum:
    MOST_KERNELS = 64

# What ends a wait for a call of a paused worker.
PAUSED = "the worker is paused, so resume it"

# Bytes of host copies above which the GIL is released at once.
cdef uint64_t HELD_BYTES = 1 << 16


cdef vyc_status close_once(void *worker, int64_t timeout_ns) noexcept nogil:
    return vyc_worker_close(<vyc_worker *>worker, timeout_ns)


cdef vyc_status pause_once(void *worker, int64_t timeout_ns) noexcept nogil:
    return vyc_worker_pause_wait(<vyc_worker *>worker, timeout_ns)


cdef class WorkerHandle:
    """A worker of the C layer. Subclasses supply `_general`, `_general_submit` and `_refuse_in_recording`."""

    cdef vyc_worker *_h
    cdef readonly Context context
    cdef readonly tuple kernels
    cdef tuple _given  # what they were made of
    cdef PyObject *_kernels[MOST_KERNELS]  # those of the tuple
    cdef Seen *_seen  # where the last general call came from
    cdef bint _is_closed

    def __init__(self, PreparedKernel entry not None, tuple kernels not None, tuple given not None,
                 PreparedKernel clearing not None, uint64_t idle_ns, uint64_t busy_ns, uint32_t first,
                 uint32_t blocks) -> None:
        """`kernels`: Dispatchers, by number; `given`: what else callers may name them by; `clearing` writes 0 to bytes.
        """
        cdef vyc_worker_desc desc
        cdef vyc_prepared *prepared[MOST_KERNELS]
        cdef Py_ssize_t i, count = len(kernels)
        if not 0 < count <= MOST_KERNELS:
            raise ValueError(
                f"a worker has 1 to {MOST_KERNELS} kernels, not {count}: "
                "give the others to another worker"
            )
        for i in range(count):
            prepared[i] = (<Dispatcher?>kernels[i])._prepared._h
            self._kernels[i] = <PyObject *>kernels[i]
        memset(&desc, 0, sizeof(desc))
        desc.struct_size = sizeof(desc)
        desc.kernel_count = count
        desc.kernels = prepared
        desc.clearing = clearing._h
        desc.idle_ns = idle_ns
        desc.busy_ns = busy_ns
        desc.first = first
        desc.blocks = blocks
        self.context = entry.context
        self.kernels = kernels
        self._given = given
        with nogil:
            check(vyc_worker_create(&self._h, entry._h, &desc))

    def __dealloc__(self):
        with nogil:
            vyc_worker_release(self._h)

    cdef int64_t number(self, object kernel) except -1:
        cdef Py_ssize_t i
        for i in range(len(self.kernels)):
            if self._kernels[i] == <PyObject *>kernel:
                return i
        for i in range(len(self._given)):
            if self._given[i] is kernel:
                return i
        raise ValueError(
            f"{kernel!r} is not a kernel of this worker: give one of worker.kernels, or make a worker with it")

    def number_of(self, kernel) -> int:
        """The number of a kernel in the worker. ValueError: the worker does not have it."""
        return self.number(kernel)

    cdef object run(self, object kernel, PyObject *const *args, Py_ssize_t n, object out, object grid, dict others):
        """A call that is waited for; `others` are keywords that are not named here, None if there are none."""
        cdef uint32_t number = <uint32_t>self.number(kernel)
        cdef Dispatcher dispatcher = <Dispatcher>self.kernels[number]
        cdef object results
        if load(self.context._recordings) != 0:
            self._refuse_in_recording(dispatcher)
        if not others and dispatcher.simple:
            if out is None and is_launch(dispatcher, args, n):
                if run_launch(self, number, dispatcher, args, n, grid):
                    return None
            else:
                results = run_call(self, number, dispatcher, args, n, out, grid)
                if results is not None:
                    return results
        return self._general(dispatcher, number, tuple([<object>args[i] for i in range(n)]), others or {}, out, grid)

    def submit_plain(self, Dispatcher kernel not None, uint32_t number, tuple args not None, out,
                     grid) -> tuple[Ticket, object] | None:
        """Start a plain call with host arrays and return its ticket and results; None if it is not plain."""
        cdef Frame *frame
        cdef Ticket ticket
        cdef vyc_status status
        cdef object results
        if not kernel.simple or is_launch(kernel, (<PyTupleObject *>args).ob_item, len(args)):
            return None
        frame = take_frame(kernel, &kernel._frames)
        try:
            results = kernel.prepare(frame, (<PyTupleObject *>args).ob_item, len(args), out, grid)
            if results is None or frame.mixed or frame.staged > HELD_BYTES:
                return None
            ticket = Ticket.__new__(Ticket)
            frame.run.timeout_ns = 0
            status = vyc_worker_submit(self._h, &ticket._h, number, &frame.run)
            if status == VYC_E_TIMEOUT:
                return None
            check(status)
            ticket._keep = (args, results)
            return ticket, results
        finally:
            give_frame(frame, &kernel._frames)

    def submit_arguments(self, uint32_t number, Arguments arguments not None) -> Ticket:
        """Start a call; the ticket holds its arrays. Waits while too many are in flight."""
        cdef Ticket ticket = Ticket.__new__(Ticket)
        cdef vyc_status status = VYC_E_TIMEOUT
        arguments.run.origin = origin_of(&self._seen)
        arguments.run.timeout_ns = SLICE_NS
        while status == VYC_E_TIMEOUT:
            check_signals()
            with nogil:
                status = vyc_worker_submit(self._h, &ticket._h, number, &arguments.run)
        check(status)
        ticket._keep = arguments
        return ticket

    def run_arguments(self, uint32_t number, Arguments arguments not None, object timeout=None) -> None:
        """Run and wait, with arrays that the arguments keep."""
        arguments.run.origin = origin_of(&self._seen)
        run_at_length(self, number, &arguments.run, nanoseconds(timeout))

    def try_pause(self, object timeout=None) -> bool:
        """Pause. Whether the worker has left the device in time; it is paused in either case, but not after an
        exception, such as KeyboardInterrupt."""
        cdef int64_t left = nanoseconds(timeout)
        cdef vyc_status status
        with nogil:
            status = vyc_worker_pause(self._h, 0)
        if status != VYC_NOT_READY:
            check(status)
            return True
        try:
            return wait_in_slices(pause_once, self._h, left)
        except BaseException:
            vyc_worker_resume(self._h)  # a close may have undone it before
            raise

    def _hold_back(self, Stream stream not None) -> None:
        """What is enqueued on the stream later begins when the calls submitted so far have ended."""
        with nogil:
            check(vyc_stream_wait_worker(stream._h, self._h))

    def _is_paused(self) -> bool:
        cdef vyc_status status
        with nogil:
            status = vyc_worker_pause_wait(self._h, 0)  # refused unless it is paused or closed
        return not self._is_closed and (status == VYC_OK or status == VYC_NOT_READY)

    def end_pause(self) -> None:
        """Undo one pause."""
        check(vyc_worker_resume(self._h))

    def try_close(self, object timeout=None) -> bool:
        """Finish what was submitted and take no more calls; False: not in time."""
        cdef int64_t left = nanoseconds(timeout)
        self._is_closed = True
        return wait_in_slices(close_once, self._h, left)

    def read_stats(self) -> dict[str, int]:
        cdef vyc_worker_stats stats
        memset(&stats, 0, sizeof(stats))
        stats.struct_size = sizeof(stats)
        check(vyc_worker_stats_get(self._h, &stats))
        values = dict(stats)
        del values["struct_size"]
        return values


cdef bint is_launch(Dispatcher dispatcher, PyObject *const *args, Py_ssize_t n) noexcept:
    """Whether these are all parameters in declared order, with device arrays alone."""
    cdef uint32_t i
    cdef bint any = False
    if n != <Py_ssize_t>dispatcher.parameter_count:
        return False
    for i in range(dispatcher.parameter_count):
        if dispatcher.rows[i].role != VYC_ROLE_SCALAR:
            if not isinstance(<object>args[i], Span):
                return False
            any = True
    return any


cdef bint run_launch(WorkerHandle worker, uint32_t number, Dispatcher dispatcher, PyObject *const *args, Py_ssize_t n,
                     object grid) except -1:
    """Whether it was plain and has run. With a GIL the frame holds no buffers; the C layer does when it lets go of a
    call that has not ended."""
    cdef Frame *frame = take_frame(dispatcher, &dispatcher._launches)
    cdef vyc_ticket *ticket = NULL
    cdef vyc_status status
    try:
        if not dispatcher.prepare_launch(frame, args, n, grid):
            frame.run.grid[0] = 0  # the kernel's next launch with the frame is not held to be large
            return False
        frame.run.stream = NULL
        frame.run.timeout_ns = HELD_NS
        status = vyc_worker_run(worker._h, &ticket, number, &frame.run)
        if status == VYC_OK:
            return True
        if status == VYC_E_TIMEOUT and ticket == NULL:
            return False
        finish(status, ticket)
        return True
    finally:
        give_frame(frame, &dispatcher._launches)


cdef object run_call(WorkerHandle worker, uint32_t number, Dispatcher dispatcher, PyObject *const *args, Py_ssize_t n,
                     object out, object grid):
    """The results; None if the call was not plain, and nothing was started."""
    cdef Frame *frame = take_frame(dispatcher, &dispatcher._frames)
    cdef vyc_ticket *ticket = NULL
    cdef vyc_status status
    cdef object results
    try:
        results = dispatcher.prepare(frame, args, n, out, grid)
        if results is None or frame.staged > HELD_BYTES:
            frame.run.grid[0] = 0
            return None
        frame.run.timeout_ns = HELD_NS
        status = vyc_worker_run(worker._h, &ticket, number, &frame.run)
        if status == VYC_OK:
            return results
        if status == VYC_E_TIMEOUT and ticket == NULL:
            return None
        finish(status, ticket)
        return results
    finally:
        give_frame(frame, &dispatcher._frames)


cdef int finish(vyc_status status, vyc_ticket *ticket) except -1:
    """The rest of a call that has not ended, or its error."""
    if ticket == NULL:
        return check(status)
    try:
        check_signals()
        ticket_wait(ticket, -1)
    finally:
        with nogil:
            vyc_ticket_release(ticket)
    return 0


cdef str way_on(WorkerHandle worker):
    """What to do about a call that has not ended in time."""
    if worker._is_paused():
        return PAUSED
    return "allow more with timeout=, or submit it and wait again"


cdef int run_at_length(WorkerHandle worker, uint32_t number, vyc_run *run, int64_t left_ns) except -1:
    """Without the GIL, and looking for signals; negative: no limit of time."""
    cdef vyc_ticket *ticket = NULL
    cdef vyc_status status
    cdef vyc_run own = run[0]
    while True:
        own.timeout_ns = slice_of(left_ns)
        with nogil:
            status = vyc_worker_run(worker._h, &ticket, number, &own)
        if status != VYC_E_TIMEOUT:
            return check(status)
        if left_ns >= 0:
            left_ns = max(left_ns - own.timeout_ns, 0)
        if ticket != NULL:
            break
        if left_ns == 0:
            return check(status)
        check_signals()
    try:
        check_signals()
        if not ticket_wait(ticket, left_ns):
            raise KernelTimeoutError(
                f"kernel {worker.kernels[number].program.name} has not finished in the time allowed: {way_on(worker)}",
                launches=worker.context.in_flight())
    finally:
        with nogil:
            vyc_ticket_release(ticket)
    return 0


cdef object call_worker(object self, PyObject *const *args, Py_ssize_t n, PyObject *names):
    """`Worker.call(kernel, *args, out=None, grid=None)`; other keywords are parameters, for the general path."""
    cdef Py_ssize_t i
    cdef object out = None, grid = None, key
    cdef dict others = None
    cdef tuple keys = () if names == NULL else <tuple>names
    for i in range(len(keys)):
        key = keys[i]
        if key == "out":
            out = <object>args[n + i]
        elif key == "grid":
            grid = <object>args[n + i]
        else:
            if others is None:
                others = {}
            others[key] = <object>args[n + i]
    if n > 0:
        return (<WorkerHandle>self).run(<object>args[0], args + 1, n - 1, out, grid, others)
    if others is None or "kernel" not in others:
        raise TypeError("call() needs a kernel of the worker before its arguments")
    return (<WorkerHandle>self).run(others.pop("kernel"), args, 0, out, grid, others)


# As `launch` of dispatch.pyx: no tuple and no dict per call.
cdef PyMethodDef call_def
call_def.ml_name = b"call"
call_def.ml_meth = <void *>call_worker
call_def.ml_flags = METH_FASTCALL | METH_KEYWORDS
call_def.ml_doc = b"""call(kernel, *args, out=None, grid=None, **kwargs)

Run a kernel and wait.

Parameters
----------
kernel
    One of the worker's kernels, or what it was made of.
*args
    The arguments of `kernel(...)`; or device arrays and numbers for all parameters in declared order, as
    `kernel.launch` takes them.
out, grid
    As for `kernel(...)`.
**kwargs
    Arguments by name. `timeout=` is a limit in seconds, unless a parameter has this name.

Returns
-------
array, tuple of arrays or None
    What `kernel(...)` returns; None for arguments of a launch.

Raises
------
TypeError, ValueError, OverflowError
    Arguments do not fit.
UnsupportedError
    More than 1 MiB of host arrays, or memory that another library shares with a stream.
KernelTimeoutError
    The call has not ended; it goes on.
RecordingError
    The thread is recording a graph of the device.
DeviceUnavailableError
    The worker is closed.
Error
    Those of the kernel."""
call = PyDescr_NewMethod(<PyTypeObject *>WorkerHandle, &call_def)


cdef class WorkerCall:
    """A call of a worker with its arguments bound."""

    cdef readonly WorkerHandle worker
    cdef uint32_t _number
    cdef Arguments _arguments
    cdef Seen *_seen

    def __init__(self, WorkerHandle worker not None, kernel, Arguments arguments not None) -> None:
        self.worker = worker
        self._number = <uint32_t>worker.number(kernel)
        self._arguments = arguments

    def __call__(self) -> None:
        """Run and wait."""
        cdef vyc_ticket *ticket = NULL
        cdef vyc_status status
        cdef vyc_run run = self._arguments.run
        if load(self.worker.context._recordings) != 0:
            self.worker._refuse_in_recording(self.worker.kernels[self._number])
        run.origin = origin_of(&self._seen)
        run.timeout_ns = HELD_NS
        status = vyc_worker_run(self.worker._h, &ticket, self._number, &run)
        if status == VYC_OK:
            return
        if status == VYC_E_TIMEOUT and ticket == NULL:
            run_at_length(self.worker, self._number, &run, -1)
        else:
            finish(status, ticket)
