from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from vyre_cuda._native.call.table cimport Row
from vyre_cuda._native.core.c_graph cimport vyc_symbol_value


cdef class Slot:
    cdef readonly uint32_t number  # of the symbol in the C layer's graph
    cdef readonly bint is_array
    cdef Row row
    cdef object last  # the array of the launch in flight
    cdef Slot following  # of another type

    cdef int take(self, vyc_symbol_value *to, PyObject **held, object value) except -1
