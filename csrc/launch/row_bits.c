/* Whether launches are independent, by a bit for each few bytes between the first and the last that
 * they touch. */
#include <stdlib.h>

#include "rows.h"

/* `shift`: a bit is for so many bytes, from `low` on. */
typedef struct byte_bits {
  uint64_t *words;
  uint64_t low;
  uint32_t shift;
} byte_bits;

#define FEWEST 12u /* bits, as a power of 2 */
#define MOST 26u
#define EACH 5u /* for each argument */

static bool bits_begin(byte_bits *bits, const vyc_many *many) {
  const uint64_t arguments = (uint64_t)many->rows->count * many->prepared->binding_count;
  uint64_t high = 0;
  uint32_t log = FEWEST;
  *bits = (byte_bits){NULL, UINT64_MAX, 0};
  for (uint32_t i = 0; i < many->prepared->binding_count; i++) {
    bits->low = many->spans[i].low < bits->low ? many->spans[i].low : bits->low;
    high = many->spans[i].high > high ? many->spans[i].high : high;
  }
  while (log < MOST && UINT64_C(1) << log < arguments << EACH) log++;
  while (high > bits->low && (high - 1 - bits->low) >> bits->shift >> log != 0) bits->shift++;
  bits->words = calloc((size_t)1 << (log - 6), sizeof *bits->words);
  return bits->words != NULL;
}

/* Whether one of the bits of these bytes is set; with `set` they are from now on. */
static inline bool meet(const byte_bits *bits, uint64_t begin, uint64_t bytes, bool set) {
  const uint64_t first = (begin - bits->low) >> bits->shift;
  const uint64_t last = (begin - bits->low + bytes - 1) >> bits->shift;
  uint64_t *word = &bits->words[first >> 6], *const end = &bits->words[last >> 6];
  uint64_t mask = UINT64_MAX << (first & 63), met = 0;
  for (; VYC_UNLIKELY(word != end); word++, mask = UINT64_MAX) {
    met |= *word & mask;
    if (set) *word |= mask;
  }
  mask &= UINT64_MAX >> (63 - (last & 63));
  met |= *word & mask;
  if (set) *word |= mask;
  return met != 0;
}

static inline bool binding_meets(const byte_bits *bits, const vyc_many *many, uint32_t i,
                                 bool set) {
  const uint32_t across = many->prepared->binding_count;
  const uint64_t element = many->prepared->bindings[i].element_bytes;
  const vyc_row_array *array = many->arrays + i;
  for (uint32_t row = 0; row < many->rows->count; row++, array += across) {
    const uint64_t bytes = array->count * element;
    if (VYC_LIKELY(bytes != 0) && VYC_UNLIKELY(meet(bits, array->begin, bytes, set))) return true;
  }
  return false;
}

/* First what is written, each against all before it, then what is not, against all of that. */
bool vyc__row_bits_are_apart(const vyc_many *many) {
  const vyc_prepared *prepared = many->prepared;
  byte_bits bits;
  if (!bits_begin(&bits, many)) return false; /* then their bytes are compared */
  bool apart = true;
  for (uint32_t i = 0; apart && i < prepared->binding_count; i++)
    if (prepared->bindings[i].role != VYC_ROLE_IN) apart = !binding_meets(&bits, many, i, true);
  for (uint32_t i = 0; apart && i < prepared->binding_count; i++)
    if (prepared->bindings[i].role == VYC_ROLE_IN) apart = !binding_meets(&bits, many, i, false);
  free(bits.words);
  return apart;
}
