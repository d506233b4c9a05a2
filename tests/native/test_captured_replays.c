/* How long what a captured replay uses is kept: as long as a graph, a clone, an exec or a launch in
 * flight has its nodes, and no longer. */
#include <malloc.h>

#include "bundle_test.h"
#include "other_library.h"

#include "base/driver.h"

#define CAPTURES 10000

static __typeof__(&cuGraphClone) graph_clone;

typedef struct scene {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared;
  vyc_buffer *in, *out, *until;
  vyc_graph *graph; /* step 0: out = 3 * in */
  CUstream raw;
  vyc_stream *stream;
} scene;

/* With `loop` the graph goes on with a loop on the device, which has a counter of its own. */
static void open_scene(scene *s, int loop) {
  task t;
  *s = (scene){.context = open_context()};
  s->module = load_module(s->context);
  s->prepared = scale_prepared(s->module, COPIED);
  s->in = filled(s->context, 2.0f);
  s->out = filled(s->context, 0.0f);
  s->until = filled(s->context, 0.0f);
  prepare(&t, 3.0f);
  on_buffers(&t, s->in, s->out);
  OK(vyc_graph_create(&s->graph, s->context));
  OK(vyc_graph_add_launch(s->graph, NULL, s->prepared, &t.run));
  if (loop) {
    OK(vyc_graph_repeat_begin(s->graph, NULL, 2, s->until, 0, 4));
    OK(vyc_graph_add_launch(s->graph, NULL, s->prepared, &t.run));
    OK(vyc_graph_repeat_end(s->graph));
  }
  OK(vyc_graph_finish(s->graph));
  CU(cu.stream_create(&s->raw, CU_STREAM_NON_BLOCKING));
  s->stream = adopted(s->context, s->raw);
}

static void release_graph(scene *s) {
  vyc_graph_release(s->graph);
  s->graph = NULL;
}

static void release_rest(scene *s) {
  release_graph(s);
  vyc_stream_release(s->stream);
  vyc_buffer_release(s->in);
  vyc_buffer_release(s->out);
  vyc_buffer_release(s->until);
  vyc_prepared_release(s->prepared);
  vyc_module_release(s->module);
}

static void close_scene(scene *s) {
  release_rest(s);
  vyc_context_release(s->context);
  CU(cu.stream_destroy(s->raw));
}

static uint64_t live(vyc_context *context) {
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  OK(vyc_context_memory_stats(context, &stats));
  return stats.live_count;
}

