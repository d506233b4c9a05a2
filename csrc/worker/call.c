/* One call: its arguments, its way through the ring, and its results. */
#include <stdlib.h>
#include <string.h>

#include "worker.h"

/* As SPIN_NS and the like in submission/wait.c. */
#define SPIN_NS UINT64_C(200000)
#define LOOKS_AT_END 16u /* looks for the answer between two looks whether the worker has ended */
/* The same for queries of the driver, which alone can report a fault: more than a short call needs,
 * for which a query would take as long as half of the call. */
#define LOOKS_UNASKED 4096u
#define LOOKS_AT_ONCE 8u /* for the answer, between two looks at the clock, which take longer */
#define SLAB_KEPT UINT64_C(65536) /* bytes: a slab up to this stays with its call */

/* ---- calls that nobody has ------------------------------------------------------------------- */

static void give_slab(vyc_worker_call *call) {
  vyc_context *context = call->worker->child.context;
  if (call->slab != NULL) vyc__pool_give(context, vyc__pinned_pool(context), call->slab, 0);
  call->slab = NULL;
}

/* If no driver call can be made, the slab stays. */
static void empty(vyc_worker_call *call) {
  atomic_store_explicit(&call->flight->entry.note, 0, memory_order_relaxed);
  if (VYC_UNLIKELY(call->slab != NULL && call->slab->bytes > SLAB_KEPT) &&
      vyc__worker_enter(call->worker->child.context, call->scope) == VYC_OK)
    give_slab(call);
  while (call->held_count > 0) vyc_buffer_release(call->held[--call->held_count]);
}

static _Atomic(vyc_worker_call *) *spare_of_thread(vyc_worker *worker) {
  return &worker->spares[vyc__thread_number() % WORKER_SPARES].call;
}

void vyc__call_free(vyc_worker_call *call) {
  vyc_worker *worker = call->worker;
  empty(call);
  call->scope = NULL;
  atomic_store_explicit(spare_of_thread(worker), call, memory_order_release);
  vyc__call_set(call, CALL_FREE); /* last: from here on a close need not wait for this thread */
}

void vyc__call_end(vyc_worker_call *call) {
  empty(call);
  give_slab(call);
  vyc__call_set(call, CALL_CLAIMED);
}

static bool has_ended(const vyc_worker_call *call) {
  return vyc__parts_are_answered(call->parts, call->part_count);
}

/* A call that is claimed is not looked at: its thread may change it meanwhile, and notes the end
 * itself. */
static bool is_known_to_have_ended(void *owner) {
  vyc_worker_call *call = owner;
  int expected = CALL_FLIGHT;
  if (!atomic_compare_exchange_strong(&call->state, &expected, CALL_CLAIMED)) return false;
  const bool ended = has_ended(call);
  vyc__call_set(call, CALL_FLIGHT);
  return ended;
}

static const vyc_flight_kind flight_kind = {"a call of a worker", is_known_to_have_ended};

