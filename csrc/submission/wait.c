/* From a submitted submission to its end: the wait for it, its results, its destruction. */
#include <string.h>

#include "submission.h"

#define SPIN_NS                                                                                    \
  UINT64_C(200000) /* at least, for a prepared kernel whose runs are short or of unknown length */
#define SPIN_LONG_NS UINT64_C(20000) /* for a prepared kernel whose runs are long */

/* ---- wait for a submission ------------------------------------------------------------------ */

/* Checks of a flag between two queries of the driver, which alone can report a fault. */
#define LOOKS_UNASKED 256u
#define UNASKED_NS UINT64_C(200000) /* the same for callers that do not wait */

static vyc_status ask_stream(vyc_context *context, CUstream stream) {
  return vyc__ready(context, context->driver->cuStreamQuery(stream), "cuStreamQuery");
}

/* A driver may start enqueued work only when its stream is waited for or queried. If the work has
 * ended, the stream may be gone and another may have its slot: the answer then says nothing about
 * the run, except that the device has not failed. */
static vyc_status ask_elsewhere(const vyc_submission *submission) {
  vyc_context *context = submission->prepared->child.context;
  vyc_stream *stream = vyc__slot_hold(context, submission->slot);
  const vyc_status status = ask_stream(context, stream == NULL ? context->main : stream->handle);
  vyc__slot_let_go(stream);
  return status == VYC_OK ? VYC_NOT_READY : status;
}

static vyc_status ask_driver(const vyc_submission *submission) {
  vyc_context *context = submission->prepared->child.context;
  if (!submission->elsewhere) return ask_stream(context, submission->own.handle);
  if (!vyc__submission_is_marked(submission)) return ask_elsewhere(submission);
  return vyc__ready(context, context->driver->cuEventQuery(submission->done), "cuEventQuery");
}

vyc_status vyc__submission_poll(vyc_submission *submission) {
  if (VYC_LIKELY(submission->flagged)) {
    if (atomic_load_explicit(vyc__submission_flag(submission), memory_order_acquire) != 0)
      return VYC_OK;
    if (++submission->looks % LOOKS_UNASKED != 0) return VYC_NOT_READY;
  }
  return ask_driver(submission);
}

/* The mean of about the last eight waits of a prepared kernel. Threads may overwrite each other's
 * values; the mean is a hint. */
static void note_wait(vyc_prepared *prepared, uint64_t waited_ns) {
  const uint64_t mean = atomic_load_explicit(&prepared->mean_wait_ns, memory_order_relaxed);
  atomic_store_explicit(&prepared->mean_wait_ns, mean - mean / 8 + waited_ns / 8,
                        memory_order_relaxed);
}

static uint64_t spin_of(const vyc_prepared *prepared) {
  const uint64_t mean = atomic_load_explicit(&prepared->mean_wait_ns, memory_order_relaxed);
  if (mean >= VYC_SPIN_NS) return SPIN_LONG_NS;
  return 2 * mean > SPIN_NS ? 2 * mean : SPIN_NS;
}

/* Callers that do not wait check now and then, like an event loop: they would need long for that
 * many checks. */
static void ask_by_time(vyc_submission *submission, uint64_t now_ns) {
  if (now_ns - submission->asked_ns < UNASKED_NS) return;
  submission->asked_ns = now_ns;
  submission->looks = LOOKS_UNASKED - 1;
}

vyc_status vyc__submission_wait(vyc_submission *submission, int64_t timeout_ns) {
  vyc_status status = vyc__submission_poll(submission);
  if (status != VYC_NOT_READY) return status;
  vyc_prepared *prepared = submission->prepared;
  vyc_pace pace = vyc__pace_begin(timeout_ns, spin_of(prepared));
  if (timeout_ns == 0) ask_by_time(submission, pace.begin_ns);
  for (;;) {
    status = vyc__submission_poll(submission);
    if (VYC_LIKELY(status == VYC_OK)) note_wait(prepared, pace.waited_ns);
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__pace(prepared->child.context, &pace));
    if (vyc__pace_sleeps(&pace))
      submission->looks = LOOKS_UNASKED - 1; /* checks are rare: query each time */
  }
}

/* ---- collect -------------------------------------------------------------------------------- */

static vyc_status measure(vyc_submission *submission, vyc_timing *timing) {
  vyc_context *context = submission->prepared->child.context;
  float milliseconds = 0;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuEventElapsedTime, &milliseconds, submission->start, submission->stop));
  timing->device_ns = (uint64_t)((double)milliseconds * 1e6 + 0.5);
  return VYC_OK;
}

static bool is_lost(const vyc_submission *submission) {
  return atomic_load_explicit(&submission->prepared->child.context->lost, memory_order_relaxed);
}

