/* A host that launches a bundle's graph with grid barriers: `turns DRIVER BUNDLE`.
 *
 * Its symbol `h` has N elements by default, and a launch makes each its right neighbor's value plus
 * one, twice. A second buffer is given for one launch of a smaller grid. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "vyre_cuda.h"

#define N 256u
#define SMALL 128u

static void ok(vyc_status status, int line) {
  if (status == VYC_OK) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  fprintf(stderr, "%s:%d: %s\n", __FILE__, line, error.message);
  exit(1);
}
#define OK(call) ok(call, __LINE__)

/* Began as 0, 1, 2, ... and was turned so many times. */
static void verify(vyc_buffer *buffer, uint64_t offset, uint32_t count, uint32_t turns) {
  uint32_t found[N];
  OK(vyc_copy_out(buffer, offset, found, count * sizeof(uint32_t)));
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t wanted = (i + turns) % count + turns;
    if (found[i] == wanted) continue;
    fprintf(stderr, "element %u of %u is %u, not %u\n", i, count, found[i], wanted);
    exit(1);
  }
}

int main(int argc, char **argv) {
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  vyc_bundle *bundle = NULL;
  vyc_replay *replay = NULL;
  vyc_buffer *small = NULL;
  uint32_t start[SMALL];
  if (argc != 3) return 2;
  OK(vyc_driver_open(&driver, argv[1]));
  OK(vyc_context_open(&context, driver, 0));
  OK(vyc_bundle_open(&bundle, argv[2], NULL, 0));
  OK(vyc_replay_load(&replay, NULL, 0, context, bundle, "turns", 0));
  for (uint32_t i = 0; i < SMALL; i++) start[i] = i;
  OK(vyc_buffer_alloc(&small, context, sizeof start));
  OK(vyc_copy_in(small, 0, start, sizeof start));
  const vyc_symbol_value given = {.symbol = 0, .buffer = small, .count = SMALL};
  OK(vyc_replay_launch(replay, NULL, 0, NULL));
  OK(vyc_replay_launch(replay, &given, 1, NULL));
  OK(vyc_replay_launch(replay, NULL, 0, NULL));
  vyc_symbol_value h;
  OK(vyc_replay_get(replay, &h, 0));
  verify(h.buffer, h.offset, N, 4);
  verify(small, 0, SMALL, 2);
  vyc_buffer_release(h.buffer);
  vyc_buffer_release(small);
  vyc_replay_release(replay);
  vyc_bundle_release(bundle);
  vyc_context_release(context);
  vyc_driver_release(driver);
  return 0;
}
