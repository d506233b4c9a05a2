/* Steps of a bundled graph with values for its symbols, and the graph that is built from them. */
#include <inttypes.h>
#include <stdlib.h>

#include "room.h"

static const vyc_bundle_value *values_of(const vyc_replay *replay,
                                         const vyc_disk_graph_step *step) {
  return vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_VALUES, step->values.first,
                         sizeof(vyc_bundle_value));
}

bool vyc__replay_uses_given(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step) {
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  const vyc_bundle_value *values = values_of(replay, row);
  for (uint32_t i = 0; i < row->values.count; i++)
    if (values[i].kind == VYC_VALUE_SYMBOL && meanings[values[i].index].is_given) return true;
  return false;
}

bool vyc__replay_is_complete(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step) {
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  const vyc_bundle_value *values = values_of(replay, row);
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
  const vyc_bundle_value *values = values_of(replay, step);
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

static vyc_status bind_copy(const vyc_replay *replay, vyc_bound *bound, const vyc_meaning *meanings,
                            const vyc_disk_graph_step *step) {
  const vyc_bundle_value *values = values_of(replay, step);
  const vyc_argument to = argument_of(replay, meanings, &values[0]);
  const vyc_argument from = argument_of(replay, meanings, &values[1]);
  if (from.count > to.count)
    return vyc__fail(VYC_E_INVALID, "replay",
                     "a copy of %" PRIu64 " elements into an array of %" PRIu64, from.count,
                     to.count);
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
  const vyc_bundle_value *values = values_of(replay, step);
  const vyc_argument to = argument_of(replay, meanings, &values[0]);
  const uint64_t bits = bits_of(meanings, &values[1]);
  const uint32_t element_bytes = vyc__type_bytes(step->type);
  if (element_bytes == 8 && (uint32_t)bits != bits >> 32)
    return vyc__fail(
        VYC_E_UNSUPPORTED, "fill_64_bits",
        "a fill with an 8-byte value whose halves differ; the device fills 32-bit words");
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
  case VYC_STEP_COPY: return bind_copy(replay, bound, meanings, row);
  default: return bind_fill(replay, bound, meanings, row);
  }
}

/* ---- building ------------------------------------------------------------------------------- */

static vyc_status add_launch(const vyc_replay *replay, vyc_graph *graph, uint32_t *number,
                             const vyc_disk_graph_step *row, const vyc_bound *bound) {
  vyc_prepared *prepared = NULL;
  VYC_TRY(vyc_bundled_kernel_prepared(replay->kernels[row->kernel], &prepared));
  const vyc_status status = vyc_graph_add_launch(graph, number, prepared, &bound->run);
  vyc_prepared_release(prepared);
  return status;
}

static vyc_status add_repeat(const vyc_replay *replay, vyc_graph *graph, uint32_t *number,
                             const vyc_disk_graph_step *row) {
  if (row->values.count == 0) return vyc_graph_repeat_begin(graph, number, row->times, NULL, 0, 0);
  const vyc_bundle_value *until = values_of(replay, row);
  return vyc_graph_repeat_begin(graph, number, row->times, replay->arrays[until->index],
                                until->value, vyc__type_bytes(row->type));
}

static vyc_status add_step(const vyc_replay *replay, vyc_graph *graph, vyc_bound *bound,
                           const vyc_meaning *meanings, uint32_t step) {
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  uint32_t number = replay->numbers[step];
  if (row->kind == VYC_STEP_END) return vyc_graph_repeat_end(graph);
  if (row->kind == VYC_STEP_REPEAT) {
    VYC_TRY(add_repeat(replay, graph, &number, row));
  } else {
    VYC_TRY(vyc__replay_bind(replay, bound, meanings, step));
    VYC_TRY(row->kind == VYC_STEP_LAUNCH
                ? add_launch(replay, graph, &number, row, bound)
                : vyc_graph_add_transfer(graph, &number, &bound->transfer));
  }
  if (number == replay->numbers[step]) return VYC_OK;
  return vyc__fail(VYC_E_INTERNAL, "replay", "step %u became step %u", step, number);
}

static bool is_default(const vyc_replay *replay, uint32_t array) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++) {
    const vyc_disk_symbol *symbol = vyc__replay_symbol(replay, i);
    if (symbol->kind == VYC_SYMBOL_ARRAY && (symbol->flags & VYC_SYMBOL_HAS_DEFAULT) != 0 &&
        symbol->array == array)
      return true;
  }
  return false;
}

/* Arrays that nobody else can see, and of which no step reads what an earlier replay has left. */
static vyc_status own_arrays(const vyc_replay *replay, vyc_graph *graph) {
  for (uint32_t i = 0; i < replay->row->arrays.count; i++) {
    const vyc_disk_array *row = vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_ARRAYS,
                                                replay->row->arrays.first + i, sizeof *row);
    if (row->bytes > 0 && row->contents.bytes == 0 && !is_default(replay, i))
      VYC_TRY(vyc_graph_own(graph, replay->arrays[i]));
  }
  return VYC_OK;
}

vyc_status vyc__replay_build(vyc_replay *replay, vyc_graph **graph_out,
                             const vyc_meaning *meanings) {
  vyc_argument *arguments = malloc(VYC_MOST_PARAMETERS * (sizeof *arguments + sizeof(uint64_t)));
  if (arguments == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  uint64_t *scalars = (uint64_t *)(void *)(arguments + VYC_MOST_PARAMETERS);
  vyc_bound bound = {.arguments = arguments, .scalars = scalars};
  vyc_graph *graph = NULL;
  vyc_status status = vyc_graph_create(&graph, replay->context);
  if (status == VYC_OK) status = own_arrays(replay, graph);
  for (uint32_t i = 0; i < replay->row->steps.count && status == VYC_OK; i++)
    status = add_step(replay, graph, &bound, meanings, i);
  if (status == VYC_OK) status = vyc_graph_finish(graph);
  if (status == VYC_OK) status = vyc__replay_add_symbols(replay, graph);
  free(arguments);
  if (status == VYC_OK)
    *graph_out = graph;
  else
    vyc_graph_release(graph);
  return status;
}
