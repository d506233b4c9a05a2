/* One execution of a plan with host arguments, from a claimed lane to collected results.
 *
 * Streaming bindings are read and written by the kernel in the lane's mapped slab (zero-copy);
 * others go through the lane's device slab with a copy each way. Only bindings of host memory are
 * staged; buffers and page-locked arrays are used where they are. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

#define SPIN_NS UINT64_C(200000)    /* after that the wait sleeps between looks */
#define RETIRE_NS INT64_C(10000000000) /* a run that has not ended by then is leaked */
#define SLEEP_MIN_US 20u
#define SLEEP_MAX_US 200u

/* ---- slabs ---------------------------------------------------------------------------------- */

static bool is_host(const vyc_argument *argument) { return argument->kind != VYC_ARGUMENT_BUFFER; }

/* A binding the kernel may use in mapped memory, at `address` or in the slab. */
static bool is_mapped(const vyc_plan *plan, uint32_t i) {
  return (plan->bindings[i].flags & VYC_BINDING_STREAMING) != 0;
}

static vyc_status ensure(vyc_context *context, vyc_pool *pool, vyc_block **block, uint64_t bytes) {
  if (VYC_LIKELY(*block != NULL && (*block)->bytes >= bytes)) return VYC_OK;
  if (*block != NULL) {
    vyc__pool_give(context, pool, *block, 0);
    *block = NULL;
  }
  return vyc__pool_take(context, pool, block, bytes);
}

/* Grow the slabs for this run: the report cell, then each staged binding on its own boundary. */
static vyc_status reserve(vyc_lane *lane, const vyc_run *run) {
  const vyc_plan *plan = lane->plan;
  uint64_t pinned = VYC_ALIGN, device = 0;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (!is_host(argument)) continue;
    uint64_t bytes = 0;
    if (vyc__mul_overflows(argument->count, plan->bindings[i].element_bytes, &bytes) ||
        bytes > UINT64_MAX / 1024)
      return vyc__fail(VYC_E_INVALID, "run", "argument %u has too many elements", i);
    const uint64_t room = vyc__align_up(bytes, VYC_ALIGN);
    if (argument->kind == VYC_ARGUMENT_HOST) pinned += room;
    if (!is_mapped(plan, i)) device += room;
  }
  vyc_context *context = plan->child.context;
  VYC_TRY(ensure(context, &context->pinned_pool, &lane->pinned, pinned));
  if (device > 0) VYC_TRY(ensure(context, &context->device_pool, &lane->device, device));
  return VYC_OK;
}

/* ---- staging -------------------------------------------------------------------------------- */

typedef struct staging {
  uint64_t pinned, device; /* next free address in each slab */
  CUstream stream;
} staging;

static void add_result(vyc_lane *lane, void *to, const void *from, uint64_t bytes) {
  if (to == from || bytes == 0) return;
  lane->results[lane->result_count++] = (vyc_result){to, from, bytes};
}

/* Host memory of this binding as the kernel or the copy engine will see it. */
static uint8_t *host_side(const vyc_plan *plan, uint32_t i, const vyc_argument *argument,
                          staging *stage, uint64_t bytes) {
  if (argument->kind == VYC_ARGUMENT_PINNED) {
    void *own = plan->bindings[i].role == VYC_ROLE_IN ? (void *)(uintptr_t)argument->data
                                                      : argument->result;
    return own;
  }
  uint8_t *room = (uint8_t *)(uintptr_t)stage->pinned;
  stage->pinned += vyc__align_up(bytes, VYC_ALIGN);
  return room;
}

static vyc_status stage_host(vyc_lane *lane, uint32_t i, const vyc_run *run, staging *stage,
                             uint64_t *address_out) {
  const vyc_plan *plan = lane->plan;
  vyc_context *context = plan->child.context;
  const vyc_argument *argument = &run->arguments[i];
  const uint32_t role = plan->bindings[i].role;
  const uint64_t bytes = argument->count * plan->bindings[i].element_bytes;
  const bool mapped = is_mapped(plan, i);
  const bool clear = vyc__needs_clear(plan, i, run);
  uint8_t *host = host_side(plan, i, argument, stage, bytes);
  VYC_CU_RESULT;

  if (role != VYC_ROLE_OUT && host != argument->data && bytes > 0)
    memmove(host, argument->data, bytes);
  if (mapped) {
    if (clear && bytes > 0) memset(host, 0, bytes);
    *address_out = (uint64_t)(uintptr_t)host;
  } else {
    *address_out = stage->device;
    stage->device += vyc__align_up(bytes, VYC_ALIGN);
    if (bytes > 0 && role != VYC_ROLE_OUT)
      VYC_TRY(VYC_CU(context, cuMemcpyHtoDAsync, *address_out, host, bytes, stage->stream));
    if (bytes > 0 && clear)
      VYC_TRY(VYC_CU(context, cuMemsetD8Async, *address_out, 0, bytes, stage->stream));
  }
  if (role != VYC_ROLE_IN) add_result(lane, argument->result, host, bytes);
  return VYC_OK;
}

