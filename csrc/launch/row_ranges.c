/* Whether launches are independent, from one look at their memory in order of addresses. */
#include "row_ranges.h"

#include <string.h>

/* ---- sorting: by digits, least significant first; bits in which all begins agree take no time -- */

enum { DIGIT_BITS = 10, DIGITS = 1 << DIGIT_BITS, ADDRESS_BITS = 64 };

static bool is_sorted(const vyc_row_range *ranges, uint32_t count) {
  for (uint32_t i = 1; i < count; i++)
    if (ranges[i].begin < ranges[i - 1].begin) return false;
  return true;
}

/* A function of its own, because it uses much of the stack. */
__attribute__((noinline)) static void sort_digit(vyc_row_range *to, const vyc_row_range *from,
                                                 uint32_t count, uint32_t shift) {
  uint32_t places[DIGITS] = {0}, next = 0;
  for (uint32_t i = 0; i < count; i++)
    places[from[i].begin >> shift & (DIGITS - 1)]++;
  for (uint32_t digit = 0; digit < DIGITS; digit++) {
    const uint32_t here = places[digit];
    places[digit] = next;
    next += here;
  }
  for (uint32_t i = 0; i < count; i++)
    to[places[from[i].begin >> shift & (DIGITS - 1)]++] = from[i];
}

static uint64_t bits_that_differ(const vyc_row_range *ranges, uint32_t count) {
  uint64_t differing = 0;
  for (uint32_t i = 1; i < count; i++)
    differing |= ranges[i].begin ^ ranges[0].begin;
  return differing;
}

void vyc__row_ranges_sort(vyc_row_range *ranges, vyc_row_range *room, uint32_t count) {
  if (is_sorted(ranges, count)) return;
  const uint64_t differing = bits_that_differ(ranges, count);
  vyc_row_range *from = ranges, *to = room;
  uint32_t shift = (uint32_t)__builtin_ctzll(differing);
  while (shift < ADDRESS_BITS && differing >> shift != 0) {
    sort_digit(to, from, count, shift);
    vyc_row_range *sorted = to;
    to = from;
    from = sorted;
    shift += DIGIT_BITS;
    if (shift < ADDRESS_BITS && differing >> shift != 0)
      shift += (uint32_t)__builtin_ctzll(differing >> shift);
  }
  if (from != ranges) memcpy(ranges, from, count * sizeof *ranges);
}

/* ---- meeting ---------------------------------------------------------------------------------- */

/* How far ranges reach, and how far those of all other rows than the one that reaches farthest. */
typedef struct reach {
  const vyc_row_range *far, *other; /* NULL: none */
} reach;

static const vyc_row_range *beyond(const reach *reached, const vyc_row_range *range) {
  const vyc_row_range *far = reached->far;
  if (far != NULL && far->row == range->row) far = reached->other;
  return far != NULL && far->end > range->begin ? far : NULL;
}

static void extend(reach *reached, const vyc_row_range *range) {
  if (reached->far == NULL || range->end > reached->far->end) {
    if (reached->far != NULL && reached->far->row != range->row) reached->other = reached->far;
    reached->far = range;
  } else if (range->row != reached->far->row &&
             (reached->other == NULL || range->end > reached->other->end)) {
    reached->other = range;
  }
}

vyc_status vyc__row_ranges_check(const vyc_row_range *ranges, uint32_t count) {
  reach all = {NULL, NULL}, written = {NULL, NULL};
  for (uint32_t i = 0; i < count; i++) {
    const vyc_row_range *range = &ranges[i];
    const vyc_row_range *met = beyond(range->written ? &all : &written, range);
    if (VYC_UNLIKELY(met != NULL)) {
      const vyc_row_range *first = met->row < range->row ? met : range;
      const vyc_row_range *second = first == met ? range : met;
      return vyc__fail(VYC_E_INVALID, "launch",
                       "rows %u and %u share memory that one of them writes: argument %u of row %u "
                       "and argument %u of row %u; launch one of them afterwards",
                       first->row, second->row, first->argument, first->row, second->argument,
                       second->row);
    }
    extend(&all, range);
    if (range->written) extend(&written, range);
  }
  return VYC_OK;
}
