/* One execution of a plan with host arguments: making and claiming a lane, and submitting to it.
 *
 * A lane is free, claimed by one thread, in flight or dead. It becomes free only when its run is
 * known to have ended: until then its slabs, its stream and its exec are the kernel's. */
#include <stdlib.h>

#include "submission.h"

/* ---- submit --------------------------------------------------------------------------------- */

static vyc_status timing_events(vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  VYC_CU_RESULT;
  if (lane->start == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, &lane->start, CU_EVENT_DEFAULT));
  if (lane->stop == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, &lane->stop, CU_EVENT_DEFAULT));
  return VYC_OK;
}

/* Iteration `i`: the grid barrier of a cooperative kernel begins each one cleared. */
static vyc_status launch_one(vyc_lane *lane, const vyc_run *run, uint32_t i, bool timed,
                             CUstream stream) {
  const vyc_plan *plan = lane->plan;
  if (VYC_UNLIKELY(plan->cooperative && i > 0))
    VYC_TRY(vyc__barrier_ready(plan->child.context, &lane->barrier, stream));
  if (VYC_UNLIKELY(timed))
    return vyc__exec_launch_once(&lane->exec, plan, lane->block, run->grid, stream);
  return vyc__exec_launch(&lane->exec, plan, lane->block, run->grid, stream);
}

/* Launch the kernel and choose what will tell its end: the flag where the graph of the lane sets it
 * behind all of the run, else the stream. A timed kernel is launched alone between its events. */
static vyc_status launch(vyc_lane *lane, const vyc_run *run, bool timed, CUstream stream) {
  const vyc_plan *plan = lane->plan;
  vyc_context *context = plan->child.context;
  const uint32_t times = vyc__grid_is_empty(run->grid) ? 0 : vyc__iterations(run);
  VYC_CU_RESULT;
  lane->flagged = false;
  if (VYC_UNLIKELY(timed)) {
    VYC_TRY(timing_events(lane));
    VYC_TRY(VYC_CU(context, cuEventRecord, lane->start, stream));
  }
  atomic_store_explicit(vyc__lane_flag(lane), 0, memory_order_relaxed);
  vyc__exec_claim_wait(&lane->exec);
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; i < times && status == VYC_OK; i++)
    status = launch_one(lane, run, i, timed, stream);
  if (VYC_UNLIKELY(timed)) {
    vyc__exec_unclaim(&lane->exec);
    return status == VYC_OK ? VYC_CU(context, cuEventRecord, lane->stop, stream) : status;
  }
  lane->flagged = times == 1 && lane->exec.handle != NULL && lane->exec.flag != 0 &&
                  !plan->cooperative && !lane->copies_out;
  vyc__exec_unclaim(&lane->exec);
  return status;
}

/* An event behind a run on another stream, where no flag tells its end, or that stream could not be
 * asked after it. */
static vyc_status mark_end(vyc_lane *lane, CUstream stream) {
  vyc_context *context = lane->plan->child.context;
  VYC_CU_RESULT;
  if (lane->done == NULL)
    VYC_TRY(VYC_CU(context, cuEventCreate, &lane->done, CU_EVENT_DISABLE_TIMING));
  return VYC_CU(context, cuEventRecord, lane->done, stream);
}

static vyc_status enqueue(vyc_lane *lane, const vyc_run *run, bool timed, CUstream stream,
                          uint32_t slot) {
  const vyc_plan *plan = lane->plan;
  const uint32_t taken = vyc__marks_taken(plan->child.context);
  VYC_TRY(vyc__stage_in(lane, run, stream, slot));
  if (plan->has_report) vyc__report_reset((uint64_t *)(uintptr_t)lane->cell->address);
  if (plan->cooperative) VYC_TRY(vyc__barrier_ready(plan->child.context, &lane->barrier, stream));
  const vyc_hidden hidden = {lane->cell->address,
                             lane->barrier == NULL ? 0 : lane->barrier->address};
  vyc__block_write(plan, lane->block, lane->addresses, run, &hidden);
  vyc__entry_write(&lane->flight->entry, vyc__entry_note(&lane->flight->entry), lane->block);
  VYC_TRY(launch(lane, run, timed, stream));
  if (lane->copies_out) VYC_TRY(vyc__stage_out(lane, run, stream));
  if (lane->elsewhere) VYC_TRY(vyc__run_follow(plan->child.context, run, stream, slot, taken));
  return vyc__lane_is_marked(lane) ? mark_end(lane, stream) : VYC_OK;
}

