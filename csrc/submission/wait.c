/* A lane that has been submitted, to its end: the wait for it, its results, its destruction. */
#include <string.h>

#include "submission.h"

#define SPIN_NS UINT64_C(200000)     /* at least, for a plan whose runs are short, or unknown */
#define SPIN_LONG_NS UINT64_C(20000) /* for a plan whose runs are long */

/* ---- wait for a lane ------------------------------------------------------------------------- */

/* Looks at a flag between two questions to the driver, which alone can tell of a fault. */
#define LOOKS_UNASKED 256u
#define UNASKED_NS UINT64_C(200000) /* the same where nobody waits */

static vyc_status ask_stream(vyc_context *context, CUstream stream) {
  return vyc__ready(context, context->driver->cuStreamQuery(stream), "cuStreamQuery");
}

/* A driver may begin what it was given only when that stream is waited for or asked after. The
 * stream may be gone, once its work has ended, and another in its slot: what it answers says
 * nothing of the run, but that the device is well. */
static vyc_status ask_elsewhere(const vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  vyc_stream *stream = vyc__slot_hold(context, lane->slot);
  const vyc_status status = ask_stream(context, stream == NULL ? context->main : stream->handle);
  vyc__slot_let_go(stream);
  return status == VYC_OK ? VYC_NOT_READY : status;
}

static vyc_status ask_driver(const vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  if (!lane->elsewhere) return ask_stream(context, lane->own.handle);
  if (!vyc__lane_is_marked(lane)) return ask_elsewhere(lane);
  return vyc__ready(context, context->driver->cuEventQuery(lane->done), "cuEventQuery");
}

vyc_status vyc__lane_poll(vyc_lane *lane) {
  if (VYC_LIKELY(lane->flagged)) {
    if (atomic_load_explicit(vyc__lane_flag(lane), memory_order_acquire) != 0) return VYC_OK;
    if (++lane->looks % LOOKS_UNASKED != 0) return VYC_NOT_READY;
  }
  return ask_driver(lane);
}

/* The mean of a plan's waits, of which the last eight or so count. Threads may overwrite each
 * other's; the mean is a hint. */
static void note_wait(vyc_plan *plan, uint64_t waited_ns) {
  const uint64_t mean = atomic_load_explicit(&plan->mean_wait_ns, memory_order_relaxed);
  atomic_store_explicit(&plan->mean_wait_ns, mean - mean / 8 + waited_ns / 8, memory_order_relaxed);
}

static uint64_t spin_of(const vyc_plan *plan) {
  const uint64_t mean = atomic_load_explicit(&plan->mean_wait_ns, memory_order_relaxed);
  if (mean >= VYC_SPIN_NS) return SPIN_LONG_NS;
  return 2 * mean > SPIN_NS ? 2 * mean : SPIN_NS;
}

/* Who does not wait looks now and then, as an event loop does: so many looks would take long. */
static void ask_by_time(vyc_lane *lane, uint64_t now_ns) {
  if (now_ns - lane->asked_ns < UNASKED_NS) return;
  lane->asked_ns = now_ns;
  lane->looks = LOOKS_UNASKED - 1;
}

vyc_status vyc__lane_wait(vyc_lane *lane, int64_t timeout_ns) {
  vyc_status status = vyc__lane_poll(lane);
  if (status != VYC_NOT_READY) return status;
  vyc_plan *plan = lane->plan;
  vyc_pace pace = vyc__pace_begin(timeout_ns, spin_of(plan));
  if (timeout_ns == 0) ask_by_time(lane, pace.begin_ns);
  for (;;) {
    status = vyc__lane_poll(lane);
    if (VYC_LIKELY(status == VYC_OK)) note_wait(plan, pace.waited_ns);
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__pace(plan->child.context, &pace));
    if (vyc__pace_sleeps(&pace)) lane->looks = LOOKS_UNASKED - 1; /* looks are few: ask each time */
  }
}

/* ---- collect -------------------------------------------------------------------------------- */

static vyc_status measure(vyc_lane *lane, vyc_timing *timing) {
  vyc_context *context = lane->plan->child.context;
  float milliseconds = 0;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuEventElapsedTime, &milliseconds, lane->start, lane->stop));
  timing->device_ns = (uint64_t)((double)milliseconds * 1e6 + 0.5);
  return VYC_OK;
}

