/* Whether the recorded graphs of a bundle are valid: every value has the type that its place
 * requires and is inside its array, repeats are nested, and nothing refers to what does not exist.
 */
#include <inttypes.h>

#include "check.h"

typedef struct reader {
  const vyc_bundle *bundle;
  const vyc_disk_graph *graph;
  const char *name;
  vyc_cursors *cursors;
  const vyc_disk_kernel *entry; /* of the launches as one that are being read */
  const vyc_disk_graph_step *rows; /* the step that they began with */
  uint32_t members; /* kernels of the entry */
  uint32_t member, member_count; /* the kernel of the last of them, how many there were */
  uint32_t placed, written; /* arrays of the entry that came up; a bit for each that is written */
  bool has_other; /* VYC_STEP_OTHERWISE was read */
} reader;

static const vyc_disk_symbol *symbol_at(const reader *r, uint32_t index) {
  return vyc__bundle_row(r->bundle, VYC_SECTION_GRAPH_SYMBOLS, r->graph->symbols.first + index,
                         sizeof(vyc_disk_symbol));
}

/* `count` elements from byte `offset` on are inside array `index`, and aligned. */
static bool is_inside(const reader *r, uint32_t index, uint64_t offset, uint64_t count,
                      uint32_t type) {
  const uint32_t element_bytes = vyc__type_bytes(type);
  if (index >= r->graph->arrays.count || element_bytes == 0) return false;
  const vyc_disk_array *array = vyc__bundle_row(r->bundle, VYC_SECTION_GRAPH_ARRAYS,
                                                r->graph->arrays.first + index, sizeof *array);
  return offset % element_bytes == 0 && offset <= array->bytes &&
         count <= (array->bytes - offset) / element_bytes;
}

static vyc_status check_arrays(const reader *r) {
  const vyc_disk_range range = r->graph->arrays;
  VYC_DEMAND(vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_GRAPH_ARRAYS, range),
             "graph %s: its arrays are not in their section", r->name);
  for (uint32_t i = 0; i < range.count; i++) {
    const vyc_disk_array *array =
        vyc__bundle_row(r->bundle, VYC_SECTION_GRAPH_ARRAYS, range.first + i, sizeof *array);
    VYC_DEMAND((array->contents.bytes == 0 || array->contents.bytes == array->bytes) &&
                   vyc__bundle_take_data(r->bundle, r->cursors, array->contents),
               "graph %s: the contents of array %u are invalid", r->name, i);
  }
  return VYC_OK;
}

static bool is_default(const reader *r, const vyc_disk_symbol *symbol) {
  if ((symbol->flags & VYC_SYMBOL_HAS_DEFAULT) == 0)
    return symbol->array == 0 && symbol->value == 0 && symbol->count == 0;
  if (symbol->kind == VYC_SYMBOL_SCALAR) return symbol->array == 0 && symbol->count == 0;
  return is_inside(r, symbol->array, symbol->value, symbol->count, symbol->type);
}

static vyc_status check_symbols(const reader *r) {
  const vyc_disk_range range = r->graph->symbols;
  const uint32_t known = VYC_SYMBOL_HAS_DEFAULT | VYC_SYMBOL_WRITTEN;
  const char *before = "";
  VYC_DEMAND(vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_GRAPH_SYMBOLS, range),
             "graph %s: its symbols are not in their section", r->name);
  for (uint32_t i = 0; i < range.count; i++) {
    const vyc_disk_symbol *symbol = symbol_at(r, i);
    VYC_DEMAND(vyc__bundle_is_name(r->bundle, symbol->name), "graph %s: symbol %u has no name",
               r->name, i);
    const char *name = vyc__bundle_text(r->bundle, symbol->name);
    VYC_DEMAND(strcmp(before, name) < 0, "graph %s: symbols are not in the order of their names",
               r->name);
    VYC_DEMAND(symbol->kind >= VYC_SYMBOL_ARRAY && symbol->kind <= VYC_SYMBOL_SCALAR &&
                   vyc__type_bytes(symbol->type) != 0 && (symbol->flags & ~known) == 0 &&
                   is_default(r, symbol),
               "graph %s: symbol %s is invalid", r->name, name);
    before = name;
  }
  return VYC_OK;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static const vyc_bundle_value *value_at(const reader *r, const vyc_disk_graph_step *step,
                                        uint32_t index) {
  return vyc__bundle_row(r->bundle, VYC_SECTION_GRAPH_VALUES, step->values.first + index,
                         sizeof(vyc_bundle_value));
}

