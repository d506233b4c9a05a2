from cpython.object cimport PyObject

from vyre_cuda._native.call.dispatch cimport Dispatcher, vectorcall


# A parameter that a call takes.
cdef struct Taken:
    PyObject *name
    PyObject *constant  # the value of a const; NULL for others
    PyObject *fallback  # the default of a const, or NULL
    int typenum         # NumPy's number of the type that a TypeVar stands for, or -1


# One program of a kernel function on one device, and the calls that it is for.
cdef class Variant:
    cdef readonly Dispatcher kernel
    cdef readonly object device
    cdef readonly bint is_default   # whether calls without device arrays run on this device
    cdef tuple _parameters  # keeps what `taken` points to
    cdef tuple captures    # (namespace or cell, name, value) each
    cdef Taken *taken
    cdef Py_ssize_t count

    cdef bint is_unchanged(self) except -1
    cdef Py_ssize_t arrange(self, PyObject **given, PyObject *const *args, Py_ssize_t n, tuple keys,
                            Py_ssize_t *consts_named) except -2
    cdef bint suits(self, const Taken *taken, object value, bint *is_resident) except -1


cdef class FunctionDispatcher:
    cdef vectorcall _vectorcall
    cdef tuple _variants   # most recent first; read and written in a critical section
    cdef object __weakref__
