/* Recorded graphs: the order of steps and which of them may run at the same time, repetition on
 * the host's side and on the device's. */
#include "graph_test.h"

/* The nodes that node `index` is behind. */
static uint32_t edges_of(vyc_graph *graph, uint32_t index, uint32_t edges[8]) {
  vyc_graph_node node = {.struct_size = sizeof node};
  uint32_t count = 0;
  OK(vyc_graph_node_get(graph, &node, &count, edges, 8, index));
  return count;
}

/* ---- order ----------------------------------------------------------------------------------- */

static void steps_run_one_after_the_other(const place *p) {
  vyc_buffer *a = filled(p->context, 1.0f), *b = new_buffer(p->context, BYTES);
  vyc_graph *graph = new_graph(p->context);
  for (int i = 0; i < 10; i++) add(graph, p->prepared, i % 2 ? b : a, i % 2 ? a : b, 2.0f);
  OK(vyc_graph_finish(graph));
  CHECK(info_of(graph).node_count == 10 && info_of(graph).edge_count == 9);
  CHECK(first_of(a) == 1.0f); /* recording runs nothing */
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(a) == 1048576.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(a);
  vyc_buffer_release(b);
}

/* Two branches and what joins them; an edge that follows from others is not made. */
static void branches_are_parallel(const place *p) {
  vyc_buffer *x = filled(p->context, 3.0f), *y = new_buffer(p->context, BYTES);
  vyc_buffer *z = new_buffer(p->context, BYTES), *w = new_buffer(p->context, BYTES);
  vyc_graph *graph = new_graph(p->context);
  uint32_t edges[8];
  add(graph, p->prepared, x, y, 2.0f);  /* 0 */
  add(graph, p->prepared, x, z, 5.0f);  /* 1: shares only what both read */
  add(graph, p->prepared, y, w, 1.0f);  /* 2: behind 0 */
  add(graph, p->prepared, z, x, 1.0f);  /* 3: writes what 0 and 1 read; behind 1 already */
  const vyc_graph_transfer copy = copy_of(y, x);
  add_transfer(graph, &copy); /* 4: behind 2, which reads y, and 3 */
  OK(vyc_graph_finish(graph));
  CHECK(edges_of(graph, 0, edges) == 0 && edges_of(graph, 1, edges) == 0);
  CHECK(edges_of(graph, 2, edges) == 1 && edges[0] == 0);
  CHECK(edges_of(graph, 3, edges) == 2 && edges[0] == 1 && edges[1] == 0);
  CHECK(edges_of(graph, 4, edges) == 2 && edges[0] == 3 && edges[1] == 2);
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(w) == 6.0f && first_of(y) == 15.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(x);
  vyc_buffer_release(y);
  vyc_buffer_release(z);
  vyc_buffer_release(w);
}

static void a_sparse_out_is_cleared_at_every_launch(const place *p) {
  vyc_buffer *in = filled(p->context, 1.0f), *out = filled(p->context, 9.0f);
  vyc_graph *graph = new_graph(p->context);
  task t;
  prepare(&t, 2.0f);
  on_buffers(&t, in, out);
  t.arguments[0].count = N / 2; /* of which the kernel makes as many elements */
  t.run.grid[0] = 1;
  float host[N];
  OK(vyc_graph_add_launch(graph, NULL, p->sparse, &t.run));
  OK(vyc_graph_finish(graph));
  CHECK(info_of(graph).node_count == 2);
  for (int i = 0; i < 2; i++) {
    OK(vyc_copy_in(out, 0, t.in, BYTES));
    OK(vyc_graph_launch(graph, NULL, 0, NULL));
    OK(vyc_copy_out(out, 0, host, BYTES));
    CHECK(host[0] == 2.0f && host[127] == 2.0f && host[128] == 0.0f && host[N - 1] == 0.0f);
  }
  vyc_graph_release(graph);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
}

static void thousands_of_steps_have_few_edges(const place *p) {
  enum { STEPS = 4000 };
  vyc_buffer *x = filled(p->context, 1.0f), *a = new_buffer(p->context, BYTES);
  vyc_buffer *b = new_buffer(p->context, BYTES);
  vyc_graph *graph = new_graph(p->context);
  for (int i = 0; i < STEPS; i++) add(graph, p->prepared, x, i % 2 ? a : b, 2.0f);
  OK(vyc_graph_finish(graph));
  CHECK(info_of(graph).node_count == STEPS && info_of(graph).edge_count == STEPS - 2);
  vyc_graph_release(graph);
  vyc_buffer_release(x);
  vyc_buffer_release(a);
  vyc_buffer_release(b);
}

/* ---- repetition ------------------------------------------------------------------------------ */

