from libc.stdint cimport int64_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_call, vyc_prepared, vyc_ticket
from vyre_cuda._native.core.c_kernel cimport vyc_argument, vyc_run
from vyre_cuda._native.core.c_status cimport vyc_status
from vyre_cuda._native.core.context cimport Context, Stream
from vyre_cuda._native.trace.origin cimport Seen


cdef class PreparedKernel:
    cdef vyc_prepared *_h
    cdef readonly Context context
    cdef readonly uint32_t binding_count
    cdef readonly uint32_t scalar_count
    cdef bint _has_several
    cdef Seen *_seen  # where the last general call came from


cdef class Arguments:
    cdef vyc_run run
    cdef vyc_argument *items
    cdef uint64_t *scalars
    cdef list keep


# What bound launches of both kinds of kernels have in common.
cdef class AnyCall:
    cdef vyc_call *_h
    cdef Stream _on
    cdef Seen *_seen  # where the last launch came from
    cdef tuple _values  # read and written in a critical section

    cdef int set_values(self, vyc_run *run, tuple values) except -1


# Arguments around a copy of a run; the caller fills in `keep`.
cdef Arguments copy_run(const vyc_run *run)

cdef int finish_run(PreparedKernel prepared, vyc_status status, vyc_ticket *ticket, vyc_run *run,
                    int64_t left_ns=*) except -1
cdef int submit_run(PreparedKernel prepared, vyc_ticket **ticket_out, vyc_run *run) except -1
