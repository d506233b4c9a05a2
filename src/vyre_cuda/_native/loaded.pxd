from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.c_api cimport vyc_argument, vyc_run
from vyre_cuda._native.context cimport Stream
from vyre_cuda._native.module cimport Module
from vyre_cuda._native.origin cimport Seen
from vyre_cuda._native.plan cimport AnyCall, Plan

cdef enum:
    MOST_PARAMETERS = 128


# One run on the stack, and the buffers that it names: a conversion or another thread may release one meanwhile.
cdef struct Given:
    vyc_run run
    vyc_argument items[MOST_PARAMETERS]
    uint64_t scalars[MOST_PARAMETERS]
    PyObject *held[MOST_PARAMETERS]
    uint32_t held_count


cdef class Launcher:
    cdef readonly Module module
    cdef int _count
    cdef int _kind[MOST_PARAMETERS]
    cdef uint32_t _max_grid[3]
    # The variant used last; replaced as a whole, in a critical section.
    cdef tuple _last
    cdef Seen *_seen  # where the last launch came from

    cdef Plan plan_for(self, object block, uint32_t shared_bytes, bint cooperative, object addresses)
    cdef object fill(self, Given *given, tuple args, object grid, Stream stream)


cdef class LoadedCall(AnyCall):
    cdef Launcher _launcher
    cdef Plan _plan
    cdef object _grid
    cdef object _addresses
