/* Many launches of a kernel as one step: its table, what the rows touch, and what is cleared before
 * them, by memsets or by rows of a clearing kernel. */
#include <stdlib.h>

#include "graph.h"

/* ---- what rows touch ------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)*(vyc_buffer *const *)a;
  const uintptr_t y = (uintptr_t)*(vyc_buffer *const *)b;
  return x < y ? -1 : x > y ? 1 : 0;
}

/* Without holds: the caller's arguments keep the buffers. */
static vyc_status list_memory(vyc_row_memory **rows_out, const vyc_kept_rows *kept,
                              const vyc_rows *rows) {
  const uint32_t count = rows->count * rows->argument_count;
  VYC_TRY(vyc__row_memory_new(rows_out, kept->range_count, count));
  vyc_row_memory *made = *rows_out;
  for (uint32_t i = 0; i < kept->range_count; i++) {
    const vyc_row_bytes *range = &kept->ranges[i];
    made->accesses[i] = (vyc_access){range->begin, range->end, range->written, 0};
  }
  for (uint32_t i = 0; i < count; i++) made->buffers[i] = rows->arguments[i].buffer;
  if (count > 1) qsort(made->buffers, count, sizeof *made->buffers, by_address);
  for (uint32_t i = 0; i < count; i++)
    if (i == 0 || made->buffers[i] != made->buffers[made->buffer_count - 1])
      made->buffers[made->buffer_count++] = made->buffers[i];
  return VYC_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static vyc_status add_table(vyc_graph *graph, uint32_t *step_out, vyc_prepared *prepared,
                            vyc_prepared *entry, const vyc_kept_rows *kept, const vyc_rows *rows) {
  vyc_row_memory *memory = NULL;
  uint32_t number = 0;
  if (kept->table == NULL) return VYC_OK;
  VYC_TRY(vyc__recorded_check(entry, &kept->launch.run));
  VYC_TRY(list_memory(&memory, kept, rows));
  const vyc_status status =
      vyc__add_values(graph, &number, STEP_LAUNCH, entry, &kept->launch.run, NULL, memory);
  free(memory);
  VYC_TRY(status);
  if (step_out != NULL) *step_out = number;
  return vyc__own_rows_keep(graph, &graph->steps[number].rows->own, prepared, rows);
}

vyc_status vyc__add_table(vyc_graph *graph, vyc_prepared *prepared, vyc_prepared *entry,
                          const vyc_rows *rows) {
  vyc_kept_rows kept;
  VYC_TRY(vyc__kept_rows_make(&kept, prepared, entry, rows));
  const vyc_status status = add_table(graph, NULL, prepared, entry, &kept, rows);
  vyc__kept_rows_end(&kept);
  return status;
}

static vyc_status add_fill(vyc_graph *graph, uint32_t *step_out, const vyc_clear *clear) {
  const bool words = (clear->begin | clear->end) % sizeof(uint32_t) == 0;
  const vyc_graph_transfer fill = {.struct_size = sizeof fill,
                                   .element_bytes = words ? sizeof(uint32_t) : 1,
                                   .bytes = clear->end - clear->begin,
                                   .to = clear->first->buffer,
                                   .to_offset = clear->first->offset};
  return vyc__add_values(graph, step_out, STEP_TRANSFER, NULL, NULL, &fill, NULL);
}

static vyc_status add_clearing(vyc_graph *graph, uint32_t *step_out, const vyc_rows *rows,
                               const vyc_rows *clearing) {
  vyc_kept_rows kept;
  if (clearing->count == 0) return VYC_OK;
  VYC_TRY(vyc__kept_rows_make(&kept, rows->clearing, rows->many_clearing, clearing));
  const vyc_status status =
      add_table(graph, step_out, rows->clearing, rows->many_clearing, &kept, clearing);
  vyc__kept_rows_end(&kept);
  return status;
}

static vyc_status add_clears_by_rows(vyc_graph *graph, uint32_t *step_out,
                                     const vyc_kept_rows *kept, const vyc_rows *rows) {
  vyc_argument *arguments =
      malloc(kept->clear_count * (sizeof(vyc_argument) + 3 * sizeof(uint32_t)));
  if (arguments == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  uint32_t *grids = (uint32_t *)(void *)(arguments + kept->clear_count);
  vyc_rows clearing = {.struct_size = sizeof clearing,
                       .argument_count = 1,
                       .arguments = arguments,
                       .grids = grids,
                       .flags = VYC_RUN_GRID_OF_WORK};
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; i < kept->clear_count && status == VYC_OK; i++) {
    const uint32_t row = clearing.count;
    if (vyc__clearing_row(rows->clearing, &kept->clears[i], &arguments[row],
                          &grids[3 * (size_t)row]))
      clearing.count++;
    else
      status = add_fill(graph, step_out, &kept->clears[i]);
  }
  if (status == VYC_OK) status = add_clearing(graph, step_out, rows, &clearing);
  free(arguments);
  return status;
}

static vyc_status add_clears(vyc_graph *graph, uint32_t *step_out, const vyc_kept_rows *kept,
                             const vyc_rows *rows) {
  const bool by_rows = rows->clearing != NULL && rows->many_clearing != NULL;
  if (by_rows && kept->clear_count > VYC_FEW_CLEARS)
    return add_clears_by_rows(graph, step_out, kept, rows);
  for (uint32_t i = 0; i < kept->clear_count; i++)
    VYC_TRY(add_fill(graph, step_out, &kept->clears[i]));
  return VYC_OK;
}

static vyc_status add_rows(vyc_graph *graph, uint32_t *step_out, vyc_prepared *prepared,
                           vyc_prepared *many, const vyc_kept_rows *kept, const vyc_rows *rows) {
  const uint32_t before = graph->step_count;
  vyc_status status = add_clears(graph, step_out, kept, rows);
  if (status == VYC_OK) status = add_table(graph, step_out, prepared, many, kept, rows);
  if (status != VYC_OK) {
    vyc__record_keep();
    vyc__remove_steps(graph, before);
    vyc__record_resume();
  }
  return status;
}

vyc_status vyc_graph_add_rows(vyc_graph *graph, uint32_t *step_out, vyc_prepared *prepared,
                              vyc_prepared *many, const vyc_rows *rows) {
  VYC_REQUIRE(graph != NULL && prepared != NULL && many != NULL && rows != NULL);
  VYC_REQUIRE(prepared->child.context == graph->child.context);
  VYC_REQUIRE(rows->struct_size >= sizeof *rows && rows->stream == NULL);
  vyc_kept_rows kept;
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc_status status = vyc__kept_rows_make(&kept, prepared, many, rows);
  if (status == VYC_OK) {
    vyc__graph_claim(graph);
    status = add_rows(graph, step_out, prepared, many, &kept, rows);
    vyc__graph_unclaim(graph);
    vyc__kept_rows_end(&kept);
  }
  vyc__leave(graph->child.context, &scope);
  return status;
}
