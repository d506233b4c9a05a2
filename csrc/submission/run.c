/* The ways of running a prepared kernel with host arguments: run and wait, and submit. */
#include <stdlib.h>

#include "submission.h"

/* Clock readings of a timed run before it. */
typedef struct start {
  uint64_t begin_ns, submitted_ns;
} start;

static vyc_status submit(vyc_prepared *prepared, vyc_submission **submission_out,
                         const vyc_run *run, bool timed, int64_t *left_ns) {
  const vyc_status status = vyc__submission_take(prepared, submission_out, left_ns);
  if (VYC_LIKELY(status == VYC_OK)) return vyc__submission_enqueue(*submission_out, run, timed);
  if (status == VYC_NOT_READY)
    return vyc__fail(
        VYC_E_TIMEOUT, "run",
        "kernel %s: %u runs were in flight and none has ended in the time allowed: allow more, or "
        "wait for some first",
        prepared->name, VYC_MAX_SUBMISSIONS);
  return status;
}

/* The wait of vyc_prepared_run ended early: the submission stays in flight, owned by a ticket or by
 * no one. */
static vyc_status leave_in_flight(vyc_submission *submission, vyc_ticket **ticket_out, bool timed,
                                  const start *started) {
  const char *name = submission->prepared->name;
  vyc_ticket *ticket = ticket_out == NULL ? NULL : vyc__ticket_alloc();
  if (ticket == NULL) {
    submission->dropped = true;
  } else {
    ticket->timed = timed;
    ticket->begin_ns = started->begin_ns;
    ticket->submitted_ns = started->submitted_ns;
    vyc__ticket_attach(ticket, submission);
  }
  vyc__submission_set(submission, SUBMISSION_FLIGHT);
  if (ticket_out != NULL) {
    if (ticket == NULL) return VYC_E_MEMORY;
    *ticket_out = ticket;
  }
  return vyc__fail(
      VYC_E_TIMEOUT, "run",
      "kernel %s has not finished in the time allowed: allow more, or wait for its ticket", name);
}

static vyc_status run_and_wait(vyc_prepared *prepared, vyc_ticket **ticket_out, const vyc_run *run,
                               const vyc_scope *scope) {
  vyc_timing *timing = run->timing_out;
  vyc_submission *submission = NULL;
  int64_t left_ns = run->timeout_ns;
  start started = {timing == NULL ? 0 : vyc__now_ns(), 0};
  VYC_TRY(submit(prepared, &submission, run, timing != NULL, &left_ns));
  if (timing != NULL) started.submitted_ns = vyc__now_ns();
  vyc__scope_rest(scope);
  vyc_status status = vyc__submission_wait(submission, left_ns);
  vyc__scope_go_on(scope);
  if (VYC_UNLIKELY(status == VYC_NOT_READY))
    return leave_in_flight(submission, ticket_out, timing != NULL, &started);
  vyc__count(&prepared->child.context->counters, sync_points, 1);
  status = vyc__submission_collect(submission, status, timing);
  if (timing == NULL) return status;
  vyc__timing_fill(timing, started.begin_ns, started.submitted_ns);
  if (status == VYC_OK) vyc__count_timing(&prepared->child.context->counters, timing);
  return status;
}

vyc_status vyc_prepared_run(vyc_prepared *prepared, vyc_ticket **ticket_out, const vyc_run *run) {
  VYC_REQUIRE(prepared != NULL);
  if (ticket_out != NULL) *ticket_out = NULL;
  VYC_TRY(vyc__run_check(prepared, run));
  VYC_REQUIRE(run->timing_out == NULL || run->timing_out->struct_size >= sizeof(vyc_timing));
  vyc_context *context = prepared->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = run_and_wait(prepared, ticket_out, run, &scope);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_prepared_submit(vyc_prepared *prepared, vyc_ticket **ticket_out,
                               const vyc_run *run) {
  VYC_REQUIRE(prepared != NULL && ticket_out != NULL);
  *ticket_out = NULL;
  VYC_TRY(vyc__run_check(prepared, run));
  vyc_context *context = prepared->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_submission *submission = NULL;
  int64_t left_ns = run->timeout_ns;
  vyc_ticket *ticket = vyc__ticket_alloc();
  vyc_status status =
      ticket == NULL ? VYC_E_MEMORY : submit(prepared, &submission, run, false, &left_ns);
  if (VYC_LIKELY(status == VYC_OK)) {
    vyc__ticket_attach(ticket, submission);
    vyc__submission_set(submission, SUBMISSION_FLIGHT);
    *ticket_out = ticket;
  } else {
    free(ticket);
  }
  vyc__leave(context, &scope);
  return status;
}