/* A run with device arguments or a stream keeps the order of that stream; one with host arguments
 * alone may overlap others and takes the lane's. */
static vyc_status choose_stream(vyc_lane *lane, const vyc_run *run, CUstream *stream_out,
                                uint32_t *slot_out) {
  bool own = run->stream == NULL;
  for (uint32_t i = 0; own && i < run->argument_count; i++) own = vyc__is_host(&run->arguments[i]);
  lane->elsewhere = !own;
  if (VYC_LIKELY(own)) {
    *stream_out = lane->own.handle;
    *slot_out = VYC_SLOT_OTHER;
    return VYC_OK;
  }
  VYC_TRY(vyc__stream_of(lane->plan->child.context, stream_out, slot_out, run->stream));
  lane->slot = *slot_out;
  return VYC_OK;
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
  atomic_store_explicit(&lane->flight->entry.note, 0, memory_order_relaxed);
  while (lane->held_count > 0) vyc__pinned_drop(lane->held[--lane->held_count]);
}

/* A submission failed half-way and something may be in flight: the lane is used again only when
 * that is known to have ended. A dead lane does not count, so that another can take its place. */
static void drain(vyc_lane *lane, CUstream stream) {
  const bool ended = vyc__stream_settle(lane->plan->child.context, stream);
  if (ended)
    vyc__lane_let_go(lane);
  else
    atomic_fetch_sub(&lane->plan->lane_count, 1);
  vyc__lane_set(lane, ended ? LANE_FREE : LANE_DEAD);
}

vyc_status vyc__lane_submit(vyc_lane *lane, const vyc_run *run, bool timed) {
  CUstream stream = NULL;
  uint32_t slot = VYC_SLOT_MAIN;
  lane->result_count = 0;
  lane->dropped = false;
  vyc_status status = choose_stream(lane, run, &stream, &slot);
  if (status == VYC_OK) status = vyc__stage_reserve(lane, run, stream);
  if (status != VYC_OK) {
    vyc__lane_set(lane, LANE_FREE);
    return status;
  }
  hold(lane, run);
  const vyc_plan *plan = lane->plan;
  const vyc_note note =
      vyc__note_of(&plan->child.context->history, plan->noted, vyc__origin_of(run));
  vyc__entry_write_name(&lane->flight->entry, note);
  status = enqueue(lane, run, timed, stream, slot);
  if (VYC_UNLIKELY(status != VYC_OK)) drain(lane, stream);
  return status;
}

/* ---- life ----------------------------------------------------------------------------------- */

static vyc_status lane_make(vyc_plan *plan, vyc_lane **lane_out) {
  const size_t results = plan->binding_count * sizeof(vyc_result);
  const size_t held = plan->binding_count * sizeof(vyc_pinned *);
  const size_t addresses = plan->binding_count * sizeof(uint64_t);
  const size_t pointers = plan->parameter_count * sizeof(void *);
  const size_t block = (size_t)vyc__align_up(plan->block_bytes, 16);
  const size_t ways = plan->binding_count;
  const size_t words = results + held + addresses + pointers;
  vyc_lane *lane = calloc(1, sizeof *lane + words + 2 * block + 16 + ways);
  if (lane == NULL) return vyc__fail(VYC_E_MEMORY, "run", "out of host memory");
  uint8_t *tail = (uint8_t *)(lane + 1);
  lane->results = (vyc_result *)(void *)tail;
  lane->held = (vyc_pinned **)(void *)(tail + results);
  lane->addresses = (uint64_t *)(void *)(tail + results + held);
  void **pointer_room = (void **)(void *)(tail + results + held + addresses);
  uint8_t *blocks = (uint8_t *)(uintptr_t)vyc__align_up((uint64_t)(uintptr_t)(tail + words), 16);
  lane->block = blocks;
  lane->ways = blocks + 2 * block;
  lane->plan = plan;
  vyc__exec_init(&lane->exec, plan, pointer_room, blocks + block);
  atomic_init(&lane->state, LANE_CLAIMED);
  vyc_context *context = plan->child.context;
  VYC_CU_RESULT;
  vyc_status status = VYC_E_MEMORY;
  lane->flight = vyc__flight_take(&context->history);
  if (lane->flight == NULL) goto fail_flight;
  status = vyc__pool_take(context, vyc__pinned_pool(context), &lane->cell, VYC_CELL_BYTES);
  if (status != VYC_OK) goto fail_cell;
  status = VYC_CU(context, cuStreamCreate, &lane->own.handle, CU_STREAM_NON_BLOCKING);
  if (status != VYC_OK) goto fail_stream;
  lane->exec.flag = lane->cell->address + VYC_FLAG_OFFSET;
  lane->own.state = &lane->state;
  vyc__hidden_stream_add(context, &lane->own);
  *lane_out = lane;
  return VYC_OK;

fail_stream:
  vyc__pool_give(context, vyc__pinned_pool(context), lane->cell, 0);
fail_cell:
  vyc__flight_give(lane->flight);
fail_flight:
  free(lane);
  return status;
}

