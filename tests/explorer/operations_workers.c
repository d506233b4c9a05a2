/* Calls of a worker, with device arrays and with host arrays, and what stops it. */
#include "operations.h"
#include "scene.h"

#define SPREAD_BLOCKS 8u /* of a grid, enough for two parts */

static uint32_t enter(const char *name, uint32_t flags, const scene_buffer *in,
                      const scene_buffer *to, uint32_t kernels) {
  return scene_enter((order_operation){.name = name,
                                       .stream = STREAM_WORKER,
                                       .flags = flags,
                                       .reads = scene_set(in),
                                       .writes = scene_set(to),
                                       .in = in->address,
                                       .out = to->address},
                     BY_ITSELF, kernels);
}

static void call(const char *name, const scene_buffer *in, const scene_buffer *to) {
  scene_run run;
  const uint32_t number = enter(name, ORDER_WAITS_BUFFERS | ORDER_BLOCKS, in, to, 1);
  scene_fill_run(&run, NULL, in, 0, to, number);
  scene_leave(number, vyc_worker_run(the_scene()->worker, NULL, 0, &run.run));
}

void operate_worker_call(uint32_t thread) {
  scene *s = the_scene();
  call("call of a worker", &s->x, &s->own[thread]);
}

/* What threads share, so that they meet. */
void operate_worker_call_hot(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  call("call of a worker on what others use", &s->x, &s->hot);
}

/* Its input is in flight on a stream. */
void operate_worker_call_behind(uint32_t thread) {
  scene *s = the_scene();
  scene_launch("launch before a call of a worker", s->spare[thread], STREAM_SPARE + thread, &s->hot,
               &s->out);
  call("call of a worker behind a launch", &s->out, &s->own[thread]);
}

/* Three, so that a launch of the worker ends between them. */
void operate_worker_calls(uint32_t thread) {
  for (uint32_t i = 0; i < 3; i++) operate_worker_call(thread);
}

/* ---- a stream behind calls ------------------------------------------------------------------- */

/* The call was not begun in the time allowed, and never is. */
static void give_up(uint32_t number) {
  scene *s = the_scene();
  order_end(&s->order, number, true);
  s->operation[explorer->current] = 0;
}

/* Returns its number, or 0 if the call has failed, or was given up. */
static uint32_t leave_call(vyc_ticket **ticket_out, const char *name, uint32_t thread,
                           uint32_t blocks) {
  scene *s = the_scene();
  scene_run run;
  const uint32_t number =
      enter(name, ORDER_WAITS_BUFFERS, &s->x, &s->own[thread], SCENE_ANY_KERNELS);
  scene_fill_run(&run, NULL, &s->x, 0, &s->own[thread], number);
  run.run.grid[0] = blocks;
  run.run.timeout_ns = 0;
  vyc_status status = vyc_worker_run(s->worker, ticket_out, 0, &run.run);
  if (status == VYC_E_TIMEOUT && *ticket_out == NULL) {
    give_up(number);
    return 0;
  }
  if (status == VYC_E_TIMEOUT) status = VYC_OK;
  scene_leave(number, status);
  return status == VYC_OK ? number : 0;
}

/* A worker of several blocks gives each a part, of which each reads and writes all here; the next
 * call writes the same, and must find both ended. */
void operate_worker_call_spread(uint32_t thread) {
  vyc_ticket *ticket = NULL;
  if (leave_call(&ticket, "call of a worker that is spread and left", thread, SPREAD_BLOCKS))
    call("call of a worker behind one that is spread", &the_scene()->x, &the_scene()->own[thread]);
  vyc_ticket_release(ticket);
}

/* What its caller leaves is then ordered as a launch in call order; or, where it was paused, it may
 * never run. */
void operate_worker_call_left(uint32_t thread) {
  scene *s = the_scene();
  vyc_ticket *ticket = NULL;
  const uint32_t call = leave_call(&ticket, "call of a worker that is released", thread, 1);
  if (call == 0) return;
  vyc_ticket_release(ticket);
  const bool may_never_run = s->pauses != 0; /* then the release orders nothing */
  s->order.list[call].failed |= may_never_run;
  const uint32_t release =
      scene_enter((order_operation){.name = "release of a call",
                                    .stream = STREAM_CALLS,
                                    .flags = may_never_run ? 0 : ORDER_WAITS_OTHER,
                                    .other = STREAM_WORKER},
                  BY_ITSELF, 0);
  scene_leave(release, VYC_OK);
  scene_launch("launch behind a call that was left", NULL, STREAM_CALLS, &s->own[thread], &s->out);
}