/* a = 2 a by way of b, `times` times. */
static vyc_graph *doubling(const place *p, vyc_buffer *a, vyc_buffer *b, uint64_t times,
                           vyc_buffer *until) {
  vyc_graph *graph = new_graph(p->context);
  OK(vyc_graph_repeat_begin(graph, NULL, times, until, 0, 4));
  add(graph, p->prepared, a, b, 2.0f);
  const vyc_graph_transfer copy = copy_of(a, b);
  add_transfer(graph, &copy);
  OK(vyc_graph_repeat_end(graph));
  OK(vyc_graph_finish(graph));
  return graph;
}

static void short_repetitions_are_unrolled_and_long_ones_are_loops(const place *p) {
  vyc_buffer *a = filled(p->context, 1.0f), *b = new_buffer(p->context, BYTES);
  vyc_graph *few = doubling(p, a, b, 3, NULL);
  CHECK(info_of(few).node_count == 6);
  OK(vyc_graph_launch(few, NULL, 0, NULL));
  CHECK(first_of(a) == 8.0f);
  vyc_graph_release(few);
  vyc_graph *none = doubling(p, a, b, 0, NULL);
  CHECK(info_of(none).node_count == 0);
  OK(vyc_graph_launch(none, NULL, 0, NULL));
  CHECK(first_of(a) == 8.0f);
  vyc_graph_release(none);
  /* 3001 = 23 * 128 + 57 times; x1 keeps the values finite */
  vyc_graph *many = new_graph(p->context);
  OK(vyc_graph_repeat_begin(many, NULL, 3001, NULL, 0, 0));
  const vyc_graph_transfer over = copy_of(b, a), back = copy_of(a, b);
  add_transfer(many, &over);
  add_transfer(many, &back);
  OK(vyc_graph_repeat_end(many));
  OK(vyc_graph_finish(many));
  const uint64_t before = count_of("launches");
  OK(vyc_graph_launch(many, NULL, 0, NULL));
  OK(vyc_graph_launch(many, NULL, 0, NULL));
  CHECK(first_of(b) == 8.0f);
  CHECK(count_of("launches") - before == 2 * (1 + 23)); /* the loop's own kernels */
  vyc_graph_release(many);
  vyc_buffer_release(a);
  vyc_buffer_release(b);
}

/* The bits of a float of at least 2^k are not 0 from bit 23 + ... on: here any value but +0 stops.
 */
static void a_loop_stops_on_the_device(const place *p) {
  vyc_buffer *a = filled(p->context, 1.0f), *b = new_buffer(p->context, BYTES);
  vyc_buffer *flag = filled(p->context, 0.0f), *one = filled(p->context, 1.0f);
  vyc_graph *bounded = doubling(p, a, b, 5, flag);
  for (int i = 0; i < 2; i++) OK(vyc_graph_launch(bounded, NULL, 0, NULL));
  CHECK(first_of(a) == 1024.0f); /* the count begins anew at each launch */
  const vyc_graph_transfer set = copy_of(flag, one);
  vyc_graph *stopped = new_graph(p->context);
  OK(vyc_graph_repeat_begin(stopped, NULL, 0, flag, 0, 4));
  add(stopped, p->prepared, a, b, 0.5f);
  const vyc_graph_transfer copy = copy_of(a, b);
  add_transfer(stopped, &copy);
  add_transfer(stopped, &set);
  OK(vyc_graph_repeat_end(stopped));
  OK(vyc_graph_finish(stopped));
  OK(vyc_graph_launch(stopped, NULL, 0, NULL));
  CHECK(first_of(a) == 512.0f);
  vyc_graph_release(bounded);
  vyc_graph_release(stopped);
  vyc_buffer_release(a);
  vyc_buffer_release(b);
  vyc_buffer_release(flag);
  vyc_buffer_release(one);
}

static void loops_nest(const place *p) {
  vyc_buffer *a = filled(p->context, 1.0f), *b = new_buffer(p->context, BYTES);
  vyc_buffer *never = filled(p->context, 0.0f);
  vyc_graph *graph = new_graph(p->context);
  const vyc_graph_transfer copy = copy_of(a, b);
  OK(vyc_graph_repeat_begin(graph, NULL, 3, never, 0, 8));
  OK(vyc_graph_repeat_begin(graph, NULL, 2, never, 0, 1));
  OK(vyc_graph_repeat_begin(graph, NULL, 2, NULL, 0, 0));
  add(graph, p->prepared, a, b, 2.0f);
  add_transfer(graph, &copy);
  OK(vyc_graph_repeat_end(graph));
  OK(vyc_graph_repeat_end(graph));
  OK(vyc_graph_repeat_end(graph));
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(a) == 4096.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(a);
  vyc_buffer_release(b);
  vyc_buffer_release(never);
}

