# cython: language_level=3, freethreading_compatible=True
"""Device buffers and typed spans of them."""
from libc.stdint cimport uint64_t

from vyre_cuda._native.c_api cimport (
    vyc_buffer_address, vyc_buffer_alloc, vyc_buffer_release, vyc_copy, vyc_copy_in, vyc_copy_out, vyc_fill_zero,
)
from vyre_cuda._native.context cimport Context
from vyre_cuda._native.status cimport check


cdef class Buffer:
    """Untyped device memory; offsets and lengths in bytes."""

    def __init__(self, Context context not None, uint64_t nbytes) -> None:
        with nogil:
            check(vyc_buffer_alloc(&self._h, context._h, nbytes))

    def __dealloc__(self):
        with nogil:
            vyc_buffer_release(self._h)

    @property
    def address(self) -> int:
        cdef uint64_t address = 0
        check(vyc_buffer_address(self._h, &address))
        return address

    def copy_in(self, uint64_t offset, const unsigned char[::1] data) -> None:
        cdef uint64_t n = data.shape[0]
        cdef const unsigned char *source = &data[0] if n else NULL
        with nogil:
            check(vyc_copy_in(self._h, offset, source, n))

    def copy_out(self, uint64_t offset, unsigned char[::1] data) -> None:
        cdef uint64_t n = data.shape[0]
        cdef unsigned char *target = &data[0] if n else NULL
        with nogil:
            check(vyc_copy_out(self._h, offset, target, n))

    def copy_from(self, uint64_t offset, Buffer source not None, uint64_t source_offset, uint64_t nbytes) -> None:
        with nogil:
            check(vyc_copy(self._h, offset, source._h, source_offset, nbytes))

    def fill_zero(self, uint64_t offset, uint64_t nbytes) -> None:
        with nogil:
            check(vyc_fill_zero(self._h, offset, nbytes))


cdef class Span:
    """`count` elements of a NumPy type number from byte `offset` of a buffer; `buffer` is None once released."""

    def __init__(self, Buffer buffer not None, uint64_t offset, uint64_t count, int typenum) -> None:
        self.buffer = buffer
        self.offset = offset
        self.count = count
        self.typenum = typenum

    def release(self) -> None:
        self.buffer = None
