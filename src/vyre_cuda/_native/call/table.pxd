from cpython.bool cimport PyBool_Check
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cimport numpy as cnp

from vyre_cuda._native.call.numbers cimport float_bits, integer_bits

cdef extern from "Python.h":
    PyTypeObject *Py_TYPE(object)


cdef struct Row:
    int32_t role           # VYC_ROLE_...
    int32_t slot           # its number among the buffers or among the scalars
    int32_t typenum        # NumPy's
    int32_t width          # of a scalar: bits, negative when signed; 0: a float; 1: a bool
    uint32_t itemsize      # bytes
    int32_t begin, end     # steps of a declared size; none: the array's own
    int32_t as_of          # the parameter whose size that is; -1: none, or it takes the steps
    int32_t axes           # 0: one
    int32_t extents        # with several: the first of them among the scalars
    PyObject *scalar       # NumPy's scalar type, borrowed from NumPy forever; NULL: it has none of its own


cdef struct Extent:        # one that is declared
    int32_t parameter
    int32_t slot           # among the scalars
    int32_t begin, end     # steps


cdef struct Step:
    int32_t op
    int32_t width          # of what it gives, as in Row
    uint64_t value


cdef inline int bits_of(uint64_t *bits, object value, const Row *row) except -1:
    """1 and the bits of a scalar: exact Python numbers that fit, NumPy scalars of the very type; else 0."""
    if row.scalar != NULL and <PyObject *>Py_TYPE(value) == row.scalar:
        bits[0] = 0
        cnp.PyArray_ScalarAsCtype(value, bits)
        return 1
    if row.width == 0:
        return float_bits(bits, value, row.typenum)
    if row.width == 1:
        bits[0] = value is True
        return PyBool_Check(value)
    return integer_bits(bits, value, row.width)


cdef Row row_of(int typenum, int width, uint32_t itemsize)


cdef class Table:
    cdef readonly bint simple
    cdef uint32_t parameter_count
    cdef uint32_t result_count
    cdef uint32_t binding_count
    cdef uint32_t scalar_count
    cdef uint32_t axes
    cdef uint32_t block[3]
    cdef int32_t work[4]           # steps of axis i: work[i] to work[i + 1]
    cdef int32_t work_of[3]        # the parameter whose size it is; -1: it takes the steps
    cdef uint64_t most_blocks[3]   # per axis: what the device takes, and ids of the index type can number
    cdef uint64_t plain_blocks[3]  # per axis: with more, the general path decides
    cdef uint64_t most_elements    # per buffer
    cdef bint shaped               # arguments have declared sizes, or buffers several axes
    cdef Row *rows                 # one per parameter, when simple
    cdef Extent *extents
    cdef int32_t extent_count
    cdef Step *steps
    cdef uint32_t depth            # maximum number of values that an evaluation keeps

    cdef int32_t leaf_of(self, int32_t begin, int32_t end) noexcept
    # `counts`: one per parameter, followed by room for `depth` values.
    cdef bint evaluate(self, uint64_t *value, int32_t begin, int32_t end, uint64_t *counts,
                       const uint64_t *scalars) noexcept nogil
    cdef bint size_of(self, uint64_t *count, uint32_t parameter, uint64_t *counts,
                      const uint64_t *scalars) noexcept nogil
    cdef bint as_declared(self, uint64_t *counts, uint64_t *scalars, bint with_outs) noexcept nogil
    cdef bint grid_of(self, uint32_t *grid, uint64_t *counts, const uint64_t *scalars) noexcept nogil
    cdef bint given_grid(self, uint32_t *grid, object value)
