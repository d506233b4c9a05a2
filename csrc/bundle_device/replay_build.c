/* The graph that is built from the steps of a bundled graph, and many launches as one of its steps.
 */
#include <stdlib.h>

#include "room.h"

/* ---- single steps ---------------------------------------------------------------------------- */

static vyc_status add_launch(const vyc_replay *replay, vyc_graph *graph, uint32_t *number,
                             const vyc_disk_graph_step *row, const vyc_bound *bound) {
  return vyc_graph_add_launch(graph, number, vyc__bundled_borrow(replay->kernels[row->kernel]),
                              &bound->run);
}

static vyc_status add_repeat(const vyc_replay *replay, vyc_graph *graph, uint32_t *number,
                             const vyc_disk_graph_step *row) {
  if (row->values.count == 0) return vyc_graph_repeat_begin(graph, number, row->times, NULL, 0, 0);
  const vyc_bundle_value *until = vyc__replay_values(replay, row);
  return vyc_graph_repeat_begin(graph, number, row->times, replay->arrays[until->index],
                                until->value, vyc__type_bytes(row->type));
}

static vyc_status add_step(const vyc_replay *replay, vyc_graph *graph, vyc_bound *bound,
                           const vyc_meaning *meanings, uint32_t *number, uint32_t step) {
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  if (row->kind == VYC_STEP_END) return vyc_graph_repeat_end(graph);
  if (row->kind == VYC_STEP_REPEAT) return add_repeat(replay, graph, number, row);
  VYC_TRY(vyc__replay_bind(replay, bound, meanings, step));
  return row->kind == VYC_STEP_LAUNCH ? add_launch(replay, graph, number, row, bound)
                                      : vyc_graph_add_transfer(graph, number, &bound->transfer);
}

/* ---- many launches as one -------------------------------------------------------------------- */

typedef struct tables {
  vyc_prepared *prepared[VYC_MOST_OF_ENTRY];
  vyc_rows rows[VYC_MOST_OF_ENTRY];
  const uint8_t *places_of[VYC_MOST_OF_ENTRY];
  uint32_t count;
  vyc_argument *arguments;
  uint64_t *scalars;
  uint32_t *grids;
  uint8_t *places; /* of the arguments, as in vyc_graph_add_tables_with */
} tables;

