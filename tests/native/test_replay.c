/* Graphs of bundles from C: their symbols, set for one launch or for all, by many threads too. */
#include "bundle_test.h"

#define COUNT 64u

enum { A, OUT, X }; /* in the order of their names */

static vyc_replay *load_step(vyc_context *context) {
  vyc_bundle *bundle = open_example();
  vyc_replay *replay = NULL;
  OK(vyc_replay_load(&replay, NULL, 0, context, bundle, "step", 0));
  vyc_bundle_release(bundle);
  return replay;
}

static vyc_buffer *ramp(vyc_context *context, float factor) {
  float x[COUNT];
  vyc_buffer *buffer = new_buffer(context, sizeof x);
  for (uint32_t i = 0; i < COUNT; i++) x[i] = factor * (float)i;
  OK(vyc_copy_in(buffer, 0, x, sizeof x));
  return buffer;
}

static vyc_symbol_value array_value(uint32_t symbol, vyc_buffer *buffer) {
  return (vyc_symbol_value){.symbol = symbol, .buffer = buffer, .count = COUNT};
}

static vyc_symbol_value scalar_value(uint32_t symbol, float value) {
  return (vyc_symbol_value){.symbol = symbol, .bits = bits(value)};
}

/* w = a * x + i; y = w, three times y += 0.5 * w. */
static void verify_step(vyc_buffer *out, uint64_t offset, float a, float factor) {
  float found[COUNT];
  OK(vyc_copy_out(out, offset, found, sizeof found));
  for (uint32_t i = 0; i < COUNT; i++) {
    const float w = a * factor * (float)i + (float)i;
    CHECK(found[i] == w + 1.5f * w);
  }
}

static void verify_default_out(vyc_replay *replay, float a, float factor) {
  vyc_symbol_value out;
  OK(vyc_replay_get(replay, &out, OUT));
  CHECK(out.count == COUNT);
  verify_step(out.buffer, out.offset, a, factor);
  vyc_buffer_release(out.buffer);
}

/* ---- looking --------------------------------------------------------------------------------- */

static void symbols_and_steps_are_told(void) {
  vyc_bundle *bundle = open_example();
  uint32_t graph = 9, symbol = 9;
  OK(vyc_bundle_graph_find(bundle, &graph, "step"));
  CHECK(vyc_bundle_graph_find(bundle, &graph, "nothing") == VYC_E_INVALID);
  vyc_bundle_graph row = {.struct_size = sizeof row};
  OK(vyc_bundle_graph_get(bundle, &row, graph));
  CHECK(strcmp(row.name, "step") == 0 && row.symbol_count == 3 && row.step_count == 8);
  OK(vyc_bundle_symbol_find(bundle, &symbol, graph, "out"));
  CHECK(symbol == OUT);
  CHECK(vyc_bundle_symbol_find(bundle, &symbol, graph, "z") == VYC_E_INVALID);
  vyc_bundle_symbol out = {.struct_size = sizeof out};
  OK(vyc_bundle_symbol_get(bundle, &out, graph, OUT));
  CHECK(out.kind == VYC_SYMBOL_ARRAY && out.type == VYC_TYPE_F32 && out.count == COUNT);
  CHECK(out.flags == (VYC_SYMBOL_HAS_DEFAULT | VYC_SYMBOL_WRITTEN));
  vyc_bundle_step step = {.struct_size = sizeof step};
  OK(vyc_bundle_step_get(bundle, &step, graph, 2));
  CHECK(step.kind == VYC_STEP_REPEAT && step.times == 3 && step.value_count == 0);
  vyc_bundle_array array = {.struct_size = sizeof array};
  OK(vyc_bundle_array_get(bundle, &array, graph, 0));
  CHECK(array.bytes == COUNT * 4);
  CHECK(vyc_bundle_array_get(bundle, &array, graph, row.array_count) == VYC_E_INVALID);
  CHECK(vyc_bundle_step_get(bundle, &step, graph, row.step_count) == VYC_E_INVALID);
  CHECK(vyc_bundle_symbol_get(bundle, &out, graph, 3) == VYC_E_INVALID);
  CHECK(vyc_bundle_graph_get(bundle, &row, 2) == VYC_E_INVALID);
  vyc_bundle_release(bundle);
}

