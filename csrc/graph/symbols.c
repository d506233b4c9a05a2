/* Symbols of a graph: values of several steps that are set together, and what a launch makes of
 * them. A value is put into the target of each step that uses it, which begins as its base. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ---- adding ---------------------------------------------------------------------------------- */

static vyc_status refuse_use(const vyc_graph_use *use, const char *why) {
  return vyc__fail(VYC_E_INVALID, "graph", "a symbol cannot be place %u of step %u: %s", use->place,
                   use->step, why);
}

static vyc_status check_launch_use(const vyc_step *step, const vyc_graph_symbol *symbol,
                                   const vyc_graph_use *use) {
  const vyc_prepared *prepared = step->prepared;
  if (step->rows != NULL && (symbol->kind == VYC_SYMBOL_SCALAR || use->place == 0))
    return refuse_use(use, "in many launches as one, only arrays with a place can be symbols");
  if (symbol->kind == VYC_SYMBOL_SCALAR)
    return use->place < prepared->scalar_count ? VYC_OK
                                               : refuse_use(use, "the kernel has no such scalar");
  if (use->place >= prepared->binding_count) return refuse_use(use, "the kernel has no such array");
  if (prepared->bindings[use->place].element_bytes == symbol->element_bytes) return VYC_OK;
  return refuse_use(use, "the elements have another size there");
}

static vyc_status check_transfer_use(const vyc_step *step, const vyc_graph_symbol *symbol,
                                     const vyc_graph_use *use) {
  const vyc_graph_transfer *t = &step->base->transfer;
  const bool is_scalar = symbol->kind == VYC_SYMBOL_SCALAR;
  if (use->place != 0 || (is_scalar ? !vyc__is_fill(t) : t->from == NULL))
    return refuse_use(use, is_scalar ? "a scalar can only be the value of a fill (place 0)"
                                     : "an array can only be what a copy reads (place 0)");
  if (symbol->element_bytes == 0 || t->bytes % symbol->element_bytes != 0 ||
      (is_scalar && t->element_bytes != symbol->element_bytes))
    return refuse_use(use, "the elements have another size there");
  return VYC_OK;
}

static vyc_status check_use(const vyc_graph *graph, const vyc_graph_symbol *symbol,
                            uint32_t number) {
  const vyc_graph_use *use = &symbol->uses[number];
  const vyc_graph_use *before = number == 0 ? NULL : use - 1;
  if (before != NULL &&
      (before->step > use->step || (before->step == use->step && before->place >= use->place)))
    return refuse_use(use, "uses must be in the order of steps, and of places within a step");
  if (use->step >= graph->step_count)
    return refuse_use(use, "the graph has no such step: add it before the symbol");
  const vyc_step *step = &graph->steps[use->step];
  if (step->kind == STEP_LAUNCH) return check_launch_use(step, symbol, use);
  if (step->kind == STEP_TRANSFER) return check_transfer_use(step, symbol, use);
  return refuse_use(use, step->kind == STEP_REPEAT ? "the step is a repetition"
                                                   : "the step is a collective");
}

static bool is_used(const vyc_symbol *other, const vyc_graph_symbol *symbol) {
  uint32_t i = 0, j = 0;
  while (other->kind == symbol->kind && i < other->use_count && j < symbol->use_count) {
    const vyc_graph_use *a = &other->uses[i], *b = &symbol->uses[j];
    if (a->step == b->step && a->place == b->place) return true;
    if (a->step < b->step || (a->step == b->step && a->place < b->place))
      i++;
    else
      j++;
  }
  return false;
}

static vyc_status check_others(const vyc_graph *graph, const vyc_graph_symbol *symbol) {
  for (uint32_t i = 0; i < graph->symbol_count; i++) {
    const vyc_symbol *other = &graph->symbols[i];
    if (symbol->name != NULL && other->name != NULL && strcmp(symbol->name, other->name) == 0)
      return vyc__fail(VYC_E_INVALID, "graph",
                       "the graph has a symbol %.200s already: give each another name",
                       symbol->name);
    if (is_used(other, symbol))
      return vyc__fail(VYC_E_INVALID, "graph",
                       "symbol %u has one of these places already: one symbol sets each place", i);
  }
  return VYC_OK;
}