static bool is_lost(const vyc_lane *lane) {
  return atomic_load_explicit(&lane->plan->child.context->lost, memory_order_relaxed);
}

/* *ended_out becomes false when something writes results still. */
static vyc_status read_results(vyc_lane *lane, vyc_timing *timing_out, bool *ended_out) {
  const vyc_plan *plan = lane->plan;
  if (plan->has_report) {
    const uint64_t *cell = (const uint64_t *)(uintptr_t)lane->cell->address;
    if (cell[0] != VYC_REPORT_NONE)
      return vyc__fail_assert(cell[0], cell[1], plan->tag, plan->name);
  }
  if (timing_out != NULL) VYC_TRY(measure(lane, timing_out));
  if (VYC_UNLIKELY(lane->has_large)) VYC_TRY(vyc__results_fetch(lane, ended_out));
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < lane->result_count; i++) {
    const vyc_result *result = &lane->results[i];
    if (VYC_UNLIKELY(result->from == NULL)) continue;
    memcpy(result->to, result->from, result->bytes);
    bytes += result->bytes;
  }
  vyc__count(&plan->child.context->counters, staged_out_bytes, bytes);
  return VYC_OK;
}

vyc_status vyc__lane_collect(vyc_lane *lane, vyc_status status, vyc_timing *timing_out) {
  bool ended = status == VYC_OK;
  if (timing_out == NULL) timing_out = vyc__ticket_timing(lane);
  if (ended && !lane->dropped) status = read_results(lane, timing_out, &ended);
  if (ended) vyc__lane_let_go(lane);
  lane->dropped = true; /* told once; when the look failed the kernel may still be running */
  vyc__ticket_settle(lane, status);
  vyc__lane_set(lane, is_lost(lane) ? LANE_DEAD : ended ? LANE_FREE : LANE_FLIGHT);
  return status;
}

/* ---- end of a lane ----------------------------------------------------------------------------
 */

/* Take the lane out of use for good, however long its current user needs to see it. Returns the
 * state it was in. */
static int retire(vyc_lane *lane) {
  for (;;) {
    int state = atomic_load(&lane->state);
    if (state == LANE_DEAD) return state;
    if (state != LANE_CLAIMED && atomic_compare_exchange_strong(&lane->state, &state, LANE_DEAD))
      return state;
    vyc__sleep_us(VYC_SLEEP_MIN_US);
  }
}

bool vyc__lane_settle(vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  return vyc__settle_after(context, vyc__lane_wait(lane, vyc__patience(context)));
}

/* Wait for the run of a retired lane; where its own stream or event cannot tell, for the device. */
static bool has_ended(vyc_lane *lane, bool was_dead) {
  return was_dead ? vyc__settle(lane->plan->child.context) : vyc__lane_settle(lane);
}

bool vyc__lane_destroy(vyc_lane *lane) {
  if (lane->own.handle == NULL) return true; /* destroyed already */
  vyc_context *context = lane->plan->child.context;
  const vyc_driver *driver = context->driver;
  vyc_error failure;
  vyc__error_save(&failure);
  const bool ended = has_ended(lane, retire(lane) == LANE_DEAD);
  if (lane->ticket != NULL)
    vyc__ticket_settle(lane,
                       vyc__fail(VYC_E_UNAVAILABLE, "close", "the device or kernel was closed"));
  vyc__error_restore(&failure);
  if (!ended) return false;
  vyc__lane_let_go(lane);
  vyc__exec_destroy(&lane->exec, context);
  vyc__flight_give(lane->flight);
  if (lane->done != NULL) driver->cuEventDestroy(lane->done);
  if (lane->start != NULL) driver->cuEventDestroy(lane->start);
  if (lane->stop != NULL) driver->cuEventDestroy(lane->stop);
  vyc__hidden_stream_remove(context, &lane->own);
  driver->cuStreamDestroy(lane->own.handle);
  lane->own.handle = NULL;
  vyc__pool_give(context, vyc__pinned_pool(context), lane->cell, 0);
  if (lane->pinned != NULL) vyc__pool_give(context, vyc__pinned_pool(context), lane->pinned, 0);
  if (lane->barrier != NULL) vyc__pool_give(context, vyc__device_pool(context), lane->barrier, 0);
  if (lane->device != NULL) vyc__pool_give(context, vyc__device_pool(context), lane->device, 0);
  return true;
}