static bool is_symbol(const reader *r, const vyc_bundle_value *v, uint32_t kind, uint32_t type) {
  if (v->index >= r->graph->symbols.count || v->value != 0 || v->count != 0) return false;
  const vyc_disk_symbol *symbol = symbol_at(r, v->index);
  return symbol->kind == kind && symbol->type == type;
}

static bool is_span(const reader *r, const vyc_bundle_value *v, uint32_t type) {
  return v->kind == VYC_VALUE_SPAN && is_inside(r, v->index, v->value, v->count, type);
}

static bool is_array(const reader *r, const vyc_bundle_value *v, uint32_t type) {
  return v->kind == VYC_VALUE_SYMBOL ? is_symbol(r, v, VYC_SYMBOL_ARRAY, type)
                                     : is_span(r, v, type);
}

static bool is_scalar(const reader *r, const vyc_bundle_value *v, uint32_t type) {
  return v->kind == VYC_VALUE_SYMBOL ? is_symbol(r, v, VYC_SYMBOL_SCALAR, type)
                                     : v->kind == VYC_VALUE_BITS && v->index == 0 && v->count == 0;
}

static const vyc_disk_parameter *parameter_at(const reader *r, const vyc_disk_kernel *kernel,
                                              uint32_t index) {
  return vyc__bundle_row(r->bundle, VYC_SECTION_PARAMETERS, kernel->parameters.first + index,
                         sizeof(vyc_disk_parameter));
}

static bool is_launch(const reader *r, const vyc_disk_graph_step *step) {
  const vyc_disk_kernel *kernel = NULL;
  if (step->kernel >= r->bundle->tables[VYC_SECTION_KERNELS].count) return false;
  kernel = vyc__bundle_row(r->bundle, VYC_SECTION_KERNELS, step->kernel, sizeof *kernel);
  if (step->values.count != kernel->parameters.count || step->type != 0) return false;
  for (uint32_t i = 0; i < kernel->parameters.count; i++) {
    const vyc_disk_parameter *p = parameter_at(r, kernel, i);
    const vyc_bundle_value *value = value_at(r, step, i);
    if (p->role == VYC_ROLE_SCALAR ? !is_scalar(r, value, p->type) : !is_array(r, value, p->type))
      return false;
  }
  return true;
}

/* The device looks at an integer or a bool. */
static bool is_repeat(const reader *r, const vyc_disk_graph_step *step) {
  if (step->values.count == 0) return step->times > 0 && step->type == 0;
  return step->values.count == 1 && step->type >= VYC_TYPE_BOOL && step->type <= VYC_TYPE_I64 &&
         is_span(r, value_at(r, step, 0), step->type) && value_at(r, step, 0)->count > 0;
}

static bool is_step(const reader *r, const vyc_disk_graph_step *step) {
  const bool launch = step->kind == VYC_STEP_LAUNCH, repeat = step->kind == VYC_STEP_REPEAT;
  if (!launch && (step->grid[0] | step->grid[1] | step->grid[2]) != 0) return false;
  if (!launch && step->kind != VYC_STEP_ROWS && step->kernel != 0) return false;
  if (!repeat && step->times != 0) return false;
  switch (step->kind) {
  case VYC_STEP_LAUNCH: return is_launch(r, step);
  case VYC_STEP_COPY:
    return step->values.count == 2 && is_span(r, value_at(r, step, 0), step->type) &&
           is_array(r, value_at(r, step, 1), step->type);
  case VYC_STEP_FILL:
    return step->values.count == 2 && is_span(r, value_at(r, step, 0), step->type) &&
           is_scalar(r, value_at(r, step, 1), step->type);
  case VYC_STEP_REPEAT: return is_repeat(r, step);
  case VYC_STEP_ROWS: return step->type == 0;
  case VYC_STEP_OTHERWISE:
  case VYC_STEP_END: return step->values.count == 0 && step->type == 0;
  default: return false;
  }
}

/* ---- launches as one ------------------------------------------------------------------------- */

/* A symbol for each array of the entry; not in the other form, where arrays may have any size. */
static bool has_arrays(const reader *r) {
  const uint32_t arrays = r->entry->parameters.count - r->members;
  if (r->rows->values.count != arrays || (arrays > 0 && r->has_other)) return false;
  for (uint32_t i = 0; i < arrays; i++) {
    const vyc_bundle_value *value = value_at(r, r->rows, i);
    const uint32_t type = parameter_at(r, r->entry, r->members + i)->type;
    if (value->kind != VYC_VALUE_SYMBOL || !is_symbol(r, value, VYC_SYMBOL_ARRAY, type))
      return false;
  }
  return true;
}

