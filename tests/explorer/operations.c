#include "operations.h"

#include <string.h>

#include "scene.h"

/* ---- launches -------------------------------------------------------------------------------- */

static void launch_on_stream(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch on stream one", s->one, STREAM_ONE, &s->x, &s->hot);
}

static void launch_in_call_order(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch in call order", NULL, STREAM_CALLS, &s->x, &s->hot);
}

static void launch_that_reads(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch on stream two", s->two, STREAM_TWO, &s->hot, &s->out);
}

static void launch_on_spare(uint32_t thread) {
  scene *s = the_scene();
  scene_launch("launch on a spare stream", s->spare[thread], STREAM_SPARE + thread, &s->x, &s->hot);
}

/* Loaded for one launch, and released behind it. */
static void kernel_made(uint32_t thread) {
  scene *s = the_scene();
  vyc_kernel *made = NULL;
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
  vyc_status status = vyc_kernel_load(&made, NULL, 0, s->context, s->bundle, "put", 0);
  if (status == VYC_OK) status = vyc_kernel_launch(made, &run.run);
  vyc_kernel_release(made);
  scene_leave(number, status);
}

static void launch_and_free(uint32_t thread) {
  scene *s = the_scene();
  scene_launch("launch, then free", s->one, STREAM_ONE, &s->x, &s->own[thread]);
  scene_buffer_end(&s->own[thread]);
}

/* ---- bound calls ----------------------------------------------------------------------------- */

