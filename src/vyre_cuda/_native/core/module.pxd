from vyre_cuda._native.core.c_driver cimport vyc_module
from vyre_cuda._native.core.context cimport Context


cdef class Module:
    cdef vyc_module *_h
    cdef readonly Context context