/* *ended_out becomes false if results are still being written. */
static vyc_status read_results(vyc_submission *submission, vyc_timing *timing_out,
                               bool *ended_out) {
  const vyc_prepared *prepared = submission->prepared;
  if (VYC_UNLIKELY(prepared->prints))
    VYC_TRY(vyc__prints_show(prepared->child.context, submission->own.handle));
  if (prepared->has_report) {
    const uint64_t *cell = (const uint64_t *)(uintptr_t)submission->cell->address;
    if (cell[0] != VYC_REPORT_NONE)
      return vyc__fail_assert(cell[0], cell[1], prepared->tag, prepared->name);
  }
  if (timing_out != NULL) VYC_TRY(measure(submission, timing_out));
  if (VYC_UNLIKELY(submission->has_large)) VYC_TRY(vyc__results_fetch(submission, ended_out));
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < submission->result_count; i++) {
    const vyc_result *result = &submission->results[i];
    if (VYC_UNLIKELY(result->from == NULL)) continue;
    memcpy(result->to, result->from, result->bytes);
    bytes += result->bytes;
  }
  vyc__count(&prepared->child.context->counters, staged_out_bytes, bytes);
  return VYC_OK;
}

vyc_status vyc__submission_collect(vyc_submission *submission, vyc_status status,
                                   vyc_timing *timing_out) {
  bool ended = status == VYC_OK;
  if (timing_out == NULL) timing_out = vyc__ticket_timing(submission);
  if (ended && !submission->dropped) status = read_results(submission, timing_out, &ended);
  if (ended) vyc__submission_let_go(submission);
  submission->dropped = true; /* reported once; after a failed query the kernel may still run */
  vyc__ticket_complete(submission, status);
  vyc__submission_set(submission, is_lost(submission) ? SUBMISSION_DEAD
                                  : ended             ? SUBMISSION_FREE
                                                      : SUBMISSION_FLIGHT);
  return status;
}

/* ---- end of a submission -------------------------------------------------------------------- */

/* Retire the submission for good, waiting for its current user to notice. Returns the state it was
 * in. */
static int retire(vyc_submission *submission) {
  for (;;) {
    int state = atomic_load(&submission->state);
    if (state == SUBMISSION_DEAD) return state;
    if (state != SUBMISSION_CLAIMED &&
        atomic_compare_exchange_strong(&submission->state, &state, SUBMISSION_DEAD))
      return state;
    vyc__sleep_us(VYC_SLEEP_MIN_US);
  }
}

bool vyc__submission_await_end(vyc_submission *submission) {
  vyc_context *context = submission->prepared->child.context;
  return vyc__await_end_after(context, vyc__submission_wait(submission, vyc__patience(context)));
}

/* Wait for the run of a retired submission; if its own stream or event cannot be queried, for the
 * device. */
static bool has_ended(vyc_submission *submission, bool was_dead) {
  return was_dead ? vyc__await_end(submission->prepared->child.context)
                  : vyc__submission_await_end(submission);
}

bool vyc__submission_destroy(vyc_submission *submission) {
  if (submission->own.handle == NULL) return true; /* destroyed already */
  vyc_context *context = submission->prepared->child.context;
  const vyc_driver *driver = context->driver;
  vyc_error failure;
  vyc__error_save(&failure);
  const bool ended = has_ended(submission, retire(submission) == SUBMISSION_DEAD);
  if (submission->ticket != NULL)
    vyc__ticket_complete(
        submission, vyc__fail(VYC_E_UNAVAILABLE, "close",
                              "device %d or the kernel was closed: close it after the last wait",
                              context->caps.ordinal));
  vyc__error_restore(&failure);
  if (!ended) return false;
  vyc__submission_let_go(submission);
  vyc__launch_graph_destroy(&submission->launch_graph, context);
  vyc__flight_give(&context->history, submission->flight);
  if (submission->done != NULL) driver->cuEventDestroy(submission->done);
  if (submission->start != NULL) driver->cuEventDestroy(submission->start);
  if (submission->stop != NULL) driver->cuEventDestroy(submission->stop);
  vyc__hidden_stream_remove(context, &submission->own);
  driver->cuStreamDestroy(submission->own.handle);
  submission->own.handle = NULL;
  vyc__pool_give(context, vyc__pinned_pool(context), submission->cell, 0);
  if (submission->pinned != NULL)
    vyc__pool_give(context, vyc__pinned_pool(context), submission->pinned, 0);
  if (submission->barrier != NULL)
    vyc__pool_give(context, vyc__device_pool(context), submission->barrier, 0);
  if (submission->device != NULL)
    vyc__pool_give(context, vyc__device_pool(context), submission->device, 0);
  return true;
}
