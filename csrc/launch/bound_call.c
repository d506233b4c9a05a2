/* Bound calls: launches that keep their arguments, each with a one-kernel graph of its own. */
#include <stdlib.h>
#include <string.h>

#include "bound_call.h"
#include "room.h"

/* Under the lock of the list, like the sum, so that no reader misses launches that are counted in
 * neither place. */
static void count_launches(vyc_call *call) {
  vyc_context *context = call->child.context;
  pthread_mutex_lock(&context->children_lock);
  const uint64_t launches = atomic_exchange(&call->launches, 0);
  vyc__count(&context->counters, kernel_launches, launches);
  pthread_mutex_unlock(&context->children_lock);
}

static void call_destroy(vyc_child *child) {
  vyc_call *call = (vyc_call *)child;
  vyc__launch_graph_destroy(&call->launch_graph, child->context);
  count_launches(call);
}

static void call_finish(vyc_child *child) {
  vyc_call *call = (vyc_call *)child;
  vyc_prepared *prepared = call->prepared;
  vyc_stream *stream = call->stream;
  for (uint32_t i = 0; i < prepared->binding_count; i++) vyc_buffer_release(call->bound[i].buffer);
  free(call);
  vyc_stream_release(stream);
  vyc_prepared_release(prepared);
}

static bool call_is_claimed(const vyc_child *child) {
  return vyc__claim_is_taken(&((const vyc_call *)child)->launch_graph.claim);
}

static const vyc_child_kind call_kind = {
    .destroy = call_destroy, .finish = call_finish, .is_claimed = call_is_claimed};

static vyc_call *call_alloc(vyc_prepared *prepared) {
  const size_t arguments = prepared->binding_count * (sizeof(vyc_argument) + sizeof(vyc_bound));
  const size_t scalars = prepared->scalar_count * sizeof(uint64_t);
  const size_t pointers = prepared->parameter_count * sizeof(void *);
  vyc_call *call = calloc(1, sizeof *call + arguments + scalars + pointers + prepared->block_bytes);
  if (call == NULL) return NULL;
  call->prepared = prepared;
  call->noted = prepared->noted;
  call->launch = prepared->child.context->driver->cuGraphLaunch;
  call->arguments = (vyc_argument *)(void *)(call + 1);
  call->bound = (vyc_bound *)(void *)(call->arguments + prepared->binding_count);
  call->scalars = (uint64_t *)(void *)(call->bound + prepared->binding_count);
  void **room = (void **)(void *)(call->scalars + prepared->scalar_count);
  vyc__launch_graph_init(&call->launch_graph, prepared, room,
                         (uint8_t *)(room + prepared->parameter_count));
  return call;
}

/* Copy the run. The caller has claimed the launch graph, or no other thread knows the call yet. */
static void set(vyc_call *call, const vyc_run *run, const vyc_hidden *hidden) {
  vyc_prepared *prepared = call->prepared;
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    vyc__child_retain(&argument->buffer->child);
    call->bound[i] = (vyc_bound){argument->buffer, argument->offset, argument->count};
  }
  if (prepared->scalar_count > 0)
    memcpy(call->scalars, run->scalars, prepared->scalar_count * sizeof *call->scalars);
  memcpy(&call->run, run, VYC_RUN_BYTES_FIRST); /* a launch has no iterations */
  call->run.struct_size = sizeof call->run;
  call->run.flags = vyc__run_flags_of(run);
  call->run.arguments = call->arguments;
  call->run.scalars = call->scalars;
  call->run.timing_out = NULL;
  call->barrier = hidden->barrier;
  atomic_store_explicit(&call->steady, false, memory_order_relaxed);
  vyc__block_write_buffers(prepared, call->launch_graph.block, run, hidden);
  call->launch_graph.stale = true;
  vyc__launch_graph_set_run(&call->launch_graph, prepared, run);
}

/* Launching the graph is enough: nothing is cleared, and no work of other libraries is ordered. */
static bool is_simple(const vyc_call *call) {
  const vyc_prepared *prepared = call->prepared;
  if (!prepared->relaunches) return false;
  if (call->stream != NULL && vyc__is_adopted(call->stream)) return false;
  if (call->slot == VYC_SLOT_OTHER || vyc__grid_is_empty(call->run.grid)) return false;
  for (uint32_t i = 0; i < prepared->binding_count; i++)
    if (call->bound[i].buffer->source != NULL || vyc__needs_clear(prepared, i, &call->run))
      return false;
  return true;
}

