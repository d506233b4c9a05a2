/* Marks of buffers while another thread takes them: every launch and copy with something else in
 * the middle of it, which is forced (stops.c), in the emulator's lazy mode; on the first streams of
 * a context, and on such as come behind more than a word has bits. */
#define _POSIX_C_SOURCE 200809L
#include "stops_test.h"

/* ---- what the scenes have -------------------------------------------------------------------- */

static struct {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared;
  vyc_stream *stream, *second;
  vyc_buffer *in, *out, *next;
} s;

static void begin(void) {
  s.prepared = scale_prepared(s.module, COPIED);
  s.stream = new_stream(s.context);
  s.second = new_stream(s.context);
  s.in = filled(s.context, 1.0f);
  s.out = filled(s.context, 0.0f);
  s.next = filled(s.context, 0.0f);
}

static void end(void) {
  check_stopped();
  vyc_buffer_release(s.in);
  vyc_buffer_release(s.out);
  vyc_buffer_release(s.next);
  vyc_stream_release(s.stream);
  vyc_stream_release(s.second);
  vyc_prepared_release(s.prepared);
  OK(vyc_context_synchronize(s.context));
}

static void *copy_out(void *unused) {
  (void)unused;
  float host[N];
  OK(vyc_copy_out(s.out, 0, host, BYTES));
  return NULL;
}

static void copy_in_of(float value) {
  float host[N];
  for (uint32_t i = 0; i < N; i++) host[i] = value;
  OK(vyc_copy_in(s.out, 0, host, BYTES));
}

static void *copy_in(void *unused) {
  copy_in_of(7.0f);
  return unused;
}

/* Both marked, and nothing in flight. */
static void use(int times) {
  for (int i = 0; i < times; i++) launch(s.prepared, s.in, s.out, 1.0f, s.stream);
  OK(vyc_stream_synchronize(s.stream));
}

/* `next` = `out` on the stream, later than all that has returned. */
static void check_next_follows(void) {
  launch(s.prepared, s.out, s.next, 1.0f, s.stream);
  float out[N], next[N];
  OK(vyc_copy_out(s.next, 0, next, BYTES));
  OK(vyc_copy_out(s.out, 0, out, BYTES));
  for (uint32_t i = 0; i < N; i++) CHECK(next[i] == out[i]);
}

/* ---- ways to launch out = 3 * in on the stream ------------------------------------------------
 */

static vyc_call *call;
static vyc_graph *graph;
static task shared;

static void as_launch(void) { launch(s.prepared, s.in, s.out, 3.0f, s.stream); }

static void bind(float a) {
  prepare(&shared, a);
  on_buffers(&shared, s.in, s.out);
  shared.run.stream = s.stream;
}

static void make_call(void) {
  bind(3.0f);
  OK(vyc_call_create(&call, s.prepared, &shared.run));
}
static void make_steady_call(void) {
  make_call();
  for (int i = 0; i < 3; i++) OK(vyc_call_run(call));
  copy_in_of(0.0f);
  OK(vyc_call_run(call));
  OK(vyc_stream_synchronize(s.stream));
  launch(s.prepared, s.in, s.out, 1.0f, s.stream);
  OK(vyc_stream_synchronize(s.stream));
}
static void as_call(void) { OK(vyc_call_run(call)); }
static void as_rebound_call(void) {
  bind(3.0f);
  OK(vyc_call_set_run(call, &shared.run));
}

static void make_graph(float a) {
  uint32_t step = 0;
  bind(a);
  shared.run.stream = NULL;
  OK(vyc_graph_create(&graph, s.context));
  OK(vyc_graph_add_launch(graph, &step, s.prepared, &shared.run));
  OK(vyc_graph_finish(graph));
}
static void make_graph_of_three(void) { make_graph(3.0f); }
static void make_graph_of_two(void) { make_graph(2.0f); }
static void as_replay(void) { OK(vyc_graph_launch(graph, NULL, 0, s.stream)); }
static void as_changed_replay(void) {
  bind(3.0f);
  shared.run.stream = NULL;
  const vyc_graph_change change = {.step = 0, .run = &shared.run};
  OK(vyc_graph_launch(graph, &change, 1, s.stream));
}

