/* From how many ranges of how many bytes on one kernel reads them faster than a copy each: the
 * kernel of csrc/memory/gather.c, and copies to the same page-locked memory, both with their wait.
 *
 *   gather LIBCUDA [TURNS]
 *
 * A line of JSON for each point, the medians in ns: of copies, and of launches of up to 32 ranges,
 * as the library makes them, and of up to 64. The points go beyond each limit of gather.h, and
 * ranges are compared. The ways take turns. On stderr the same as a table, with the faster way. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../raw/support.h"
#include "memory/gather_text.h"

enum { WAYS = 3, MOST_RANGES = 256, MOST_BYTES = 8192, APART = 2 * MOST_BYTES, WARM = 20 };

static const uint32_t RANGES[] = {1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, 256};
static const uint32_t BYTES[] = {4, 16, 64, 256, 1024, 2048, 4096, 8192};
static const uint32_t ROWS[WAYS] = {0, 32, 64}; /* 0: copies */

static CUstream stream;
static CUfunction functions[WAYS];
static CUdeviceptr source;
static uint8_t *host; /* what the source has */
static uint8_t *place;
static CUdeviceptr place_of_device;

static void load(uint32_t way) {
  CUmodule module;
  char *text = raw_alloc(VYC_GATHER_TEXT_BYTES);
  vyc__gather_text(text, ROWS[way]);
  CU(cuModuleLoadData(&module, text));
  CU(cuModuleGetFunction(&functions[way], module, "vyc_gather"));
  free(text);
}

static void copy(uint32_t ranges, uint32_t bytes) {
  for (uint32_t i = 0; i < ranges; i++)
    CU(cuMemcpyDtoHAsync(place + (size_t)i * MOST_BYTES, source + (uint64_t)i * APART, bytes,
                         stream));
}

static void gather(uint32_t way, uint32_t ranges, uint32_t bytes) {
  static vyc_gather_row rows[64];
  void *parameters[] = {rows};
  const uint32_t threads = (bytes / 16 + 1 + 31) / 32 * 32;
  for (uint32_t first = 0; first < ranges; first += ROWS[way]) {
    const uint32_t count = ranges - first < ROWS[way] ? ranges - first : ROWS[way];
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t from = source + (uint64_t)(first + i) * APART;
      const uint64_t to = place_of_device + (uint64_t)(first + i) * MOST_BYTES;
      rows[i] = (vyc_gather_row){from, to - from, from + bytes};
    }
    CU(cuLaunchKernel(functions[way], count, 1, 1, threads, 1, 1, 0, stream, parameters, NULL));
  }
}

static void run(uint32_t way, uint32_t ranges, uint32_t bytes) {
  if (way == 0)
    copy(ranges, bytes);
  else
    gather(way, ranges, bytes);
  CU(cuStreamSynchronize(stream));
}

static void verify(uint32_t way, uint32_t ranges, uint32_t bytes) {
  memset(place, RAW_POISON, (size_t)MOST_RANGES * MOST_BYTES);
  run(way, ranges, bytes);
  for (uint32_t i = 0; i < ranges; i++)
    if (memcmp(place + (size_t)i * MOST_BYTES, host + (size_t)i * APART, bytes) != 0)
      raw_fail("%u ranges of %u bytes: range %u is wrong", ranges, bytes, i);
}

static int by_value(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void measure(uint32_t ranges, uint32_t bytes, uint32_t turns, uint64_t *samples[WAYS]) {
  uint32_t best = 0;
  for (uint32_t way = 0; way < WAYS; way++) verify(way, ranges, bytes);
  const uint32_t warm = turns < WARM ? turns : WARM;
  for (uint32_t turn = 0; turn < turns + warm; turn++)
    for (uint32_t way = 0; way < WAYS; way++) {
      const uint64_t begin = raw_now_ns();
      run(way, ranges, bytes);
      samples[way][turn < warm ? 0 : turn - warm] = raw_now_ns() - begin;
    }
  for (uint32_t way = 0; way < WAYS; way++)
    qsort(samples[way], turns, sizeof *samples[way], by_value);
  for (uint32_t way = 1; way < WAYS; way++)
    if (samples[way][turns / 2] < samples[best][turns / 2]) best = way;
  printf("{\"ranges\": %u, \"bytes\": %u, \"copies_ns\": %lu, \"rows_32_ns\": %lu, "
         "\"rows_64_ns\": %lu}\n",
         ranges, bytes, (unsigned long)samples[0][turns / 2], (unsigned long)samples[1][turns / 2],
         (unsigned long)samples[2][turns / 2]);
  fprintf(stderr, "%6u ranges of %5u bytes: copies %8.2f us, kernel %7.2f us, of 64 %7.2f us  %s\n",
          ranges, bytes, (double)samples[0][turns / 2] / 1e3, (double)samples[1][turns / 2] / 1e3,
          (double)samples[2][turns / 2] / 1e3,
          best == 0   ? "copies"
          : best == 1 ? "32"
                      : "64");
}

static void make_memory(void) {
  const size_t bytes = (size_t)MOST_RANGES * APART;
  void *pinned = NULL;
  host = raw_alloc(bytes);
  for (size_t i = 0; i < bytes; i++) host[i] = (uint8_t)(i * 31 + i / 251);
  CU(cuMemAlloc(&source, bytes));
  CU(cuMemcpyHtoD(source, host, bytes));
  CU(cuMemHostAlloc(&pinned, (size_t)MOST_RANGES * MOST_BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
  CU(cuMemHostGetDevicePointer(&place_of_device, pinned, 0));
  place = pinned;
}

int main(int count, char **words) {
  CUcontext context;
  uint64_t *samples[WAYS];
  const uint32_t turns = count > 2 ? (uint32_t)strtoul(words[2], NULL, 10) : 300;
  raw_open(count > 1 ? words[1] : "libcuda.so.1");
  raw_open_device(&context);
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  make_memory();
  for (uint32_t way = 1; way < WAYS; way++) load(way);
  for (uint32_t way = 0; way < WAYS; way++) samples[way] = raw_alloc(turns * sizeof **samples);
  for (size_t b = 0; b < sizeof BYTES / sizeof *BYTES; b++)
    for (size_t r = 0; r < sizeof RANGES / sizeof *RANGES; r++)
      measure(RANGES[r], BYTES[b], turns, samples);
  return 0;
}
