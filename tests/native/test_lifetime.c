/* Closing, releasing and forking while others are in the middle of something, from every side: no
 * hang, no error but the promised one, and nothing left with the driver. */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dispatch_test.h"

#define THREADS 6
#define ROUNDS 10

/* ---- a close while others run ---------------------------------------------------------------- */

typedef struct shared {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared;
  vyc_call *call;
  vyc_buffer *in, *out;
} shared;

static int is_closed(vyc_status status) {
  CHECK(status == VYC_OK || status == VYC_E_UNAVAILABLE);
  return status != VYC_OK;
}

static int use_runs(const shared *s, task *t) {
  vyc_ticket *ticket = NULL;
  prepare(t, 2.0f);
  if (is_closed(vyc_prepared_run(s->prepared, NULL, &t->run))) return 0;
  verify(t);
  if (is_closed(vyc_prepared_submit(s->prepared, &ticket, &t->run))) return 0;
  const int open = !is_closed(vyc_ticket_wait(ticket, -1));
  vyc_ticket_release(ticket);
  return open;
}

static int use_launches(const shared *s, task *t) {
  prepare(t, 2.0f);
  on_buffers(t, s->in, s->out);
  if (is_closed(vyc_prepared_launch(s->prepared, &t->run))) return 0;
  for (int i = 0; i < 20; i++) /* from the second on nothing but its graph is launched */
    if (is_closed(vyc_call_run(s->call))) return 0;
  return !is_closed(vyc_call_set(s->call, &t->run)) &&
         !is_closed(vyc_call_set_run(s->call, &t->run));
}

static int use_children(const shared *s) {
  vyc_buffer *buffer = NULL;
  vyc_stream *stream = NULL;
  vyc_event *event = NULL;
  vyc_pinned *pinned = NULL;
  vyc_prepared *prepared = NULL;
  const vyc_prepared_desc desc = scale_desc(COPIED);
  const int open = !is_closed(vyc_buffer_alloc(&buffer, s->context, 5000)) &&
                   !is_closed(vyc_stream_create(&stream, s->context)) &&
                   !is_closed(vyc_stream_record(stream, &event)) &&
                   !is_closed(vyc_pinned_alloc(&pinned, s->context, 5000)) &&
                   !is_closed(vyc_prepared_create(&prepared, s->module, &desc));
  vyc_prepared_release(prepared);
  vyc_pinned_release(pinned);
  vyc_event_release(event);
  vyc_stream_release(stream);
  vyc_buffer_release(buffer);
  return open;
}

static void *use_until_closed(void *argument) {
  const shared *s = argument;
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  while (use_runs(s, t) && use_launches(s, t) && use_children(s)) {
  }
  free(t);
  return NULL;
}

static void *close_it(void *argument) {
  const shared *s = argument;
  OK(vyc_context_close(s->context));
  check_nothing_lives(); /* also when another thread does the closing */
  return NULL;
}

static shared share(void) {
  shared s = {.context = open_context()};
  s.module = load_module(s.context);
  s.prepared = scale_prepared(s.module, STREAMED);
  s.in = new_buffer(s.context, N * 4);
  s.out = new_buffer(s.context, N * 4);
  OK(vyc_fill_zero(s.in, 0, N * 4));
  task t;
  prepare(&t, 1.0f);
  on_buffers(&t, s.in, s.out);
  OK(vyc_call_create(&s.call, s.prepared, &t.run));
  return s;
}

static void release(shared *s) {
  vyc_call_release(s->call);
  vyc_buffer_release(s->in);
  vyc_buffer_release(s->out);
  vyc_prepared_release(s->prepared);
  vyc_module_release(s->module);
  vyc_context_release(s->context);
}

static void a_context_closes_while_others_use_it(void) {
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t users[THREADS], closers[2];
    shared s = share();
    for (int i = 0; i < THREADS; i++)
      CHECK(pthread_create(&users[i], NULL, use_until_closed, &s) == 0);
    task *t = malloc(sizeof *t);
    CHECK(t != NULL);
    for (int i = 0; i < 5; i++) CHECK(use_runs(&s, t));
    free(t);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&closers[i], NULL, close_it, &s) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(closers[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(users[i], NULL) == 0);
    release(&s);
    check_nothing_lives();
  }
}

/* ---- tickets --------------------------------------------------------------------------------- */

typedef struct waiting {
  pthread_t thread;
  vyc_ticket *ticket;
  _Atomic int ended;
} waiting;

static void *wait_for(void *argument) {
  waiting *w = argument;
  OK(vyc_ticket_wait(w->ticket, -1));
  w->ended = 1;
  return NULL;
}

