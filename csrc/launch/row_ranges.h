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

/* Sort by where they begin; `room` is for as many again. */
void vyc__row_ranges_sort(vyc_row_range *ranges, vyc_row_range *room, uint32_t count);
/* Of sorted ranges: VYC_E_INVALID if two rows share bytes that one of them writes. */
vyc_status vyc__row_ranges_check(const vyc_row_range *ranges, uint32_t count);

#endif
