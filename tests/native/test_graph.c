/* Recorded graphs: the order of steps and which of them may run at the same time, repetition on
 * the host's side and on the device's, changes of one launch and of all later ones, failures of
 * every driver call on the way. */
#include "dispatch_test.h"

static const uint64_t BYTES = N * sizeof(float);

typedef struct place {
  vyc_context *context;
  vyc_plan *plan;    /* out = a * in */
  vyc_plan *sparse;  /* the same, not known to write every element */
} place;

static vyc_buffer *filled(vyc_context *context, float value) {
  float host[N];
  for (uint32_t i = 0; i < N; i++) host[i] = value;
  vyc_buffer *buffer = new_buffer(context, BYTES);
  OK(vyc_copy_in(buffer, 0, host, BYTES));
  return buffer;
}

static float first_of(vyc_buffer *buffer) {
  float host[N];
  OK(vyc_copy_out(buffer, 0, host, BYTES));
  for (uint32_t i = 1; i < N; i++) CHECK(host[i] == host[0]);
  return host[0];
}

static uint32_t add(vyc_graph *graph, vyc_plan *plan, vyc_buffer *in, vyc_buffer *out, float a) {
  task t;
  uint32_t step = 0;
  prepare(&t, a);
  on_buffers(&t, in, out);
  OK(vyc_graph_add_launch(graph, &step, plan, &t.run));
  return step;
}

static vyc_graph *new_graph(vyc_context *context) {
  vyc_graph *graph = NULL;
  OK(vyc_graph_create(&graph, context));
  return graph;
}

static vyc_graph_info info_of(vyc_graph *graph) {
  vyc_graph_info info = {.struct_size = sizeof info};
  OK(vyc_graph_info_get(graph, &info));
  return info;
}

static vyc_graph_transfer copy_of(vyc_buffer *to, vyc_buffer *from) {
  return (vyc_graph_transfer){
      .struct_size = sizeof(vyc_graph_transfer), .bytes = BYTES, .to = to, .from = from};
}

static vyc_graph_transfer fill_of(vyc_buffer *to, float value) {
  return (vyc_graph_transfer){.struct_size = sizeof(vyc_graph_transfer),
                              .element_bytes = 4,
                              .value = (uint32_t)bits(value),
                              .bytes = BYTES,
                              .to = to};
}

static uint32_t add_transfer(vyc_graph *graph, const vyc_graph_transfer *transfer) {
  uint32_t step = 0;
  OK(vyc_graph_add_transfer(graph, &step, transfer));
  return step;
}

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
  for (int i = 0; i < 10; i++) add(graph, p->plan, i % 2 ? b : a, i % 2 ? a : b, 2.0f);
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
  add(graph, p->plan, x, y, 2.0f);  /* 0 */
  add(graph, p->plan, x, z, 5.0f);  /* 1: shares only what both read */
  add(graph, p->plan, y, w, 1.0f);  /* 2: behind 0 */
  add(graph, p->plan, z, x, 1.0f);  /* 3: writes what 0 and 1 read; behind 1 already */
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
  for (int i = 0; i < STEPS; i++) add(graph, p->plan, x, i % 2 ? a : b, 2.0f);
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
  add(graph, p->plan, a, b, 2.0f);
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
  add(stopped, p->plan, a, b, 0.5f);
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
  add(graph, p->plan, a, b, 2.0f);
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

/* ---- changes --------------------------------------------------------------------------------- */

