"""The bits of exact Python numbers, in the modules that fill runs: a call for each number would cost as much again."""
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong, PyLong_CheckExact
from libc.math cimport isinf
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

cimport numpy as cnp

cdef extern from "bundle/expression.h":
    uint64_t fit "vyc__host_fit"(uint64_t value, int32_t width) noexcept nogil


cdef enum:
    EXACT_BITS = 53  # an int of so many is exactly a double, and so becomes a float with one rounding


# Each gives 1 and the bits of a number that fits, 0 if the general path must decide. Widths are those of a Row.

cdef inline int integer_bits(uint64_t *bits, object value, int32_t width) except -1:
    cdef int overflow = 0
    cdef long long integer
    if not PyLong_CheckExact(value):
        return 0
    integer = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow != 0:
        if overflow < 0 or width != 64:
            return 0
        try:
            bits[0] = PyLong_AsUnsignedLongLong(value)
        except OverflowError:
            return 0
        return 1
    if width > 0 and integer < 0 or fit(<uint64_t>integer, width) != <uint64_t>integer:
        return 0
    bits[0] = fit(<uint64_t>integer, -width if width < 0 else width)
    return 1


cdef inline int real_bits(uint64_t *bits, double real, int typenum) noexcept nogil:
    cdef float single
    bits[0] = 0
    if typenum == cnp.NPY_FLOAT64:
        memcpy(bits, &real, sizeof(real))
        return 1
    if typenum != cnp.NPY_FLOAT32:
        return 0
    single = <float>real
    if isinf(single) and not isinf(real):
        return 0
    memcpy(bits, &single, sizeof(single))
    return 1


cdef inline int float_bits_of_int(uint64_t *bits, object value, int typenum) except -1:
    cdef int overflow = 0
    cdef long long integer
    cdef int64_t exact = <int64_t>1 << EXACT_BITS
    if not PyLong_CheckExact(value):
        return 0
    integer = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow != 0 or integer > exact or integer < -exact:
        return 0
    return real_bits(bits, <double>integer, typenum)


cdef inline int float_bits(uint64_t *bits, object value, int typenum) except -1:
    if PyFloat_CheckExact(value):
        return real_bits(bits, PyFloat_AS_DOUBLE(value), typenum)
    return float_bits_of_int(bits, value, typenum)
