from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.c_api cimport vyc_argument, vyc_run
from vyre_cuda._native.plan cimport Plan
from vyre_cuda._native.origin cimport Seen
from vyre_cuda._native.table cimport Table


# One run on the stack: what the structs point to, and the bytes that will be copied on the host.
cdef struct Frame:
    vyc_run run
    vyc_argument items[16]         # FAST of table.pxd
    uint64_t scalars[16]
    uint64_t counts[32]            # per parameter; PARAMETERS of table.pxd
    uint64_t staged                # bytes
    bint mixed                     # has device arrays


cdef class Framer(Table):
    cdef Plan _plan
    cdef Seen *_seen  # where the last call came from

    cdef object prepare(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object out, object grid)
    cdef bint take(self, Frame *frame, uint32_t parameter, object value) except -1
    cdef void finish(self, Frame *frame)
    cdef object results_of(self, Frame *frame, object out)
    cdef bint apart(self, Frame *frame, uint32_t given)
    cdef object give(self, Frame *frame, uint32_t parameter, object target)
    cdef bint prepare_launch(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object grid) except -1
