/* Any number of streams: what is said of the first holds of the 256th. A launch takes as many
 * driver calls, and a release, a copy and a wait are for the streams that have used the memory
 * alone. In the emulator's lazy mode work that nobody waits for is never done. */
#include "graph_test.h"

enum { STREAMS = 300, LAST = STREAMS - 1 };
static vyc_stream *streams[STREAMS];
/* The first, those on both sides of what a word has room for, and of each part of what is kept for
 * the others. */
static const int SOME[] = {0,   60,  61,  62,  63,  64,  124, 125,
                           126, 188, 189, 252, 253, 255, 256, LAST};
#define SOME_COUNT (sizeof SOME / sizeof SOME[0])

/* What the device has written, looked at without a wait for it. */
static float now_in(vyc_buffer *buffer) {
  uint64_t address = 0;
  OK(vyc_buffer_address(buffer, &address));
  return *(const float *)(uintptr_t)address;
}

/* ---- launches -------------------------------------------------------------------------------- */

enum { LAUNCHES = 10 };

static task shared;

static uint64_t calls_of_launches(vyc_prepared *prepared, vyc_stream *stream) {
  shared.run.stream = stream;
  for (int i = 0; i < 3; i++) OK(vyc_prepared_launch(prepared, &shared.run));
  const uint64_t before = count_of("calls");
  for (int i = 0; i < LAUNCHES; i++) OK(vyc_prepared_launch(prepared, &shared.run));
  return count_of("calls") - before;
}

static uint64_t calls_of_bound_calls(vyc_prepared *prepared, vyc_stream *stream) {
  vyc_call *call = NULL;
  shared.run.stream = stream;
  OK(vyc_call_create(&call, prepared, &shared.run));
  for (int i = 0; i < 3; i++) OK(vyc_call_run(call));
  const uint64_t before = count_of("calls");
  for (int i = 0; i < LAUNCHES; i++) OK(vyc_call_run(call));
  const uint64_t after = count_of("calls");
  vyc_call_release(call);
  return after - before;
}

static uint64_t calls_of_graphs(vyc_graph *graph, vyc_stream *stream) {
  for (int i = 0; i < 3; i++) OK(vyc_graph_launch(graph, NULL, 0, stream));
  const uint64_t before = count_of("calls");
  for (int i = 0; i < LAUNCHES; i++) OK(vyc_graph_launch(graph, NULL, 0, stream));
  return count_of("calls") - before;
}

static void a_launch_on_any_stream_takes_as_many_driver_calls(vyc_context *context,
                                                              vyc_prepared *prepared) {
  vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 0.0f);
  vyc_graph *graph = new_graph(context);
  add(graph, prepared, in, out, 3.0f);
  OK(vyc_graph_finish(graph));
  prepare(&shared, 3.0f);
  on_buffers(&shared, in, out);
  const uint64_t launches = calls_of_launches(prepared, streams[0]);
  const uint64_t calls = calls_of_bound_calls(prepared, streams[0]);
  const uint64_t graphs = calls_of_graphs(graph, streams[0]);
  CHECK(calls == LAUNCHES);
  for (size_t i = 0; i < SOME_COUNT; i++) {
    CHECK(calls_of_launches(prepared, streams[SOME[i]]) == launches);
    CHECK(calls_of_bound_calls(prepared, streams[SOME[i]]) == calls);
    CHECK(calls_of_graphs(graph, streams[SOME[i]]) == graphs);
  }
  check_filled(out, 6.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  OK(vyc_context_synchronize(context));
}

/* ---- releases -------------------------------------------------------------------------------- */