static void a_change_is_of_one_launch_and_an_update_of_all_later_ones(const place *p) {
  vyc_buffer *in = filled(p->context, 1.0f), *out = new_buffer(p->context, BYTES);
  vyc_buffer *two = filled(p->context, 2.0f), *other = filled(p->context, 0.0f);
  vyc_graph *graph = new_graph(p->context);
  const uint32_t step = add(graph, p->plan, in, out, 3.0f);
  OK(vyc_graph_finish(graph));
  const uint64_t instantiated = count_of("cuGraphInstantiateWithFlags");
  task t;
  prepare(&t, 10.0f);
  on_buffers(&t, two, other);
  const vyc_graph_change change = {.step = step, .run = &t.run};
  OK(vyc_graph_launch(graph, &change, 1, NULL));
  CHECK(first_of(other) == 20.0f);
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(out) == 3.0f);
  OK(vyc_graph_update(graph, &change, 1));
  vyc_buffer_release(two); /* the graph holds it now */
  OK(vyc_copy_in(other, 0, t.in, BYTES));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(other) == 20.0f);
  CHECK(count_of("cuGraphInstantiateWithFlags") == instantiated);
  vyc_graph_release(graph);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_buffer_release(other);
}

/* x -> y and z -> w are two branches; then z is y. */
static void a_change_that_makes_branches_meet_keeps_their_order(const place *p) {
  vyc_buffer *x = filled(p->context, 2.0f), *y = filled(p->context, 0.0f);
  vyc_buffer *z = filled(p->context, 5.0f), *w = new_buffer(p->context, BYTES);
  vyc_graph *graph = new_graph(p->context);
  add(graph, p->plan, x, y, 3.0f);
  const uint32_t second = add(graph, p->plan, z, w, 1.0f);
  OK(vyc_graph_finish(graph));
  CHECK(info_of(graph).edge_count == 0);
  task t;
  prepare(&t, 1.0f);
  on_buffers(&t, x, w); /* what both read brings no order */
  const vyc_graph_change change = {.step = second, .run = &t.run};
  OK(vyc_graph_launch(graph, &change, 1, NULL));
  CHECK(info_of(graph).edge_count == 0);
  on_buffers(&t, y, w);
  OK(vyc_graph_launch(graph, &change, 1, NULL));
  CHECK(info_of(graph).in_order == 1 && info_of(graph).edge_count == 1);
  CHECK(first_of(w) == 6.0f);
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(w) == 5.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(x);
  vyc_buffer_release(y);
  vyc_buffer_release(z);
  vyc_buffer_release(w);
}

static void sizes_may_change_to_nothing_and_back(const place *p) {
  vyc_buffer *in = filled(p->context, 1.0f), *out = filled(p->context, 0.0f);
  vyc_graph *graph = new_graph(p->context);
  const uint32_t step = add(graph, p->plan, in, out, 3.0f);
  const vyc_graph_transfer copy = copy_of(in, out);
  const uint32_t last = add_transfer(graph, &copy);
  OK(vyc_graph_finish(graph));
  task t;
  prepare(&t, 3.0f);
  on_buffers(&t, in, out);
  t.arguments[0].count = t.arguments[1].count = 0;
  t.run.grid[0] = 0;
  vyc_graph_transfer empty = copy;
  empty.bytes = 0;
  const vyc_graph_change changes[] = {{.step = step, .run = &t.run},
                                      {.step = last, .transfer = &empty}};
  OK(vyc_graph_launch(graph, changes, 2, NULL));
  CHECK(first_of(in) == 1.0f);
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(in) == 3.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
}

