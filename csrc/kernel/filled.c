/* Outs that a launch fills completely, so that they need not be cleared first. */
#include "run_check.h"

enum { LAUNCH_AXES = 3, FIRST_FIELD = 4, FIELD_BITS = 4, FIELD = 15 };
/* The limit of loop counters: below it no step wraps, in any type. */
#define LOOP_LIMIT (UINT64_C(1) << 31)

static uint32_t above(const vyc_binding *b) {
  return (b->flags & ~VYC_BINDING_UNSPECIFIED) >> VYC_BINDING_ELEMENTS_SHIFT;
}

static uint32_t elements_along(const vyc_binding *b, uint32_t axis) {
  return b->flags >> (FIRST_FIELD + FIELD_BITS * axis) & FIELD;
}

bool vyc__extents_are_scalars(const vyc_prepared_desc *desc, const vyc_binding *binding) {
  if ((binding->flags & VYC_BINDING_AXES) == 0) return true;
  const uint32_t last = above(binding);
  for (uint32_t axis = 0; axis < LAUNCH_AXES; axis++)
    if (elements_along(binding, axis) != 0 && (last >= desc->scalar_count || last < axis))
      return false;
  return true;
}

static bool fills_axes(const vyc_prepared *prepared, const vyc_binding *b, const vyc_run *run) {
  const uint64_t *extent = run->scalars;
  const uint32_t last = above(b);
  for (uint32_t axis = 0; axis < LAUNCH_AXES; axis++) {
    const uint32_t each = elements_along(b, axis);
    const uint64_t threads = (uint64_t)run->grid[axis] * prepared->block[axis];
    if (each != 0 && threads * each < extent[last - axis]) return false;
  }
  return true;
}

bool vyc__launch_fills(const vyc_prepared *prepared, uint32_t binding, const vyc_run *run) {
  const vyc_binding *b = &prepared->bindings[binding];
  const uint64_t threads = (uint64_t)run->grid[0] * prepared->block[0];
  const uint32_t each = above(b);
  const bool loops = (b->flags & VYC_BINDING_LOOPS) != 0;
  if ((b->flags & VYC_BINDING_AXES) != 0)
    return (!loops || threads < LOOP_LIMIT) && fills_axes(prepared, b, run);
  if (loops) return threads * each < LOOP_LIMIT;
  return threads * (each == 0 ? 1 : each) >= run->arguments[binding].count;
}
