/* How many elements the outs of a call have and how many blocks it takes: postfix expressions over
 * integers (expression.h). The steps were checked when the bundle was opened. */
#include <inttypes.h>

#include "expression.h"
#include "kernel/room.h"
#include "room.h"

static uint64_t leaf(const vyc_disk_step *step, const uint64_t *counts, const uint64_t *scalars) {
  switch (step->op) {
  case VYC_LEAF_SIZE: return counts[step->value];
  case VYC_LEAF_SCALAR: return scalars[step->value];
  default: return step->value;
  }
}

/* The result of a step if nothing wrapped; beyond 128 bits it is unknown, except after a factor of
 * 0. */
__extension__ typedef __int128 wide;
typedef struct exact {
  wide value;
  bool is_known;
} exact;

static exact exact_of(uint64_t value, int32_t width) {
  return (exact){width < 0 ? (wide)(int64_t)value : (wide)value, true};
}

static bool is_exact(exact x, uint64_t value, int32_t width) {
  return x.is_known && x.value == exact_of(value, width).value;
}

static exact exact_combine(int32_t op, exact a, exact b) {
  wide value = 0;
  if (op == VYC_HOST_MULTIPLY && ((a.is_known && a.value == 0) || (b.is_known && b.value == 0)))
    return (exact){0, true};
  const bool over = op == VYC_HOST_ADD        ? __builtin_add_overflow(a.value, b.value, &value)
                    : op == VYC_HOST_SUBTRACT ? __builtin_sub_overflow(a.value, b.value, &value)
                                              : __builtin_mul_overflow(a.value, b.value, &value);
  return (exact){value, a.is_known && b.is_known && !over};
}

static bool is_ring(int32_t op) {
  return op == VYC_HOST_ADD || op == VYC_HOST_SUBTRACT || op == VYC_HOST_MULTIPLY;
}

static bool evaluate_steps(uint64_t *value_out, const vyc_disk_step *steps, uint32_t count,
                           const uint64_t *counts, const uint64_t *scalars) {
  uint64_t stack[VYC_MOST_DEPTH + 1] = {0};
  exact exacts[VYC_MOST_DEPTH + 1] = {{0, false}};
  uint32_t depth = 0;
  bool is_whole = true;
  for (uint32_t i = 0; i < count; i++) {
    const vyc_disk_step *step = &steps[i];
    const bool combines = step->op >= 0 && step->op != VYC_HOST_CAST;
    depth -= combines;
    depth += step->op < 0;
    uint64_t *top = &stack[depth - 1];
    exact *whole = &exacts[depth - 1];
    if (step->op < 0) {
      *top = vyc__host_fit(leaf(step, counts, scalars), step->width);
      *whole = exact_of(*top, step->width);
      continue;
    }
    if (combines && !is_ring(step->op)) /* it depends on the values of its operands */
      is_whole &=
          is_exact(whole[0], top[0], step->width) && is_exact(whole[1], top[1], step->width);
    if (combines) {
      const exact both = exact_combine(step->op, whole[0], whole[1]);
      *top = vyc__host_combine(step->op, top[0], top[1], step->width < 0);
      if (is_ring(step->op)) *whole = both;
    }
    *top = vyc__host_fit(*top, step->width);
    if (combines && !is_ring(step->op)) *whole = exact_of(*top, step->width);
  }
  *value_out = stack[0];
  const int32_t width = steps[count - 1].width;
  return is_whole && is_exact(exacts[0], stack[0], width) && exacts[0].value >= 0;
}

/* False: the value is negative, or a step wrapped and changed the result. Most sizes and grids are
 * one leaf, which needs no stack. */
