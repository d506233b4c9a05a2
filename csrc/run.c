/* The ways of running a plan with host arguments: run, submit, and the tickets of what has not been
 * waited for. A ticket keeps its plan; how the run ended is copied into it, so it can be asked
 * after the lane has gone on to other runs, and after a close. */
#include <stdlib.h>

#include "plan.h"

static vyc_status submit(vyc_plan *plan, vyc_lane **lane_out, const vyc_run *run, bool timed) {
  VYC_TRY(vyc__lane_take(plan, lane_out));
  return vyc__lane_submit(*lane_out, run, timed);
}

static void fly(vyc_lane *lane) {
  atomic_store_explicit(&lane->state, LANE_FLIGHT, memory_order_release);
}

/* ---- tickets --------------------------------------------------------------------------------- */

static vyc_ticket *ticket_alloc(void) {
  vyc_ticket *ticket = calloc(1, sizeof *ticket);
  if (ticket == NULL) vyc__fail(VYC_E_MEMORY, "submit", "out of host memory");
  return ticket;
}

/* The caller has claimed the lane. */
static void ticket_attach(vyc_ticket *ticket, vyc_lane *lane) {
  atomic_init(&ticket->references, 2);
  ticket->lane = lane;
  ticket->plan = lane->plan;
  vyc__child_retain(&lane->plan->child);
  lane->ticket = ticket;
}

static void ticket_unref(vyc_ticket *ticket) {
  if (atomic_fetch_sub_explicit(&ticket->references, 1, memory_order_acq_rel) == 1) free(ticket);
}

void vyc__ticket_settle(vyc_lane *lane, vyc_status status) {
  vyc_ticket *ticket = lane->ticket;
  if (ticket == NULL) return;
  lane->ticket = NULL;
  if (status != VYC_OK) vyc__error_save(&ticket->error);
  ticket->error.status = (int32_t)status;
  atomic_store_explicit(&ticket->done, true, memory_order_release);
  ticket_unref(ticket);
}

static bool is_done(const vyc_ticket *ticket) {
  return atomic_load_explicit(&ticket->done, memory_order_acquire);
}

static vyc_status outcome(const vyc_ticket *ticket) {
  const vyc_status status = (vyc_status)ticket->error.status;
  if (status != VYC_OK) vyc__error_restore(&ticket->error);
  return status;
}

/* One look, or a wait, if nobody else has the lane. */
static bool wait_for_lane(vyc_ticket *ticket, int64_t timeout_ns) {
  vyc_lane *lane = ticket->lane;
  int expected = LANE_FLIGHT;
  if (!atomic_compare_exchange_strong(&lane->state, &expected, LANE_CLAIMED)) return false;
  const bool mine = lane->ticket == ticket; /* else reused meanwhile: this ticket is done */
  const vyc_status status = mine ? vyc__lane_wait(lane, timeout_ns) : VYC_NOT_READY;
  if (status == VYC_NOT_READY)
    fly(lane);
  else
    vyc__lane_collect(lane, status, NULL);
  return true;
}

static vyc_status wait_for_ticket(vyc_ticket *ticket, int64_t timeout_ns) {
  const uint64_t begin = vyc__now_ns();
  int64_t left = timeout_ns;
  for (;;) {
    const bool looked = wait_for_lane(ticket, left);
    if (is_done(ticket)) return outcome(ticket);
    if (timeout_ns >= 0) {
      const uint64_t waited = vyc__now_ns() - begin;
      if (waited >= (uint64_t)timeout_ns) return VYC_NOT_READY;
      left = timeout_ns - (int64_t)waited;
    }
    if (!looked) vyc__sleep_us(20); /* another thread waits for the lane or collects it */
  }
}

