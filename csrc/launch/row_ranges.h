/* The memory of many launches, in order of addresses. */
#ifndef VYC_LAUNCH_ROW_RANGES_H
#define VYC_LAUNCH_ROW_RANGES_H

#include "launch.h"

typedef struct vyc_row_range {
  uint64_t begin, end;
  uint32_t row;
  uint16_t argument;
  bool written;
} vyc_row_range;

/* A range by where it begins. */
typedef struct vyc_row_key {
  uint64_t begin;
  uint32_t range;
} vyc_row_key;

/* Sort the ranges from where they begin: the keys in order are in `keys`, or in `room`, which is as
 * large; returns which. */
vyc_row_key *vyc__row_ranges_sort(const vyc_row_range *ranges, vyc_row_key *keys, vyc_row_key *room,
                                  uint32_t count);
/* Two ranges that share bytes that one of them writes. */
typedef struct vyc_row_meeting {
  const vyc_row_range *first, *second; /* by their rows; NULL: there are none */
} vyc_row_meeting;
/* `within`: those of one row may meet. */
vyc_row_meeting vyc__row_ranges_meet(const vyc_row_range *ranges, const vyc_row_key *sorted,
                                     uint32_t count, bool within);

#endif
