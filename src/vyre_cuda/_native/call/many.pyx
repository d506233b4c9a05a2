# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Many launches of a kernel as one: their arguments, row after row, in the C layer's structs."""
from cpython.list cimport PyList_CheckExact
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from cpython.tuple cimport PyTuple_CheckExact
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from vyre_cuda._native.core.c_driver cimport vyc_prepared
from vyre_cuda._native.core.c_bundle cimport VYC_ROLE_SCALAR
from vyre_cuda._native.core.c_kernel cimport (
    VYC_RUN_GRID_OF_WORK, vyc_argument, vyc_prepared_launch_many, vyc_rows, vyc_run,
)
from vyre_cuda._native.core.c_status cimport vyc_status
from vyre_cuda._native.core.context cimport Stream
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.call.dispatch cimport Dispatcher
from vyre_cuda._native.call.frame cimport FREE_THREADED, Frame, give_frame, take_frame
from vyre_cuda._native.call.prepared cimport Arguments, PreparedKernel
from vyre_cuda._native.memory.memory cimport Span, new_reference
from vyre_cuda._native.trace.origin cimport origin_of

cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject *ob_item[1]

cdef extern from *:
    """
    /* Inlined, because a function that only tells the cache has no effect for a compiler, which leaves it out. */
    __attribute__((always_inline)) static inline void vyc_tell_object(const PyObject *of) {
      __builtin_prefetch(of); /* what is read of it may be in two lines */
      __builtin_prefetch((const char *)of + 56);
    }
    __attribute__((always_inline)) static inline void vyc_tell_row(
        PyObject *const *rows, size_t left, size_t row_ahead, size_t items_ahead) {
      if (row_ahead < left) vyc_tell_object(rows[row_ahead]);
      if (items_ahead >= left || !PyTuple_CheckExact(rows[items_ahead])) return;
      const PyTupleObject *row = (const PyTupleObject *)rows[items_ahead];
      for (Py_ssize_t i = 0; i < Py_SIZE(row); i++) vyc_tell_object(row->ob_item[i]);
    }
    static inline PyObject *vyc_alike(PyObject *row, PyObject *args, Py_ssize_t i) {
      if (!PyTuple_CheckExact(row) || Py_SIZE(row) <= i) return NULL;
      PyObject *value = ((PyTupleObject *)row)->ob_item[i];
      return Py_TYPE(value) == Py_TYPE(((PyTupleObject *)args)->ob_item[i]) ? value : NULL;
    }
    """
    void tell_row "vyc_tell_row"(PyObject *const *rows, size_t left, size_t row_ahead, size_t items_ahead) noexcept
    PyObject *alike "vyc_alike"(PyObject *row, PyObject *args, Py_ssize_t i) noexcept
    void tell_cache "__builtin_prefetch"(const void *address) noexcept nogil

# So many rows before they are read, the cache is told of the tuples of rows, of their arguments, and of the buffers of
# these: each is found in the one before it. Rows that are not in the cache are read in half the time.
cdef enum:
    ROW_AHEAD = 24
    ARGUMENTS_AHEAD = 16
    BUFFERS_AHEAD = 8


cdef tuple as_tuple(object row):
    """The arguments of a row that is a tuple or a list; None for any other."""
    if PyTuple_CheckExact(row):
        return <tuple>row
    return tuple(<list>row) if PyList_CheckExact(row) else None


