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

bool vyc__block_change(const vyc_plan *plan, uint8_t *block, const uint64_t *addresses,
                       const vyc_run *run) {
  const vyc_hidden none = {0, 0};
  uint64_t difference = 0;
  for (uint32_t i = 0; i < plan->parameter_count; i++) {
    const vyc_place_in_block *p = &plan->parameters[i];
    if (p->kind > VYC_PARAMETER_SIZE) continue;
    const uint64_t value = value_of(p, addresses, run, &none);
    uint8_t *at = block + p->offset;
    if (VYC_LIKELY(p->size == 8)) {
      uint64_t before;
      memcpy(&before, at, 8);
      memcpy(at, &value, 8);
      difference |= before ^ value;
    } else if (VYC_LIKELY(p->size == 4)) {
      uint32_t before;
      const uint32_t word = (uint32_t)value;
      memcpy(&before, at, 4);
      memcpy(at, &word, 4);
      difference |= before ^ word;
    } else {
      difference |= (uint64_t)(memcmp(at, &value, p->size) != 0);
      store(at, value, p->size);
    }
  }
  return difference != 0;
}
