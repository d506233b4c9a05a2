from libc.stdint cimport int64_t

from vyre_cuda._native.core.c_driver cimport vyc_ticket


cdef class Ticket:
    cdef vyc_ticket *_h
    cdef object _keep


cdef bint ticket_wait(vyc_ticket *ticket, int64_t timeout_ns) except -1