static void as_run(void) {
  vyc_ticket *ticket = NULL;
  bind(3.0f);
  OK(vyc_prepared_submit(s.prepared, &ticket, &shared.run));
  vyc_ticket_release(ticket);
}

static void nothing(void) {}
static void make_prepared(void) { /* whose first launch is plain */
  vyc_prepared_release(s.prepared);
  s.prepared = scale_prepared(s.module, COPIED);
}

typedef struct way {
  const char *name, *call;
  int uses; /* of the stream before */
  void (*make)(void), (*launch)(void);
} way;

static const way WAYS[] = {
    {"a launch, plain", "cuLaunchKernel", 1, make_prepared, as_launch},
    {"a launch at length", "cuGraphLaunch", 1, nothing, as_launch},
    {"a launch", "cuGraphLaunch", 3, nothing, as_launch},
    {"a bound call, first", "cuGraphLaunch", 1, make_call, as_call},
    {"a bound call", "cuGraphLaunch", 1, make_steady_call, as_call},
    {"a bound call, changed", "cuGraphLaunch", 1, make_steady_call, as_rebound_call},
    {"a replay", "cuGraphLaunch", 1, make_graph_of_three, as_replay},
    {"a replay with a change", "cuGraphLaunch", 1, make_graph_of_two, as_changed_replay},
    {"a run on device memory", "cuGraphLaunch", 1, nothing, as_run},
};
#define WAY_COUNT (sizeof WAYS / sizeof WAYS[0])

static void prepare_way(const way *w) {
  fprintf(stderr, "%s\n", w->name); /* shown where the test fails */
  begin();
  use(w->uses);
  w->make();
}

static void end_way(void) {
  vyc_call_release(call);
  vyc_graph_release(graph);
  call = NULL;
  graph = NULL;
  end();
}

/* A copy that takes the mark finds nothing to wait for, as the launch has not been given. */
static void a_launch_is_waited_for_whoever_took_its_mark(void) {
  for (size_t i = 0; i < WAY_COUNT; i++) {
    prepare_way(&WAYS[i]);
    stop_at(WAYS[i].call, 0, 0, copy_out);
    WAYS[i].launch();
    check_stopped();
    check_filled(s.out, 3.0f);
    end_way();
  }
}

/* The stream that is asked whether such a launch has ended knows of it only once it is ordered
 * behind it. */
static void a_launch_on_an_adopted_stream_is_waited_for_whoever_took_its_mark(void) {
  for (size_t i = 0; i < WAY_COUNT; i++) {
    fprintf(stderr, "%s, adopted\n", WAYS[i].name);
    begin();
    vyc_stream_release(s.stream);
    OK(vyc_stream_adopt(&s.stream, s.context, 0));
    use(WAYS[i].uses);
    WAYS[i].make();
    stop_at("cuEventRecord", 0, 0, copy_out);
    WAYS[i].launch();
    check_stopped();
    check_filled(s.out, 3.0f);
    end_way();
  }
}

/* And its memory goes to nobody else before. */
static void memory_stays_while_a_launch_writes_to_it(void) {
  for (size_t i = 0; i < 3; i++) { /* what has no reference of its own */
    prepare_way(&WAYS[i]);
    uint64_t before = 0, after = 0;
    OK(vyc_buffer_address(s.out, &before));
    stop_at(WAYS[i].call, 0, 0, copy_out);
    WAYS[i].launch();
    vyc_buffer_release(s.out);
    s.out = new_buffer(s.context, BYTES);
    OK(vyc_buffer_address(s.out, &after));
    CHECK(before != after);
    end_way();
  }
}

