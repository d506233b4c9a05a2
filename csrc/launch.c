/* Asynchronous launches on device buffers: one-off, and bound to a graph of their own.
 *
 * A kernel's first launch on a stream is a plain cuLaunchKernel; from the second on a one-kernel
 * graph is patched and launched, which costs less than half. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* ---- what launches and calls share ----------------------------------------------------------- */

static vyc_status check(const vyc_plan *plan, const vyc_run *run) {
  VYC_TRY(vyc__run_check(plan, run));
  for (uint32_t i = 0; i < plan->binding_count; i++)
    if (VYC_UNLIKELY(run->arguments[i].kind != VYC_ARGUMENT_BUFFER))
      return vyc__fail(VYC_E_INVALID, "launch", "argument %u is not device memory", i);
  return VYC_OK;
}

/* Mark the buffers, clear what the kernel may leave unwritten. */
static vyc_status ready_buffers(const vyc_plan *plan, const vyc_run *run, uint64_t *addresses,
                                CUstream stream, uint32_t slot) {
  vyc_context *context = plan->child.context;
  VYC_CU_RESULT;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    VYC_TRY(vyc__buffer_use(argument->buffer, stream, slot));
    addresses[i] = argument->buffer->address + argument->offset;
    const uint64_t bytes = argument->count * plan->bindings[i].element_bytes;
    if (VYC_UNLIKELY(vyc__needs_clear(plan, i, run)) && bytes > 0)
      VYC_TRY(VYC_CU(context, cuMemsetD8Async, addresses[i], 0, bytes, stream));
  }
  return VYC_OK;
}

