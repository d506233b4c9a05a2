/* Driver calls that fail in the middle of something, and assertions: what is in flight is not
 * reused, nothing is lost, the device stays usable. In the emulator's lazy mode a failed look runs
 * nothing. */
#include "dispatch_test.h"

#define UNKNOWN 999
#define ILLEGAL_ADDRESS 700

static void fail_once(const char *call) { CHECK(emulator_fail(call, 1, UNKNOWN, 0) == 0); }

static vyc_status synchronize_and_tag(vyc_context *context, uint64_t *tag_out) {
  const vyc_status status = vyc_context_synchronize(context);
  vyc_error error = {.struct_size = sizeof error};
  OK(vyc_last_error(&error));
  *tag_out = error.tag;
  return status;
}

/* The kernel of the first run is still to run when its wait fails; if its submission were taken for
 * the next run, that one would report the assertion of the first. */
static void a_failed_wait_does_not_free_the_submission(vyc_context *context, vyc_module *module) {
  vyc_prepared *judge = judge_prepared(module, 1);
  const uint64_t bad = 1, good = 0;
  const vyc_run wrong = judge_run(&bad), right = judge_run(&good);
  fail_once("cuStreamQuery");
  CHECK(vyc_prepared_run(judge, NULL, &wrong) == VYC_E_DRIVER);
  OK(vyc_prepared_run(judge, NULL, &right));
  vyc_ticket *ticket = NULL;
  OK(vyc_prepared_submit(judge, &ticket, &wrong));
  fail_once("cuStreamQuery");
  CHECK(vyc_ticket_wait(ticket, -1) == VYC_E_DRIVER);
  CHECK(vyc_ticket_wait(ticket, -1) == VYC_E_DRIVER);
  OK(vyc_prepared_run(judge, NULL, &right));
  vyc_ticket_release(ticket);
  OK(vyc_context_synchronize(context));
  vyc_prepared_release(judge);
}

/* A submission whose state nobody knows is given up; the next run gets another, however often. */
static void submissions_that_are_given_up_do_not_run_out(vyc_prepared *prepared) {
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  for (int i = 0; i < 70; i++) {
    prepare(t, 2.0f);
    fail_once("cuGraphLaunch");
    fail_once("cuStreamSynchronize");
    CHECK(vyc_prepared_run(prepared, NULL, &t->run) == VYC_E_DRIVER);
    CHECK(emulator_reset() == 0);
    CHECK(emulator_set("stream_mode", LAZY) == 0);
  }
  OK(vyc_prepared_run(prepared, NULL, &t->run));
  verify(t);
  free(t);
}

/* Every call of a run fails in turn; the run after it is right. */
static void a_run_follows_a_run_that_failed(vyc_prepared *prepared, vyc_context *context) {
  static const char *const CALLS[] = {
      "cuEventCreate",     "cuEventRecord",     "cuGraphLaunch", "cuGraphExecKernelNodeSetParams",
      "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuEventQuery",  "cuEventElapsedTime"};
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  vyc_buffer *in = new_buffer(context, N * 4);
  for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
    vyc_timing timing = {.struct_size = sizeof timing};
    prepare(t, 2.0f + (float)i);
    OK(vyc_copy_in(in, 0, t->in, N * 4));
    t->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = in};
    t->run.timing_out = &timing;
    fail_once(CALLS[i]);
    vyc_prepared_run(prepared, NULL, &t->run);
    CHECK(emulator_reset() == 0);
    CHECK(emulator_set("stream_mode", LAZY) == 0);
    memset(t->out, 0, sizeof t->out);
    OK(vyc_prepared_run(prepared, NULL, &t->run));
    verify(t);
  }
  vyc_buffer_release(in);
  free(t);
}