static void call(uint32_t thread) {
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

static void call_set_run(uint32_t thread) {
  scene_run run;
  const uint32_t number = bind(&run, "rebind and launch", thread, 1);
  scene_leave(number, vyc_call_set_run(the_scene()->call, &run.run));
}

static void call_set(uint32_t thread) {
  scene_run run;
  const uint32_t number = bind(&run, "rebind", thread, 0);
  order_operation *o = &the_scene()->order.list[number];
  o->writes = 0; /* the launches do */
  o->stream = ORDER_NOWHERE;
  scene_leave(number, vyc_call_set(the_scene()->call, &run.run));
}

static void call_made(uint32_t thread) {
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
  vyc_status status = vyc_call_create(&made, s->plan, &run.run);
  if (status == VYC_OK) status = vyc_call_run(made);
  if (status == VYC_OK) status = vyc_call_run(made);
  vyc_call_release(made);
  scene_leave(number, status);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void replay(uint32_t thread) {
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

static void replay_with_scalar(uint32_t thread) {
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

static void replay_set(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter(
      (order_operation){.name = "set of a symbol", .stream = ORDER_NOWHERE}, BY_ITSELF, 0);
  const vyc_symbol_value value = {.symbol = s->symbol_a, .bits = number};
  s->symbol.writers |= UINT64_C(1) << number;
  scene_leave(number, vyc_replay_set(s->replay, &value, 1));
}

/* Released with its launch in flight: x to memory of the thread's, and that to hot. */
static void graph_made(uint32_t thread) {
  scene *s = the_scene();
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
  if (status == VYC_OK) status = vyc_graph_add_launch(graph, NULL, s->plan, &first.run);
  if (status == VYC_OK) status = vyc_graph_add_launch(graph, NULL, s->plan, &second.run);
  if (status == VYC_OK) status = vyc_graph_finish(graph);
  if (status == VYC_OK) status = vyc_graph_launch(graph, NULL, 0, s->two);
  vyc_graph_release(graph);
  scene_leave(number, status);
}

static void replay_get(uint32_t thread) {
  scene *s = the_scene();
  vyc_symbol_value value;
  (void)thread;
  if (!scene_ok(vyc_replay_get(s->replay, &value, s->symbol_x), "value of a symbol")) return;
  if (value.buffer != s->x.handle) explorer_fail("a symbol stands for another buffer");
  vyc_buffer_release(value.buffer);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void copy_in(uint32_t thread) {
  (void)thread;
  scene_copy_in(&the_scene()->hot, false);
}

static void try_in(uint32_t thread) {
  (void)thread;
  scene_copy_in(&the_scene()->hot, true);
}

static void try_out(uint32_t thread) {
  (void)thread;
  scene_copy_out(&the_scene()->hot, true);
}

static void copy_out(uint32_t thread) {
  (void)thread;
  scene_copy_out(&the_scene()->hot, false);
}

static void copy_other_out(uint32_t thread) {
  (void)thread;
  scene_copy_out(&the_scene()->out, false);
}

static void copy_own_out(uint32_t thread) { scene_copy_out(&the_scene()->own[thread], false); }

static void copy_within(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "copy within",
                                                        .stream = STREAM_CALLS,
                                                        .flags = ORDER_COPY | ORDER_WAITS_BUFFERS,
                                                        .reads = scene_set(&s->hot),
                                                        .writes = scene_set(&s->out),
                                                        .in = s->hot.address,
                                                        .out = s->out.address},
                                      BY_ITSELF, 1);
  scene_leave(number, vyc_copy(s->out.handle, 0, s->hot.handle, 0, 8));
}

/* ---- failed assertions ----------------------------------------------------------------------- */

static void launch_failing(uint32_t thread, vyc_plan *plan) {
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
  scene_leave(number, vyc_plan_launch(plan, &run.run));
}

static void fail(uint32_t thread) { launch_failing(thread, the_scene()->asserting); }

static void fail_and_wait(uint32_t thread) {
  scene *s = the_scene();
  fail(thread);
  const uint32_t number = scene_enter((order_operation){.name = "wait for the failed",
                                                        .stream = STREAM_SPARE + thread,
                                                        .flags = ORDER_BLOCKS},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_stream_synchronize(s->spare[thread]));
}

/* The report outlives its kernel. */
static void fail_of_made(uint32_t thread) {
  vyc_plan *made = NULL;
  if (!scene_ok(scene_make_asserting(&made), "a kernel that asserts")) return;
  launch_failing(thread, made);
  vyc_plan_release(made);
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void wait_for(const char *name, uint32_t stream, uint32_t flags, vyc_status (*wait)(void)) {
  const uint32_t number =
      scene_enter((order_operation){.name = name, .stream = stream, .flags = flags | ORDER_BLOCKS},
                  BY_ITSELF, 0);
  scene_leave(number, wait());
}

static vyc_status wait_stream(void) { return vyc_stream_synchronize(the_scene()->one); }

static vyc_status wait_context(void) { return vyc_context_synchronize(the_scene()->context); }

static void synchronize_stream(uint32_t thread) {
  (void)thread;
  wait_for("wait for stream one", STREAM_ONE, 0, wait_stream);
}

static void synchronize(uint32_t thread) {
  (void)thread;
  wait_for("wait for all", ORDER_NOWHERE, ORDER_WAITS_ALL, wait_context);
}

static void synchronize_buffer(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "wait for a buffer",
                                                        .stream = STREAM_CALLS,
                                                        .flags = ORDER_WAITS_BUFFERS | ORDER_BLOCKS,
                                                        .reads = scene_set(&s->hot)},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_buffer_synchronize_for(s->hot.handle, 1, -1));
}

static vyc_status wait_fence(void) {
  vyc_fence *fence = NULL;
  vyc_status status = vyc_fence_create(&fence, the_scene()->context);
  if (status == VYC_OK) status = vyc_fence_wait(fence, -1);
  vyc_fence_release(fence);
  return status;
}

static void fence(uint32_t thread) {
  (void)thread;
  wait_for("wait for a fence", ORDER_NOWHERE, ORDER_WAITS_ALL, wait_fence);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void free_buffer(uint32_t thread) { scene_buffer_end(&the_scene()->own[thread]); }

static void take_buffer(uint32_t thread) {
  scene_buffer fresh = {0};
  (void)thread;
  if (!scene_buffer_make(&fresh, "a new buffer")) return;
  scene_copy_in(&fresh, false);
  scene_launch("launch on a new buffer", the_scene()->two, STREAM_TWO, &fresh, &the_scene()->out);
  scene_copy_out(&fresh, false);
  scene_buffer_end(&fresh);
}

static void trim(uint32_t thread) {
  (void)thread;
  scene_ok(vyc_context_trim(the_scene()->context), "trim");
}

/* Keeps nothing idle, then as much as before. */
static void change_budget(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  if (!scene_ok(vyc_context_set_memory_budget(s->context, 0, 0), "budget")) return;
  scene_ok(vyc_context_set_memory_budget(s->context, 1 << 30, 1 << 30), "budget");
}

static void try_buffer(uint32_t thread) {
  scene *s = the_scene();
  scene_buffer fresh = {0};
  scene_buffer *own = &s->own[thread];
  if (vyc_buffer_try_alloc(&fresh.handle, s->context, ORDER_BUFFER_BYTES) == VYC_OK)
    vyc_buffer_release(fresh.handle);
  order_buffer_release(&s->order, own->number);
  if (vyc_buffer_try_release(own->handle) == VYC_OK)
    own->handle = NULL;
  else
    s->order.buffers[own->number].released = 0;
}

static void submit(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  uint64_t in = 0, result = UINT64_MAX;
  scene_run run;
  vyc_ticket *ticket = NULL;
  const uint32_t number = scene_enter(
      (order_operation){.name = "run that is submitted", .stream = ORDER_NOWHERE}, BY_ITSELF, 1);
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, number);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = &result};
  vyc_status status = vyc_plan_submit(s->plan, &ticket, &run.run);
  if (status == VYC_OK) status = vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
  if (status == VYC_OK && result != number)
    explorer_fail("a run that was submitted (%u) has the result %lu", number,
                  (unsigned long)result);
  scene_leave(number, status);
}

static void pinned_run(uint32_t thread) {
  scene *s = the_scene();
  vyc_pinned *pinned = NULL;
  void *data = NULL;
  scene_run run;
  (void)thread;
  if (!scene_ok(vyc_pinned_alloc(&pinned, s->context, 16), "page-locked memory")) return;
  const uint32_t number =
      scene_enter((order_operation){.name = "run in page-locked memory", .stream = ORDER_NOWHERE},
                  BY_ITSELF, 1);
  if (vyc_pinned_data(pinned, &data) != VYC_OK)
    explorer_fail("page-locked memory does not say where it is");
  uint64_t *const cells = data;
  cells[0] = cells[1] = 0;
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, number);
  run.arguments[0] =
      (vyc_argument){.kind = VYC_ARGUMENT_PINNED, .count = 1, .data = &cells[0], .pinned = pinned};
  run.arguments[1] = (vyc_argument){
      .kind = VYC_ARGUMENT_PINNED, .count = 1, .result = &cells[1], .pinned = pinned};
  const vyc_status status = vyc_plan_run(s->plan, NULL, &run.run);
  if (status == VYC_OK && cells[1] != number)
    explorer_fail("a run in page-locked memory (%u) has the result %lu", number,
                  (unsigned long)cells[1]);
  scene_leave(number, status);
  vyc_pinned_release(pinned);
}

