from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.core.c_kernel cimport vyc_argument, vyc_rows, vyc_run
from vyre_cuda._native.core.context cimport Stream
from vyre_cuda._native.call.dispatch cimport Dispatcher
from vyre_cuda._native.call.frame cimport Frame


cdef tuple as_tuple(object row)


cdef class Rows:
    cdef Dispatcher _dispatcher
    cdef Stream _on
    cdef vyc_rows _rows
    cdef vyc_argument *_items
    cdef uint64_t *_scalars
    cdef uint32_t *_grids
    cdef PyObject **_held  # references to buffers
    cdef size_t _held_count
    cdef list _kept        # what rows were converted to, and what else must stay
    cdef readonly bytes places  # of the arrays in a launch of the entry, or None

    cdef int make_room(self, Dispatcher dispatcher, size_t count, object grid, Stream on) except -1
    cdef void take(self, size_t at, const vyc_run *run) noexcept
    cdef void take_held(self, Frame *frame) noexcept


cdef class Launches(Rows):
    cdef int read(self, Frame *frame, size_t at, object row, PyObject *ahead, object grid) except -1
    cdef void hold(self, Frame *frame, tuple args, PyObject *ahead) noexcept