static void every_assertion_is_told_once(vyc_context *context, vyc_module *module) {
  vyc_prepared *first = judge_prepared(module, 1), *second = judge_prepared(module, 2);
  const uint64_t bad = 1;
  const vyc_run run = judge_run(&bad);
  OK(vyc_prepared_launch(first, &run));
  OK(vyc_prepared_launch(second, &run));
  uint64_t one = 0, other = 0;
  CHECK(synchronize_and_tag(context, &one) == VYC_E_ASSERT);
  CHECK(synchronize_and_tag(context, &other) == VYC_E_ASSERT);
  CHECK(one + other == 3);
  OK(vyc_context_synchronize(context));
  vyc_prepared_release(first);
  vyc_prepared_release(second);
}

static vyc_prepared *launch_judge(vyc_module *module, uint64_t tag, vyc_stream *stream) {
  vyc_prepared *judge = judge_prepared(module, tag);
  const uint64_t bad = 1;
  vyc_run run = judge_run(&bad);
  run.stream = stream;
  OK(vyc_prepared_launch(judge, &run));
  return judge;
}

static uint64_t tag_of_last(void) {
  vyc_error error = {.struct_size = sizeof error};
  OK(vyc_last_error(&error));
  return error.tag;
}

/* Both have run by the first wait. One kernel, and one with a bound call, too. */
static void an_assertion_is_told_to_who_waits_for_its_stream(vyc_context *context,
                                                             vyc_module *module) {
  vyc_stream *bad_stream = new_stream(context), *good_stream = new_stream(context);
  vyc_prepared *judge = launch_judge(module, 4, bad_stream);
  const uint64_t good = 0;
  vyc_run run = judge_run(&good);
  run.stream = good_stream;
  vyc_event *bad_event = NULL, *good_event = NULL;
  vyc_call *call = NULL;
  for (int i = 0; i < 3; i++) OK(vyc_prepared_launch(judge, &run));
  OK(vyc_call_create(&call, judge, &run));
  OK(vyc_call_run(call));
  OK(vyc_stream_record(bad_stream, &bad_event));
  OK(vyc_stream_record(good_stream, &good_event));
  while (vyc_stream_query(bad_stream) != VYC_OK) {
  }
  OK(vyc_stream_synchronize(good_stream));
  OK(vyc_event_synchronize(good_event));
  vyc_buffer *other = filled(context, 1.0f);
  check_filled(other, 1.0f); /* in call order */
  CHECK(vyc_stream_synchronize(bad_stream) == VYC_E_ASSERT && tag_of_last() == 4);
  OK(vyc_event_synchronize(bad_event));
  OK(vyc_context_synchronize(context));
  vyc_buffer_release(other);
  vyc_event_release(bad_event);
  vyc_event_release(good_event);
  vyc_call_release(call);
  vyc_prepared_release(judge);
  vyc_stream_release(bad_stream);
  vyc_stream_release(good_stream);
}

/* A new stream in the slot of the one that failed is not told, nor who releases that. */
static void an_assertion_outlives_its_stream(vyc_context *context, vyc_module *module) {
  vyc_stream *stream = new_stream(context);
  vyc_prepared *judge = launch_judge(module, 5, stream);
  vyc_stream_release(stream);
  stream = new_stream(context);
  const uint64_t good = 0;
  vyc_run run = judge_run(&good);
  run.stream = stream;
  OK(vyc_prepared_launch(judge, &run));
  OK(vyc_stream_synchronize(stream));
  CHECK(vyc_context_synchronize(context) == VYC_E_ASSERT && tag_of_last() == 5);
  OK(vyc_context_synchronize(context));
  vyc_prepared_release(judge);
  vyc_stream_release(stream);
}