static void export_buffer(uint32_t thread) {
  scene *s = the_scene();
  scene_buffer *own = &s->own[thread];
  if (!scene_ok(vyc_buffer_export(own->handle), "export")) return;
  vyc_buffer_release(own->handle);
  scene_buffer_end(own);
}

static void host_run(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  uint64_t in = 0, result = UINT64_MAX;
  scene_run run;
  const uint32_t number = scene_enter(
      (order_operation){.name = "run with host arrays", .stream = ORDER_NOWHERE}, BY_ITSELF, 1);
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, number);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = &result};
  const vyc_status status = vyc_plan_run(s->plan, NULL, &run.run);
  if (status == VYC_OK && result != number)
    explorer_fail("a run with host arrays (%u) has the result %lu", number, (unsigned long)result);
  scene_leave(number, status);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void make_stream(uint32_t thread) {
  scene *s = the_scene();
  if (!scene_ok(vyc_stream_create(&s->made[thread], s->context), "stream made")) return;
  scene_launch("launch on a new stream", s->made[thread], STREAM_MADE + thread, &s->hot, &s->out);
}

static void drop_stream(uint32_t thread) {
  scene *s = the_scene();
  const uint32_t number = scene_enter((order_operation){.name = "stream dropped",
                                                        .stream = STREAM_SPARE + thread,
                                                        .flags = ORDER_BLOCKS},
                                      BY_ITSELF, 0);
  vyc_stream_release(s->spare[thread]);
  s->spare[thread] = NULL;
  scene_leave(number, VYC_OK);
}

/* What the stream was not told is kept for who waits for all. */
static void fail_and_drop_stream(uint32_t thread) {
  fail(thread);
  drop_stream(thread);
}

static void use_and_drop_stream(uint32_t thread) {
  launch_on_spare(thread);
  drop_stream(thread);
}

/* Stream two goes on behind what stream one was given, by an event. */
static void order_by_event(uint32_t thread) {
  scene *s = the_scene();
  vyc_event *event = NULL;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "event from one to two",
                                                        .stream = STREAM_TWO,
                                                        .flags = ORDER_WAITS_OTHER,
                                                        .other = STREAM_ONE},
                                      BY_ITSELF, 0);
  vyc_status status = vyc_stream_record(s->one, &event);
  if (status == VYC_OK) status = vyc_stream_wait(s->two, event);
  vyc_event_release(event);
  scene_leave(number, status);
  launch_that_reads(0);
}

static void order_by_buffer(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "order of a buffer",
                                                        .stream = STREAM_TWO,
                                                        .flags = ORDER_WAITS_BUFFERS,
                                                        .reads = scene_set(&s->hot)},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_buffer_order(s->hot.handle, s->two));
  launch_that_reads(0);
}

