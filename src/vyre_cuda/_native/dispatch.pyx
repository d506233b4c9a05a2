# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""The warm path: calls with host, page-locked and device arrays, and launches.

Exact C-contiguous arrays, device arrays and numbers go from the call's arguments into the C structs of one run on the
stack. Whatever is not plain goes to `_general` and `_general_launch`, which the runtime supplies and which check,
convert and explain; both ways end in the same C calls.
"""
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_CheckExact
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy, memset

cimport numpy as cnp

from vyre_cuda._native.c_api cimport (
    VYC_ARGUMENT_BUFFER, VYC_ARGUMENT_HOST, VYC_ARGUMENT_PINNED, VYC_E_TIMEOUT, VYC_NOT_READY, VYC_OK,
    VYC_ROLE_IN, VYC_ROLE_INOUT, VYC_ROLE_OUT, vyc_argument, vyc_context_is_behind, vyc_plan_launch,
    vyc_plan_run, vyc_plan_submit, vyc_run, vyc_status, vyc_stream, vyc_ticket,
)
from vyre_cuda._native.context cimport Context, Stream
from vyre_cuda._native.foreign cimport stream_of
from vyre_cuda._native.memory cimport Pinned, Span, pinned_empty_of, pinned_of
from vyre_cuda._native.plan cimport Arguments, Plan, finish_run, submit_run
from vyre_cuda._native.status cimport check
from vyre_cuda._native.table cimport ROLE_SCALAR, Row, Table
from vyre_cuda._native.ticket cimport Ticket
from vyre_cuda._native.waiting cimport SLICE_NS

from vyre_cuda._native.status import AssertReport
from vyre_cuda.errors import ResourceError

cnp.import_array()

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

# How long a run is waited for with the GIL, in ns: giving it up around a few microseconds costs far more where
# another thread computes.
cdef int64_t HELD_NS = 50_000
# Bytes of host copies above which the GIL is given up at once.
cdef uint64_t HELD_BYTES = 1 << 16
# Bytes from which a new result is made in page-locked memory, where the kernel writes it itself: fresh pages of
# ordinary memory cost more than the copy.
LARGE_RESULT = 1 << 18
cdef uint64_t LARGE = LARGE_RESULT
# Launches between two looks at how far the device is behind.
cdef enum:
    LOOK_EVERY = 256


cdef bint is_plain(object value, const Row *row):
    """An exact ndarray of the parameter's type, C-contiguous, aligned and in native byte order."""
    return (
        cnp.PyArray_CheckExact(value)
        and cnp.PyArray_TYPE(<cnp.ndarray>value) == row.typenum
        and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>value)
    )


cdef bint fill_span(vyc_argument *item, Span span, const Row *row):
    if span.typenum != row.typenum or span.buffer is None:
        return False
    item.kind = VYC_ARGUMENT_BUFFER
    item.count = span.count
    item.buffer = span.buffer._h
    item.offset = span.offset
    return True


cdef bint meet(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) noexcept:
    return a_bytes != 0 and b_bytes != 0 and <const char *>a < <const char *>b + b_bytes \
        and <const char *>b < <const char *>a + a_bytes