static vyc_status call_make(vyc_worker *worker, vyc_worker_call **call_out) {
  const size_t bindings = worker->most_bindings;
  const size_t results = bindings * sizeof(struct worker_result);
  const size_t addresses = bindings * sizeof(uint64_t), held = bindings * sizeof(vyc_buffer *);
  const size_t takes = bindings * sizeof(struct worker_take);
  const size_t clears = (bindings + 1) / 2 * 2 * sizeof(uint32_t);
  const size_t ranges = worker->ring_count > 1 ? bindings * sizeof(worker_range) : 0;
  const size_t parts = worker->ring_count * sizeof(worker_part);
  vyc_worker_call *call = calloc(1, sizeof *call + results + addresses + held + takes + clears +
                                        2 * ranges + 2 * parts + worker->block_bytes);
  if (call == NULL) return vyc__fail(VYC_E_MEMORY, "worker", "out of host memory");
  uint8_t *tail = (uint8_t *)(call + 1);
  call->results = (struct worker_result *)(void *)tail;
  call->addresses = (uint64_t *)(void *)(tail + results);
  call->held = (vyc_buffer **)(void *)(tail + results + addresses);
  call->takes = (struct worker_take *)(void *)(tail + results + addresses + held);
  call->clears = (uint32_t *)(void *)(tail + results + addresses + held + takes);
  tail += results + addresses + held + takes + clears;
  call->ranges = (worker_range *)(void *)tail;
  call->order.ranges = (worker_range *)(void *)(tail + ranges);
  tail += 2 * ranges;
  call->parts = (worker_part *)(void *)tail;
  call->order.parts = (worker_part *)(void *)(tail + parts);
  call->block = tail + 2 * parts;
  call->worker = worker;
  call->flight = vyc__flight_take(&worker->child.context->history, &flight_kind, call);
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

/* Without the clock, so that an answer is seen as soon as it is there. */
static bool ends_soon(const vyc_worker_call *call) {
  for (uint32_t i = 0; i < LOOKS_AT_ONCE; i++)
    if (has_ended(call)) return true;
  return false;
}

/* A call in flight that has ended, whose results are collected for its ticket. */
static bool reclaim(vyc_worker_call *call, vyc_scope *scope) {
  int expected = CALL_FLIGHT;
  if (!atomic_compare_exchange_strong(&call->state, &expected, CALL_CLAIMED)) return false;
  if (!has_ended(call)) {
    vyc__call_set(call, CALL_FLIGHT);
    return false;
  }
  call->scope = scope;
  vyc__call_collect(call, VYC_OK);
  expected = CALL_FREE;
  return atomic_compare_exchange_strong(&call->state, &expected, CALL_CLAIMED);
}

static bool take_free(vyc_worker_call *call) {
  int state = atomic_load_explicit(&call->state, memory_order_relaxed);
  return state == CALL_FREE && atomic_compare_exchange_strong(&call->state, &state, CALL_CLAIMED);
}

/* Calls are freed only with their worker, so a spare one still is a call, even if another thread
 * has it by now. */
static vyc_status take(vyc_worker *worker, vyc_worker_call **call_out, vyc_scope *scope) {
  vyc_worker_call *spare = atomic_load_explicit(spare_of_thread(worker), memory_order_acquire);
  if (VYC_LIKELY(spare != NULL) && take_free(spare)) {
    *call_out = spare;
    return VYC_OK;
  }
  vyc_worker_call *first = atomic_load_explicit(&worker->calls, memory_order_acquire);
  for (vyc_worker_call *call = first; call != NULL; call = call->next)
    if (take_free(call)) {
      *call_out = call;
      return VYC_OK;
    }
  for (vyc_worker_call *call = first; call != NULL; call = call->next)
    if (atomic_load_explicit(&call->state, memory_order_relaxed) == CALL_FLIGHT &&
        reclaim(call, scope)) {
      *call_out = call;
      return VYC_OK;
    }
  return call_make(worker, call_out);
}

vyc_status vyc__call_take(vyc_worker *worker, vyc_worker_call **call_out, vyc_scope *scope) {
  VYC_TRY(take(worker, call_out, scope));
  (*call_out)->scope = scope;
  return VYC_OK;
}

uint64_t vyc__call_bytes(const vyc_prepared *prepared, const vyc_run *run, uint32_t i) {
  return run->arguments[i].count * prepared->bindings[i].element_bytes;
}

/* ---- through the ring ------------------------------------------------------------------------ */

static void put_clear(vyc_worker_call *call, const vyc_run *run, uint32_t i, bool withheld) {
  const vyc_prepared *clearing = call->worker->clearing;
  const uint64_t bytes = vyc__call_bytes(call->prepared, run, i);
  const vyc_argument argument = {.count = bytes};
  const vyc_run clear = {.arguments = &argument};
  const vyc_hidden hidden = {0, 0};
  uint8_t block[64] = {0};
  const uint32_t grid[3] = {(uint32_t)((bytes + clearing->block[0] - 1) / clearing->block[0]), 1,
                            1};
  vyc__block_write(clearing, block, &call->addresses[i], &clear, &hidden);
  const worker_slot slot = {.kernel = call->worker->kernel_count,
                            .grid = grid,
                            .block = block,
                            .bytes = clearing->parameter_bytes,
                            .withheld = withheld};
  call->parts[0].number = vyc__ring_put(call->parts[0].ring, &slot);
  call->part_count = 1;
  call->slot_count++;
}

static worker_slot slot_of(const vyc_worker_call *call, uint32_t kernel, const vyc_run *run) {
  return (worker_slot){.kernel = kernel,
                       .grid = run->grid,
                       .block = call->block,
                       .bytes = call->prepared->parameter_bytes};
}

/* The caller has the claim, and there is room. All blocks are launched before one of them has a
 * part that it could begin. */
static vyc_status put_parts(vyc_worker_call *call, uint32_t kernel, const vyc_run *run,
                            uint32_t count) {
  worker_slot slot = slot_of(call, kernel, run);
  for (uint32_t i = 0; i < count; i++) VYC_TRY(vyc__ring_go_on(call->parts[i].ring, call->scope));
  slot.others = count - 1;
  for (; slot.part < count; slot.part++)
    call->parts[slot.part].number = vyc__ring_put(call->parts[slot.part].ring, &slot);
  call->part_count = count;
  call->slot_count = 1;
  vyc__worker_order(call);
  vyc__count(&call->worker->child.context->counters, worker_spread_calls, 1);
  return VYC_OK;
}

/* The caller has the claim, and there is room. If the ring cannot be launched, or the first slot
 * cannot be opened, nobody has seen the slots, and they are free again: a later launch, for a call
 * before these, must not find them. */
static vyc_status put(vyc_worker_call *call, uint32_t kernel, const vyc_run *run) {
  vyc_worker *worker = call->worker;
  vyc_ring *ring = call->parts[0].ring;
  const uint32_t before = *ring->next;
  for (uint32_t i = 0; i < call->clear_count; i++)
    put_clear(call, run, call->clears[i], call->is_behind && i == 0);
  if (VYC_LIKELY(!vyc__grid_is_empty(run->grid))) {
    worker_slot slot = slot_of(call, kernel, run);
    slot.withheld = VYC_UNLIKELY(call->is_behind) && call->part_count == 0;
    call->parts[0].number = vyc__ring_put(ring, &slot);
    call->part_count = 1;
    call->slot_count++;
  }
  if (call->part_count == 0) {
    vyc__worker_let_go(call);
    return VYC_OK;
  }
  vyc_status status = vyc__ring_go_on(ring, call->scope);
  if (VYC_UNLIKELY(call->is_behind) && status == VYC_OK)
    status = vyc__call_open_later(call, before);
  if (VYC_UNLIKELY(status != VYC_OK)) {
    vyc__ring_take_back(ring, before);
    call->part_count = call->slot_count = 0;
    return status;
  }
  if (worker->ring_count > 1) vyc__worker_order(call);
  return VYC_OK;
}

/* The caller has the claim. Calls that nobody waits for must go on, for others wait for them. */
static vyc_status go_on_all(vyc_worker_call *call) {
  vyc_worker *worker = call->worker;
  for (uint32_t i = 0; i < worker->ring_count; i++)
    if (!vyc__ring_is_empty(&worker->rings[i]) && !vyc__ring_is_withheld(&worker->rings[i]))
      VYC_TRY(vyc__ring_go_on(&worker->rings[i], call->scope));
  return VYC_NOT_READY;
}

static vyc_status try_put(vyc_worker_call *call, uint32_t kernel, const vyc_run *run) {
  vyc_worker *worker = call->worker;
  uint32_t parts;
  vyc__claim_take(&worker->claim);
  vyc_status status;
  if (VYC_UNLIKELY(atomic_load(&worker->closed)))
    status = vyc__fail(VYC_E_UNAVAILABLE, "worker",
                       "the worker is closed: make another one, or run the kernel");
  else if (VYC_UNLIKELY((parts = vyc__worker_place(call, call->clear_count + 1, run->grid)) == 0))
    status = go_on_all(call);
  else
    status = VYC_LIKELY(parts == 1) ? put(call, kernel, run) : put_parts(call, kernel, run, parts);
  worker->call_count += status == VYC_OK;
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
                           "kernel %s has not begun: it waits for earlier calls, because they use "
                           "the same arrays or there is room for only %u calls, and these have not "
                           "ended in the time allowed: allow more",
                           call->prepared->name, WORKER_ROOM);
    } while (status == VYC_NOT_READY);
  }
  if (VYC_LIKELY(status == VYC_OK)) {
    vyc__count(&context->counters, worker_calls, 1);
    return VYC_OK;
  }
  vyc__claim_take(&call->worker->claim);
  vyc__worker_let_go(call);
  vyc__claim_drop(&call->worker->claim);
  vyc__call_free(call);
  return status;
}

