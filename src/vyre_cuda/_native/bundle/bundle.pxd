from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.core.c_bundle cimport vyc_bundle


cdef class BundleFile:
    cdef vyc_bundle *_h

    cdef int take(self, uint64_t *c_counts, uint64_t *c_scalars, uint32_t kernel, list counts, list scalars) except -1
