/* One execution of a plan with host arguments, from a claimed lane to collected results.
 *
 * A lane is free, claimed by one thread, in flight or dead. It becomes free only when its run is
 * known to have ended: until then its slabs, its stream and its exec are the kernel's. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

#define SPIN_NS UINT64_C(200000)       /* after that the wait sleeps between looks */
#define RETIRE_NS INT64_C(10000000000) /* a run that has not ended by then is leaked */
#define SLEEP_MIN_US 20u
#define SLEEP_MAX_US 200u

/* ---- submit --------------------------------------------------------------------------------- */

static vyc_status timing_events(vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  VYC_CU_RESULT;
  if (lane->start == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, &lane->start, CU_EVENT_DEFAULT));
  if (lane->stop == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, &lane->stop, CU_EVENT_DEFAULT));
  return VYC_OK;
}

static vyc_status enqueue(vyc_lane *lane, const vyc_run *run, bool timed, CUstream stream,
                          uint32_t slot) {
  const vyc_plan *plan = lane->plan;
  vyc_context *context = plan->child.context;
  uint64_t addresses[VYC_MAX_BINDINGS];
  VYC_CU_RESULT;
  VYC_TRY(vyc__stage_in(lane, run, stream, slot, addresses));
  if (plan->has_report) vyc__report_reset(lane->pinned);
  if (plan->cooperative) VYC_TRY(vyc__barrier_ready(context, &lane->barrier, stream));
  const vyc_hidden hidden = {lane->pinned->address,
                             lane->barrier == NULL ? 0 : lane->barrier->address};
  vyc__block_write(plan, lane->block, addresses, run, &hidden);
  if (timed) {
    VYC_TRY(timing_events(lane));
    VYC_TRY(VYC_CU(context, cuEventRecord, lane->start, stream));
  }
  if (!vyc__grid_is_empty(run->grid))
    VYC_TRY(vyc__exec_launch(&lane->exec, plan, lane->block, run->grid, stream));
  if (timed) VYC_TRY(VYC_CU(context, cuEventRecord, lane->stop, stream));
  VYC_TRY(vyc__stage_out(lane, run, stream, addresses));
  if (lane->elsewhere) VYC_TRY(VYC_CU(context, cuEventRecord, lane->done, stream));
  return VYC_OK;
}

/* A run with device arguments or a stream keeps the order of that stream; one with host arguments
 * alone may overlap others and takes the lane's. */
static vyc_status choose_stream(vyc_lane *lane, const vyc_run *run, CUstream *stream_out,
                                uint32_t *slot_out) {
  vyc_context *context = lane->plan->child.context;
  bool own = run->stream == NULL;
  for (uint32_t i = 0; own && i < run->argument_count; i++) own = vyc__is_host(&run->arguments[i]);
  lane->elsewhere = !own;
  if (VYC_LIKELY(own)) {
    *stream_out = lane->stream;
    *slot_out = VYC_SLOT_OTHER;
    return VYC_OK;
  }
  VYC_CU_RESULT;
  if (lane->done == NULL)
    VYC_TRY(VYC_CU(context, cuEventCreate, &lane->done, CU_EVENT_DISABLE_TIMING));
  return vyc__stream_of(context, stream_out, slot_out, run->stream);
}

/* A ticket may be abandoned, and then nobody but the run knows what it uses. */
static void hold(vyc_lane *lane, const vyc_run *run) {
  for (uint32_t i = 0; i < run->argument_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (VYC_LIKELY(argument->kind != VYC_ARGUMENT_PINNED || argument->pinned == NULL)) continue;
    vyc__pinned_retain(argument->pinned);
    lane->held[lane->held_count++] = argument->pinned;
  }
}

void vyc__lane_let_go(vyc_lane *lane) {
  while (lane->held_count > 0) vyc_pinned_release(lane->held[--lane->held_count]);
}

static void set_state(vyc_lane *lane, int state) {
  atomic_store_explicit(&lane->state, state, memory_order_release);
}

/* A submission failed half-way and something may be in flight: the lane is used again only when
 * that is known to have ended. A dead lane does not count, so that another can take its place. */
static void drain(vyc_lane *lane, CUstream stream) {
  vyc_error failure;
  vyc__error_save(&failure);
  const CUresult drained = lane->plan->child.context->driver->cuStreamSynchronize(stream);
  vyc__error_restore(&failure);
  if (drained == CUDA_SUCCESS)
    vyc__lane_let_go(lane);
  else
    atomic_fetch_sub(&lane->plan->lane_count, 1);
  set_state(lane, drained == CUDA_SUCCESS ? LANE_FREE : LANE_DEAD);
}

vyc_status vyc__lane_submit(vyc_lane *lane, const vyc_run *run, bool timed) {
  CUstream stream = NULL;
  uint32_t slot = VYC_SLOT_MAIN;
  lane->result_count = 0;
  lane->dropped = false;
  vyc_status status = choose_stream(lane, run, &stream, &slot);
  if (status == VYC_OK) status = vyc__stage_reserve(lane, run, stream);
  if (status != VYC_OK) {
    set_state(lane, LANE_FREE);
    return status;
  }
  hold(lane, run);
  status = enqueue(lane, run, timed, stream, slot);
  if (VYC_UNLIKELY(status != VYC_OK)) drain(lane, stream);
  return status;
}

/* ---- wait ----------------------------------------------------------------------------------- */

