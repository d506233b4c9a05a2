/* A host that does many launches as one from a bundle: `bundled_rows DRIVER BUNDLE`.
 *
 * The kernel `scaled` (y = a * x + c) has an entry for many launches, and so have `gaps`, which
 * writes every other element of y, and `sized` (y = x + 1), where a scalar is the size of y. The
 * graph `table` does them on slices of its own array x = 0, 1, 2, ...; its symbol `out` is what
 * comes out of that, turned round, plus one. The graph `chain` writes 3 * (2 * x + 1) + 1 to `out`,
 * of which both are symbols without a default. The graph `placed` has rows of three kernels, which
 * write 2 * x + 0, 1 or 2 to slices of an array that is turned round to `out`; row 0 reads the
 * symbol `x`, and row 5 writes the symbol `z`. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vyre_cuda.h"

#define ROWS 1024u
#define N 96u
#define SLICES 48u
#define PLACED 5u /* the row that writes `z` */

static void ok(vyc_status status, int line) {
  if (status == VYC_OK) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  fprintf(stderr, "%s:%d: %s\n", __FILE__, line, error.message);
  exit(1);
}
#define OK(call) ok(call, __LINE__)

static void check(bool holds, const char *what, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: %s\n", __FILE__, line, what);
  exit(1);
}
#define CHECK(condition) check(condition, #condition, __LINE__)

static vyc_context *context;
static vyc_bundle *bundle;

static vyc_buffer *ramp(uint32_t count) {
  vyc_buffer *buffer = NULL;
  float *values = malloc(count * sizeof *values);
  CHECK(values != NULL);
  for (uint32_t i = 0; i < count; i++) values[i] = (float)i;
  OK(vyc_buffer_alloc(&buffer, context, count * sizeof *values));
  OK(vyc_copy_in(buffer, 0, values, count * sizeof *values));
  free(values);
  return buffer;
}

static float *contents(vyc_buffer *buffer, uint64_t offset, uint32_t count) {
  float *values = malloc(count * sizeof *values);
  CHECK(values != NULL);
  OK(vyc_copy_out(buffer, offset, values, count * sizeof *values));
  return values;
}

static vyc_argument slice(vyc_buffer *buffer, uint32_t row) {
  return (vyc_argument){.kind = VYC_ARGUMENT_BUFFER,
                        .count = N,
                        .buffer = buffer,
                        .offset = (uint64_t)row * N * sizeof(float)};
}

/* ---- launches of a kernel -------------------------------------------------------------------- */

static vyc_bundled_kernel *load(const char *name) {
  vyc_bundled_kernel *kernel = NULL;
  vyc_bundled_kernel_info info = {.struct_size = sizeof info};
  OK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, name, 0));
  OK(vyc_bundled_kernel_info_get(kernel, &info));
  CHECK(info.has_many == 1);
  return kernel;
}

/* The first counters of VYC_STATS_TABLE. */
typedef struct counters {
  uint64_t kernel_launches, plain_kernel_launches, graph_launches, graph_instantiations;
} counters;

static counters count(void) {
  counters found = {0};
  OK(vyc_context_stats(context, &found.kernel_launches, 4));
  return found;
}