/* To the stream of the replay, also when the graph is gone by then. */
static void an_assertion_of_a_graph_is_told_to_its_stream(vyc_context *context,
                                                          vyc_module *module) {
  vyc_stream *stream = new_stream(context), *other = new_stream(context);
  vyc_prepared *judge = judge_prepared(module, 6);
  for (uint64_t bad = 1; bad < 3; bad++) {
    const vyc_run run = judge_run(&bad);
    vyc_graph *graph = NULL;
    uint32_t step = 0;
    OK(vyc_graph_create(&graph, context));
    OK(vyc_graph_add_launch(graph, &step, judge, &run));
    OK(vyc_graph_add_launch(graph, &step, judge, &run));
    OK(vyc_graph_finish(graph));
    OK(vyc_graph_launch(graph, NULL, 0, stream));
    if (bad == 2) vyc_graph_release(graph);
    while (vyc_stream_query(stream) != VYC_OK) {
    }
    OK(vyc_stream_synchronize(other));
    CHECK(vyc_stream_synchronize(stream) == VYC_E_ASSERT && tag_of_last() == 6);
    OK(vyc_context_synchronize(context));
    if (bad == 1) vyc_graph_release(graph);
  }
  vyc_prepared_release(judge);
  vyc_stream_release(stream);
  vyc_stream_release(other);
}

/* Records of what is gone go back once a wait has found nothing in them. */
static void records_do_not_pile_up(vyc_context *context, vyc_module *module) {
  vyc_stream *stream = new_stream(context);
  uint64_t before = 0;
  for (int i = 0; i < 100; i++) {
    vyc_prepared_release(launch_judge(module, 8, stream));
    CHECK(vyc_stream_synchronize(stream) == VYC_E_ASSERT);
    OK(vyc_stream_synchronize(stream));
    vyc_memory_stats stats = {.struct_size = sizeof stats};
    OK(vyc_context_memory_stats(context, &stats));
    if (i == 0) before = stats.pinned_live_count;
    CHECK(stats.pinned_live_count == before);
  }
  vyc_stream_release(stream);
}

static void an_assertion_outlives_its_kernel(vyc_context *context, vyc_module *module) {
  vyc_prepared *judge = judge_prepared(module, 7);
  const uint64_t bad = 1;
  const vyc_run run = judge_run(&bad);
  OK(vyc_prepared_launch(judge, &run));
  vyc_prepared_release(judge);
  uint64_t tag = 0;
  CHECK(synchronize_and_tag(context, &tag) == VYC_E_ASSERT);
  CHECK(tag == 7);
  OK(vyc_context_synchronize(context));
}

static void a_block_that_cannot_be_marked_keeps_no_event(vyc_context *context,
                                                         vyc_prepared *prepared) {
  vyc_stream *stream = new_stream(context);
  vyc_buffer *in = new_buffer(context, N * 4);
  OK(vyc_fill_zero(in, 0, N * 4));
  const uint64_t before = count_of("events");
  for (int turn = 0; turn < 3; turn++) {
    task t;
    prepare(&t, 1.0f);
    vyc_buffer *out = new_buffer(context, N * 4);
    on_buffers(&t, in, out);
    t.run.stream = stream;
    OK(vyc_prepared_launch(prepared, &t.run));
    fail_once("cuEventRecord");
    vyc_buffer_release(out);
  }
  CHECK(count_of("events") == before);
  vyc_buffer_release(in);
  vyc_stream_release(stream);
}

static void a_lost_device_names_the_first_cause(void) {
  vyc_context *context = open_context();
  vyc_error error = {.struct_size = sizeof error};
  CHECK(emulator_fail("cuStreamQuery", 1, ILLEGAL_ADDRESS, 0) == 0);
  CHECK(vyc_context_synchronize(context) == VYC_E_LOST);
  CHECK(vyc_context_synchronize(context) == VYC_E_LOST);
  OK(vyc_last_error(&error));
  CHECK(error.driver_result == ILLEGAL_ADDRESS);
  CHECK(strcmp(error.operation, "cuStreamQuery") == 0);
  vyc_context_release(context);
}

/* half_way: the first of two halves of a report under the lock, then a word for the host, and the
 * second half once the host has answered there. */
