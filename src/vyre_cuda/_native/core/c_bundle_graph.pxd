# vyre_cuda/bundle_graph.h for Cython.
from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.core.c_bundle cimport vyc_bundle
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/bundle_graph.h" nogil:
    ctypedef struct vyc_bundle_graph:
        uint32_t struct_size
        uint32_t symbol_count
        const char *name
        uint32_t step_count
        uint32_t array_count
        uint32_t condition_count

    vyc_status vyc_bundle_graph_get(vyc_bundle *bundle, vyc_bundle_graph *graph_out, uint32_t index)

    ctypedef struct vyc_bundle_symbol:
        uint32_t struct_size
        uint32_t kind
        const char *name
        uint32_t type
        uint32_t element_bytes
        uint32_t flags
        uint32_t array
        uint64_t value
        uint64_t count

    vyc_status vyc_bundle_symbol_get(vyc_bundle *bundle, vyc_bundle_symbol *symbol_out, uint32_t graph, uint32_t index)

    ctypedef struct vyc_bundle_array:
        uint32_t struct_size
        uint64_t bytes
        const void *contents

    vyc_status vyc_bundle_array_get(vyc_bundle *bundle, vyc_bundle_array *array_out, uint32_t graph, uint32_t index)

    ctypedef struct vyc_bundle_value:
        uint32_t kind
        uint32_t index
        uint64_t value
        uint64_t count

    ctypedef struct vyc_bundle_step:
        uint32_t struct_size
        uint32_t kind
        uint32_t kernel
        uint32_t type
        uint32_t grid[3]
        uint32_t value_count
        uint64_t times
        const vyc_bundle_value *values

    vyc_status vyc_bundle_step_get(vyc_bundle *bundle, vyc_bundle_step *step_out, uint32_t graph, uint32_t index)

    ctypedef struct vyc_bundle_condition:
        uint32_t struct_size
        uint32_t symbol
        uint32_t memory
        uint64_t value
        uint64_t count

    vyc_status vyc_bundle_condition_get(vyc_bundle *bundle, vyc_bundle_condition *condition_out, uint32_t graph,
                                        uint32_t index)