static void wrong_use_is_refused(const place *p) {
  vyc_buffer *in = filled(p->context, 1.0f), *out = new_buffer(p->context, BYTES);
  vyc_graph *graph = new_graph(p->context);
  CHECK(vyc_graph_repeat_end(graph) == VYC_E_INVALID);
  OK(vyc_graph_repeat_begin(graph, NULL, 2, NULL, 0, 0));
  CHECK(vyc_graph_finish(graph) == VYC_E_INVALID);
  const uint32_t step = add(graph, p->plan, in, out, 3.0f);
  OK(vyc_graph_repeat_end(graph));
  CHECK(vyc_graph_launch(graph, NULL, 0, NULL) == VYC_E_INVALID);
  vyc_graph_transfer copy = copy_of(out, in);
  copy.to_offset = 4;
  CHECK(vyc_graph_add_transfer(graph, NULL, &copy) == VYC_E_INVALID);
  copy.to_offset = 0;
  copy.to = in;
  CHECK(vyc_graph_add_transfer(graph, NULL, &copy) == VYC_E_INVALID); /* overlap */
  OK(vyc_graph_finish(graph));
  CHECK(vyc_graph_finish(graph) == VYC_E_INVALID);
  CHECK(vyc_graph_repeat_begin(graph, NULL, 2, NULL, 0, 0) == VYC_E_INVALID);
  task t;
  prepare(&t, 1.0f);
  on_buffers(&t, in, in);
  vyc_graph_change change = {.step = step, .run = &t.run};
  CHECK(vyc_graph_launch(graph, &change, 1, NULL) == VYC_E_INVALID);
  on_buffers(&t, in, out);
  change.step = 7;
  CHECK(vyc_graph_launch(graph, &change, 1, NULL) == VYC_E_INVALID);
  change.step = 0; /* the repetition */
  CHECK(vyc_graph_update(graph, &change, 1) == VYC_E_INVALID);
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(out) == 3.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
}

/* ---- failures and threads -------------------------------------------------------------------- */

static const char *const CALLS[] = {"cuGraphCreate",
                                    "cuGraphAddKernelNode",
                                    "cuGraphAddMemcpyNode",
                                    "cuGraphAddMemsetNode",
                                    "cuGraphInstantiateWithFlags",
                                    "cuGraphUpload",
                                    "cuGraphLaunch",
                                    "cuGraphConditionalHandleCreate",
                                    "cuGraphAddNode",
                                    "cuModuleLoadDataEx",
                                    "cuModuleGetFunction",
                                    "cuGraphExecKernelNodeSetParams",
                                    "cuGraphExecMemcpyNodeSetParams"};

/* in = 3 in, until flag (never) or twice; with a change in = 5 in. Whether all calls passed. */
static int attempt(const place *p, vyc_buffer *in, vyc_buffer *out, vyc_buffer *flag) {
  vyc_graph *graph = new_graph(p->context);
  task t;
  prepare(&t, 3.0f);
  on_buffers(&t, in, out);
  const vyc_graph_transfer copy = copy_of(in, out), aside = copy_of(out, in);
  uint32_t step = 0, last = 0;
  OK(vyc_graph_repeat_begin(graph, NULL, 2, flag, 0, 4));
  OK(vyc_graph_add_launch(graph, &step, p->sparse, &t.run));
  OK(vyc_graph_repeat_end(graph));
  OK(vyc_graph_add_transfer(graph, &last, &copy));
  int good = vyc_graph_finish(graph) == VYC_OK;
  if (!good) OK(vyc_graph_finish(graph)); /* the second time it is possible */
  t.scalar = bits(5.0f);
  const vyc_graph_change changes[] = {{.step = step, .run = &t.run},
                                      {.step = last, .transfer = &aside}};
  const int changed = vyc_graph_launch(graph, changes, 2, NULL) == VYC_OK;
  good &= changed;
  if (!changed) OK(vyc_graph_launch(graph, changes, 2, NULL));
  CHECK(first_of(out) == 1.0f && first_of(in) == 1.0f);
  for (int i = 0; i < 2; i++) {
    const int launched = vyc_graph_launch(graph, NULL, 0, NULL) == VYC_OK;
    good &= launched;
    if (!launched) OK(vyc_graph_launch(graph, NULL, 0, NULL));
    CHECK(first_of(in) == (i == 0 ? 3.0f : 9.0f));
  }
  vyc_graph_release(graph);
  return good;
}

static void every_failure_leaves_the_graph_usable(const place *p) {
  for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
    int failed = 0;
    for (uint64_t nth = 1;; nth++) {
      vyc_buffer *in = filled(p->context, 1.0f), *out = new_buffer(p->context, BYTES);
      vyc_buffer *flag = filled(p->context, 0.0f);
      CHECK(emulator_fail(CALLS[i], nth, 999, 0) == 0);
      const int good = attempt(p, in, out, flag);
      CHECK(emulator_reset() == 0);
      vyc_buffer_release(in);
      vyc_buffer_release(out);
      vyc_buffer_release(flag);
      CHECK(count_of("graphs") == 0 && count_of("execs") == 0);
      failed |= !good;
      if (good) break;
    }
    CHECK(failed); /* the call is made */
  }
}

