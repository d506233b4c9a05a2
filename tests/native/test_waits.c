/* Waits with a limit of time, fences, and what a close gives up. A kernel here runs until the host
 * says so, so that nothing depends on how fast anything is. */
#include "dispatch_test.h"

#define MILLISECOND 1000000
#define CUDA_ERROR_UNKNOWN 999

/* until: runs while the word is 0. */
static const char *const UNTIL =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry until(.param .u64 word)\n{\n.reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 "
    "%rd<2>;\n"
    "ld.param.u64 %rd0, [word];\nagain:\nld.acquire.sys.global.u32 %r0, [%rd0];\n"
    "setp.eq.u32 %p0, %r0, 0;\n@%p0 bra again;\nret;\n}\n";

typedef struct session {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared;
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
  void *data = NULL;
  OK(vyc_module_load(&s.module, NULL, 0, s.context, UNTIL, strlen(UNTIL) + 1));
  OK(vyc_prepared_create(&s.prepared, s.module, &desc));
  OK(vyc_pinned_alloc(&s.pinned, s.context, 4));
  OK(vyc_pinned_data(s.pinned, &data));
  s.word = data;
  *s.word = 0;
  s.address = (uint64_t)(uintptr_t)data;
  return s;
}

static void release(session *s) {
  vyc_pinned_release(s->pinned);
  vyc_prepared_release(s->prepared);
  vyc_module_release(s->module);
  vyc_context_release(s->context);
}

static void hang(const session *s, vyc_stream *stream) {
  vyc_run run = judge_run(&s->address);
  run.stream = stream;
  OK(vyc_prepared_launch(s->prepared, &run));
}

static vyc_ticket *hang_run(const session *s) {
  vyc_ticket *ticket = NULL;
  const vyc_run run = judge_run(&s->address);
  OK(vyc_prepared_submit(s->prepared, &ticket, &run));
  return ticket;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void every_wait_keeps_its_limit(void) {
  session s = begin();
  vyc_stream *stream = new_stream(s.context), *idle = new_stream(s.context);
  vyc_buffer *buffer = new_buffer(s.context, 64);
  vyc_event *start = NULL, *event = NULL;
  vyc_fence *before = NULL, *fence = NULL;
  float milliseconds = -1;
  OK(vyc_fence_create(&before, s.context));
  OK(vyc_stream_record(stream, &start));
  hang(&s, stream);
  OK(vyc_stream_record(stream, &event));
  vyc_ticket *ticket = hang_run(&s);
  OK(vyc_fence_create(&fence, s.context));
  OK(vyc_event_synchronize(start));
  CHECK(vyc_event_elapsed(event, &milliseconds, start) == VYC_E_DRIVER); /* not reached yet */
  for (int64_t limit = 0; limit <= MILLISECOND; limit += MILLISECOND) {
    CHECK(vyc_context_synchronize_for(s.context, limit) == VYC_NOT_READY);
    CHECK(vyc_stream_synchronize_for(stream, limit) == VYC_NOT_READY);
    CHECK(vyc_event_synchronize_for(event, limit) == VYC_NOT_READY);
    CHECK(vyc_fence_wait(fence, limit) == VYC_NOT_READY);
    CHECK(vyc_ticket_wait(ticket, limit) == VYC_NOT_READY);
    OK(vyc_fence_wait(before, limit));
    OK(vyc_stream_synchronize_for(idle, limit));
    OK(vyc_buffer_synchronize_for(buffer, 1, limit));
  }
  hang(&s, NULL);
  CHECK(vyc_buffer_synchronize_for(buffer, 1, MILLISECOND) == VYC_NOT_READY);
  OK(vyc_buffer_synchronize_for(buffer, 0, MILLISECOND));
  *s.word = 1;
  OK(vyc_fence_wait(fence, -1));
  OK(vyc_ticket_wait(ticket, -1));
  OK(vyc_event_synchronize_for(event, -1));
  OK(vyc_context_synchronize_for(s.context, -1));
  OK(vyc_event_elapsed(event, &milliseconds, start));
  CHECK(milliseconds >= 0);
  vyc_event_release(start);
  vyc_fence_release(before);
  vyc_fence_release(fence);
  vyc_ticket_release(ticket);
  vyc_event_release(event);
  vyc_buffer_release(buffer);
  vyc_stream_release(idle);
  vyc_stream_release(stream);
  release(&s);
  check_nothing_lives();
}

/* A wait asks for its stream at first, then for an event. */
static uint64_t count_of_looks(void) {
  return count_of("cuStreamQuery") + count_of("cuEventQuery");
}

static void *end_once_it_waits(void *argument) {
  const session *s = argument;
  const uint64_t before = count_of_looks();
  while (count_of_looks() < before + 3) {
  }
  *s->word = 1;
  return NULL;
}

/* By each function that takes one, and for any negative number. */
static void a_negative_limit_is_none(void) {
  session s = begin();
  vyc_stream *stream = new_stream(s.context);
  vyc_buffer *buffer = new_buffer(s.context, 64);
  uint8_t byte = 0;
  for (int what = 0; what < 3; what++) {
    pthread_t thread;
    *s.word = 0;
    hang(&s, what == 2 ? NULL : stream);
    CHECK(pthread_create(&thread, NULL, end_once_it_waits, &s) == 0);
    if (what == 0) OK(vyc_stream_synchronize_for(stream, INT64_MIN));
    if (what == 1) OK(vyc_context_synchronize_for(s.context, -2));
    if (what == 2) OK(vyc_buffer_synchronize_for(buffer, 1, INT64_MIN));
    CHECK(pthread_join(thread, NULL) == 0);
  }
  CHECK(vyc_copy_try_in(buffer, 0, &byte, 1, -1) == VYC_E_INVALID);
  CHECK(vyc_copy_try_out(buffer, 0, &byte, 1, -1) == VYC_E_INVALID);
  CHECK(vyc_context_set_patience(s.context, -1) == VYC_E_INVALID);
  vyc_buffer_release(buffer);
  vyc_stream_release(stream);
  release(&s);
  check_nothing_lives();
}

static void a_run_waits_for_a_lane_no_longer_than_its_limit(void) {
  session s = begin();
  vyc_ticket *tickets[64], *one_more = NULL;
  for (int i = 0; i < 64; i++) tickets[i] = hang_run(&s);
  vyc_run run = judge_run(&s.address);
  run.timeout_ns = MILLISECOND;
  CHECK(vyc_prepared_submit(s.prepared, &one_more, &run) == VYC_E_TIMEOUT && one_more == NULL);
  CHECK(vyc_prepared_run(s.prepared, &one_more, &run) == VYC_E_TIMEOUT && one_more == NULL);
  *s.word = 1;
  run.timeout_ns = -1;
  OK(vyc_prepared_run(s.prepared, NULL, &run));
  for (int i = 0; i < 64; i++) {
    OK(vyc_ticket_wait(tickets[i], -1));
    vyc_ticket_release(tickets[i]);
  }
  release(&s);
  check_nothing_lives();
}

static void the_times_of_a_run_come_with_its_ticket(void) {
  session s = begin();
  vyc_timing timing = {.struct_size = sizeof timing}, later = {.struct_size = sizeof later};
  vyc_run run = judge_run(&s.address);
  vyc_ticket *ticket = NULL;
  run.timeout_ns = MILLISECOND;
  run.timing_out = &timing;
  CHECK(vyc_prepared_run(s.prepared, &ticket, &run) == VYC_E_TIMEOUT && ticket != NULL);
  CHECK(vyc_ticket_timing(ticket, &later) == VYC_NOT_READY);
  *s.word = 1;
  OK(vyc_ticket_wait(ticket, -1));
  OK(vyc_ticket_timing(ticket, &later));
  CHECK(later.wall_ns >= MILLISECOND && later.wall_ns == later.enqueue_ns + later.wait_ns);
  CHECK(later.device_ns > 0);
  vyc_ticket_release(ticket);
  ticket = hang_run(&s);
  OK(vyc_ticket_wait(ticket, -1));
  CHECK(vyc_ticket_timing(ticket, &later) == VYC_E_INVALID); /* nobody asked for times */
  vyc_ticket_release(ticket);
  release(&s);
}

/* ---- giving up ------------------------------------------------------------------------------- */

static void releases_leak_what_does_not_end_and_a_later_close_frees_it(void) {
  session s = begin();
  OK(vyc_context_set_patience(s.context, MILLISECOND));
  vyc_stream *stream = new_stream(s.context);
  vyc_buffer *buffer = new_buffer(s.context, 64);
  hang(&s, stream);
  hang(&s, NULL);
  vyc_ticket_release(hang_run(&s));
  vyc_prepared_release(s.prepared);
  vyc_module_release(s.module);
  vyc_stream_release(stream);
  vyc_buffer_release(buffer);
  OK(vyc_context_trim(s.context));
  s.prepared = NULL;
  s.module = NULL;
  *s.word = 1;
  vyc_pinned_release(s.pinned);
  s.pinned = NULL;
  OK(vyc_context_close_for(s.context, -1));
  release(&s);
  check_nothing_lives();
}

static void fail_once(const char *call) {
  CHECK(emulator_fail(call, 1, CUDA_ERROR_UNKNOWN, 0) == 0);
}

/* Neither where asking the stream fails, nor where the wait for a download does. */
static void nothing_waits_in_the_driver_after_a_failure(void) {
  session s = begin();
  OK(vyc_context_set_patience(s.context, MILLISECOND));
  vyc_stream *stream = new_stream(s.context);
  vyc_buffer *buffer = new_buffer(s.context, 64);
  uint8_t data[64] = {0};
  OK(vyc_copy_in(buffer, 0, data, sizeof data));
  hang(&s, stream);
  fail_once("cuStreamQuery");
  vyc_stream_release(stream);
  hang(&s, NULL);
  fail_once("cuStreamSynchronize");
  CHECK(vyc_copy_out(buffer, 0, data, sizeof data) == VYC_E_DRIVER);
  *s.word = 1;
  OK(vyc_context_synchronize(s.context));
  OK(vyc_copy_out(buffer, 0, data, sizeof data));
  vyc_buffer_release(buffer);
  release(&s);
  check_nothing_lives();
}

static void *wait_for_ever(void *argument) {
  CHECK(vyc_ticket_wait(argument, -1) == VYC_E_UNAVAILABLE);
  return NULL;
}

/* The word that the kernel looks at is never freed: the context was abandoned. */
static void a_close_gives_up_and_wakes_who_waits(void) {
  session s = begin();
  vyc_ticket *ticket = hang_run(&s);
  pthread_t waiter;
  const uint64_t before = count_of("cuStreamQuery");
  CHECK(pthread_create(&waiter, NULL, wait_for_ever, ticket) == 0);
  while (count_of("cuStreamQuery") < before + 3) {
  }
  CHECK(vyc_context_close_for(s.context, MILLISECOND) == VYC_E_TIMEOUT);
  CHECK(pthread_join(waiter, NULL) == 0);
  OK(vyc_context_close(s.context));
  CHECK(vyc_ticket_wait(ticket, -1) == VYC_E_UNAVAILABLE);
  vyc_ticket_release(ticket);
  _Atomic uint32_t *word = s.word;

  session other = begin(); /* the same device: its frees would wait for the abandoned kernel */
  const uint64_t frees = count_of("cuMemFree");
  OK(vyc_context_close_for(other.context, -1));
  CHECK(count_of("cuMemFree") == frees);
  release(&other);
  release(&s);
  *word = 1;
  session third = begin();
  *third.word = 1;
  hang(&third, NULL);
  OK(vyc_context_close_for(third.context, -1));
  release(&third);
}

/* No stream of ours could be ordered behind a launch on another library's, and it does not end. */
static void a_launch_that_nobody_can_follow_is_given_up(void) {
  session s = begin();
  vyc_module *module = load_module(s.context);
  vyc_prepared *prepared = scale_prepared(module, COPIED);
  vyc_buffer *in = new_buffer(s.context, 4 * N), *out = new_buffer(s.context, 4 * N);
  vyc_stream *legacy = NULL, *stream = new_stream(s.context);
  uint64_t before = 0, after = 0;
  task t;
  OK(vyc_context_set_patience(s.context, MILLISECOND));
  OK(vyc_stream_adopt(&legacy, s.context, 0));
  OK(vyc_buffer_address(out, &before));
  prepare(&t, 2.0f);
  on_buffers(&t, in, out);
  t.run.stream = stream;
  OK(vyc_prepared_launch(prepared, &t.run));
  vyc_run run = judge_run(&s.address);
  run.stream = legacy;
  fail_once("cuStreamWaitEvent");
  CHECK(vyc_prepared_launch(s.prepared, &run) == VYC_E_DRIVER);
  vyc_buffer_release(out); /* for all that is known the lost launch uses it */
  out = new_buffer(s.context, 4 * N);
  OK(vyc_buffer_address(out, &after));
  CHECK(after != before);
  const uint64_t frees = count_of("cuMemFree");
  CHECK(vyc_context_close_for(s.context, -1) == VYC_E_TIMEOUT);
  CHECK(count_of("cuMemFree") == frees);
  *s.word = 1;
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_stream_release(legacy);
  vyc_stream_release(stream);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  release(&s);
}

typedef struct ending {
  _Atomic uint32_t *word;
  uint64_t records;
} ending;

/* Once so many events were to be recorded the kernel may end. */
static void *end_after_records(void *argument) {
  const ending *e = argument;
  while (count_of("cuEventRecord") < e->records) {
  }
  *e->word = 1;
  return NULL;
}

/* Nothing can be ordered behind it, nor an event be waited for: its stream can still be asked. */
static void a_launch_without_events_is_followed_by_looks(void) {
  session s = begin();
  vyc_stream *legacy = NULL;
  pthread_t thread;
  ending e = {s.word, count_of("cuEventRecord") + 2};
  vyc_run run = judge_run(&s.address);
  OK(vyc_stream_adopt(&legacy, s.context, 0));
  run.stream = legacy;
  CHECK(emulator_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN, 1) == 0);
  CHECK(pthread_create(&thread, NULL, end_after_records, &e) == 0);
  CHECK(vyc_prepared_launch(s.prepared, &run) == VYC_E_DRIVER);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(emulator_reset() == 0);
  vyc_stream_release(legacy);
  OK(vyc_context_close(s.context));
  release(&s);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  every_wait_keeps_its_limit();
  a_negative_limit_is_none();
  a_run_waits_for_a_lane_no_longer_than_its_limit();
  the_times_of_a_run_come_with_its_ticket();
  releases_leak_what_does_not_end_and_a_later_close_frees_it();
  nothing_waits_in_the_driver_after_a_failure();
  a_launch_without_events_is_followed_by_looks();
  check_nothing_lives();
  a_close_gives_up_and_wakes_who_waits();
  a_launch_that_nobody_can_follow_is_given_up();
  puts("waits: passed");
  return 0;
}
