# cython: language_level=3, freethreading_compatible=True
"""Loaded device code."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t
from libc.stdlib cimport free

from vyre_cuda._native.core.c_kernel cimport (
    vyc_module_block_size, vyc_module_link, vyc_module_load, vyc_module_parameter, vyc_module_release,
    vyc_module_resident_blocks,
)
from vyre_cuda._native.core.context cimport Context
from vyre_cuda._native.core.status cimport check

from vyre_cuda.errors import CompileError, UnsupportedError


def is_binary(bytes image not None) -> bool:
    """Whether this is a cubin, a fat binary or an image of the emulator, not PTX text."""
    return image[:4] in (b"\x7fELF", b"\x50\xed\x55\xba", b"\x01vyr")


def link(Context context not None, bytes ptx not None) -> bytes:
    """Link PTX text into an image that the device loads without a compiler. CompileError carries the driver's log."""
    cdef char log[16384]
    cdef const char *data = ptx
    cdef size_t n = len(ptx) + 1
    cdef void *image = NULL
    cdef size_t size = 0
    log[0] = 0
    try:
        with nogil:
            check(vyc_module_link(&image, &size, log, sizeof(log), context._h, data, n))
    except CompileError as error:
        error.log = log.decode("utf-8", "replace")
        error.ptx = ptx.decode("utf-8", "replace")
        raise
    try:
        return PyBytes_FromStringAndSize(<char *>image, <Py_ssize_t>size)
    finally:
        free(image)


cdef class Module:
    """A module made from PTX text or a cubin. CompileError carries the driver's log."""

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
            error.ptx = "" if is_binary(image) else image.decode("utf-8", "replace")
            raise

    def __dealloc__(self):
        with nogil:
            vyc_module_release(self._h)

    def layout(self, str name not None) -> list[tuple[int, int]] | None:
        """(offset, bytes) of each parameter of a kernel as reported by the driver, None if it cannot."""
        cdef bytes encoded = name.encode()
        cdef const char *c_name = encoded
        cdef uint32_t offset = 0
        cdef uint32_t nbytes = 0
        cdef uint32_t index = 0
        found = []
        while True:
            try:
                with nogil:
                    check(vyc_module_parameter(self._h, &offset, &nbytes, c_name, index))
            except UnsupportedError:
                return None
            if nbytes == 0:
                return found
            found.append((offset, nbytes))
            index += 1

    def block_size(self, str name not None, uint32_t shared_bytes, uint32_t limit) -> int:
        """The threads per block, at most `limit`, with which the most threads of a kernel are resident."""
        cdef bytes encoded = name.encode()
        cdef const char *c_name = encoded
        cdef uint32_t threads = 0
        with nogil:
            check(vyc_module_block_size(self._h, &threads, c_name, shared_bytes, limit))
        return threads

    def resident_blocks(self, str name not None, uint32_t threads, uint32_t shared_bytes) -> int:
        """The number of blocks with this many threads that one multiprocessor holds at a time."""
        cdef bytes encoded = name.encode()
        cdef const char *c_name = encoded
        cdef uint32_t blocks = 0
        with nogil:
            check(vyc_module_resident_blocks(self._h, &blocks, c_name, threads, shared_bytes))
        return blocks
