/* One execution of a prepared kernel with host arguments: creating and claiming a submission, and
 * submitting.
 *
 * A submission is free, claimed by one thread, in flight or dead. It becomes free only when its run
 * is known to have ended: until then the kernel uses its slabs, stream and launch graph. */
#include <stdlib.h>

#include "submission.h"

/* ---- submit --------------------------------------------------------------------------------- */

static vyc_status timing_events(vyc_submission *submission) {
  vyc_context *context = submission->prepared->child.context;
  VYC_CU_RESULT;
  if (submission->start == NULL)
    VYC_TRY(VYC_CU(context, cuEventCreate, &submission->start, CU_EVENT_DEFAULT));
  if (submission->stop == NULL)
    VYC_TRY(VYC_CU(context, cuEventCreate, &submission->stop, CU_EVENT_DEFAULT));
  return VYC_OK;
}

/* Through host memory several elements a thread are slower: by a tenth over 2^22 f32 (H200). */
static bool is_on_device(const vyc_submission *submission, const vyc_run *run) {
  const vyc_prepared *prepared = submission->prepared;
  if (atomic_load_explicit(&prepared->several, memory_order_relaxed) == NULL) return true;
  for (uint32_t i = 0; i < prepared->binding_count; i++)
    if (vyc__is_host(&run->arguments[i]) && submission->ways[i] == WAY_MAPPED) return false;
  return true;
}

/* By a graph with new parameters, or by a launch alone: the latter for a timed run, whose events
 * are right around its kernel, and beside launches of other threads (kernel/crowd.h), when a query
 * of the stream shows its end. A run on another stream would need an event for that. */
static vyc_status launch_by(vyc_submission *submission, const vyc_form *form, bool timed,
                            CUstream stream, bool *flagged_out) {
  const vyc_prepared *prepared = submission->prepared;
  vyc_context *context = prepared->child.context;
  vyc_launch_graph *launch_graph = &submission->launch_graph;
  const vyc_crowd crowd = vyc__crowd_enter(context);
  const bool alone = timed || (VYC_UNLIKELY(crowd.others) && !submission->elsewhere);
  const vyc_status status =
      VYC_UNLIKELY(alone)
          ? vyc__launch_graph_launch_once(launch_graph, prepared, submission->block, form, stream)
          : vyc__launch_graph_launch(launch_graph, prepared, submission->block, form, stream);
  vyc__crowd_leave(context, crowd);
  *flagged_out = !alone && launch_graph->handle != NULL && launch_graph->flag != 0;
  return status;
}

/* Iteration `i`: the grid barrier of a cooperative kernel begins each one cleared. */
static vyc_status launch_one(vyc_submission *submission, const vyc_run *run, uint32_t i, bool timed,
                             CUstream stream, bool *flagged_out) {
  const vyc_prepared *prepared = submission->prepared;
  const vyc_form form =
      is_on_device(submission, run) ? vyc__form_of(prepared, run) : vyc__form_of_one(prepared, run);
  if (VYC_UNLIKELY(prepared->cooperative && i > 0))
    VYC_TRY(vyc__barrier_ready(prepared->child.context, &submission->barrier, stream));
  return launch_by(submission, &form, timed, stream, flagged_out);
}

/* Launch the kernel and choose what will signal its end: the flag, if the graph of the submission
 * sets it after all of the run, otherwise the stream. A timed kernel is launched alone between its
 * events. */
static vyc_status launch(vyc_submission *submission, const vyc_run *run, bool timed,
                         CUstream stream) {
  const vyc_prepared *prepared = submission->prepared;
  vyc_context *context = prepared->child.context;
  const uint32_t times = vyc__grid_is_empty(run->grid) ? 0 : vyc__iterations(run);
  VYC_CU_RESULT;
  submission->flagged = false;
  if (VYC_UNLIKELY(timed)) {
    VYC_TRY(timing_events(submission));
    VYC_TRY(VYC_CU(context, cuEventRecord, submission->start, stream));
  }
  atomic_store_explicit(vyc__submission_flag(submission), 0, memory_order_relaxed);
  vyc__launch_graph_claim_wait(&submission->launch_graph);
  vyc_status status = VYC_OK;
  bool flagged = false;
  for (uint32_t i = 0; i < times && status == VYC_OK; i++)
    status = launch_one(submission, run, i, timed, stream, &flagged);
  submission->flagged = flagged && times == 1 && !prepared->cooperative && !submission->copies_out;
  if (VYC_LIKELY(submission->flagged && !submission->elsewhere))
    vyc__hidden_stream_runs(context, &submission->own);
  vyc__launch_graph_unclaim(&submission->launch_graph);
  if (VYC_UNLIKELY(timed) && status == VYC_OK)
    return VYC_CU(context, cuEventRecord, submission->stop, stream);
  return status;
}