/* Its stream is idle and another has work: the release does not wait for that. */
static void a_release_waits_for_no_stream_that_did_not_use_the_memory(vyc_context *context,
                                                                      vyc_prepared *prepared) {
  for (size_t i = 0; i < SOME_COUNT; i++) {
    const int other = SOME[i] == LAST ? LAST - 1 : LAST;
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 0.0f);
    vyc_buffer *late = filled(context, 0.0f);
    OK(vyc_context_synchronize(context));
    launch(prepared, in, out, 3.0f, streams[SOME[i]]);
    OK(vyc_stream_synchronize(streams[SOME[i]]));
    launch(prepared, in, late, 4.0f, streams[other]);
    vyc_buffer_release(out);
    CHECK(now_in(late) == 0.0f);
    check_filled(late, 8.0f);
    vyc_buffer_release(in);
    vyc_buffer_release(late);
    OK(vyc_context_synchronize(context));
  }
}

/* Its stream has work: the release does not wait for it, and nobody gets the memory before. */
static void memory_stays_while_its_stream_works(vyc_context *context, vyc_prepared *prepared) {
  for (size_t i = 0; i < SOME_COUNT; i++) {
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 0.0f);
    uint64_t first = 0, second = 0;
    OK(vyc_buffer_address(out, &first));
    OK(vyc_context_synchronize(context));
    launch(prepared, in, out, 3.0f, streams[SOME[i]]);
    vyc_buffer_release(out);
    const float *const given_up = (const float *)(uintptr_t)first;
    CHECK(*given_up == 0.0f);
    vyc_buffer *next = new_buffer(context, BYTES);
    OK(vyc_buffer_address(next, &second));
    CHECK(second != first || *given_up == 6.0f);
    vyc_buffer_release(in);
    vyc_buffer_release(next);
    OK(vyc_context_synchronize(context));
  }
}

/* The second owner of a block is not told of what the first one's streams did. */
static void marks_go_with_the_buffer(vyc_context *context, vyc_prepared *prepared) {
  vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 0.0f);
  launch(prepared, in, out, 3.0f, streams[LAST]);
  OK(vyc_context_synchronize(context));
  vyc_buffer_release(out);
  out = filled(context, 0.0f);
  OK(vyc_fill_zero(out, 0, BYTES));
  launch(prepared, in, out, 5.0f, streams[LAST]); /* behind the fill */
  check_filled(out, 10.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void a_copy_waits_for_the_streams_of_its_buffer_alone(vyc_context *context,
                                                             vyc_prepared *prepared) {
  for (size_t i = 0; i < SOME_COUNT; i++) {
    const int other = SOME[i] == LAST ? LAST - 1 : LAST;
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 0.0f);
    vyc_buffer *late = filled(context, 0.0f);
    OK(vyc_context_synchronize(context));
    launch(prepared, in, out, 3.0f, streams[SOME[i]]);
    launch(prepared, in, late, 4.0f, streams[other]);
    check_filled(out, 6.0f);
    CHECK(now_in(late) == 0.0f);
    launch(prepared, in, out, 5.0f, streams[SOME[i]]);
    OK(vyc_buffer_synchronize_for(out, 1, -1));
    CHECK(now_in(out) == 10.0f && now_in(late) == 0.0f);
    check_filled(late, 8.0f);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
    vyc_buffer_release(late);
  }
  OK(vyc_context_synchronize(context));
}

/* All of them have work on one buffer, and the copy comes behind each. */
static void a_copy_waits_for_every_stream_of_its_buffer(vyc_context *context,
                                                        vyc_prepared *prepared) {
  vyc_buffer *in = filled(context, 2.0f), *outs[STREAMS];
  for (int i = 0; i < STREAMS; i++) outs[i] = filled(context, 0.0f);
  for (int i = 0; i < STREAMS; i++) launch(prepared, in, outs[i], 3.0f, streams[i]);
  OK(vyc_fill_zero(in, 0, BYTES)); /* reads were before */
  for (int i = 0; i < STREAMS; i++) check_filled(outs[i], 6.0f);
  for (int i = 0; i < STREAMS; i++) launch(prepared, in, outs[i], 3.0f, streams[i]);
  for (int i = 0; i < STREAMS; i++) check_filled(outs[i], 0.0f); /* and these behind the fill */
  for (int i = 0; i < STREAMS; i++) vyc_buffer_release(outs[i]);
  vyc_buffer_release(in);
  OK(vyc_context_synchronize(context));
}