typedef struct replayer {
  vyc_graph *graph;
  vyc_plan *plan;
  vyc_buffer *in, *out;
  vyc_stream *stream;
  uint32_t step;
} replayer;

static void *replay(void *argument) {
  const replayer *r = argument;
  for (int i = 1; i <= 20; i++) {
    task t;
    prepare(&t, (float)i);
    on_buffers(&t, r->in, r->out);
    const vyc_graph_change change = {.step = r->step, .run = &t.run};
    OK(vyc_graph_launch(r->graph, &change, 1, r->stream));
    OK(vyc_stream_synchronize(r->stream));
    CHECK(first_of(r->out) == (float)i);
  }
  return NULL;
}

static void threads_share_a_graph(const place *p) {
  enum { THREADS = 4 };
  replayer r[THREADS];
  pthread_t threads[THREADS];
  vyc_buffer *in = filled(p->context, 1.0f);
  vyc_graph *graph = new_graph(p->context);
  vyc_buffer *first = new_buffer(p->context, BYTES);
  const uint32_t step = add(graph, p->plan, in, first, 1.0f);
  OK(vyc_graph_finish(graph));
  for (int i = 0; i < THREADS; i++) {
    r[i] =
        (replayer){graph, p->plan, in, new_buffer(p->context, BYTES), new_stream(p->context), step};
    CHECK(pthread_create(&threads[i], NULL, replay, &r[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    vyc_buffer_release(r[i].out);
    vyc_stream_release(r[i].stream);
  }
  vyc_graph_release(graph);
  vyc_buffer_release(first);
  vyc_buffer_release(in);
}

static void a_closed_context_takes_its_graphs_along(void) {
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_plan *plan = scale_plan(module, STREAMED);
  vyc_buffer *in = filled(context, 1.0f), *out = new_buffer(context, BYTES);
  vyc_graph *graph = new_graph(context);
  add(graph, plan, in, out, 3.0f);
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  vyc_plan_release(plan);
  vyc_module_release(module);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  OK(vyc_context_close(context));
  CHECK(vyc_graph_launch(graph, NULL, 0, NULL) == VYC_E_UNAVAILABLE);
  vyc_context_release(context);
  vyc_graph_release(graph);
  check_nothing_lives();
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  old_drivers_have_no_loops();
  place p = {.context = open_context()};
  vyc_module *module = load_module(p.context);
  static const vyc_binding SPARSE[] = {{VYC_ROLE_IN, 0, 4, 0}, {VYC_ROLE_OUT, 0, 4, 0}};
  p.plan = scale_plan(module, STREAMED);
  p.sparse = scale_plan(module, SPARSE);
  steps_run_one_after_the_other(&p);
  branches_are_parallel(&p);
  a_sparse_out_is_cleared_at_every_launch(&p);
  thousands_of_steps_have_few_edges(&p);
  short_repetitions_are_unrolled_and_long_ones_are_loops(&p);
  a_loop_stops_on_the_device(&p);
  loops_nest(&p);
  a_change_is_of_one_launch_and_an_update_of_all_later_ones(&p);
  a_change_that_makes_branches_meet_keeps_their_order(&p);
  sizes_may_change_to_nothing_and_back(&p);
  wrong_use_is_refused(&p);
  every_failure_leaves_the_graph_usable(&p);
  threads_share_a_graph(&p);
  vyc_plan_release(p.plan);
  vyc_plan_release(p.sparse);
  vyc_module_release(module);
  vyc_context_release(p.context);
  check_nothing_lives();
  a_closed_context_takes_its_graphs_along();
  puts("graph: passed");
  return 0;
}