static inline bool evaluate(const vyc_bundle *bundle, uint64_t *value_out, vyc_disk_range range,
                            const uint64_t *counts, const uint64_t *scalars) {
  const vyc_disk_step *steps =
      vyc__bundle_row(bundle, VYC_SECTION_STEPS, range.first, sizeof *steps);
  if (VYC_UNLIKELY(range.count != 1))
    return evaluate_steps(value_out, steps, range.count, counts, scalars);
  *value_out = vyc__host_fit(leaf(steps, counts, scalars), steps->width);
  return steps->width > 0 || (int64_t)*value_out >= 0;
}

static uint64_t most_elements(const vyc_disk_kernel *kernel) {
  return UINT64_MAX >> (64 - kernel->index_bits);
}

static uint64_t most_threads(const vyc_disk_kernel *kernel) {
  return kernel->index_bits == 64 ? UINT64_MAX : UINT64_C(1) << kernel->index_bits;
}

static const vyc_disk_parameter *parameter(const vyc_bundle *bundle, const vyc_disk_kernel *kernel,
                                           uint32_t index) {
  return vyc__bundle_row(bundle, VYC_SECTION_PARAMETERS, kernel->parameters.first + index,
                         sizeof(vyc_disk_parameter));
}

static const char *parameter_name(const vyc_bundle *bundle, const vyc_disk_kernel *kernel,
                                  uint32_t index) {
  return vyc__bundle_text(bundle, parameter(bundle, kernel, index)->name);
}

/* The declared size of a buffer or value of an extent. */
static vyc_status declared(const vyc_bundle *bundle, uint64_t *value_out,
                           const vyc_disk_kernel *kernel, const vyc_disk_size *size,
                           const uint64_t *counts, const uint64_t *scalars) {
  const uint32_t role = parameter(bundle, kernel, size->parameter)->role;
  if (!evaluate(bundle, value_out, size->steps, counts, scalars))
    return vyc__fail(VYC_E_INVALID, vyc__bundle_text(bundle, kernel->name),
                     "the %s %s is negative or out of range of its type: %" PRId64,
                     role == VYC_ROLE_SCALAR ? "extent"
                     : role == VYC_ROLE_OUT  ? "size of out"
                                             : "size of",
                     parameter_name(bundle, kernel, size->parameter), (int64_t)*value_out);
  return VYC_OK;
}

/* An argument that was passed, or an extent, is as declared. */
static vyc_status agrees(const vyc_bundle *bundle, const vyc_disk_kernel *kernel,
                         const vyc_disk_size *size, uint64_t value, const uint64_t *counts,
                         const uint64_t *scalars) {
  const vyc_disk_parameter *p = parameter(bundle, kernel, size->parameter);
  const bool is_extent = p->role == VYC_ROLE_SCALAR;
  const uint64_t given = is_extent ? scalars[p->slot] : counts[size->parameter];
  if (given == value) return VYC_OK;
  if (is_extent)
    return vyc__fail(VYC_E_INVALID, vyc__bundle_text(bundle, kernel->name),
                     "extent %s is %" PRIu64 ", not %" PRIu64, vyc__bundle_text(bundle, p->name),
                     given, value);
  return vyc__fail(VYC_E_INVALID, vyc__bundle_text(bundle, kernel->name),
                   "%s has %" PRIu64 " element%s, not %" PRIu64, vyc__bundle_text(bundle, p->name),
                   given, VYC_S(given), value);
}

vyc_status vyc__bundle_sizes(const vyc_bundle *bundle, uint64_t *counts,
                             const vyc_disk_kernel *kernel, const uint64_t *scalars) {
  for (uint32_t i = 0; i < kernel->sizes.count; i++) {
    const vyc_disk_size *size =
        vyc__bundle_row(bundle, VYC_SECTION_SIZES, kernel->sizes.first + i, sizeof *size);
    uint64_t value = 0;
    VYC_TRY(declared(bundle, &value, kernel, size, counts, scalars));
    if (parameter(bundle, kernel, size->parameter)->role == VYC_ROLE_OUT)
      counts[size->parameter] = value;
    else
      VYC_TRY(agrees(bundle, kernel, size, value, counts, scalars));
  }
  for (uint32_t i = 0; i < kernel->parameters.count; i++)
    if (counts[i] > most_elements(kernel))
      return vyc__fail(VYC_E_INVALID, vyc__bundle_text(bundle, kernel->name),
                       "%s has %" PRIu64 " elements, but indices of %u bits reach only %" PRIu64,
                       parameter_name(bundle, kernel, i), counts[i], kernel->index_bits,
                       most_elements(kernel));
  return VYC_OK;
}