/* What a prepared kernel reports in a stream is raised by whoever waits for that stream. */
static void a_failed_check_is_told_to_its_stream(vyc_context *context, vyc_module *module) {
  vyc_prepared *judge = judge_prepared(module, 1);
  const uint64_t bad = 1;
  vyc_run run = judge_run(&bad);
  for (size_t i = 0; i < SOME_COUNT; i++) {
    run.stream = streams[SOME[i]];
    OK(vyc_prepared_launch(judge, &run));
    OK(vyc_stream_synchronize(streams[SOME[i] == LAST ? LAST - 1 : LAST]));
    CHECK(vyc_stream_synchronize(streams[SOME[i]]) == VYC_E_ASSERT);
    OK(vyc_stream_synchronize(streams[SOME[i]]));
  }
  vyc_prepared_release(judge);
  OK(vyc_context_synchronize(context));
}

/* ---- streams that come and go ---------------------------------------------------------------- */

/* The next stream has the number, and none of the marks. */
static void a_new_stream_follows_call_order_whoever_had_its_number(vyc_context *context,
                                                                   vyc_prepared *prepared) {
  vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 0.0f);
  for (size_t i = 0; i < SOME_COUNT; i++) {
    launch(prepared, in, out, 3.0f, streams[SOME[i]]);
    OK(vyc_stream_synchronize(streams[SOME[i]]));
    vyc_stream_release(streams[SOME[i]]);
    streams[SOME[i]] = new_stream(context);
    vyc_buffer *from = filled(context, (float)i);
    launch(prepared, from, in, 1.0f, NULL); /* not begun yet, and the next launch is behind it */
    launch(prepared, in, out, 3.0f, streams[SOME[i]]);
    check_filled(out, 3.0f * (float)i);
    vyc_buffer_release(from);
  }
  vyc_buffer_release(in);
  vyc_buffer_release(out);
}

/* The first of two new streams has the buffer's old marks looked through, for both. */
static void marks_of_all_that_ended_are_forgotten(vyc_context *context, vyc_prepared *prepared) {
  for (size_t i = 0; i + 1 < SOME_COUNT; i++) {
    vyc_stream **const two[] = {&streams[SOME[i]], &streams[SOME[i + 1]]};
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 0.0f);
    vyc_buffer *from = filled(context, (float)i);
    for (int j = 0; j < 2; j++) launch(prepared, in, out, 3.0f, *two[j]);
    OK(vyc_context_synchronize(context));
    for (int j = 0; j < 2; j++) vyc_stream_release(*two[j]);
    for (int j = 0; j < 2; j++) *two[j] = new_stream(context);
    launch(prepared, in, out, 3.0f, *two[0]);
    OK(vyc_stream_synchronize(*two[0]));
    launch(prepared, from, in, 1.0f, NULL); /* not begun yet */
    launch(prepared, in, out, 3.0f, *two[1]);
    check_filled(out, 3.0f * (float)i);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
    vyc_buffer_release(from);
  }
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  const place p = open_place();
  vyc_context *const context = p.context;
  vyc_module *module = load_module(context);
  vyc_prepared *const prepared = p.prepared;
  for (int i = 0; i < STREAMS; i++) streams[i] = new_stream(context);
  a_launch_on_any_stream_takes_as_many_driver_calls(context, prepared);
  a_release_waits_for_no_stream_that_did_not_use_the_memory(context, prepared);
  memory_stays_while_its_stream_works(context, prepared);
  marks_go_with_the_buffer(context, prepared);
  a_copy_waits_for_the_streams_of_its_buffer_alone(context, prepared);
  a_copy_waits_for_every_stream_of_its_buffer(context, prepared);
  a_failed_check_is_told_to_its_stream(context, module);
  a_new_stream_follows_call_order_whoever_had_its_number(context, prepared);
  marks_of_all_that_ended_are_forgotten(context, prepared);
  for (int i = 0; i < STREAMS; i++) vyc_stream_release(streams[i]);
  vyc_module_release(module);
  close_place(&p);
  puts("streams: passed");
  return 0;
}