/* A launch on the stream comes behind the calls that were left. */
static void wait_on_stream(uint32_t thread) {
  scene *s = the_scene();
  const uint32_t wait = scene_enter((order_operation){.name = "wait of a stream for a worker",
                                                      .stream = STREAM_SPARE + thread,
                                                      .flags = ORDER_WAITS_OTHER,
                                                      .other = STREAM_WORKER},
                                    BY_ITSELF, 0);
  vyc_status waits = vyc_stream_wait_worker(s->spare[thread], s->worker);
  while (waits == VYC_E_UNAVAILABLE && s->pauses != 0 && !s->closing && !s->worker_closing) {
    explorer_wait_round(); /* until it is resumed, if that was not meanwhile */
    waits = vyc_stream_wait_worker(s->spare[thread], s->worker);
  }
  scene_leave(wait, waits);
  scene_launch("launch behind a worker", s->spare[thread], STREAM_SPARE + thread, &s->own[thread],
               &s->out);
  scene_ok(vyc_stream_synchronize(s->spare[thread]), "a wait for the stream behind a worker");
}

/* The call is left in flight, and the stream waits for it. */
void operate_worker_awaited(uint32_t thread) {
  vyc_ticket *ticket = NULL;
  if (!leave_call(&ticket, "call of a worker that is left", thread, 1)) return;
  wait_on_stream(thread);
  vyc_ticket_release(ticket);
}

/* True: the worker is paused. It may be on the device. */
static bool begin_pause(vyc_status *status_out) {
  scene *s = the_scene();
  s->pauses++;
  *status_out = vyc_worker_pause(s->worker, 0);
  return *status_out == VYC_NOT_READY || scene_ok(*status_out, "a pause");
}

/* A launch of the worker ends as busy after two calls, before it comes to the stop. */
void operate_worker_awaited_past_stop(uint32_t thread) {
  vyc_ticket *tickets[3] = {NULL, NULL, NULL};
  vyc_status status;
  bool goes_on = leave_call(&tickets[0], "first call before a stop", thread, 1) &&
                 leave_call(&tickets[1], "second call before a stop", thread, 1);
  for (uint32_t i = 0; goes_on && i < 2; i++) {
    goes_on = begin_pause(&status);
    if (goes_on) scene_resume_worker();
  }
  if (goes_on && leave_call(&tickets[2], "call behind a stop", thread, 1)) wait_on_stream(thread);
  for (uint32_t i = 0; i < 3; i++) vyc_ticket_release(tickets[i]);
}

/* ---- host arrays ----------------------------------------------------------------------------- */

static void take_host(scene_run *run, const uint64_t *in, uint64_t *result, uint32_t number) {
  const scene *s = the_scene();
  scene_fill_run(run, NULL, &s->x, 0, &s->out, number);
  run->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = in};
  run->arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = result};
}

static uint32_t enter_host(const char *name, uint32_t kernels) {
  return scene_enter((order_operation){.name = name, .stream = ORDER_NOWHERE}, BY_ITSELF, kernels);
}

static void leave(uint32_t number, vyc_status status, uint64_t result) {
  if (status == VYC_OK && result != number)
    explorer_fail("%s (%u) has the result %lu", the_scene()->order.list[number].name, number,
                  (unsigned long)result);
  scene_leave(number, status);
}

void operate_worker_run(uint32_t thread) {
  uint64_t in = SCENE_INPUT + thread, result = UINT64_MAX;
  scene_run run;
  const uint32_t number = enter_host("call of a worker with host arrays", 1);
  take_host(&run, &in, &result, number);
  the_scene()->input[number] = in;
  const vyc_status status = vyc_worker_run(the_scene()->worker, NULL, 0, &run.run);
  leave(number, status, result);
}

void operate_worker_submit(uint32_t thread) {
  uint64_t in = SCENE_INPUT + thread, result = UINT64_MAX;
  scene_run run;
  vyc_ticket *ticket = NULL;
  const uint32_t number = enter_host("call of a worker that is submitted", 1);
  take_host(&run, &in, &result, number);
  the_scene()->input[number] = in;
  vyc_status status = vyc_worker_submit(the_scene()->worker, &ticket, 0, &run.run);
  if (status == VYC_OK) status = vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
  leave(number, status, result);
}

/* Nothing is written to the result once the ticket is released. */
void operate_worker_submit_dropped(uint32_t thread) {
  scene *s = the_scene();
  uint64_t in = SCENE_INPUT + thread, *const result = &s->dropped[thread];
  scene_run run;
  vyc_ticket *ticket = NULL;
  const uint32_t number = enter_host("call of a worker that is dropped", SCENE_ANY_KERNELS);
  take_host(&run, &in, result, number);
  vyc_status status = vyc_worker_submit(s->worker, &ticket, 0, &run.run);
  if (status == VYC_OK) status = vyc_ticket_query(ticket);
  vyc_ticket_release(ticket);
  if (status == VYC_OK && *result != number)
    explorer_fail("a call that has ended (%u) has the result %lu", number, (unsigned long)*result);
  *result = SCENE_DROPPED;
  scene_leave(number, status == VYC_NOT_READY ? VYC_OK : status);
}

