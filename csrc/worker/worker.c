/* The life of a worker: creation, close, its end. */
#include <stdlib.h>
#include <string.h>

#include "worker.h"

/* ---- the end --------------------------------------------------------------------------------- */

/* The worker is not on the device. A call that it did not take never runs. */
static void end_call(vyc_worker_call *call) {
  for (;;) {
    int state = atomic_load(&call->state);
    if (state == CALL_FREE) break;
    if (state == CALL_FLIGHT &&
        atomic_compare_exchange_strong(&call->state, &state, CALL_CLAIMED)) {
      const bool ended = vyc__parts_are_answered(call->parts, call->part_count);
      vyc_ticket *ticket = call->ticket;
      call->ticket = NULL;
      for (uint32_t i = 0; ended && !call->dropped && i < call->result_count; i++)
        memcpy(call->results[i].to, call->results[i].from, call->results[i].bytes);
      if (ticket != NULL)
        vyc__ticket_end(
            ticket,
            ended ? VYC_OK
                  : vyc__fail(VYC_E_UNAVAILABLE, "close",
                              "device %d or the worker was closed: close it after the last wait",
                              call->worker->child.context->caps.ordinal));
      break;
    }
    vyc__sleep_us(VYC_SLEEP_MIN_US);
  }
  vyc__call_end(call);
}

static void give_back(vyc_worker *worker) {
  vyc_context *context = worker->child.context;
  for (vyc_worker_call *call = atomic_load(&worker->calls); call != NULL; call = call->next) {
    end_call(call);
    vyc__flight_give(&context->history, call->flight);
  }
  EACH_RING(ring, worker) {
    if (ring->stream != NULL) context->driver->cuStreamDestroy(ring->stream);
    ring->stream = NULL;
  }
  if (worker->behind != NULL) context->driver->cuStreamDestroy(worker->behind);
  worker->behind = NULL;
  vyc__pool_give_used(context, vyc__pinned_pool(context), worker->memory, worker->awaited, NULL);
  if (worker->more != NULL) vyc__pool_give(context, vyc__pinned_pool(context), worker->more, 0);
}

/* After a stop with this status. Where a query failed, the streams of the worker are asked in other
 * ways: the context does not list them, so that its streams say nothing of them. */
static bool await_end(vyc_worker *worker, vyc_status status) {
  vyc_context *context = worker->child.context;
  if (status == VYC_OK || status == VYC_NOT_READY) return vyc__await_end_after(context, status);
  bool ended = true;
  EACH_RING(ring, worker)
  if (ring->stream != NULL) ended &= vyc__stream_await_end(context, ring->stream);
  if (worker->behind != NULL) ended &= vyc__stream_await_end(context, worker->behind);
  return ended;
}

static void worker_destroy(vyc_child *child) {
  vyc_worker *worker = (vyc_worker *)child;
  vyc_context *context = child->context;
  vyc_error failure;
  vyc__error_save(&failure);
  const vyc_status status = vyc__worker_stop_for_good(worker, vyc__patience(context));
  const bool ended = await_end(worker, status);
  if (ended) {
    give_back(worker);
    atomic_fetch_sub(&context->worker_count, 1);
  }
  child->has_leaked = !ended;
  vyc__error_restore(&failure);
}

static void worker_finish(vyc_child *child) {
  vyc_worker *worker = (vyc_worker *)child;
  for (vyc_worker_call *call = atomic_load(&worker->calls), *next; call != NULL; call = next) {
    next = call->next;
    free(call);
  }
  for (uint32_t i = 0; i < worker->kernel_count; i++) vyc_prepared_release(worker->kernels[i]);
  vyc_prepared_release(worker->clearing);
  vyc_prepared_release(worker->entry);
  free(worker->kernels);
  free(worker);
}

static void worker_reap(vyc_child *child) {
  give_back((vyc_worker *)child);
  worker_finish(child);
}

static const vyc_child_kind worker_kind = {
    .destroy = worker_destroy, .finish = worker_finish, .reap = worker_reap};

/* ---- creation -------------------------------------------------------------------------------- */

static vyc_status check_kernel(const vyc_prepared *kernel, const vyc_prepared *entry) {
  VYC_REQUIRE_IN("worker", kernel != NULL);
  VYC_REQUIRE_IN("worker", kernel->child.context == entry->child.context);
  if (kernel->has_report || kernel->cooperative || kernel->has_barrier || kernel->prints)
    return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                     "kernel %s has checks, grid barriers or prints, which a worker cannot run: "
                     "launch it",
                     kernel->name);
  VYC_REQUIRE_IN("worker", kernel->parameter_bytes <= WORKER_MORE_BYTES);
  return VYC_OK;
}

