from libc.stdint cimport int64_t

from vyre_cuda._native.core.c_status cimport vyc_status

# One poll or wait of at most this many nanoseconds: VYC_OK, VYC_NOT_READY or a failure.
ctypedef vyc_status (*wait_function)(void *what, int64_t timeout_ns) noexcept nogil

# How long to wait with the GIL, in ns: releasing it around a few microseconds costs far more where another thread
# computes.
cdef enum:
    HELD_NS = 50000

# How long a wait may last without checking Python's signals.
cdef enum:
    SLICE_NS = 50000000

cdef inline int64_t slice_of(int64_t left_ns) noexcept nogil:
    return SLICE_NS if left_ns < 0 or left_ns > SLICE_NS else left_ns

cdef int64_t nanoseconds(object timeout) except? -2
cdef int check_signals() except -1
cdef bint wait_in_slices(wait_function wait, void *what, int64_t timeout_ns) except -1