/* ---- launching ------------------------------------------------------------------------------- */

static void values_hold_for_one_launch_or_for_all(void) {
  vyc_context *context = open_context();
  vyc_replay *replay = load_step(context);
  vyc_buffer *one = ramp(context, 1), *four = ramp(context, 4), *out = ramp(context, 0);
  const vyc_symbol_value first[] = {array_value(X, four), scalar_value(A, 8.0f)};
  CHECK(vyc_replay_launch(replay, NULL, 0, NULL) == VYC_E_INVALID); /* x has no value */
  OK(vyc_replay_launch(replay, first, 2, NULL));
  verify_default_out(replay, 8.0f, 4.0f);
  OK(vyc_replay_launch(replay, first, 1, NULL)); /* a is what it was */
  verify_default_out(replay, 2.0f, 4.0f);
  CHECK(vyc_replay_launch(replay, NULL, 0, NULL) ==
        VYC_E_INVALID); /* x was given for those alone */
  const vyc_symbol_value kept = array_value(X, one);
  OK(vyc_replay_set(replay, &kept, 1));
  vyc_buffer_release(one); /* the replay holds it */
  OK(vyc_replay_launch(replay, NULL, 0, NULL));
  verify_default_out(replay, 2.0f, 1.0f);
  const vyc_symbol_value elsewhere[] = {array_value(OUT, out), scalar_value(A, 4.0f)};
  OK(vyc_replay_launch(replay, elsewhere, 2, NULL));
  verify_step(out, 0, 4.0f, 1.0f);
  verify_default_out(replay, 2.0f, 1.0f);
  OK(vyc_replay_launch(replay, NULL, 0, NULL));
  verify_default_out(replay, 2.0f, 1.0f);
  const vyc_symbol_value a = scalar_value(A, 16.0f);
  OK(vyc_replay_set(replay, &a, 1));
  OK(vyc_replay_launch(replay, NULL, 0, NULL));
  verify_default_out(replay, 16.0f, 1.0f);
  vyc_buffer_release(four);
  vyc_buffer_release(out);
  vyc_replay_release(replay);
  vyc_context_release(context);
}

static void wrong_values_change_nothing(void) {
  vyc_context *context = open_context();
  vyc_replay *replay = load_step(context);
  vyc_buffer *x = ramp(context, 1), *small = new_buffer(context, 8);
  const vyc_symbol_value good = array_value(X, x);
  OK(vyc_replay_set(replay, &good, 1));
  const vyc_symbol_value wrong[][2] = {
      {scalar_value(A, 9.0f), scalar_value(A, 9.0f)},     /* twice */
      {scalar_value(A, 9.0f), {.symbol = 3}},             /* no such symbol */
      {scalar_value(A, 9.0f), {.symbol = X}},             /* an array without a buffer */
      {scalar_value(A, 9.0f), array_value(X, small)},     /* too small for its count */
      {array_value(A, x), array_value(X, x)},             /* a scalar with a buffer */
      {scalar_value(A, 9.0f), {.symbol = OUT, .buffer = x, .count = COUNT - 1}}, /* out too small */
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    CHECK(vyc_replay_set(replay, wrong[i], 2) == VYC_E_INVALID);
    CHECK(vyc_replay_launch(replay, wrong[i], 2, NULL) == VYC_E_INVALID);
    OK(vyc_replay_launch(replay, NULL, 0, NULL));
    verify_default_out(replay, 2.0f, 1.0f);
  }
  vyc_symbol_value value;
  CHECK(vyc_replay_get(replay, &value, 3) == VYC_E_INVALID);
  vyc_replay_release(NULL);
  vyc_buffer_release(x);
  vyc_buffer_release(small);
  OK(vyc_context_close(context));
  CHECK(vyc_replay_launch(replay, NULL, 0, NULL) == VYC_E_UNAVAILABLE);
  CHECK(vyc_replay_set(replay, &good, 0) == VYC_E_UNAVAILABLE);
  vyc_replay_release(replay);
  vyc_context_release(context);
}