/* The device compares them as signed numbers. */
static vyc_status check_times(const vyc_worker_desc *desc) {
  VYC_REQUIRE_IN("worker", desc->idle_ns > 0 && desc->idle_ns <= INT64_MAX);
  const uint64_t busy_ns = desc->busy_ns;
  if (busy_ns == 0 || (busy_ns >= WORKER_BUSY_LEAST_NS && busy_ns <= INT64_MAX)) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "worker",
                   "busy_ns is %llu: give 0, which means %llu, or a value from %llu to INT64_MAX",
                   (unsigned long long)busy_ns, (unsigned long long)WORKER_BUSY_NS,
                   (unsigned long long)WORKER_BUSY_LEAST_NS);
}

static vyc_status check_desc(const vyc_prepared *entry, const vyc_worker_desc *desc) {
  VYC_REQUIRE_IN("worker", desc != NULL && desc->struct_size >= sizeof *desc);
  if (desc->kernel_count < 1 || desc->kernel_count > VYC_WORKER_MOST_KERNELS)
    return vyc__fail(VYC_E_INVALID, "worker", "kernel_count is %u: a worker has 1 to %u kernels",
                     desc->kernel_count, VYC_WORKER_MOST_KERNELS);
  VYC_REQUIRE_IN("worker", desc->kernels != NULL);
  VYC_TRY(check_times(desc));
  VYC_REQUIRE_IN("worker", desc->blocks <= WORKER_MOST_BLOCKS);
  VYC_REQUIRE_IN("worker", (uint64_t)entry->block[0] * entry->block[1] * entry->block[2] >= 32);
  for (uint32_t i = 0; i < desc->kernel_count; i++) VYC_TRY(check_kernel(desc->kernels[i], entry));
  if (desc->clearing == NULL) return VYC_OK;
  VYC_TRY(check_kernel(desc->clearing, entry));
  VYC_REQUIRE_IN("worker", desc->clearing->binding_count == 1 && desc->clearing->scalar_count == 0);
  VYC_REQUIRE_IN("worker", desc->clearing->parameter_bytes <= 64);
  return VYC_OK;
}

static void measure(vyc_worker *worker, const vyc_prepared *kernel, uint32_t *most_bytes) {
  if (kernel->binding_count > worker->most_bindings) worker->most_bindings = kernel->binding_count;
  if (kernel->block_bytes > worker->block_bytes) worker->block_bytes = kernel->block_bytes;
  if (kernel->parameter_bytes > *most_bytes) *most_bytes = kernel->parameter_bytes;
}

static vyc_status take_resources(vyc_worker *worker, vyc_context *context, uint32_t most_bytes) {
  VYC_CU_RESULT;
  vyc_pool *pool = vyc__pinned_pool(context);
  const uint64_t bytes = vyc__ring_bytes(), more = (uint64_t)WORKER_SLOTS * WORKER_MORE_BYTES;
  VYC_TRY(vyc__pool_take(context, pool, &worker->memory, bytes * worker->ring_count));
  if (most_bytes > WORKER_SLOT_BYTES)
    VYC_TRY(vyc__pool_take(context, pool, &worker->more, more * worker->ring_count));
  for (uint32_t i = 0; i < worker->ring_count; i++) {
    vyc_ring *ring = &worker->rings[i];
    ring->worker = worker;
    ring->next = &worker->next[i];
    ring->slots = worker->memory->address + i * bytes;
    ring->more = worker->more == NULL ? ring->slots : worker->more->address + i * more;
  }
  CUstream made = NULL;
  VYC_TRY(VYC_CU(context, cuStreamCreate, &made, CU_STREAM_NON_BLOCKING));
  worker->rings[0].stream = made;
  return VYC_OK;
}

static void undo_resources(vyc_worker *worker, vyc_context *context) {
  vyc_pool *pool = vyc__pinned_pool(context);
  if (worker->more != NULL) vyc__pool_give(context, pool, worker->more, 0);
  if (worker->memory != NULL) vyc__pool_give(context, pool, worker->memory, 0);
}

static vyc_status create(vyc_worker *worker, vyc_context *context, const vyc_worker_desc *desc) {
  uint32_t most_bytes = 0;
  worker->kernels = calloc(desc->kernel_count, sizeof(vyc_prepared *));
  if (worker->kernels == NULL) return vyc__fail(VYC_E_MEMORY, "worker", "out of host memory");
  for (uint32_t i = 0; i < desc->kernel_count; i++) measure(worker, desc->kernels[i], &most_bytes);
  const vyc_status status = take_resources(worker, context, most_bytes);
  if (status != VYC_OK) {
    undo_resources(worker, context);
    free(worker->kernels);
    return status;
  }
  worker->kernel_count = desc->kernel_count;
  for (uint32_t i = 0; i < desc->kernel_count; i++) {
    worker->kernels[i] = desc->kernels[i];
    vyc__child_retain(&desc->kernels[i]->child);
  }
  worker->clearing = desc->clearing;
  if (desc->clearing != NULL) vyc__child_retain(&desc->clearing->child);
  vyc__child_retain(&worker->entry->child);
  worker->idle_ns = desc->idle_ns;
  worker->busy_ns = desc->busy_ns == 0 ? WORKER_BUSY_NS : desc->busy_ns;
  static _Atomic uint64_t made;
  worker->id = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
  EACH_RING(ring, worker) vyc__ring_begin(ring, desc->first);
  vyc__child_add(&worker->child, context, &worker_kind);
  atomic_fetch_add(&context->worker_count, 1);
  return VYC_OK;
}

