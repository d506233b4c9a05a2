/* The parameters of a row, as the kernel finds them in the table: a list of what is written where,
 * made once for all rows. */
#ifndef VYC_LAUNCH_ROW_BLOCK_H
#define VYC_LAUNCH_ROW_BLOCK_H

#include "rows.h"

#define VYC_ROW_PLAN 48u /* parameters in order of their kinds; of kernels with more, none */

typedef struct vyc_row_place {
  uint16_t offset, index;
} vyc_row_place;

typedef struct vyc_row_block {
  const vyc_block_parameter *rest, *end; /* those of any kind and size */
  uint32_t pointers, sizes, short_sizes, scalars, short_scalars; /* before which place they end */
  vyc_row_place places[VYC_ROW_PLAN];
} vyc_row_block;

vyc_row_block vyc__row_block_of(const vyc_prepared *prepared);
/* Any kind and size: what comes from no argument the entry has itself. */
void vyc__row_rest_write(const vyc_row_block *plan, uint8_t *block, const vyc_row_array *arrays,
                         const uint64_t *scalars);

static inline void vyc__row_block_write(const vyc_row_block *plan, uint8_t *block,
                                        const vyc_row_array *arrays, const uint64_t *scalars) {
  const vyc_row_place *const places = plan->places, *at = places;
  const vyc_row_place *const pointers = places + plan->pointers, *const sizes =
                                                                     places + plan->sizes;
  const vyc_row_place *const short_sizes = places + plan->short_sizes;
  const vyc_row_place *const longs = places + plan->scalars, *const end =
                                                                 places + plan->short_scalars;
  for (; at != pointers; at++)
    memcpy(block + at->offset, &arrays[at->index].begin, sizeof(uint64_t));
  for (; at != sizes; at++) memcpy(block + at->offset, &arrays[at->index].count, sizeof(uint64_t));
  for (; at != short_sizes; at++)
    memcpy(block + at->offset, &arrays[at->index].count, sizeof(uint32_t));
  for (; at != longs; at++) memcpy(block + at->offset, &scalars[at->index], sizeof(uint64_t));
  for (; at != end; at++) memcpy(block + at->offset, &scalars[at->index], sizeof(uint32_t));
  if (VYC_UNLIKELY(plan->rest != plan->end)) vyc__row_rest_write(plan, block, arrays, scalars);
}

#endif
