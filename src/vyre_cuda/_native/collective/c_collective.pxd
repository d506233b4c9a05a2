# vyre_cuda/collective.h for Cython.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_buffer, vyc_context, vyc_graph, vyc_prepared, vyc_stream
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/collective.h" nogil:
    ctypedef struct vyc_communicator
    enum:
        VYC_COMMUNICATOR_ID_BYTES
        VYC_ALL_REDUCE
        VYC_ALL_GATHER
        VYC_REDUCE_SCATTER
        VYC_BROADCAST
        VYC_ALL_TO_ALL
        VYC_SEND
        VYC_RECEIVE
    enum:
        VYC_ELEMENT_U8
    ctypedef struct vyc_collective:
        uint32_t struct_size
        uint32_t kind
        uint32_t type
        uint32_t op
        int32_t peer
        uint64_t count
        vyc_buffer *input "in"
        uint64_t in_offset
        vyc_buffer *out
        uint64_t out_offset
        vyc_stream *stream
    ctypedef struct vyc_communicator_state:
        uint32_t struct_size
        uint32_t is_ended
        uint64_t issued
        uint64_t digest
        uint64_t waiting_ns
        uint32_t last_kind
        uint32_t last_type
        uint64_t last_count
        int32_t error
        uint32_t last_op
        int32_t last_peer
    ctypedef int (*vyc_nccl_question)() noexcept
    void vyc_nccl_ask(vyc_nccl_question ask)
    vyc_status vyc_nccl_open(const char *path)
    vyc_status vyc_nccl_version(int32_t *version_out)
    vyc_status vyc_nccl_unique_id(uint8_t *id_out)
    vyc_status vyc_communicator_create(
        vyc_communicator **communicator_out, vyc_context *context, const uint8_t *id, int32_t rank, int32_t size,
        int64_t timeout_ns)
    void vyc_communicator_left(vyc_communicator *communicator)
    vyc_status vyc_communicator_may_close(const vyc_communicator *communicator)
    void vyc_communicator_release(vyc_communicator *communicator)
    void vyc_communicator_close(vyc_communicator *communicator)
    vyc_status vyc_communicator_check(vyc_communicator *communicator, const vyc_collective *collective)
    vyc_status vyc_communicator_run(vyc_communicator *communicator, const vyc_collective *collective)
    vyc_status vyc_collectives_begin()
    vyc_status vyc_collectives_end()
    vyc_status vyc_collectives_cancel()
    vyc_status vyc_collectives_run(
        vyc_communicator **communicators, const vyc_collective *collectives, uint32_t count)
    vyc_status vyc_communicator_watch(vyc_communicator *communicator, vyc_communicator_state *state_out)
    vyc_status vyc_communicator_abort(vyc_communicator *communicator, const char *message)
    enum:
        VYC_ONE_SHOT_BLOCK_BYTES
    vyc_status vyc_one_shot_open(vyc_communicator **members, uint32_t count, uint64_t most_bytes)
    enum:
        VYC_INBOX_HANDLE_BYTES
    vyc_status vyc_one_shot_share(vyc_communicator *communicator, uint64_t most_bytes, uint8_t *handle_out)
    vyc_status vyc_one_shot_connect(vyc_communicator *communicator, const uint8_t *handles)
    void vyc_one_shot_leave(vyc_communicator *communicator)
    void vyc_one_shot_left(vyc_communicator *communicator)
    vyc_status vyc_one_shot_add(vyc_communicator *communicator, uint32_t type, uint32_t op, vyc_prepared *prepared)
    vyc_status vyc_one_shot_limit(vyc_communicator *communicator, uint64_t bytes)

    enum:
        VYC_MOST_TOGETHER

cdef extern from "vyre_cuda/graph.h" nogil:
    vyc_status vyc_graph_add_collectives(
        vyc_graph *graph, uint32_t *step_out, vyc_communicator *communicator, uint32_t count,
        const vyc_collective *collectives)
