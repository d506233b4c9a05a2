/* One call: its arguments, its way through the ring, and its results. */
#include <stdlib.h>
#include <string.h>

#include "worker.h"

#define CLEAR_MOST (WORKER_SLOTS - 1)
/* As SPIN_NS and the like in submission/wait.c. */
#define SPIN_NS UINT64_C(200000)
#define LOOKS_AT_END 16u /* looks for the answer between two looks whether the worker has ended */
#define LOOKS_UNASKED                                                                              \
  256u /* the same for queries of the driver, which alone can report a fault                       \
        */
#define UNSPECIFIED_BYTE 0xa5 /* as VYC_UNSPECIFIED_BYTE of submissions */

/* ---- calls that nobody has ------------------------------------------------------------------- */

void vyc__call_empty(vyc_worker_call *call) {
  vyc_context *context = call->worker->child.context;
  atomic_store_explicit(&call->flight->entry.note, 0, memory_order_relaxed);
  if (call->slab != NULL) vyc__pool_give(context, vyc__pinned_pool(context), call->slab, 0);
  call->slab = NULL;
  while (call->held_count > 0) vyc_buffer_release(call->held[--call->held_count]);
}

static vyc_status call_make(vyc_worker *worker, vyc_worker_call **call_out) {
  const size_t bindings = worker->most_bindings;
  const size_t results = bindings * sizeof(struct worker_result);
  const size_t addresses = bindings * sizeof(uint64_t), held = bindings * sizeof(vyc_buffer *);
  const size_t clears = (bindings + 1) / 2 * 2 * sizeof(uint32_t);
  vyc_worker_call *call =
      calloc(1, sizeof *call + results + addresses + held + clears + worker->block_bytes);
  if (call == NULL) return vyc__fail(VYC_E_MEMORY, "worker", "out of host memory");
  uint8_t *tail = (uint8_t *)(call + 1);
  call->results = (struct worker_result *)(void *)tail;
  call->addresses = (uint64_t *)(void *)(tail + results);
  call->held = (vyc_buffer **)(void *)(tail + results + addresses);
  call->clears = (uint32_t *)(void *)(tail + results + addresses + held);
  call->block = tail + results + addresses + held + clears;
  call->worker = worker;
  call->flight = vyc__flight_take(&worker->child.context->history);
  if (call->flight == NULL) {
    free(call);
    return VYC_E_MEMORY;
  }
  atomic_init(&call->state, CALL_CLAIMED);
  call->next = atomic_load(&worker->calls);
  while (!atomic_compare_exchange_weak(&worker->calls, &call->next, call)) {
  }
  *call_out = call;
  return VYC_OK;
}

static bool has_ended(const vyc_worker_call *call) {
  return !call->in_ring || vyc__ring_is_answered(call->worker, call->number);
}

/* A call in flight that has ended, whose results are collected for its ticket. */
static bool reclaim(vyc_worker_call *call) {
  int expected = CALL_FLIGHT;
  if (!atomic_compare_exchange_strong(&call->state, &expected, CALL_CLAIMED)) return false;
  if (!has_ended(call)) {
    vyc__call_set(call, CALL_FLIGHT);
    return false;
  }
  vyc__call_collect(call, VYC_OK);
  expected = CALL_FREE;
  return atomic_compare_exchange_strong(&call->state, &expected, CALL_CLAIMED);
}

vyc_status vyc__call_take(vyc_worker *worker, vyc_worker_call **call_out) {
  vyc_worker_call *first = atomic_load_explicit(&worker->calls, memory_order_acquire);
  for (vyc_worker_call *call = first; call != NULL; call = call->next) {
    int state = atomic_load_explicit(&call->state, memory_order_relaxed);
    if (state == CALL_FREE && atomic_compare_exchange_strong(&call->state, &state, CALL_CLAIMED)) {
      *call_out = call;
      return VYC_OK;
    }
  }
  for (vyc_worker_call *call = first; call != NULL; call = call->next)
    if (atomic_load_explicit(&call->state, memory_order_relaxed) == CALL_FLIGHT && reclaim(call)) {
      *call_out = call;
      return VYC_OK;
    }
  return call_make(worker, call_out);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static uint64_t bytes_of(const vyc_prepared *prepared, const vyc_run *run, uint32_t i) {
  return run->arguments[i].count * prepared->bindings[i].element_bytes;
}

static vyc_status count_slab(const vyc_prepared *prepared, const vyc_run *run,
                             uint64_t *bytes_out) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < run->argument_count; i++) {
    if (!vyc__is_host(&run->arguments[i])) continue;
    const uint64_t bytes = bytes_of(prepared, run, i);
    all = bytes > VYC_WORKER_CALL_BYTES ? bytes : all + vyc__align_up(bytes, VYC_ALIGN);
    if (all > VYC_WORKER_CALL_BYTES)
      return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                       "kernel %s: a call of a worker takes at most %llu bytes of host arrays: use "
                       "device arrays, or the kernel itself",
                       prepared->name, (unsigned long long)VYC_WORKER_CALL_BYTES);
  }
  *bytes_out = all;
  return VYC_OK;
}

