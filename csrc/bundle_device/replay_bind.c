/* Steps of a bundled graph with values for its symbols. */
#include <inttypes.h>

#include "room.h"

uint32_t vyc__replay_behind(const vyc_replay *replay, uint32_t step) {
  if (vyc__replay_step(replay, step)->kind == VYC_STEP_ROWS)
    while (vyc__replay_step(replay, step)->kind != VYC_STEP_END) step++;
  return step + 1;
}

bool vyc__replay_has_symbols(const vyc_replay *replay, uint32_t step) {
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  const vyc_bundle_value *values = vyc__replay_values(replay, row);
  for (uint32_t i = 0; i < row->values.count; i++)
    if (values[i].kind == VYC_VALUE_SYMBOL) return true;
  return false;
}

bool vyc__replay_uses_given(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step) {
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  const vyc_bundle_value *values = vyc__replay_values(replay, row);
  for (uint32_t i = 0; i < row->values.count; i++)
    if (values[i].kind == VYC_VALUE_SYMBOL && meanings[values[i].index].is_given) return true;
  return false;
}

bool vyc__replay_is_complete(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step) {
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  const vyc_bundle_value *values = vyc__replay_values(replay, row);
  for (uint32_t i = 0; i < row->values.count; i++)
    if (values[i].kind == VYC_VALUE_SYMBOL && !meanings[values[i].index].is_set) return false;
  return true;
}

static vyc_argument argument_of(const vyc_replay *replay, const vyc_meaning *meanings,
                                const vyc_bundle_value *value) {
  if (value->kind == VYC_VALUE_SPAN)
    return (vyc_argument){.kind = VYC_ARGUMENT_BUFFER,
                          .count = value->count,
                          .buffer = replay->arrays[value->index],
                          .offset = value->value};
  const vyc_symbol_value *given = &meanings[value->index].value;
  return (vyc_argument){.kind = VYC_ARGUMENT_BUFFER,
                        .count = given->count,
                        .buffer = given->buffer,
                        .offset = given->offset};
}

static uint64_t bits_of(const vyc_meaning *meanings, const vyc_bundle_value *value) {
  return value->kind == VYC_VALUE_BITS ? value->value : meanings[value->index].value.bits;
}

static vyc_status bind_launch(const vyc_replay *replay, vyc_bound *bound,
                              const vyc_meaning *meanings, const vyc_disk_graph_step *step) {
  const vyc_disk_kernel *kernel = NULL;
  VYC_TRY(vyc__bundle_kernel(replay->bundle, &kernel, step->kernel));
  const vyc_disk_parameter *parameters = vyc__bundle_row(
      replay->bundle, VYC_SECTION_PARAMETERS, kernel->parameters.first, sizeof *parameters);
  const vyc_bundle_value *values = vyc__replay_values(replay, step);
  uint32_t scalars = 0;
  for (uint32_t i = 0; i < step->values.count; i++) {
    if (parameters[i].role == VYC_ROLE_SCALAR)
      bound->scalars[scalars++] = bits_of(meanings, &values[i]);
    else
      bound->arguments[parameters[i].slot] = argument_of(replay, meanings, &values[i]);
  }
  bound->run = (vyc_run){.struct_size = sizeof bound->run,
                         .grid = {step->grid[0], step->grid[1], step->grid[2]},
                         .argument_count = step->values.count - scalars,
                         .scalar_count = scalars,
                         .arguments = bound->arguments,
                         .scalars = bound->scalars,
                         .timeout_ns = -1};
  return vyc_bundled_kernel_resolve(replay->kernels[step->kernel], &bound->run);
}

/* The arrays of launches as one, as a change of that step has them. */
static vyc_status bind_rows(const vyc_replay *replay, vyc_bound *bound, const vyc_meaning *meanings,
                            const vyc_disk_graph_step *step) {
  const vyc_bundle_value *values = vyc__replay_values(replay, step);
  for (uint32_t i = 0; i < step->values.count; i++)
    bound->arguments[i] = argument_of(replay, meanings, &values[i]);
  bound->run = (vyc_run){.struct_size = sizeof bound->run,
                         .argument_count = step->values.count,
                         .arguments = bound->arguments,
                         .timeout_ns = -1};
  return VYC_OK;
}

static vyc_status bind_copy(const vyc_replay *replay, vyc_bound *bound, const vyc_meaning *meanings,
                            const vyc_disk_graph_step *step) {
  const vyc_bundle_value *values = vyc__replay_values(replay, step);
  const vyc_argument to = argument_of(replay, meanings, &values[0]);
  const vyc_argument from = argument_of(replay, meanings, &values[1]);
  if (from.count > to.count)
    return vyc__fail(VYC_E_INVALID, "replay",
                     "a copy of %" PRIu64 " element%s does not fit into an array of %" PRIu64,
                     from.count, VYC_S(from.count), to.count);
  bound->transfer = (vyc_graph_transfer){.struct_size = sizeof bound->transfer,
                                         .bytes = from.count * vyc__type_bytes(step->type),
                                         .to = to.buffer,
                                         .to_offset = to.offset,
                                         .from = from.buffer,
                                         .from_offset = from.offset};
  return VYC_OK;
}

static vyc_status bind_fill(const vyc_replay *replay, vyc_bound *bound, const vyc_meaning *meanings,
                            const vyc_disk_graph_step *step) {
  const vyc_bundle_value *values = vyc__replay_values(replay, step);
  const vyc_argument to = argument_of(replay, meanings, &values[0]);
  const uint64_t bits = bits_of(meanings, &values[1]);
  const uint32_t element_bytes = vyc__type_bytes(step->type);
  if (element_bytes == 8 && (uint32_t)bits != bits >> 32)
    return vyc__fail(VYC_E_UNSUPPORTED, "fill_64_bits",
                     "a recorded fill cannot write an 8-byte value whose halves differ, because "
                     "the device fills 32-bit words: launch a kernel instead");
  bound->transfer = (vyc_graph_transfer){.struct_size = sizeof bound->transfer,
                                         .element_bytes = element_bytes == 8 ? 4 : element_bytes,
                                         .value = (uint32_t)bits,
                                         .bytes = to.count * element_bytes,
                                         .to = to.buffer,
                                         .to_offset = to.offset};
  return VYC_OK;
}

vyc_status vyc__replay_bind(const vyc_replay *replay, vyc_bound *bound, const vyc_meaning *meanings,
                            uint32_t step) {
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  switch (row->kind) {
  case VYC_STEP_LAUNCH: return bind_launch(replay, bound, meanings, row);
  case VYC_STEP_ROWS: return bind_rows(replay, bound, meanings, row);
  case VYC_STEP_COPY: return bind_copy(replay, bound, meanings, row);
  default: return bind_fill(replay, bound, meanings, row);
  }
}
