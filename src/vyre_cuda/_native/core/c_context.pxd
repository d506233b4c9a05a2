# vyre_cuda/context.h for Cython: what the extensions use of it.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_context, vyc_driver, vyc_stream
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/context.h" nogil:
    ctypedef struct vyc_caps:
        uint32_t struct_size
        int32_t ordinal
        int32_t compute_capability_major
        int32_t compute_capability_minor
        int32_t driver_version
        int32_t is_emulator
        uint64_t total_memory
        uint8_t uuid[16]
        char name[256]

    vyc_status vyc_caps_field(const char **name_out, size_t *offset_out, uint32_t index)
    vyc_status vyc_context_open(vyc_context **context_out, vyc_driver *driver, int32_t ordinal)
    vyc_status vyc_context_caps(vyc_context *context, vyc_caps *caps_out)
    vyc_status vyc_context_synchronize(vyc_context *context)
    vyc_status vyc_context_is_behind(vyc_context *context, vyc_stream *stream)
    vyc_status vyc_context_synchronize_for(vyc_context *context, int64_t timeout_ns)
    vyc_status vyc_context_close(vyc_context *context)
    vyc_status vyc_context_close_for(vyc_context *context, int64_t timeout_ns)
    vyc_status vyc_context_set_patience(vyc_context *context, int64_t patience_ns)
    void vyc_context_release(vyc_context *context)
    vyc_status vyc_context_stream(vyc_context *context, uint64_t *handle_out)

    ctypedef struct vyc_memory_stats:
        uint32_t struct_size
        uint64_t live_bytes
        uint64_t idle_bytes
        uint64_t peak_bytes
        uint64_t live_count
        uint64_t hits
        uint64_t misses
        uint64_t pinned_live_bytes
        uint64_t pinned_idle_bytes
        uint64_t pinned_peak_bytes
        uint64_t pinned_live_count
        uint64_t pinned_hits
        uint64_t pinned_misses
        uint64_t frees
        uint64_t pinned_frees
        uint64_t budget_bytes
        uint64_t pinned_budget_bytes

    vyc_status vyc_context_memory_stats(vyc_context *context, vyc_memory_stats *stats_out)
    vyc_status vyc_context_supports(vyc_context *context, const char *capability)
    vyc_status vyc_context_trim(vyc_context *context)
    vyc_status vyc_context_set_memory_budget(vyc_context *context, uint64_t nbytes, uint64_t pinned_bytes)
    vyc_status vyc_context_enable_peer(vyc_context *context, vyc_context *other)
    vyc_status vyc_context_can_access_peer(vyc_context *context, int32_t ordinal, uint32_t *access_out)