/* ---- what stops it --------------------------------------------------------------------------- */

static void check_paused(void) {
  vyc_worker_stats stats = {.struct_size = sizeof stats};
  if (scene_ok(vyc_worker_stats_get(the_scene()->worker, &stats), "the statistics of a worker") &&
      stats.running != 0)
    explorer_fail("a worker that is paused has %u blocks on the device", stats.running);
}

void operate_worker_pause(uint32_t thread) {
  (void)thread;
  if (!scene_pause_worker()) return;
  check_paused();
  scene_resume_worker();
}

/* Waited for in three turns, of which the second ends at its limit. */
void operate_worker_pause_again(uint32_t thread) {
  const scene *s = the_scene();
  vyc_status status;
  (void)thread;
  if (!begin_pause(&status)) return;
  if (status == VYC_NOT_READY) status = vyc_worker_pause_wait(s->worker, 0);
  if (status == VYC_NOT_READY) status = vyc_worker_pause_wait(s->worker, -1);
  if (scene_ok(status, "a wait for a pause")) check_paused();
  scene_resume_worker();
}

/* What was submitted before has ended, though a launch takes two of these calls. */
void operate_worker_pause_behind(uint32_t thread) {
  scene *s = the_scene();
  vyc_ticket *tickets[3] = {NULL, NULL, NULL};
  uint32_t calls[3] = {0, 0, 0};
  bool goes_on = true;
  for (uint32_t i = 0; goes_on && i < 3; i++) {
    calls[i] = leave_call(&tickets[i], "call of a worker before a pause", thread, 1);
    goes_on = calls[i] != 0;
  }
  if (goes_on && scene_pause_worker()) {
    if (!s->worker_closing) check_paused();
    for (uint32_t i = 0; i < 3 && s->pauses == 1 && !s->worker_closing; i++)
      if (tickets[i] != NULL && vyc_ticket_query(tickets[i]) == VYC_NOT_READY)
        explorer_fail("a pause has ended before a call that was submitted before it");
    scene_resume_worker();
  }
  for (uint32_t i = 0; i < 3; i++) {
    vyc_ticket_release(tickets[i]);
    s->order.list[calls[i]].failed |= s->pauses > 1;
  }
}

static void withdraw(uint32_t thread) {
  scene *s = the_scene();
  vyc_ticket *ticket = NULL;
  const uint32_t number = leave_call(&ticket, "call of a worker that is withdrawn", thread, 1);
  vyc_ticket_release(ticket);
  if (ticket != NULL) {
    s->order.list[number].failed = true;
    if (!s->closing && !s->worker_closing) s->withdrawn |= UINT64_C(1) << number;
  }
  scene_resume_worker();
  call("call of a worker behind one that was withdrawn", &s->x, &s->own[thread]);
}

/* A call that was left in a pause does not run when the worker comes to where it was. */
void operate_worker_call_withdrawn(uint32_t thread) {
  if (scene_pause_worker()) withdraw(thread);
}

/* Nor one that was left while a launch ends at the stop. */
void operate_worker_call_withdrawn_early(uint32_t thread) {
  scene *s = the_scene();
  vyc_ticket *ticket = NULL;
  vyc_status status;
  const uint32_t before = leave_call(&ticket, "call of a worker before a pause", thread, 1);
  if (before != 0 && begin_pause(&status)) withdraw(thread);
  vyc_ticket_release(ticket);
  if (before != 0) s->order.list[before].failed |= s->pauses > 1;
}

/* Nobody waits for the pause, and the stop of an earlier one may come before the calls that are
 * due: what is submitted in the pause waits for its end. */
static void submit_in_pause(uint32_t thread, vyc_ticket *due, bool is_alone) {
  scene *s = the_scene();
  uint64_t in = SCENE_INPUT + thread, result = UINT64_MAX;
  scene_run run;
  vyc_ticket *ticket = NULL;
  const uint32_t number = enter_host("call of a worker in a pause", SCENE_ANY_KERNELS);
  take_host(&run, &in, &result, number);
  s->input[number] = in;
  s->kept |= UINT64_C(1) << number;
  vyc_status status = vyc_worker_submit(s->worker, &ticket, 0, &run.run);
  if (status == VYC_OK && is_alone) vyc_ticket_wait(due, -1);
  if (status == VYC_OK && is_alone && !s->worker_closing) {
    scene_ok(vyc_worker_pause_wait(s->worker, -1), "a wait for a pause");
    if (!s->worker_closing) check_paused();
  }
  s->kept &= ~(UINT64_C(1) << number);
  scene_resume_worker();
  if (status == VYC_OK) status = vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
  leave(number, status, result);
}

