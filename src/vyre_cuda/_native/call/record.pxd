from libc.stdint cimport int32_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_kernel cimport vyc_argument, vyc_run
from vyre_cuda._native.call.prepared cimport PreparedKernel
from vyre_cuda._native.trace.origin cimport Seen


cdef class Recorded:
    cdef PreparedKernel _prepared
    cdef Seen *_seen  # where the last replay came from
    cdef vyc_run _run
    cdef vyc_argument *_items
    cdef uint64_t *_scalars
    cdef uint64_t *_contents  # of each binding, a number that no other bytes of it have had
    cdef list _inputs
    cdef list _outputs
    cdef object _lock
    cdef bint _skips
    cdef bint _sized
    cdef tuple _known  # (number, bits) of the scalars that the kernel was compiled for
    cdef bint _fresh
    cdef uint64_t _skipped
    cdef uint32_t _count
    cdef Py_ssize_t _result  # the binding of the one result; -1 when there are several
    # Per argument in declared order: its number among the bindings or, after a minus and from -1 on, the scalars.
    cdef int32_t *_slot
    cdef int32_t *_typenum

    cdef bint takes(self, object out)
    cdef int take(self, uint32_t i, object value) except -1
    cdef int take_array(self, uint32_t i, int32_t slot, object value) except -1
    cdef int wait(self) except -1
    cdef int point(self) except -1
    cdef object deliver(self, object out)
