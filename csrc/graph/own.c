/* Memory of a graph alone: what a launch leaves there means nothing to anybody else. Launches share
 * it, because they run one after the other. It is unknown when captured ones run, so each of these
 * has memory of its own in its place, as long as something can launch it. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ---- what belongs to a graph ----------------------------------------------------------------- */

static vyc_status own(vyc_graph *graph, vyc_buffer *buffer) {
  if (graph->finished || graph->step_count > 0)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "the graph has steps, which may use the buffer: give it to the graph before "
                     "the first step");
  if (vyc__own_place(graph, buffer) != VYC_NONE)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "the buffer belongs to the graph already: give it once");
  VYC_TRY(vyc__grow(&graph->own, &graph->own_room, graph->own_count + 1, sizeof(vyc_buffer *)));
  vyc__child_retain(&buffer->child);
  graph->own[graph->own_count++] = buffer;
  return VYC_OK;
}

vyc_status vyc_graph_own(vyc_graph *graph, vyc_buffer *buffer) {
  VYC_REQUIRE(graph != NULL && buffer != NULL);
  VYC_REQUIRE(buffer->child.context == graph->child.context && buffer->block != NULL);
  VYC_TRY(vyc__check_usable(graph->child.context));
  vyc__graph_claim(graph);
  const vyc_status status = own(graph, buffer);
  vyc__graph_unclaim(graph);
  return status;
}

uint32_t vyc__own_place(const vyc_graph *graph, const vyc_buffer *buffer) {
  for (uint32_t i = 0; i < graph->own_count; i++)
    if (graph->own[i] == buffer) return i;
  return VYC_NONE;
}

void vyc__own_drop(vyc_graph *graph) {
  const vyc_driver *driver = graph->child.context->driver;
  for (uint32_t i = 0; i < graph->own_count; i++) {
    if (graph->own_watched) driver->temporary_like(0, graph->own[i]->address);
    vyc_buffer_release(graph->own[i]);
  }
  free(graph->own);
}

/* ---- of a captured launch -------------------------------------------------------------------- */

/* Filled, because the driver does not promise that memory is free of what others had in it. */
static vyc_status add_copy(vyc_graph *copy, const vyc_buffer *of) {
  const vyc_driver *driver = copy->child.context->driver;
  vyc_buffer *made = NULL;
  VYC_TRY(vyc_buffer_alloc(&made, copy->child.context, of->bytes));
  copy->own[copy->own_count++] = made;
  if (copy->own_watched) driver->temporary_like(of->address, made->address);
  return vyc_fill(made, 0, VYC_UNSPECIFIED_BYTE, 1, made->bytes);
}

vyc_status vyc__own_copy(vyc_graph *copy, const vyc_graph *graph) {
  if (graph->own_count == 0) return VYC_OK;
  VYC_TRY(vyc__grow(&copy->own, &copy->own_room, graph->own_count, sizeof(vyc_buffer *)));
  copy->own_watched = copy->child.context->driver->temporary_like != NULL;
  for (uint32_t i = 0; i < graph->own_count; i++) VYC_TRY(add_copy(copy, graph->own[i]));
  return VYC_OK;
}

vyc_buffer *vyc__own_instead(const vyc_graph *copy, const vyc_graph *graph, vyc_buffer *buffer) {
  const uint32_t place = graph->own_count == 0 ? VYC_NONE : vyc__own_place(graph, buffer);
  return place == VYC_NONE ? buffer : copy->own[place];
}

/* ---- in tables ------------------------------------------------------------------------------- */

static bool uses_own(const vyc_graph *graph, const vyc_rows *rows) {
  const uint64_t count = (uint64_t)rows->count * rows->argument_count;
  for (uint64_t i = 0; graph->own_count > 0 && i < count; i++)
    if (vyc__own_place(graph, rows->arguments[i].buffer) != VYC_NONE) return true;
  return false;
}

static vyc_status keep(vyc_own_rows **kept_out, vyc_prepared *prepared, const vyc_rows *rows,
                       const uint8_t *places) {
  const size_t arguments = (size_t)rows->count * rows->argument_count * sizeof(vyc_argument);
  const size_t scalars = (size_t)rows->count * rows->scalar_count * sizeof(uint64_t);
  const size_t grids = (size_t)rows->count * 3 * sizeof(uint32_t);
  const size_t of_places = places == NULL ? 0 : (size_t)rows->count * rows->argument_count;
  vyc_own_rows *kept = malloc(sizeof *kept + arguments + scalars + grids + of_places);
  if (kept == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  kept->next = NULL;
  kept->prepared = prepared;
  kept->rows = *rows;
  kept->rows.struct_size = sizeof kept->rows;
  kept->arguments = (vyc_argument *)(void *)(kept + 1);
  uint8_t *const behind = (uint8_t *)(kept + 1) + arguments;
  if (arguments > 0) memcpy(kept->arguments, rows->arguments, arguments);
  if (scalars > 0) memcpy(behind, rows->scalars, scalars);
  memcpy(behind + scalars, rows->grids, grids);
  if (of_places > 0) memcpy(behind + scalars + grids, places, of_places);
  kept->rows.arguments = kept->arguments;
  kept->rows.scalars = (const uint64_t *)(const void *)behind;
  kept->rows.grids = (const uint32_t *)(const void *)(behind + scalars);
  kept->places = of_places == 0 ? NULL : behind + scalars + grids;
  vyc__child_retain(&prepared->child);
  *kept_out = kept;
  return VYC_OK;
}

bool vyc__rows_use_own(const vyc_graph *graph, uint32_t kernels, const vyc_rows *const *rows) {
  bool uses = false;
  for (uint32_t i = 0; i < kernels; i++) uses |= uses_own(graph, rows[i]);
  return uses;
}

vyc_status vyc__own_rows_keep(vyc_own_rows **kept_out, uint32_t kernels,
                              vyc_prepared *const *prepared, const vyc_rows *const *rows,
                              const uint8_t *const *places) {
  for (uint32_t i = 0; i < kernels; i++) {
    VYC_TRY(keep(kept_out, prepared[i], rows[i], places == NULL ? NULL : places[i]));
    kept_out = &(*kept_out)->next;
  }
  return VYC_OK;
}

vyc_status vyc__own_rows_move(const vyc_graph *copy, const vyc_graph *graph,
                              vyc_own_rows **moved_out, const vyc_own_rows *rows) {
  for (; rows != NULL; rows = rows->next) {
    VYC_TRY(keep(moved_out, rows->prepared, &rows->rows, rows->places));
    vyc_own_rows *moved = *moved_out;
    const uint64_t count = (uint64_t)moved->rows.count * moved->rows.argument_count;
    for (uint64_t i = 0; i < count; i++)
      moved->arguments[i].buffer = vyc__own_instead(copy, graph, moved->arguments[i].buffer);
    moved_out = &moved->next;
  }
  return VYC_OK;
}

void vyc__own_rows_drop(vyc_own_rows *kept) {
  while (kept != NULL) {
    vyc_own_rows *next = kept->next;
    vyc_prepared_release(kept->prepared);
    free(kept);
    kept = next;
  }
}
