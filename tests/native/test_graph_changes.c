/* Changes of recorded graphs, of one launch and of all later ones; failures of every driver call on
 * the way, threads that share a graph, and its end with the context. */
#include "graph_test.h"

/* ---- changes --------------------------------------------------------------------------------- */

static void a_change_is_of_one_launch_and_an_update_of_all_later_ones(const place *p) {
  vyc_buffer *in = filled(p->context, 1.0f), *out = new_buffer(p->context, BYTES);
  vyc_buffer *two = filled(p->context, 2.0f), *other = filled(p->context, 0.0f);
  vyc_graph *graph = new_graph(p->context);
  const uint32_t step = add(graph, p->prepared, in, out, 3.0f);
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
  add(graph, p->prepared, x, y, 3.0f);
  const uint32_t second = add(graph, p->prepared, z, w, 1.0f);
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
  CHECK(info_of(graph).in_order == 0 && info_of(graph).edge_count == 1);
  CHECK(first_of(w) == 6.0f);
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  CHECK(first_of(w) == 5.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(x);
  vyc_buffer_release(y);
  vyc_buffer_release(z);
  vyc_buffer_release(w);
}

/* ---- many ranges at once --------------------------------------------------------------------- */

#define PIECE 256u /* bytes */

/* Branches of three ranges each: a piece is filled, and copied to another one. */
typedef struct branches {
  uint32_t count;
  vyc_buffer *from, *to;
  vyc_graph_transfer *transfers; /* a fill and a copy each */
  vyc_graph_change *changes;
} branches;

static branches make_branches(const place *p, uint32_t count, float first) {
  branches b = {count, new_buffer(p->context, (uint64_t)count * PIECE),
                new_buffer(p->context, (uint64_t)count * PIECE),
                calloc(2 * count, sizeof *b.transfers), calloc(2 * count, sizeof *b.changes)};
  CHECK(b.transfers != NULL && b.changes != NULL);
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t offset = (uint64_t)i * PIECE;
    vyc_graph_transfer fill = fill_of(b.from, first + (float)i), copy = copy_of(b.to, b.from);
    fill.bytes = copy.bytes = PIECE;
    fill.to_offset = copy.to_offset = copy.from_offset = offset;
    b.transfers[2 * i] = fill;
    b.transfers[2 * i + 1] = copy;
  }
  for (uint32_t i = 0; i < 2 * count; i++)
    b.changes[i] = (vyc_graph_change){.step = i, .transfer = &b.transfers[i]};
  return b;
}

static void end_branches(branches *b) {
  vyc_buffer_release(b->from);
  vyc_buffer_release(b->to);
  free(b->transfers);
  free(b->changes);
}

static vyc_graph *graph_of(const place *p, const branches *b) {
  vyc_graph *graph = new_graph(p->context);
  for (uint32_t i = 0; i < 2 * b->count; i++) add_transfer(graph, &b->transfers[i]);
  OK(vyc_graph_finish(graph));
  return graph;
}

static void check_same_edges(vyc_graph *graph, vyc_graph *anew) {
  const vyc_graph_info info = info_of(graph), wanted = info_of(anew);
  CHECK(info.in_order == 0 && info.node_count == wanted.node_count);
  CHECK(info.edge_count == wanted.edge_count);
  for (uint32_t i = 0; i < info.node_count; i++) {
    vyc_graph_node node = {.struct_size = sizeof node}, other = node;
    uint32_t count = 0, others = 0, edges[4], other_edges[4];
    OK(vyc_graph_node_get(graph, &node, &count, edges, 4, i));
    OK(vyc_graph_node_get(anew, &other, &others, other_edges, 4, i));
    CHECK(count == others && count <= 4 && node.step == other.step);
    CHECK(memcmp(edges, other_edges, count * sizeof *edges) == 0);
  }
}

static void check_branches(const branches *b, uint32_t shift, float first) {
  const size_t words = PIECE / 4;
  float *host = malloc(b->count * (size_t)PIECE);
  OK(vyc_copy_out(b->to, 0, host, (uint64_t)b->count * PIECE));
  for (uint32_t i = 0; i < b->count; i++)
    for (size_t j = 0; j < words; j++)
      CHECK(host[i * words + j] == first + (float)((i + shift) % b->count));
  free(host);
}

