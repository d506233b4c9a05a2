/* Device and page-locked memory behind one face, for the programs that test the pools. */
#ifndef POOL_TEST_H
#define POOL_TEST_H

#include "dispatch_test.h"

enum { DEVICE, PINNED, KINDS };
#define MIB (UINT64_C(1) << 20)
#define LONG_NS INT64_C(600000000000)
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_UNKNOWN 999

/* ---- a context, and a prepared kernel on it -------------------------------------------------- */

/* Nothing of it is left, and the emulator is as it was at first. */
UNUSED static void end_context(vyc_context *context) {
  vyc_context_release(context);
  check_nothing_lives();
  CHECK(emulator_reset() == 0);
}

typedef struct scene {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared; /* scale, whose arguments are copied */
} scene;

UNUSED static scene begin_scene(int stream_mode) {
  scene s;
  CHECK(emulator_set("stream_mode", stream_mode) == 0);
  s.context = open_context();
  OK(vyc_context_set_patience(s.context, LONG_NS)); /* a trim waits for kernels, however slow */
  s.module = load_module(s.context);
  s.prepared = scale_prepared(s.module, COPIED);
  return s;
}

UNUSED static void end_scene(const scene *s) {
  vyc_prepared_release(s->prepared);
  vyc_module_release(s->module);
  end_context(s->context);
}

/* ---- one face for both kinds ----------------------------------------------------------------- */

typedef struct piece {
  vyc_buffer *buffer;
  vyc_pinned *pinned;
  uint8_t *data; /* the emulator's device memory is host memory */
  uint64_t bytes;
} piece;

UNUSED static vyc_status try_piece(piece *p, int kind, vyc_context *context, uint64_t bytes) {
  *p = (piece){.bytes = bytes};
  uint64_t address = 0;
  void *data = NULL;
  if (kind == PINNED) {
    const vyc_status status = vyc_pinned_alloc(&p->pinned, context, bytes);
    if (status == VYC_OK) OK(vyc_pinned_data(p->pinned, &data));
    p->data = data;
    return status;
  }
  vyc_status status = vyc_buffer_try_alloc(&p->buffer, context, bytes);
  if (status != VYC_OK) status = vyc_buffer_alloc(&p->buffer, context, bytes);
  if (status == VYC_OK) OK(vyc_buffer_address(p->buffer, &address));
  p->data = (uint8_t *)(uintptr_t)address;
  return status;
}

UNUSED static piece new_piece(int kind, vyc_context *context, uint64_t bytes) {
  piece p;
  OK(try_piece(&p, kind, context, bytes));
  return p;
}

UNUSED static void end_piece(const piece *p) {
  vyc_pinned_release(p->pinned);
  if (p->buffer != NULL && vyc_buffer_try_release(p->buffer) != VYC_OK)
    vyc_buffer_release(p->buffer);
}

typedef struct stats {
  uint64_t live, idle, peak, count, hits, misses, frees, budget;
} stats;

UNUSED static stats read_stats(int kind, vyc_context *context) {
  vyc_memory_stats s = {.struct_size = sizeof s};
  OK(vyc_context_memory_stats(context, &s));
  if (kind == PINNED)
    return (stats){s.pinned_live_bytes, s.pinned_idle_bytes,  s.pinned_peak_bytes,
                   s.pinned_live_count, s.pinned_hits,        s.pinned_misses,
                   s.pinned_frees,      s.pinned_budget_bytes};
  return (stats){s.live_bytes, s.idle_bytes, s.peak_bytes, s.live_count,
                 s.hits,       s.misses,     s.frees,      s.budget_bytes};
}

UNUSED static void set_budget(int kind, vyc_context *context, uint64_t bytes) {
  vyc_memory_stats s = {.struct_size = sizeof s};
  OK(vyc_context_memory_stats(context, &s));
  OK(vyc_context_set_memory_budget(context, kind == DEVICE ? bytes : s.budget_bytes,
                                   kind == PINNED ? bytes : s.pinned_budget_bytes));
}

static const uint64_t SIZES[] = {0,        1,   256,     257,         4096,   4097,
                                 5 * 1024, MIB, 2 * MIB, 2 * MIB + 1, 7 * MIB};
#define SIZE_COUNT (sizeof SIZES / sizeof SIZES[0])

#endif