cdef class Dispatcher(Table):
    """Calls of one kernel. Subclasses supply `_general`, `_general_launch`, `_general_submit`, `_assertion`,
    `_record_launch` and `_refuse_in_recording`.
    """

    def __init__(self, Plan plan not None, tuple rows not None, tuple work not None, tuple block not None,
                 int index_bits, bint simple) -> None:
        """Rows and work as `Table` takes them."""
        Table.__init__(self, rows, work, block, index_bits, simple)
        self._plan = plan

    def __call__(self, *args, out=None, grid=None, iterations=1, **kwargs):
        """Run with host arrays: see `vyre_cuda.Kernel`."""
        cdef Frame frame
        cdef object results = None
        if self._plan.context.recordings != 0:
            self._refuse_in_recording()
        if not kwargs and self.simple and PyLong_CheckExact(iterations) and iterations == 1:
            results = self.prepare(&frame, args, out, grid, 1)
        if results is None:
            return self._general(args, kwargs, out, grid, iterations)
        try:
            if not self.run(&frame):
                return self._general(args, kwargs, out, grid, iterations)
        except AssertReport as report:
            raise self._assertion(report) from None
        return results

    cdef bint run(self, Frame *frame) except -1:
        """Run and wait. False, and nothing was begun, where the GIL would have to be given up with device arrays in
        the frame, which does not keep them: the general path does."""
        cdef vyc_ticket *ticket = NULL
        cdef vyc_status status
        if frame.staged <= HELD_BYTES:
            frame.run.timeout_ns = HELD_NS
            status = vyc_plan_run(self._plan._h, &ticket, &frame.run)
            if frame.mixed and status == VYC_E_TIMEOUT and ticket == NULL:
                return False
        elif frame.mixed:
            return False
        else:
            frame.run.timeout_ns = SLICE_NS
            with nogil:
                status = vyc_plan_run(self._plan._h, &ticket, &frame.run)
        if status != VYC_OK:
            finish_run(self._plan, status, ticket, &frame.run)
        return True

    def submit_plain(self, tuple args not None, out, grid) -> tuple[Ticket, object] | None:
        """Start a plain call: its ticket and results; None for another."""
        cdef Frame frame
        cdef Ticket ticket
        cdef vyc_status status
        cdef object results = self.prepare(&frame, args, out, grid, 1) if self.simple else None
        if results is None:
            return None
        ticket = Ticket.__new__(Ticket)
        status = VYC_E_TIMEOUT
        if frame.staged <= HELD_BYTES:
            frame.run.timeout_ns = 0
            status = vyc_plan_submit(self._plan._h, &ticket._h, &frame.run)
        if status == VYC_E_TIMEOUT:
            if frame.mixed:
                return None
            submit_run(self._plan, &ticket._h, &frame.run)
        elif status != VYC_OK:
            check(status)
        ticket._keep = (args, results)
        return ticket, results

    # ---- a run's arguments -------------------------------------------------------------------------------------------

    cdef object prepare(self, Frame *frame, tuple args, object out, object grid, uint32_t iterations):
        """Fill the frame; the results that the run will have, or None when this call is not a plain one."""
        cdef uint32_t i
        cdef Py_ssize_t position = 0, n = len(args)
        cdef PyObject **values = (<PyTupleObject *>args).ob_item
        cdef const Row *row
        frame.staged = 0
        frame.mixed = False
        for i in range(self.parameter_count):
            row = &self.rows[i]
            if row.role == VYC_ROLE_OUT:
                continue
            if position == n:
                return None
            if row.role == ROLE_SCALAR:
                if not self.bits_of(&frame.scalars[row.slot], <object>values[position], row):
                    return None
            elif not self.take(frame, i, <object>values[position]):
                return None
            position += 1
        if position != n:
            return None
        results = self.results_of(frame, out)
        if results is None:
            return None
        if grid is None:
            if not self.grid_of(frame.run.grid, frame.counts, frame.scalars):
                return None
        elif not self.given_grid(frame.run.grid, grid):
            return None
        self.finish(frame, iterations)
        return results

    cdef void finish(self, Frame *frame, uint32_t iterations):
        frame.run.struct_size = sizeof(vyc_run)
        frame.run.argument_count = self.binding_count
        frame.run.scalar_count = self.scalar_count
        frame.run.arguments = frame.items
        frame.run.scalars = frame.scalars
        frame.run.stream = NULL
        frame.run.timeout_ns = -1
        frame.run.timing_out = NULL
        frame.run.iterations = iterations

    cdef bint take(self, Frame *frame, uint32_t parameter, object value) except -1:
        """An input: an array, or for an in a device array."""
        cdef const Row *row = &self.rows[parameter]
        cdef vyc_argument *item = &frame.items[row.slot]
        cdef Pinned pinned = None
        memset(item, 0, sizeof(vyc_argument))
        if is_plain(value, row):
            item.kind = VYC_ARGUMENT_HOST
            item.count = cnp.PyArray_SIZE(<cnp.ndarray>value)
            item.data = cnp.PyArray_DATA(<cnp.ndarray>value)
            if row.role == VYC_ROLE_IN and cnp.PyArray_BASE(<cnp.ndarray>value) != NULL:
                pinned = pinned_of(<cnp.ndarray>value)
            if pinned is not None:
                item.kind = VYC_ARGUMENT_PINNED
                item.pinned = pinned._h
            else:
                frame.staged += item.count * row.itemsize
        elif row.role == VYC_ROLE_IN and isinstance(value, Span) and fill_span(item, <Span>value, row):
            frame.mixed = True
        else:
            return False
        frame.counts[parameter] = item.count
        return item.count <= self.most_elements

    cdef object results_of(self, Frame *frame, object out):
        """Where the results go, made or given; None when that is not plain."""
        cdef uint32_t i, given = 0
        cdef Py_ssize_t position = 0
        cdef bint several = self.result_count != 1
        cdef list results = []
        cdef object target
        if several and out is not None and not (PyTuple_CheckExact(out) and len(out) == self.result_count):
            return None
        for i in range(self.parameter_count):
            if self.rows[i].role != VYC_ROLE_INOUT and self.rows[i].role != VYC_ROLE_OUT:
                continue
            target = out if not several or out is None else (<tuple>out)[position]
            position += 1
            given += target is not None
            target = self.give(frame, i, target)
            if target is None:
                return None
            if not several:
                results = None
                break
            results.append(target)
        if given and not self.apart(frame, given):
            return None
        return tuple(results) if several else target

    cdef object give(self, Frame *frame, uint32_t parameter, object target):
        """Memory for one result: `target`, or an array of its own for None. None when that is not plain."""
        cdef const Row *row = &self.rows[parameter]
        cdef vyc_argument *item = &frame.items[row.slot]
        cdef uint64_t count = 0
        cdef bint own = row.role == VYC_ROLE_OUT and row.begin == row.end
        cdef Pinned pinned = None
        if row.role == VYC_ROLE_INOUT:
            count = frame.counts[parameter]
        else:
            memset(item, 0, sizeof(vyc_argument))
            if not own and not self.size_of(&count, parameter, frame.counts, frame.scalars):
                return None
        if target is None:
            if own:
                return None
            target = new_array(self._plan.context, count, row)
        elif isinstance(target, Span):
            if row.role != VYC_ROLE_OUT or not fill_span(item, <Span>target, row):
                return None
            frame.counts[parameter] = item.count
            frame.mixed = True
            return target if own or item.count == count else None
        elif not is_plain(target, row) or not cnp.PyArray_ISWRITEABLE(<cnp.ndarray>target):
            return None
        item.count = cnp.PyArray_SIZE(<cnp.ndarray>target)
        if not own and item.count != count:
            return None
        item.kind = VYC_ARGUMENT_HOST
        item.result = cnp.PyArray_DATA(<cnp.ndarray>target)
        if cnp.PyArray_BASE(<cnp.ndarray>target) != NULL:
            pinned = pinned_of(<cnp.ndarray>target)
        if pinned is not None:
            item.kind = VYC_ARGUMENT_PINNED
            item.pinned = pinned._h
        else:
            frame.staged += item.count * row.itemsize
        frame.counts[parameter] = item.count
        return target if item.count <= self.most_elements else None

    cdef bint apart(self, Frame *frame, uint32_t given):
        """No given result meets another, and none that the kernel itself writes to meets what it reads."""
        cdef uint32_t i, j
        cdef vyc_argument *a
        cdef vyc_argument *b
        cdef uint64_t a_bytes, b_bytes
        for i in range(self.parameter_count):
            if self.rows[i].role == ROLE_SCALAR:
                continue
            a = &frame.items[self.rows[i].slot]
            a_bytes = a.count * self.rows[i].itemsize
            if a.result == NULL or (given == 1 and a.kind != VYC_ARGUMENT_PINNED):
                continue
            for j in range(self.parameter_count):
                if j == i or self.rows[j].role == ROLE_SCALAR:
                    continue
                b = &frame.items[self.rows[j].slot]
                b_bytes = b.count * self.rows[j].itemsize
                if b.result != NULL and meet(a.result, a_bytes, b.result, b_bytes):
                    return False
                if a.kind == VYC_ARGUMENT_PINNED and b.data != NULL and meet(a.result, a_bytes, b.data, b_bytes):
                    return False
        return True

    def plain_arguments(self, tuple args not None) -> Arguments | None:
        """The arguments of a plain launch, all parameters in declared order; None when it is not a plain one."""
        cdef Frame frame
        cdef Arguments arguments
        if not self.prepare_launch(&frame, (<PyTupleObject *>args).ob_item, len(args), None):
            return None
        arguments = Arguments.__new__(Arguments)
        arguments.items = <vyc_argument *>malloc(self.binding_count * sizeof(vyc_argument) + 1)
        arguments.scalars = <uint64_t *>malloc(self.scalar_count * sizeof(uint64_t) + 1)
        if arguments.items == NULL or arguments.scalars == NULL:
            raise MemoryError
        memcpy(arguments.items, frame.items, self.binding_count * sizeof(vyc_argument))
        memcpy(arguments.scalars, frame.scalars, self.scalar_count * sizeof(uint64_t))
        arguments.run = frame.run
        arguments.run.arguments = arguments.items
        arguments.run.scalars = arguments.scalars
        arguments.keep = [args]
        return arguments

    # ---- launches ----------------------------------------------------------------------------------------------------

    cdef bint prepare_launch(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object grid) except -1:
        """All parameters in declared order; False when this launch is not a plain one."""
        cdef uint32_t i
        cdef const Row *row
        cdef vyc_argument *item
        cdef uint64_t declared
        if not self.simple or n != <Py_ssize_t>self.parameter_count:
            return False
        for i in range(self.parameter_count):
            row = &self.rows[i]
            value = <object>args[i]
            if row.role == ROLE_SCALAR:
                if not self.bits_of(&frame.scalars[row.slot], value, row):
                    return False
                continue
            item = &frame.items[row.slot]
            memset(item, 0, sizeof(vyc_argument))
            if not isinstance(value, Span) or not fill_span(item, <Span>value, row):
                return False
            if item.count > self.most_elements:
                return False
            frame.counts[i] = item.count
        for i in range(self.parameter_count):
            if self.rows[i].begin == self.rows[i].end:
                continue
            if not self.size_of(&declared, i, frame.counts, frame.scalars) or declared != frame.counts[i]:
                return False
        if grid is None:
            if not self.grid_of(frame.run.grid, frame.counts, frame.scalars):
                return False
        elif not self.given_grid(frame.run.grid, grid):
            return False
        self.finish(frame, 1)
        return True


