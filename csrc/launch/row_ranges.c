/* Whether launches are independent, from one look at their memory in order of addresses. */
#include "row_ranges.h"

/* ---- sorting ----------------------------------------------------------------------------------
 */

/* By digits, least significant first; bits in which all begins agree take no time. */
enum { DIGIT_BITS = 10, DIGITS = 1 << DIGIT_BITS, ADDRESS_BITS = 64, FEW = 48 };

static void sort_few(vyc_row_key *keys, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    const vyc_row_key key = keys[i];
    uint32_t at = i;
    for (; at > 0 && keys[at - 1].begin > key.begin; at--) keys[at] = keys[at - 1];
    keys[at] = key;
  }
}

/* A function of its own, because it uses much of the stack. */
__attribute__((noinline)) static void sort_digit(vyc_row_key *to, const vyc_row_key *from,
                                                 uint32_t count, uint32_t shift) {
  uint32_t places[DIGITS] = {0}, next = 0;
  for (uint32_t i = 0; i < count; i++) places[from[i].begin >> shift & (DIGITS - 1)]++;
  for (uint32_t digit = 0; digit < DIGITS; digit++) {
    const uint32_t here = places[digit];
    places[digit] = next;
    next += here;
  }
  for (uint32_t i = 0; i < count; i++)
    to[places[from[i].begin >> shift & (DIGITS - 1)]++] = from[i];
}

vyc_row_key *vyc__row_ranges_sort(const vyc_row_range *ranges, vyc_row_key *keys, vyc_row_key *room,
                                  uint32_t count) {
  uint64_t differing = 0, before = 0;
  bool sorted = true;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t begin = ranges[i].begin;
    keys[i] = (vyc_row_key){begin, i};
    differing |= begin ^ ranges[0].begin;
    sorted &= begin >= before;
    before = begin;
  }
  if (sorted) return keys;
  if (count <= FEW) {
    sort_few(keys, count);
    return keys;
  }
  uint32_t shift = (uint32_t)__builtin_ctzll(differing);
  while (shift < ADDRESS_BITS && differing >> shift != 0) {
    sort_digit(room, keys, count, shift);
    vyc_row_key *other = keys;
    keys = room;
    room = other;
    shift += DIGIT_BITS;
    if (shift < ADDRESS_BITS && differing >> shift != 0)
      shift += (uint32_t)__builtin_ctzll(differing >> shift);
  }
  return keys;
}

/* ---- meeting ----------------------------------------------------------------------------------
 */

/* The range that reaches farthest so far, and the one of all other rows; NULL: none. */
typedef struct reach {
  const vyc_row_range *far, *other;
} reach;

static inline const vyc_row_range *beyond(const reach *reached, const vyc_row_range *range,
                                          bool within) {
  const vyc_row_range *far = reached->far;
  if (within && far != NULL && far->row == range->row) far = reached->other;
  return far != NULL && far->end > range->begin ? far : NULL;
}

static inline void extend(reach *reached, const vyc_row_range *range) {
  if (reached->far == NULL || range->end > reached->far->end) {
    if (reached->far != NULL && reached->far->row != range->row) reached->other = reached->far;
    reached->far = range;
  } else if (range->row != reached->far->row &&
             (reached->other == NULL || range->end > reached->other->end)) {
    reached->other = range;
  }
}

/* The same without asking which ranges meet, where those of one row may not meet either. */
static bool are_apart(const vyc_row_range *ranges, const vyc_row_key *sorted, uint32_t count) {
  uint64_t all = 0, written = 0;
  for (uint32_t i = 0; i < count; i++) {
    const vyc_row_range *range = &ranges[sorted[i].range];
    if (range->begin < (range->written ? all : written)) return false;
    all = range->end > all ? range->end : all;
    if (range->written && range->end > written) written = range->end;
  }
  return true;
}

vyc_row_meeting vyc__row_ranges_meet(const vyc_row_range *ranges, const vyc_row_key *sorted,
                                     uint32_t count, bool within) {
  reach all = {NULL, NULL}, written = {NULL, NULL};
  const bool apart = !within && are_apart(ranges, sorted, count);
  for (uint32_t i = 0; !apart && i < count; i++) {
    const vyc_row_range *range = &ranges[sorted[i].range];
    const vyc_row_range *met = beyond(range->written ? &all : &written, range, within);
    if (VYC_UNLIKELY(met != NULL))
      return met->row < range->row ? (vyc_row_meeting){met, range} : (vyc_row_meeting){range, met};
    extend(&all, range);
    if (range->written) extend(&written, range);
  }
  return (vyc_row_meeting){NULL, NULL};
}