static const char *const HALF_WAY =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry half_way(.param .u64 word, .param .u64 report)\n{\n"
    ".reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd0, [word];\nld.param.u64 %rd1, [report];\nmov.u32 %r0, 1;\n"
    "st.relaxed.sys.global.u32 [%rd1+16], %r0;\nmov.u64 %rd2, 5242883;\n"
    "st.relaxed.sys.global.u64 [%rd1], %rd2;\nst.release.sys.global.u32 [%rd0], %r0;\n"
    "again:\nld.acquire.sys.global.u32 %r1, [%rd0];\nsetp.ne.u32 %p0, %r1, 2;\n@%p0 bra again;\n"
    "mov.u64 %rd3, 77;\nst.relaxed.sys.global.u64 [%rd1+8], %rd3;\nmov.u32 %r0, 0;\n"
    "st.release.sys.global.u32 [%rd1+16], %r0;\nret;\n}\n";

static vyc_prepared *half_way_prepared(vyc_module *module) {
  static const vyc_parameter parameters[] = {{VYC_PARAMETER_SCALAR, 0, 0, 8, {0}},
                                             {VYC_PARAMETER_REPORT, 0, 8, 8, {0}}};
  const vyc_prepared_desc desc = {.struct_size = sizeof desc,
                                  .block = {1, 1, 1},
                                  .parameter_bytes = 16,
                                  .parameter_count = 2,
                                  .scalar_count = 1,
                                  .entry = "half_way",
                                  .parameters = parameters,
                                  .tag = 9};
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  return prepared;
}

/* Whoever looks while a thread of the kernel writes its report finds nothing yet, not the key of
 * this failure with the index of another. */
static void key_and_index_of_a_failure_are_a_pair(vyc_context *context) {
  CHECK(emulator_set("stream_mode", THREADED) == 0);
  vyc_module *module = NULL;
  OK(vyc_module_load(&module, NULL, 0, context, HALF_WAY, strlen(HALF_WAY) + 1));
  vyc_prepared *prepared = half_way_prepared(module);
  vyc_pinned *pinned = NULL;
  void *data = NULL;
  OK(vyc_pinned_alloc(&pinned, context, 4));
  OK(vyc_pinned_data(pinned, &data));
  _Atomic uint32_t *word = data;
  *word = 0;
  const uint64_t address = (uint64_t)(uintptr_t)data;
  vyc_run run = judge_run(&address);
  OK(vyc_prepared_launch(prepared, &run));
  while (*word != 1) {
  }
  vyc_stream *idle = new_stream(context);
  OK(vyc_stream_synchronize(idle)); /* looks for reports */
  *word = 2;
  CHECK(vyc_context_synchronize(context) == VYC_E_ASSERT);
  vyc_error error = {.struct_size = sizeof error};
  OK(vyc_last_error(&error));
  CHECK(error.report == 5242883 && error.report_index == 77 && error.tag == 9);
  OK(vyc_context_synchronize(context));
  vyc_stream_release(idle);
  vyc_pinned_release(pinned);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *copied = scale_prepared(module, COPIED),
               *streamed = scale_prepared(module, STREAMED);
  a_failed_wait_does_not_free_the_submission(context, module);
  submissions_that_are_given_up_do_not_run_out(streamed);
  a_run_follows_a_run_that_failed(copied, context);
  every_assertion_is_told_once(context, module);
  an_assertion_outlives_its_kernel(context, module);
  an_assertion_is_told_to_who_waits_for_its_stream(context, module);
  an_assertion_outlives_its_stream(context, module);
  an_assertion_of_a_graph_is_told_to_its_stream(context, module);
  records_do_not_pile_up(context, module);
  a_block_that_cannot_be_marked_keeps_no_event(context, copied);
  key_and_index_of_a_failure_are_a_pair(context);
  a_lost_device_names_the_first_cause();
  vyc_prepared_release(copied);
  vyc_prepared_release(streamed);
  vyc_module_release(module);
  vyc_context_release(context);
  check_nothing_lives();
  puts("failure: passed");
  return 0;
}