/* Returns when the thread is in the wait, where it asks the driver over and over, or through it. */
static void begin_wait(waiting *w, vyc_ticket *ticket) {
  const uint64_t before = count_of("cuStreamQuery");
  w->ticket = ticket;
  w->ended = 0;
  CHECK(pthread_create(&w->thread, NULL, wait_for, w) == 0);
  while (!w->ended && count_of("cuStreamQuery") < before + 3) sched_yield();
}

static void a_close_lets_a_wait_end(void) {
  CHECK(emulator_set("delay_us", 50000) == 0);
  shared s = share();
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  vyc_ticket *ticket = NULL;
  OK(vyc_prepared_submit(s.prepared, &ticket, &t->run));
  waiting waiter;
  begin_wait(&waiter, ticket);
  OK(vyc_context_close(s.context));
  CHECK(pthread_join(waiter.thread, NULL) == 0);
  verify(t);
  vyc_ticket_release(ticket);
  release(&s);
  free(t);
  CHECK(emulator_reset() == 0);
}

static void a_ticket_outlives_everything(void) {
  shared s = share();
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  vyc_ticket *kept = NULL, *dropped = NULL;
  OK(vyc_prepared_submit(s.prepared, &dropped, &t->run));
  vyc_ticket_release(dropped);
  OK(vyc_prepared_submit(s.prepared, &kept, &t->run));
  release(&s);
  OK(vyc_ticket_wait(kept, -1));
  verify(t);
  OK(vyc_ticket_query(kept));
  vyc_ticket_release(kept);
  check_nothing_lives();
  free(t);
}

/* The prepared kernel is released while abandoned runs and launches of it are still to run. */
static void a_prepared_kernel_goes_with_runs_in_flight(void) {
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  shared s = share();
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  for (int i = 0; i < 5; i++) {
    prepare(t, 3.0f);
    t->run.timeout_ns = 0;
    CHECK(vyc_prepared_run(s.prepared, NULL, &t->run) != VYC_E_DRIVER);
    on_buffers(t, s.in, s.out);
    OK(vyc_prepared_launch(s.prepared, &t->run));
  }
  vyc_call_release(s.call);
  s.call = NULL;
  vyc_prepared_release(s.prepared);
  s.prepared = NULL;
  OK(vyc_context_synchronize(s.context));
  release(&s);
  check_nothing_lives();
  free(t);
  CHECK(emulator_reset() == 0);
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* Everything is refused and everything can be released, though locks and submissions of the
 * parent's other threads are as they were. */
static void child(shared *s, vyc_ticket *ticket) {
  task t;
  prepare(&t, 1.0f);
  int right = vyc_prepared_run(s->prepared, NULL, &t.run) == VYC_E_UNAVAILABLE;
  right &= vyc_call_run(s->call) == VYC_E_UNAVAILABLE;
  right &= vyc_context_synchronize(s->context) == VYC_E_UNAVAILABLE;
  const vyc_status waited = vyc_ticket_wait(ticket, -1); /* VYC_OK: had finished before the fork */
  right &= waited == VYC_E_UNAVAILABLE || waited == VYC_OK;
  right &= vyc_context_close(s->context) == VYC_OK;
  vyc_ticket_release(ticket);
  release(s);
  _exit(right ? 0 : 1);
}

static void *churn(void *argument) {
  const shared *s = argument;
  while (use_children(s)) {
  }
  return NULL;
}

static void a_forked_child_neither_hangs_nor_touches_the_device(void) {
  CHECK(emulator_set("delay_us", 20000) == 0);
  shared s = share();
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  pthread_t churner;
  waiting waiter;
  CHECK(pthread_create(&churner, NULL, churn, &s) == 0);
  for (int round = 0; round < ROUNDS; round++) {
    vyc_ticket *ticket = NULL;
    OK(vyc_prepared_submit(s.prepared, &ticket, &t->run));
    begin_wait(&waiter, ticket);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) child(&s, ticket);
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(pthread_join(waiter.thread, NULL) == 0);
    vyc_ticket_release(ticket);
  }
  OK(vyc_context_close(s.context));
  CHECK(pthread_join(churner, NULL) == 0);
  release(&s);
  check_nothing_lives();
  free(t);
  CHECK(emulator_reset() == 0);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  a_context_closes_while_others_use_it();
  a_close_lets_a_wait_end();
  a_ticket_outlives_everything();
  a_prepared_kernel_goes_with_runs_in_flight();
  a_forked_child_neither_hangs_nor_touches_the_device();
  puts("lifetime: passed");
  return 0;
}