vyc_status vyc_worker_create(vyc_worker **worker_out, vyc_prepared *entry,
                             const vyc_worker_desc *desc) {
  VYC_REQUIRE(worker_out != NULL && entry != NULL);
  *worker_out = NULL;
  VYC_TRY(check_desc(entry, desc));
  vyc_context *context = entry->child.context;
  const uint32_t rings = desc->blocks == 0 ? 1 : desc->blocks;
  const size_t bytes = sizeof(vyc_worker) + rings * sizeof(vyc_ring);
  vyc_worker *worker = aligned_alloc(VYC_CACHE_LINE, bytes);
  if (worker == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  memset(worker, 0, bytes);
  worker->entry = entry;
  worker->ring_count = rings;
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = create(worker, context, desc);
    vyc__leave(context, &scope);
  }
  if (status == VYC_OK)
    *worker_out = worker;
  else
    free(worker);
  return status;
}

void vyc_worker_release(vyc_worker *worker) {
  if (worker != NULL) vyc__child_release(&worker->child);
}

/* ---- by the caller --------------------------------------------------------------------------- */

vyc_status vyc_worker_close(vyc_worker *worker, int64_t timeout_ns) {
  VYC_REQUIRE(worker != NULL);
  vyc_context *context = worker->child.context;
  if (vyc__is_forked(context)) return VYC_OK;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_pace pace = vyc__pace_begin(timeout_ns, 0);
  vyc__claim_take(&worker->claim); /* a thread that has it may not have seen that it is closed */
  atomic_store(&worker->closed, true);
  vyc__claim_drop(&worker->claim);
  atomic_store(&worker->pauses, 0); /* what was submitted meanwhile is finished too */
  vyc_status status = vyc__worker_finish(worker, &pace);
  if (status == VYC_OK) status = vyc__worker_pause(worker, vyc__pace_left(&pace));
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_worker_stats_get(vyc_worker *worker, vyc_worker_stats *stats_out) {
  VYC_REQUIRE(worker != NULL && stats_out != NULL);
  VYC_REQUIRE(stats_out->struct_size >= sizeof(uint32_t));
  VYC_TRY(vyc__check_usable(worker->child.context));
  uint32_t running = 0;
  vyc__claim_take(&worker->claim);
  EACH_RING(ring, worker) {
    vyc__ring_note_end(ring);
    running += vyc__ring_is_running(ring);
  }
  const uint64_t calls = worker->call_count;
  vyc__claim_drop(&worker->claim);
  const vyc_worker_stats stats = {
      .running = running,
      .calls = calls,
      .launches = atomic_load_explicit(&worker->launch_count, memory_order_relaxed),
      .pauses = atomic_load_explicit(&worker->pause_count, memory_order_relaxed)};
  vyc__struct_out(stats_out, &stats, sizeof stats);
  return VYC_OK;
}

/* ---- for lower rooms ------------------------------------------------------------------------- */

vyc_worker *vyc__worker_next(vyc_context *context, const vyc_worker *after) {
  vyc_worker *found = NULL;
  pthread_mutex_lock(&context->children_lock);
  vyc_child *child = after == NULL ? context->children : after->child.next;
  while (child != NULL && child->kind != &worker_kind) child = child->next;
  if (child != NULL) {
    vyc__child_retain(child); /* never 0: the last reference is dropped under this lock */
    found = (vyc_worker *)child;
  }
  pthread_mutex_unlock(&context->children_lock);
  return found;
}

void vyc__workers_stop(vyc_context *context) {
  vyc__record_keep();
  for (vyc_worker *worker = vyc__worker_next(context, NULL), *next; worker != NULL; worker = next) {
    vyc__worker_stop(worker, vyc__patience(context));
    next = vyc__worker_next(context, worker);
    vyc_worker_release(worker);
  }
  vyc__record_resume();
}

vyc_status vyc__workers_finish(vyc_context *context, int64_t timeout_ns) {
  vyc_pace pace = vyc__pace_begin(timeout_ns, 0);
  vyc_status status = VYC_OK;
  for (vyc_worker *worker = vyc__worker_next(context, NULL), *next; worker != NULL; worker = next) {
    if (status == VYC_OK) status = vyc__worker_finish(worker, &pace);
    next = vyc__worker_next(context, worker);
    vyc_worker_release(worker);
  }
  return status;
}

bool vyc__workers_may_run(vyc_context *context) {
  bool may = false;
  for (vyc_worker *worker = vyc__worker_next(context, NULL), *next; worker != NULL; worker = next) {
    may |= !atomic_load(&worker->closed) && !vyc__worker_is_paused(worker);
    next = vyc__worker_next(context, worker);
    vyc_worker_release(worker);
  }
  return may;
}