static vyc_status add_symbol(vyc_graph *graph, const vyc_graph_symbol *symbol) {
  const char *name = symbol->name;
  for (uint32_t i = 0; i < symbol->use_count; i++) VYC_TRY(check_use(graph, symbol, i));
  VYC_TRY(check_others(graph, symbol));
  VYC_TRY(vyc__grow(&graph->symbols, &graph->symbol_room, graph->symbol_count + 1,
                    sizeof *graph->symbols));
  const size_t name_bytes = name == NULL ? 0 : strlen(name) + 1;
  vyc_symbol made = {.name = name == NULL ? NULL : malloc(name_bytes),
                     .kind = symbol->kind,
                     .element_bytes = symbol->element_bytes,
                     .use_count = symbol->use_count,
                     .uses = malloc((symbol->use_count + 1) * sizeof *made.uses)};
  if (made.uses == NULL || (name != NULL && made.name == NULL)) {
    free(made.name);
    free(made.uses);
    return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  }
  if (name != NULL) memcpy(made.name, name, name_bytes);
  if (symbol->use_count > 0) memcpy(made.uses, symbol->uses, symbol->use_count * sizeof *made.uses);
  graph->symbols[graph->symbol_count++] = made;
  return VYC_OK;
}

vyc_status vyc_graph_add_symbol(vyc_graph *graph, uint32_t *symbol_out,
                                const vyc_graph_symbol *symbol) {
  VYC_REQUIRE(graph != NULL && symbol_out != NULL);
  VYC_REQUIRE(symbol != NULL && symbol->struct_size >= sizeof *symbol);
  VYC_REQUIRE(symbol->kind == VYC_SYMBOL_ARRAY || symbol->kind == VYC_SYMBOL_SCALAR);
  VYC_REQUIRE(symbol->uses != NULL || symbol->use_count == 0);
  VYC_TRY(vyc__check_usable(graph->child.context));
  vyc__graph_claim(graph);
  const vyc_status status = add_symbol(graph, symbol);
  if (status == VYC_OK) *symbol_out = graph->symbol_count - 1;
  vyc__graph_unclaim(graph);
  return status;
}

vyc_status vyc_graph_find_symbol(vyc_graph *graph, uint32_t *symbol_out, const char *name) {
  VYC_REQUIRE(graph != NULL && symbol_out != NULL && name != NULL);
  VYC_TRY(vyc__check_usable(graph->child.context));
  vyc__graph_claim(graph);
  uint32_t i = 0;
  while (i < graph->symbol_count &&
         (graph->symbols[i].name == NULL || strcmp(graph->symbols[i].name, name) != 0))
    i++;
  const bool found = i < graph->symbol_count;
  vyc__graph_unclaim(graph);
  if (!found) return vyc__fail(VYC_E_INVALID, "graph", "the graph has no symbol %.200s", name);
  *symbol_out = i;
  return VYC_OK;
}