/* Whatever comes first of copy and launch, what is given once both have returned is behind both. */
static void a_launch_is_behind_a_copy_in_the_middle_of_the_one_before(void) {
  for (size_t i = 0; i < WAY_COUNT; i++) {
    prepare_way(&WAYS[i]);
    stop_at(WAYS[i].call, 0, 0, copy_in);
    WAYS[i].launch();
    check_next_follows();
    end_way();
  }
}

/* ---- a first use and a copy -------------------------------------------------------------------
 */

/* So that `out` alone is used for the first time, and nothing else puts the stream behind copies.
 */
static void use_others(void) {
  launch(s.prepared, s.in, s.next, 1.0f, s.stream);
  OK(vyc_stream_synchronize(s.stream));
}

static void *first_use(void *unused) {
  launch(s.prepared, s.out, s.in, 1.0f, s.stream);
  return unused;
}

static void fill(void) { OK(vyc_fill(s.out, 0, 0x40e00000, 4, BYTES)); /* 7.0f */ }
static void copy_within(void) {
  float host[N];
  for (uint32_t i = 0; i < N; i++) host[i] = 7.0f;
  vyc_buffer *seven = new_buffer(s.context, BYTES);
  OK(vyc_copy_in(seven, 0, host, BYTES));
  OK(vyc_copy(s.out, 0, seven, 0, BYTES));
  vyc_buffer_release(seven);
}
static void copy_in_here(void) { copy_in(NULL); }

/* The stream is put behind what call order had been given: the copy is not among it. */
static void a_launch_is_behind_a_copy_that_a_first_use_came_into(void) {
  static const struct {
    const char *call;
    void (*act)(void);
  } COPIES[] = {{"cuMemcpyHtoDAsync", copy_in_here},
                {"cuMemsetD32Async", fill},
                {"cuMemcpyDtoDAsync", copy_within}};
  for (size_t i = 0; i < sizeof COPIES / sizeof COPIES[0]; i++) {
    begin();
    use_others();
    stop_at(COPIES[i].call, 0, 0, first_use);
    COPIES[i].act();
    check_stopped();
    launch(s.prepared, s.out, s.next, 2.0f, s.stream);
    check_filled(s.next, 14.0f);
    end();
  }
}

/* The same, where the copy comes into the first use. */
static void a_launch_is_behind_a_copy_that_came_into_a_first_use(void) {
  begin();
  use_others();
  stop_at("cuStreamWaitEvent", 1, 0, copy_in);
  launch(s.prepared, s.in, s.out, 3.0f, s.stream);
  check_next_follows();
  end();
}

/* The launch is not lost either. */
static void a_launch_whose_first_use_a_copy_came_into_is_waited_for(void) {
  begin();
  use_others();
  stop_at("cuStreamWaitEvent", 1, 0, copy_out);
  launch(s.prepared, s.in, s.out, 3.0f, s.stream);
  check_stopped();
  check_filled(s.out, 3.0f);
  end();
}

/* ---- marks that somebody waits for ------------------------------------------------------------
 */

static void *order_behind(void *unused) {
  OK(vyc_buffer_order(s.out, s.second));
  launch(s.prepared, s.out, s.next, 1.0f, s.second);
  OK(vyc_stream_synchronize(s.second));
  check_filled(s.next, 3.0f);
  return unused;
}

static void an_order_holds_while_another_thread_waits(void) {
  begin();
  launch(s.prepared, s.in, s.out, 3.0f, s.stream);
  stop_at("cuStreamQuery", 0, 0, order_behind);
  copy_out(NULL);
  end();
}

