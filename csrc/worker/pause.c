/* How a worker leaves the device, and stays away: at a stop behind the calls that it has been
 * given. */
#include "worker.h"

/* ---- calls that are finished first ----------------------------------------------------------- */

/* Whether all calls up to now have ended; if the block has left some, it is launched for them. */
static vyc_status look_on(vyc_ring *ring, uint32_t last) {
  vyc_status status = VYC_OK;
  if (vyc__ring_is_answered(ring, last)) return VYC_OK;
  if (!vyc__ring_is_running(ring) && !vyc__ring_is_withheld(ring)) {
    vyc__claim_take(&ring->worker->claim);
    if (!vyc__ring_is_answered(ring, last)) status = vyc__ring_go_on(ring, NULL);
    vyc__claim_drop(&ring->worker->claim);
  }
  if (status != VYC_OK) return status;
  if (ring->worker->behind != NULL) {
    status = vyc__behind_ask(ring->worker, NULL);
    if (status != VYC_NOT_READY) return status;
  }
  return vyc__ring_ask(ring, NULL);
}

vyc_status vyc__ring_finish(vyc_ring *ring, uint32_t last, vyc_pace *pace) {
  for (;;) {
    const vyc_status status = look_on(ring, last);
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__pace(ring->worker->child.context, pace));
  }
}

vyc_status vyc__worker_finish(vyc_worker *worker, vyc_pace *pace) {
  EACH_RING(ring, worker) {
    vyc__claim_take(&worker->claim);
    const uint32_t last = vyc__ring_last(ring); /* it is due in each pause that begins later */
    vyc__claim_drop(&worker->claim);
    VYC_TRY(vyc__ring_finish(ring, last, pace));
  }
  return VYC_OK;
}

/* ---- stops ----------------------------------------------------------------------------------- */

static uint32_t give_stop(vyc_ring *ring) {
  vyc_claim *claim = &ring->worker->claim;
  vyc__claim_take(claim);
  vyc__ring_stop(ring);
  const uint32_t due = ring->due;
  vyc__claim_drop(claim);
  return due;
}

static bool is_running(vyc_worker *worker) {
  EACH_RING(ring, worker)
  if (vyc__ring_is_running(ring)) return true;
  return false;
}

static vyc_status leave_device(vyc_worker *worker, int64_t timeout_ns) {
  vyc_context *context = worker->child.context;
  vyc_pace pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  EACH_RING(ring, worker) give_stop(ring);
  /* Waits for their last instructions, or for a fault. */
  EACH_RING(ring, worker)
  if (ring->stream != NULL)
    VYC_TRY(vyc__stream_finish(context, ring->stream, vyc__pace_left(&pace)));
  return vyc__behind_finish(worker, vyc__pace_left(&pace));
}

/* The caller has the claim: whoever had it may have seen no pause, and not launched it yet. Whether
 * it is on the device. */
static bool count_pause(vyc_worker *worker) {
  const bool runs = is_running(worker);
  EACH_RING(ring, worker) vyc__ring_note_end(ring);
  if (!runs) return false;
  atomic_fetch_add_explicit(&worker->pause_count, 1, memory_order_relaxed);
  vyc__count(&worker->child.context->counters, worker_pauses, 1);
  return true;
}

vyc_status vyc__worker_stop(vyc_worker *worker, int64_t timeout_ns) {
  vyc__claim_take(&worker->claim);
  const bool runs = count_pause(worker);
  vyc__claim_drop(&worker->claim);
  return runs ? leave_device(worker, timeout_ns) : vyc__behind_finish(worker, timeout_ns);
}

/* What is left of the calls that are due; the stop behind them comes first, so that others wait. */
static vyc_status finish_due(vyc_ring *ring, vyc_pace *pace) {
  const vyc_worker *worker = ring->worker;
  const vyc_context *context = worker->child.context;
  for (;;) {
    const uint32_t due = give_stop(ring);
    if (atomic_load(&worker->pauses) == 0 || atomic_load(&context->closed)) return VYC_OK;
    const vyc_status status = look_on(ring, due);
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__pace(context, pace));
  }
}

static vyc_status leave_after_due(vyc_worker *worker, int64_t timeout_ns) {
  vyc_pace pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  EACH_RING(ring, worker) VYC_TRY(finish_due(ring, &pace));
  return leave_device(worker, vyc__pace_left(&pace));
}

/* The calls up to now are due, unless there is a pause already, whose end later calls wait for. All
 * blocks get their stop before one of them is waited for, and before another call comes. */
vyc_status vyc__worker_pause(vyc_worker *worker, int64_t timeout_ns) {
  vyc__claim_take(&worker->claim);
  if (atomic_fetch_add(&worker->pauses, 1) == 0)
    EACH_RING(ring, worker) ring->due = *ring->next - 1;
  bool leaves = count_pause(worker);
  EACH_RING(ring, worker) {
    leaves |= !vyc__ring_is_answered(ring, ring->due);
    vyc__ring_stop(ring);
  }
  vyc__claim_drop(&worker->claim);
  return leaves ? leave_after_due(worker, timeout_ns) : vyc__behind_finish(worker, timeout_ns);
}

vyc_status vyc__worker_stop_for_good(vyc_worker *worker, int64_t timeout_ns) {
  vyc__claim_take(&worker->claim);
  atomic_fetch_add(&worker->pauses, 1);
  EACH_RING(ring, worker) ring->due = *ring->next - 1 - WORKER_SLOTS;
  vyc__claim_drop(&worker->claim);
  return vyc__worker_stop(worker, timeout_ns);
}

/* ---- by the caller --------------------------------------------------------------------------- */

static bool undo_pause(vyc_worker *worker) {
  uint32_t pauses = atomic_load(&worker->pauses);
  do {
    if (pauses == 0) return false;
  } while (!atomic_compare_exchange_weak(&worker->pauses, &pauses, pauses - 1));
  return true;
}

vyc_status vyc_worker_pause(vyc_worker *worker, int64_t timeout_ns) {
  VYC_REQUIRE(worker != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(worker->child.context, &scope));
  const vyc_status status = vyc__worker_pause(worker, timeout_ns);
  if (VYC_UNLIKELY(status != VYC_OK && status != VYC_NOT_READY)) undo_pause(worker);
  vyc__leave(worker->child.context, &scope);
  return status;
}

static vyc_status not_paused(void) {
  return vyc__fail(VYC_E_INVALID, "worker",
                   "the worker is not paused: resume it once for each pause");
}

vyc_status vyc_worker_pause_wait(vyc_worker *worker, int64_t timeout_ns) {
  VYC_REQUIRE(worker != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(worker->child.context, &scope));
  const bool stays_away = atomic_load(&worker->pauses) != 0 || atomic_load(&worker->closed);
  const vyc_status status = stays_away ? leave_after_due(worker, timeout_ns) : not_paused();
  vyc__leave(worker->child.context, &scope);
  return status;
}

vyc_status vyc_worker_resume(vyc_worker *worker) {
  VYC_REQUIRE(worker != NULL);
  return undo_pause(worker) ? VYC_OK : not_paused();
}
