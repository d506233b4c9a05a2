/* Notices: each end is told once, by a thread that is there only while somebody waits, and to
 * nobody after a close. A kernel here runs until the host says so. */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "dispatch_test.h"

/* until: runs while the word is 0. */
static const char *const UNTIL =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry until(.param .u64 word)\n{\n.reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 "
    "%rd<2>;\n"
    "ld.param.u64 %rd0, [word];\nagain:\nld.acquire.sys.global.u32 %r0, [%rd0];\n"
    "setp.eq.u32 %p0, %r0, 0;\n@%p0 bra again;\nret;\n}\n";

typedef struct session {
  vyc_context *context;
  vyc_prepared *until, *scale, *judge;
  vyc_pinned *pinned;
  _Atomic uint32_t *word;
  uint64_t address;
} session;

static session begin(void) {
  static const vyc_parameter parameters[] = {{VYC_PARAMETER_SCALAR, 0, 0, 8, {0}}};
  const vyc_prepared_desc desc = {.struct_size = sizeof desc,
                                  .block = {1, 1, 1},
                                  .parameter_bytes = 8,
                                  .parameter_count = 1,
                                  .scalar_count = 1,
                                  .entry = "until",
                                  .parameters = parameters};
  session s = {.context = open_context()};
  vyc_module *module = NULL;
  void *data = NULL;
  OK(vyc_module_load(&module, NULL, 0, s.context, UNTIL, strlen(UNTIL) + 1));
  OK(vyc_prepared_create(&s.until, module, &desc));
  vyc_module_release(module);
  module = load_module(s.context);
  s.scale = scale_prepared(module, STREAMED);
  s.judge = judge_prepared(module, 7);
  vyc_module_release(module);
  OK(vyc_pinned_alloc(&s.pinned, s.context, 4));
  OK(vyc_pinned_data(s.pinned, &data));
  s.word = data;
  *s.word = 0;
  s.address = (uint64_t)(uintptr_t)data;
  return s;
}

static void release(session *s) {
  vyc_pinned_release(s->pinned);
  vyc_prepared_release(s->until);
  vyc_prepared_release(s->scale);
  vyc_prepared_release(s->judge);
  vyc_context_release(s->context);
}

static void hang(const session *s, vyc_stream *stream) {
  vyc_run run = judge_run(&s->address);
  run.stream = stream;
  OK(vyc_prepared_launch(s->until, &run));
}

static int threads(void) {
  DIR *folder = opendir("/proc/self/task");
  CHECK(folder != NULL);
  int count = -2; /* . and .. */
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

static void await_threads(int count) {
  for (int i = 0; i < 100000 && threads() != count; i++) usleep(100);
  CHECK(threads() == count);
}

static int at_first; /* a sanitizer may have a thread of its own */

/* ---- what is told ---------------------------------------------------------------------------- */

typedef struct told {
  sem_t done;
  _Atomic int times;
  vyc_status status;
  char message[256];
} told;

static void tell(void *user, vyc_status status) {
  told *t = user;
  t->times++;
  t->status = status;
  snprintf(t->message, sizeof t->message, "%s", status == VYC_OK ? "" : vyc_last_message());
  sem_post(&t->done);
}

static vyc_notice call_of(told *t) {
  memset(t, 0, sizeof *t);
  sem_init(&t->done, 0, 0);
  return (vyc_notice){.struct_size = sizeof(vyc_notice), .fd = -1, .call = tell, .user = t};
}

static vyc_status await(told *t) {
  while (sem_wait(&t->done) != 0) {
  }
  CHECK(t->times == 1);
  return t->status;
}

static bool is_readable(int fd, int timeout_ms) {
  struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
  return poll(&poll_fd, 1, timeout_ms) == 1;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void an_end_is_told_by_a_thread_that_is_there_only_then(void) {
  await_threads(at_first); /* those of the session before may still be ending */
  session s = begin();
  vyc_stream *stream = new_stream(s.context), *idle = new_stream(s.context);
  *s.word = 1;
  hang(&s, stream);
  hang(&s, idle);
  hang(&s, NULL);
  OK(vyc_context_synchronize(s.context));
  *s.word = 0;
  const int before = threads(); /* the emulator has its own */
  told t;
  const vyc_notice notice = call_of(&t);
  OK(vyc_stream_notify(idle, &notice));
  CHECK(await(&t) == VYC_OK);
  await_threads(before);
  const vyc_notice again = call_of(&t);
  hang(&s, stream);
  OK(vyc_stream_notify(stream, &again));
  CHECK(threads() == before + 1);
  usleep(10000); /* it sleeps between looks by now */
  CHECK(t.times == 0);
  told other; /* and looks at once at what is new */
  const vyc_notice another = call_of(&other);
  OK(vyc_stream_notify(idle, &another));
  CHECK(await(&other) == VYC_OK && t.times == 0);
  CHECK(threads() == before + 1);
  *s.word = 1;
  CHECK(await(&t) == VYC_OK);
  await_threads(before);
  vyc_stream_release(stream);
  vyc_stream_release(idle);
  release(&s);
}

static void an_eventfd_becomes_readable(void) {
  session s = begin();
  vyc_stream *stream = new_stream(s.context);
  const int fd = eventfd(0, EFD_NONBLOCK);
  const vyc_notice notice = {.struct_size = sizeof notice, .fd = fd};
  uint64_t count = 0;
  hang(&s, stream);
  for (int i = 0; i < 3; i++) OK(vyc_stream_notify(stream, &notice));
  CHECK(!is_readable(fd, 0));
  *s.word = 1;
  CHECK(is_readable(fd, 60000));
  for (uint64_t all = 0; all < 3; all += count) {
    CHECK(is_readable(fd, 60000));
    CHECK(read(fd, &count, sizeof count) == sizeof count);
  }
  vyc_stream_release(stream);
  release(&s);
  close(fd);
}

static void a_run_is_collected_before_its_notice(void) {
  session s = begin();
  static task task_of;
  told t;
  vyc_ticket *ticket = NULL;
  for (int round = 0; round < 20; round++) {
    const vyc_notice notice = call_of(&t);
    prepare(&task_of, (float)round);
    OK(vyc_prepared_submit(s.scale, &ticket, &task_of.run));
    OK(vyc_ticket_notify(ticket, &notice));
    CHECK(await(&t) == VYC_OK);
    verify(&task_of);
    CHECK(vyc_ticket_query(ticket) == VYC_OK);
    vyc_ticket_release(ticket);
  }
  release(&s);
}

/* With a call it is told as to a wait, once; with an eventfd it is left to a wait. */
static void a_failed_check_is_told(void) {
  session s = begin();
  static const uint64_t bad = 1;
  vyc_stream *stream = new_stream(s.context);
  vyc_run run = judge_run(&bad);
  vyc_ticket *ticket = NULL;
  told t;
  vyc_notice notice = call_of(&t);
  OK(vyc_prepared_submit(s.judge, &ticket, &run));
  OK(vyc_ticket_notify(ticket, &notice));
  CHECK(await(&t) == VYC_E_ASSERT && strstr(t.message, "judge") != NULL);
  vyc_ticket_release(ticket);
  run.stream = stream;
  OK(vyc_prepared_launch(s.judge, &run));
  notice = call_of(&t);
  OK(vyc_stream_notify(stream, &notice));
  CHECK(await(&t) == VYC_E_ASSERT);
  OK(vyc_stream_synchronize(stream));
  OK(vyc_prepared_launch(s.judge, &run));
  const int fd = eventfd(0, 0);
  const vyc_notice by_fd = {.struct_size = sizeof by_fd, .fd = fd};
  OK(vyc_stream_notify(stream, &by_fd));
  uint64_t count = 0;
  CHECK(read(fd, &count, sizeof count) == sizeof count && count == 1);
  CHECK(vyc_stream_synchronize(stream) == VYC_E_ASSERT);
  close(fd);
  vyc_stream_release(stream);
  release(&s);
}

static void a_failed_query_is_told(void) {
  session s = begin();
  vyc_stream *stream = new_stream(s.context);
  told t;
  const vyc_notice notice = call_of(&t);
  hang(&s, stream);
  CHECK(emulator_fail("cuEventQuery", 1, 1, 0) == 0);
  OK(vyc_stream_notify(stream, &notice));
  CHECK(await(&t) != VYC_OK && strstr(t.message, "cuEventQuery") != NULL);
  *s.word = 1;
  vyc_stream_release(stream);
  release(&s);
}

static session closing;

static void tell_and_try_to_close(void *user, vyc_status status) {
  CHECK(vyc_context_close(closing.context) == VYC_E_INVALID);
  *closing.word = 1; /* the close waits for that */
  tell(user, status);
}

static void a_close_tells_what_is_left(void) {
  closing = begin();
  vyc_stream *stream = new_stream(closing.context);
  vyc_event *event = NULL;
  told t;
  vyc_notice notice = call_of(&t);
  notice.call = tell_and_try_to_close;
  hang(&closing, stream);
  OK(vyc_stream_record(stream, &event));
  OK(vyc_event_notify(event, &notice));
  vyc_event_release(event);
  OK(vyc_context_close(closing.context));
  CHECK(t.times == 1 && t.status == VYC_E_UNAVAILABLE);
  CHECK(vyc_stream_notify(stream, &notice) == VYC_E_UNAVAILABLE);
  vyc_stream_release(stream);
  release(&closing);
}

typedef struct chain {
  vyc_stream *stream;
  int left;
  sem_t done;
} chain;

static void go_on(void *user, vyc_status status) {
  chain *c = user;
  const vyc_notice notice = {.struct_size = sizeof notice, .fd = -1, .call = go_on, .user = c};
  CHECK(status == VYC_OK);
  if (--c->left == 0)
    sem_post(&c->done);
  else
    OK(vyc_stream_notify(c->stream, &notice));
}

static void a_call_may_ask_again(void) {
  session s = begin();
  chain c = {.stream = new_stream(s.context), .left = 50};
  const vyc_notice notice = {.struct_size = sizeof notice, .fd = -1, .call = go_on, .user = &c};
  sem_init(&c.done, 0, 0);
  OK(vyc_stream_notify(c.stream, &notice));
  sem_wait(&c.done);
  vyc_stream_release(c.stream);
  release(&s);
}

/* Everything may be released before: the thread has the last reference. */
static void what_is_released_stays_until_it_was_told(void) {
  session s = begin();
  vyc_stream *stream = new_stream(s.context);
  told t;
  const vyc_notice notice = call_of(&t);
  OK(vyc_stream_notify(stream, &notice));
  vyc_stream_release(stream);
  release(&s);
  CHECK(await(&t) == VYC_OK);
  await_threads(at_first); /* and the context, with the emulator's threads, is gone too */
  check_nothing_lives();
}

static void mistakes_are_refused(void) {
  session s = begin();
  vyc_stream *stream = new_stream(s.context);
  told t;
  vyc_notice notice = call_of(&t);
  const int before = threads();
  CHECK(vyc_stream_notify(NULL, &notice) == VYC_E_INVALID);
  CHECK(vyc_event_notify(NULL, &notice) == VYC_E_INVALID);
  CHECK(vyc_ticket_notify(NULL, &notice) == VYC_E_INVALID);
  CHECK(vyc_stream_notify(stream, NULL) == VYC_E_INVALID);
  notice.struct_size = 4;
  CHECK(vyc_stream_notify(stream, &notice) == VYC_E_INVALID);
  notice = (vyc_notice){.struct_size = sizeof notice, .fd = -1};
  CHECK(vyc_stream_notify(stream, &notice) == VYC_E_INVALID);
  CHECK(threads() == before);
  vyc_stream_release(stream);
  release(&s);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 60 };

static void *ask(void *argument) {
  const session *s = argument;
  vyc_stream *stream = new_stream(s->context);
  vyc_buffer *in = filled(s->context, 2.0f), *out = filled(s->context, 0.0f);
  for (int i = 0; i < ROUNDS; i++) {
    told t;
    const vyc_notice notice = call_of(&t);
    launch(s->scale, in, out, 3.0f, stream);
    OK(vyc_stream_notify(stream, &notice));
    if (i % 7 == 0) usleep(300);
    CHECK(await(&t) == VYC_OK);
    OK(vyc_stream_query(stream));
  }
  check_filled(out, 6.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_stream_release(stream);
  return NULL;
}

static void many_threads_ask(void) {
  session s = begin();
  pthread_t all[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&all[i], NULL, ask, &s) == 0);
  for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
  OK(vyc_context_close(s.context));
  release(&s);
}

static void *tell_number(void *number) {
  *(pid_t *)number = gettid();
  return NULL;
}

/* A thread that was joined is in the list for a moment more. */
static void begin_and_end_a_thread(void) {
  pthread_t thread;
  pid_t number = 0;
  char place[64];
  CHECK(pthread_create(&thread, NULL, tell_number, &number) == 0);
  pthread_join(thread, NULL);
  snprintf(place, sizeof place, "/proc/self/task/%d", (int)number);
  while (access(place, F_OK) == 0) usleep(100);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  begin_and_end_a_thread(); /* with which a sanitizer starts its own */
  CHECK(emulator_set("stream_mode", THREADED) == 0);
  at_first = threads();
  mistakes_are_refused();
  an_end_is_told_by_a_thread_that_is_there_only_then();
  an_eventfd_becomes_readable();
  a_run_is_collected_before_its_notice();
  a_failed_check_is_told();
  a_failed_query_is_told();
  a_close_tells_what_is_left();
  a_call_may_ask_again();
  what_is_released_stays_until_it_was_told();
  many_threads_ask();
  puts("notices: all right");
  return 0;
}
