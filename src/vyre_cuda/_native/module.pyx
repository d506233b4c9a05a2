# cython: language_level=3, freethreading_compatible=True
"""Loaded device code."""
from vyre_cuda._native.c_api cimport vyc_module_load, vyc_module_release
from vyre_cuda._native.context cimport Context
from vyre_cuda._native.status cimport check

from vyre_cuda.errors import CompileError


cdef class Module:
    """A module made of PTX text or a cubin. CompileError carries the driver's log."""

    def __init__(self, Context context not None, bytes image not None) -> None:
        cdef char log[16384]
        cdef const char *data = image
        cdef size_t n = len(image) + 1
        log[0] = 0
        self.context = context
        try:
            with nogil:
                check(vyc_module_load(&self._h, log, sizeof(log), context._h, data, n))
        except CompileError as error:
            error.log = log.decode("utf-8", "replace")
            error.ptx = image.decode("utf-8", "replace")
            raise

    def __dealloc__(self):
        with nogil:
            vyc_module_release(self._h)
