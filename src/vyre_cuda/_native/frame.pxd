from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
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
    PyObject *held[16]             # references to buffers, which let_go gives back
    uint32_t held_count


# Buffers of launches are held where another thread could release one before the C layer has it: with a GIL none can.
cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define VYC_FREE_THREADED 1
    #else
    #define VYC_FREE_THREADED 0
    #endif
    """
    const bint FREE_THREADED "VYC_FREE_THREADED"


cdef inline void let_go(Frame *frame) noexcept:
    """Give back what the frame holds, once the C layer has its own references or nobody will read the frame."""
    cdef PyObject *buffer
    while frame.held_count != 0:
        frame.held_count -= 1
        buffer = frame.held[frame.held_count]
        Py_DECREF(<object>buffer)


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