static void branches_stay_whatever_moves(const place *p, uint32_t ranges) {
  branches a = make_branches(p, (ranges + 2) / 3, 1.0f), b = make_branches(p, a.count, 5.0f);
  vyc_graph *graph = graph_of(p, &a), *anew = graph_of(p, &b);
  const uint64_t instantiated = count_of("cuGraphInstantiateWithFlags");
  for (int i = 0; i < 3; i++) {
    OK(vyc_graph_launch(graph, b.changes, 2 * b.count, NULL));
    check_branches(&b, 0, 5.0f);
    OK(vyc_graph_launch(graph, NULL, 0, NULL));
    check_branches(&a, 0, 1.0f);
  }
  OK(vyc_graph_update(graph, b.changes, 2 * b.count));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  check_same_edges(graph, anew);
  CHECK(count_of("cuGraphInstantiateWithFlags") == instantiated);
  vyc_graph_release(graph);
  vyc_graph_release(anew);
  end_branches(&a);
  end_branches(&b);
}

/* Each copy takes what the branch behind it fills: now an edge from another branch, or none,
 * because it comes first and the fill has to come behind it. */
static void edges_are_exact_where_branches_are_crossed(const place *p, uint32_t ranges) {
  branches a = make_branches(p, (ranges + 2) / 3, 1.0f), b = make_branches(p, a.count, 5.0f);
  for (uint32_t i = 0; i < b.count; i++)
    b.transfers[2 * i + 1].from_offset = (uint64_t)((i + b.count - 1) % b.count) * PIECE;
  vyc_graph *graph = graph_of(p, &a), *anew = graph_of(p, &b);
  OK(vyc_graph_update(graph, b.changes, 2 * b.count));
  OK(vyc_graph_launch(anew, NULL, 0, NULL));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  check_same_edges(graph, anew);
  check_branches(&b, b.count - 1, 5.0f);
  vyc_graph_release(graph);
  vyc_graph_release(anew);
  end_branches(&a);
  end_branches(&b);
}

/* Changes that go on bringing another order: from some time on nothing is instantiated any more. */
static void ever_other_orders_end_in_that_of_recording(const place *p) {
  enum { COUNT = 40 };
  branches a = make_branches(p, COUNT, 1.0f);
  vyc_graph *graph = graph_of(p, &a);
  const uint64_t before = count_of("cuGraphInstantiateWithFlags");
  for (uint32_t i = 0; i < COUNT - 1; i++) { /* the last one copies what branch i has filled */
    a.transfers[2 * COUNT - 1].from_offset = (uint64_t)i * PIECE;
    OK(vyc_graph_launch(graph, &a.changes[2 * COUNT - 1], 1, NULL));
    float found = 0;
    OK(vyc_copy_out(a.to, (uint64_t)(COUNT - 1) * PIECE, &found, 4));
    CHECK(found == 1.0f + (float)i);
  }
  CHECK(info_of(graph).in_order == 1);
  CHECK(count_of("cuGraphInstantiateWithFlags") == before + 17);
  vyc_graph_release(graph);
  end_branches(&a);
}

static void sizes_may_change_to_nothing_and_back(const place *p) {
  vyc_buffer *in = filled(p->context, 1.0f), *out = filled(p->context, 0.0f);
  vyc_graph *graph = new_graph(p->context);
  const uint32_t step = add(graph, p->prepared, in, out, 3.0f);
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
  const uint32_t step = add(graph, p->prepared, in, out, 3.0f);
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
  vyc_prepared *prepared;
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
  const uint32_t step = add(graph, p->prepared, in, first, 1.0f);
  OK(vyc_graph_finish(graph));
  for (int i = 0; i < THREADS; i++) {
    r[i] = (replayer){graph, p->prepared, in, new_buffer(p->context, BYTES), new_stream(p->context),
                      step};
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
  vyc_prepared *prepared = scale_prepared(module, STREAMED);
  vyc_buffer *in = filled(context, 1.0f), *out = new_buffer(context, BYTES);
  vyc_graph *graph = new_graph(context);
  add(graph, prepared, in, out, 3.0f);
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  vyc_prepared_release(prepared);
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
  static const uint32_t RANGES[] = {6, 64, 65, 200, 1000};
  for (size_t i = 0; i < sizeof RANGES / sizeof RANGES[0]; i++) {
    branches_stay_whatever_moves(&p, RANGES[i]);
    edges_are_exact_where_branches_are_crossed(&p, RANGES[i]);
  }
  ever_other_orders_end_in_that_of_recording(&p);
  sizes_may_change_to_nothing_and_back(&p);
  wrong_use_is_refused(&p);
  every_failure_leaves_the_graph_usable(&p);
  threads_share_a_graph(&p);
  close_place(&p);
  a_closed_context_takes_its_graphs_along();
  puts("graph changes: passed");
  return 0;
}