static vyc_status use_buffer(const vyc_plan *plan, uint32_t i, const vyc_run *run,
                             CUstream stream, uint32_t slot, uint64_t *address_out) {
  const vyc_argument *argument = &run->arguments[i];
  vyc_context *context = plan->child.context;
  VYC_TRY(vyc__buffer_use(argument->buffer, stream, slot));
  *address_out = argument->buffer->address + argument->offset;
  VYC_CU_RESULT;
  const uint64_t bytes = argument->count * plan->bindings[i].element_bytes;
  if (bytes > 0 && vyc__needs_clear(plan, i, run))
    return VYC_CU(context, cuMemsetD8Async, *address_out, 0, bytes, stream);
  return VYC_OK;
}

/* Copies of device-side results back to their host side, after the kernel. */
static vyc_status fetch(vyc_lane *lane, const vyc_run *run, const uint64_t *addresses,
                        staging *stage) {
  const vyc_plan *plan = lane->plan;
  vyc_context *context = plan->child.context;
  VYC_CU_RESULT;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (!is_host(argument)) continue;
    const uint64_t bytes = argument->count * plan->bindings[i].element_bytes;
    uint8_t *host = host_side(plan, i, argument, stage, bytes);
    if (is_mapped(plan, i) || plan->bindings[i].role == VYC_ROLE_IN || bytes == 0) continue;
    VYC_TRY(VYC_CU(context, cuMemcpyDtoHAsync, host, addresses[i], bytes, stage->stream));
  }
  return VYC_OK;
}

/* ---- submit --------------------------------------------------------------------------------- */

static vyc_status timing_events(vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  VYC_CU_RESULT;
  if (lane->start == NULL)
    VYC_TRY(VYC_CU(context, cuEventCreate, &lane->start, CU_EVENT_DEFAULT));
  if (lane->stop == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, &lane->stop, CU_EVENT_DEFAULT));
  return VYC_OK;
}

static vyc_status enqueue(vyc_lane *lane, const vyc_run *run, CUstream stream, uint32_t slot) {
  const vyc_plan *plan = lane->plan;
  vyc_context *context = plan->child.context;
  uint64_t addresses[VYC_MAX_BINDINGS];
  const uint64_t slab = lane->pinned->address + VYC_ALIGN;
  const uint64_t device = lane->device == NULL ? 0 : lane->device->address;
  staging stage = {slab, device, stream};
  VYC_CU_RESULT;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    if (is_host(&run->arguments[i]))
      VYC_TRY(stage_host(lane, i, run, &stage, &addresses[i]));
    else
      VYC_TRY(use_buffer(plan, i, run, stream, slot, &addresses[i]));
  }
  if (plan->has_report) *vyc__report_cell(lane->pinned) = VYC_REPORT_NONE;
  vyc__block_write(plan, lane->block, addresses, run, lane->pinned->address);
  const bool timed = run->timing_out != NULL;
  if (timed) {
    VYC_TRY(timing_events(lane));
    VYC_TRY(VYC_CU(context, cuEventRecord, lane->start, stream));
  }
  if (!vyc__grid_is_empty(run->grid))
    VYC_TRY(vyc__exec_launch(&lane->exec, plan, lane->block, run->grid, stream));
  if (timed) VYC_TRY(VYC_CU(context, cuEventRecord, lane->stop, stream));
  if (lane->device != NULL) {
    stage = (staging){slab, device, stream};
    VYC_TRY(fetch(lane, run, addresses, &stage));
  }
  if (lane->elsewhere) VYC_TRY(VYC_CU(context, cuEventRecord, lane->done, stream));
  return VYC_OK;
}

/* A run with device arguments or a stream keeps the order of that stream; one with host arguments
 * alone may overlap others and takes the lane's. */