static void rows_of_a_kernel_are_one_launch(void) {
  static vyc_argument arguments[ROWS][2];
  static uint64_t scalars[ROWS][2];
  vyc_buffer *x = ramp(ROWS * N), *y = ramp(ROWS * N);
  vyc_bundled_kernel *scaled = load("scaled");
  for (uint32_t i = 0; i < ROWS; i++) {
    arguments[i][0] = slice(x, i);
    arguments[i][1] = slice(y, i);
    arguments[i][1].count = arguments[i][0].count = i / 2 % 2 ? N : N - 3;
    scalars[i][0] = vyc_bits_f32(2.0f);
    scalars[i][1] = vyc_bits_f32((float)i);
  }
  vyc_rows rows = {.struct_size = sizeof rows,
                   .count = ROWS,
                   .argument_count = 2,
                   .scalar_count = 2,
                   .arguments = arguments[0],
                   .scalars = scalars[0]};
  const uint64_t before = count().kernel_launches;
  OK(vyc_bundled_kernel_launch_many(scaled, &rows));
  CHECK(count().kernel_launches == before + 1);
  float *found = contents(y, 0, ROWS * N);
  for (uint32_t i = 0; i < ROWS * N; i++) {
    const uint32_t row = i / N;
    const bool written = row / 2 % 2 || i % N < N - 3;
    CHECK(found[i] == (written ? 2.0f * (float)i + (float)row : (float)i));
  }
  free(found);
  /* What is wrong is said with the row. */
  arguments[7][1] = arguments[6][1];
  CHECK(vyc_bundled_kernel_launch_many(scaled, &rows) == VYC_E_INVALID);
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  CHECK(strstr(error.message, "6") != NULL && strstr(error.message, "7") != NULL);
  vyc_bundled_kernel_release(scaled);
  vyc_buffer_release(x);
  vyc_buffer_release(y);
}

/* Rows with arrays alike are not alike where a scalar counts. */
static void scalars_that_are_sizes_are_those_of_each_row(void) {
  static vyc_argument arguments[ROWS][2];
  static uint64_t scalars[ROWS];
  vyc_buffer *x = ramp(ROWS * N), *y = ramp(ROWS * N);
  vyc_bundled_kernel *sized = load("sized");
  for (uint32_t i = 0; i < ROWS; i++) {
    scalars[i] = i == 5 ? N - 1 : N;
    arguments[i][0] = slice(x, i);
    arguments[i][1] = slice(y, i);
    arguments[i][1].count = scalars[i];
  }
  const vyc_rows rows = {.struct_size = sizeof rows,
                         .count = ROWS,
                         .argument_count = 2,
                         .scalar_count = 1,
                         .arguments = arguments[0],
                         .scalars = scalars};
  OK(vyc_bundled_kernel_launch_many(sized, &rows));
  float *found = contents(y, 0, ROWS * N);
  for (uint32_t i = 0; i < ROWS * N; i++)
    CHECK(found[i] == (float)i + (i == 6 * N - 1 ? 0.0f : 1.0f));
  free(found);
  arguments[5][1].count = N;
  CHECK(vyc_bundled_kernel_launch_many(sized, &rows) == VYC_E_INVALID);
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  CHECK(strstr(error.message, "row 5") != NULL);
  vyc_bundled_kernel_release(sized);
  vyc_buffer_release(x);
  vyc_buffer_release(y);
}

