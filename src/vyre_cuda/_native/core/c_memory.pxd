# vyre_cuda/memory.h for Cython: what the extensions use of it.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_buffer, vyc_context, vyc_pinned, vyc_stream
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/memory.h" nogil:
    vyc_status vyc_buffer_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t nbytes)
    vyc_status vyc_buffer_export(vyc_buffer *buffer)
    void vyc_buffer_release(vyc_buffer *buffer)
    vyc_status vyc_buffer_try_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t nbytes)
    vyc_status vyc_buffer_try_release(vyc_buffer *buffer)
    vyc_status vyc_buffer_address(vyc_buffer *buffer, uint64_t *address_out)
    vyc_status vyc_buffer_synchronize_for(vyc_buffer *buffer, uint32_t host, int64_t timeout_ns)
    vyc_status vyc_buffer_order(vyc_buffer *buffer, vyc_stream *stream)

    enum:
        VYC_FOREIGN_READ_ONLY

    ctypedef struct vyc_foreign_memory:
        uint32_t struct_size
        uint32_t flags
        uint64_t address
        uint64_t nbytes "bytes"
        vyc_stream *source
        void (*drop)(void *owner) noexcept
        void *owner

    vyc_status vyc_buffer_adopt(vyc_buffer **buffer_out, vyc_context *context, const vyc_foreign_memory *memory)
    vyc_status vyc_buffer_is_read_only(vyc_buffer *buffer, uint32_t *read_only_out)

    enum:
        VYC_TRY_BYTES

    vyc_status vyc_copy_try_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t nbytes, int64_t timeout_ns)
    vyc_status vyc_copy_try_out(vyc_buffer *source, uint64_t offset, void *data_out, uint64_t nbytes,
                                int64_t timeout_ns)
    vyc_status vyc_buffer_adopt_peer(vyc_buffer **buffer_out, vyc_context *context, vyc_buffer *of)
    vyc_status vyc_copy(vyc_buffer *to, uint64_t to_offset, vyc_buffer *source, uint64_t from_offset, uint64_t nbytes)
    vyc_status vyc_fill(vyc_buffer *to, uint64_t offset, uint32_t value, uint32_t element_bytes, uint64_t nbytes)
    vyc_status vyc_stream_copy_in(vyc_stream *stream, vyc_buffer *to, uint64_t to_offset, vyc_pinned *from_,
                                  uint64_t from_offset, uint64_t nbytes)
    vyc_status vyc_stream_copy_out(vyc_stream *stream, vyc_pinned *to, uint64_t to_offset, vyc_buffer *from_,
                                   uint64_t from_offset, uint64_t nbytes)
    vyc_status vyc_stream_copy(vyc_stream *stream, vyc_buffer *to, uint64_t to_offset, vyc_buffer *from_,
                               uint64_t from_offset, uint64_t nbytes)
    vyc_status vyc_stream_fill(vyc_stream *stream, vyc_buffer *to, uint64_t offset, uint32_t value,
                               uint32_t element_bytes, uint64_t nbytes)
    vyc_status vyc_fill_zero(vyc_buffer *to, uint64_t offset, uint64_t nbytes)

    ctypedef struct vyc_transfer:
        vyc_buffer *buffer
        uint64_t offset
        uint64_t bytes
        const void *data
        void *result
        vyc_pinned *pinned

    vyc_status vyc_upload(vyc_context *context, const vyc_transfer *items, uint32_t count)
    vyc_status vyc_download(vyc_context *context, const vyc_transfer *items, uint32_t count)
    vyc_status vyc_pinned_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t nbytes)
    vyc_status vyc_pinned_try_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t nbytes)
    vyc_status vyc_pinned_register(vyc_pinned **pinned_out, vyc_context *context, void *data, uint64_t nbytes)
    void vyc_pinned_release(vyc_pinned *pinned)
    vyc_status vyc_pinned_data(vyc_pinned *pinned, void **data_out)
