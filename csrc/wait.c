/* A lane that has been submitted, to its end: the wait for it, its results, its destruction. */
#include <string.h>

#include "plan.h"

#define SPIN_NS UINT64_C(200000)       /* after that the wait sleeps between looks */
#define RETIRE_NS INT64_C(10000000000) /* a run that has not ended by then is leaked */
#define SLEEP_MAX_US 200u

/* ---- wait ----------------------------------------------------------------------------------- */

/* Looks at a flag between two questions to the driver, which alone can tell of a fault. */
#define LOOKS_UNASKED 256u

static vyc_status ask_driver(const vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  const bool by_event = lane->elsewhere && !lane->flagged;
  const CUresult result = by_event ? context->driver->cuEventQuery(lane->done)
                                   : context->driver->cuStreamQuery(lane->stream);
  if (result == CUDA_ERROR_NOT_READY) return VYC_NOT_READY;
  if (result != CUDA_SUCCESS)
    return vyc__driver_failed(context, result, by_event ? "cuEventQuery" : "cuStreamQuery");
  /* The lane's own stream says nothing of a run that is elsewhere, but that the device is well. */
  return lane->elsewhere && lane->flagged ? VYC_NOT_READY : VYC_OK;
}

vyc_status vyc__lane_poll(vyc_lane *lane) {
  if (VYC_LIKELY(lane->flagged)) {
    if (atomic_load_explicit(vyc__lane_flag(lane), memory_order_acquire) != 0) return VYC_OK;
    if (++lane->looks % LOOKS_UNASKED != 0) return VYC_NOT_READY;
  }
  return ask_driver(lane);
}

vyc_status vyc__lane_wait(vyc_lane *lane, int64_t timeout_ns) {
  vyc_status status = vyc__lane_poll(lane);
  if (status != VYC_NOT_READY) return status;
  const uint64_t begin = vyc__now_ns();
  uint32_t pause_us = VYC_SLEEP_MIN_US;
  for (;;) {
    status = vyc__lane_poll(lane);
    if (status != VYC_NOT_READY) return status;
    const uint64_t waited = vyc__now_ns() - begin;
    if (timeout_ns >= 0 && waited >= (uint64_t)timeout_ns) return VYC_NOT_READY;
    if (waited < SPIN_NS) continue;
    vyc__sleep_us(pause_us);
    pause_us += pause_us / 2;
    if (pause_us > SLEEP_MAX_US) pause_us = SLEEP_MAX_US;
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

static vyc_status read_results(vyc_lane *lane, vyc_timing *timing_out) {
  const vyc_plan *plan = lane->plan;
  if (plan->has_report) {
    const uint64_t *cell = vyc__report_cell(lane->cell);
    if (cell[0] != VYC_REPORT_NONE)
      return vyc__fail_assert(cell[0], cell[1], plan->tag, plan->entry);
  }
  if (timing_out != NULL) VYC_TRY(measure(lane, timing_out));
  for (uint32_t i = 0; i < lane->result_count; i++)
    memcpy(lane->results[i].to, lane->results[i].from, lane->results[i].bytes);
  return VYC_OK;
}

vyc_status vyc__lane_collect(vyc_lane *lane, vyc_status status, vyc_timing *timing_out) {
  const bool ended = status == VYC_OK;
  if (ended && !lane->dropped) status = read_results(lane, timing_out);
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

/* Wait for the run of a retired lane; where its own stream or event cannot tell, for the device. */
static bool has_ended(vyc_lane *lane, bool was_dead) {
  vyc_context *context = lane->plan->child.context;
  if (is_lost(lane)) return true;
  const vyc_status status = was_dead ? VYC_E_DRIVER : vyc__lane_wait(lane, RETIRE_NS);
  if (status == VYC_OK || status == VYC_NOT_READY) return status == VYC_OK;
  return context->driver->cuCtxSynchronize() == CUDA_SUCCESS || is_lost(lane);
}

bool vyc__lane_destroy(vyc_lane *lane) {
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
  vyc__exec_destroy(&lane->exec, driver);
  if (lane->done != NULL) driver->cuEventDestroy(lane->done);
  if (lane->start != NULL) driver->cuEventDestroy(lane->start);
  if (lane->stop != NULL) driver->cuEventDestroy(lane->stop);
  driver->cuStreamDestroy(lane->stream);
  vyc__pool_give(context, &context->pinned_pool, lane->cell, 0);
  if (lane->pinned != NULL) vyc__pool_give(context, &context->pinned_pool, lane->pinned, 0);
  if (lane->barrier != NULL) vyc__pool_give(context, &context->device_pool, lane->barrier, 0);
  if (lane->device != NULL) vyc__pool_give(context, &context->device_pool, lane->device, 0);
  return true;
}