static vyc_status choose_stream(vyc_lane *lane, const vyc_run *run, CUstream *stream_out,
                                uint32_t *slot_out) {
  vyc_context *context = lane->plan->child.context;
  bool own = run->stream == NULL;
  for (uint32_t i = 0; own && i < run->argument_count; i++) own = is_host(&run->arguments[i]);
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

vyc_status vyc__lane_submit(vyc_lane *lane, const vyc_run *run) {
  CUstream stream = NULL;
  uint32_t slot = VYC_SLOT_MAIN;
  lane->result_count = 0;
  vyc_status status = reserve(lane, run);
  if (status == VYC_OK) status = choose_stream(lane, run, &stream, &slot);
  if (status != VYC_OK) {
    atomic_store_explicit(&lane->state, LANE_FREE, memory_order_release);
    return status;
  }
  status = enqueue(lane, run, stream, slot);
  if (VYC_LIKELY(status == VYC_OK)) return VYC_OK;
  /* Something may be in flight: the lane is used again only when that is known to have ended. */
  vyc_error failure;
  vyc__error_save(&failure);
  const CUresult drained = lane->plan->child.context->driver->cuStreamSynchronize(stream);
  vyc__error_restore(&failure);
  atomic_store_explicit(&lane->state, drained == CUDA_SUCCESS ? LANE_FREE : LANE_DEAD,
                        memory_order_release);
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
    if (pause_us < SLEEP_MAX_US) pause_us += pause_us / 2;
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

vyc_status vyc__lane_collect(vyc_lane *lane, vyc_status status, vyc_timing *timing_out) {
  vyc_plan *plan = lane->plan;
  const bool wanted = lane->ticket == NULL || !lane->ticket->abandoned;
  if (status == VYC_OK && plan->has_report) {
    const uint64_t report = *vyc__report_cell(lane->pinned);
    if (report != VYC_REPORT_NONE) status = vyc__fail_assert(report, plan->tag, plan->entry);
  }
  if (status == VYC_OK && timing_out != NULL) status = measure(lane, timing_out);
  if (status == VYC_OK && wanted)
    for (uint32_t i = 0; i < lane->result_count; i++)
      memcpy(lane->results[i].to, lane->results[i].from, lane->results[i].bytes);
  vyc__ticket_settle(lane, status);
  const bool lost = atomic_load_explicit(&plan->child.context->lost, memory_order_relaxed);
  atomic_store_explicit(&lane->state, lost ? LANE_DEAD : LANE_FREE, memory_order_release);
  return status;
}

/* ---- life ----------------------------------------------------------------------------------- */

static vyc_status lane_make(vyc_plan *plan, vyc_lane **lane_out) {
  const size_t results = plan->binding_count * sizeof(vyc_result);
  const size_t pointers = plan->parameter_count * sizeof(void *);
  const size_t block = (size_t)vyc__align_up(plan->parameter_bytes, 16);
  vyc_lane *lane = calloc(1, sizeof *lane + results + pointers + 2 * block + 16);
  if (lane == NULL) return vyc__fail(VYC_E_MEMORY, "run", "out of host memory");
  uint8_t *tail = (uint8_t *)(lane + 1);
  lane->results = (vyc_result *)(void *)tail;
  void **pointer_room = (void **)(void *)(tail + results);
  uint8_t *blocks = (uint8_t *)(uintptr_t)vyc__align_up(
      (uint64_t)(uintptr_t)(tail + results + pointers), 16);
  lane->block = blocks;
  lane->plan = plan;
  vyc__exec_init(&lane->exec, plan, pointer_room, blocks + block);
  atomic_init(&lane->state, LANE_CLAIMED);
  vyc_context *context = plan->child.context;
  VYC_CU_RESULT;
  const vyc_status status =
      VYC_CU(context, cuStreamCreate, &lane->stream, CU_STREAM_NON_BLOCKING);
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
    atomic_store_explicit(&lane->state, LANE_FLIGHT, memory_order_release);
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
    if (atomic_load(&plan->child.context->lost))
      return vyc__driver_failed(plan->child.context, CUDA_ERROR_LAUNCH_FAILED, "run");
    if (atomic_load(&plan->child.context->closed))
      return vyc__fail(VYC_E_UNAVAILABLE, "run", "the device is closed");
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

/* Take the lane out of use for good, however long its current user needs to see it. */
static void retire(vyc_lane *lane) {
  for (;;) {
    int state = atomic_load(&lane->state);
    if (state == LANE_DEAD) return;
    if (state != LANE_CLAIMED && atomic_compare_exchange_strong(&lane->state, &state, LANE_DEAD))
      return;
    vyc__sleep_us(SLEEP_MIN_US);
  }
}

void vyc__lane_destroy(vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  const vyc_driver *driver = context->driver;
  retire(lane);
  vyc_status status = atomic_load(&context->lost) ? VYC_OK : vyc__lane_wait(lane, RETIRE_NS);
  if (lane->ticket != NULL) {
    vyc_error failure;
    vyc__error_save(&failure);
    vyc__ticket_settle(lane,
                       vyc__fail(VYC_E_UNAVAILABLE, "close", "the device or kernel was closed"));
    vyc__error_restore(&failure);
  }
  if (status == VYC_NOT_READY) return; /* still running: its memory must not be reused */
  vyc__exec_destroy(&lane->exec, driver);
  if (lane->done != NULL) driver->cuEventDestroy(lane->done);
  if (lane->start != NULL) driver->cuEventDestroy(lane->start);
  if (lane->stop != NULL) driver->cuEventDestroy(lane->stop);
  driver->cuStreamDestroy(lane->stream);
  if (lane->pinned != NULL) vyc__pool_give(context, &context->pinned_pool, lane->pinned, 0);
  if (lane->device != NULL) vyc__pool_give(context, &context->device_pool, lane->device, 0);
}