static void results_with_gaps_are_cleared(void) {
  static vyc_argument arguments[ROWS][2];
  vyc_buffer *x = ramp(ROWS * N), *y = ramp(ROWS * N);
  vyc_bundled_kernel *gaps = load("gaps");
  vyc_prepared *many = NULL, *clearing = NULL, *many_clearing = NULL;
  OK(vyc_bundled_kernel_many(gaps, &many, &clearing, &many_clearing));
  CHECK(many != NULL && clearing != NULL && many_clearing != NULL);
  for (uint32_t i = 0; i < ROWS; i++) {
    arguments[i][0] = slice(x, i);
    arguments[i][1] = slice(y, i);
  }
  const vyc_rows rows = {
      .struct_size = sizeof rows, .count = ROWS, .argument_count = 2, .arguments = arguments[0]};
  OK(vyc_bundled_kernel_launch_many(gaps, &rows));
  float *found = contents(y, 0, ROWS * N);
  for (uint32_t i = 0; i < ROWS * N; i++) CHECK(found[i] == (i % 2 == 0 ? (float)i : 0.0f));
  free(found);
  vyc_prepared_release(many);
  vyc_prepared_release(clearing);
  vyc_prepared_release(many_clearing);
  vyc_bundled_kernel_release(gaps);
  vyc_buffer_release(x);
  vyc_buffer_release(y);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static uint32_t symbol_of(const char *graph, const char *name) {
  uint32_t index = 0, symbol = 0;
  OK(vyc_bundle_graph_find(bundle, &index, graph));
  OK(vyc_bundle_symbol_find(bundle, &symbol, index, name));
  return symbol;
}

static void a_graph_with_tables(void) {
  vyc_replay *replay = NULL;
  vyc_buffer *out = ramp(SLICES * N);
  OK(vyc_replay_load(&replay, NULL, 0, context, bundle, "table", 0));
  const vyc_symbol_value value = {
      .symbol = symbol_of("table", "out"), .buffer = out, .count = SLICES * N};
  for (int turn = 0; turn < 2; turn++) {
    OK(vyc_replay_launch(replay, &value, 1, NULL));
    float *found = contents(out, 0, SLICES * N);
    for (uint32_t i = 0; i < SLICES * N; i++) {
      const uint32_t from = SLICES * N - 1 - i;
      const float wanted = from % 2 == 0 ? 2.0f * (float)from + (float)(from / N % 3) : 0.0f;
      CHECK(found[i] == wanted + 1.0f);
    }
    free(found);
  }
  vyc_replay_release(replay);
  vyc_buffer_release(out);
}

static float result(float x) { return 3.0f * (2.0f * x + 1.0f) + 1.0f; }

/* A launch that reads from element `from` and writes from element `to` of the buffer, which is 0,
 * 1, 2, ... before; it takes so many launches. */
static void chained(vyc_replay *replay, vyc_buffer *reads, uint32_t from, vyc_buffer *writes,
                    uint32_t to, uint32_t count, bool set) {
  const vyc_symbol_value values[] = {{.symbol = symbol_of("chain", "out"),
                                      .buffer = writes,
                                      .offset = to * sizeof(float),
                                      .count = count},
                                     {.symbol = symbol_of("chain", "x"),
                                      .buffer = reads,
                                      .offset = from * sizeof(float),
                                      .count = count}};
  float *before = contents(reads, from * sizeof(float), count);
  if (set) {
    OK(vyc_replay_set(replay, values, 2));
    OK(vyc_replay_launch(replay, NULL, 0, NULL));
  } else {
    OK(vyc_replay_launch(replay, values, 2, NULL));
  }
  float *found = contents(writes, to * sizeof(float), count);
  for (uint32_t i = 0; i < count; i++) CHECK(found[i] == result(before[i]));
  free(found);
  free(before);
}

/* The merged kernel would read what it has written where its arrays meet. */
static void a_graph_whose_arrays_are_symbols(void) {
  vyc_replay *replay = NULL;
  OK(vyc_replay_load(&replay, NULL, 0, context, bundle, "chain", 0));
  for (int set = 0; set < 2; set++) {
    vyc_buffer *one = ramp(3 * N), *other = ramp(3 * N);
    chained(replay, one, 0, other, 0, N, set);
    chained(replay, one, 0, one, 5, N, set);
    chained(replay, one, 64, one, 64, N, set);
    chained(replay, one, 9, one, 0, N, set);
    chained(replay, other, 0, one, 0, N, set);
    chained(replay, one, 0, other, 0, N - 1, set);
    chained(replay, other, N, other, 0, N, set);
    vyc_buffer_release(one);
    vyc_buffer_release(other);
  }
  vyc_replay_release(replay);
}

/* ---- launches as one whose arrays are symbols --------------------------------------------------
 */

static void placed_launches_are_one_step(void) {
  uint32_t graph = 0;
  bool found = false;
  OK(vyc_bundle_graph_find(bundle, &graph, "placed"));
  vyc_bundle_step step = {.struct_size = sizeof step};
  for (uint32_t i = 0; !found && vyc_bundle_step_get(bundle, &step, graph, i) == VYC_OK; i++) {
    found = step.kind == VYC_STEP_ROWS && step.value_count == 2;
    if (step.kind == VYC_STEP_LAUNCH) break;
  }
  CHECK(found && step.values[0].kind == VYC_VALUE_SYMBOL &&
        step.values[0].index == symbol_of("placed", "x") &&
        step.values[1].index == symbol_of("placed", "z"));
}

/* `x` and `z` have so many elements from these on of a buffer. What `z` held is what other rows see
 * if they read it. */
static void placed(vyc_replay *replay, vyc_buffer *reads, uint32_t from, vyc_buffer *writes,
                   uint32_t to, uint32_t count, bool set) {
  vyc_buffer *out = ramp(SLICES * N);
  const vyc_symbol_value values[] = {
      {.symbol = symbol_of("placed", "out"), .buffer = out, .count = SLICES * N},
      {.symbol = symbol_of("placed", "x"),
       .buffer = reads,
       .offset = from * sizeof(float),
       .count = count},
      {.symbol = symbol_of("placed", "z"),
       .buffer = writes,
       .offset = to * sizeof(float),
       .count = count}};
  float *before = contents(reads, from * sizeof(float), count);
  if (set) {
    OK(vyc_replay_set(replay, values, 3));
    OK(vyc_replay_launch(replay, NULL, 0, NULL));
  } else {
    OK(vyc_replay_launch(replay, values, 3, NULL));
  }
  float *found = contents(out, 0, SLICES * N),
        *written = contents(writes, to * sizeof(float), count);
  for (uint32_t i = 0; i < SLICES * N; i++) {
    const uint32_t at = SLICES * N - 1 - i, row = at / N;
    float read = (float)at, wanted = 1.0f;
    if (row == 0) read = at < count ? before[at] : 0.0f;
    if (row != PLACED) wanted = 2.0f * read + (float)(row % 3) + 1.0f;
    CHECK(found[i] == wanted);
  }
  for (uint32_t i = 0; i < count; i++)
    CHECK(written[i] == 2.0f * (float)(PLACED * N + i) + (float)(PLACED % 3));
  free(before);
  free(found);
  free(written);
  vyc_buffer_release(out);
}

static void arrays_of_rows_are_symbols(void) {
  vyc_replay *replay = NULL;
  placed_launches_are_one_step();
  OK(vyc_replay_load(&replay, NULL, 0, context, bundle, "placed", 0));
  const uint64_t graphs = count().graph_instantiations;
  for (int set = 0; set < 2; set++) {
    vyc_buffer *one = ramp(3 * N), *other = ramp(3 * N);
    placed(replay, one, 0, other, 0, N, set);
    placed(replay, one, 64, other, N, N, set);
    placed(replay, one, 0, one, N, N, set);
    CHECK(set || count().graph_instantiations == graphs);
    placed(replay, one, 0, one, N - 1, N, set); /* they meet: the recorded steps run */
    CHECK(set || count().graph_instantiations == graphs + 1);
    placed(replay, one, 0, one, 0, N, set);
    placed(replay, other, 0, one, 0, N - 7, set); /* of another size */
    placed(replay, other, N, one, 0, N, set);
    vyc_buffer_release(one);
    vyc_buffer_release(other);
  }
  vyc_replay_release(replay);
}

int main(int argc, char **argv) {
  vyc_driver *driver = NULL;
  if (argc != 3) return 2;
  OK(vyc_driver_open(&driver, argv[1]));
  OK(vyc_context_open(&context, driver, 0));
  OK(vyc_bundle_open(&bundle, argv[2], NULL, 0));
  rows_of_a_kernel_are_one_launch();
  scalars_that_are_sizes_are_those_of_each_row();
  results_with_gaps_are_cleared();
  a_graph_with_tables();
  a_graph_whose_arrays_are_symbols();
  arrays_of_rows_are_symbols();
  vyc_bundle_release(bundle);
  vyc_context_release(context);
  vyc_driver_release(driver);
  return 0;
}