/* ---- until it has ended ---------------------------------------------------------------------- */

/* The block has ended before it took this part of the call. */
static vyc_status begin_again(vyc_worker_call *call, const worker_part *part) {
  vyc_worker *worker = call->worker;
  vyc_context *context = worker->child.context;
  if (atomic_load(&context->worker_pauses) != 0) {
    if (!atomic_load(&context->closed)) return VYC_OK;
    return vyc__fail(
        VYC_E_UNAVAILABLE, "worker",
        "device %d was closed before the call began: wait for calls before it is closed",
        context->caps.ordinal);
  }
  if (vyc__ring_is_withheld(part->ring)) return VYC_OK;
  if (!vyc__claim_try(&worker->claim))
    return VYC_OK; /* the holder launches it, or gives the claim
                      back */
  vyc_status status = VYC_OK;
  if (!vyc__ring_is_answered(part->ring, part->number))
    status = vyc__ring_go_on(part->ring, call->scope);
  vyc__claim_drop(&worker->claim);
  return status;
}

static vyc_status go_on_parts(vyc_worker_call *call) {
  for (const worker_part *part = call->parts; part < call->parts + call->part_count; part++)
    if (VYC_UNLIKELY(!vyc__ring_is_running(part->ring)) &&
        !vyc__ring_is_answered(part->ring, part->number))
      VYC_TRY(begin_again(call, part));
  return VYC_OK;
}

