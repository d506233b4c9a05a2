/* Arithmetic on sizes and addresses. */
#ifndef VYC_BITS_H
#define VYC_BITS_H

#include <stdbool.h>
#include <stdint.h>

#define VYC_CACHE_LINE 64u /* bytes */

/* Elements of 12 bytes are on boundaries of 4. */
static inline bool vyc__is_aligned(uint64_t address, uint32_t element_bytes) {
  return (address & ((element_bytes & (0 - element_bytes)) - 1)) == 0;
}

static inline uint64_t vyc__align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

static inline bool vyc__mul_overflows(uint64_t a, uint64_t b, uint64_t *product_out) {
  return __builtin_mul_overflow(a, b, product_out);
}

#endif