/* Claim a lane whose run has ended without a waiter: its results are collected on the way. */
static bool reclaim(vyc_lane *lane) {
  int expected = LANE_FLIGHT;
  if (!atomic_compare_exchange_strong(&lane->state, &expected, LANE_CLAIMED)) return false;
  const vyc_status status = vyc__lane_poll(lane);
  if (status == VYC_NOT_READY) {
    vyc__lane_set(lane, LANE_FLIGHT);
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

/* One lane more, unless there are enough. */
static bool may_grow(vyc_plan *plan) {
  if (atomic_fetch_add(&plan->lane_count, 1) < VYC_MAX_LANES) return true;
  atomic_fetch_sub(&plan->lane_count, 1);
  return false;
}

vyc_status vyc__lane_take(vyc_plan *plan, vyc_lane **lane_out, int64_t *left_ns) {
  *lane_out = claim_any(plan);
  if (VYC_LIKELY(*lane_out != NULL)) return VYC_OK;
  if (VYC_UNLIKELY(!may_grow(plan))) {
    vyc_pace pace = vyc__pace_begin(*left_ns, 0);
    do {
      VYC_TRY(vyc__check_usable(plan->child.context));
      VYC_TRY(vyc__pace(plan->child.context, &pace));
      *lane_out = claim_any(plan);
      *left_ns = vyc__pace_left(&pace);
      if (*lane_out != NULL) return VYC_OK;
    } while (!may_grow(plan));
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

/* ---- slabs of lanes that nobody uses --------------------------------------------------------- */

static void move(vyc_block **slab, vyc_block **list) {
  if (*slab == NULL) return;
  (*slab)->next = *list;
  *list = *slab;
  *slab = NULL;
}

static void take_slabs(vyc_lane *lane, vyc_block **pinned, vyc_block **device) {
  int expected = LANE_FREE;
  if (!atomic_compare_exchange_strong(&lane->state, &expected, LANE_CLAIMED)) return;
  move(&lane->pinned, pinned);
  move(&lane->device, device);
  vyc__lane_set(lane, LANE_FREE);
}

static void take_all_slabs(vyc_plan *plan, vyc_block **pinned, vyc_block **device) {
  for (vyc_lane *lane = atomic_load_explicit(&plan->lanes, memory_order_acquire); lane != NULL;
       lane = lane->next)
    take_slabs(lane, pinned, device);
}

static void give_list(vyc_context *context, vyc_pool *pool, vyc_block *list) {
  while (list != NULL) {
    vyc_block *block = list;
    list = block->next;
    vyc__pool_give(context, pool, block, 0);
  }
}

void vyc__lanes_empty(vyc_context *context) {
  vyc_block *pinned = NULL, *device = NULL;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_child *child = context->children; child != NULL; child = child->next)
    if (child->kind == &vyc__plan_kind) take_all_slabs((vyc_plan *)child, &pinned, &device);
  pthread_mutex_unlock(&context->children_lock);
  give_list(context, vyc__pinned_pool(context), pinned);
  give_list(context, vyc__device_pool(context), device);
}

/* ---- the end of a plan ----------------------------------------------------------------------- */

bool vyc__lanes_destroy(vyc_plan *plan) {
  bool ended = true;
  for (vyc_lane *lane = atomic_load(&plan->lanes); lane != NULL; lane = lane->next)
    ended &= vyc__lane_destroy(lane);
  return ended;
}

/* Where the CUcontext was destroyed lanes were not, and are listed still; of a forked child nobody
 * reads the list. */
void vyc__lanes_free(vyc_plan *plan) {
  vyc_context *context = plan->child.context;
  vyc_lane *lane = atomic_load(&plan->lanes);
  while (lane != NULL) {
    vyc_lane *next = lane->next;
    if (!vyc__is_forked(context)) vyc__hidden_stream_remove(context, &lane->own);
    free(lane);
    lane = next;
  }
}