/* Room for all launches from `first` to before `end`. */
static vyc_status make_room(const vyc_replay *replay, tables *made, uint32_t first, uint32_t end) {
  size_t values = 0;
  for (uint32_t i = first; i < end; i++) values += vyc__replay_step(replay, i)->values.count;
  made->arguments = calloc(1, values * (sizeof(vyc_argument) + sizeof(uint64_t) + 1) +
                                  (end - first) * 3 * sizeof(uint32_t) + 1);
  if (made->arguments == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  made->scalars = (uint64_t *)(void *)(made->arguments + values);
  made->grids = (uint32_t *)(void *)(made->scalars + values);
  made->places = (uint8_t *)(made->grids + (size_t)(end - first) * 3);
  return VYC_OK;
}

/* The rows of the next kernel begin with this launch. */
static void begin_table(const vyc_replay *replay, tables *made, const vyc_bound *bound,
                        const uint32_t *grids, uint32_t kernel) {
  made->prepared[made->count] = vyc__bundled_borrow(replay->kernels[kernel]);
  made->places_of[made->count] = made->places + (bound->arguments - made->arguments);
  made->rows[made->count++] = (vyc_rows){.struct_size = sizeof(vyc_rows),
                                         .argument_count = bound->run.argument_count,
                                         .scalar_count = bound->run.scalar_count,
                                         .arguments = bound->arguments,
                                         .scalars = bound->scalars,
                                         .grids = grids,
                                         .clearing = replay->clearing,
                                         .many_clearing = replay->many_clearing};
}

/* Which arrays of the entry stand for those of a launch. */
static void put_places(const vyc_replay *replay, uint8_t *places, const vyc_disk_graph_step *rows,
                       const vyc_disk_graph_step *launch) {
  const vyc_bundle_value *arrays = vyc__replay_values(replay, rows);
  const vyc_bundle_value *values = vyc__replay_values(replay, launch);
  const vyc_disk_parameter *parameters = replay->kernels[launch->kernel]->parameters;
  for (uint32_t i = 0; i < launch->values.count; i++) {
    if (values[i].kind != VYC_VALUE_SYMBOL) continue;
    uint8_t *place = &places[parameters[i].slot];
    for (*place = 1; arrays[*place - 1].index != values[i].index;) ++*place;
  }
}

/* The loader has checked that the launches of each kernel are together, and that symbols are among
 * the arrays of their entry. */
static vyc_status fill_tables(const vyc_replay *replay, tables *made, const vyc_meaning *meanings,
                              uint32_t first, uint32_t end) {
  vyc_bound bound = {.arguments = made->arguments, .scalars = made->scalars};
  uint32_t *grid = made->grids;
  uint32_t kernel = UINT32_MAX;
  for (uint32_t i = first; i < end; i++, grid += 3) {
    const vyc_disk_graph_step *row = vyc__replay_step(replay, i);
    VYC_TRY(vyc__replay_bind(replay, &bound, meanings, i));
    memcpy(grid, bound.run.grid, sizeof bound.run.grid);
    if (row->kernel != kernel) begin_table(replay, made, &bound, grid, row->kernel);
    put_places(replay, made->places + (bound.arguments - made->arguments),
               vyc__replay_step(replay, first - 1), row);
    kernel = row->kernel;
    made->rows[made->count - 1].count++;
    bound.arguments += bound.run.argument_count;
    bound.scalars += bound.run.scalar_count;
  }
  return VYC_OK;
}

/* The launches behind this step, up to their end. */
static vyc_status add_rows(const vyc_replay *replay, vyc_graph *graph, const vyc_meaning *meanings,
                           uint32_t *number, uint32_t step) {
  const uint32_t first = step + 1, end = vyc__replay_behind(replay, step) - 1;
  const vyc_disk_graph_step *row = vyc__replay_step(replay, step);
  const vyc_rows *rows[VYC_MOST_OF_ENTRY];
  tables made = {.count = 0};
  *number = UINT32_MAX;
  VYC_TRY(make_room(replay, &made, first, end));
  vyc_status status = fill_tables(replay, &made, meanings, first, end);
  for (uint32_t k = 0; k < made.count; k++) rows[k] = &made.rows[k];
  if (status == VYC_OK)
    status = vyc_graph_add_tables_with(graph, number, replay->entries[row->kernel], made.count,
                                       made.prepared, rows,
                                       row->values.count == 0 ? NULL : made.places_of);
  free(made.arguments);
  return status;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static vyc_status own_array(const vyc_replay *replay, vyc_graph *graph, bool *seen,
                            uint32_t array) {
  const vyc_disk_array *row = vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_ARRAYS,
                                              replay->row->arrays.first + array, sizeof *row);
  if (seen[array]) return VYC_OK;
  seen[array] = true;
  if (row->bytes == 0 || row->contents.bytes != 0 || vyc__replay_is_default(replay, array))
    return VYC_OK;
  return vyc_graph_own(graph, replay->arrays[array]);
}

/* Give the graph those arrays of the form that nobody else can see and from which no step reads
 * what an earlier replay has left. */
static vyc_status own_arrays(const vyc_replay *replay, const vyc_replay_form *form,
                             vyc_graph *graph) {
  bool *seen = calloc(replay->row->arrays.count + (size_t)1, sizeof *seen);
  if (seen == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  vyc_status status = VYC_OK;
  for (uint32_t i = form->begin; i < form->end && status == VYC_OK; i++) {
    const vyc_disk_graph_step *step = vyc__replay_step(replay, i);
    const vyc_bundle_value *values = vyc__replay_values(replay, step);
    for (uint32_t v = 0; v < step->values.count && status == VYC_OK; v++)
      if (values[v].kind == VYC_VALUE_SPAN)
        status = own_array(replay, graph, seen, values[v].index);
  }
  free(seen);
  return status;
}

static vyc_status add_steps(const vyc_replay *replay, const vyc_replay_form *form, vyc_graph *graph,
                            const vyc_meaning *meanings) {
  vyc_argument *arguments = malloc(VYC_MOST_PARAMETERS * (sizeof *arguments + sizeof(uint64_t)));
  if (arguments == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  vyc_bound bound = {.arguments = arguments,
                     .scalars = (uint64_t *)(void *)(arguments + VYC_MOST_PARAMETERS)};
  vyc_status status = VYC_OK;
  for (uint32_t i = form->begin; i < form->end && status == VYC_OK;
       i = vyc__replay_behind(replay, i)) {
    uint32_t *number = &form->numbers[i - form->begin];
    status = vyc__replay_step(replay, i)->kind == VYC_STEP_ROWS
                 ? add_rows(replay, graph, meanings, number, i)
                 : add_step(replay, graph, &bound, meanings, number, i);
  }
  free(arguments);
  return status;
}

vyc_status vyc__replay_build(vyc_replay *replay, vyc_replay_form *form, vyc_graph **graph_out,
                             const vyc_meaning *meanings) {
  vyc_graph *graph = NULL;
  vyc_status status = vyc_graph_create(&graph, replay->context);
  if (status == VYC_OK) status = own_arrays(replay, form, graph);
  if (status == VYC_OK) status = add_steps(replay, form, graph, meanings);
  if (status == VYC_OK) status = vyc_graph_finish(graph);
  if (status == VYC_OK) status = vyc__replay_add_symbols(replay, form, graph);
  vyc_graph *other = atomic_load(&replay->forms[form == replay->forms].graph);
  if (status == VYC_OK && other != NULL) status = vyc_graph_in_turns(graph, other);
  if (status == VYC_OK)
    *graph_out = graph;
  else
    vyc_graph_release(graph);
  return status;
}
