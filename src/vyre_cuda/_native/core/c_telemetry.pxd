# vyre_cuda/telemetry.h for Cython: what the extensions use of it.
from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_context
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/telemetry.h" nogil:
    vyc_status vyc_stats_row(const char **name_out, const char **help_out, uint32_t *kind_out, uint32_t row)
    vyc_status vyc_context_stats(vyc_context *context, uint64_t *values_out, uint32_t count)
    vyc_status vyc_context_reset_stats(vyc_context *context)
    vyc_status vyc_context_measure(vyc_context *context, uint64_t *ns_out, uint32_t count, uint32_t what,
                                   uint64_t nbytes)
    vyc_status vyc_context_in_flight(vyc_context *context, char *text_out, size_t nbytes, uint32_t *count_out)
    vyc_status vyc_context_trace(vyc_context *context, const char *text)
    vyc_status vyc_origin_add(uint32_t *origin_out, const char *text)
    vyc_status vyc_context_count(vyc_context *context, uint32_t row, uint64_t n)