void operate_worker_call_kept(uint32_t thread) {
  scene *s = the_scene();
  vyc_ticket *tickets[2] = {NULL, NULL};
  uint32_t calls[2];
  vyc_status status;
  calls[0] = leave_call(&tickets[0], "call of a worker before two pauses", thread, 1);
  bool goes_on = calls[0] != 0 && begin_pause(&status);
  if (goes_on) scene_resume_worker();
  calls[1] = goes_on ? leave_call(&tickets[1], "call of a worker between them", thread, 1) : 0;
  goes_on = calls[1] != 0 && begin_pause(&status);
  if (goes_on) submit_in_pause(thread, tickets[1], s->pauses == 2);
  for (uint32_t i = 0; i < 2; i++) {
    vyc_ticket_release(tickets[i]);
    if (calls[i] != 0) s->order.list[calls[i]].failed |= s->pauses > 2;
  }
}

/* It ends when nobody waits for all work any more, for which nobody may wait for the end of the
 * pause. */
void operate_worker_pause_waited(uint32_t thread) {
  scene *s = the_scene();
  uint64_t in = SCENE_INPUT + thread, result = UINT64_MAX;
  scene_run run;
  vyc_ticket *ticket = NULL;
  if (!scene_pause_worker()) return;
  const uint32_t number = enter_host("call of a worker in a pause", 1);
  take_host(&run, &in, &result, number);
  s->input[number] = in;
  vyc_status status = vyc_worker_submit(s->worker, &ticket, 0, &run.run);
  while (s->waiting != 0) explorer_wait_round();
  scene_resume_worker();
  if (status == VYC_OK) status = vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
  leave(number, status, result);
}

/* A wait for all work is one for calls of workers, too, unless they wait for the end of a pause;
 * so what is read then is what the call has written. */
void operate_worker_call_waited(uint32_t thread) {
  scene *s = the_scene();
  vyc_ticket *ticket = NULL;
  const uint32_t call = leave_call(&ticket, "call of a worker that all is waited for", thread, 1);
  s->order.list[call].failed |= call != 0 && s->pauses != 0;
  if (call != 0) {
    operate_synchronize(thread);
    scene_launch("launch behind a wait for all", s->spare[thread], STREAM_SPARE + thread,
                 &s->own[thread], &s->out);
  }
  vyc_ticket_release(ticket);
}

void operate_worker_close(uint32_t thread) {
  scene *s = the_scene();
  uint64_t in = 0, result = UINT64_MAX;
  scene_run run;
  (void)thread;
  s->worker_closing = true;
  s->refuses_collectives = true; /* it ends all pauses */
  if (!scene_ok(vyc_worker_close(s->worker, -1), "the close of a worker")) return;
  const uint32_t number = enter_host("call of a worker that is closed", 0);
  take_host(&run, &in, &result, number);
  const vyc_status status = vyc_worker_run(s->worker, NULL, 0, &run.run);
  if (status == VYC_OK) explorer_fail("a worker that is closed takes a call");
  scene_leave(number, status);
}

/* Its kernel faults, which ends the context: it never ends well, nor does what depends on it. */
void operate_worker_fault(uint32_t thread) {
  scene *s = the_scene();
  uint64_t in = SCENE_INPUT + thread, result = UINT64_MAX;
  scene_run run;
  const uint32_t number = enter_host("call of a worker that faults", SCENE_ANY_KERNELS);
  s->faulting |= UINT64_C(1) << number;
  s->refuses_collectives = true;
  take_host(&run, &in, &result, number);
  const vyc_status status = vyc_worker_run(s->worker, NULL, 0, &run.run);
  if (status == VYC_OK) explorer_fail("a call of a worker whose kernel faults has ended well");
  if (result != UINT64_MAX) explorer_fail("a call whose kernel faults has a result");
  scene_leave(number, status);
}

/* One of its own, from its creation to its end. */
void operate_worker_made(uint32_t thread) {
  scene *s = the_scene();
  vyc_worker *worker = NULL;
  uint64_t in = SCENE_INPUT + thread, result = UINT64_MAX;
  scene_run run;
  s->refuses_collectives = true; /* it is not paused */
  if (!scene_ok(scene_make_worker(&worker, 1), "a worker")) return;
  const uint32_t number = enter_host("call of a worker of its own", 1);
  take_host(&run, &in, &result, number);
  s->input[number] = in;
  const vyc_status status = vyc_worker_run(worker, NULL, 0, &run.run);
  leave(number, status, result);
  vyc_worker_release(worker);
}
