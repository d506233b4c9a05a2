from libc.stdint cimport uint64_t

from vyre_cuda._native.c_api cimport vyc_buffer


cdef class Buffer:
    cdef vyc_buffer *_h


cdef class Span:
    cdef readonly Buffer buffer
    cdef readonly uint64_t offset
    cdef readonly uint64_t count
    cdef readonly int typenum