cdef bint looks_deep(Context context, vyc_stream *stream):
    """Count a launch; whether the queue may be full. The count is a hint, so threads may lose some of it."""
    context.launches += 1
    if context.launches % LOOK_EVERY == 0:
        context.is_behind = vyc_context_is_behind(context._h, stream) == VYC_NOT_READY
    return context.is_behind


cdef object new_array(Context context, uint64_t count, const Row *row):
    cdef cnp.npy_intp shape = count
    if count * row.itemsize >= LARGE:
        try:
            return pinned_empty_of(context, shape, row.typenum)
        except ResourceError:
            pass  # ordinary memory does as well
    return cnp.PyArray_EMPTY(1, &shape, row.typenum, 0)


cdef object launch_plain(object self, PyObject *const *args, Py_ssize_t n, PyObject *names):
    """`Kernel.launch(*args, stream=None, grid=None)`; other keywords are parameters, for the general path."""
    cdef Dispatcher dispatcher = <Dispatcher>self
    cdef Frame frame
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
    if dispatcher._plan.context.recordings != 0 and record_launch(dispatcher, args, n, keys):
        return None
    if plain and dispatcher.prepare_launch(&frame, args, n, grid):
        on = stream_of(dispatcher._plan.context, stream)
        frame.run.stream = NULL if on is None else on._h
        # Where it may block, the general path gives the GIL up, and keeps the arrays meanwhile.
        if not looks_deep(dispatcher._plan.context, frame.run.stream):
            check(vyc_plan_launch(dispatcher._plan._h, &frame.run))
            return None
    dispatcher._general_launch(*taken_apart(args, n, keys))
    return None


