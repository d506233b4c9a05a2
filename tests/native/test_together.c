/* Two threads at one object, one of them stopped in the middle (stops.c). */
#define _POSIX_C_SOURCE 200809L
#include "bundle_test.h"
#include "stops_test.h"

/* ---- a replay and its symbols -----------------------------------------------------------------
 */

#define COUNT 64u

enum { A, OUT, X }; /* of graph `step` in the order of their names */

static vyc_replay *replay;
static vyc_buffer *outs[2];

static vyc_buffer *floats(vyc_context *context, float value) {
  float host[COUNT];
  for (uint32_t i = 0; i < COUNT; i++) host[i] = value;
  vyc_buffer *buffer = new_buffer(context, sizeof host);
  OK(vyc_copy_in(buffer, 0, host, sizeof host));
  return buffer;
}

static vyc_symbol_value array_value(uint32_t symbol, vyc_buffer *buffer) {
  return (vyc_symbol_value){.symbol = symbol, .buffer = buffer, .count = COUNT};
}

static void *set_both(void *unused) {
  const vyc_symbol_value values[] = {{.symbol = A, .bits = bits(5.0f)}, array_value(OUT, outs[1])};
  OK(vyc_replay_set(replay, values, 2));
  return unused;
}

/* w = a * x + i, out = w + 1.5 w; untouched where a is 0. */
static void verify_out(vyc_buffer *buffer, float a) {
  float found[COUNT];
  OK(vyc_copy_out(buffer, 0, found, sizeof found));
  for (uint32_t i = 0; i < COUNT; i++) {
    const float w = a + (float)i;
    CHECK(found[i] == (a == 0.0f ? -1.0f : w + 1.5f * w));
  }
}

/* `a` goes into the first step and `out` into the last: the launch gives another symbol. */
static void a_launch_has_symbols_of_one_time(void) {
  vyc_context *context = open_context();
  vyc_bundle *bundle = open_example();
  OK(vyc_replay_load(&replay, NULL, 0, context, bundle, "step", 0));
  vyc_bundle_release(bundle);
  for (int i = 0; i < 2; i++) outs[i] = floats(context, -1.0f);
  vyc_buffer *x = floats(context, 1.0f);
  const vyc_symbol_value before[] = {array_value(OUT, outs[0]), array_value(X, x)};
  OK(vyc_replay_set(replay, before, 2));
  OK(vyc_replay_launch(replay, NULL, 0, NULL));
  verify_out(outs[0], 2.0f);
  vyc_buffer_release(outs[0]);
  outs[0] = floats(context, -1.0f);
  OK(vyc_replay_set(replay, (vyc_symbol_value[]){array_value(OUT, outs[0])}, 1));
  const vyc_symbol_value given = array_value(X, x);
  stop_at("cuCtxGetCurrent", 0, 0, set_both);
  OK(vyc_replay_launch(replay, &given, 1, NULL));
  check_stopped();
  verify_out(outs[0], 0.0f);
  verify_out(outs[1], 5.0f);
  for (int i = 0; i < 2; i++) vyc_buffer_release(outs[i]);
  vyc_buffer_release(x);
  vyc_replay_release(replay);
  vyc_context_release(context);
}

/* ---- a stream that two threads adopt ----------------------------------------------------------
 */

static vyc_context *adopting;
static vyc_stream *adopted;

static void *adopt(void *unused) {
  OK(vyc_stream_adopt(&adopted, adopting, 0));
  return unused;
}

/* Also where a context has more streams than there are numbers. */
static void a_handle_is_one_stream_whoever_adopts_it(void) {
  enum { STREAMS = 62 };
  vyc_stream *streams[STREAMS], *stream = NULL, *again = NULL;
  adopting = open_context();
  for (int many = 0; many < 2; many++) {
    for (int i = 0; many && i < STREAMS; i++) streams[i] = new_stream(adopting);
    stop_at("cuEventCreate", 0, 0, adopt);
    OK(vyc_stream_adopt(&stream, adopting, 0));
    check_stopped();
    OK(vyc_stream_adopt(&again, adopting, 1));
    CHECK(stream == adopted && again == adopted);
    vyc_stream_release(stream);
    vyc_stream_release(again);
    vyc_stream_release(adopted);
    for (int i = 0; many && i < STREAMS; i++) vyc_stream_release(streams[i]);
  }
  vyc_context_release(adopting);
}

