/* Scenes: small uses of the C layer that may be stopped by any failure on the way. Each gives the
 * status of the first call that failed, with everything released that it had got; where nothing
 * failed it has checked what was computed. */
#ifndef SCENES_H
#define SCENES_H

#include "bundle_test.h"

#define DO(call)                                                                                   \
  do {                                                                                             \
    status = (call);                                                                               \
    if (status != VYC_OK) goto end;                                                                \
  } while (0)

#define MIB (UINT64_C(1) << 20)

/* ---- what most scenes need ------------------------------------------------------------------- */

typedef struct bench {
  vyc_module *module;
  vyc_prepared *streamed, *copied, *judge, *known;
  vyc_buffer *in, *out;
} bench;

static void bench_end(bench *b) {
  vyc_buffer_release(b->in);
  vyc_buffer_release(b->out);
  vyc_prepared_release(b->streamed);
  vyc_prepared_release(b->copied);
  vyc_prepared_release(b->judge);
  vyc_prepared_release(b->known);
  vyc_module_release(b->module);
}

/* To be ended, also when it fails. */
static vyc_status bench_make(bench *b, vyc_context *context) {
  vyc_status status = VYC_OK;
  const vyc_prepared_desc streamed = scale_desc(STREAMED), copied = scale_desc(COPIED);
  const vyc_prepared_desc judge = {.struct_size = sizeof judge,
                                   .block = {1, 1, 1},
                                   .parameter_bytes = 16,
                                   .parameter_count = 2,
                                   .scalar_count = 1,
                                   .entry = "judge",
                                   .parameters = JUDGE_PARAMETERS,
                                   .tag = 7};
  const vyc_known size = {VYC_PARAMETER_SIZE, 0, 0, 0, N, "px.size"};
  vyc_prepared_desc known = streamed;
  known.known = &size;
  known.known_count = 1;
  float data[N];
  for (uint32_t i = 0; i < N; i++) data[i] = (float)i;
  DO(vyc_module_load(&b->module, NULL, 0, context, PTX, strlen(PTX) + 1));
  DO(vyc_prepared_create(&b->streamed, b->module, &streamed));
  DO(vyc_prepared_create(&b->copied, b->module, &copied));
  DO(vyc_prepared_create(&b->judge, b->module, &judge));
  DO(vyc_prepared_create(&b->known, b->module, &known));
  DO(vyc_buffer_alloc(&b->in, context, BYTES));
  DO(vyc_buffer_alloc(&b->out, context, BYTES));
  DO(vyc_copy_in(b->in, 0, data, BYTES));
end:
  return status;
}

/* The buffer has `factor` times what the bench's `in` has. */
UNUSED static vyc_status look_at(vyc_buffer *buffer, float factor) {
  float data[N];
  const vyc_status status = vyc_copy_out(buffer, 0, data, BYTES);
  for (uint32_t i = 0; status == VYC_OK && i < N; i++) CHECK(data[i] == factor * (float)i);
  return status;
}

/* ---- contexts and memory --------------------------------------------------------------------- */

UNUSED static vyc_status opens(vyc_context *none) {
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  vyc_buffer *buffer = NULL;
  vyc_status status = VYC_OK;
  (void)none;
  DO(vyc_driver_open(&driver, emulator_path));
  DO(vyc_context_open(&context, driver, 0));
  DO(vyc_buffer_alloc(&buffer, context, 8));
  DO(vyc_fill_zero(buffer, 0, 8));
  DO(vyc_context_close(context));
  CHECK(vyc_context_synchronize(context) == VYC_E_UNAVAILABLE);
end:
  vyc_buffer_release(buffer);
  vyc_context_release(context);
  vyc_driver_release(driver);
  return status;
}

