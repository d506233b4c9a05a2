/* The driver's own stream-ordered pool: an allocation and its release. */
#include "twins.h"

static struct {
  CUstream stream;
  size_t bytes[16];
  CUdeviceptr last;
} s;

static void open(const raw_options *o) {
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  for (uint32_t i = 0; i < RAW_COUNT(s.bytes); i++)
    s.bytes[i] = o->elements * sizeof(float) << (i % 4);
}

static void alloc_free(uint32_t set) {
  CUdeviceptr address = 0;
  CU(cuMemAllocAsync(&address, s.bytes[set], s.stream));
  s.last = address;
  CU(cuMemFreeAsync(address, s.stream));
}

static void wait(void) { CU(cuStreamSynchronize(s.stream)); }

static void poison(const raw_twin *t, uint32_t set) {
  (void)t;
  (void)set;
  s.last = 0;
}

static bool is_right(const raw_twin *t, uint32_t set) {
  (void)t;
  (void)set;
  return s.last != 0;
}

static const char *absent(void) {
  if (cu.call_cuMemAllocAsync != NULL && cu.call_cuMemFreeAsync != NULL) return NULL;
  return "the driver library has no cuMemAllocAsync";
}

static uint32_t sets(const raw_options *o) {
  (void)o;
  return RAW_COUNT(s.bytes);
}

static uint32_t trips(const raw_options *o) { return o->trips; }

static const raw_twin TWINS[] = {{"alloc_free_async", alloc_free, true, true, false, false}};

const raw_group pool_group = {true,     open,   sets,  trips,           NULL, wait, poison,
                              is_right, absent, TWINS, RAW_COUNT(TWINS)};