/* An event after a run on another stream, if no flag signals its end, or that stream cannot be
 * queried for this run. */
static vyc_status mark_end(vyc_submission *submission, CUstream stream) {
  vyc_context *context = submission->prepared->child.context;
  VYC_CU_RESULT;
  if (submission->done == NULL)
    VYC_TRY(VYC_CU(context, cuEventCreate, &submission->done, CU_EVENT_DISABLE_TIMING));
  return VYC_CU(context, cuEventRecord, submission->done, stream);
}

static vyc_status enqueue(vyc_submission *submission, const vyc_run *run, bool timed,
                          CUstream stream, uint32_t slot) {
  const vyc_prepared *prepared = submission->prepared;
  const uint32_t taken = vyc__marks_taken(prepared->child.context);
  VYC_TRY(vyc__stage_in(submission, run, stream, slot));
  if (prepared->has_report) vyc__report_reset((uint64_t *)(uintptr_t)submission->cell->address);
  if (prepared->cooperative)
    VYC_TRY(vyc__barrier_ready(prepared->child.context, &submission->barrier, stream));
  const vyc_hidden hidden = {submission->cell->address,
                             submission->barrier == NULL ? 0 : submission->barrier->address};
  vyc__block_write(prepared, submission->block, submission->addresses, run, &hidden);
  vyc__entry_write(&submission->flight->entry, vyc__entry_note(&submission->flight->entry),
                   submission->block);
  VYC_TRY(launch(submission, run, timed, stream));
  if (submission->copies_out) VYC_TRY(vyc__stage_out(submission, run, stream));
  if (submission->elsewhere)
    VYC_TRY(vyc__run_enqueued(prepared->child.context, run, stream, slot, taken));
  return vyc__submission_is_marked(submission) ? mark_end(submission, stream) : VYC_OK;
}

/* A run with device arguments or a stream keeps the order of that stream; one with only host
 * arguments may overlap others and uses the submission's own. */
static vyc_status choose_stream(vyc_submission *submission, const vyc_run *run,
                                CUstream *stream_out, uint32_t *slot_out) {
  bool own = run->stream == NULL;
  for (uint32_t i = 0; own && i < run->argument_count; i++) own = vyc__is_host(&run->arguments[i]);
  submission->elsewhere = !own;
  if (VYC_LIKELY(own)) {
    *stream_out = submission->own.handle;
    *slot_out = VYC_SLOT_OTHER;
    return VYC_OK;
  }
  VYC_TRY(vyc__stream_of(submission->prepared->child.context, stream_out, slot_out, run->stream));
  submission->slot = *slot_out;
  return VYC_OK;
}

/* A ticket may be abandoned, and then only the run knows what it uses. */
static void hold(vyc_submission *submission, const vyc_run *run) {
  for (uint32_t i = 0; i < run->argument_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (VYC_LIKELY(argument->kind != VYC_ARGUMENT_PINNED || argument->pinned == NULL)) continue;
    vyc__pinned_retain(argument->pinned);
    submission->held[submission->held_count++] = argument->pinned;
  }
}

void vyc__submission_let_go(vyc_submission *submission) {
  atomic_store_explicit(&submission->flight->entry.note, 0, memory_order_relaxed);
  while (submission->held_count > 0) vyc__pinned_drop(submission->held[--submission->held_count]);
}

/* A submission failed half-way, and work may be in flight: the submission is used again only when
 * that is known to have ended. A dead submission does not count, so that another can replace it. */
static void drain(vyc_submission *submission, CUstream stream) {
  const bool ended = vyc__stream_await_end(submission->prepared->child.context, stream);
  if (ended)
    vyc__submission_let_go(submission);
  else
    atomic_fetch_sub(&submission->prepared->submission_count, 1);
  vyc__submission_set(submission, ended ? SUBMISSION_FREE : SUBMISSION_DEAD);
}

