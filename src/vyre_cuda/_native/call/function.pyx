# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Calls of a kernel function: the kernel of an earlier call of this kind is found by comparing, without a hash.

What does not compare goes to `_first_call`, which finds or makes the kernel, and reports what is wrong with a call.
"""
cimport cython
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

cimport numpy as cnp

from vyre_cuda._native.call.dispatch cimport Dispatcher
from vyre_cuda._native.memory.memory cimport Span

from vyre_cuda.errors import DeviceUnavailableError

cnp.import_array()

cdef extern from "Python.h":
    ctypedef struct CallableType "PyTypeObject":
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    Py_ssize_t PyVectorcall_NARGS(size_t flagged)
    void PyType_Modified(CallableType *)
    PyObject *PyDict_GetItemWithError(object, object) except? NULL
    object PyObject_GenericGetAttr(object, object)
    bint PyDict_Check(object)
    bint PyFunction_Check(object)
    PyObject *PyFunction_GET_CODE(object)
    PyObject *PyFunction_GET_DEFAULTS(object)
    PyObject *PyFunction_GET_KW_DEFAULTS(object)
    bint PyCell_Check(object)
    PyObject *PyCell_GET(object)
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)

cdef str CODE = "__code__", DEFAULTS = "__defaults__"

# Stands for the value of a parameter that is not a const.
FREE = object()

# Stands for the value of a name that did not exist.
ABSENT = object()
cdef PyObject *absent = <PyObject *>ABSENT

# Arguments of the calls that are compared here; others go to `_first_call` each time.
cdef enum:
    MOST_ARGUMENTS = 64

# Kinds of calls that are remembered here.
MOST_VARIANTS = 4


cdef class Variant:
    def __init__(self, Dispatcher kernel not None, device, bint is_default, tuple parameters not None,
                 tuple captures not None) -> None:
        """`parameters`: (name, value of a const or FREE, default of a const or FREE, NumPy type number that a TypeVar
        stands for or -1) each, of those that a call takes; `captures`: (namespace or cell, name, value or ABSENT)
        each."""
        cdef Py_ssize_t i
        self.kernel = kernel
        self.device = device
        self.is_default = is_default
        self.captures = captures
        self.taken = <Taken *>calloc(len(parameters) + 1, sizeof(Taken))
        if self.taken == NULL:
            raise MemoryError
        self._parameters = parameters
        self.count = len(parameters)
        for i in range(self.count):
            name, constant, fallback, typenum = parameters[i]
            self.taken[i].name = <PyObject *>name
            self.taken[i].constant = NULL if constant is FREE else <PyObject *>constant
            self.taken[i].fallback = NULL if fallback is FREE else <PyObject *>fallback
            self.taken[i].typenum = typenum

    def __dealloc__(self):
        free(self.taken)

    cdef bint is_unchanged(self) except -1:
        """Whether the names that the program was built from have their values. The values are held here, so that equal
        addresses mean the same; what a name has now is not looked into, because another thread may release it."""
        cdef PyObject *row
        cdef PyObject *value
        cdef Py_ssize_t i
        for i in range(PyTuple_GET_SIZE(self.captures)):
            row = PyTuple_GET_ITEM(self.captures, i)
            value = named(<object>PyTuple_GET_ITEM(<object>row, 0), <object>PyTuple_GET_ITEM(<object>row, 1))
            if value == NULL:
                value = absent
            if value != PyTuple_GET_ITEM(<object>row, 2):
                return False
        return True

    cdef bint suits(self, const Taken *taken, object value, bint *is_resident) except -1:
        """Whether this is such an argument: consts are the same, arrays are of this type and device."""
        if taken.constant != NULL:
            return is_same(<PyObject *>value, taken.constant)
        if isinstance(value, Span):
            is_resident[0] = True
            return (<Span>value).device is self.device and taken.typenum in (-1, (<Span>value).typenum)
        return taken.typenum == -1 or (
            cnp.PyArray_CheckExact(value) and cnp.PyArray_TYPE(<cnp.ndarray>value) == taken.typenum)

    cdef Py_ssize_t arrange(self, PyObject **given, PyObject *const *args, Py_ssize_t n, tuple keys,
                            Py_ssize_t *consts_named) except -2:
        """The arguments that the kernel takes, and how many; -1 if the call is of another kind. Behind those given by
        position there are only consts, by name or by default."""
        cdef Py_ssize_t i, k, used = 0
        cdef bint is_resident = False
        cdef const Taken *taken
        cdef PyObject *value
        if n > self.count or self.count > MOST_ARGUMENTS:
            return -1
        for i in range(self.count):
            taken = &self.taken[i]
            if i < n:
                if not self.suits(taken, <object>args[i], &is_resident):
                    return -1
                if taken.constant == NULL:
                    given[used] = args[i]
                    used += 1
                continue
            value = taken.fallback
            for k in range(PyTuple_GET_SIZE(keys)):
                if PyTuple_GET_ITEM(keys, k) == taken.name:
                    value = args[n + k]
                    consts_named[0] += 1
            if taken.constant == NULL or not is_same(value, taken.constant):
                return -1
        return used if is_resident or self.is_default else -1


cdef bint is_same(PyObject *value, PyObject *known) except -1:
    """Whether it is the same object, or the same number of the same type; 0.0 and -0.0 differ."""
    cdef double a, b
    cdef long long i, k
    cdef int wide = 0
    if value == known or value == NULL:
        return value == known
    if PyFloat_CheckExact(<object>value) and PyFloat_CheckExact(<object>known):
        a, b = PyFloat_AS_DOUBLE(<object>value), PyFloat_AS_DOUBLE(<object>known)
        return memcmp(&a, &b, sizeof(a)) == 0
    if PyLong_CheckExact(<object>value) and PyLong_CheckExact(<object>known):
        i = PyLong_AsLongLongAndOverflow(<object>value, &wide)
        if wide != 0:
            return False
        k = PyLong_AsLongLongAndOverflow(<object>known, &wide)
        return wide == 0 and i == k
    return False


cdef PyObject *named(object container, object name) except? NULL:
    """What a cell, a name of a namespace, or an attribute of a function or of an object with slots has now."""
    if PyCell_Check(container):
        return PyCell_GET(container)
    if PyDict_Check(container):
        return PyDict_GetItemWithError(container, name)
    if PyFunction_Check(container):
        if name is CODE:
            return PyFunction_GET_CODE(container)
        return PyFunction_GET_DEFAULTS(container) if name is DEFAULTS else PyFunction_GET_KW_DEFAULTS(container)
    try:
        held = PyObject_GenericGetAttr(container, name)
    except AttributeError:
        return NULL
    return <PyObject *>held


cdef class FunctionDispatcher:
    """Calls of one kernel function. Subclasses supply `_first_call`, and `_has_new_default`: whether the device of this
    variant was the default one, and is closed."""

    def __cinit__(self):
        self._vectorcall = call_function
        self._variants = ()

    def __call__(self, *args, **kwargs):
        return self._first_call(args, kwargs)

    def _remember(self, Variant variant not None) -> None:
        """Take this variant for calls of its kind."""
        with cython.critical_section(self):
            self._variants = (variant, *self._variants[:MOST_VARIANTS - 1])


cdef object call_function(object self, PyObject *const *args, size_t flagged, PyObject *names):
    """`FunctionDispatcher.__call__` with the interpreter's vectorcall: no tuple and no dict per call."""
    cdef Py_ssize_t i, used, options = 0, consts = 0, n = PyVectorcall_NARGS(flagged)
    cdef object out = None, grid = None, iterations = 1, key
    cdef tuple variants, keys = () if names == NULL else <tuple>names
    cdef PyObject *given[MOST_ARGUMENTS]
    cdef Variant variant
    with cython.critical_section(self):
        variants = (<FunctionDispatcher>self)._variants
    for i in range(PyTuple_GET_SIZE(keys)):
        key = <object>PyTuple_GET_ITEM(keys, i)
        if key == "out":
            out = <object>args[n + i]
        elif key == "grid":
            grid = <object>args[n + i]
        elif key == "iterations":
            iterations = <object>args[n + i]
        else:
            continue
        options += 1
    for i in range(PyTuple_GET_SIZE(variants)):
        variant = <Variant>PyTuple_GET_ITEM(variants, i)
        consts = 0
        used = variant.arrange(given, args, n, keys, &consts)
        if used >= 0 and options + consts == PyTuple_GET_SIZE(keys) and variant.is_unchanged():
            try:
                return variant.kernel.call(given, used, out, grid, iterations, None)
            except DeviceUnavailableError:
                if not self._has_new_default(variant):
                    raise
                with cython.critical_section(self):
                    (<FunctionDispatcher>self)._variants = ()
                break
    return self._first_call(tuple([<object>args[i] for i in range(n)]),
                            {<object>keys[i]: <object>args[n + i] for i in range(len(keys))})


def call_by_vector(type kind not None) -> type:
    """Let the interpreter call instances of a class that has `FunctionDispatcher.__call__` by way of `call_function`.

    Before Python 3.12 a class does not inherit that from its base. A decorator; TypeError for another class."""
    if not issubclass(kind, FunctionDispatcher) or kind.__call__ is not FunctionDispatcher.__call__:
        raise TypeError(f"{kind.__name__} has a __call__ of its own")
    cdef FunctionDispatcher probe = FunctionDispatcher.__new__(FunctionDispatcher)
    cdef CallableType *c = <CallableType *>kind
    c.tp_vectorcall_offset = <char *>&probe._vectorcall - <char *><void *>probe
    c.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(c)
    return kind


call_by_vector(FunctionDispatcher)
