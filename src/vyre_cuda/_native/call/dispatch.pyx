# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""The warm path: calls that wait for their results, and launches.

Plain calls go through one of the kernel's frames to the C layer. All others go to `_general` and
`_general_launch`, which the runtime supplies and which check, convert and explain; both paths end in the same C calls.
"""
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_ticket
from vyre_cuda._native.core.c_kernel cimport vyc_prepared_launch, vyc_prepared_run, vyc_prepared_submit
from vyre_cuda._native.core.c_status cimport VYC_E_INVALID, VYC_E_TIMEOUT, VYC_OK, vyc_status
from vyre_cuda._native.core.context cimport Stream, load, looks_deep
from vyre_cuda._native.memory.adopted cimport stream_of
from vyre_cuda._native.call.frame cimport FREE_THREADED, Frame, Framer, give_frame, let_go, take_frame
from vyre_cuda._native.memory.memory cimport Span, new_reference
from vyre_cuda._native.call.prepared cimport Arguments, copy_run, finish_run, submit_run
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.call.ticket cimport Ticket
from vyre_cuda._native.core.waiting cimport HELD_NS, SLICE_NS

from vyre_cuda._native.core.status import AssertReport

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
    ctypedef struct CallableType "PyTypeObject":
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    Py_ssize_t PyVectorcall_NARGS(size_t flagged)
    void PyType_Modified(CallableType *)

# Bytes of host copies above which the GIL is released at once.
cdef uint64_t HELD_BYTES = 1 << 16


cdef class Dispatcher(Framer):
    """Calls of one kernel. Subclasses supply `_general`, `_general_launch`, `_assertion`,
    `_record_launch`, `_watch_call` and `_provide_large`, which must call `leave_from`.
    """

    def __cinit__(self):
        self._vectorcall = call_plain

    def __call__(self, *args, out=None, grid=None, iterations=1, **kwargs):
        """Run with host arrays: see `vyre_cuda.Kernel`."""
        return self.call((<PyTupleObject *>args).ob_item, len(args), out, grid, iterations, kwargs)

    cdef object call(self, PyObject *const *args, Py_ssize_t n, object out, object grid, object iterations,
                     dict others):
        """A call; `others` are keywords that are not named here, None if there are none."""
        cdef Frame *frame
        cdef object results = None
        if load(self._prepared.context._recordings) != 0:
            results = self._watch_call(tuple([<object>args[i] for i in range(n)]), others or {}, out, grid, iterations)
            if results is not NotImplemented:
                return results
            results = None
        if not others and self.simple and PyLong_CheckExact(iterations) and iterations == 1:
            frame = take_frame(self, &self._frames)
            try:
                results = self.prepare(frame, args, n, out, grid)
                if results is None and self.was_left(frame, grid):
                    results = self.prepare(frame, args, n, out, grid)
                if results is not None and self.run(frame):
                    return results
            except AssertReport as report:
                raise self._assertion(report) from None
            finally:
                give_frame(frame, &self._frames)
        return self._general(tuple([<object>args[i] for i in range(n)]), others or {}, out, grid, iterations)

    cdef bint was_left(self, Frame *frame, object grid) except -1:
        """Whether a call or launch was not plain as it is the first large one; the next attempt may be."""
        if grid is not None or frame.run.grid[0] <= self.plain_blocks[0] or self.plain_blocks[0] == self.most_blocks[0]:
            return False
        let_go(frame)
        frame.run.grid[0] = 0  # as if this had not been tried
        self._provide_large()
        return True

    cdef bint run(self, Frame *frame) except -1:
        """Run and wait. False, without starting anything, if the GIL would have to be released with device arrays in
        the frame, which does not keep them alive; the general path does."""
        cdef vyc_ticket *ticket = NULL
        cdef vyc_status status
        if frame.staged <= HELD_BYTES:
            frame.run.timeout_ns = HELD_NS
            status = vyc_prepared_run(self._prepared._h, &ticket, &frame.run)
            if frame.mixed and status == VYC_E_TIMEOUT and ticket == NULL:
                return False
        elif frame.mixed:
            return False
        else:
            frame.run.timeout_ns = SLICE_NS
            with nogil:
                status = vyc_prepared_run(self._prepared._h, &ticket, &frame.run)
        if status != VYC_OK:
            if status == VYC_E_INVALID and ticket == NULL:
                return False  # likewise
            finish_run(self._prepared, status, ticket, &frame.run)
        return True

    def submit_plain(self, tuple args not None, out, grid) -> tuple[Ticket, object] | None:
        """Start a plain call and return its ticket and results; None if it is not plain, or may be recorded or watched.
        """
        cdef Frame *frame
        cdef Ticket ticket
        cdef vyc_status status
        cdef object results
        if not self.simple or load(self._prepared.context._recordings) != 0:
            return None
        frame = take_frame(self, &self._frames)
        try:
            results = self.prepare(frame, (<PyTupleObject *>args).ob_item, len(args), out, grid)
            if results is None:
                return None
            ticket = Ticket.__new__(Ticket)
            status = VYC_E_TIMEOUT
            if frame.staged <= HELD_BYTES:
                frame.run.timeout_ns = 0
                status = vyc_prepared_submit(self._prepared._h, &ticket._h, &frame.run)
            if status == VYC_E_TIMEOUT:
                if frame.mixed:
                    return None
                submit_run(self._prepared, &ticket._h, &frame.run)
            elif status == VYC_E_INVALID:
                return None
            elif status != VYC_OK:
                check(status)
            ticket._keep = (args, results)
            return ticket, results
        finally:
            give_frame(frame, &self._frames)

    def plain_arguments(self, tuple args not None) -> Arguments | None:
        """The arguments of a plain launch, all parameters in declared order; None if it is not plain."""
        cdef Frame *frame
        cdef Arguments arguments
        cdef uint32_t i
        if not self.simple:
            return None
        frame = take_frame(self, &self._launches)
        try:
            if not self.prepare_launch(frame, (<PyTupleObject *>args).ob_item, len(args), None):
                return None
            if not FREE_THREADED:
                hold_all(frame, args)
            frame.run.stream = NULL
            arguments = copy_run(&frame.run)
            arguments.keep = [args, [<object>frame.held[i] for i in range(frame.held_count)]]
            return arguments
        finally:
            give_frame(frame, &self._launches)


cdef void hold_all(Frame *frame, tuple args) noexcept:
    """Hold the buffers of the launch that was just prepared."""
    cdef object value
    for value in args:
        if isinstance(value, Span):
            frame.held[frame.held_count] = new_reference(<Span>value)
            frame.held_count += 1


cdef object call_plain(object self, PyObject *const *args, size_t flagged, PyObject *names):
    """`Dispatcher.__call__` with the interpreter's vectorcall: no tuple and no dict per call."""
    cdef Py_ssize_t i, n = PyVectorcall_NARGS(flagged)
    cdef object out = None, grid = None, iterations = 1, key
    cdef dict others = None
    cdef tuple keys = () if names == NULL else <tuple>names
    for i in range(len(keys)):
        key = keys[i]
        if key == "out":
            out = <object>args[n + i]
        elif key == "grid":
            grid = <object>args[n + i]
        elif key == "iterations":
            iterations = <object>args[n + i]
        else:
            if others is None:
                others = {}
            others[key] = <object>args[n + i]
    return (<Dispatcher>self).call(args, n, out, grid, iterations, others)


