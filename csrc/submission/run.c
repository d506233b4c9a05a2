/* The ways of running a plan with host arguments: run and wait, and submit. */
#include <stdlib.h>

#include "submission.h"

/* On the way in: clock readings of a timed run. */
typedef struct start {
  uint64_t begin_ns, submitted_ns;
} start;

static vyc_status submit(vyc_plan *plan, vyc_lane **lane_out, const vyc_run *run, bool timed,
                         int64_t *left_ns) {
  const vyc_status status = vyc__lane_take(plan, lane_out, left_ns);
  if (VYC_LIKELY(status == VYC_OK)) return vyc__lane_submit(*lane_out, run, timed);
  if (status == VYC_NOT_READY)
    return vyc__fail(VYC_E_TIMEOUT, "run",
                     "kernel %s: %u runs were in flight and none has ended in the time allowed",
                     plan->name, VYC_MAX_LANES);
  return status;
}

/* The wait of vyc_plan_run ended early: the lane flies on, owned by a ticket or by nobody. */
static vyc_status leave_in_flight(vyc_lane *lane, vyc_ticket **ticket_out, bool timed,
                                  const start *started) {
  const char *name = lane->plan->name;
  vyc_ticket *ticket = ticket_out == NULL ? NULL : vyc__ticket_alloc();
  if (ticket == NULL) {
    lane->dropped = true;
  } else {
    ticket->timed = timed;
    ticket->begin_ns = started->begin_ns;
    ticket->submitted_ns = started->submitted_ns;
    vyc__ticket_attach(ticket, lane);
  }
  vyc__lane_set(lane, LANE_FLIGHT);
  if (ticket_out != NULL) {
    if (ticket == NULL) return VYC_E_MEMORY;
    *ticket_out = ticket;
  }
  return vyc__fail(VYC_E_TIMEOUT, "run", "kernel %s has not finished in the time allowed", name);
}

static vyc_status run_and_wait(vyc_plan *plan, vyc_ticket **ticket_out, const vyc_run *run) {
  vyc_timing *timing = run->timing_out;
  vyc_lane *lane = NULL;
  int64_t left_ns = run->timeout_ns;
  start started = {timing == NULL ? 0 : vyc__now_ns(), 0};
  VYC_TRY(submit(plan, &lane, run, timing != NULL, &left_ns));
  if (timing != NULL) started.submitted_ns = vyc__now_ns();
  vyc_status status = vyc__lane_wait(lane, left_ns);
  if (VYC_UNLIKELY(status == VYC_NOT_READY))
    return leave_in_flight(lane, ticket_out, timing != NULL, &started);
  vyc__count(&plan->child.context->counters, sync_points, 1);
  status = vyc__lane_collect(lane, status, timing);
  if (timing == NULL) return status;
  vyc__timing_fill(timing, started.begin_ns, started.submitted_ns);
  if (status == VYC_OK) vyc__count_timing(&plan->child.context->counters, timing);
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
  int64_t left_ns = run->timeout_ns;
  vyc_ticket *ticket = vyc__ticket_alloc();
  vyc_status status = ticket == NULL ? VYC_E_MEMORY : submit(plan, &lane, run, false, &left_ns);
  if (VYC_LIKELY(status == VYC_OK)) {
    vyc__ticket_attach(ticket, lane);
    vyc__lane_set(lane, LANE_FLIGHT);
    *ticket_out = ticket;
  } else {
    free(ticket);
  }
  vyc__leave(context, &scope);
  return status;
}
