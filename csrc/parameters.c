/* The parameter block of a run: each argument at its place, as the kernel reads it. */
#include <string.h>

#include "plan.h"

uint64_t *vyc__report_cell(const vyc_block *block) { return (uint64_t *)(uintptr_t)block->address; }

void vyc__report_reset(const vyc_block *block) {
  uint64_t *cell = vyc__report_cell(block);
  memset(cell, 0, VYC_REPORT_BYTES);
  cell[0] = VYC_REPORT_NONE;
}

/* Of a known size each, so that no function is called; little-endian host and device. */
static inline void store(uint8_t *to, uint64_t value, uint32_t size) {
  switch (size) {
  case 8: memcpy(to, &value, 8); break;
  case 4: memcpy(to, &value, 4); break;
  case 2: memcpy(to, &value, 2); break;
  case 1: memcpy(to, &value, 1); break;
  default: memcpy(to, &value, size); break;
  }
}

static inline uint64_t value_of(const vyc_place_in_block *p, const uint64_t *addresses,
                                const vyc_run *run, const vyc_hidden *hidden) {
  switch (p->kind) {
  case VYC_PARAMETER_POINTER: return addresses[p->index];
  case VYC_PARAMETER_SCALAR: return run->scalars[p->index];
  case VYC_PARAMETER_SIZE: return run->arguments[p->index].count;
  case VYC_PARAMETER_GRID_BARRIER: return hidden->barrier;
  default: return hidden->report;
  }
}

void vyc__block_write(const vyc_plan *plan, uint8_t *block, const uint64_t *addresses,
                      const vyc_run *run, const vyc_hidden *hidden) {
  for (uint32_t i = 0; i < plan->parameter_count; i++) {
    const vyc_place_in_block *p = &plan->parameters[i];
    store(block + p->offset, value_of(p, addresses, run, hidden), p->size);
  }
}