cdef object launch_plain(object self, PyObject *const *args, Py_ssize_t n, PyObject *names):
    """`Kernel.launch(*args, stream=None, grid=None)`; other keywords are parameters, for the general path."""
    cdef Dispatcher dispatcher = <Dispatcher>self
    cdef object stream = None, grid = None, key
    cdef Stream on
    cdef tuple keys = () if names == NULL else <tuple>names
    cdef Py_ssize_t i
    cdef bint plain = True
    for i in range(len(keys)):
        key = keys[i]
        if key == "stream":
            stream = <object>args[n + i]
        elif key == "grid":
            grid = <object>args[n + i]
        else:
            plain = False
    if load(dispatcher._prepared.context._recordings) != 0 and record_launch(dispatcher, args, n, keys):
        return None
    if plain:
        # First, because this calls an object of another library, which may do anything.
        on = stream_of(dispatcher._prepared.context, stream)
        if dispatcher.simple and launch_frame(dispatcher, args, n, grid, on):
            return None
    dispatcher._general_launch(*taken_apart(args, n, keys))
    return None


cdef bint launch_frame(Dispatcher dispatcher, PyObject *const *args, Py_ssize_t n, object grid, Stream on) except -1:
    """Whether it was a plain launch and has been made."""
    cdef Frame *frame = take_frame(dispatcher, &dispatcher._launches)
    cdef vyc_status status
    try:
        if not dispatcher.prepare_launch(frame, args, n, grid) and not (
                dispatcher.was_left(frame, grid) and dispatcher.prepare_launch(frame, args, n, grid)):
            return False
        frame.run.stream = NULL if on is None else on._h
        # Where it may block, the general path releases the GIL and keeps the arrays alive meanwhile.
        if looks_deep(dispatcher._prepared.context, frame.run.stream):
            return False
        status = vyc_prepared_launch(dispatcher._prepared._h, &frame.run)
        if status != VYC_OK:
            if status == VYC_E_INVALID:
                return False  # an array of a peer, perhaps; else the general path says what is wrong
            check(status)
        return True
    finally:
        give_frame(frame, &dispatcher._launches)


