/* Launches, bound calls and graphs. */
#include "operations.h"
#include "scene.h"

/* ---- launches -------------------------------------------------------------------------------- */

void operate_launch_on_stream(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch on stream one", s->one, STREAM_ONE, &s->x, &s->hot);
}

void operate_launch_in_call_order(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch in call order", NULL, STREAM_CALLS, &s->x, &s->hot);
}

void operate_launch_that_reads(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch on stream two", s->two, STREAM_TWO, &s->hot, &s->out);
}

void operate_launch_on_spare(uint32_t thread) {
  scene *s = the_scene();
  scene_launch("launch on a spare stream", s->spare[thread], STREAM_SPARE + thread, &s->x, &s->hot);
}

/* Loaded for one launch, and released behind it. */
void operate_kernel_made(uint32_t thread) {
  scene *s = the_scene();
  vyc_bundled_kernel *made = NULL;
  scene_run run;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "a kernel loaded and launched",
                                                        .stream = STREAM_TWO,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->hot),
                                                        .in = s->x.address,
                                                        .out = s->hot.address},
                                      BY_ITSELF, 1);
  scene_fill_run(&run, s->two, &s->x, 0, &s->hot, number);
  vyc_status status = vyc_bundled_kernel_load(&made, NULL, 0, s->context, s->bundle, "put", 0);
  if (status == VYC_OK) status = vyc_bundled_kernel_launch(made, &run.run);
  vyc_bundled_kernel_release(made);
  scene_leave(number, status);
}

void operate_launch_and_free(uint32_t thread) {
  scene *s = the_scene();
  scene_launch("launch, then free", s->one, STREAM_ONE, &s->x, &s->own[thread]);
  scene_buffer_end(&s->own[thread]);
}

/* ---- bound calls ----------------------------------------------------------------------------- */

void operate_call(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "bound call",
                                                        .stream = STREAM_ONE,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->hot)},
                                      BY_CALL, 1);
  scene_leave(number, vyc_call_run(s->call));
}

/* Both threads bind arguments of their own: other elements of x. */
static uint32_t bind(scene_run *run, const char *name, uint32_t thread, uint32_t kernels) {
  scene *s = the_scene();
  const uint64_t offset = thread % 2 == 0 ? 8 : 0;
  const uint32_t number = scene_enter((order_operation){.name = name,
                                                        .stream = STREAM_ONE,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->hot),
                                                        .in = s->x.address + offset,
                                                        .out = s->hot.address},
                                      BY_ITSELF, kernels);
  s->bound.writers |= UINT64_C(1) << number;
  scene_fill_run(run, s->one, &s->x, offset, &s->hot, number);
  return number;
}

void operate_call_set_run(uint32_t thread) {
  scene_run run;
  const uint32_t number = bind(&run, "rebind and launch", thread, 1);
  scene_leave(number, vyc_call_set_run(the_scene()->call, &run.run));
}

void operate_call_set(uint32_t thread) {
  scene_run run;
  const uint32_t number = bind(&run, "rebind", thread, 0);
  order_operation *o = &the_scene()->order.list[number];
  o->writes = 0; /* the launches do */
  o->stream = ORDER_NOWHERE;
  scene_leave(number, vyc_call_set(the_scene()->call, &run.run));
}

void operate_call_made(uint32_t thread) {
  scene *s = the_scene();
  scene_run run;
  vyc_call *made = NULL;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "a call made, run and released",
                                                        .stream = STREAM_TWO,
                                                        .reads = scene_set(&s->hot),
                                                        .writes = scene_set(&s->out),
                                                        .in = s->hot.address,
                                                        .out = s->out.address},
                                      BY_ITSELF, 2);
  scene_fill_run(&run, s->two, &s->hot, 0, &s->out, number);
  vyc_status status = vyc_call_create(&made, s->prepared, &run.run);
  if (status == VYC_OK) status = vyc_call_run(made);
  if (status == VYC_OK) status = vyc_call_run(made);
  vyc_call_release(made);
  scene_leave(number, status);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

void operate_replay(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const vyc_symbol_value value = {.symbol = s->symbol_out, .buffer = s->hot.handle, .count = 1};
  const uint32_t number = scene_enter((order_operation){.name = "replay with another array",
                                                        .stream = STREAM_CALLS,
                                                        .graph = GRAPH_TWICE,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->hot)},
                                      BY_GRAPH, 2);
  scene_leave(number, vyc_replay_launch(s->replay, &value, 1, NULL));
}

