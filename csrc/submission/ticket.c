/* The tickets of runs for which no one has waited yet. A ticket keeps its prepared kernel; how the
 * run ended is copied into it, so that it can be queried after the submission has been used for
 * other runs, and after a close. */
#include <stdlib.h>
#include <string.h>

#include "submission.h"

vyc_ticket *vyc__ticket_alloc(void) {
  vyc_ticket *ticket = malloc(sizeof *ticket);
  if (ticket == NULL)
    vyc__fail(VYC_E_MEMORY, "submit", "out of host memory");
  else
    memset(ticket, 0, offsetof(vyc_ticket, error)); /* which is large, and filled in at the end */
  return ticket;
}

void vyc__ticket_begin(vyc_ticket *ticket, const vyc_ticket_kind *kind, void *run,
                       vyc_prepared *prepared) {
  atomic_init(&ticket->references, 2);
  ticket->kind = kind;
  ticket->run = run;
  ticket->prepared = prepared;
  kind->hold(ticket);
}

static void ticket_unref(vyc_ticket *ticket) {
  if (atomic_fetch_sub_explicit(&ticket->references, 1, memory_order_acq_rel) == 1) free(ticket);
}

void vyc__ticket_end(vyc_ticket *ticket, vyc_status status) {
  if (status != VYC_OK) vyc__error_save(&ticket->error);
  ticket->error.status = (int32_t)status;
  atomic_store_explicit(&ticket->done, true, memory_order_release);
  ticket_unref(ticket);
}

vyc_timing *vyc__ticket_timing(vyc_submission *submission) {
  return submission->ticket != NULL && submission->ticket->timed ? &submission->ticket->timing
                                                                 : NULL;
}

void vyc__ticket_complete(vyc_submission *submission, vyc_status status) {
  vyc_ticket *ticket = submission->ticket;
  if (ticket == NULL) return;
  submission->ticket = NULL;
  if (ticket->timed) {
    vyc__timing_fill(&ticket->timing, ticket->begin_ns, ticket->submitted_ns);
    if (status == VYC_OK)
      vyc__count_timing(&submission->prepared->child.context->counters, &ticket->timing);
  }
  vyc__ticket_end(ticket, status);
}

static vyc_status outcome(const vyc_ticket *ticket) {
  const vyc_status status = (vyc_status)ticket->error.status;
  if (status != VYC_OK) vyc__error_restore(&ticket->error);
  return status;
}

/* Check once, or wait, unless another thread has the submission. */
static bool look_at_submission(vyc_ticket *ticket, int64_t timeout_ns, vyc_scope *scope) {
  (void)scope;
  vyc_submission *submission = ticket->run;
  int expected = SUBMISSION_FLIGHT;
  if (!atomic_compare_exchange_strong(&submission->state, &expected, SUBMISSION_CLAIMED))
    return false;
  const bool mine =
      submission->ticket == ticket; /* otherwise it has been reused: this ticket is done */
  const vyc_status status = mine ? vyc__submission_wait(submission, timeout_ns) : VYC_NOT_READY;
  if (status == VYC_NOT_READY)
    vyc__submission_set(submission, SUBMISSION_FLIGHT);
  else
    vyc__submission_collect(submission, status, NULL);
  return true;
}

static vyc_status wait_for_ticket(vyc_ticket *ticket, int64_t timeout_ns, vyc_scope *scope) {
  const uint64_t begin = timeout_ns < 0 ? 0 : vyc__now_ns();
  int64_t left = timeout_ns;
  for (;;) {
    const bool looked = ticket->kind->look(ticket, left, scope);
    if (vyc__ticket_is_done(ticket)) return outcome(ticket);
    if (timeout_ns >= 0) {
      const uint64_t waited = vyc__now_ns() - begin;
      if (waited >= (uint64_t)timeout_ns) return VYC_NOT_READY;
      left = timeout_ns - (int64_t)waited;
    }
    if (!looked)
      vyc__sleep_us(20); /* another thread is waiting for the submission or collecting it */
  }
}

/* A context of the host may be gone, and with it what a look reads. */
static vyc_status enter(const vyc_ticket *ticket, vyc_context *context, vyc_scope *scope) {
  return ticket->kind->looks_quietly && VYC_LIKELY(!context->host.owns_context)
             ? vyc__enter_quietly(context, scope)
             : vyc__enter(context, scope);
}

vyc_status vyc_ticket_wait(vyc_ticket *ticket, int64_t timeout_ns) {
  VYC_REQUIRE(ticket != NULL);
  if (vyc__ticket_is_done(ticket)) return outcome(ticket);
  vyc_context *context = ticket->prepared->child.context;
  vyc_scope scope;
  VYC_TRY(enter(ticket, context, &scope));
  vyc__scope_rest(&scope);
  const vyc_status status = wait_for_ticket(ticket, timeout_ns, &scope);
  vyc__scope_go_on(&scope);
  if (timeout_ns != 0 && status != VYC_NOT_READY) vyc__count(&context->counters, sync_points, 1);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_ticket_timing(vyc_ticket *ticket, vyc_timing *timing_out) {
  VYC_REQUIRE(ticket != NULL && timing_out != NULL);
  VYC_REQUIRE(timing_out->struct_size >= sizeof(uint32_t));
  if (!vyc__ticket_is_done(ticket)) return VYC_NOT_READY;
  VYC_REQUIRE(ticket->timed);
  vyc__struct_out(timing_out, &ticket->timing, sizeof ticket->timing);
  return VYC_OK;
}

vyc_status vyc_ticket_query(vyc_ticket *ticket) { return vyc_ticket_wait(ticket, 0); }

/* The submission is claimed to note that nothing may write to the result memory. */
static void abandon_submission(vyc_ticket *ticket) {
  while (!vyc__ticket_is_done(ticket)) {
    vyc_submission *submission = ticket->run;
    int expected = SUBMISSION_FLIGHT;
    if (atomic_compare_exchange_strong(&submission->state, &expected, SUBMISSION_CLAIMED)) {
      if (submission->ticket == ticket) submission->dropped = true;
      vyc__submission_set(submission, SUBMISSION_FLIGHT);
      return;
    }
    if (expected == SUBMISSION_DEAD) return;
    vyc__sleep_us(20);
  }
}

static void hold_prepared(const vyc_ticket *ticket) { vyc__child_retain(&ticket->prepared->child); }
static void let_go_of_prepared(const vyc_ticket *ticket) { vyc_prepared_release(ticket->prepared); }

static const vyc_ticket_kind of_submission = {.look = look_at_submission,
                                              .abandon = abandon_submission,
                                              .hold = hold_prepared,
                                              .let_go = let_go_of_prepared};

void vyc__ticket_attach(vyc_ticket *ticket, vyc_submission *submission) {
  vyc__ticket_begin(ticket, &of_submission, submission, submission->prepared);
  submission->ticket = ticket;
}

void vyc_ticket_release(vyc_ticket *ticket) {
  if (ticket == NULL) return;
  /* In a forked child the thread that had claimed the submission does not exist. */
  if (!vyc__is_forked(vyc__ticket_context(ticket))) ticket->kind->abandon(ticket);
  vyc__ticket_let_go(ticket);
}

void vyc__ticket_hold(vyc_ticket *ticket) {
  atomic_fetch_add_explicit(&ticket->references, 1, memory_order_relaxed);
  ticket->kind->hold(ticket);
}

void vyc__ticket_let_go(vyc_ticket *ticket) {
  ticket->kind->let_go(ticket);
  ticket_unref(ticket);
}

vyc_context *vyc__ticket_context(const vyc_ticket *ticket) {
  return ticket->prepared->child.context;
}