static vyc_status hidden_of(vyc_plan *plan, vyc_hidden *hidden_out, CUstream stream,
                            uint32_t slot) {
  hidden_out->report = 0;
  if (plan->has_report) {
    atomic_store_explicit(&plan->asynchronous, true, memory_order_relaxed);
    hidden_out->report = plan->report_block->address;
  }
  return vyc__barrier_of(plan, &hidden_out->barrier, stream, slot);
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* The exec of a stream, made at the second launch there; NULL when it cannot be had. */
static vyc_exec *exec_of(vyc_plan *plan, uint32_t slot) {
  if (slot == VYC_SLOT_OTHER) return NULL;
  vyc_exec *exec = atomic_load_explicit(&plan->execs[slot], memory_order_acquire);
  if (VYC_LIKELY(exec != NULL)) return exec;
  if (atomic_exchange(&plan->launched[slot], 1) == 0) return NULL;
  const size_t pointers = plan->parameter_count * sizeof(void *);
  exec = calloc(1, sizeof *exec + pointers + plan->parameter_bytes);
  if (exec == NULL) return NULL;
  void **room = (void **)(void *)(exec + 1);
  vyc__exec_init(exec, plan, room, (uint8_t *)(room + plan->parameter_count));
  vyc_exec *other = NULL;
  if (atomic_compare_exchange_strong(&plan->execs[slot], &other, exec)) return exec;
  free(exec);
  return other;
}

static vyc_status launch_block(vyc_plan *plan, const vyc_run *run, const uint64_t *addresses,
                               CUstream stream, uint32_t slot) {
  uint8_t block[VYC_MAX_PARAMETER_BYTES];
  vyc_hidden hidden;
  VYC_TRY(hidden_of(plan, &hidden, stream, slot));
  vyc__block_write(plan, block, addresses, run, &hidden);
  vyc_exec *exec = exec_of(plan, slot);
  if (exec == NULL || !vyc__exec_claim(exec))
    return vyc__launch_once(plan, block, run->grid, stream);
  const vyc_status status = vyc__exec_launch(exec, plan, block, run->grid, stream);
  vyc__exec_unclaim(exec);
  return status;
}

static vyc_status launch(vyc_plan *plan, const vyc_run *run) {
  uint64_t addresses[VYC_MAX_BINDINGS];
  CUstream stream = NULL;
  uint32_t slot = VYC_SLOT_MAIN;
  VYC_TRY(check(plan, run));
  VYC_TRY(vyc__stream_of(plan->child.context, &stream, &slot, run->stream));
  VYC_TRY(ready_buffers(plan, run, addresses, stream, slot));
  if (vyc__grid_is_empty(run->grid)) return VYC_OK;
  vyc__cooperative_begin(plan);
  const vyc_status status = launch_block(plan, run, addresses, stream, slot);
  vyc__cooperative_end(plan);
  return status;
}

vyc_status vyc_plan_launch(vyc_plan *plan, const vyc_run *run) {
  VYC_REQUIRE(plan != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(plan->child.context, &scope));
  const vyc_status status = launch(plan, run);
  vyc__leave(plan->child.context, &scope);
  return status;
}

/* ---- assertions of asynchronous launches ----------------------------------------------------- */

#define TRIES 1000 /* before a record that a thread is at is left for the next look */

/* Key and index as one thread of the kernel wrote them, and the record preset again; false when
 * there is nothing to take. A writer stores the key before the index, both under the lock, so an
 * index that was read between two looks at the same key, with the lock seen free after the first,
 * is that key's. No atomic of the host needs to exclude one of the device: across PCIe none does.
 */
static bool take_record(uint64_t *cell, uint64_t *report_out, uint64_t *index_out) {
  for (int i = 0; i < TRIES; i++) {
    uint64_t key = __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    if (key == VYC_REPORT_NONE) return false;
    if ((uint32_t)__atomic_load_n(cell + 2, __ATOMIC_ACQUIRE) != 0) continue;
    const uint64_t index = __atomic_load_n(cell + 1, __ATOMIC_ACQUIRE);
    *report_out = key;
    *index_out = index;
    if (__atomic_compare_exchange_n(cell, &key, VYC_REPORT_NONE, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      return true;
  }
  return false;
}

/* The report of one plan, taken out of its block; entry NULL when there is none. */
static vyc_orphan take_report(const vyc_plan *plan) {
  vyc_orphan found = {VYC_REPORT_NONE, 0, plan->tag, NULL};
  if (plan->report_block == NULL) return found;
  if (take_record(vyc__report_cell(plan->report_block), &found.report, &found.index))
    found.entry = plan->entry;
  return found;
}

/* Caller holds children_lock. The first report found, the others stay for the next look. */
static vyc_orphan find_report(vyc_context *context) {
  vyc_orphan found = context->orphan;
  if (found.entry != NULL) {
    context->orphan.entry = NULL;
    atomic_fetch_sub(&context->report_plans, 1);
    return found;
  }
  for (const vyc_plan *plan = context->plans; plan != NULL; plan = plan->next_plan) {
    const vyc_orphan taken = take_report(plan);
    if (taken.entry != NULL) return taken;
  }
  return found;
}

vyc_status vyc__check_reports(vyc_context *context) {
  if (VYC_LIKELY(atomic_load_explicit(&context->report_plans, memory_order_relaxed) == 0))
    return VYC_OK;
  pthread_mutex_lock(&context->children_lock);
  const vyc_orphan found = find_report(context);
  pthread_mutex_unlock(&context->children_lock);
  return found.entry == NULL ? VYC_OK
                             : vyc__fail_assert(found.report, found.index, found.tag, found.entry);
}

void vyc__report_retire(vyc_plan *plan) {
  vyc_context *context = plan->child.context;
  vyc_block *block = plan->report_block;
  if (block == NULL) return;
  const bool used = atomic_load_explicit(&plan->asynchronous, memory_order_relaxed);
  if (used) vyc__settle(context);
  pthread_mutex_lock(&context->children_lock);
  const vyc_orphan found = take_report(plan);
  plan->report_block = NULL;
  if (found.entry != NULL && context->orphan.entry == NULL)
    context->orphan = found;
  else
    atomic_fetch_sub(&context->report_plans, 1);
  pthread_mutex_unlock(&context->children_lock);
  /* Launches on any stream may have written to it. */
  const uint64_t used_on = used ? UINT64_C(1) << VYC_SLOT_OTHER : 0;
  vyc__pool_give(context, &context->pinned_pool, block, used_on);
}

/* ---- bound calls ----------------------------------------------------------------------------- */

struct vyc_call {
  vyc_child child;
  vyc_plan *plan;
  vyc_stream *stream; /* NULL: the context's own */
  vyc_exec exec;
  vyc_run run;             /* owns the arrays it points to */
  vyc_argument *arguments; /* buffers are held */
  uint64_t *scalars;
  uint8_t *block;
};

static void call_destroy(vyc_child *child) {
  vyc__exec_destroy(&((vyc_call *)child)->exec, child->context->driver);
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
  vyc__block_write(plan, call->block, addresses, &call->run, hidden);
}

static vyc_status call_make(vyc_call **call_out, vyc_plan *plan, const vyc_run *run) {
  vyc_context *context = plan->child.context;
  CUstream stream;
  uint32_t slot;
  vyc_hidden hidden;
  VYC_TRY(vyc__stream_of(context, &stream, &slot, run->stream));
  VYC_TRY(hidden_of(plan, &hidden, stream, slot));
  vyc_call *call = call_alloc(plan);
  if (call == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  vyc__child_retain(&plan->child);
  call->stream = run->stream;
  if (call->stream != NULL) vyc__child_retain(&call->stream->child);
  set(call, run, &hidden);
  vyc__child_add(&call->child, context, call_destroy, call_finish);
  *call_out = call;
  return VYC_OK;
}

vyc_status vyc_call_create(vyc_call **call_out, vyc_plan *plan, const vyc_run *run) {
  VYC_REQUIRE(call_out != NULL && plan != NULL);
  *call_out = NULL;
  VYC_TRY(check(plan, run));
  vyc_scope scope;
  VYC_TRY(vyc__enter(plan->child.context, &scope));
  const vyc_status status = call_make(call_out, plan, run);
  vyc__leave(plan->child.context, &scope);
  return status;
}

vyc_status vyc_call_set(vyc_call *call, const vyc_run *run) {
  VYC_REQUIRE(call != NULL);
  vyc_plan *plan = call->plan;
  VYC_TRY(check(plan, run));
  VYC_REQUIRE(run->stream == call->stream);
  vyc_buffer *old[VYC_MAX_BINDINGS];
  vyc_scope scope;
  VYC_TRY(vyc__enter(plan->child.context, &scope));
  CUstream stream = NULL;
  uint32_t slot = VYC_SLOT_MAIN;
  vyc_hidden hidden = {0, 0};
  vyc_status status = vyc__stream_of(plan->child.context, &stream, &slot, run->stream);
  if (status == VYC_OK) status = hidden_of(plan, &hidden, stream, slot);
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
  CUstream stream = NULL;
  uint32_t slot = VYC_SLOT_MAIN;
  VYC_TRY(vyc__stream_of(plan->child.context, &stream, &slot, call->stream));
  VYC_TRY(ready_buffers(plan, &call->run, addresses, stream, slot));
  if (vyc__grid_is_empty(call->run.grid)) return VYC_OK;
  uint64_t barrier; /* the address that is in the block already */
  vyc__cooperative_begin(plan);
  vyc_status status = vyc__barrier_of(plan, &barrier, stream, slot);
  if (status == VYC_OK)
    status = vyc__exec_launch(&call->exec, plan, call->block, call->run.grid, stream);
  vyc__cooperative_end(plan);
  return status;
}

vyc_status vyc_call_run(vyc_call *call) {
  VYC_REQUIRE(call != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(call->child.context, &scope));
  vyc__exec_claim_wait(&call->exec);
  const vyc_status status = call_launch(call);
  vyc__exec_unclaim(&call->exec);
  vyc__leave(call->child.context, &scope);
  return status;
}

void vyc_call_release(vyc_call *call) {
  if (call != NULL) vyc__child_release(&call->child);
}
