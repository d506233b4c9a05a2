/* What the rows touch of a step that is many launches as one, and holds on it; lists of buffers. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

vyc_status vyc__row_memory_new(vyc_row_memory **rows_out, uint32_t accesses, uint32_t buffers) {
  vyc_row_memory *rows =
      malloc(sizeof *rows + accesses * sizeof(vyc_access) + buffers * sizeof(vyc_buffer *));
  if (rows == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  rows->access_count = accesses;
  rows->buffer_count = 0;
  rows->own = NULL;
  rows->accesses = (vyc_access *)(void *)(rows + 1);
  rows->buffers = (vyc_buffer **)(void *)(rows->accesses + accesses);
  *rows_out = rows;
  return VYC_OK;
}

vyc_status vyc__row_memory_copy(vyc_row_memory **copy_out, const vyc_row_memory *rows) {
  VYC_TRY(vyc__row_memory_new(copy_out, rows->access_count, rows->buffer_count));
  vyc_row_memory *copy = *copy_out;
  memcpy(copy->accesses, rows->accesses, rows->access_count * sizeof *rows->accesses);
  for (uint32_t i = 0; i < rows->buffer_count; i++) {
    copy->buffers[copy->buffer_count++] = rows->buffers[i];
    vyc__child_retain(&rows->buffers[i]->child);
  }
  return VYC_OK;
}

void vyc__row_memory_drop(vyc_row_memory *rows) {
  if (rows == NULL) return;
  for (uint32_t i = 0; i < rows->buffer_count; i++) vyc_buffer_release(rows->buffers[i]);
  vyc__own_rows_drop(rows->own);
  free(rows);
}

static int by_address(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)*(vyc_buffer *const *)a;
  const uintptr_t y = (uintptr_t)*(vyc_buffer *const *)b;
  return x < y ? -1 : x > y ? 1 : 0;
}

uint32_t vyc__buffers_once(vyc_buffer **buffers, uint32_t count) {
  uint32_t kept = 0;
  if (count > 1) qsort(buffers, count, sizeof *buffers, by_address);
  for (uint32_t i = 0; i < count; i++)
    if (kept == 0 || buffers[kept - 1] != buffers[i]) buffers[kept++] = buffers[i];
  return kept;
}

/* ---- arrays in places ------------------------------------------------------------------------ */

/* The first range that ends behind this address, or the number of all. */
static uint32_t first_behind(const vyc_row_memory *rows, uint64_t address) {
  uint32_t low = 0, high = rows->access_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (rows->accesses[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool meets(const vyc_row_memory *rows, const vyc_argument *argument,
                  const vyc_binding *binding) {
  const uint64_t begin = argument->buffer->address + argument->offset;
  const uint64_t end = begin + argument->count * binding->element_bytes;
  uint32_t i = begin == end ? rows->access_count : first_behind(rows, begin);
  for (; i < rows->access_count && rows->accesses[i].begin < end; i++)
    if (binding->role != VYC_ROLE_IN || rows->accesses[i].write) return true;
  return false;
}

vyc_status vyc__row_memory_check(const vyc_step *step, const vyc_run *run) {
  const vyc_argument *before = step->base->arguments;
  for (uint32_t i = 1; i < step->prepared->binding_count; i++) {
    const vyc_argument *now = &run->arguments[i];
    if (now->buffer == before[i].buffer && now->offset == before[i].offset) continue;
    if (meets(step->rows, now, &step->prepared->bindings[i]))
      return vyc__fail(VYC_E_INVALID, "graph",
                       "the array in place %u of many launches as one shares memory with another "
                       "row, and one of the two writes it: launch these rows in steps of their own",
                       i);
  }
  return VYC_OK;
}