static bool begin_rows(reader *r, const vyc_disk_graph_step *step) {
  if (step->kernel >= r->bundle->tables[VYC_SECTION_KERNELS].count) return false;
  r->entry = vyc__bundle_row(r->bundle, VYC_SECTION_KERNELS, step->kernel, sizeof *r->entry);
  r->rows = step;
  r->member = r->member_count = r->placed = r->written = 0;
  if ((r->entry->flags & VYC_KERNEL_ROWS) == 0) return false;
  r->members = r->entry->parameters.count - vyc__bundle_buffers(r->bundle, r->entry);
  return has_arrays(r);
}

/* Arrays of the entry are in the order in which launches first have them. */
static bool is_placed_array(reader *r, const vyc_bundle_value *value, uint32_t role) {
  uint32_t place = 0;
  while (place < r->placed && value_at(r, r->rows, place)->index != value->index) place++;
  if (place == r->rows->values.count || value_at(r, r->rows, place)->index != value->index)
    return false;
  if (place == r->placed) r->placed++;
  if (role != VYC_ROLE_IN) r->written |= UINT32_C(1) << place;
  return true;
}

static bool has_places(reader *r, const vyc_disk_graph_step *step) {
  const vyc_disk_kernel *kernel =
      vyc__bundle_row(r->bundle, VYC_SECTION_KERNELS, step->kernel, sizeof *kernel);
  for (uint32_t i = 0; i < step->values.count; i++) {
    const uint32_t role = parameter_at(r, kernel, i)->role;
    const vyc_bundle_value *value = value_at(r, step, i);
    if (value->kind != VYC_VALUE_SYMBOL) continue;
    if (role == VYC_ROLE_SCALAR || !is_placed_array(r, value, role)) return false;
  }
  return true;
}

/* Those of each kernel of the entry, in its order, at least one each. */
static bool is_row(reader *r, const vyc_disk_graph_step *step) {
  if (step->kind != VYC_STEP_LAUNCH || !has_places(r, step)) return false;
  if (r->member_count > 0 && vyc__bundle_member(r->bundle, r->entry, r->member) != step->kernel) {
    r->member++;
    r->member_count = 0;
  }
  r->member_count++;
  return r->member < r->members &&
         vyc__bundle_member(r->bundle, r->entry, r->member) == step->kernel;
}

/* All kernels and arrays of the entry came up, and what is written may be. */
static bool end_rows(reader *r) {
  const uint32_t arrays = r->rows->values.count;
  bool whole = r->member_count > 0 && r->member + 1 == r->members && r->placed == arrays;
  for (uint32_t i = 0; i < arrays; i++) {
    const bool is_written = (r->written >> i & 1) != 0;
    whole &= (parameter_at(r, r->entry, r->members + i)->role == VYC_ROLE_INOUT) == is_written;
  }
  r->entry = NULL;
  return whole;
}

/* Whether the step may stand here: it depends on the repeats that are open, on launches as one, and
 * on the other form. */
static bool is_placed(reader *r, const vyc_disk_graph_step *step, uint32_t *depth) {
  if (r->entry != NULL) return step->kind == VYC_STEP_END ? end_rows(r) : is_row(r, step);
  switch (step->kind) {
  case VYC_STEP_ROWS: return begin_rows(r, step);
  case VYC_STEP_REPEAT: ++*depth; return true;
  case VYC_STEP_END: return (*depth)-- > 0;
  case VYC_STEP_OTHERWISE: {
    const bool first = !r->has_other && *depth == 0;
    r->has_other = true;
    return first;
  }
  default: return true;
  }
}