cdef class Rows:
    """The arguments of many launches, row after row, and references to their buffers."""

    def __dealloc__(self):
        while self._held_count != 0:
            self._held_count -= 1
            Py_DECREF(<object>self._held[self._held_count])
        PyMem_Free(self._items)
        PyMem_Free(self._scalars)
        PyMem_Free(self._grids)
        PyMem_Free(self._held)

    cdef int make_room(self, Dispatcher dispatcher, size_t count, object grid, Stream on) except -1:
        cdef uint32_t bindings = dispatcher.binding_count, scalars = dispatcher.scalar_count
        if count > <uint32_t>-1:
            raise ValueError(f"{count} rows; a call takes 4,294,967,295 at most: give the others to another call")
        self._dispatcher = dispatcher
        self._on = on
        self._kept = []
        self._items = <vyc_argument *>PyMem_Calloc(count * bindings + 1, sizeof(vyc_argument))
        self._scalars = <uint64_t *>PyMem_Calloc(count * scalars + 1, sizeof(uint64_t))
        self._grids = <uint32_t *>PyMem_Calloc(3 * count + 1, sizeof(uint32_t))
        self._held = <PyObject **>PyMem_Calloc(count * bindings + 1, sizeof(PyObject *))
        if self._items == NULL or self._scalars == NULL or self._grids == NULL or self._held == NULL:
            raise MemoryError
        self._rows.struct_size = sizeof(vyc_rows)
        self._rows.count = <uint32_t>count
        self._rows.argument_count = bindings
        self._rows.scalar_count = scalars
        self._rows.arguments = self._items
        self._rows.scalars = self._scalars
        self._rows.grids = self._grids
        self._rows.stream = NULL if on is None else on._h
        self._rows.flags = VYC_RUN_GRID_OF_WORK if grid is None else 0
        self._rows.origin = origin_of(&dispatcher._seen)
        return 0

    cdef void take(self, size_t at, const vyc_run *run) noexcept:
        cdef uint32_t bindings = self._rows.argument_count, scalars = self._rows.scalar_count
        memcpy(self._items + at * bindings, run.arguments, bindings * sizeof(vyc_argument))
        memcpy(self._scalars + at * scalars, run.scalars, scalars * sizeof(uint64_t))
        memcpy(self._grids + at * 3, run.grid, sizeof(run.grid))

    cdef void take_held(self, Frame *frame) noexcept:
        """Hold what the frame holds, in its place."""
        memcpy(self._held + self._held_count, frame.held, frame.held_count * sizeof(PyObject *))
        self._held_count += frame.held_count
        frame.held_count = 0

    def set_places(self, bytes places not None) -> None:
        """For each array of each row 0, or the number of the entry's array that stands for it."""
        if <uint64_t>len(places) != <uint64_t>self._rows.count * self._rows.argument_count:
            raise ValueError("each array of each row needs one number")
        self.places = places

    def blocks(self) -> int:
        """Those of all rows."""
        cdef uint64_t found = 0
        cdef size_t i
        for i in range(self._rows.count):
            found += <uint64_t>self._grids[3 * i] * self._grids[3 * i + 1] * self._grids[3 * i + 2]
        return found

    def launch(self, PreparedKernel many, PreparedKernel clearing=None, PreparedKernel many_clearing=None) -> None:
        """`many`: the entry that takes all rows in one launch; None: one row after the other. `clearing`: the kernel
        that clears outs, and its entry, if outs may have to be cleared."""
        cdef vyc_prepared *entry = NULL if many is None else many._h
        cdef vyc_status status
        self._rows.clearing = NULL if clearing is None else clearing._h
        self._rows.many_clearing = NULL if many_clearing is None else many_clearing._h
        with nogil:
            status = vyc_prepared_launch_many(self._dispatcher._prepared._h, entry, &self._rows)
        check(status)


cdef class Launches(Rows):
    """Rows of device arrays and numbers, each with all parameters in declared order."""

    def __init__(self, Dispatcher dispatcher not None, tuple rows not None, object grid, Stream on) -> None:
        """`grid`: that of every row, or None for those that follow from the work. What is wrong with a row is raised
        with its number."""
        cdef Frame *frame
        cdef PyObject **items = (<PyTupleObject *>rows).ob_item
        cdef PyObject *ahead
        cdef size_t i
        self.make_room(dispatcher, len(rows), grid, on)
        frame = take_frame(dispatcher, &dispatcher._launches)
        try:
            for i in range(self._rows.count):
                tell_row(&items[i], self._rows.count - i, ROW_AHEAD, ARGUMENTS_AHEAD)
                ahead = items[i + BUFFERS_AHEAD] if i + BUFFERS_AHEAD < self._rows.count else items[i]
                self.read(frame, i, <object>items[i], ahead, grid)
        finally:
            give_frame(frame, &dispatcher._launches)

    cdef int read(self, Frame *frame, size_t at, object row, PyObject *ahead, object grid) except -1:
        cdef Arguments arguments
        cdef tuple args = as_tuple(row)
        if args is not None and self._dispatcher.fill_launch(
                frame, (<PyTupleObject *>args).ob_item, len(args), grid):
            self.take(at, &frame.run)
            self.hold(frame, args, ahead)
            return 0
        arguments = self._dispatcher._general_row(at, row, self._on, grid)
        self._kept.append(arguments)
        self.take(at, &arguments.run)
        return 0

    cdef void hold(self, Frame *frame, tuple args, PyObject *ahead) noexcept:
        """The frame holds the buffers only where other threads may have run. `ahead`: a row that is read later."""
        cdef PyObject *buffer
        cdef PyObject *later
        cdef Py_ssize_t i
        if FREE_THREADED:
            self.take_held(frame)
            return
        for i in range(self._dispatcher.parameter_count):  # as many as the frame was filled from
            if self._dispatcher.rows[i].role == VYC_ROLE_SCALAR:
                continue
            later = alike(ahead, <PyObject *>args, i)
            if later != NULL:
                tell_cache(<PyObject *>(<Span>later)._buffer)
            buffer = new_reference(<Span>(<PyTupleObject *>args).ob_item[i])
            if buffer != NULL:
                self._held[self._held_count] = buffer
                self._held_count += 1