/* An array of the host: it is where the kernel finds it, and its result comes from there. */
static void stage(vyc_worker_call *call, const vyc_run *run, uint32_t i, uint64_t address) {
  const vyc_prepared *prepared = call->prepared;
  const vyc_argument *argument = &run->arguments[i];
  const vyc_binding *binding = &prepared->bindings[i];
  const uint64_t bytes = bytes_of(prepared, run, i);
  void *at = (void *)(uintptr_t)address;
  call->addresses[i] = address;
  if (bytes == 0) return;
  if (binding->role != VYC_ROLE_OUT)
    memcpy(at, argument->data, bytes);
  else if (vyc__leaves_gaps(prepared, i, run))
    memset(at, (binding->flags & VYC_BINDING_UNSPECIFIED) != 0 ? UNSPECIFIED_BYTE : 0, bytes);
  if (binding->role != VYC_ROLE_IN)
    call->results[call->result_count++] = (struct worker_result){argument->result, at, bytes};
}

static vyc_status not_begun(const vyc_worker_call *call) {
  return vyc__fail(VYC_E_TIMEOUT, "worker",
                   "kernel %s has not begun: other work on its arrays has not ended in the time "
                   "allowed",
                   call->prepared->name);
}

/* Waits for work on a buffer that was submitted before. The main stream is asked once for all:
 * *main_out. */
static vyc_status settle(const vyc_worker_call *call, vyc_buffer *buffer, int64_t timeout_ns,
                         bool *main_out) {
  const uint64_t main_bit = UINT64_C(1) << VYC_SLOT_MAIN, marks = vyc__buffer_marks(buffer);
  if (VYC_UNLIKELY(buffer->source != NULL))
    return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                     "kernel %s: memory of another library with a stream of its own: launch the "
                     "kernel on it, or copy it",
                     call->prepared->name);
  *main_out |= (buffer->block != NULL && buffer->block->recycled) || (marks & main_bit) != 0;
  if (VYC_UNLIKELY((marks & ~main_bit) != 0)) {
    vyc_context *context = buffer->child.context;
    const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
    const vyc_status status =
        vyc__slots_finish(context, marks & ~main_bit, &buffer->far, timeout_ns);
    vyc__capture_restore(context->driver, mode);
    if (status != VYC_OK) return status == VYC_NOT_READY ? not_begun(call) : status;
  }
  return vyc__buffer_wait(buffer);
}

static vyc_status use_buffer(vyc_worker_call *call, const vyc_run *run, uint32_t i,
                             bool *main_out) {
  const vyc_argument *argument = &run->arguments[i];
  call->addresses[i] = argument->buffer->address + argument->offset;
  if (bytes_of(call->prepared, run, i) == 0) return VYC_OK;
  if (VYC_UNLIKELY(vyc__needs_clear(call->prepared, i, run))) {
    if (call->worker->clearing == NULL || call->clear_count == CLEAR_MOST)
      return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                       "kernel %s: the worker cannot clear so many results in device memory",
                       call->prepared->name);
    call->clears[call->clear_count++] = i;
  }
  return settle(call, argument->buffer, run->timeout_ns, main_out);
}

