/* Fuzzing of what follows the loader: the kernels and graphs of an accepted bundle are loaded on
 * the emulator, sized and given values, or refused; nothing of the driver's is left over.
 *
 * Nothing is launched: device code runs with the rights of the process, and may run for ever. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle_fuzz.h"

/* What would take the emulator long without being wrong. */
enum { MOST_ARRAY_BYTES = 1 << 20, MOST_TIMES = 64, MOST_COUNT = 64 };

static vyc_context *context;
static vyc_buffer *buffer;
static int (*count_live)(const char *key, uint64_t *value);

static void check_left(const char *kind, uint64_t most) {
  uint64_t value = 0;
  if (count_live(kind, &value) != 0 || value > most) abort();
}

static void check(vyc_status status) {
  if (status == VYC_OK) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  fprintf(stderr, "%s: %s\n", error.operation, error.message);
  abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  vyc_driver *driver = NULL;
  check(vyc_driver_open(&driver, VYC_EMULATOR));
  check(vyc_context_open(&context, driver, 0));
  check(vyc_buffer_alloc(&buffer, context, 8 * MOST_COUNT));
  *(void **)&count_live = dlsym(dlopen(VYC_EMULATOR, RTLD_NOW), "vyre_emulator_count");
  if (count_live == NULL) abort();
  vyc_driver_release(driver);
  return 0;
}

static void load_kernel(vyc_bundle *bundle, uint32_t index) {
  vyc_bundle_kernel k = {.struct_size = sizeof k};
  vyc_bundled_kernel *kernel = NULL;
  vyc_argument arguments[256] = {{0}};
  uint64_t scalars[256] = {0};
  if (vyc_bundle_kernel_get(bundle, &k, index) != VYC_OK) abort();
  if (vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, k.name, 0) != VYC_OK) return;
  for (uint32_t i = 0; i < 256; i++) {
    scalars[i] = i % 5;
    arguments[i] =
        (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = i % MOST_COUNT, .buffer = buffer};
  }
  vyc_run run = {.struct_size = sizeof run,
                 .argument_count = k.buffer_count,
                 .scalar_count = k.scalar_count,
                 .arguments = arguments,
                 .scalars = scalars,
                 .timeout_ns = -1};
  fuzz_sum += vyc_bundled_kernel_resolve(kernel, &run) == VYC_OK;
  vyc_bundled_kernel_release(kernel);
}

static int is_small(vyc_bundle *bundle, uint32_t graph, const vyc_bundle_graph *g) {
  for (uint32_t i = 0; i < g->array_count; i++) {
    vyc_bundle_array array = {.struct_size = sizeof array};
    if (vyc_bundle_array_get(bundle, &array, graph, i) != VYC_OK) abort();
    if (array.bytes > MOST_ARRAY_BYTES) return 0;
  }
  uint64_t times = 1;
  for (uint32_t i = 0; i < g->step_count; i++) {
    vyc_bundle_step step = {.struct_size = sizeof step};
    if (vyc_bundle_step_get(bundle, &step, graph, i) != VYC_OK) abort();
    if (step.times > MOST_TIMES) return 0;
    if (step.kind == VYC_STEP_REPEAT && step.times > 0) times *= step.times;
    if (times > MOST_TIMES) return 0;
  }
  return 1;
}

static void set_symbols(vyc_replay *replay, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    vyc_symbol_value value = {.symbol = i, .bits = i, .buffer = buffer, .count = MOST_COUNT / 2};
    fuzz_sum += vyc_replay_set(replay, &value, 1) == VYC_OK;
    value.buffer = NULL;
    value.count = 0;
    fuzz_sum += vyc_replay_set(replay, &value, 1) == VYC_OK;
    if (vyc_replay_get(replay, &value, i) == VYC_OK) vyc_buffer_release(value.buffer);
  }
}

static void load_graph(vyc_bundle *bundle, uint32_t index) {
  vyc_bundle_graph g = {.struct_size = sizeof g};
  vyc_replay *replay = NULL;
  if (vyc_bundle_graph_get(bundle, &g, index) != VYC_OK) abort();
  if (!is_small(bundle, index, &g)) return;
  if (vyc_replay_load(&replay, NULL, 0, context, bundle, g.name, 0) != VYC_OK) return;
  set_symbols(replay, g.symbol_count);
  vyc_replay_release(replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  vyc_bundle *bundle = NULL;
  if (vyc_bundle_open(&bundle, NULL, data, bytes) != VYC_OK) return -1;
  vyc_bundle_info info = {.struct_size = sizeof info};
  if (vyc_bundle_info_get(bundle, &info) != VYC_OK) abort();
  for (uint32_t i = 0; i < info.kernel_count; i++) load_kernel(bundle, i);
  for (uint32_t i = 0; i < info.graph_count; i++) load_graph(bundle, i);
  vyc_bundle_release(bundle);
  if (vyc_context_trim(context) != VYC_OK) abort();
  check_left("modules", 0);
  check_left("execs", 0);
  check_left("graphs", 0);
  check_left("allocations", 1);
  return 0;
}