static void old_drivers_have_no_loops(void) {
  CHECK(emulator_set("driver_version", 12000) == 0);
  vyc_context *context = open_context();
  vyc_buffer *flag = new_buffer(context, 4);
  vyc_graph *graph = new_graph(context);
  CHECK(vyc_graph_repeat_begin(graph, NULL, 5, flag, 0, 4) == VYC_E_UNSUPPORTED);
  OK(vyc_graph_repeat_begin(graph, NULL, 300000, NULL, 0, 0));
  vyc_graph_transfer fill = fill_of(flag, 1.0f);
  fill.bytes = 4;
  add_transfer(graph, &fill);
  OK(vyc_graph_repeat_end(graph));
  CHECK(vyc_graph_finish(graph) == VYC_E_UNSUPPORTED);
  vyc_graph_release(graph);
  vyc_buffer_release(flag);
  vyc_context_release(context);
  CHECK(emulator_reset() == 0);
}

/* On two streams that run nothing until somebody waits for them. */
static void graphs_in_turns_run_one_after_the_other(const place *p) {
  vyc_buffer *h = NULL, *out = NULL;
  vyc_stream *streams[2] = {NULL, NULL};
  vyc_graph *graphs[3] = {NULL, NULL, NULL};
  OK(vyc_buffer_alloc(&h, p->context, BYTES));
  OK(vyc_buffer_alloc(&out, p->context, BYTES));
  for (int i = 0; i < 2; i++) OK(vyc_stream_create(&streams[i], p->context));
  for (int i = 0; i < 3; i++) {
    graphs[i] = new_graph(p->context);
    const vyc_graph_transfer copy = copy_of(h, out);
    add(graphs[i], p->prepared, h, out, i == 0 ? 2.0F : 3.0F);
    add_transfer(graphs[i], &copy);
    OK(vyc_graph_finish(graphs[i]));
  }
  OK(vyc_graph_in_turns(graphs[1], graphs[0]));
  CHECK(vyc_graph_in_turns(graphs[1], graphs[0]) == VYC_E_INVALID);
  CHECK(vyc_graph_in_turns(graphs[0], graphs[0]) == VYC_E_INVALID);
  CHECK(info_of(graphs[0]).ran_last == 0 && info_of(graphs[1]).ran_last == 0);
  const vyc_graph_transfer fill = fill_of(h, 1.0F);
  vyc_graph *begin = new_graph(p->context);
  add_transfer(begin, &fill);
  OK(vyc_graph_finish(begin));
  OK(vyc_graph_launch(begin, NULL, 0, NULL));
  OK(vyc_context_synchronize(p->context));
  OK(vyc_graph_launch(graphs[0], NULL, 0, streams[0]));
  CHECK(info_of(graphs[0]).ran_last == 1 && info_of(graphs[2]).ran_last == 0);
  OK(vyc_graph_launch(graphs[1], NULL, 0, streams[1]));
  CHECK(info_of(graphs[1]).ran_last == 1 && info_of(graphs[0]).ran_last == 0);
  OK(vyc_graph_launch(graphs[1], NULL, 0, streams[1]));
  OK(vyc_graph_launch(graphs[0], NULL, 0, streams[0]));
  OK(vyc_graph_launch(graphs[1], NULL, 0, streams[1]));
  vyc_graph_release(graphs[1]); /* with its last launch in flight, which the first comes after */
  CHECK(info_of(graphs[0]).ran_last == 1);
  OK(vyc_graph_launch(graphs[0], NULL, 0, streams[0]));
  OK(vyc_stream_synchronize(streams[0]));
  CHECK(first_of(h) == 2.0F * 3.0F * 3.0F * 2.0F * 3.0F * 2.0F);
  CHECK(vyc_graph_in_turns(graphs[0], graphs[2]) == VYC_E_INVALID);
  vyc_graph_release(graphs[0]);
  vyc_graph_release(graphs[2]);
  vyc_graph_release(begin);
  for (int i = 0; i < 2; i++) vyc_stream_release(streams[i]);
  vyc_buffer_release(h);
  vyc_buffer_release(out);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  old_drivers_have_no_loops();
  const place p = open_place();
  steps_run_one_after_the_other(&p);
  branches_are_parallel(&p);
  a_sparse_out_is_cleared_at_every_launch(&p);
  thousands_of_steps_have_few_edges(&p);
  short_repetitions_are_unrolled_and_long_ones_are_loops(&p);
  a_loop_stops_on_the_device(&p);
  loops_nest(&p);
  emulator_set("stream_mode", 2);
  graphs_in_turns_run_one_after_the_other(&p);
  close_place(&p);
  puts("graph: passed");
  return 0;
}