/* Kept: its release would wait for the launch. */
static void adopt_stream(uint32_t thread) {
  scene *s = the_scene();
  vyc_stream **stream = &s->made[thread];
  if (!scene_ok(vyc_stream_adopt(stream, s->context, s->foreign_stream), "stream adopted")) return;
  scene_launch("launch on an adopted stream", *stream, STREAM_FOREIGN, &s->x, &s->hot);
}

/* Whose owner works on `source`. */
static void use_memory_of(vyc_stream *source, uint32_t thread) {
  scene *s = the_scene();
  scene_buffer foreign = {.address = s->foreign_memory[thread]};
  const vyc_foreign_memory memory = {.struct_size = sizeof memory,
                                     .address = foreign.address,
                                     .bytes = ORDER_BUFFER_BYTES,
                                     .source = source};
  if (!scene_ok(vyc_buffer_adopt(&foreign.handle, s->context, &memory), "memory adopted")) return;
  foreign.number = order_buffer_add(&s->order, "adopted memory", foreign.address, true);
  scene_launch("launch on adopted memory", s->one, STREAM_ONE, &s->x, &foreign);
  scene_launch("launch that reads it", NULL, STREAM_CALLS, &foreign, &s->hot);
  scene_copy_out(&foreign, false);
  scene_buffer_end(&foreign);
}

static void adopt_memory(uint32_t thread) {
  scene *s = the_scene();
  vyc_stream *source = NULL;
  if (!scene_ok(vyc_stream_adopt(&source, s->context, s->foreign_stream), "stream adopted")) return;
  use_memory_of(source, thread);
  vyc_stream_release(source);
}

static void adopt_memory_of_own_stream(uint32_t thread) { use_memory_of(the_scene()->two, thread); }

/* ---- the context ----------------------------------------------------------------------------- */

static void read_statistics(uint32_t thread) {
  scene *s = the_scene();
  uint64_t rows[8];
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  (void)thread;
  scene_ok(vyc_context_stats(s->context, rows, 8), "statistics");
  if (scene_ok(vyc_context_memory_stats(s->context, &stats), "statistics of memory") &&
      stats.live_count > 1000)
    explorer_fail("%lu pieces of memory are live", (unsigned long)stats.live_count);
}

static void ask_depth(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const vyc_status status = vyc_context_is_behind(s->context, s->one);
  if (status != VYC_NOT_READY) scene_ok(status, "is it behind");
}

static void read_history(uint32_t thread) {
  char text[2048];
  uint32_t count = 0;
  (void)thread;
  scene_ok(vyc_context_in_flight(the_scene()->context, text, sizeof text, &count), "in flight");
}

static void close_context(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  s->closing = true;
  const vyc_status status = vyc_context_close(s->context);
  if (status != VYC_OK) scene_ok(status, "close");
  s->closed = true;
}

const operation_row operation_rows[] = {
    {"launch", launch_on_stream},
    {"launch-call-order", launch_in_call_order},
    {"launch-reads", launch_that_reads},
    {"launch-spare", launch_on_spare},
    {"launch-free", launch_and_free},
    {"call", call},
    {"call-set-run", call_set_run},
    {"call-set", call_set},
    {"call-made", call_made},
    {"kernel-made", kernel_made},
    {"graph-made", graph_made},
    {"replay", replay},
    {"replay-scalar", replay_with_scalar},
    {"replay-set", replay_set},
    {"replay-get", replay_get},
    {"copy-in", copy_in},
    {"copy-out", copy_out},
    {"try-in", try_in},
    {"try-out", try_out},
    {"copy-other-out", copy_other_out},
    {"copy-own-out", copy_own_out},
    {"copy-within", copy_within},
    {"fail", fail},
    {"fail-wait", fail_and_wait},
    {"fail-made", fail_of_made},
    {"fail-dropped", fail_and_drop_stream},
    {"wait-stream", synchronize_stream},
    {"wait-all", synchronize},
    {"wait-buffer", synchronize_buffer},
    {"fence", fence},
    {"event", order_by_event},
    {"order", order_by_buffer},
    {"free", free_buffer},
    {"take", take_buffer},
    {"trim", trim},
    {"budget", change_budget},
    {"try-buffer", try_buffer},
    {"export", export_buffer},
    {"host-run", host_run},
    {"pinned-run", pinned_run},
    {"submit", submit},
    {"stream-made", make_stream},
    {"stream-dropped", drop_stream},
    {"stream-used-dropped", use_and_drop_stream},
    {"adopt-stream", adopt_stream},
    {"adopt-memory", adopt_memory},
    {"adopt-memory-of-own", adopt_memory_of_own_stream},
    {"statistics", read_statistics},
    {"depth", ask_depth},
    {"history", read_history},
    {"close", close_context},
};
const uint32_t operation_count = (uint32_t)(sizeof operation_rows / sizeof operation_rows[0]);