static vyc_status axis_of(const vyc_bundle *bundle, uint64_t *blocks_out, bool *fits,
                          const vyc_disk_kernel *kernel, uint32_t axis, const uint64_t *counts,
                          const uint64_t *scalars) {
  uint64_t extent = 0;
  if (!evaluate(bundle, &extent, kernel->work[axis], counts, scalars))
    return vyc__fail(VYC_E_INVALID, vyc__bundle_text(bundle, kernel->name),
                     "the work on axis %c is %" PRId64 ", which is negative, out of range of its "
                     "type, or too little for an array that the threads go through: pass a grid",
                     "xyz"[axis], (int64_t)extent);
  const uint64_t block = kernel->block[axis];
  *blocks_out = extent / block + (extent % block != 0);
  *fits &= *blocks_out <= vyc__most_blocks[axis] && *blocks_out <= most_threads(kernel) / block;
  return VYC_OK;
}

vyc_status vyc__bundle_check_grid(const vyc_bundle *bundle, const vyc_disk_kernel *kernel,
                                  const uint32_t grid[3]) {
  for (uint32_t axis = 0; axis < 3; axis++) {
    const uint64_t threads = (uint64_t)grid[axis] * kernel->block[axis];
    if (VYC_UNLIKELY(threads > most_threads(kernel)))
      return vyc__fail(VYC_E_INVALID, vyc__bundle_text(bundle, kernel->name),
                       "the grid has %" PRIu64
                       " threads on axis %c, but ids of %u bits reach only %" PRIu64,
                       threads, "xyz"[axis], kernel->index_bits, most_threads(kernel));
  }
  return VYC_OK;
}

vyc_status vyc__bundle_grid(const vyc_bundle *bundle, uint32_t grid[3],
                            const vyc_disk_kernel *kernel, const uint64_t *counts,
                            const uint64_t *scalars) {
  uint64_t blocks[3] = {1, 1, 1};
  bool fits = true;
  if (kernel->axes == 0)
    return vyc__fail(VYC_E_INVALID, vyc__bundle_text(bundle, kernel->name),
                     "the work of kernel %s is not known: each call needs a grid",
                     vyc__bundle_text(bundle, kernel->name));
  for (uint32_t axis = 0; axis < kernel->axes; axis++)
    VYC_TRY(axis_of(bundle, &blocks[axis], &fits, kernel, axis, counts, scalars));
  const bool empty = blocks[0] == 0 || blocks[1] == 0 || blocks[2] == 0;
  if (!fits && !empty)
    return vyc__fail(
        VYC_E_INVALID, vyc__bundle_text(bundle, kernel->name),
        "the grid has %" PRIu64 " x %" PRIu64 " x %" PRIu64
        " blocks, but CUDA allows only 2147483647 x 65535 x 65535, and ids of %u bits limit "
        "the threads of an axis",
        blocks[0], blocks[1], blocks[2], kernel->index_bits);
  for (uint32_t axis = 0; axis < 3; axis++) grid[axis] = empty ? 0 : (uint32_t)blocks[axis];
  return VYC_OK;
}

/* Of buffers by slot from and to parameters by number; scalars count 0. */
static void by_parameter(const vyc_bundle *bundle, uint64_t *to, const vyc_disk_kernel *kernel,
                         const uint64_t *counts) {
  for (uint32_t i = 0; i < kernel->parameters.count; i++) {
    const vyc_disk_parameter *p =
        vyc__bundle_row(bundle, VYC_SECTION_PARAMETERS, kernel->parameters.first + i, sizeof *p);
    to[i] = p->role == VYC_ROLE_SCALAR ? 0 : counts[p->slot];
  }
}