vyc_status vyc__submission_enqueue(vyc_submission *submission, const vyc_run *run, bool timed) {
  CUstream stream = NULL;
  uint32_t slot = VYC_SLOT_MAIN;
  submission->result_count = 0;
  submission->dropped = false;
  vyc_status status = choose_stream(submission, run, &stream, &slot);
  if (status == VYC_OK) status = vyc__stage_reserve(submission, run, stream);
  if (status != VYC_OK) {
    vyc__submission_set(submission, SUBMISSION_FREE);
    return status;
  }
  hold(submission, run);
  const vyc_prepared *prepared = submission->prepared;
  const vyc_note note =
      vyc__note_of(&prepared->child.context->history, prepared->noted, vyc__origin_of(run));
  vyc__entry_write_name(&submission->flight->entry, note);
  status = enqueue(submission, run, timed, stream, slot);
  if (VYC_UNLIKELY(status != VYC_OK)) {
    submission->keeps = false;
    drain(submission, stream);
  }
  return status;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* A submission that is claimed is not looked at: its thread may change it meanwhile, and notes the
 * end itself. */
static bool is_known_to_have_ended(void *owner) {
  vyc_submission *submission = owner;
  int expected = SUBMISSION_FLIGHT;
  if (!atomic_compare_exchange_strong(&submission->state, &expected, SUBMISSION_CLAIMED))
    return false;
  const bool ended = submission->flagged && atomic_load(vyc__submission_flag(submission)) != 0;
  vyc__submission_set(submission, SUBMISSION_FLIGHT);
  return ended;
}

static const vyc_flight_kind flight_kind = {"a call with host arrays", is_known_to_have_ended};

static vyc_status submission_make(vyc_prepared *prepared, vyc_submission **submission_out) {
  const size_t results = prepared->binding_count * sizeof(vyc_result);
  const size_t held = prepared->binding_count * sizeof(vyc_pinned *);
  const size_t addresses = prepared->binding_count * sizeof(uint64_t), contents = addresses;
  const size_t pointers = prepared->parameter_count * sizeof(void *);
  const size_t block = (size_t)vyc__align_up(prepared->block_bytes, 16);
  const size_t ways = prepared->binding_count;
  const size_t words = results + held + addresses + contents + pointers;
  vyc_submission *submission = calloc(1, sizeof *submission + words + 2 * block + 16 + ways);
  if (submission == NULL) return vyc__fail(VYC_E_MEMORY, "run", "out of host memory");
  uint8_t *tail = (uint8_t *)(submission + 1);
  submission->results = (vyc_result *)(void *)tail;
  submission->held = (vyc_pinned **)(void *)(tail + results);
  submission->addresses = (uint64_t *)(void *)(tail + results + held);
  submission->contents = (uint64_t *)(void *)(tail + results + held + addresses);
  void **pointer_room = (void **)(void *)(tail + results + held + addresses + contents);
  uint8_t *blocks = (uint8_t *)(uintptr_t)vyc__align_up((uint64_t)(uintptr_t)(tail + words), 16);
  submission->block = blocks;
  submission->ways = blocks + 2 * block;
  submission->prepared = prepared;
  vyc__launch_graph_init(&submission->launch_graph, prepared, pointer_room, blocks + block);
  atomic_init(&submission->state, SUBMISSION_CLAIMED);
  vyc_context *context = prepared->child.context;
  VYC_CU_RESULT;
  vyc_status status = VYC_E_MEMORY;
  submission->flight = vyc__flight_take(&context->history, &flight_kind, submission);
  if (submission->flight == NULL) goto fail_flight;
  status = vyc__pool_take(context, vyc__pinned_pool(context), &submission->cell, VYC_CELL_BYTES);
  if (status != VYC_OK) goto fail_cell;
  status = VYC_CU(context, cuStreamCreate, &submission->own.handle, CU_STREAM_NON_BLOCKING);
  if (status != VYC_OK) goto fail_stream;
  submission->launch_graph.flag = submission->cell->address + VYC_FLAG_OFFSET;
  submission->own.state = &submission->state;
  vyc__hidden_stream_add(context, &submission->own);
  *submission_out = submission;
  return VYC_OK;

fail_stream:
  vyc__pool_give(context, vyc__pinned_pool(context), submission->cell, 0);
fail_cell:
  vyc__flight_give(&context->history, submission->flight);
fail_flight:
  free(submission);
  return status;
}

/* Claim a submission whose run has ended without a waiter; this collects its results. */
static bool reclaim(vyc_submission *submission) {
  int expected = SUBMISSION_FLIGHT;
  if (!atomic_compare_exchange_strong(&submission->state, &expected, SUBMISSION_CLAIMED))
    return false;
  const vyc_status status = vyc__submission_poll(submission);
  if (status == VYC_NOT_READY) {
    vyc__submission_set(submission, SUBMISSION_FLIGHT);
    return false;
  }
  vyc__submission_collect(submission, status, NULL);
  expected = SUBMISSION_FREE;
  return atomic_compare_exchange_strong(&submission->state, &expected, SUBMISSION_CLAIMED);
}

static vyc_submission *claim_any(vyc_prepared *prepared) {
  vyc_submission *first = atomic_load_explicit(&prepared->submissions, memory_order_acquire);
  for (vyc_submission *submission = first; submission != NULL; submission = submission->next) {
    /* Looked at first: an exchange that fails takes the line from the thread whose run it is. */
    int expected = atomic_load_explicit(&submission->state, memory_order_relaxed);
    if (expected == SUBMISSION_FREE &&
        atomic_compare_exchange_strong_explicit(&submission->state, &expected, SUBMISSION_CLAIMED,
                                                memory_order_acquire, memory_order_relaxed))
      return submission;
  }
  for (vyc_submission *submission = first; submission != NULL; submission = submission->next)
    if (reclaim(submission)) return submission;
  return NULL;
}

/* Create one more submission, unless there are enough. */
static bool may_grow(vyc_prepared *prepared) {
  if (atomic_fetch_add(&prepared->submission_count, 1) < VYC_MAX_SUBMISSIONS) return true;
  atomic_fetch_sub(&prepared->submission_count, 1);
  return false;
}

vyc_status vyc__submission_take(vyc_prepared *prepared, vyc_submission **submission_out,
                                int64_t *left_ns) {
  *submission_out = claim_any(prepared);
  if (VYC_LIKELY(*submission_out != NULL)) return VYC_OK;
  if (VYC_UNLIKELY(!may_grow(prepared))) {
    vyc_pace pace = vyc__pace_begin(*left_ns, 0);
    do {
      VYC_TRY(vyc__check_usable(prepared->child.context));
      VYC_TRY(vyc__pace(prepared->child.context, &pace));
      *submission_out = claim_any(prepared);
      *left_ns = vyc__pace_left(&pace);
      if (*submission_out != NULL) return VYC_OK;
    } while (!may_grow(prepared));
  }
  vyc_submission *submission = NULL;
  const vyc_status status = submission_make(prepared, &submission);
  if (status != VYC_OK) {
    atomic_fetch_sub(&prepared->submission_count, 1);
    return status;
  }
  submission->next = atomic_load(&prepared->submissions);
  while (!atomic_compare_exchange_weak(&prepared->submissions, &submission->next, submission)) {
  }
  *submission_out = submission;
  return VYC_OK;
}

/* ---- slabs of submissions that nobody uses -------------------------------------------------- */

static void move(vyc_block **slab, vyc_block **list) {
  if (*slab == NULL) return;
  (*slab)->next = *list;
  *list = *slab;
  *slab = NULL;
}

static void take_slabs(vyc_submission *submission, vyc_block **pinned, vyc_block **device) {
  int expected = SUBMISSION_FREE;
  if (!atomic_compare_exchange_strong(&submission->state, &expected, SUBMISSION_CLAIMED)) return;
  move(&submission->pinned, pinned);
  move(&submission->device, device);
  submission->keeps = false;
  vyc__submission_set(submission, SUBMISSION_FREE);
}

static void take_all_slabs(vyc_prepared *prepared, vyc_block **pinned, vyc_block **device) {
  for (vyc_submission *submission =
           atomic_load_explicit(&prepared->submissions, memory_order_acquire);
       submission != NULL; submission = submission->next)
    take_slabs(submission, pinned, device);
}

static void give_list(vyc_context *context, vyc_pool *pool, vyc_block *list) {
  while (list != NULL) {
    vyc_block *block = list;
    list = block->next;
    vyc__pool_give(context, pool, block, 0);
  }
}

void vyc__submissions_empty(vyc_context *context) {
  vyc_block *pinned = NULL, *device = NULL;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_child *child = context->children; child != NULL; child = child->next)
    if (child->kind == &vyc__prepared_kind) take_all_slabs((vyc_prepared *)child, &pinned, &device);
  pthread_mutex_unlock(&context->children_lock);
  give_list(context, vyc__pinned_pool(context), pinned);
  give_list(context, vyc__device_pool(context), device);
}

/* ---- the end of a prepared kernel ----------------------------------------------------------- */

bool vyc__submissions_destroy(vyc_prepared *prepared) {
  bool ended = true;
  for (vyc_submission *submission = atomic_load(&prepared->submissions); submission != NULL;
       submission = submission->next)
    ended &= vyc__submission_destroy(submission);
  return ended;
}

/* If the CUcontext was destroyed, submissions were not, and are still listed; in a forked child the
 * list is not read. */
void vyc__submissions_free(vyc_prepared *prepared) {
  vyc_context *context = prepared->child.context;
  vyc_submission *submission = atomic_load(&prepared->submissions);
  while (submission != NULL) {
    vyc_submission *next = submission->next;
    if (!vyc__is_forked(context)) vyc__hidden_stream_remove(context, &submission->own);
    free(submission);
    submission = next;
  }
}
