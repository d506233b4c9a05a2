cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t

cimport numpy as cnp

from vyre_cuda._native.core.c_driver cimport vyc_buffer, vyc_pinned
from vyre_cuda._native.core.c_memory cimport vyc_transfer
from vyre_cuda._native.core.context cimport Context


cdef class Buffer:
    cdef vyc_buffer *_h


cdef class Transfers:
    cdef Context context
    cdef list keep
    cdef vyc_transfer *items

    cdef int wait(self, bint download) except -1


cdef class Span:
    cdef Buffer _buffer  # read and written in a critical section: another thread may release it
    cdef readonly uint64_t offset
    cdef readonly uint64_t count
    cdef readonly int typenum
    cdef readonly object device
    cdef readonly cnp.dtype dtype
    cdef tuple _shape  # None with one axis
    cdef object __weakref__


cdef inline Buffer buffer_of(Span span):
    """None once released. A caller that has it keeps it, whatever other threads release."""
    cdef Buffer buffer
    with cython.critical_section(span):
        buffer = span._buffer
    return buffer


cdef inline PyObject *new_reference(Span span) noexcept:
    """The same as a reference that the caller must release; NULL once released."""
    cdef PyObject *buffer
    with cython.critical_section(span):
        buffer = <PyObject *>span._buffer
        if span._buffer is None:
            buffer = NULL
        else:
            Py_INCREF(span._buffer)
    return buffer


cdef struct Row:
    PyObject *type
    PyObject *dtype
    uint64_t itemsize


cdef class Allocator:
    cdef readonly Context context
    cdef type _array
    cdef tuple _rows  # keeps what _table points to
    cdef Row _table[16]
    cdef Py_ssize_t _types

    cdef Span span(self, object n, object type)


cdef class Pinned:
    cdef vyc_pinned *_h
    cdef readonly Context context
    cdef readonly object owner


# The page-locked memory that an array is a view of, or None, found through its bases: at most two for slices of slices.
cdef Pinned pinned_of(cnp.ndarray array)

# `count` elements of page-locked memory, by NumPy's type number.
cdef object pinned_empty_of(Context context, cnp.npy_intp count, int typenum)
