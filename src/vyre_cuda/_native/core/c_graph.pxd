# vyre_cuda/graph.h for Cython: what the extensions use of it.
from libc.stdint cimport uint32_t, uint64_t, uint8_t

from vyre_cuda._native.core.c_driver cimport (
    vyc_buffer, vyc_context, vyc_event, vyc_graph, vyc_pinned, vyc_prepared, vyc_stream,
)
from vyre_cuda._native.core.c_kernel cimport vyc_rows, vyc_run
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/graph.h" nogil:
    ctypedef struct vyc_graph_transfer:
        uint32_t struct_size
        uint32_t element_bytes
        uint32_t value
        uint64_t bytes
        vyc_buffer *to
        uint64_t to_offset
        void *to_host
        vyc_buffer *from_ "from"
        uint64_t from_offset
        const void *from_host
        vyc_pinned *pinned

    ctypedef struct vyc_graph_change:
        uint32_t step
        const vyc_run *run
        const vyc_graph_transfer *transfer

    enum:
        VYC_SYMBOL_ARRAY
        VYC_SYMBOL_SCALAR

    ctypedef struct vyc_graph_use:
        uint32_t step
        uint32_t place

    ctypedef struct vyc_graph_symbol:
        uint32_t struct_size
        uint32_t kind
        const char *name
        uint32_t element_bytes
        uint32_t use_count
        const vyc_graph_use *uses

    ctypedef struct vyc_symbol_value:
        uint32_t symbol
        uint32_t reserved
        uint64_t bits
        vyc_buffer *buffer
        uint64_t offset
        uint64_t count

    ctypedef struct vyc_graph_info:
        uint32_t struct_size
        uint32_t step_count
        uint32_t node_count
        uint32_t edge_count
        uint32_t in_order
        uint32_t ran_last

    enum:
        VYC_NODE_KERNEL
        VYC_NODE_COPY
        VYC_NODE_FILL
        VYC_NODE_CLEAR
        VYC_NODE_LOOP
        VYC_NODE_CONTROL
        VYC_NODE_COLLECTIVE

    ctypedef struct vyc_graph_node:
        uint32_t struct_size
        uint32_t kind
        uint32_t step
        uint32_t parent

    vyc_status vyc_graph_create(vyc_graph **graph_out, vyc_context *context)
    void vyc_graph_release(vyc_graph *graph)
    vyc_status vyc_graph_add_launch(vyc_graph *graph, uint32_t *step_out, vyc_prepared *prepared, const vyc_run *run)
    vyc_status vyc_graph_add_rows(
        vyc_graph *graph, uint32_t *step_out, vyc_prepared *prepared, vyc_prepared *many, const vyc_rows *rows)
    vyc_status vyc_graph_add_tables_with(
        vyc_graph *graph, uint32_t *step_out, vyc_prepared *entry, uint32_t count, vyc_prepared *const *prepared,
        const vyc_rows *const *rows, const uint8_t *const *places)
    vyc_status vyc_graph_add_transfer(vyc_graph *graph, uint32_t *step_out, const vyc_graph_transfer *transfer)
    vyc_status vyc_graph_repeat_begin(vyc_graph *graph, uint32_t *step_out, uint64_t times, vyc_buffer *until,
                                      uint64_t until_offset, uint32_t until_bytes)
    vyc_status vyc_graph_repeat_end(vyc_graph *graph)
    vyc_status vyc_graph_finish(vyc_graph *graph)
    vyc_status vyc_graph_update(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count)
    vyc_status vyc_graph_launch_at(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                                   vyc_stream *stream, uint32_t origin)
    vyc_status vyc_graph_launch_between(vyc_graph *graph, vyc_event **start_out, vyc_event **stop_out,
                                        const vyc_graph_change *changes, uint32_t count, vyc_stream *stream,
                                        uint32_t origin)

    ctypedef struct vyc_graph_part:
        uint32_t struct_size
        uint32_t change_count
        vyc_graph *graph
        const vyc_graph_change *changes
        vyc_stream *stream

    vyc_status vyc_graph_launch_together(const vyc_graph_part *parts, uint32_t count, uint32_t *launched_out,
                                         uint32_t origin)
    vyc_status vyc_graph_add_symbol(vyc_graph *graph, uint32_t *symbol_out, const vyc_graph_symbol *symbol)
    vyc_status vyc_graph_launch_with(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count,
                                     vyc_stream *stream, uint32_t origin)
    vyc_status vyc_graph_own(vyc_graph *graph, vyc_buffer *buffer)
    vyc_status vyc_graph_in_turns(vyc_graph *graph, vyc_graph *of)
    vyc_status vyc_graph_info_get(vyc_graph *graph, vyc_graph_info *info_out)
    vyc_status vyc_graph_node_get(vyc_graph *graph, vyc_graph_node *node_out, uint32_t *edge_count_out,
                                  uint32_t *edges_out, uint32_t edge_room, uint32_t index)
