/* What each row of a table has of its arguments. */
#include "row_block.h"

/* Those of one kind and size, behind the others; returns where they end. */
static uint32_t add_kind(vyc_row_block *plan, uint32_t count, const vyc_prepared *prepared,
                         uint32_t kind, uint32_t size) {
  for (uint32_t i = 0; i < prepared->parameter_count; i++) {
    const vyc_block_parameter *p = &prepared->parameters[i];
    if (p->kind == kind && p->size == size)
      plan->places[count++] = (vyc_row_place){p->offset, p->index};
  }
  return count;
}

vyc_row_block vyc__row_block_of(const vyc_prepared *prepared) {
  vyc_row_block plan = {.rest = prepared->parameters,
                        .end = prepared->parameters + prepared->parameter_count};
  if (prepared->parameter_count > VYC_ROW_PLAN) return plan;
  const uint32_t size = sizeof(uint64_t), half = sizeof(uint32_t);
  plan.pointers = add_kind(&plan, 0, prepared, VYC_PARAMETER_POINTER, size);
  plan.sizes = add_kind(&plan, plan.pointers, prepared, VYC_PARAMETER_SIZE, size);
  plan.short_sizes = add_kind(&plan, plan.sizes, prepared, VYC_PARAMETER_SIZE, half);
  plan.scalars = add_kind(&plan, plan.short_sizes, prepared, VYC_PARAMETER_SCALAR, size);
  plan.short_scalars = add_kind(&plan, plan.scalars, prepared, VYC_PARAMETER_SCALAR, half);
  if (plan.short_scalars == prepared->parameter_count) plan.rest = plan.end;
  return plan;
}

void vyc__row_rest_write(const vyc_row_block *plan, uint8_t *block, const vyc_row_array *arrays,
                         const uint64_t *scalars) {
  for (const vyc_block_parameter *p = plan->rest; p != plan->end; p++) {
    uint64_t value = 0;
    if (p->kind == VYC_PARAMETER_POINTER)
      value = arrays[p->index].begin;
    else if (p->kind == VYC_PARAMETER_SCALAR)
      value = scalars[p->index];
    else if (p->kind == VYC_PARAMETER_SIZE)
      value = arrays[p->index].count;
    memcpy(block + p->offset, &value, p->size);
  }
}
