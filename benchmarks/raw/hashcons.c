/* The same closure on one core: an open-addressing table of rows with two children or none, and a
 * union-find with path halving; rounds over all rows until one merges nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

static uint32_t find(uint32_t *parent, uint32_t at) {
  while (parent[at] != at) at = parent[at] = parent[parent[at]];
  return at;
}

static uint64_t mixed(uint64_t value) {
  value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
  value = (value ^ value >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return value ^ value >> 33;
}

/* Row i is class i; `left` and `right` are NONE for rows without children. Gives the number of
 * rounds, 0 without memory, and in `parent` the least class of each row. */
uint32_t hashcons(uint32_t rows, const uint32_t *op, const uint32_t *left, const uint32_t *right,
                  uint32_t *parent) {
  uint32_t size = 1, rounds = 0, merged;
  while (size < 2 * rows) size *= 2;
  uint32_t *table = malloc(sizeof *table * size);
  if (table == NULL) return 0;
  for (uint32_t i = 0; i < rows; i++) parent[i] = i;
  do {
    merged = 0;
    rounds++;
    memset(table, 0xff, sizeof *table * size);
    for (uint32_t i = 0; i < rows; i++) {
      const uint32_t x = left[i] == NONE ? NONE : find(parent, left[i]);
      const uint32_t y = right[i] == NONE ? NONE : find(parent, right[i]);
      const uint64_t key = mixed(((uint64_t)x << 32 | y) ^ op[i] * UINT64_C(0x9e3779b97f4a7c15));
      uint32_t slot = (uint32_t)key & (size - 1), other;
      for (; (other = table[slot]) != NONE; slot = (slot + 1) & (size - 1)) {
        if (op[other] != op[i]) continue;
        if (x != (left[other] == NONE ? NONE : find(parent, left[other]))) continue;
        if (y == (right[other] == NONE ? NONE : find(parent, right[other]))) break;
      }
      if (other == NONE) {
        table[slot] = i;
        continue;
      }
      const uint32_t a = find(parent, i), b = find(parent, other);
      if (a == b) continue;
      parent[a < b ? b : a] = a < b ? a : b;
      merged++;
    }
  } while (merged != 0);
  for (uint32_t i = 0; i < rows; i++) parent[i] = find(parent, i);
  free(table);
  return rounds;
}
