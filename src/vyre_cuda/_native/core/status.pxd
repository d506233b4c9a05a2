from vyre_cuda._native.core.c_status cimport vyc_status

cdef int check(vyc_status status) except -1 nogil
