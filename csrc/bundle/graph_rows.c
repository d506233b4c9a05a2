/* Reading the recorded graphs of a bundle. */
#include "room.h"

#include <inttypes.h>

vyc_status vyc__bundle_graph(const vyc_bundle *bundle, const vyc_disk_graph **graph_out,
                             uint32_t index) {
  const uint64_t count = bundle->tables[VYC_SECTION_GRAPHS].count;
  if (index >= count)
    return vyc__fail(VYC_E_INVALID, "bundle", "no graph %u: the bundle has %" PRIu64, index, count);
  *graph_out = vyc__bundle_row(bundle, VYC_SECTION_GRAPHS, index, sizeof **graph_out);
  return VYC_OK;
}

vyc_status vyc_bundle_graph_get(vyc_bundle *bundle, vyc_bundle_graph *graph_out, uint32_t index) {
  VYC_REQUIRE(bundle != NULL && graph_out != NULL);
  VYC_REQUIRE(graph_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_graph *row = NULL;
  VYC_TRY(vyc__bundle_graph(bundle, &row, index));
  const vyc_bundle_graph graph = {
      .symbol_count = row->symbols.count,
      .name = vyc__bundle_text(bundle, row->name),
      .step_count = row->steps.count,
      .array_count = row->arrays.count,
      .condition_count = vyc__bundle_conditions(bundle, index).count,
  };
  vyc__struct_out(graph_out, &graph, sizeof graph);
  return VYC_OK;
}

vyc_status vyc_bundle_graph_find(vyc_bundle *bundle, uint32_t *index_out, const char *name) {
  VYC_REQUIRE(bundle != NULL && index_out != NULL && name != NULL);
  const vyc_disk_range all = {0, (uint32_t)bundle->tables[VYC_SECTION_GRAPHS].count};
  const vyc_names names = {"graph", VYC_SECTION_GRAPHS, sizeof(vyc_disk_graph), all, NULL};
  return vyc__bundle_find(bundle, index_out, name, &names);
}

vyc_status vyc_bundle_symbol_get(vyc_bundle *bundle, vyc_bundle_symbol *symbol_out, uint32_t graph,
                                 uint32_t index) {
  VYC_REQUIRE(bundle != NULL && symbol_out != NULL);
  VYC_REQUIRE(symbol_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_graph *of = NULL;
  VYC_TRY(vyc__bundle_graph(bundle, &of, graph));
  VYC_REQUIRE(index < of->symbols.count);
  const vyc_disk_symbol *row =
      vyc__bundle_row(bundle, VYC_SECTION_GRAPH_SYMBOLS, of->symbols.first + index, sizeof *row);
  const vyc_bundle_symbol symbol = {
      .kind = row->kind,
      .name = vyc__bundle_text(bundle, row->name),
      .type = row->type,
      .element_bytes = vyc__type_bytes(row->type),
      .flags = row->flags,
      .array = row->array,
      .value = row->value,
      .count = row->count,
  };
  vyc__struct_out(symbol_out, &symbol, sizeof symbol);
  return VYC_OK;
}

vyc_status vyc_bundle_symbol_find(vyc_bundle *bundle, uint32_t *index_out, uint32_t graph,
                                  const char *name) {
  VYC_REQUIRE(bundle != NULL && index_out != NULL && name != NULL);
  const vyc_disk_graph *of = NULL;
  VYC_TRY(vyc__bundle_graph(bundle, &of, graph));
  const vyc_names names = {"symbol", VYC_SECTION_GRAPH_SYMBOLS, sizeof(vyc_disk_symbol),
                           of->symbols, NULL};
  return vyc__bundle_find(bundle, index_out, name, &names);
}

vyc_status vyc_bundle_array_get(vyc_bundle *bundle, vyc_bundle_array *array_out, uint32_t graph,
                                uint32_t index) {
  VYC_REQUIRE(bundle != NULL && array_out != NULL);
  VYC_REQUIRE(array_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_graph *of = NULL;
  VYC_TRY(vyc__bundle_graph(bundle, &of, graph));
  VYC_REQUIRE(index < of->arrays.count);
  const vyc_disk_array *row =
      vyc__bundle_row(bundle, VYC_SECTION_GRAPH_ARRAYS, of->arrays.first + index, sizeof *row);
  const vyc_bundle_array array = {
      .bytes = row->bytes,
      .contents = vyc__bundle_data(bundle, row->contents),
  };
  vyc__struct_out(array_out, &array, sizeof array);
  return VYC_OK;
}

vyc_status vyc_bundle_step_get(vyc_bundle *bundle, vyc_bundle_step *step_out, uint32_t graph,
                               uint32_t index) {
  VYC_REQUIRE(bundle != NULL && step_out != NULL);
  VYC_REQUIRE(step_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_graph *of = NULL;
  VYC_TRY(vyc__bundle_graph(bundle, &of, graph));
  VYC_REQUIRE(index < of->steps.count);
  const vyc_disk_graph_step *row =
      vyc__bundle_row(bundle, VYC_SECTION_GRAPH_STEPS, of->steps.first + index, sizeof *row);
  const vyc_bundle_step step = {
      .kind = row->kind,
      .kernel = row->kernel,
      .type = row->type,
      .grid = {row->grid[0], row->grid[1], row->grid[2]},
      .value_count = row->values.count,
      .times = row->times,
      .values = vyc__bundle_row(bundle, VYC_SECTION_GRAPH_VALUES, row->values.first,
                                sizeof(vyc_bundle_value)),
  };
  vyc__struct_out(step_out, &step, sizeof step);
  return VYC_OK;
}

vyc_disk_range vyc__bundle_conditions(const vyc_bundle *bundle, uint32_t graph) {
  return vyc__bundle_owned(bundle, VYC_SECTION_CONDITIONS, sizeof(vyc_disk_condition),
                           offsetof(vyc_disk_condition, graph), graph);
}

vyc_status vyc_bundle_condition_get(vyc_bundle *bundle, vyc_bundle_condition *condition_out,
                                    uint32_t graph, uint32_t index) {
  VYC_REQUIRE(bundle != NULL && condition_out != NULL);
  VYC_REQUIRE(condition_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_graph *of = NULL;
  VYC_TRY(vyc__bundle_graph(bundle, &of, graph));
  const vyc_disk_range range = vyc__bundle_conditions(bundle, graph);
  VYC_REQUIRE(index < range.count);
  const vyc_disk_condition *row =
      vyc__bundle_row(bundle, VYC_SECTION_CONDITIONS, range.first + index, sizeof *row);
  const vyc_bundle_condition condition = {
      .symbol = row->symbol,
      .memory = row->memory,
      .value = row->value,
      .count = row->count,
  };
  vyc__struct_out(condition_out, &condition, sizeof condition);
  return VYC_OK;
}