/* A fault ends the whole context, so the stream of any block reports it. */
static vyc_status ask(const vyc_worker_call *call) {
  if (call->is_behind) {
    const vyc_status status = vyc__behind_ask(call->worker, call->scope);
    if (status != VYC_NOT_READY) return status;
  }
  return vyc__ring_ask(call->parts[0].ring, call->scope);
}

vyc_status vyc__call_look(vyc_worker_call *call) {
  if (has_ended(call)) return VYC_OK;
  if (++call->looks % LOOKS_AT_END != 0) return VYC_NOT_READY;
  VYC_TRY(go_on_parts(call));
  return call->looks % LOOKS_UNASKED != 0 ? VYC_NOT_READY : ask(call);
}

vyc_status vyc__call_wait(vyc_worker_call *call, int64_t timeout_ns) {
  vyc_status status = vyc__call_look(call);
  if (status != VYC_NOT_READY) return status;
  vyc_context *context = call->worker->child.context;
  vyc_pace pace = vyc__pace_begin(timeout_ns, SPIN_NS);
  if (timeout_ns == 0) call->looks |= LOOKS_AT_END - 1; /* callers that do not wait look rarely */
  for (;;) {
    if (ends_soon(call)) return VYC_OK;
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
  if (bytes > 0) vyc__count(&context->counters, staged_out_bytes, bytes);
  if (VYC_UNLIKELY(call->take_count > 0) && ended) vyc__call_main_ended(call);
  call->dropped = true; /* reported once; after a failed query the kernel may still run */
  vyc_ticket *ticket = call->ticket;
  call->ticket = NULL;
  if (VYC_UNLIKELY(!ended)) vyc__count(&context->counters, worker_errors, 1);
  if (ended) {
    vyc__call_free(call);
  } else {
    call->scope = NULL;
    vyc__call_set(call, CALL_FLIGHT);
  }
  if (ticket != NULL) vyc__ticket_end(ticket, status);
  return status;
}
