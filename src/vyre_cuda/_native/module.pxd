from vyre_cuda._native.c_api cimport vyc_module


cdef class Module:
    cdef vyc_module *_h
