/* Bound calls: launches with their arguments kept, each with a one-kernel graph of its own. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

struct vyc_call {
  vyc_child child;
  vyc_plan *plan;
  vyc_stream *stream; /* NULL: the context's own */
  vyc_exec exec;
  vyc_run run;             /* owns the arrays it points to */
  vyc_argument *arguments; /* buffers are held */
  uint64_t *scalars;
  uint8_t *block;
  uint64_t barrier; /* the address in the block */
};

static void call_destroy(vyc_child *child) {
  vyc__exec_destroy(&((vyc_call *)child)->exec, child->context);
}

static void call_finish(vyc_child *child) {
  vyc_call *call = (vyc_call *)child;
  vyc_plan *plan = call->plan;
  vyc_stream *stream = call->stream;
  for (uint32_t i = 0; i < plan->binding_count; i++) vyc_buffer_release(call->arguments[i].buffer);
  free(call);
  vyc_stream_release(stream);
  vyc_plan_release(plan);
}

static vyc_call *call_alloc(vyc_plan *plan) {
  const size_t arguments = plan->binding_count * sizeof(vyc_argument);
  const size_t scalars = plan->scalar_count * sizeof(uint64_t);
  const size_t pointers = plan->parameter_count * sizeof(void *);
  vyc_call *call =
      calloc(1, sizeof *call + arguments + scalars + pointers + 2 * plan->parameter_bytes);
  if (call == NULL) return NULL;
  call->plan = plan;
  call->arguments = (vyc_argument *)(void *)(call + 1);
  call->scalars = (uint64_t *)(void *)(call->arguments + plan->binding_count);
  void **room = (void **)(void *)(call->scalars + plan->scalar_count);
  call->block = (uint8_t *)(room + plan->parameter_count);
  vyc__exec_init(&call->exec, plan, room, call->block + plan->parameter_bytes);
  return call;
}

/* Take over the run. The caller has claimed the exec, or nobody else knows the call yet. */
static void set(vyc_call *call, const vyc_run *run, const vyc_hidden *hidden) {
  vyc_plan *plan = call->plan;
  uint64_t addresses[VYC_MAX_BINDINGS];
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    vyc__child_retain(&run->arguments[i].buffer->child);
    addresses[i] = run->arguments[i].buffer->address + run->arguments[i].offset;
  }
  if (plan->binding_count > 0)
    memcpy(call->arguments, run->arguments, plan->binding_count * sizeof *call->arguments);
  if (plan->scalar_count > 0)
    memcpy(call->scalars, run->scalars, plan->scalar_count * sizeof *call->scalars);
  call->run = *run;
  call->run.arguments = call->arguments;
  call->run.scalars = call->scalars;
  call->run.timing_out = NULL;
  call->barrier = hidden->barrier;
  vyc__block_write(plan, call->block, addresses, &call->run, hidden);
}

/* A capture that goes on where the call is made does not matter to what it binds. */
static vyc_status hidden_of(vyc_plan *plan, vyc_hidden *hidden_out, vyc_stream *stream) {
  vyc_place place;
  VYC_TRY(vyc__place_of(plan->child.context, &place, stream));
  return vyc__launch_hidden(plan, hidden_out, &place);
}

static vyc_status call_make(vyc_call **call_out, vyc_plan *plan, const vyc_run *run) {
  vyc_hidden hidden;
  VYC_TRY(hidden_of(plan, &hidden, run->stream));
  vyc_call *call = call_alloc(plan);
  if (call == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  vyc__child_retain(&plan->child);
  call->stream = run->stream;
  if (call->stream != NULL) vyc__child_retain(&call->stream->child);
  set(call, run, &hidden);
  vyc__child_add(&call->child, plan->child.context, call_destroy, call_finish);
  *call_out = call;
  return VYC_OK;
}

vyc_status vyc_call_create(vyc_call **call_out, vyc_plan *plan, const vyc_run *run) {
  VYC_REQUIRE(call_out != NULL && plan != NULL);
  *call_out = NULL;
  VYC_TRY(vyc__launch_check(plan, run));
  vyc_scope scope;
  VYC_TRY(vyc__enter(plan->child.context, &scope));
  const vyc_status status = call_make(call_out, plan, run);
  vyc__leave(plan->child.context, &scope);
  return status;
}

vyc_status vyc_call_set(vyc_call *call, const vyc_run *run) {
  VYC_REQUIRE(call != NULL);
  vyc_plan *plan = call->plan;
  VYC_TRY(vyc__launch_check(plan, run));
  VYC_REQUIRE(run->stream == call->stream);
  vyc_buffer *old[VYC_MAX_BINDINGS];
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(plan->child.context, &scope));
  vyc_hidden hidden;
  const vyc_status status = hidden_of(plan, &hidden, run->stream);
  if (status != VYC_OK) {
    vyc__leave(plan->child.context, &scope);
    return status;
  }
  vyc__exec_claim_wait(&call->exec);
  for (uint32_t i = 0; i < plan->binding_count; i++) old[i] = call->arguments[i].buffer;
  set(call, run, &hidden);
  vyc__exec_unclaim(&call->exec);
  vyc__leave(plan->child.context, &scope);
  for (uint32_t i = 0; i < plan->binding_count; i++) vyc_buffer_release(old[i]);
  return VYC_OK;
}

/* The caller has claimed the exec, and with it everything in the call. */
static vyc_status call_launch(vyc_call *call) {
  vyc_plan *plan = call->plan;
  uint64_t addresses[VYC_MAX_BINDINGS];
  vyc_place place;
  VYC_TRY(vyc__place_of(plan->child.context, &place, call->stream));
  VYC_TRY(vyc__launch_prepare(plan, &call->run, addresses, &place));
  if (vyc__grid_is_empty(call->run.grid)) return VYC_OK;
  if (VYC_UNLIKELY(place.captured))
    return vyc__launch_captured(plan, &call->run, addresses, &place);
  vyc__cooperative_begin(plan);
  vyc_status status = vyc__barrier_clear(plan->child.context, call->barrier, place.stream);
  if (status == VYC_OK)
    status = vyc__exec_launch(&call->exec, plan, call->block, call->run.grid, place.stream);
  vyc__cooperative_end(plan);
  return status == VYC_OK ? vyc__run_given(&call->run, place.stream) : status;
}

vyc_status vyc_call_run(vyc_call *call) {
  VYC_REQUIRE(call != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(call->child.context, &scope));
  vyc__exec_claim_wait(&call->exec);
  const vyc_status status = call_launch(call);
  vyc__exec_unclaim(&call->exec);
  vyc__leave(call->child.context, &scope);
  return status;
}

void vyc_call_release(vyc_call *call) {
  if (call != NULL) vyc__child_release(&call->child);
}