/* A capture that is in progress when the call is created does not affect what it binds. */
static vyc_status hidden_of(vyc_prepared *prepared, vyc_hidden *hidden_out, vyc_stream *stream) {
  vyc_launch_stream on;
  VYC_TRY(vyc__launch_stream_of(prepared->child.context, &on, stream));
  return vyc__launch_hidden(prepared, hidden_out, &on);
}

static vyc_status call_make(vyc_call **call_out, vyc_prepared *prepared, const vyc_run *run) {
  vyc_hidden hidden;
  VYC_TRY(hidden_of(prepared, &hidden, run->stream));
  vyc_call *call = call_alloc(prepared);
  if (call == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  vyc__child_retain(&prepared->child);
  call->stream = run->stream;
  if (call->stream != NULL) vyc__child_retain(&call->stream->child);
  call->slot = vyc__slot_of(call->stream);
  call->ring = vyc__ring(call->slot);
  call->target = call->stream == NULL ? prepared->child.context->main : call->stream->handle;
  set(call, run, &hidden);
  vyc__child_add(&call->child, prepared->child.context, &call_kind);
  *call_out = call;
  return VYC_OK;
}

vyc_status vyc_call_create(vyc_call **call_out, vyc_prepared *prepared, const vyc_run *run) {
  VYC_REQUIRE(call_out != NULL && prepared != NULL);
  *call_out = NULL;
  VYC_TRY(vyc__launch_check(prepared, run));
  vyc_scope scope;
  VYC_TRY(vyc__enter(prepared->child.context, &scope));
  const vyc_status status = call_make(call_out, prepared, run);
  vyc__leave(prepared->child.context, &scope);
  return status;
}

static void spread(vyc_call *call) {
  for (uint32_t i = 0; i < call->prepared->binding_count; i++) {
    const vyc_bound *bound = &call->bound[i];
    call->arguments[i] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER,
                                        .count = bound->count,
                                        .buffer = bound->buffer,
                                        .offset = bound->offset};
  }
}

/* The caller has claimed the launch graph, and with it everything in the call. */
static vyc_status call_launch(vyc_call *call, uint32_t origin) {
  vyc_prepared *prepared = call->prepared;
  vyc_launch_stream on;
  const uint32_t taken = vyc__marks_taken(call->child.context);
  spread(call);
  VYC_TRY(vyc__launch_stream_of(prepared->child.context, &on, call->stream));
  VYC_TRY(vyc__launch_prepare(prepared, &call->run, &on));
  if (vyc__grid_is_empty(call->run.grid)) return VYC_OK;
  if (VYC_UNLIKELY(on.captured)) return vyc__launch_captured(prepared, &call->run, &on);
  vyc__note_launch(&prepared->child.context->history, on.slot, prepared->noted, origin,
                   call->launch_graph.block);
  vyc__cooperative_begin(prepared);
  vyc_status status = vyc__barrier_clear(prepared->child.context, call->barrier, on.stream);
  if (status == VYC_OK)
    status = vyc__launch_graph_relaunch(&call->launch_graph, prepared, on.stream);
  vyc__cooperative_end(prepared);
  if (status == VYC_OK)
    status = vyc__run_enqueued(prepared->child.context, &call->run, on.stream, on.slot, taken);
  call->marks_seen = taken;
  atomic_store_explicit(&call->steady, status == VYC_OK && is_simple(call), memory_order_relaxed);
  return status;
}

/* Bind what `run` has; `old` gets the references to the buffers that were bound. The caller has
 * claimed the launch graph. */
static vyc_status call_bind(vyc_call *call, const vyc_run *run, vyc_buffer **old) {
  vyc_hidden hidden;
  VYC_TRY(hidden_of(call->prepared, &hidden, run->stream));
  for (uint32_t i = 0; i < call->prepared->binding_count; i++) old[i] = call->bound[i].buffer;
  set(call, run, &hidden);
  return VYC_OK;
}

/* ---- launch as it is ------------------------------------------------------------------------- */

static vyc_status launch_on_slow_path(vyc_call *call, uint32_t origin) {
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(call->child.context, &scope));
  vyc__launch_graph_claim_wait(&call->launch_graph);
  const vyc_status status = call_launch(call, origin);
  vyc__launch_graph_unclaim(&call->launch_graph);
  vyc__leave(call->child.context, &scope);
  return status;
}