static vyc_status place_arguments(vyc_worker_call *call, const vyc_run *run) {
  vyc_context *context = call->worker->child.context;
  uint64_t bytes = 0, staged = 0;
  bool main = false;
  VYC_TRY(count_slab(call->prepared, run, &bytes));
  if (bytes > 0) VYC_TRY(vyc__pool_take(context, vyc__pinned_pool(context), &call->slab, bytes));
  uint64_t address = bytes > 0 ? call->slab->address : 0;
  for (uint32_t i = 0; i < run->argument_count; i++) {
    if (vyc__is_host(&run->arguments[i])) {
      stage(call, run, i, address);
      const uint64_t own = bytes_of(call->prepared, run, i);
      if (call->prepared->bindings[i].role != VYC_ROLE_OUT) staged += own;
      address += vyc__align_up(own, VYC_ALIGN);
    } else {
      VYC_TRY(use_buffer(call, run, i, &main));
    }
  }
  vyc__count(&context->counters, staged_in_bytes, staged);
  if (!main) return VYC_OK;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const vyc_status status = vyc__stream_finish(context, context->main, run->timeout_ns);
  vyc__capture_restore(context->driver, mode);
  return status == VYC_NOT_READY ? not_begun(call) : status;
}

vyc_status vyc__call_prepare(vyc_worker_call *call, uint32_t kernel, const vyc_run *run) {
  call->prepared = call->worker->kernels[kernel];
  call->in_ring = call->dropped = false;
  call->result_count = call->clear_count = 0;
  call->looks = 0;
  const vyc_status status = place_arguments(call, run);
  if (VYC_UNLIKELY(status != VYC_OK)) {
    vyc__call_empty(call);
    vyc__call_set(call, CALL_FREE);
    return status;
  }
  const vyc_hidden hidden = {0, 0};
  vyc__block_write(call->prepared, call->block, call->addresses, run, &hidden);
  const vyc_note note = vyc__note_of(&call->worker->child.context->history, call->prepared->noted,
                                     vyc__origin_of(run));
  vyc__entry_write(&call->flight->entry, note, call->block);
  return VYC_OK;
}

/* ---- through the ring ------------------------------------------------------------------------ */

static void put_clear(vyc_worker_call *call, uint32_t kernel, const vyc_run *run, uint32_t i) {
  vyc_worker *worker = call->worker;
  const vyc_prepared *clearing = worker->clearing;
  const uint64_t bytes = bytes_of(call->prepared, run, i);
  const vyc_argument argument = {.count = bytes};
  const vyc_run clear = {.arguments = &argument};
  const vyc_hidden hidden = {0, 0};
  uint8_t block[64] = {0};
  const uint32_t grid[3] = {(uint32_t)((bytes + clearing->block[0] - 1) / clearing->block[0]), 1,
                            1};
  vyc__block_write(clearing, block, &call->addresses[i], &clear, &hidden);
  call->number = vyc__ring_put(worker, kernel, grid, block, clearing->parameter_bytes);
  call->in_ring = true;
}

/* The caller has the claim, and there is room. If the worker cannot be launched, nobody has seen
 * the slots, and they are free again: a later launch, for a call before these, must not find them.
 */
static vyc_status put(vyc_worker_call *call, uint32_t kernel, const vyc_run *run) {
  vyc_worker *worker = call->worker;
  const uint32_t before = worker->next;
  for (uint32_t i = 0; i < call->clear_count; i++)
    put_clear(call, worker->kernel_count, run, call->clears[i]);
  if (VYC_LIKELY(!vyc__grid_is_empty(run->grid))) {
    call->number =
        vyc__ring_put(worker, kernel, run->grid, call->block, call->prepared->parameter_bytes);
    call->in_ring = true;
  }
  if (!call->in_ring) return VYC_OK;
  const vyc_status status = vyc__ring_go_on(worker);
  if (VYC_UNLIKELY(status != VYC_OK)) {
    vyc__ring_take_back(worker, before);
    call->in_ring = false;
  }
  return status;
}

static vyc_status try_put(vyc_worker_call *call, uint32_t kernel, const vyc_run *run) {
  vyc_worker *worker = call->worker;
  vyc__claim_take(&worker->claim);
  vyc_status status;
  if (VYC_UNLIKELY(atomic_load(&worker->closed))) {
    status = vyc__fail(VYC_E_UNAVAILABLE, "worker", "the worker is closed");
  } else if (VYC_LIKELY(vyc__ring_has_room(worker, call->clear_count + 1))) {
    status = put(call, kernel, run);
  } else {
    status = vyc__ring_go_on(worker);
    if (status == VYC_OK) status = VYC_NOT_READY;
  }
  vyc__claim_drop(&worker->claim);
  return status;
}

