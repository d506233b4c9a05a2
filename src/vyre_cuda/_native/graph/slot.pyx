# cython: language_level=3, freethreading_compatible=True
"""Symbols of a graph that the C layer sets in all of their steps: how a Python value becomes the value of one.

A value that is not plain is declined, for the path that converts and explains.
"""
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

cimport numpy as cnp

from vyre_cuda._native.call.table cimport bits_of, row_of
from vyre_cuda._native.core.c_graph cimport vyc_symbol_value
from vyre_cuda._native.memory.memory cimport Buffer, Span, new_reference

cnp.import_array()


cdef class Slot:
    """A symbol for scalars or arrays of one type; `following` is one of the same name for another type."""

    def __init__(self, uint32_t number, bint is_array, int typenum, int width, uint32_t itemsize,
                 Slot following) -> None:
        self.number = number
        self.is_array = is_array
        self.row = row_of(typenum, width, itemsize)
        self.following = following

    cdef int take(self, vyc_symbol_value *to, PyObject **held, object value) except -1:
        """Whether the value is plain; `held` is then a reference that the caller must release, or NULL."""
        cdef uint64_t bits = 0
        cdef Span span
        memset(to, 0, sizeof(vyc_symbol_value))
        to.symbol = self.number
        held[0] = NULL
        if not self.is_array:
            if not bits_of(&bits, value, &self.row):
                return 0
            to.bits = bits
            return 1
        if not isinstance(value, Span):
            return 0
        span = <Span>value
        if span.typenum != self.row.typenum or span._shape is not None:
            return 0
        held[0] = new_reference(span)
        if held[0] == NULL:
            return 0
        to.buffer = (<Buffer>held[0])._h
        to.offset = span.offset
        to.count = span.count
        return 1