static vyc_status check_steps(reader *r) {
  const vyc_disk_range range = r->graph->steps;
  uint32_t depth = 0;
  VYC_DEMAND(vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_GRAPH_STEPS, range),
             "graph %s: its steps are not in their section", r->name);
  for (uint32_t i = 0; i < range.count; i++) {
    const vyc_disk_graph_step *step =
        vyc__bundle_row(r->bundle, VYC_SECTION_GRAPH_STEPS, range.first + i, sizeof *step);
    VYC_DEMAND(vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_GRAPH_VALUES, step->values) &&
                   is_step(r, step),
               "graph %s: step %u is invalid", r->name, i);
    VYC_DEMAND(is_placed(r, step, &depth), "graph %s: step %u is not in its place", r->name, i);
  }
  VYC_DEMAND(depth == 0 && r->entry == NULL,
             "graph %s: loops or tables of launches without an end: %u", r->name,
             depth + (r->entry != NULL));
  return VYC_OK;
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool is_condition(const reader *r, const vyc_disk_condition *row) {
  if (row->symbol >= r->graph->symbols.count) return false;
  const vyc_disk_symbol *symbol = symbol_at(r, row->symbol);
  if (symbol->kind == VYC_SYMBOL_SCALAR) return row->memory == 0 && row->count == 0;
  if (row->memory < r->graph->arrays.count)
    return is_inside(r, row->memory, row->value, row->count, symbol->type);
  const uint32_t bytes = vyc__type_bytes(symbol->type);
  return row->memory - r->graph->arrays.count < r->graph->symbols.count &&
         row->count <= INT64_MAX / bytes && row->value <= INT64_MAX - row->count * bytes;
}

/* Of these, which are in the order of their symbols. */
static bool has_condition(const vyc_disk_condition *rows, uint64_t count, uint32_t symbol) {
  uint64_t low = 0, high = count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (rows[middle].symbol == symbol) return true;
    if (rows[middle].symbol < symbol)
      low = middle + 1;
    else
      high = middle;
  }
  return false;
}

/* A table of launches is made for arrays of these sizes. */
static vyc_status check_places(const reader *r, const vyc_disk_condition *rows, uint64_t count) {
  const vyc_disk_range range = r->graph->steps;
  for (uint32_t i = 0; i < range.count; i++) {
    const vyc_disk_graph_step *step =
        vyc__bundle_row(r->bundle, VYC_SECTION_GRAPH_STEPS, range.first + i, sizeof *step);
    for (uint32_t v = 0; step->kind == VYC_STEP_ROWS && v < step->values.count; v++)
      VYC_DEMAND(has_condition(rows, count, value_at(r, step, v)->index),
                 "graph %s: a symbol in the table of launches has no condition (step %u)", r->name,
                 i);
  }
  return VYC_OK;
}

/* The rows of this graph are those that come next. A graph has them if it has two forms. */
static vyc_status check_conditions(const reader *r, uint32_t graph) {
  const vyc_table *table = &r->bundle->tables[VYC_SECTION_CONDITIONS];
  uint64_t *next = &r->cursors->next[VYC_SECTION_CONDITIONS];
  const uint64_t first = *next;
  const vyc_disk_condition *rows = table->rows;
  uint32_t least = 0;
  for (; *next < table->count && rows[*next].graph == graph; ++*next) {
    const vyc_disk_condition *row = &rows[*next];
    VYC_DEMAND(row->symbol >= least && is_condition(r, row), "graph %s: invalid condition %" PRIu64,
               r->name, *next);
    least = row->symbol + 1;
  }
  VYC_DEMAND((least > 0) == r->has_other,
             "graph %s: it has conditions but only one form, or two forms without conditions",
             r->name);
  return check_places(r, rows + first, *next - first);
}

vyc_status vyc__bundle_graphs_check(const vyc_bundle *bundle, vyc_cursors *cursors) {
  const vyc_table *graphs = &bundle->tables[VYC_SECTION_GRAPHS];
  const char *before = "";
  VYC_DEMAND(graphs->count <= UINT32_MAX,
             "there are %" PRIu64 " graphs, and at most %u are possible", graphs->count,
             UINT32_MAX);
  for (uint32_t i = 0; i < graphs->count; i++) {
    reader r = {.bundle = bundle, .cursors = cursors};
    r.graph = vyc__bundle_row(bundle, VYC_SECTION_GRAPHS, i, sizeof *r.graph);
    VYC_DEMAND(vyc__bundle_is_name(bundle, r.graph->name), "graph %u has no name", i);
    r.name = vyc__bundle_text(bundle, r.graph->name);
    VYC_DEMAND(strcmp(before, r.name) < 0, "graph %s: graphs are not in the order of their names",
               r.name);
    VYC_TRY(check_arrays(&r));
    VYC_TRY(check_symbols(&r));
    VYC_TRY(check_steps(&r));
    VYC_TRY(check_conditions(&r, i));
    before = r.name;
  }
  return VYC_OK;
}
