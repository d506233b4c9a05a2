from libc.stdint cimport uint32_t

from vyre_cuda._native.core.context cimport Stream
from vyre_cuda._native.call.frame cimport Frame, Spares
from vyre_cuda._native.core.module cimport Module
from vyre_cuda._native.trace.origin cimport Seen
from vyre_cuda._native.call.prepared cimport AnyCall, PreparedKernel

cdef struct Word:
    bint is_pointer
    int width    # of a scalar, as in Row
    int typenum


cdef class Launcher:
    cdef readonly Module module
    cdef int _count
    cdef Word *_words
    cdef Spares _frames
    cdef uint32_t _max_grid[3]
    # The variant used last; replaced as a whole, in a critical section.
    cdef tuple _last
    cdef Seen *_seen  # where the last launch came from

    cdef PreparedKernel prepared_for(self, object block, uint32_t shared_bytes, bint cooperative, object addresses)
    cdef Frame *take(self) except NULL
    cdef void give(self, Frame *frame) noexcept
    cdef object fill(self, Frame *given, tuple args, object grid, Stream stream)


cdef class LoadedCall(AnyCall):
    cdef Launcher _launcher
    cdef PreparedKernel _prepared
    cdef object _grid
    cdef object _addresses