cdef tuple taken_apart(PyObject *const *args, Py_ssize_t n, tuple keys):
    """Arguments by position, arguments by name, stream and grid."""
    cdef dict given = {keys[i]: <object>args[n + i] for i in range(len(keys))}
    cdef object stream = given.pop("stream", None)
    cdef object grid = given.pop("grid", None)
    return tuple([<object>args[i] for i in range(n)]), given, stream, grid


cdef bint record_launch(Dispatcher dispatcher, PyObject *const *args, Py_ssize_t n, tuple keys) except -1:
    """Whether this thread records a graph, which then has the launch."""
    return dispatcher._record_launch(*taken_apart(args, n, keys))


# A method with the interpreter's fast calling convention, which Cython's own `*args` does not take: no tuple and no
# dict per launch.
cdef PyMethodDef launch_def
launch_def.ml_name = b"launch"
launch_def.ml_meth = <void *>launch_plain
launch_def.ml_flags = METH_FASTCALL | METH_KEYWORDS
launch_def.ml_doc = b"""launch(*args, stream=None, grid=None)

Launch on device arrays, all parameters in declared order or by name, without waiting.

`stream`: a Stream, an object with __cuda_stream__ or a CUstream handle, else call order. `grid`: blocks, an int or a
tuple of one to three, in place of those that follow from the work. Results are zero where the program does not write. TypeError, ValueError: as for a call."""
launch = PyDescr_NewMethod(<PyTypeObject *>Dispatcher, &launch_def)
