/* Postfix expressions over integers, which give sizes and grids: the names of operations and how
 * they compute. The bundle reader and the warm path of Python calls share this file, and the tests
 * compare it with src/vyre_cuda/ir/call/geometry.py.
 *
 * A value has 64 bits, of which `width` count; a negative width means that the value is signed. */
#ifndef VYC_EXPRESSION_H
#define VYC_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

/* (C name, name and code in src/vyre_cuda/ir/core/ops.py, operands) */
#define VYC_HOST_OPS(X)                                                                            \
  X(ADD, add, 1, 2)                                                                                \
  X(SUBTRACT, subtract, 2, 2)                                                                      \
  X(MULTIPLY, multiply, 3, 2)                                                                      \
  X(FLOOR_DIVIDE, floor_divide, 7, 2)                                                              \
  X(MINIMUM, minimum, 30, 2)                                                                       \
  X(MAXIMUM, maximum, 31, 2)                                                                       \
  X(CAST, cast, 42, 1)

#define VYC_HOST_OP_CODE(name, text, code, operands) VYC_HOST_##name = code,
enum {
  VYC_HOST_OPS(VYC_HOST_OP_CODE)
  /* Leaves, with numbers below every code: the value itself, a count of elements, a scalar. */
  VYC_LEAF_CONSTANT = -1,
  VYC_LEAF_SIZE = -2,
  VYC_LEAF_SCALAR = -3
};
#undef VYC_HOST_OP_CODE

/* The most blocks per axis on every CUDA device (CUDA C++ programming guide). */
static const uint64_t vyc__most_blocks[3] = {INT32_MAX, 65535, 65535};

/* 0: not one of these operations. */
static inline uint32_t vyc__host_op_operands(int32_t op) {
  switch (op) {
#define VYC_HOST_OP_OPERANDS(name, text, code, operands)                                           \
  case code: return operands;
    VYC_HOST_OPS(VYC_HOST_OP_OPERANDS)
#undef VYC_HOST_OP_OPERANDS
  default: return 0;
  }
}

/* The value wrapped to the width. */
static inline uint64_t vyc__host_fit(uint64_t value, int32_t width) {
  const uint32_t spare = 64u - (uint32_t)(width < 0 ? -width : width);
  if (spare == 0) return value;
  if (width < 0) return (uint64_t)((int64_t)(value << spare) >> spare);
  return value << spare >> spare;
}

/* Rounds toward minus infinity; division by 0 gives 0. */
static inline uint64_t vyc__host_floor_divide(uint64_t a, uint64_t b, bool is_signed) {
  if (b == 0) return 0;
  if (!is_signed) return a / b;
  if (b == UINT64_MAX) return 0 - a;
  const int64_t dividend = (int64_t)a, divisor = (int64_t)b;
  const bool down = dividend % divisor != 0 && (dividend < 0) != (divisor < 0);
  return (uint64_t)(dividend / divisor - (down ? 1 : 0));
}

/* An operation of two operands, before it is wrapped. */
static inline uint64_t vyc__host_combine(int32_t op, uint64_t a, uint64_t b, bool is_signed) {
  const bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
  switch (op) {
  case VYC_HOST_ADD: return a + b;
  case VYC_HOST_SUBTRACT: return a - b;
  case VYC_HOST_MULTIPLY: return a * b;
  case VYC_HOST_MINIMUM: return less ? a : b;
  case VYC_HOST_MAXIMUM: return less ? b : a;
  default: return vyc__host_floor_divide(a, b, is_signed);
  }
}

/* Whether the result of the operation does not fit in 64 bits. */
static inline bool vyc__host_wraps(int32_t op, uint64_t a, uint64_t b, bool is_signed) {
  const int64_t left = (int64_t)a, right = (int64_t)b;
  int64_t number;
  uint64_t count;
  switch (op) {
  case VYC_HOST_ADD:
    return is_signed ? __builtin_add_overflow(left, right, &number)
                     : __builtin_add_overflow(a, b, &count);
  case VYC_HOST_SUBTRACT:
    return is_signed ? __builtin_sub_overflow(left, right, &number)
                     : __builtin_sub_overflow(a, b, &count);
  case VYC_HOST_MULTIPLY:
    return is_signed ? __builtin_mul_overflow(left, right, &number)
                     : __builtin_mul_overflow(a, b, &count);
  default: return false;
  }
}

#endif