void operate_replay_with_scalar(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "replay with another scalar",
                                                        .stream = STREAM_TWO,
                                                        .graph = GRAPH_TWICE,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->out)},
                                      BY_GRAPH, 2);
  const vyc_symbol_value value = {.symbol = s->symbol_a, .bits = number};
  scene_leave(number, vyc_replay_launch(s->replay, &value, 1, s->two));
}

void operate_replay_set(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter(
      (order_operation){.name = "set of a symbol", .stream = ORDER_NOWHERE}, BY_ITSELF, 0);
  const vyc_symbol_value value = {.symbol = s->symbol_a, .bits = number};
  s->symbol.writers |= UINT64_C(1) << number;
  scene_leave(number, vyc_replay_set(s->replay, &value, 1));
}

/* Released with its launch in flight: x to memory of the thread's, and that to hot. */
static void make_graph(uint32_t thread, bool is_timed) {
  scene *s = the_scene();
  vyc_event *start = NULL, *stop = NULL;
  const scene_buffer *own = &s->own[thread];
  vyc_graph *graph = NULL;
  scene_run first, second;
  const uint32_t number =
      scene_enter((order_operation){.name = "a graph made, launched, released",
                                    .stream = STREAM_TWO,
                                    .reads = scene_set(&s->x) | scene_set(own),
                                    .writes = scene_set(own) | scene_set(&s->hot)},
                  BY_ITSELF, 2);
  scene_fill_run(&first, NULL, &s->x, 0, own, number);
  scene_fill_run(&second, NULL, own, 0, &s->hot, number);
  vyc_status status = vyc_graph_create(&graph, s->context);
  if (status == VYC_OK) status = vyc_graph_add_launch(graph, NULL, s->prepared, &first.run);
  if (status == VYC_OK) status = vyc_graph_add_launch(graph, NULL, s->prepared, &second.run);
  if (status == VYC_OK) status = vyc_graph_finish(graph);
  if (status == VYC_OK)
    status = is_timed ? vyc_graph_launch_between(graph, &start, &stop, NULL, 0, s->two, 0)
                      : vyc_graph_launch(graph, NULL, 0, s->two);
  vyc_graph_release(graph);
  vyc_event_release(start);
  vyc_event_release(stop);
  scene_leave(number, status);
}

void operate_graph_made(uint32_t thread) { make_graph(thread, false); }
void operate_graph_timed(uint32_t thread) { make_graph(thread, true); }

void operate_replay_get(uint32_t thread) {
  scene *s = the_scene();
  vyc_symbol_value value;
  (void)thread;
  if (!scene_ok(vyc_replay_get(s->replay, &value, s->symbol_x), "value of a symbol")) return;
  if (value.buffer != s->x.handle) explorer_fail("a symbol stands for another buffer");
  vyc_buffer_release(value.buffer);
}

/* ---- failed assertions ----------------------------------------------------------------------- */

static void launch_failing(uint32_t thread, vyc_prepared *prepared) {
  scene *s = the_scene();
  scene_run run;
  const uint32_t number = scene_enter((order_operation){.name = "launch that fails",
                                                        .stream = STREAM_SPARE + thread,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->own[thread]),
                                                        .in = s->x.address,
                                                        .out = s->own[thread].address},
                                      BY_ITSELF, 1);
  s->failing |= UINT64_C(1) << number;
  scene_fill_run(&run, s->spare[thread], &s->x, 0, &s->own[thread], number);
  scene_leave(number, vyc_prepared_launch(prepared, &run.run));
}

void operate_fail(uint32_t thread) { launch_failing(thread, the_scene()->asserting); }

void operate_fail_and_wait(uint32_t thread) {
  scene *s = the_scene();
  operate_fail(thread);
  const uint32_t number = scene_enter((order_operation){.name = "wait for the failed",
                                                        .stream = STREAM_SPARE + thread,
                                                        .flags = ORDER_BLOCKS},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_stream_synchronize(s->spare[thread]));
}

/* The report outlives its kernel. */
void operate_fail_of_made(uint32_t thread) {
  vyc_prepared *made = NULL;
  if (!scene_ok(scene_make_asserting(&made), "a kernel that asserts")) return;
  launch_failing(thread, made);
  vyc_prepared_release(made);
}