/* ---- a look at all work -----------------------------------------------------------------------
 */

static vyc_context *looked_at;
static vyc_module *module;

/* What takes the locks of streams, and of prepared kernels. */
static void *come_and_go(void *unused) {
  vyc_stream_release(new_stream(looked_at));
  vyc_prepared_release(scale_prepared(module, COPIED));
  return unused;
}

/* Call order is asked first, then the stream, then the submission: others come and go meanwhile. */
static void a_look_at_all_work_keeps_nobody_waiting(void) {
  looked_at = open_context();
  module = load_module(looked_at);
  vyc_prepared *prepared = scale_prepared(module, COPIED);
  vyc_stream *stream = new_stream(looked_at);
  vyc_buffer *in = filled(looked_at, 2.0f), *out = filled(looked_at, 0.0f);
  static task t;
  for (int asked = 0; asked < 3; asked++) {
    vyc_ticket *ticket = NULL;
    vyc_fence *fence = NULL;
    prepare(&t, 3.0f);
    OK(vyc_prepared_submit(prepared, &ticket, &t.run));
    launch(prepared, in, out, 3.0f, stream);
    stop_at("cuStreamQuery", 0, asked, come_and_go);
    OK(vyc_fence_create(&fence, looked_at));
    check_stopped();
    OK(vyc_fence_wait(fence, -1));
    vyc_fence_release(fence);
    OK(vyc_ticket_wait(ticket, -1));
    vyc_ticket_release(ticket);
    verify(&t);
  }
  check_filled(out, 6.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_stream_release(stream);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(looked_at);
}

/* ---- launches of several threads --------------------------------------------------------------
 */

static vyc_context *crowded;
static vyc_prepared *crowd_kernel;
static vyc_call *crowd_calls[2];
static vyc_stream *crowd_streams[2];
static vyc_buffer *crowd_in, *crowd_outs[2];

static vyc_run *with_scalar(task *t, int which, float a) {
  prepare(t, a);
  on_buffers(t, crowd_in, crowd_outs[which]);
  t->run.stream = crowd_streams[which];
  return &t->run;
}

static void call_changed(int which, float a) {
  task t;
  OK(vyc_call_set_run(crowd_calls[which], with_scalar(&t, which, a)));
}

static void *call_of_another(void *unused) {
  call_changed(1, 5.0f);
  return unused;
}

static void *call_in_a_crowd(void *unused) {
  const uint64_t plain = count_of("cuLaunchKernel");
  const uint64_t patched = count_of("cuGraphExecKernelNodeSetParams");
  call_changed(1, 7.0f);
  CHECK(count_of("cuLaunchKernel") == plain + 1);
  CHECK(count_of("cuGraphExecKernelNodeSetParams") == patched);
  return unused;
}

static void *launch_in_a_crowd(void *unused) {
  const uint64_t plain = count_of("cuLaunchKernel");
  launch(crowd_kernel, crowd_in, crowd_outs[1], 9.0f, crowd_streams[1]);
  CHECK(count_of("cuLaunchKernel") == plain + 1);
  return unused;
}

static void in_another_thread(void *(*act)(void *)) {
  pthread_t other;
  CHECK(pthread_create(&other, NULL, act, NULL) == 0);
  CHECK(pthread_join(other, NULL) == 0);
}

static void empty(vyc_buffer *buffer) {
  const float zeros[N] = {0};
  OK(vyc_copy_in(buffer, 0, zeros, sizeof zeros));
}

static void make_crowd(void) {
  crowded = open_context();
  module = load_module(crowded);
  crowd_kernel = scale_prepared(module, COPIED);
  crowd_in = filled(crowded, 2.0f);
  for (int i = 0; i < 2; i++) {
    task t;
    crowd_streams[i] = new_stream(crowded);
    crowd_outs[i] = filled(crowded, 0.0f);
    OK(vyc_call_create(&crowd_calls[i], crowd_kernel, with_scalar(&t, i, 1.0f)));
    OK(vyc_call_run(crowd_calls[i]));
    for (float a = 1.0f; a < 4.0f; a += 1.0f) {
      call_changed(i, a);
      launch(crowd_kernel, crowd_in, crowd_outs[i], a, crowd_streams[i]);
    }
  }
}

static void end_crowd(void) {
  for (int i = 0; i < 2; i++) {
    vyc_call_release(crowd_calls[i]);
    vyc_buffer_release(crowd_outs[i]);
    vyc_stream_release(crowd_streams[i]);
  }
  vyc_buffer_release(crowd_in);
  vyc_prepared_release(crowd_kernel);
  vyc_module_release(module);
  vyc_context_release(crowded);
}

/* A second thread has launched before the first stops in the middle of a launch, where the second
 * launches without a graph; later launches with the graph have these arguments, changed or not. */
static void a_crowd_launches_without_graphs(void) {
  for (int again = 0; again < 2; again++) {
    task t;
    make_crowd();
    in_another_thread(call_of_another);
    stop_at("cuGraphLaunch", 0, 0, call_in_a_crowd);
    call_changed(0, 6.0f);
    check_stopped();
    check_filled(crowd_outs[0], 12.0f);
    check_filled(crowd_outs[1], 14.0f);
    empty(crowd_outs[1]);
    if (again)
      OK(vyc_call_run(crowd_calls[1]));
    else
      OK(vyc_call_set_run(crowd_calls[1], with_scalar(&t, 1, 7.0f)));
    check_filled(crowd_outs[1], 14.0f);
    call_changed(1, 8.0f);
    check_filled(crowd_outs[1], 16.0f);
    call_changed(0, 5.5f); /* what copies have taken, the streams have again */
    in_another_thread(call_of_another);
    stop_at("cuGraphLaunch", 0, 0, launch_in_a_crowd);
    launch(crowd_kernel, crowd_in, crowd_outs[0], 6.5f, crowd_streams[0]);
    check_stopped();
    check_filled(crowd_outs[0], 13.0f);
    check_filled(crowd_outs[1], 18.0f);
    empty(crowd_outs[1]);
    launch(crowd_kernel, crowd_in, crowd_outs[1], 9.0f, crowd_streams[1]);
    check_filled(crowd_outs[1], 18.0f);
    end_crowd();
  }
}

static task crowd_tasks[2];

static void run(int which, float a) {
  prepare(&crowd_tasks[which], a);
  OK(vyc_prepared_run(crowd_kernel, NULL, &crowd_tasks[which].run));
  verify(&crowd_tasks[which]);
}

static void *run_of_another(void *unused) {
  run(1, 5.0f);
  return unused;
}

static void *run_in_a_crowd(void *unused) {
  const uint64_t plain = count_of("cuLaunchKernel"), graphs = count_of("cuGraphLaunch");
  run(1, 7.0f);
  CHECK(count_of("cuLaunchKernel") == plain + 1);
  CHECK(count_of("cuGraphLaunch") == graphs);
  return unused;
}

/* The same with host arguments. Later runs have a graph again, and the word that it sets. */
static void a_run_in_a_crowd_needs_no_graph(void) {
  crowded = open_context();
  module = load_module(crowded);
  crowd_kernel = scale_prepared(module, STREAMED);
  for (float a = 1.0f; a < 4.0f; a += 1.0f) run(0, a);
  for (float a = 5.0f; a < 7.0f; a += 1.0f) {
    in_another_thread(run_of_another);
    stop_at("cuGraphLaunch", 0, 0, run_in_a_crowd);
    run(0, a);
    check_stopped();
    const uint64_t graphs = count_of("cuGraphLaunch");
    run(0, a + 0.5f);
    CHECK(count_of("cuGraphLaunch") == graphs + 1);
  }
  vyc_prepared_release(crowd_kernel);
  vyc_module_release(module);
  vyc_context_release(crowded);
}

static const scene ALL[] = {
    {"a_run_in_a_crowd_needs_no_graph", a_run_in_a_crowd_needs_no_graph},
    {"a_crowd_launches_without_graphs", a_crowd_launches_without_graphs},
    {"a_look_at_all_work_keeps_nobody_waiting", a_look_at_all_work_keeps_nobody_waiting},
    {"a_handle_is_one_stream_whoever_adopts_it", a_handle_is_one_stream_whoever_adopts_it},
    {"a_launch_has_symbols_of_one_time", a_launch_has_symbols_of_one_time},
};

int main(int argc, char **argv) {
  stops_open(argc, argv);
  play(ALL, sizeof ALL / sizeof ALL[0], argc, argv);
  check_nothing_lives();
  puts("together: passed");
  return 0;
}
