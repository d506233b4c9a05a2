from vyre_cuda._native.bundle.c_bundle cimport vyc_bundle


cdef class BundleFile:
    cdef vyc_bundle *_h