static void every_failing_driver_call_is_told(void) {
  static const char *const calls[] = {"cuModuleLoadDataEx", "cuMemAlloc", "cuMemcpyHtoDAsync",
                                      "cuMemsetD8Async", "cuModuleGetFunction"};
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    vyc_context *context = open_context();
    vyc_bundle *bundle = open_example();
    vyc_replay *replay = NULL;
    CHECK(emulator_fail(calls[i], 1, 999, 0) == 0);
    CHECK(vyc_replay_load(&replay, NULL, 0, context, bundle, "step", 0) == VYC_E_DRIVER);
    CHECK(replay == NULL);
    CHECK(emulator_reset() == 0);
    vyc_bundle_release(bundle);
    vyc_context_release(context);
    check_nothing_lives();
  }
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct worker {
  vyc_replay *replay;
  vyc_context *context;
  float factor;
} worker;

/* Each with arrays of its own, so that what the others give is told apart. */
static void *work(void *argument) {
  worker *self = argument;
  vyc_buffer *x = ramp(self->context, self->factor), *out = ramp(self->context, 0);
  for (int turn = 0; turn < 20; turn++) {
    const float a = (float)(turn + 1);
    const vyc_symbol_value values[] = {array_value(X, x), array_value(OUT, out),
                                       scalar_value(A, a)};
    OK(vyc_replay_launch(self->replay, values, 3, NULL));
    OK(vyc_replay_set(self->replay, values, 1));
    verify_step(out, 0, a, self->factor);
  }
  vyc_buffer_release(x);
  vyc_buffer_release(out);
  return NULL;
}

/* The error names the kernel, and the graph knows the place in it. */
static void a_failed_check_is_told_with_its_place(void) {
  enum { LEAST, VALUES };
  vyc_context *context = open_context();
  vyc_bundle *bundle = open_example();
  vyc_replay *replay = NULL;
  const int32_t data[] = {3, 4, 1, 5};
  vyc_error error = {.struct_size = sizeof error};
  vyc_site site = {.struct_size = sizeof site};
  OK(vyc_replay_load(&replay, NULL, 0, context, bundle, "held", 42));
  vyc_buffer *buffer = new_buffer(context, sizeof data);
  OK(vyc_copy_in(buffer, 0, data, sizeof data));
  const vyc_symbol_value values[] = {{.symbol = LEAST, .bits = 3},
                                     {.symbol = VALUES, .buffer = buffer, .count = 4}};
  OK(vyc_replay_launch(replay, values, 2, NULL));
  CHECK(vyc_context_synchronize(context) == VYC_E_ASSERT);
  OK(vyc_last_error(&error));
  CHECK(error.tag == 42 && error.report >> 20 == 2);
  OK(vyc_replay_site(replay, &site, error.operation, error.report));
  CHECK(strcmp(site.message, "too small") == 0 && site.kind == VYC_SITE_ASSERT);
  CHECK(vyc_replay_site(replay, &site, "saxpy", error.report) == VYC_E_INVALID); /* not in it */
  CHECK(vyc_replay_site(replay, &site, "nothing", error.report) == VYC_E_INVALID);
  CHECK(vyc_replay_site(replay, &site, "checked", 7) == VYC_E_INVALID); /* no such site */
  vyc_buffer_release(buffer);
  vyc_replay_release(replay);
  vyc_bundle_release(bundle);
  vyc_context_release(context);
}

static void threads_share_a_replay(void) {
  vyc_context *context = open_context();
  vyc_replay *replay = load_step(context);
  worker workers[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){replay, context, (float)(i + 1)};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  vyc_replay_release(replay);
  vyc_context_release(context);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  symbols_and_steps_are_told();
  values_hold_for_one_launch_or_for_all();
  wrong_values_change_nothing();
  every_failing_driver_call_is_told();
  a_failed_check_is_told_with_its_place();
  threads_share_a_replay();
  check_nothing_lives();
  return 0;
}
