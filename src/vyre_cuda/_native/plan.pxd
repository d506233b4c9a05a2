from libc.stdint cimport int32_t, uint32_t, uint64_t

from vyre_cuda._native.c_api cimport vyc_argument, vyc_call, vyc_plan, vyc_run, vyc_ticket
from vyre_cuda._native.context cimport Stream
from vyre_cuda._native.module cimport Module

# More bindings or scalars than this take the general path.
cdef enum:
    FAST = 16


cdef class Plan:
    cdef vyc_plan *_h
    cdef readonly uint32_t binding_count
    cdef readonly uint32_t scalar_count


cdef class Ticket:
    cdef vyc_ticket *_h
    cdef object _keep


cdef class Arguments:
    cdef vyc_run run
    cdef vyc_argument *items
    cdef uint64_t *scalars
    cdef list keep


cdef class Dispatcher:
    cdef Plan _plan
    cdef bint _simple
    cdef uint32_t _parameters
    cdef uint32_t _block
    cdef int32_t _work
    cdef uint32_t _results
    # Per parameter in declared order.
    cdef int32_t _role[2 * FAST]
    cdef int32_t _slot[2 * FAST]
    cdef int32_t _typenum[2 * FAST]
    cdef int32_t _size_of[2 * FAST]
    cdef uint64_t _size[2 * FAST]

    cdef object prepare(self, tuple args, object out, vyc_argument *items, uint64_t *scalars, vyc_run *run)
    cdef int prepare_launch(self, tuple args, vyc_argument *items, uint64_t *scalars, vyc_run *run) except -1
    cdef bint fits(self, vyc_argument *items, uint32_t i)


cdef class Call:
    cdef vyc_call *_h
    cdef Dispatcher _dispatcher
    cdef Stream _on
    cdef bint _plain
    cdef readonly tuple values
