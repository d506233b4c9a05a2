/* The parameter block of a run: each argument at its offset, as the kernel reads it. */
#include <stdlib.h>
#include <string.h>

#include "room.h"

static inline uint64_t address_of(const vyc_argument *argument) {
  return argument->buffer->address + argument->offset;
}

/* Copies of constant size, so that no function is called; host and device are little-endian.
 * Returns the bits that have changed. */
static inline uint64_t put(uint8_t *at, uint64_t value, uint32_t size) {
  uint64_t before = 0, after = 0;
  uint32_t word;
  switch (size) {
  case 8:
    memcpy(&before, at, 8);
    memcpy(at, &value, 8);
    return before ^ value;
  case 4:
    memcpy(&word, at, 4);
    memcpy(at, &value, 4);
    return word ^ (uint32_t)value;
  default:
    memcpy(&before, at, size);
    memcpy(&after, &value, size);
    memcpy(at, &value, size);
    return before ^ after;
  }
}

/* `addresses` NULL: those of the run's buffers. */
static inline uint64_t value_of(const vyc_block_parameter *p, const uint64_t *addresses,
                                const vyc_run *run, const vyc_hidden *hidden) {
  switch (p->kind) {
  case VYC_PARAMETER_POINTER:
    return addresses != NULL ? addresses[p->index] : address_of(&run->arguments[p->index]);
  case VYC_PARAMETER_SCALAR: return run->scalars[p->index];
  case VYC_PARAMETER_SIZE: return run->arguments[p->index].count;
  case VYC_PARAMETER_GRID_BARRIER: return hidden->barrier;
  default: return hidden->report;
  }
}

void vyc__block_write(const vyc_prepared *prepared, uint8_t *block, const uint64_t *addresses,
                      const vyc_run *run, const vyc_hidden *hidden) {
  for (uint32_t i = 0; i < prepared->parameter_count; i++) {
    const vyc_block_parameter *p = &prepared->parameters[i];
    put(block + p->offset, value_of(p, addresses, run, hidden), p->size);
  }
}

bool vyc__block_write_buffers(const vyc_prepared *prepared, uint8_t *block, const vyc_run *run,
                              const vyc_hidden *hidden) {
  uint64_t difference = 0;
  for (uint32_t i = 0; i < prepared->parameter_count; i++) {
    const vyc_block_parameter *p = &prepared->parameters[i];
    difference |= put(block + p->offset, value_of(p, NULL, run, hidden), p->size);
  }
  return difference != 0;
}

void vyc__block_pointers(const vyc_prepared *prepared, void **pointers, uint8_t *block) {
  for (uint32_t i = 0; i < prepared->parameter_count; i++)
    pointers[i] = block + prepared->parameters[i].offset;
}

/* ---- blocks for launches without a launch graph ---------------------------------------------- */

static vyc_spare *spare_make(const vyc_prepared *prepared) {
  const size_t pointers = prepared->parameter_count * sizeof(void *);
  vyc_spare *spare = calloc(1, sizeof *spare + pointers + prepared->block_bytes);
  if (spare == NULL) {
    vyc__fail(VYC_E_MEMORY, "launch", "out of host memory");
    return NULL;
  }
  atomic_init(&spare->taken, true);
  spare->block = (uint8_t *)(spare->pointers + prepared->parameter_count);
  vyc__block_pointers(prepared, spare->pointers, spare->block);
  return spare;
}

vyc_spare *vyc__spare_take(vyc_prepared *prepared) {
  vyc_spare *spare = atomic_load_explicit(&prepared->spares, memory_order_acquire);
  for (; spare != NULL; spare = spare->next)
    if (!atomic_load_explicit(&spare->taken, memory_order_relaxed) &&
        !atomic_exchange_explicit(&spare->taken, true, memory_order_acquire))
      return spare;
  spare = spare_make(prepared);
  if (spare == NULL) return NULL;
  spare->next = atomic_load(&prepared->spares);
  while (!atomic_compare_exchange_weak(&prepared->spares, &spare->next, spare)) {
  }
  return spare;
}

void vyc__spare_give(vyc_spare *spare) {
  atomic_store_explicit(&spare->taken, false, memory_order_release);
}

void vyc__spares_free(vyc_prepared *prepared) {
  vyc_spare *spare = atomic_load(&prepared->spares);
  while (spare != NULL) {
    vyc_spare *next = spare->next;
    free(spare);
    spare = next;
  }
}
