/* Bound calls that get other arguments and are launched: in one pass over them, under the claim,
 * where nothing but the graph's parameters is to be changed. */
#include <string.h>

#include "call.h"

/* What a run changes in a steady call can be seen from its arguments alone: buffers of the context
 * that the stream has worked on, in bounds, apart from each other, none to be cleared. Anything
 * else, errors included, goes the long way. */
static bool is_plain(const vyc_call *call, const vyc_run *run, uint64_t *addresses) {
  const vyc_plan *plan = call->plan;
  uint64_t ends[VYC_MAX_BINDINGS];
  if (run->struct_size < VYC_RUN_BYTES_FIRST || run->argument_count != plan->binding_count ||
      run->scalar_count != plan->scalar_count || run->stream != call->stream ||
      (run->arguments == NULL && run->argument_count > 0) ||
      (run->scalars == NULL && run->scalar_count > 0) || vyc__grid_is_empty(run->grid))
    return false;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    const vyc_buffer *buffer = argument->buffer;
    const vyc_binding *binding = &plan->bindings[i];
    uint64_t bytes;
    __builtin_prefetch(&call->bound[i].buffer->child.references, 1); /* about to be let go */
    if (argument->kind != VYC_ARGUMENT_BUFFER || buffer == NULL ||
        buffer->child.context != call->child.context || buffer->source != NULL ||
        vyc__mul_overflows(argument->count, binding->element_bytes, &bytes) ||
        argument->offset > buffer->bytes || bytes > buffer->bytes - argument->offset ||
        !vyc__call_marks(call, buffer))
      return false;
    if (binding->role != VYC_ROLE_IN && (buffer->read_only || vyc__needs_clear(plan, i, run)))
      return false;
    addresses[i] = buffer->address + argument->offset;
    ends[i] = addresses[i] + bytes;
  }
  for (uint32_t i = 0; i < plan->binding_count && !plan->may_overlap; i++)
    for (uint32_t j = 0; plan->bindings[i].role != VYC_ROLE_IN && j < plan->binding_count; j++)
      if (j != i && addresses[i] < ends[j] && addresses[j] < ends[i]) return false;
  return true;
}

/* References go from the buffers that were bound to those that are; `old` gets the former. */
static void take_over(vyc_call *call, const vyc_run *run, vyc_buffer **old) {
  const vyc_plan *plan = call->plan;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
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
  for (uint32_t i = 0; i < plan->scalar_count; i++) call->scalars[i] = run->scalars[i];
  memcpy(call->run.grid, run->grid, sizeof call->run.grid);
}

/* A patch needs the context current: without one, drivers of CUDA 13 end the process. */
static vyc_status patch_current(vyc_call *call) {
  vyc_context *context = call->child.context;
  CUcontext saved;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuCtxGetCurrent, &saved));
  if (VYC_UNLIKELY(saved != context->handle))
    VYC_TRY(VYC_CU(context, cuCtxSetCurrent, context->handle));
  const vyc_status status = VYC_CU(context, cuGraphExecKernelNodeSetParams, call->exec.handle,
                                   call->exec.node, &call->exec.params);
  if (VYC_UNLIKELY(saved != context->handle)) context->driver->cuCtxSetCurrent(saved);
  return status;
}

static vyc_status patch(vyc_call *call) {
  const vyc_status status = patch_current(call);
  call->exec.stale = status != VYC_OK;
  if (VYC_UNLIKELY(status != VYC_OK))
    atomic_store_explicit(&call->steady, false, memory_order_relaxed);
  return status;
}

/* The caller has claimed the exec, and the run is plain: whatever comes, it is bound. */
static vyc_status rebind(vyc_call *call, const vyc_run *run, const uint64_t *addresses,
                         vyc_buffer **old) {
  take_over(call, run, old);
  call->exec.stale = vyc__block_change(call->plan, call->exec.block, addresses, run);
  vyc__exec_set_grid(&call->exec, run->grid);
  return VYC_LIKELY(call->exec.stale) ? patch(call) : VYC_OK;
}

vyc_status vyc_call_set_run(vyc_call *call, const vyc_run *run) {
  VYC_REQUIRE(call != NULL && run != NULL);
  vyc__call_prefetch(call);
  if (VYC_UNLIKELY(!vyc__call_may_be_steady(call))) return vyc__call_change(call, run, true);
  uint64_t addresses[VYC_MAX_BINDINGS];
  vyc_buffer *old[VYC_MAX_BINDINGS];
  if (VYC_UNLIKELY(!vyc__exec_claim(&call->exec))) vyc__exec_claim_wait(&call->exec);
  const uint32_t taken = vyc__marks_taken(call);
  if (VYC_UNLIKELY(!vyc__call_is_steady(call) || !is_plain(call, run, addresses))) {
    vyc__exec_unclaim(&call->exec);
    return vyc__call_change(call, run, true);
  }
  vyc_status status = rebind(call, run, addresses, old);
  call->marks_seen = taken;
  const CUresult result =
      VYC_LIKELY(status == VYC_OK) ? vyc__call_graph(call, vyc__origin_of(run)) : CUDA_SUCCESS;
  vyc__exec_unclaim(&call->exec);
  if (VYC_UNLIKELY(result != CUDA_SUCCESS))
    status = vyc__call_launched(call, result, vyc__origin_of(run));
  for (uint32_t i = 0; i < call->plan->binding_count; i++) vyc_buffer_release(old[i]);
  return status;
}
