from libc.stdint cimport uint64_t

cimport numpy as cnp

from vyre_cuda._native.c_api cimport vyc_buffer, vyc_pinned
from vyre_cuda._native.context cimport Context


cdef class Buffer:
    cdef vyc_buffer *_h


cdef class Span:
    cdef readonly Buffer buffer
    cdef readonly uint64_t offset
    cdef readonly uint64_t count
    cdef readonly int typenum


cdef class Pinned:
    cdef vyc_pinned *_h
    cdef readonly Context context
    cdef readonly object owner


# The page-locked memory that an array is a view of, or None: a look at its bases, two at most for slices of slices.
cdef Pinned pinned_of(cnp.ndarray array)

# `count` elements of page-locked memory, by NumPy's type number.
cdef object pinned_empty_of(Context context, cnp.npy_intp count, int typenum)
