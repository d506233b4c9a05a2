/* The ways of running a plan with host arguments: run and wait, and submit. */
#include <stdlib.h>

#include "plan.h"

static vyc_status submit(vyc_plan *plan, vyc_lane **lane_out, const vyc_run *run, bool timed) {
  VYC_TRY(vyc__lane_take(plan, lane_out));
  return vyc__lane_submit(*lane_out, run, timed);
}

/* The wait of vyc_plan_run ended early: the lane flies on, owned by a ticket or by nobody. */
static vyc_status leave_in_flight(vyc_lane *lane, vyc_ticket **ticket_out) {
  const char *entry = lane->plan->entry;
  vyc_ticket *ticket = ticket_out == NULL ? NULL : vyc__ticket_alloc();
  if (ticket == NULL)
    lane->dropped = true;
  else
    vyc__ticket_attach(ticket, lane);
  vyc__lane_set(lane, LANE_FLIGHT);
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
  vyc_ticket *ticket = vyc__ticket_alloc();
  vyc_status status = ticket == NULL ? VYC_E_MEMORY : submit(plan, &lane, run, false);
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