vyc_status vyc_ticket_wait(vyc_ticket *ticket, int64_t timeout_ns) {
  VYC_REQUIRE(ticket != NULL);
  if (is_done(ticket)) return outcome(ticket);
  vyc_context *context = ticket->plan->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = wait_for_ticket(ticket, timeout_ns);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_ticket_query(vyc_ticket *ticket) { return vyc_ticket_wait(ticket, 0); }

/* Nobody may write to the result memory once this returns: the lane is claimed to say so. */
static void abandon(vyc_ticket *ticket) {
  while (!is_done(ticket)) {
    vyc_lane *lane = ticket->lane;
    int expected = LANE_FLIGHT;
    if (atomic_compare_exchange_strong(&lane->state, &expected, LANE_CLAIMED)) {
      if (lane->ticket == ticket) lane->dropped = true;
      fly(lane);
      return;
    }
    if (expected == LANE_DEAD) return;
    vyc__sleep_us(20);
  }
}

void vyc_ticket_release(vyc_ticket *ticket) {
  if (ticket == NULL) return;
  vyc_plan *plan = ticket->plan;
  /* In a forked child whoever had claimed the lane does not exist. */
  if (!vyc__is_forked(plan->child.context)) abandon(ticket);
  ticket_unref(ticket);
  vyc_plan_release(plan);
}

/* ---- run and submit -------------------------------------------------------------------------- */

/* The wait of vyc_plan_run ended early: the lane flies on, owned by a ticket or by nobody. */
static vyc_status leave_in_flight(vyc_lane *lane, vyc_ticket **ticket_out) {
  const char *entry = lane->plan->entry;
  vyc_ticket *ticket = ticket_out == NULL ? NULL : ticket_alloc();
  if (ticket == NULL)
    lane->dropped = true;
  else
    ticket_attach(ticket, lane);
  fly(lane);
  if (ticket_out != NULL) {
    if (ticket == NULL) return VYC_E_MEMORY;
    *ticket_out = ticket;
  }
  return vyc__fail(VYC_E_TIMEOUT, "run", "kernel %s has not finished in the time allowed", entry);
}

static vyc_status run_and_wait(vyc_plan *plan, vyc_ticket **ticket_out, const vyc_run *run) {
  vyc_timing *timing = run->timing_out;
  vyc_lane *lane = NULL;
  const uint64_t begin = timing == NULL ? 0 : vyc__now_ns();
  VYC_TRY(submit(plan, &lane, run, timing != NULL));
  const uint64_t submitted = timing == NULL ? 0 : vyc__now_ns();
  vyc_status status = vyc__lane_wait(lane, run->timeout_ns);
  status = status == VYC_NOT_READY ? leave_in_flight(lane, ticket_out)
                                   : vyc__lane_collect(lane, status, timing);
  if (timing != NULL) {
    const uint64_t end = vyc__now_ns();
    timing->wall_ns = end - begin;
    timing->enqueue_ns = submitted - begin;
    timing->wait_ns = end - submitted;
  }
  return status;
}

vyc_status vyc_plan_run(vyc_plan *plan, vyc_ticket **ticket_out, const vyc_run *run) {
  VYC_REQUIRE(plan != NULL);
  if (ticket_out != NULL) *ticket_out = NULL;
  VYC_TRY(vyc__run_check(plan, run));
  VYC_REQUIRE(run->timing_out == NULL || run->timing_out->struct_size >= sizeof(vyc_timing));
  vyc_context *context = plan->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = run_and_wait(plan, ticket_out, run);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_plan_submit(vyc_plan *plan, vyc_ticket **ticket_out, const vyc_run *run) {
  VYC_REQUIRE(plan != NULL && ticket_out != NULL);
  *ticket_out = NULL;
  VYC_TRY(vyc__run_check(plan, run));
  vyc_context *context = plan->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_lane *lane = NULL;
  vyc_ticket *ticket = ticket_alloc();
  vyc_status status = ticket == NULL ? VYC_E_MEMORY : submit(plan, &lane, run, false);
  if (VYC_LIKELY(status == VYC_OK)) {
    ticket_attach(ticket, lane);
    fly(lane);
    *ticket_out = ticket;
  } else {
    free(ticket);
  }
  vyc__leave(context, &scope);
  return status;
}
