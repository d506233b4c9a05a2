/* Many launches of a kernel, or of several, as one step: its table, what the rows touch, and what
 * is cleared before them, by memsets or by rows of a clearing kernel. */
#include <stdlib.h>

#include "graph.h"

/* ---- what rows touch ------------------------------------------------------------------------- */

/* Many launches as one step. */
typedef struct tables {
  vyc_prepared *entry;
  uint32_t count; /* of kernels */
  vyc_prepared *const *prepared;
  const vyc_rows *const *rows;
  const uint8_t *const *places; /* or NULL */
} tables;

static bool has_place(const tables *of, uint32_t kernel, uint32_t argument) {
  return of->places != NULL && of->places[kernel] != NULL && of->places[kernel][argument] != 0;
}

/* Without holds: the caller's arguments keep the buffers. Those with a place are arguments of the
 * step, unless their rows are kept. */
static vyc_status list_memory(vyc_row_memory **rows_out, const vyc_kept_rows *kept,
                              const tables *of, bool keeps) {
  uint32_t count = 0, listed = 0;
  for (uint32_t k = 0; k < of->count; k++)
    count += of->rows[k]->count * of->rows[k]->argument_count;
  VYC_TRY(vyc__row_memory_new(rows_out, kept->range_count, count));
  vyc_row_memory *made = *rows_out;
  for (uint32_t i = 0; i < kept->range_count; i++) {
    const vyc_row_bytes *range = &kept->ranges[i];
    made->accesses[i] = (vyc_access){range->begin, range->end, range->written, 0};
  }
  for (uint32_t k = 0; k < of->count; k++)
    for (uint32_t i = 0; i < of->rows[k]->count * of->rows[k]->argument_count; i++)
      if (keeps || !has_place(of, k, i)) made->buffers[listed++] = of->rows[k]->arguments[i].buffer;
  made->buffer_count = vyc__buffers_once(made->buffers, listed);
  return VYC_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static vyc_status add_table(vyc_graph *graph, uint32_t *step_out, const vyc_kept_rows *kept,
                            const tables *of) {
  const bool keeps = vyc__rows_use_own(graph, of->count, of->rows);
  vyc_row_memory *memory = NULL;
  uint32_t number = 0;
  if (kept->table == NULL) return VYC_OK;
  VYC_TRY(vyc__recorded_check(of->entry, &kept->launch.run));
  VYC_TRY(list_memory(&memory, kept, of, keeps));
  const vyc_status status =
      vyc__add_values(graph, &number, STEP_LAUNCH, of->entry, &kept->launch.run, NULL, memory);
  free(memory);
  VYC_TRY(status);
  if (step_out != NULL) *step_out = number;
  if (!keeps) return VYC_OK;
  return vyc__own_rows_keep(&graph->steps[number].rows->own, of->count, of->prepared, of->rows,
                            of->places);
}

vyc_status vyc__add_table(vyc_graph *graph, vyc_prepared *entry, const vyc_own_rows *own) {
  vyc_prepared *prepared[VYC_MOST_TABLES];
  const vyc_rows *rows[VYC_MOST_TABLES];
  const uint8_t *places[VYC_MOST_TABLES];
  tables of = {entry, 0, prepared, rows, places};
  vyc_kept_rows kept;
  for (; own != NULL; own = own->next) {
    prepared[of.count] = own->prepared;
    places[of.count] = own->places;
    rows[of.count++] = &own->rows;
  }
  VYC_TRY(vyc__kept_rows_make(&kept, entry, of.count, prepared, rows, places));
  const vyc_status status = add_table(graph, NULL, &kept, &of);
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
  vyc_prepared *const prepared = rows->clearing;
  const tables of = {rows->many_clearing, 1, &prepared, &clearing, NULL};
  VYC_TRY(vyc__kept_rows_make(&kept, of.entry, 1, &prepared, &clearing, NULL));
  const vyc_status status = add_table(graph, step_out, &kept, &of);
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

/* By the first kernel that clears. */
static vyc_status add_clears(vyc_graph *graph, uint32_t *step_out, const vyc_kept_rows *kept,
                             const tables *of) {
  for (uint32_t k = 0; k < of->count && kept->clear_count > VYC_FEW_CLEARS; k++)
    if (of->rows[k]->clearing != NULL && of->rows[k]->many_clearing != NULL)
      return add_clears_by_rows(graph, step_out, kept, of->rows[k]);
  for (uint32_t i = 0; i < kept->clear_count; i++)
    VYC_TRY(add_fill(graph, step_out, &kept->clears[i]));
  return VYC_OK;
}

static vyc_status add_rows(vyc_graph *graph, uint32_t *step_out, const vyc_kept_rows *kept,
                           const tables *of) {
  const uint32_t before = graph->step_count;
  vyc_status status = add_clears(graph, step_out, kept, of);
  if (status == VYC_OK) status = add_table(graph, step_out, kept, of);
  if (status != VYC_OK) {
    vyc__record_keep();
    vyc__remove_steps(graph, before);
    vyc__record_resume();
  }
  return status;
}

vyc_status vyc_graph_add_rows(vyc_graph *graph, uint32_t *step_out, vyc_prepared *prepared,
                              vyc_prepared *many, const vyc_rows *rows) {
  return vyc_graph_add_tables(graph, step_out, many, 1, &prepared, &rows);
}

vyc_status vyc_graph_add_tables(vyc_graph *graph, uint32_t *step_out, vyc_prepared *entry,
                                uint32_t count, vyc_prepared *const *prepared,
                                const vyc_rows *const *rows) {
  return vyc_graph_add_tables_with(graph, step_out, entry, count, prepared, rows, NULL);
}

vyc_status vyc_graph_add_tables_with(vyc_graph *graph, uint32_t *step_out, vyc_prepared *entry,
                                     uint32_t count, vyc_prepared *const *prepared,
                                     const vyc_rows *const *rows, const uint8_t *const *places) {
  VYC_REQUIRE(graph != NULL && entry != NULL && prepared != NULL && rows != NULL);
  VYC_REQUIRE(count != 0 && count <= VYC_MOST_TABLES);
  for (uint32_t k = 0; k < count; k++) {
    VYC_REQUIRE(prepared[k] != NULL && rows[k] != NULL);
    VYC_REQUIRE(prepared[k]->child.context == graph->child.context);
    VYC_REQUIRE(rows[k]->struct_size >= sizeof *rows[k] && rows[k]->stream == NULL);
  }
  const tables of = {entry, count, prepared, rows, places};
  vyc_kept_rows kept;
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc_status status = vyc__kept_rows_make(&kept, entry, count, prepared, rows, places);
  if (status == VYC_OK) {
    vyc__graph_claim(graph);
    status = add_rows(graph, step_out, &kept, &of);
    vyc__graph_unclaim(graph);
    vyc__kept_rows_end(&kept);
  }
  vyc__leave(graph->child.context, &scope);
  return status;
}
