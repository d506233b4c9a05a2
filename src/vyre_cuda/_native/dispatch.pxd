from cpython.object cimport PyObject

from vyre_cuda._native.c_api cimport vyc_stream
from vyre_cuda._native.context cimport Context
from vyre_cuda._native.frame cimport Frame, Framer

ctypedef object (*vectorcall)(object, PyObject *const *, size_t, PyObject *)

# Count a launch on a stream (NULL: call order); whether its queue may be full, so that the launch may block.
cdef bint looks_deep(Context context, vyc_stream *stream) noexcept


cdef class Dispatcher(Framer):
    cdef vectorcall _vectorcall

    cdef object call(self, PyObject *const *args, Py_ssize_t n, object out, object grid, object iterations,
                     dict others)
    cdef bint run(self, Frame *frame) except -1