static bool still_marked(vyc_call *call, uint32_t taken) {
  for (uint32_t i = 0; i < call->prepared->binding_count; i++)
    if (!vyc__buffer_has_mark(call->bound[i].buffer, call->slot)) return false;
  call->marks_seen = taken;
  return true;
}

vyc_status vyc__call_mark_again(vyc_call *call) {
  spread(call);
  return vyc__run_mark_late(call->child.context, &call->run);
}

vyc_status vyc__call_launched(vyc_call *call, CUresult result, uint32_t origin) {
  if (VYC_LIKELY(result == CUDA_SUCCESS)) return VYC_OK;
  if (result == CUDA_ERROR_INVALID_CONTEXT) return launch_on_slow_path(call, origin);
  return vyc__driver_failed(call->child.context, result, "cuGraphLaunch");
}

/* The same if a mark may have been taken. The caller's claim ends here. */
__attribute__((cold, noinline)) static vyc_status call_given(vyc_call *call, CUresult result,
                                                             uint32_t origin) {
  const vyc_status status = result == CUDA_SUCCESS ? vyc__call_mark_again(call) : VYC_OK;
  vyc__launch_graph_unclaim(&call->launch_graph);
  return status == VYC_OK ? vyc__call_launched(call, result, origin) : status;
}

static inline vyc_status run(vyc_call *call, uint32_t origin) {
  VYC_REQUIRE(call != NULL);
  vyc__call_prefetch(call);
  if (VYC_UNLIKELY(!vyc__call_may_be_steady(call))) return launch_on_slow_path(call, origin);
  vyc__launch_graph_claim_wait(&call->launch_graph);
  vyc_context *const context = call->child.context;
  const uint32_t taken = vyc__marks_taken(context);
  if (VYC_LIKELY((taken == call->marks_seen || still_marked(call, taken)) &&
                 vyc__call_is_steady(call, context) && !call->launch_graph.stale)) {
    const CUresult result = vyc__call_graph(call, context, origin);
    if (VYC_UNLIKELY(vyc__marks_taken(context) != call->marks_seen))
      return call_given(call, result, origin);
    vyc__launch_graph_unclaim(&call->launch_graph);
    return vyc__call_launched(call, result, origin);
  }
  vyc__launch_graph_unclaim(&call->launch_graph);
  return launch_on_slow_path(call, origin);
}

vyc_status vyc_call_run_at(vyc_call *call, uint32_t origin) { return run(call, origin); }

vyc_status vyc_call_run(vyc_call *call) { return run(call, 0); }

vyc_status vyc__call_change(vyc_call *call, const vyc_run *run, bool launches) {
  vyc_prepared *prepared = call->prepared;
  VYC_TRY(vyc__launch_check(prepared, run));
  VYC_REQUIRE_IN("vyc_call_set", run->stream == call->stream);
  vyc_buffer *old[VYC_MAX_BINDINGS];
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(prepared->child.context, &scope));
  vyc__launch_graph_claim_wait(&call->launch_graph);
  vyc_status status = call_bind(call, run, old);
  const bool bound = status == VYC_OK;
  if (bound && launches) status = call_launch(call, vyc__origin_of(run));
  vyc__launch_graph_unclaim(&call->launch_graph);
  vyc__leave(prepared->child.context, &scope);
  for (uint32_t i = 0; bound && i < prepared->binding_count; i++) vyc_buffer_release(old[i]);
  return status;
}

vyc_status vyc_call_set(vyc_call *call, const vyc_run *run) {
  VYC_REQUIRE(call != NULL && run != NULL);
  return vyc__call_change(call, run, false);
}

uint64_t vyc__kernel_launches(vyc_context *context) {
  pthread_mutex_lock(&context->children_lock);
  uint64_t sum = vyc__counters_total(&context->counters, VYC_ROW_kernel_launches);
  for (const vyc_child *child = context->children; child != NULL; child = child->next)
    if (child->kind == &call_kind)
      sum += atomic_load_explicit(&((const vyc_call *)child)->launches, memory_order_relaxed);
  pthread_mutex_unlock(&context->children_lock);
  return sum;
}

/* The last holder counts the launches before the call leaves the list, which snapshots read. */
void vyc_call_release(vyc_call *call) {
  if (call == NULL) return;
  if (atomic_load_explicit(&call->child.references, memory_order_acquire) == 1)
    count_launches(call);
  vyc__child_release(&call->child);
}