/* A wait that fails leaves what it took for the next one, and for the release. */
static void marks_of_a_failed_wait_are_waited_for_again(void) {
  float host[N];
  uint64_t before = 0, after = 0;
  begin();
  launch(s.prepared, s.in, s.out, 3.0f, s.stream);
  CHECK(emulator_fail("cuStreamQuery", 1, 999, 0) == 0);
  CHECK(vyc_copy_out(s.out, 0, host, BYTES) == VYC_E_DRIVER);
  OK(vyc_buffer_address(s.out, &before));
  vyc_buffer *another = new_buffer(s.context, BYTES);
  vyc_buffer_release(another);
  check_filled(s.out, 3.0f);
  launch(s.prepared, s.in, s.out, 4.0f, s.stream);
  CHECK(emulator_fail("cuStreamQuery", 1, 999, 0) == 0);
  CHECK(vyc_copy_out(s.out, 0, host, BYTES) == VYC_E_DRIVER);
  vyc_buffer_release(s.out);
  s.out = new_buffer(s.context, BYTES);
  OK(vyc_buffer_address(s.out, &after));
  CHECK(before != after);
  end();
}

/* ---- a slot that another stream had ------------------------------------------------------------
 */

static void new_owner(void) {
  vyc_stream_release(s.stream);
  s.stream = new_stream(s.context);
}

static void use_and_end(const way *w) {
  begin();
  use(w->uses);
  launch(s.prepared, s.out, s.next, 1.0f, s.stream);
  OK(vyc_stream_synchronize(s.stream));
  new_owner();
}

/* `in` becomes 5 in call order, and the launch is the stream's first use of it. */
static void a_new_stream_is_behind_call_order_whoever_had_its_slot(void) {
  for (size_t i = 0; i < WAY_COUNT; i++) {
    fprintf(stderr, "%s, another slot's stream\n", WAYS[i].name);
    use_and_end(&WAYS[i]);
    launch(s.prepared, s.next, s.in, 5.0f, NULL); /* next is 1 */
    if (WAYS[i].make != make_steady_call)
      WAYS[i].make();
    else
      make_call();
    WAYS[i].launch();
    check_filled(s.out, 15.0f);
    end_way();
  }
}

/* Of the streams that have marks only those that have ended lose them. */
static void a_stream_that_lives_keeps_its_marks(void) {
  begin();
  use(1);
  launch(s.prepared, s.in, s.next, 1.0f, s.second);
  new_owner();
  launch(s.prepared, s.in, s.out, 6.0f, s.second);
  launch(s.prepared, s.out, s.next, 1.0f, s.stream); /* forgets the first stream's */
  check_filled(s.out, 6.0f);
  end();
}

#define SCENES(X)                                                                                  \
  X(a_launch_is_waited_for_whoever_took_its_mark)                                                  \
  X(a_launch_on_an_adopted_stream_is_waited_for_whoever_took_its_mark)                             \
  X(memory_stays_while_a_launch_writes_to_it)                                                      \
  X(a_launch_is_behind_a_copy_in_the_middle_of_the_one_before)                                     \
  X(a_launch_is_behind_a_copy_that_a_first_use_came_into)                                          \
  X(a_launch_is_behind_a_copy_that_came_into_a_first_use)                                          \
  X(a_launch_whose_first_use_a_copy_came_into_is_waited_for)                                       \
  X(an_order_holds_while_another_thread_waits)                                                     \
  X(marks_of_a_failed_wait_are_waited_for_again)                                                   \
  X(a_new_stream_is_behind_call_order_whoever_had_its_slot)                                        \
  X(a_stream_that_lives_keeps_its_marks)

static const scene ALL[] = {
#define SCENE_ROW(name) {#name, name},
    SCENES(SCENE_ROW)};

int main(int argc, char **argv) {
  enum { CROWD = 70 };
  vyc_stream *crowd[CROWD];
  stops_open(argc, argv);
  s.context = open_context();
  s.module = load_module(s.context);
  play(ALL, sizeof ALL / sizeof ALL[0], argc, argv);
  for (int i = 0; i < CROWD; i++) crowd[i] = new_stream(s.context);
  play(ALL, sizeof ALL / sizeof ALL[0], argc, argv);
  for (int i = 0; i < CROWD; i++) vyc_stream_release(crowd[i]);
  vyc_module_release(s.module);
  vyc_context_release(s.context);
  check_nothing_lives();
  puts("marks: passed");
  return 0;
}