void vyc__symbols_free(vyc_graph *graph) {
  for (uint32_t i = 0; i < graph->symbol_count; i++) {
    free(graph->symbols[i].name);
    free(graph->symbols[i].uses);
  }
  free(graph->symbols);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The target of a step, which begins as its base. */
static vyc_status target_of(vyc_graph *graph, vyc_values **values_out, uint32_t number) {
  vyc_step *step = &graph->steps[number];
  if (step->target == NULL) {
    VYC_TRY(vyc__step_spare(step, &step->target));
    vyc__values_begin(step, step->target);
    vyc__list_away(graph, number);
  }
  *values_out = step->target;
  return VYC_OK;
}

static vyc_status other_count(uint64_t count, uint64_t before) {
  return vyc__fail(VYC_E_INVALID, "graph",
                   "the value of a symbol has %" PRIu64 " element%s instead of %" PRIu64
                   ", which needs a change of its steps",
                   count, VYC_S(count), before);
}

static vyc_status set_in_launch(vyc_values *target, uint32_t place, const vyc_symbol_value *value) {
  if (value->buffer == NULL) {
    target->scalars[place] = value->bits;
  } else {
    vyc_argument *argument = &target->arguments[place];
    if (value->count != argument->count) return other_count(value->count, argument->count);
    argument->buffer = value->buffer;
    argument->offset = value->offset;
  }
  return VYC_OK;
}

static vyc_status set_in_transfer(const vyc_step *step, vyc_values *target, uint32_t element_bytes,
                                  const vyc_symbol_value *value) {
  vyc_graph_transfer t = target->transfer;
  if (value->buffer == NULL) {
    t.value = (uint32_t)value->bits;
  } else {
    const uint64_t count = t.bytes / element_bytes;
    if (value->count != count) return other_count(value->count, count);
    t.from = value->buffer;
    t.from_offset = value->offset;
  }
  vyc__values_set(step, target, NULL, &t);
  return VYC_OK;
}

static vyc_status set_value(vyc_graph *graph, const vyc_symbol *symbol,
                            const vyc_symbol_value *value) {
  for (uint32_t i = 0; i < symbol->use_count; i++) {
    const vyc_graph_use *use = &symbol->uses[i];
    const vyc_step *step = &graph->steps[use->step];
    vyc_values *target = NULL;
    VYC_TRY(target_of(graph, &target, use->step));
    VYC_TRY(step->kind == STEP_LAUNCH
                ? set_in_launch(target, use->place, value)
                : set_in_transfer(step, target, symbol->element_bytes, value));
  }
  return VYC_OK;
}

/* What the values made of a step, once all are there. */
static vyc_status end_target(const vyc_graph *graph, const vyc_step *step) {
  if (step->kind != STEP_LAUNCH)
    return vyc__transfer_check(graph->child.context, &step->target->transfer);
  VYC_TRY(vyc__recorded_check(step->prepared, &step->target->run));
  if (step->rows != NULL) VYC_TRY(vyc__row_memory_check(step, &step->target->run));
  vyc__values_refresh(step, step->target);
  return VYC_OK;
}

/* Each once, however many symbols it uses: all that have one are in the list. */
static vyc_status end_targets(const vyc_graph *graph) {
  for (uint32_t i = 0; i < graph->away_count; i++) {
    const vyc_step *step = &graph->steps[graph->away[i]];
    if (step->target != NULL) VYC_TRY(end_target(graph, step));
  }
  return VYC_OK;
}

static vyc_status check_value(vyc_graph *graph, const vyc_symbol_value *value) {
  if (value->symbol >= graph->symbol_count)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "there is no symbol %u: the graph has %u, numbered from 0", value->symbol,
                     graph->symbol_count);
  vyc_symbol *symbol = &graph->symbols[value->symbol];
  if ((symbol->kind == VYC_SYMBOL_ARRAY) != (value->buffer != NULL))
    return vyc__fail(VYC_E_INVALID, "graph", "symbol %u is %s", value->symbol,
                     symbol->kind == VYC_SYMBOL_ARRAY ? "an array: it needs a buffer"
                                                      : "a scalar: it takes no buffer");
  if (symbol->launch == graph->launches_with)
    return vyc__fail(VYC_E_INVALID, "graph", "symbol %u has two values: give it one",
                     value->symbol);
  symbol->launch = graph->launches_with;
  return VYC_OK;
}

vyc_status vyc__symbols_set(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count) {
  if (!graph->finished)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "the graph is not finished: finish it before it is launched");
  graph->launches_with++;
  for (uint32_t i = 0; i < count; i++) {
    VYC_TRY(check_value(graph, &values[i]));
    VYC_TRY(set_value(graph, &graph->symbols[values[i].symbol], &values[i]));
  }
  return end_targets(graph);
}

vyc_status vyc__targets_as_changes(const vyc_graph *graph, vyc_graph_change **changes_out,
                                   uint32_t *count_out) {
  vyc_graph_change *changes = calloc(graph->away_count + 1, sizeof *changes);
  uint32_t count = 0;
  if (changes == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  for (uint32_t i = 0; i < graph->step_count; i++) {
    const vyc_step *step = &graph->steps[i];
    if (step->target == NULL) continue;
    changes[count].step = i;
    changes[count].run = step->kind == STEP_LAUNCH ? &step->target->run : NULL;
    changes[count++].transfer = step->kind == STEP_LAUNCH ? NULL : &step->target->transfer;
  }
  *changes_out = changes;
  *count_out = count;
  return VYC_OK;
}
