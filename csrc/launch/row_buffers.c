/* Whether launches are independent because each has buffers of its own. */
#include <stdlib.h>

#include "rows.h"

/* By linear probing; an address is even, and its lowest bit says that the buffer is written. */
typedef struct buffer_set {
  uintptr_t *places;
  uint32_t shift, mask;
} buffer_set;

#define WRITTEN ((uintptr_t)1)
#define SPREAD UINT64_C(0x9e3779b97f4a7c15) /* 2^64 by the golden ratio */
#define MOST (UINT32_C(1) << 24) /* arguments */

/* At least twice as many places. */
static bool set_begin(buffer_set *set, uint32_t count) {
  uint32_t bits = 4;
  while (UINT32_C(1) << bits < 2 * count) bits++;
  set->shift = 64 - bits;
  set->mask = (UINT32_C(1) << bits) - 1;
  set->places = calloc((size_t)1 << bits, sizeof *set->places);
  return set->places != NULL;
}

/* False: it was there, and one of the two is written. */
static inline bool set_add(const buffer_set *set, const vyc_buffer *buffer, uintptr_t written) {
  const uintptr_t key = (uintptr_t)buffer;
  uint32_t at = (uint32_t)(key * SPREAD >> set->shift);
  for (;; at = (at + 1) & set->mask) {
    const uintptr_t there = set->places[at];
    if (there == 0) break;
    if ((there & ~WRITTEN) == key) return ((there | written) & WRITTEN) == 0;
  }
  set->places[at] = key | written;
  return true;
}

bool vyc__row_buffers_are_apart(const vyc_many *many) {
  const vyc_prepared *prepared = many->prepared;
  const uint32_t across = prepared->binding_count;
  buffer_set set;
  if ((uint64_t)many->rows->count * across > MOST || !set_begin(&set, many->rows->count * across))
    return false; /* then their bytes are compared */
  const vyc_argument *argument = many->rows->arguments;
  bool apart = true;
  for (uint32_t row = 0; apart && row < many->rows->count; row++)
    for (uint32_t i = 0; i < across; i++, argument++)
      apart &= argument->count == 0 ||
               set_add(&set, argument->buffer, prepared->bindings[i].role != VYC_ROLE_IN);
  free(set.places);
  return apart;
}
