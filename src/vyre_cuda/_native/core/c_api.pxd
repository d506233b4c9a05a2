# The part of the public header that the extensions use, for Cython; nothing is added.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "vyre_cuda.h" nogil:
    ctypedef enum vyc_status:
        VYC_OK
        VYC_E_INVALID
        VYC_E_UNAVAILABLE
        VYC_E_UNSUPPORTED
        VYC_E_MEMORY
        VYC_E_DRIVER
        VYC_E_COMPILE
        VYC_E_LOST
        VYC_E_TIMEOUT
        VYC_E_ASSERT
        VYC_E_COMMUNICATION
        VYC_E_INTERNAL
        VYC_NOT_READY
        VYC_E_FILE
        VYC_E_FORMAT
        VYC_E_VERSION

    ctypedef struct vyc_error:
        uint32_t struct_size
        int32_t status
        int32_t driver_result
        uint64_t report
        uint64_t tag
        char operation[64]
        char driver_name[64]
        char message[640]
        uint64_t report_index
        char launches[1024]

    vyc_status vyc_last_error(vyc_error *error_out)
    const char *vyc_last_message()
    uint32_t vyc_version()

    ctypedef struct vyc_driver
    ctypedef struct vyc_context
    ctypedef struct vyc_stream
    ctypedef struct vyc_event
    ctypedef struct vyc_buffer
    ctypedef struct vyc_pinned
    ctypedef struct vyc_module
    ctypedef struct vyc_prepared
    ctypedef struct vyc_call
    ctypedef struct vyc_ticket
    ctypedef struct vyc_graph

    ctypedef struct vyc_driver_info:
        uint32_t struct_size
        int32_t version
        int32_t device_count
        int32_t is_emulator

    vyc_status vyc_driver_open(vyc_driver **driver_out, const char *path)
    void vyc_driver_release(vyc_driver *driver)
    vyc_status vyc_driver_started(int32_t *started_out, const char *path)
    vyc_status vyc_driver_info_get(vyc_driver *driver, vyc_driver_info *info_out)
    vyc_status vyc_driver_device_name(vyc_driver *driver, char *name_out, size_t name_bytes, int32_t ordinal)

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

    vyc_status vyc_stats_row(const char **name_out, const char **help_out, uint32_t *kind_out, uint32_t row)
    vyc_status vyc_context_stats(vyc_context *context, uint64_t *values_out, uint32_t count)
    vyc_status vyc_context_reset_stats(vyc_context *context)
    vyc_status vyc_context_measure(vyc_context *context, uint64_t *ns_out, uint32_t count, uint32_t what,
                                   uint64_t nbytes)
    vyc_status vyc_context_in_flight(vyc_context *context, char *text_out, size_t nbytes, uint32_t *count_out)
    vyc_status vyc_context_trace(vyc_context *context, const char *text)
    vyc_status vyc_origin_add(uint32_t *origin_out, const char *text)
    vyc_status vyc_context_count(vyc_context *context, uint32_t row, uint64_t n)

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

    vyc_status vyc_stream_create(vyc_stream **stream_out, vyc_context *context)
    vyc_status vyc_stream_adopt(vyc_stream **stream_out, vyc_context *context, uint64_t handle)
    void vyc_stream_release(vyc_stream *stream)
    vyc_status vyc_stream_synchronize(vyc_stream *stream)
    vyc_status vyc_stream_synchronize_for(vyc_stream *stream, int64_t timeout_ns)
    vyc_status vyc_stream_query(vyc_stream *stream)
    vyc_status vyc_stream_handle(vyc_stream *stream, uint64_t *handle_out)
    vyc_status vyc_stream_record(vyc_stream *stream, vyc_event **event_out)
    vyc_status vyc_stream_wait(vyc_stream *stream, vyc_event *event)
    void vyc_event_release(vyc_event *event)
    vyc_status vyc_event_try_release(vyc_event *event)
    vyc_status vyc_event_synchronize(vyc_event *event)
    vyc_status vyc_event_synchronize_for(vyc_event *event, int64_t timeout_ns)
    vyc_status vyc_event_query(vyc_event *event)
    vyc_status vyc_event_elapsed(vyc_event *stop, float *milliseconds_out, vyc_event *start)

    ctypedef struct vyc_fence
    vyc_status vyc_fence_create(vyc_fence **fence_out, vyc_context *context)
    vyc_status vyc_fence_wait(vyc_fence *fence, int64_t timeout_ns)
    void vyc_fence_release(vyc_fence *fence)

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
    vyc_status vyc_context_enable_peer(vyc_context *context, vyc_context *other)
    vyc_status vyc_context_can_access_peer(vyc_context *context, int32_t ordinal, uint32_t *access_out)
    vyc_status vyc_buffer_adopt_peer(vyc_buffer **buffer_out, vyc_context *context, vyc_buffer *of)
    vyc_status vyc_copy(vyc_buffer *to, uint64_t to_offset, vyc_buffer *source, uint64_t from_offset, uint64_t nbytes)
    vyc_status vyc_fill(vyc_buffer *to, uint64_t offset, uint32_t value, uint32_t element_bytes, uint64_t nbytes)
    ctypedef struct vyc_notice:
        uint32_t struct_size
        int32_t fd
        void (*call)(void *user, vyc_status status) noexcept nogil
        void *user
    vyc_status vyc_ticket_notify(vyc_ticket *ticket, const vyc_notice *notice)
    vyc_status vyc_event_notify(vyc_event *event, const vyc_notice *notice)
    vyc_status vyc_stream_notify(vyc_stream *stream, const vyc_notice *notice)
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

    vyc_status vyc_module_load(vyc_module **module_out, char *log_out, size_t log_bytes, vyc_context *context,
                               const void *image, size_t nbytes)
    void vyc_module_release(vyc_module *module)
    vyc_status vyc_module_link(void **image_out, size_t *bytes_out, char *log_out, size_t log_bytes,
                               vyc_context *context, const void *ptx, size_t nbytes)
    vyc_status vyc_module_parameter(vyc_module *module, uint32_t *offset_out, uint32_t *bytes_out, const char *name,
                                    uint32_t index)

    vyc_status vyc_module_block_size(vyc_module *module, uint32_t *threads_out, const char *name,
                                     uint32_t dynamic_shared_bytes, uint32_t limit)
    vyc_status vyc_module_resident_blocks(vyc_module *module, uint32_t *blocks_out, const char *name,
                                          uint32_t threads, uint32_t dynamic_shared_bytes)

    ctypedef struct vyc_function_info:
        uint32_t struct_size
        int32_t max_threads_per_block
        int32_t registers
        int32_t static_shared_bytes
        int32_t local_bytes
        int32_t constant_bytes
        int32_t ptx_version
        int32_t binary_version
        int32_t resident_blocks

    enum:
        VYC_PARAMETER_POINTER
        VYC_PARAMETER_SCALAR
        VYC_PARAMETER_SIZE
        VYC_PARAMETER_REPORT
        VYC_PARAMETER_GRID_BARRIER
        VYC_PREPARED_COOPERATIVE
        VYC_PREPARED_MAY_OVERLAP
        VYC_PREPARED_PRINTS
        VYC_ROLE_IN
        VYC_ROLE_INOUT
        VYC_ROLE_OUT
        VYC_ROLE_SCALAR
        VYC_BINDING_STREAMING
        VYC_BINDING_COVERED
        VYC_BINDING_LOOPS
        VYC_BINDING_AXES
        VYC_BINDING_ELEMENTS_SHIFT
        VYC_BINDING_UNSPECIFIED
        VYC_ARGUMENT_HOST
        VYC_ARGUMENT_PINNED
        VYC_ARGUMENT_BUFFER

    ctypedef struct vyc_parameter:
        uint32_t kind
        uint32_t index
        uint32_t offset
        uint32_t size

    ctypedef struct vyc_binding:
        uint32_t role
        uint32_t flags
        uint32_t element_bytes
        uint32_t sectors

    ctypedef struct vyc_label:
        const char *name
        uint32_t type

    ctypedef struct vyc_known:
        uint32_t kind
        uint32_t index
        uint32_t type
        uint64_t value
        const char *name

    ctypedef struct vyc_prepared_desc:
        uint32_t struct_size
        uint32_t block[3]
        uint32_t dynamic_shared_bytes
        uint32_t parameter_bytes
        uint32_t parameter_count
        uint32_t binding_count
        uint32_t scalar_count
        uint32_t flags
        const char *entry
        const vyc_parameter *parameters
        const vyc_binding *bindings
        uint64_t tag
        const char *name
        const vyc_label *labels
        const vyc_known *known
        uint32_t known_count
        uint32_t several_elements
        const char *several
        uint64_t several_from

    vyc_status vyc_prepared_create(vyc_prepared **prepared_out, vyc_module *module, const vyc_prepared_desc *desc)
    void vyc_prepared_release(vyc_prepared *prepared)
    vyc_status vyc_prepared_add_several(vyc_prepared *prepared, vyc_module *module, const char *entry,
                                        uint32_t elements, uint64_t threads)
    vyc_status vyc_prepared_function(vyc_prepared *prepared, vyc_function_info *info_out)

    ctypedef struct vyc_argument:
        uint32_t kind
        uint64_t count
        const void *data
        void *result
        vyc_buffer *buffer
        uint64_t offset
        vyc_pinned *pinned

    ctypedef struct vyc_timing:
        uint32_t struct_size
        uint64_t wall_ns
        uint64_t enqueue_ns
        uint64_t wait_ns
        uint64_t device_ns

    vyc_status vyc_context_count_timing(vyc_context *context, const vyc_timing *timing)

    enum:
        VYC_RUN_GRID_OF_WORK

    ctypedef struct vyc_run:
        uint32_t struct_size
        uint32_t grid[3]
        uint32_t argument_count
        uint32_t scalar_count
        const vyc_argument *arguments
        const uint64_t *scalars
        vyc_stream *stream
        int64_t timeout_ns
        vyc_timing *timing_out
        uint32_t iterations
        uint32_t origin
        const uint64_t *contents
        uint32_t flags

    vyc_status vyc_prepared_check(vyc_prepared *prepared, const vyc_run *run)
    vyc_status vyc_prepared_run(vyc_prepared *prepared, vyc_ticket **ticket_out, const vyc_run *run)
    vyc_status vyc_prepared_submit(vyc_prepared *prepared, vyc_ticket **ticket_out, const vyc_run *run)
    vyc_status vyc_ticket_query(vyc_ticket *ticket)
    vyc_status vyc_ticket_wait(vyc_ticket *ticket, int64_t timeout_ns)
    vyc_status vyc_ticket_timing(vyc_ticket *ticket, vyc_timing *timing_out)
    void vyc_ticket_release(vyc_ticket *ticket)
    vyc_status vyc_prepared_launch(vyc_prepared *prepared, const vyc_run *run)

    ctypedef struct vyc_rows:
        uint32_t struct_size
        uint32_t count
        uint32_t argument_count
        uint32_t scalar_count
        const vyc_argument *arguments
        const uint64_t *scalars
        const uint32_t *grids
        vyc_stream *stream
        uint32_t origin
        uint32_t flags
        vyc_prepared *clearing
        vyc_prepared *many_clearing

    vyc_status vyc_prepared_launch_many(vyc_prepared *prepared, vyc_prepared *many, const vyc_rows *rows)
    vyc_status vyc_call_create(vyc_call **call_out, vyc_prepared *prepared, const vyc_run *run)
    vyc_status vyc_call_set(vyc_call *call, const vyc_run *run)
    vyc_status vyc_call_run_at(vyc_call *call, uint32_t origin)
    vyc_status vyc_call_set_run(vyc_call *call, const vyc_run *run)
    void vyc_call_release(vyc_call *call)

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
    vyc_status vyc_graph_add_tables(
        vyc_graph *graph, uint32_t *step_out, vyc_prepared *entry, uint32_t count, vyc_prepared *const *prepared,
        const vyc_rows *const *rows)
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
    enum:
        VYC_MOST_TOGETHER
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

    ctypedef struct vyc_worker:
        pass
    ctypedef struct vyc_worker_desc:
        uint32_t struct_size
        uint32_t kernel_count
        vyc_prepared *const *kernels
        vyc_prepared *clearing
        uint64_t idle_ns
        uint64_t busy_ns
        uint32_t first
        uint32_t blocks
    ctypedef struct vyc_worker_stats:
        uint32_t struct_size
        uint32_t running
        uint64_t calls
        uint64_t launches
        uint64_t pauses
    vyc_status vyc_worker_create(vyc_worker **worker_out, vyc_prepared *entry, const vyc_worker_desc *desc)
    vyc_status vyc_worker_run(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel, const vyc_run *run)
    vyc_status vyc_worker_submit(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel, const vyc_run *run)
    vyc_status vyc_stream_wait_worker(vyc_stream *stream, vyc_worker *worker)
    vyc_status vyc_worker_pause(vyc_worker *worker, int64_t timeout_ns)
    vyc_status vyc_worker_pause_wait(vyc_worker *worker, int64_t timeout_ns)
    vyc_status vyc_worker_resume(vyc_worker *worker)
    vyc_status vyc_worker_close(vyc_worker *worker, int64_t timeout_ns)
    vyc_status vyc_worker_stats_get(vyc_worker *worker, vyc_worker_stats *stats_out)
    void vyc_worker_release(vyc_worker *worker)
