/* Calls of a worker for callers: with a wait, and with a ticket. */
#include <stdlib.h>

#include "worker.h"

static vyc_status check(vyc_worker *worker, uint32_t kernel, const vyc_run *run) {
  VYC_REQUIRE_IN("worker", kernel < worker->kernel_count);
  VYC_TRY(vyc__run_check(worker->kernels[kernel], run));
  VYC_REQUIRE_IN("worker", run->grid[1] <= UINT16_MAX && run->grid[2] <= UINT16_MAX);
  if (VYC_UNLIKELY(run->stream != NULL || run->timing_out != NULL || vyc__iterations(run) != 1))
    return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                     "kernel %s: a worker takes no stream, no iterations and no timing: run the "
                     "kernel itself",
                     worker->kernels[kernel]->name);
  return VYC_OK;
}

static vyc_status submit(vyc_worker *worker, vyc_worker_call **call_out, uint32_t kernel,
                         const vyc_run *run, vyc_scope *scope) {
  VYC_TRY(vyc__call_take(worker, call_out, scope));
  VYC_TRY(vyc__call_prepare(*call_out, kernel, run));
  return vyc__call_submit(*call_out, kernel, run, run->timeout_ns);
}

/* ---- tickets --------------------------------------------------------------------------------- */

static bool look_at_call(vyc_ticket *ticket, int64_t timeout_ns, vyc_scope *scope) {
  vyc_worker_call *call = ticket->run;
  int expected = CALL_FLIGHT;
  if (!atomic_compare_exchange_strong(&call->state, &expected, CALL_CLAIMED)) return false;
  const bool mine = call->ticket == ticket; /* otherwise it was used again: this ticket is done */
  call->scope = scope;
  const vyc_status status = mine ? vyc__call_wait(call, timeout_ns) : VYC_NOT_READY;
  if (status != VYC_NOT_READY) {
    vyc__call_collect(call, status);
  } else {
    call->scope = NULL;
    vyc__call_set(call, CALL_FLIGHT);
  }
  return true;
}

/* Whether it has ended, for the last look of a wait. */
static bool leave_or_wait(vyc_worker_call *call) {
  vyc_context *context = call->worker->child.context;
  vyc_pace pace = vyc__pace_begin(vyc__patience(context), 0);
  vyc_status status;
  do {
    status = vyc__call_wait(call, 0);
    if (status != VYC_NOT_READY) return status == VYC_OK;
    status = vyc__call_leave(call);
    if (status == VYC_OK) return false;
    if (status != VYC_NOT_READY)
      return vyc__call_wait(call, vyc__pace_left(&pace)) == VYC_OK; /* nothing else is left */
  } while (vyc__pace(context, &pace) == VYC_OK);
  return false;
}

/* Results in device memory cannot be dropped: later users of the memory do not know of the call.
 * True: it has ended, and the call is free. */
static bool leave_buffers(vyc_worker_call *call) {
  vyc_context *context = call->worker->child.context;
  vyc_scope scope;
  if (!vyc__enter_release(context, &scope)) return false;
  vyc__record_keep();
  const bool ended = leave_or_wait(call);
  if (ended) vyc__call_collect(call, VYC_OK);
  vyc__record_resume();
  vyc__leave(context, &scope);
  return ended;
}

static void abandon_call(vyc_ticket *ticket) {
  vyc_worker_call *call = ticket->run;
  while (!vyc__ticket_is_done(ticket)) {
    int expected = CALL_FLIGHT;
    if (atomic_compare_exchange_strong(&call->state, &expected, CALL_CLAIMED)) {
      if (call->ticket == ticket) {
        call->dropped = true;
        if (call->held_count > 0 && leave_buffers(call)) break;
      }
      vyc__call_set(call, CALL_FLIGHT);
      break;
    }
    vyc__sleep_us(VYC_SLEEP_MIN_US);
  }
}

/* The call is a part of the worker, which keeps its kernels. */
static void hold_worker(const vyc_ticket *ticket) {
  const vyc_worker_call *call = ticket->run;
  vyc__child_retain(&call->worker->child);
}

static void let_go_of_worker(const vyc_ticket *ticket) {
  const vyc_worker_call *call = ticket->run;
  vyc_worker_release(call->worker);
}