/* A replay that writes to a buffer which nobody else holds but the caller. */
static CUgraph capture(const scene *s, vyc_buffer *to) {
  CUgraph captured;
  task t;
  prepare(&t, 5.0f);
  on_buffers(&t, s->in, to);
  const vyc_graph_change change = {.step = 0, .run = &t.run};
  CU(cu.begin(s->raw, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(vyc_graph_launch(s->graph, &change, 1, s->stream));
  CU(cu.end(s->raw, &captured));
  return captured;
}

/* The same, with a buffer that the capture alone keeps. */
static CUgraph capture_alone(const scene *s) {
  vyc_buffer *to = filled(s->context, 0.0f);
  const CUgraph captured = capture(s, to);
  vyc_buffer_release(to);
  return captured;
}

static void trim(const scene *s) { OK(vyc_context_trim(s->context)); }

static void check_is_kept(const scene *s, uint64_t before) {
  trim(s);
  CHECK(live(s->context) == before + 1);
}

static void check_is_gone(const scene *s, uint64_t before) {
  CHECK(count_of("user_objects") == 0);
  trim(s);
  CHECK(live(s->context) == before);
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* Each captured graph dropped, every second one with an exec, every fourth after a launch of it. */
static void captures_leave_nothing_behind(void) {
  scene s;
  size_t bytes = 0;
  CHECK(emulator_set("stream_mode", EAGER) == 0);
  open_scene(&s, 1);
  trim(&s);
  const uint64_t before = live(s.context);
  for (int i = 0; i < CAPTURES; i++) {
    const CUgraph captured = capture_alone(&s);
    CUgraphExec exec = NULL;
    if (i % 2 == 0) CU(cu.instantiate(&exec, captured, 0));
    if (i % 4 == 0) CU(cu.graph_launch(exec, s.raw));
    CU(cu.graph_destroy(captured));
    if (exec != NULL) CU(cu.exec_destroy(exec));
    CHECK(count_of("user_objects") == 0);
    if (i == CAPTURES / 10) bytes = mallinfo2().uordblks;
    CHECK(live(s.context) <= before + 4);
  }
  CHECK(mallinfo2().uordblks < bytes + 100000);
  check_is_gone(&s, before);
  close_scene(&s);
}

/* Any of these gives it back. */
static void each_of_these_gives_back(void) {
  scene s;
  open_scene(&s, 0);
  trim(&s);
  const uint64_t before = live(s.context);
  CU(cu.graph_destroy(capture_alone(&s)));
  CHECK(live(s.context) == before + 1);
  OK(vyc_context_synchronize(s.context));
  CHECK(live(s.context) == before);
  CU(cu.graph_destroy(capture_alone(&s)));
  OK(vyc_context_trim(s.context));
  CHECK(live(s.context) == before);
  CU(cu.graph_destroy(capture_alone(&s)));
  CU(cu.graph_destroy(capture(&s, s.out)));
  trim(&s);
  CHECK(live(s.context) == before);
  CU(cu.graph_destroy(capture_alone(&s)));
  for (uint64_t nth = 1; nth <= 2; nth++) /* the second is tried when idle memory was freed */
    CHECK(emulator_fail("cuMemAlloc", nth, CUDA_ERROR_OUT_OF_MEMORY, 0) == 0);
  vyc_buffer *large = new_buffer(s.context, 100 * BYTES);
  CHECK(live(s.context) == before + 1);
  vyc_buffer_release(large);
  close_scene(&s);
}

/* ---- lives ----------------------------------------------------------------------------------- */

static void whatever_can_launch_it_keeps_it(void) {
  scene s;
  CUgraph copied;
  CUgraphExec exec;
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  open_scene(&s, 0);
  vyc_buffer *to = filled(s.context, 0.0f);
  OK(vyc_context_synchronize(s.context));
  trim(&s);
  const uint64_t before = live(s.context) - 1;
  const CUgraph captured = capture(&s, to);
  vyc_buffer_release(to);
  release_graph(&s);
  check_is_kept(&s, before);
  CU(graph_clone(&copied, captured));
  CU(cu.graph_destroy(captured));
  check_is_kept(&s, before);
  CU(cu.instantiate(&exec, copied, 0));
  CU(cu.graph_destroy(copied));
  check_is_kept(&s, before);
  CU(cu.graph_launch(exec, s.raw));
  CU(cu.exec_destroy(exec));
  CHECK(count_of("user_objects") == 1);
  check_is_kept(&s, before);
  CU(cu.stream_synchronize(s.raw)); /* memory that was freed would lose the device here */
  check_is_gone(&s, before);
  close_scene(&s);
}

static void run(CUgraph captured, CUstream raw) {
  CUgraphExec exec;
  CU(cu.instantiate(&exec, captured, 0));
  CU(cu.graph_launch(exec, raw));
  CU(cu.stream_synchronize(raw));
  CU(cu.exec_destroy(exec));
}

/* Also with a loop, whose counter is the copy's own. */
static void it_runs_when_the_recorded_graph_is_gone(void) {
  for (int loop = 0; loop < 2; loop++) {
    scene s;
    CHECK(emulator_set("stream_mode", LAZY) == 0);
    open_scene(&s, loop);
    vyc_buffer *to = filled(s.context, 0.0f);
    const CUgraph captured = capture(&s, to);
    release_graph(&s);
    trim(&s);
    run(captured, s.raw);
    check_filled(to, 10.0f);
    vyc_buffer_release(to);
    CU(cu.graph_destroy(captured));
    close_scene(&s);
  }
}

/* A close frees what the captured graph would use; what the driver calls later finds nothing. */
static void it_outlives_the_close(void) {
  scene s;
  open_scene(&s, 1);
  const CUgraph captured = capture_alone(&s);
  OK(vyc_context_close(s.context));
  release_rest(&s);
  CHECK(count_of("allocations") == 0 && count_of("modules") == 0);
  vyc_context_release(s.context);
  CHECK(count_of("user_objects") == 1);
  CU(cu.graph_destroy(captured));
  CHECK(count_of("user_objects") == 0);
  CU(cu.stream_destroy(s.raw));
}

/* Nobody has a handle of the context: the captured graph keeps it open, and the next one that is
 * opened closes it. */
static void it_outlives_all_handles(void) {
  scene s;
  open_scene(&s, 0);
  const CUgraph captured = capture_alone(&s);
  release_rest(&s);
  vyc_context_release(s.context);
  CHECK(count_of("modules") == 1);
  run(captured, s.raw);
  CU(cu.graph_destroy(captured));
  vyc_context *next = open_context();
  CHECK(count_of("modules") == 0 && count_of("allocations") == 0);
  vyc_context_release(next);
  CU(cu.stream_destroy(s.raw));
}

/* What has ended keeps no context open. */
static void the_last_handle_closes(void) {
  scene s;
  open_scene(&s, 0);
  CU(cu.graph_destroy(capture_alone(&s)));
  close_scene(&s);
  CHECK(count_of("modules") == 0 && count_of("allocations") == 0);
}

/* The only driver call of a drop is the one that drops. */
static void no_driver_call_is_made_from_the_callback(void) {
  scene s;
  open_scene(&s, 1);
  const CUgraph captured = capture_alone(&s);
  const uint64_t calls = count_of("calls");
  CU(cu.graph_destroy(captured));
  CHECK(count_of("user_objects") == 0 && count_of("calls") == calls + 1);
  close_scene(&s);
}

/* ---- memory of the graph alone --------------------------------------------------------------- */

/* out = 9 * in by way of `between`, which belongs to the graph. */
static vyc_graph *by_way_of(const scene *s, vyc_buffer *between) {
  vyc_graph *graph;
  task t;
  OK(vyc_graph_create(&graph, s->context));
  OK(vyc_graph_own(graph, between));
  CHECK(vyc_graph_own(graph, between) == VYC_E_INVALID);
  prepare(&t, 3.0f);
  on_buffers(&t, s->in, between);
  OK(vyc_graph_add_launch(graph, NULL, s->prepared, &t.run));
  CHECK(vyc_graph_own(graph, s->until) == VYC_E_INVALID);
  on_buffers(&t, between, s->out);
  OK(vyc_graph_add_launch(graph, NULL, s->prepared, &t.run));
  OK(vyc_graph_finish(graph));
  return graph;
}

static void a_capture_has_memory_of_its_own(void) {
  scene s;
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  open_scene(&s, 0);
  vyc_buffer *between = filled(s.context, 7.0f);
  vyc_graph *graph = by_way_of(&s, between);
  OK(vyc_context_synchronize(s.context));
  trim(&s);
  const uint64_t before = live(s.context);
  CUgraph captured;
  CU(cu.begin(s.raw, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(vyc_graph_launch(graph, NULL, 0, s.stream));
  CU(cu.end(s.raw, &captured));
  check_is_kept(&s, before);
  run(captured, s.raw);
  check_filled(s.out, 18.0f);
  check_filled(between, 7.0f);
  CU(cu.graph_destroy(captured));
  check_is_gone(&s, before);
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  check_filled(between, 6.0f);
  vyc_graph_release(graph);
  vyc_buffer_release(between);
  close_scene(&s);
}

/* Without it nothing is captured. */
static void a_capture_fails_without_memory_of_its_own(void) {
  scene s;
  open_scene(&s, 0);
  vyc_buffer *between = filled(s.context, 7.0f);
  vyc_graph *graph = by_way_of(&s, between);
  OK(vyc_context_synchronize(s.context));
  trim(&s);
  const uint64_t before = live(s.context);
  CUgraph captured;
  CU(cu.begin(s.raw, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(emulator_fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, 1) == 0);
  CHECK(vyc_graph_launch(graph, NULL, 0, s.stream) == VYC_E_MEMORY);
  CHECK(emulator_reset() == 0);
  OK(vyc_graph_launch(graph, NULL, 0, s.stream));
  CU(cu.end(s.raw, &captured));
  run(captured, s.raw);
  check_filled(s.out, 18.0f);
  CU(cu.graph_destroy(captured));
  check_is_gone(&s, before);
  vyc_graph_release(graph);
  vyc_buffer_release(between);
  close_scene(&s);
}

/* The graph "step" of the bundle writes and then reads three arrays that no symbol stands for. */
static void a_captured_replay_of_a_bundle_has_arrays_of_its_own(void) {
  float x[64], found[64];
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_context *context = open_context();
  vyc_bundle *bundle = open_example();
  vyc_replay *replay;
  CUstream raw;
  OK(vyc_replay_load(&replay, NULL, 0, context, bundle, "step", 0));
  vyc_bundle_release(bundle);
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *stream = adopted(context, raw);
  vyc_buffer *in = new_buffer(context, sizeof x), *out = new_buffer(context, sizeof x);
  for (int i = 0; i < 64; i++) x[i] = (float)i;
  OK(vyc_copy_in(in, 0, x, sizeof x));
  const vyc_symbol_value values[] = {{.symbol = 0, .bits = bits(2.0f)},
                                     {.symbol = 1, .buffer = out, .count = 64},
                                     {.symbol = 2, .buffer = in, .count = 64}};
  OK(vyc_context_synchronize(context));
  OK(vyc_context_trim(context));
  const uint64_t before = live(context);
  CUgraph captured;
  CU(cu.begin(raw, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(vyc_replay_launch(replay, values, 3, stream));
  CU(cu.end(raw, &captured));
  OK(vyc_context_trim(context));
  CHECK(live(context) == before + 3);
  run(captured, raw);
  OK(vyc_copy_out(out, 0, found, sizeof found));
  for (int i = 0; i < 64; i++) CHECK(found[i] == 2.5f * (3.0f * (float)i));
  CU(cu.graph_destroy(captured));
  OK(vyc_context_trim(context));
  CHECK(live(context) == before);
  vyc_replay_release(replay);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_stream_release(stream);
  vyc_context_release(context);
  CU(cu.stream_destroy(raw));
}

/* ---- owners ---------------------------------------------------------------------------------- */

static scene told;
static int drops;

/* What the drop of an owner may do: all that its thread may, with the same graph and device. */
static void use(void *owner) {
  (void)owner;
  drops++;
  OK(vyc_graph_launch(told.graph, NULL, 0, NULL));
  OK(vyc_context_synchronize(told.context));
  OK(vyc_context_trim(told.context));
}

/* A copy has the only reference to memory of an owner, who is told by the next call that gives it
 * back: a capture of the same graph, a wait, a trim, an allocation. */
static void an_owner_may_use_what_gives_it_back(void) {
  CUdeviceptr address;
  CHECK(emulator_set("stream_mode", EAGER) == 0);
  open_scene(&told, 0);
  CU(cu.alloc(&address, BYTES));
  const vyc_foreign_memory memory = {.struct_size = sizeof memory,
                                     .address = (uint64_t)address,
                                     .bytes = BYTES,
                                     .source = told.stream,
                                     .drop = use};
  for (int i = 0; i < 4; i++) {
    vyc_buffer *adopted_buffer = NULL, *large = NULL;
    OK(vyc_buffer_adopt(&adopted_buffer, told.context, &memory));
    const CUgraph captured = capture(&told, adopted_buffer);
    vyc_buffer_release(adopted_buffer);
    CU(cu.graph_destroy(captured));
    CHECK(drops == i);
    if (i == 0) CU(cu.graph_destroy(capture(&told, told.out)));
    if (i == 1) OK(vyc_context_synchronize(told.context));
    if (i == 2) OK(vyc_context_trim(told.context));
    if (i == 3) CHECK(emulator_fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, 0) == 0);
    if (i == 3) CHECK(emulator_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, 0) == 0);
    if (i == 3) large = new_buffer(told.context, 1000 * BYTES);
    vyc_buffer_release(large);
    CHECK(drops == i + 1);
  }
  close_scene(&told);
  CU(cu.release(address));
}

/* ---- drivers that cannot --------------------------------------------------------------------- */

static void check_lives_as_long_as_the_recorded_graph(scene *s) {
  OK(vyc_context_synchronize(s->context));
  trim(s);
  const uint64_t before = live(s->context);
  const CUgraph captured = capture_alone(s);
  CHECK(emulator_reset() == 0 && emulator_set("stream_mode", LAZY) == 0);
  run(captured, s->raw);
  CU(cu.graph_destroy(captured));
  CHECK(count_of("user_objects") == 0);
  check_is_kept(s, before);
  release_graph(s);
  trim(s);
  CHECK(live(s->context) == before);
}

/* The look-up of the function is the nth of those that opening a driver makes. */
static uint64_t lookup_of(const char *name) {
#define NAME(function, since) #function,
  static const char *const names[] = {VYC_DRIVER_TABLE(NAME) VYC_DRIVER_OPTIONAL_TABLE(NAME)};
#undef NAME
  for (uint64_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return i + 1;
  CHECK(0);
  return 0;
}

static const char *const NEEDED[] = {"cuUserObjectCreate", "cuUserObjectRelease",
                                     "cuGraphRetainUserObject"};

static void a_driver_without_the_functions_keeps_it(void) {
  for (size_t i = 0; i < sizeof NEEDED / sizeof *NEEDED; i++) {
    scene s;
    CHECK(emulator_fail("cuGetProcAddress", lookup_of(NEEDED[i]), CUDA_ERROR_NOT_FOUND, 0) == 0);
    open_scene(&s, 0);
    const uint64_t calls = count_of("cuUserObjectCreate");
    check_lives_as_long_as_the_recorded_graph(&s);
    CHECK(count_of("cuUserObjectCreate") == calls);
    close_scene(&s);
  }
}

static void a_driver_that_refuses_keeps_it(void) {
  static const char *const refused[] = {"cuUserObjectCreate", "cuGraphRetainUserObject"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    scene s;
    open_scene(&s, 0);
    CHECK(emulator_fail(refused[i], 1, CUDA_ERROR_NOT_SUPPORTED, 0) == 0);
    check_lives_as_long_as_the_recorded_graph(&s);
    close_scene(&s);
  }
}

/* ---- threads --------------------------------------------------------------------------------- */

#define THREADS 4
#define EACH 200

typedef struct dropper {
  CUgraphExec execs[EACH];
  CUstream raw;
} dropper;

/* Each launch holds its exec on, so that the stream's thread is the one that is told. */
static void *drop(void *argument) {
  const dropper *d = argument;
  enter_other_library();
  for (int i = 0; i < EACH; i++) {
    CU(cu.graph_launch(d->execs[i], d->raw));
    CU(cu.exec_destroy(d->execs[i]));
  }
  leave_other_library();
  return NULL;
}

static void fill(const scene *s, dropper *d) {
  for (int i = 0; i < EACH; i++) {
    const CUgraph captured = capture_alone(s);
    CU(cu.instantiate(&d->execs[i], captured, 0));
    CU(cu.graph_destroy(captured));
  }
  CU(cu.stream_create(&d->raw, CU_STREAM_NON_BLOCKING));
}

/* While all of them are told, the context goes on capturing and giving back. */
static void it_ends_in_other_threads(void) {
  static dropper droppers[THREADS];
  pthread_t threads[THREADS];
  scene s;
  CHECK(emulator_set("stream_mode", THREADED) == 0);
  open_scene(&s, 0);
  trim(&s);
  const uint64_t before = live(s.context);
  for (int i = 0; i < THREADS; i++) fill(&s, &droppers[i]);
  CHECK(live(s.context) == before + (uint64_t)THREADS * EACH);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, drop, &droppers[i]) == 0);
  for (int i = 0; i < EACH; i++) {
    CU(cu.graph_destroy(capture_alone(&s)));
    OK(i % 2 == 0 ? vyc_context_synchronize(s.context) : vyc_context_trim(s.context));
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < THREADS; i++) CU(cu.stream_synchronize(droppers[i].raw));
  for (int i = 0; i < THREADS; i++) CU(cu.stream_destroy(droppers[i].raw));
  check_is_gone(&s, before);
  close_scene(&s);
}

typedef struct destroyer {
  CUgraph captured[EACH];
} destroyer;

static void *destroy(void *argument) {
  const destroyer *d = argument;
  enter_other_library();
  for (int i = 0; i < EACH; i++) CU(cu.graph_destroy(d->captured[i]));
  leave_other_library();
  return NULL;
}

static void *open_and_close(void *argument) {
  (void)argument;
  for (int i = 0; i < 20; i++) vyc_context_release(open_context());
  return NULL;
}

/* The close takes back what threads are just told of, and another context what this one closes. */
static void it_ends_while_the_context_is_closed(void) {
  static destroyer destroyers[THREADS];
  pthread_t threads[THREADS + 1];
  scene s;
  open_scene(&s, 0);
  for (int i = 0; i < THREADS; i++)
    for (int k = 0; k < EACH; k++) destroyers[i].captured[k] = capture_alone(&s);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, destroy, &destroyers[i]) == 0);
  CHECK(pthread_create(&threads[THREADS], NULL, open_and_close, NULL) == 0);
  OK(vyc_context_close(s.context));
  for (int i = 0; i <= THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  close_scene(&s);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  open_other_library();
  find(&graph_clone, "cuGraphClone", 10000);
  vyc_context_release(open_context()); /* starts the driver */
  enter_other_library();
  captures_leave_nothing_behind();
  each_of_these_gives_back();
  whatever_can_launch_it_keeps_it();
  it_runs_when_the_recorded_graph_is_gone();
  it_outlives_the_close();
  it_outlives_all_handles();
  the_last_handle_closes();
  no_driver_call_is_made_from_the_callback();
  an_owner_may_use_what_gives_it_back();
  a_capture_has_memory_of_its_own();
  a_capture_fails_without_memory_of_its_own();
  a_captured_replay_of_a_bundle_has_arrays_of_its_own();
  a_driver_without_the_functions_keeps_it();
  a_driver_that_refuses_keeps_it();
  it_ends_in_other_threads();
  it_ends_while_the_context_is_closed();
  leave_other_library();
  check_nothing_lives();
  puts("captured replays: passed");
  return 0;
}
