/* Changes of recorded graphs, of one launch and of all later ones; failures of every driver call on
 * the way, threads that share a graph, and its end with the context. */
#include "graph_test.h"

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
  const place p = open_place();
  a_change_is_of_one_launch_and_an_update_of_all_later_ones(&p);
  a_change_that_makes_branches_meet_keeps_their_order(&p);
  sizes_may_change_to_nothing_and_back(&p);
  wrong_use_is_refused(&p);
  every_failure_leaves_the_graph_usable(&p);
  threads_share_a_graph(&p);
  close_place(&p);
  a_closed_context_takes_its_graphs_along();
  puts("graph changes: passed");
  return 0;
}