UNUSED static vyc_status allocates(vyc_context *context) {
  static uint8_t mine[8192] __attribute__((aligned(4096)));
  vyc_buffer *buffers[4] = {NULL};
  vyc_pinned *pinned = NULL, *large = NULL, *registered = NULL;
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  vyc_status status = VYC_OK;
  static const uint64_t sizes[] = {100, 7 * MIB, 9 * MIB, 7 * MIB};
  for (int turn = 0; turn < 2; turn++)
    for (size_t i = 0; i < 4; i++) {
      vyc_buffer_release(buffers[i]);
      buffers[i] = NULL;
      status = vyc_buffer_try_alloc(&buffers[i], context, sizes[i]);
      if (status == VYC_NOT_READY) DO(vyc_buffer_alloc(&buffers[i], context, sizes[i]));
      DO(vyc_fill(buffers[i], 0, 3, 1, sizes[i]));
    }
  DO(vyc_pinned_alloc(&pinned, context, 100));
  DO(vyc_pinned_alloc(&large, context, 3 * MIB));
  DO(vyc_pinned_register(&registered, context, mine, sizeof mine));
  DO(vyc_context_memory_stats(context, &stats));
  CHECK(stats.live_count == 4 && stats.pinned_live_count == 2);
  DO(vyc_context_trim(context));
end:
  for (size_t i = 0; i < 4; i++) vyc_buffer_release(buffers[i]);
  vyc_pinned_release(pinned);
  vyc_pinned_release(large);
  vyc_pinned_release(registered);
  return status;
}

static vyc_status copies(vyc_context *context) {
  enum { MANY = 20 };
  static uint8_t up[3 * MIB], down[3 * MIB];
  vyc_buffer *one = NULL, *two = NULL;
  vyc_pinned *pinned = NULL;
  void *locked = NULL;
  vyc_transfer items[MANY];
  vyc_status status = VYC_OK;
  for (uint64_t i = 0; i < sizeof up; i++) up[i] = (uint8_t)(i * 7);
  DO(vyc_buffer_alloc(&one, context, sizeof up));
  DO(vyc_buffer_alloc(&two, context, sizeof up));
  DO(vyc_pinned_alloc(&pinned, context, 2 * MIB));
  DO(vyc_pinned_data(pinned, &locked));
  DO(vyc_copy_in(one, 0, up, sizeof up));
  DO(vyc_copy(two, 0, one, 0, sizeof up));
  DO(vyc_copy_out(two, 0, down, sizeof down));
  CHECK(memcmp(up, down, sizeof up) == 0);
  for (uint32_t i = 0; i < MANY; i++)
    items[i] = (vyc_transfer){.buffer = i % 2 ? one : two,
                              .offset = 100 * i,
                              .bytes = 50,
                              .data = up,
                              .result = down + 50 * i};
  items[0] = (vyc_transfer){
      .buffer = two, .bytes = 2 * MIB, .data = locked, .result = locked, .pinned = pinned};
  memset(locked, 5, 2 * MIB);
  DO(vyc_upload(context, items, MANY));
  memset(locked, 0, 2 * MIB);
  DO(vyc_download(context, items, MANY));
  CHECK(*(uint8_t *)locked == 5 && memcmp(down + 50 * (MANY - 1), up, 50) == 0);
end:
  vyc_buffer_release(one);
  vyc_buffer_release(two);
  vyc_pinned_release(pinned);
  return status;
}

/* ---- modules --------------------------------------------------------------------------------- */

static vyc_status links(vyc_context *context) {
  void *image = NULL;
  size_t bytes = 0;
  vyc_module *module = NULL;
  vyc_prepared *prepared = NULL;
  vyc_function_info info = {.struct_size = sizeof info};
  const vyc_prepared_desc desc = scale_desc(STREAMED);
  char log[256];
  uint32_t value = 0, other = 0;
  vyc_status status = VYC_OK;
  DO(vyc_module_link(&image, &bytes, log, sizeof log, context, PTX, strlen(PTX) + 1));
  DO(vyc_module_load(&module, log, sizeof log, context, image, bytes));
  DO(vyc_module_parameter(module, &value, &other, "scale", 3));
  CHECK(value == 20 && other == 4);
  DO(vyc_module_block_size(module, &value, "scale", 0, 0));
  DO(vyc_module_resident_blocks(module, &value, "scale", 128, 0));
  DO(vyc_prepared_create(&prepared, module, &desc));
  DO(vyc_prepared_function(prepared, &info));
end:
  free(image);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  return status;
}

#endif
