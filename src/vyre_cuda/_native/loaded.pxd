from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.c_api cimport vyc_argument, vyc_call, vyc_run
from vyre_cuda._native.context cimport Stream
from vyre_cuda._native.module cimport Module
from vyre_cuda._native.plan cimport Plan
from vyre_cuda._native.origin cimport Seen

cdef enum:
    MOST_PARAMETERS = 128


cdef class Launcher:
    cdef readonly Module module
    cdef int _count
    cdef int _kind[MOST_PARAMETERS]
    cdef uint32_t _max_grid[3]
    # The variant used last; replaced as a whole.
    cdef tuple _last
    cdef Seen *_seen  # where the last launch came from

    cdef Plan plan_for(self, object block, uint32_t shared_bytes, bint cooperative, object addresses)
    cdef object fill(self, tuple args, vyc_argument *items, uint64_t *scalars, vyc_run *run, object grid, Stream stream)


cdef class LoadedCall:
    cdef vyc_call *_h
    cdef Launcher _launcher
    cdef Plan _plan
    cdef Stream _on
    cdef object _grid
    cdef object _addresses
    cdef Seen *_seen
    cdef readonly tuple values