static vyc_status poll(const vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  const CUresult result = lane->elsewhere ? context->driver->cuEventQuery(lane->done)
                                          : context->driver->cuStreamQuery(lane->stream);
  if (result == CUDA_SUCCESS) return VYC_OK;
  if (result == CUDA_ERROR_NOT_READY) return VYC_NOT_READY;
  return vyc__driver_failed(context, result, lane->elsewhere ? "cuEventQuery" : "cuStreamQuery");
}

vyc_status vyc__lane_wait(vyc_lane *lane, int64_t timeout_ns) {
  vyc_status status = poll(lane);
  if (status != VYC_NOT_READY) return status;
  const uint64_t begin = vyc__now_ns();
  uint32_t pause_us = SLEEP_MIN_US;
  for (;;) {
    status = poll(lane);
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
    const uint64_t *cell = vyc__report_cell(lane->pinned);
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
  set_state(lane, is_lost(lane) ? LANE_DEAD : ended ? LANE_FREE : LANE_FLIGHT);
  return status;
}

/* ---- life ----------------------------------------------------------------------------------- */

static vyc_status lane_make(vyc_plan *plan, vyc_lane **lane_out) {
  const size_t results = plan->binding_count * sizeof(vyc_result);
  const size_t held = plan->binding_count * sizeof(vyc_pinned *);
  const size_t pointers = plan->parameter_count * sizeof(void *);
  const size_t block = (size_t)vyc__align_up(plan->parameter_bytes, 16);
  vyc_lane *lane = calloc(1, sizeof *lane + results + held + pointers + 2 * block + 16);
  if (lane == NULL) return vyc__fail(VYC_E_MEMORY, "run", "out of host memory");
  uint8_t *tail = (uint8_t *)(lane + 1);
  lane->results = (vyc_result *)(void *)tail;
  lane->held = (vyc_pinned **)(void *)(tail + results);
  void **pointer_room = (void **)(void *)(tail + results + held);
  tail += results + held + pointers;
  uint8_t *blocks = (uint8_t *)(uintptr_t)vyc__align_up((uint64_t)(uintptr_t)tail, 16);
  lane->block = blocks;
  lane->plan = plan;
  vyc__exec_init(&lane->exec, plan, pointer_room, blocks + block);
  atomic_init(&lane->state, LANE_CLAIMED);
  vyc_context *context = plan->child.context;
  VYC_CU_RESULT;
  const vyc_status status = VYC_CU(context, cuStreamCreate, &lane->stream, CU_STREAM_NON_BLOCKING);
  if (status != VYC_OK) {
    free(lane);
    return status;
  }
  *lane_out = lane;
  return VYC_OK;
}

/* Claim a lane whose run has ended without a waiter: its results are collected on the way. */
static bool reclaim(vyc_lane *lane) {
  int expected = LANE_FLIGHT;
  if (!atomic_compare_exchange_strong(&lane->state, &expected, LANE_CLAIMED)) return false;
  const vyc_status status = poll(lane);
  if (status == VYC_NOT_READY) {
    set_state(lane, LANE_FLIGHT);
    return false;
  }
  vyc__lane_collect(lane, status, NULL);
  expected = LANE_FREE;
  return atomic_compare_exchange_strong(&lane->state, &expected, LANE_CLAIMED);
}

static vyc_lane *claim_any(vyc_plan *plan) {
  vyc_lane *first = atomic_load_explicit(&plan->lanes, memory_order_acquire);
  for (vyc_lane *lane = first; lane != NULL; lane = lane->next) {
    int expected = LANE_FREE;
    if (atomic_compare_exchange_strong_explicit(&lane->state, &expected, LANE_CLAIMED,
                                                memory_order_acquire, memory_order_relaxed))
      return lane;
  }
  for (vyc_lane *lane = first; lane != NULL; lane = lane->next)
    if (reclaim(lane)) return lane;
  return NULL;
}

vyc_status vyc__lane_take(vyc_plan *plan, vyc_lane **lane_out) {
  for (;;) {
    *lane_out = claim_any(plan);
    if (VYC_LIKELY(*lane_out != NULL)) return VYC_OK;
    if (atomic_fetch_add(&plan->lane_count, 1) < VYC_MAX_LANES) break;
    atomic_fetch_sub(&plan->lane_count, 1);
    VYC_TRY(vyc__check_usable(plan->child.context));
    vyc__sleep_us(SLEEP_MIN_US);
  }
  vyc_lane *lane = NULL;
  const vyc_status status = lane_make(plan, &lane);
  if (status != VYC_OK) {
    atomic_fetch_sub(&plan->lane_count, 1);
    return status;
  }
  lane->next = atomic_load(&plan->lanes);
  while (!atomic_compare_exchange_weak(&plan->lanes, &lane->next, lane)) {
  }
  *lane_out = lane;
  return VYC_OK;
}

/* Take the lane out of use for good, however long its current user needs to see it. Returns the
 * state it was in. */
static int retire(vyc_lane *lane) {
  for (;;) {
    int state = atomic_load(&lane->state);
    if (state == LANE_DEAD) return state;
    if (state != LANE_CLAIMED && atomic_compare_exchange_strong(&lane->state, &state, LANE_DEAD))
      return state;
    vyc__sleep_us(SLEEP_MIN_US);
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
  if (lane->pinned != NULL) vyc__pool_give(context, &context->pinned_pool, lane->pinned, 0);
  if (lane->barrier != NULL) vyc__pool_give(context, &context->device_pool, lane->barrier, 0);
  if (lane->device != NULL) vyc__pool_give(context, &context->device_pool, lane->device, 0);
  return true;
}