static const vyc_ticket_kind of_call = {.look = look_at_call,
                                        .abandon = abandon_call,
                                        .hold = hold_worker,
                                        .let_go = let_go_of_worker,
                                        .looks_quietly = true};

/* The call may still run, or begin. */
static void hold_buffers(vyc_worker_call *call, const vyc_run *run) {
  for (uint32_t i = 0; i < run->argument_count; i++)
    if (!vyc__is_host(&run->arguments[i])) {
      vyc__child_retain(&run->arguments[i].buffer->child);
      call->held[call->held_count++] = run->arguments[i].buffer;
    }
}

/* The call stays in flight, owned by a ticket or by no one. */
static vyc_ticket *leave_in_flight(vyc_worker_call *call, const vyc_run *run, bool has_ticket) {
  vyc_ticket *ticket = has_ticket ? vyc__ticket_alloc() : NULL;
  hold_buffers(call, run);
  call->ticket = ticket;
  call->dropped = ticket == NULL;
  if (ticket != NULL) {
    vyc__ticket_begin(ticket, &of_call, call, call->prepared);
  }
  call->scope = NULL;
  vyc__call_set(call, CALL_FLIGHT);
  return ticket;
}

/* ---- the functions --------------------------------------------------------------------------- */

static vyc_status run_and_wait(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel,
                               const vyc_run *run, vyc_scope *scope) {
  vyc_worker_call *call = NULL;
  VYC_TRY(submit(worker, &call, kernel, run, scope));
  const vyc_status status = vyc__call_wait(call, run->timeout_ns);
  if (VYC_LIKELY(status != VYC_NOT_READY)) {
    vyc__count(&worker->child.context->counters, sync_points, 1);
    if (VYC_UNLIKELY(status != VYC_OK)) hold_buffers(call, run);
    return vyc__call_collect(call, status);
  }
  const char *name = call->prepared->name;
  const bool is_paused = atomic_load(&worker->pauses) != 0 && !atomic_load(&worker->closed);
  vyc_ticket *ticket = leave_in_flight(call, run, ticket_out != NULL);
  if (ticket_out != NULL) {
    if (ticket == NULL) return VYC_E_MEMORY;
    *ticket_out = ticket;
  }
  return vyc__fail(VYC_E_TIMEOUT, "worker",
                   "kernel %s has not finished in the time allowed: %s, or wait for its ticket",
                   name, is_paused ? "the worker is paused, so resume it" : "allow more");
}

vyc_status vyc_worker_run(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel,
                          const vyc_run *run) {
  VYC_REQUIRE(worker != NULL);
  if (ticket_out != NULL) *ticket_out = NULL;
  VYC_TRY(check(worker, kernel, run));
  vyc_context *context = worker->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter_quietly(context, &scope));
  const vyc_status status = run_and_wait(worker, ticket_out, kernel, run, &scope);
  vyc__leave(context, &scope);
  return status;
}

static vyc_status submit_for_ticket(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel,
                                    const vyc_run *run, vyc_scope *scope) {
  vyc_worker_call *call = NULL;
  vyc_ticket *ticket = vyc__ticket_alloc(); /* before anything that cannot be undone */
  if (ticket == NULL) return VYC_E_MEMORY;
  const vyc_status status = submit(worker, &call, kernel, run, scope);
  if (status != VYC_OK) {
    free(ticket);
    return status;
  }
  call->ticket = ticket;
  vyc__ticket_begin(ticket, &of_call, call, call->prepared);
  call->scope = NULL;
  vyc__call_set(call, CALL_FLIGHT);
  *ticket_out = ticket;
  return VYC_OK;
}

vyc_status vyc_worker_submit(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel,
                             const vyc_run *run) {
  VYC_REQUIRE(worker != NULL && ticket_out != NULL);
  *ticket_out = NULL;
  VYC_TRY(check(worker, kernel, run));
  for (uint32_t i = 0; i < run->argument_count; i++)
    if (!vyc__is_host(&run->arguments[i]))
      return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                       "kernel %s: argument %u is device memory, which later launches could use "
                       "before the call has ended: call the worker, or launch the kernel",
                       worker->kernels[kernel]->name, i);
  vyc_context *context = worker->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter_quietly(context, &scope));
  const vyc_status status = submit_for_ticket(worker, ticket_out, kernel, run, &scope);
  vyc__leave(context, &scope);
  return status;
}
