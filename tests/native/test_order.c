/* Orders that the C layer promises, in the emulator's lazy mode: nothing runs that nobody waits
 * for, so work that is not ordered behind what it needs runs too early every time. */
#include "dispatch_test.h"

/* A block that still has a copy from it pending on the main stream goes to a submission's slab. */
static void a_submission_waits_for_the_earlier_owner_of_its_slab(vyc_context *context,
                                                                 vyc_prepared *prepared) {
  OK(vyc_context_trim(context));
  /* The device slab of a submission: both bindings, each on a boundary of 256 bytes. */
  vyc_buffer *from = new_buffer(context, 2 * ((BYTES + 255) / 256 * 256));
  vyc_buffer *to = new_buffer(context, BYTES);
  vyc_buffer *five = filled(context, 5.0f);
  OK(vyc_copy(from, 0, five, 0, BYTES));
  OK(vyc_context_synchronize(context));
  OK(vyc_copy(to, 0, from, 0, BYTES));
  vyc_buffer_release(from);
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  OK(vyc_prepared_run(prepared, NULL, &t->run));
  verify(t);
  check_filled(to, 5.0f);
  free(t);
  vyc_buffer_release(to);
  vyc_buffer_release(five);
}

static void a_stream_waits_for_a_fill_of_its_buffer(vyc_context *context, vyc_prepared *prepared) {
  vyc_stream *stream = new_stream(context);
  vyc_buffer *in = filled(context, 2.0f), *out = new_buffer(context, BYTES);
  OK(vyc_fill_zero(out, 0, BYTES));
  launch(prepared, in, out, 4.0f, stream);
  check_filled(out, 8.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_stream_release(stream);
}

/* More streams than a word has bits. */
static void streams_that_share_a_bit_are_ordered_each(vyc_context *context,
                                                      vyc_prepared *prepared) {
  enum { STREAMS = 64 };
  vyc_stream *streams[STREAMS];
  for (int i = 0; i < STREAMS; i++) streams[i] = new_stream(context);
  vyc_buffer *in = filled(context, 2.0f), *from = filled(context, 5.0f);
  vyc_buffer *to = new_buffer(context, BYTES);
  OK(vyc_copy(to, 0, from, 0, BYTES));
  launch(prepared, in, from, 1.0f, streams[STREAMS - 2]);
  launch(prepared, in, from, 1.0f, streams[STREAMS - 1]);
  OK(vyc_stream_synchronize(streams[STREAMS - 1]));
  check_filled(to, 5.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(from);
  vyc_buffer_release(to);
  for (int i = 0; i < STREAMS; i++) vyc_stream_release(streams[i]);
}

static void a_copy_waits_again_after_a_wait_that_failed(vyc_context *context,
                                                        vyc_prepared *prepared) {
  vyc_stream *stream = new_stream(context);
  vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
  float host[N];
  launch(prepared, in, out, 4.0f, stream);
  CHECK(emulator_fail("cuStreamSynchronize", 1, 999, 0) == 0);
  CHECK(vyc_copy_out(out, 0, host, BYTES) == VYC_E_DRIVER);
  check_filled(out, 8.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_stream_release(stream);
}

/* The report word of a released prepared kernel is not handed on while a launch may write to it. */
static void a_report_word_is_not_reused_under_a_launch(vyc_context *context, vyc_module *module) {
  OK(vyc_context_trim(context));
  vyc_prepared *judge = judge_prepared(module, 1);
  const uint64_t bad = 1;
  const vyc_run run = judge_run(&bad);
  OK(vyc_prepared_launch(judge, &run));
  vyc_prepared_release(judge);
  vyc_pinned *pinned = NULL;
  void *data = NULL;
  OK(vyc_pinned_alloc(&pinned, context, 8));
  OK(vyc_pinned_data(pinned, &data));
  memset(data, 0xff, 8);
  CHECK(vyc_context_synchronize(context) == VYC_E_ASSERT);
  CHECK(*(const uint64_t *)data == UINT64_MAX);
  vyc_pinned_release(pinned);
}

static float *new_pinned(vyc_pinned **pinned_out, vyc_context *context) {
  void *data = NULL;
  OK(vyc_pinned_alloc(pinned_out, context, BYTES));
  OK(vyc_pinned_data(*pinned_out, &data));
  return data;
}

static uint64_t live_pinned(vyc_context *context) {
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  OK(vyc_context_memory_stats(context, &stats));
  return stats.pinned_live_count;
}

/* Neither the ticket nor the caller holds the memory any more, and the kernel has not begun. */
static void an_abandoned_run_keeps_its_page_locked_arguments(vyc_context *context,
                                                             vyc_prepared *prepared) {
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  OK(vyc_prepared_run(prepared, NULL, &t->run)); /* the submission has its slab now */
  const uint64_t before = live_pinned(context);
  vyc_pinned *in = NULL, *out = NULL, *next[2] = {NULL, NULL};
  float *const from = new_pinned(&in, context), *const to = new_pinned(&out, context);
  memcpy(from, t->in, sizeof t->in);
  t->arguments[0] =
      (vyc_argument){.kind = VYC_ARGUMENT_PINNED, .count = N, .data = from, .pinned = in};
  t->arguments[1] =
      (vyc_argument){.kind = VYC_ARGUMENT_PINNED, .count = N, .result = to, .pinned = out};
  vyc_ticket *ticket = NULL;
  OK(vyc_prepared_submit(prepared, &ticket, &t->run));
  vyc_ticket_release(ticket);
  vyc_pinned_release(in);
  vyc_pinned_release(out);
  for (int i = 0; i < 2; i++) {
    float *const fresh = new_pinned(&next[i], context);
    CHECK(fresh != from && fresh != to);
  }
  OK(vyc_context_synchronize(context));
  for (uint32_t i = 0; i < N; i++) CHECK(to[i] == 3.0f * t->in[i]);
  for (int i = 0; i < 2; i++) vyc_pinned_release(next[i]);
  prepare(t, 4.0f);
  OK(vyc_prepared_run(prepared, NULL, &t->run)); /* finds the submission of the abandoned run */
  verify(t);
  CHECK(live_pinned(context) == before);
  free(t);
}

static void a_copy_within_a_buffer_may_overlap(vyc_context *context) {
  uint32_t host[N], back[N];
  for (uint32_t i = 0; i < N; i++) host[i] = i;
  vyc_buffer *buffer = new_buffer(context, BYTES);
  for (int up = 0; up < 2; up++) {
    OK(vyc_copy_in(buffer, 0, host, BYTES));
    OK(vyc_copy(buffer, up ? 4 : 0, buffer, up ? 0 : 4, BYTES - 4));
    OK(vyc_copy_out(buffer, 0, back, BYTES));
    for (uint32_t i = 0; i + 1 < N; i++) CHECK(back[up ? i + 1 : i] == (up ? i : i + 1));
  }
  vyc_buffer_release(buffer);
}

/* A grid that is empty in y covers nothing, however many blocks it has in x. */
static void an_empty_grid_leaves_zeros(vyc_prepared *streamed) {
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  OK(vyc_prepared_run(streamed, NULL, &t->run));
  t->run.grid[1] = 0;
  OK(vyc_prepared_run(streamed, NULL, &t->run));
  for (uint32_t i = 0; i < N; i++) CHECK(t->out[i] == 0.0f);
  free(t);
}

/* The flag that tells the end is memory, and looking at it moves nothing on. */
static void a_run_elsewhere_ends_when_it_is_asked_for(vyc_context *context, vyc_prepared *streamed,
                                                      vyc_stream *stream) {
  vyc_buffer *in = filled(context, 2.0f);
  vyc_ticket *ticket = NULL;
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  for (uint32_t i = 0; i < N; i++) t->in[i] = 2.0f;
  t->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = in};
  t->run.stream = stream;
  OK(vyc_prepared_run(streamed, NULL, &t->run));
  verify(t);
  memset(t->out, 0, sizeof t->out);
  OK(vyc_prepared_submit(streamed, &ticket, &t->run));
  while (vyc_ticket_query(ticket) == VYC_NOT_READY) {
  }
  OK(vyc_ticket_wait(ticket, -1));
  verify(t);
  vyc_ticket_release(ticket);
  free(t);
  vyc_buffer_release(in);
}

static void runs_elsewhere_end_when_they_are_asked_for(vyc_context *context,
                                                       vyc_prepared *streamed) {
  enum { STREAMS = 64 }; /* the last ones without a number */
  vyc_stream *streams[STREAMS], *legacy = NULL;
  a_run_elsewhere_ends_when_it_is_asked_for(context, streamed, NULL);
  OK(vyc_stream_adopt(&legacy, context, 0));
  a_run_elsewhere_ends_when_it_is_asked_for(context, streamed, legacy);
  vyc_stream_release(legacy);
  for (int i = 0; i < STREAMS; i++) streams[i] = new_stream(context);
  a_run_elsewhere_ends_when_it_is_asked_for(context, streamed, streams[0]);
  a_run_elsewhere_ends_when_it_is_asked_for(context, streamed, streams[STREAMS - 1]);
  for (int i = 0; i < STREAMS; i++) vyc_stream_release(streams[i]);
}

/* By a caller that looks now and then, for which the number of looks alone would take long. */
static void a_look_without_a_wait_asks_the_driver(vyc_module *module) {
  vyc_prepared *prepared = scale_prepared(module, STREAMED);
  vyc_ticket *ticket = NULL;
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  OK(vyc_prepared_submit(prepared, &ticket, &t->run));
  const uint64_t asked = count_of("cuStreamQuery");
  CHECK(vyc_ticket_query(ticket) == VYC_NOT_READY);
  CHECK(count_of("cuStreamQuery") == asked + 1);
  OK(vyc_ticket_wait(ticket, -1));
  verify(t);
  vyc_ticket_release(ticket);
  vyc_prepared_release(prepared);
  free(t);
}

/* Its stream is gone before anybody asks for the run, and another one has its number. */
static void a_run_outlives_its_stream(vyc_context *context, vyc_prepared *streamed) {
  vyc_stream *stream = new_stream(context), *other = NULL;
  vyc_buffer *in = filled(context, 2.0f);
  vyc_ticket *ticket = NULL;
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  for (uint32_t i = 0; i < N; i++) t->in[i] = 2.0f;
  t->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = in};
  t->run.stream = stream;
  OK(vyc_prepared_submit(streamed, &ticket, &t->run));
  vyc_stream_release(stream);
  other = new_stream(context);
  OK(vyc_ticket_wait(ticket, -1));
  verify(t);
  vyc_ticket_release(ticket);
  vyc_stream_release(other);
  free(t);
  vyc_buffer_release(in);
}

/* Work given before two questions has not ended while nobody waits; after a wait it has. */
static void a_device_far_behind_is_told(vyc_context *context, vyc_prepared *prepared) {
  vyc_buffer *in = filled(context, 1.0f), *out = new_buffer(context, BYTES);
  vyc_stream *stream = NULL;
  OK(vyc_stream_create(&stream, context));
  for (int turn = 0; turn < 2; turn++) {
    launch(prepared, in, out, 2.0f, stream);
    OK(vyc_context_is_behind(context, stream));
  }
  CHECK(vyc_context_is_behind(context, stream) == VYC_NOT_READY);
  OK(vyc_stream_synchronize(stream));
  OK(vyc_context_is_behind(context, stream));
  check_filled(out, 2.0f);
  vyc_stream_release(stream);
  vyc_buffer_release(out);
  vyc_buffer_release(in);
}

/* What is asked of one stream says nothing of another. */
static void a_device_far_behind_is_told_of_each_stream(vyc_context *context,
                                                       vyc_prepared *prepared) {
  vyc_buffer *in = filled(context, 1.0f), *out = new_buffer(context, BYTES);
  vyc_stream *busy = new_stream(context), *idle = new_stream(context);
  OK(vyc_context_synchronize(context));
  for (int turn = 0; turn < 2; turn++) {
    launch(prepared, in, out, 2.0f, busy);
    OK(vyc_context_is_behind(context, busy));
    OK(vyc_context_is_behind(context, idle));
    OK(vyc_stream_synchronize(idle));
  }
  CHECK(vyc_context_is_behind(context, busy) == VYC_NOT_READY);
  OK(vyc_context_is_behind(context, idle));
  check_filled(out, 2.0f);
  vyc_stream_release(busy);
  vyc_stream_release(idle);
  vyc_buffer_release(out);
  vyc_buffer_release(in);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *copied = scale_prepared(module, COPIED),
               *streamed = scale_prepared(module, STREAMED);
  a_submission_waits_for_the_earlier_owner_of_its_slab(context, copied);
  a_stream_waits_for_a_fill_of_its_buffer(context, copied);
  streams_that_share_a_bit_are_ordered_each(context, copied);
  a_copy_waits_again_after_a_wait_that_failed(context, copied);
  a_report_word_is_not_reused_under_a_launch(context, module);
  an_abandoned_run_keeps_its_page_locked_arguments(context, streamed);
  an_abandoned_run_keeps_its_page_locked_arguments(context, copied);
  a_copy_within_a_buffer_may_overlap(context);
  an_empty_grid_leaves_zeros(streamed);
  runs_elsewhere_end_when_they_are_asked_for(context, streamed);
  a_look_without_a_wait_asks_the_driver(module);
  a_run_outlives_its_stream(context, streamed);
  a_device_far_behind_is_told(context, copied);
  a_device_far_behind_is_told_of_each_stream(context, copied);
  vyc_prepared_release(copied);
  vyc_prepared_release(streamed);
  vyc_module_release(module);
  vyc_context_release(context);
  check_nothing_lives();
  puts("order: passed");
  return 0;
}
