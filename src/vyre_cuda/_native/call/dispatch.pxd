from cpython.object cimport PyObject

from vyre_cuda._native.call.frame cimport Frame, Framer

ctypedef object (*vectorcall)(object, PyObject *const *, size_t, PyObject *)


cdef class Dispatcher(Framer):
    cdef vectorcall _vectorcall

    cdef object call(self, PyObject *const *args, Py_ssize_t n, object out, object grid, object iterations,
                     dict others)
    cdef bint was_left(self, Frame *frame, object grid) except -1
    cdef bint run(self, Frame *frame) except -1