cdef tuple taken_apart(PyObject *const *args, Py_ssize_t n, tuple keys):
    """Arguments by position, arguments by name, stream and grid."""
    cdef dict given = {keys[i]: <object>args[n + i] for i in range(len(keys))}
    cdef object stream = given.pop("stream", None)
    cdef object grid = given.pop("grid", None)
    return tuple([<object>args[i] for i in range(n)]), given, stream, grid


cdef bint record_launch(Dispatcher dispatcher, PyObject *const *args, Py_ssize_t n, tuple keys) except -1:
    """Whether this thread is recording a graph, which then has the launch."""
    return dispatcher._record_launch(*taken_apart(args, n, keys))


# A method with the interpreter's fast calling convention, which Cython's own `*args` does not take: no tuple and no
# dict per launch.
cdef PyMethodDef launch_def
launch_def.ml_name = b"launch"
launch_def.ml_meth = <void *>launch_plain
launch_def.ml_flags = METH_FASTCALL | METH_KEYWORDS
launch_def.ml_doc = b"""launch(*args, stream=None, grid=None, **kwargs)

Launch on device arrays without waiting. Outs are zero where the program does not write, unless they
are declared with `zeroed=False`.

Parameters
----------
*args
    All parameters in declared order, device arrays and numbers.
stream
    A Stream, an object with `__cuda_stream__` or a CUstream handle; None for call order.
grid
    The number of blocks, or up to three along x, y and z, in place of those that follow from the work.
**kwargs
    Parameters by name.

Raises
------
TypeError, ValueError, OverflowError
    Arguments do not fit.
ResourceError
    The device cannot launch as much.
RecordingError
    In a recording, a stream is named."""
launch = PyDescr_NewMethod(<PyTypeObject *>Dispatcher, &launch_def)


def call_by_vector(type kind not None) -> type:
    """Let the interpreter call instances of a class that has `Dispatcher.__call__` by way of `call_plain`.

    Before Python 3.12 a class does not inherit that from its base. A decorator; TypeError for another class."""
    if not issubclass(kind, Dispatcher) or kind.__call__ is not Dispatcher.__call__:
        raise TypeError(f"{kind.__name__} has a __call__ of its own")
    cdef Dispatcher probe = Dispatcher.__new__(Dispatcher)
    cdef CallableType *c = <CallableType *>kind
    c.tp_vectorcall_offset = <char *>&probe._vectorcall - <char *><void *>probe
    c.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(c)
    return kind


call_by_vector(Dispatcher)