vyc_status vyc__call_submit(vyc_worker_call *call, uint32_t kernel, const vyc_run *run,
                            int64_t timeout_ns) {
  vyc_context *context = call->worker->child.context;
  vyc_status status = try_put(call, kernel, run);
  if (VYC_UNLIKELY(status == VYC_NOT_READY)) {
    vyc_pace pace = vyc__pace_begin(timeout_ns, SPIN_NS);
    do {
      status = vyc__check_usable(context);
      if (status == VYC_OK) status = vyc__pace(context, &pace);
      if (status == VYC_OK)
        status = try_put(call, kernel, run);
      else if (status == VYC_NOT_READY)
        status = vyc__fail(VYC_E_TIMEOUT, "worker",
                           "kernel %s: %u calls were in flight and none has ended in the time "
                           "allowed",
                           call->prepared->name, WORKER_SLOTS);
    } while (status == VYC_NOT_READY);
  }
  if (VYC_LIKELY(status == VYC_OK)) {
    atomic_fetch_add_explicit(&call->worker->call_count, 1, memory_order_relaxed);
    return VYC_OK;
  }
  vyc__call_empty(call);
  vyc__call_set(call, CALL_FREE);
  return status;
}

/* ---- until it has ended ---------------------------------------------------------------------- */

/* The worker has ended before it took the call. */
static vyc_status begin_again(vyc_worker_call *call) {
  vyc_worker *worker = call->worker;
  vyc_context *context = worker->child.context;
  if (vyc__worker_is_paused(worker)) {
    if (!atomic_load(&context->closed)) return VYC_OK;
    return vyc__fail(VYC_E_UNAVAILABLE, "worker", "the device was closed before the call began");
  }
  if (!vyc__claim_try(&worker->claim)) return VYC_OK; /* whoever has it launches it, or lets go */
  vyc_status status = VYC_OK;
  if (!vyc__ring_is_answered(worker, call->number)) status = vyc__ring_go_on(worker);
  vyc__claim_drop(&worker->claim);
  return status;
}

vyc_status vyc__call_look(vyc_worker_call *call) {
  const vyc_worker *worker = call->worker;
  if (has_ended(call)) return VYC_OK;
  if (++call->looks % LOOKS_AT_END != 0) return VYC_NOT_READY;
  if (VYC_UNLIKELY(!vyc__worker_is_running(worker))) VYC_TRY(begin_again(call));
  return call->looks % LOOKS_UNASKED == 0 ? vyc__worker_ask(worker) : VYC_NOT_READY;
}

vyc_status vyc__call_wait(vyc_worker_call *call, int64_t timeout_ns) {
  vyc_status status = vyc__call_look(call);
  if (status != VYC_NOT_READY) return status;
  vyc_context *context = call->worker->child.context;
  vyc_pace pace = vyc__pace_begin(timeout_ns, SPIN_NS);
  if (timeout_ns == 0) call->looks |= LOOKS_AT_END - 1; /* callers that do not wait look rarely */
  for (;;) {
    status = vyc__call_look(call);
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__pace(context, &pace));
    if (vyc__pace_sleeps(&pace)) call->looks |= LOOKS_UNASKED - 1; /* ask the driver each time */
  }
}

vyc_status vyc__call_collect(vyc_worker_call *call, vyc_status status) {
  vyc_context *context = call->worker->child.context;
  const bool ended = status == VYC_OK;
  uint64_t bytes = 0;
  for (uint32_t i = 0; ended && !call->dropped && i < call->result_count; i++) {
    memcpy(call->results[i].to, call->results[i].from, call->results[i].bytes);
    bytes += call->results[i].bytes;
  }
  vyc__count(&context->counters, staged_out_bytes, bytes);
  call->dropped = true; /* reported once; after a failed query the kernel may still run */
  vyc_ticket *ticket = call->ticket;
  call->ticket = NULL;
  if (ended) vyc__call_empty(call);
  vyc__call_set(call, ended ? CALL_FREE : CALL_FLIGHT);
  if (ticket != NULL) vyc__ticket_end(ticket, status);
  return status;
}
