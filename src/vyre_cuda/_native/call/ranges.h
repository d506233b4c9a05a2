/* Ranges of host memory, held against each other in order instead of one by one. */
#ifndef VYRE_CUDA_RANGES_H
#define VYRE_CUDA_RANGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct vyre_range {
  uint64_t begin, end;
  uint64_t parameter; /* whose memory it is */
} vyre_range;

static inline void vyre_ranges_sort(vyre_range *ranges, uint32_t count) {
  for (uint32_t gap = 121; gap > 0; gap /= 3) /* 121, 40, 13, 4, 1: Knuth's */
    for (uint32_t i = gap; i < count; i++) {
      const vyre_range range = ranges[i];
      uint32_t at = i;
      for (; at >= gap && ranges[at - gap].begin > range.begin; at -= gap)
        ranges[at] = ranges[at - gap];
      ranges[at] = range;
    }
}

/* Of sorted ranges that are not empty. */
static inline bool vyre_ranges_apart(const vyre_range *ranges, uint32_t count) {
  for (uint32_t i = 1; i < count; i++)
    if (ranges[i].begin < ranges[i - 1].end) return false;
  return true;
}

/* `own`, which is not empty, shares bytes with one of another parameter; the ranges are sorted and
 * apart, so one look beyond its own is enough. */
static inline bool vyre_ranges_meet(const vyre_range *ranges, uint32_t count, vyre_range own) {
  uint32_t low = 0, high = count; /* those below `low` begin before its end */
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (ranges[middle].begin < own.end)
      low = middle + 1;
    else
      high = middle;
  }
  if (low > 0 && ranges[low - 1].parameter == own.parameter) low--;
  return low > 0 && ranges[low - 1].end > own.begin;
}

#endif