vyc_status vyc_bundle_extents(vyc_bundle *bundle, uint64_t *scalars, uint32_t kernel,
                              const uint64_t *counts) {
  VYC_REQUIRE(bundle != NULL);
  const vyc_disk_kernel *row = NULL;
  uint64_t all[VYC_MOST_PARAMETERS];
  VYC_TRY(vyc__bundle_kernel(bundle, &row, kernel));
  const uint32_t buffers = vyc__bundle_buffers(bundle, row);
  VYC_REQUIRE(counts != NULL || buffers == 0);
  VYC_REQUIRE(scalars != NULL || buffers == row->parameters.count);
  by_parameter(bundle, all, row, counts);
  for (uint32_t i = 0; i < row->sizes.count; i++) {
    const vyc_disk_size *size =
        vyc__bundle_row(bundle, VYC_SECTION_SIZES, row->sizes.first + i, sizeof *size);
    const vyc_disk_parameter *p = parameter(bundle, row, size->parameter);
    uint64_t value = 0;
    if (p->role != VYC_ROLE_SCALAR && p->role != VYC_ROLE_OUT) continue;
    VYC_TRY(declared(bundle, &value, row, size, all, scalars));
    *(p->role == VYC_ROLE_SCALAR ? &scalars[p->slot] : &all[size->parameter]) = value;
  }
  return VYC_OK;
}

vyc_status vyc_bundle_shape(vyc_bundle *bundle, uint64_t *counts, uint32_t grid_out[3],
                            uint32_t kernel, const uint64_t *scalars) {
  VYC_REQUIRE(bundle != NULL);
  const vyc_disk_kernel *row = NULL;
  uint64_t all[VYC_MOST_PARAMETERS];
  VYC_TRY(vyc__bundle_kernel(bundle, &row, kernel));
  const uint32_t buffers = vyc__bundle_buffers(bundle, row);
  VYC_REQUIRE(counts != NULL || buffers == 0);
  VYC_REQUIRE(scalars != NULL || buffers == row->parameters.count);
  by_parameter(bundle, all, row, counts);
  VYC_TRY(vyc__bundle_sizes(bundle, all, row, scalars));
  if (grid_out != NULL) VYC_TRY(vyc__bundle_grid(bundle, grid_out, row, all, scalars));
  for (uint32_t i = 0; i < row->parameters.count; i++) {
    const vyc_disk_parameter *p =
        vyc__bundle_row(bundle, VYC_SECTION_PARAMETERS, row->parameters.first + i, sizeof *p);
    if (p->role != VYC_ROLE_SCALAR) counts[p->slot] = all[i];
  }
  return VYC_OK;
}

/* ---- what they are made of ----------------------------------------------------------------------
 */

static bool has_leaf(const vyc_bundle *bundle, vyc_disk_range range, uint32_t slot) {
  const vyc_disk_step *steps =
      vyc__bundle_row(bundle, VYC_SECTION_STEPS, range.first, sizeof *steps);
  for (uint32_t i = 0; i < range.count; i++)
    if (steps[i].op == VYC_LEAF_SCALAR && steps[i].value == slot) return true;
  return false;
}

bool vyc__bundle_decides(const vyc_bundle *bundle, const vyc_disk_kernel *kernel, uint32_t slot) {
  const vyc_disk_size *sizes =
      vyc__bundle_row(bundle, VYC_SECTION_SIZES, kernel->sizes.first, sizeof *sizes);
  for (uint32_t i = 0; i < kernel->sizes.count; i++)
    if (has_leaf(bundle, sizes[i].steps, slot)) return true;
  for (uint32_t axis = 0; axis < kernel->axes; axis++)
    if (has_leaf(bundle, kernel->work[axis], slot)) return true;
  return false;
}
