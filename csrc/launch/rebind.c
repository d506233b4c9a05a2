/* Bound calls that get other arguments and are launched: in one pass over the arguments, under the
 * claim, if only the parameters of the graph change. */
#include "bound_call.h"
#include "fast_path.h"

/* About to be released. */
static inline void prefetch_bound(const vyc_call *call) {
  for (uint32_t i = 0; i < call->prepared->binding_count; i++)
    __builtin_prefetch(&call->bound[i].buffer->child.references, 1);
}

static inline bool is_plain(const vyc_call *call, const vyc_run *run, vyc_plain *plain) {
  return run->struct_size >= VYC_RUN_BYTES_FIRST && run->stream == call->stream &&
         vyc__run_is_plain(call->prepared, run, call->slot, plain);
}

/* References move from the buffers that were bound to those that are now; `old` gets the former. */
static inline void take_over(vyc_call *call, const vyc_run *run, vyc_buffer **old) {
  const vyc_prepared *prepared = call->prepared;
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    vyc_bound *mine = &call->bound[i];
    const vyc_argument *argument = &run->arguments[i];
    old[i] = NULL;
    if (mine->buffer != argument->buffer) {
      vyc__child_retain(&argument->buffer->child);
      old[i] = mine->buffer;
      mine->buffer = argument->buffer;
    }
    mine->count = argument->count;
    mine->offset = argument->offset;
  }
  for (uint32_t i = 0; i < prepared->scalar_count; i++) call->scalars[i] = run->scalars[i];
  memcpy(call->run.grid, run->grid, sizeof call->run.grid);
  call->run.flags = vyc__run_flags_of(run);
}

static inline vyc_status patch(vyc_call *call) {
  const vyc_status status = vyc__launch_graph_patch(&call->launch_graph, call->child.context);
  if (VYC_UNLIKELY(status != VYC_OK))
    atomic_store_explicit(&call->steady, false, memory_order_relaxed);
  return status;
}

/* The caller has claimed the launch graph, and the run is plain: it is bound even if the launch
 * fails. */
static inline void rebind(vyc_call *call, const vyc_run *run, const vyc_plain *plain,
                          vyc_buffer **old) {
  take_over(call, run, old);
  call->launch_graph.stale |=
      vyc__block_change(call->prepared, call->launch_graph.block, plain, run);
  vyc__launch_graph_set_run(&call->launch_graph, call->prepared, run);
}

/* The graph stays stale, so that the next launch with it patches it. */
__attribute__((noinline)) static vyc_status launch_without_graph(vyc_call *call, uint32_t origin) {
  vyc_context *context = call->child.context;
  const vyc_form form = vyc__launch_graph_form(&call->launch_graph);
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(context, &scope));
  vyc__note_in(&context->history, call->ring, call->noted, origin, call->launch_graph.block);
  const vyc_status status =
      vyc__launch_once(call->prepared, call->launch_graph.pointers, &form, call->target);
  vyc__leave(context, &scope);
  return status;
}

/* What was bound is launched; *result_out is the driver's, where the status is VYC_OK. */
static inline vyc_status launch_bound(vyc_call *call, uint32_t origin, CUresult *result_out) {
  vyc_context *const context = call->child.context;
  vyc_status status = VYC_OK;
  *result_out = CUDA_SUCCESS;
  if (VYC_UNLIKELY(!call->launch_graph.stale)) {
    *result_out = vyc__call_graph(call, context, origin);
    return VYC_OK;
  }
  const vyc_crowd crowd = vyc__crowd_enter(context);
  if (VYC_UNLIKELY(crowd.others)) {
    status = launch_without_graph(call, origin);
  } else {
    status = patch(call);
    if (VYC_LIKELY(status == VYC_OK)) *result_out = vyc__call_graph(call, context, origin);
  }
  vyc__crowd_leave(context, crowd);
  return status;
}

vyc_status vyc_call_set_run(vyc_call *call, const vyc_run *run) {
  VYC_REQUIRE(call != NULL && run != NULL);
  vyc__call_prefetch(call);
  if (VYC_UNLIKELY(!vyc__call_may_be_steady(call))) return vyc__call_change(call, run, true);
  vyc_plain plain;
  vyc_buffer *old[VYC_MAX_BINDINGS];
  const vyc_context *const context = call->child.context;
  const uint32_t taken = vyc__marks_taken(context);
  if (VYC_UNLIKELY(!is_plain(call, run, &plain))) return vyc__call_change(call, run, true);
  vyc__launch_graph_claim_wait(&call->launch_graph);
  if (VYC_UNLIKELY(!vyc__call_is_steady(call, context))) {
    vyc__launch_graph_unclaim(&call->launch_graph);
    return vyc__call_change(call, run, true);
  }
  prefetch_bound(call);
  rebind(call, run, &plain, old);
  call->marks_seen = taken;
  CUresult result;
  vyc_status status = launch_bound(call, vyc__origin_of(run), &result);
  if (VYC_UNLIKELY(vyc__marks_taken(context) != call->marks_seen) && status == VYC_OK &&
      result == CUDA_SUCCESS)
    status = vyc__call_mark_again(call);
  vyc__launch_graph_unclaim(&call->launch_graph);
  if (VYC_UNLIKELY(result != CUDA_SUCCESS))
    status = vyc__call_launched(call, result, vyc__origin_of(run));
  for (uint32_t i = 0; i < call->prepared->binding_count; i++) vyc_buffer_release(old[i]);
  return status;
}
