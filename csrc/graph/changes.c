/* Changes to the steps of a recorded graph, for one launch or for all later ones. */
#include "graph.h"

/* ---- checks --------------------------------------------------------------------------------- */

/* Host memory must stay host memory, and a fill a fill. */
static vyc_status check_kind(const vyc_graph_transfer *old, const vyc_graph_transfer *fresh) {
  if ((old->to == NULL) == (fresh->to == NULL) && (old->from == NULL) == (fresh->from == NULL) &&
      vyc__is_fill(old) == vyc__is_fill(fresh))
    return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "graph",
                   "a recorded copy or fill must stay what it is, with host and device memory "
                   "where they were: record another graph");
}

/* Of many launches as one. */
static vyc_status check_arrays(const vyc_step *step, const vyc_run *run) {
  const uint32_t count = step->prepared->binding_count - 1;
  vyc_argument arguments[1 + VYC_MOST_PLACES] = {step->base->arguments[0]};
  VYC_REQUIRE_IN("graph", run->struct_size >= VYC_RUN_BYTES_FIRST);
  if (count == 0)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "these launches as one cannot be changed: add them with places for arrays");
  VYC_REQUIRE_IN("graph", run->argument_count == count && run->arguments != NULL);
  for (uint32_t i = 0; i < count; i++) {
    arguments[1 + i] = run->arguments[i];
    if (run->arguments[i].count != step->base->arguments[1 + i].count)
      return vyc__fail(VYC_E_INVALID, "graph",
                       "an array of many launches as one has another size: record another graph");
  }
  vyc_run all = step->base->run;
  all.arguments = arguments;
  VYC_TRY(vyc__recorded_check(step->prepared, &all));
  return vyc__row_memory_check(step, &all);
}

static vyc_status check_change(const vyc_graph *graph, const vyc_graph_change *change) {
  VYC_REQUIRE_IN("graph", change->step < graph->step_count);
  const vyc_step *step = &graph->steps[change->step];
  if (step->kind == STEP_LAUNCH) {
    VYC_REQUIRE_IN("graph", change->run != NULL && change->transfer == NULL);
    if (step->rows != NULL) return check_arrays(step, change->run);
    return vyc__recorded_check(step->prepared, change->run);
  }
  VYC_REQUIRE_IN("graph",
                 step->kind == STEP_TRANSFER && change->transfer != NULL && change->run == NULL);
  VYC_TRY(vyc__transfer_check(graph->child.context, change->transfer));
  return check_kind(&step->base->transfer, change->transfer);
}

vyc_status vyc__changes_check(const vyc_graph *graph, const vyc_graph_change *changes,
                              uint32_t count) {
  VYC_REQUIRE_IN("graph", changes != NULL || count == 0);
  if (!graph->finished)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "the graph is not finished: finish it before it is changed");
  for (uint32_t i = 0; i < count; i++) {
    VYC_REQUIRE_IN("graph", i == 0 || changes[i - 1].step < changes[i].step);
    VYC_TRY(check_change(graph, &changes[i]));
  }
  return VYC_OK;
}

/* ---- targets -------------------------------------------------------------------------------- */

/* Keep those in the list that differ from their base, or may. */
void vyc__changed_keep(vyc_graph *graph) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < graph->away_count; i++) {
    vyc_step *step = &graph->steps[graph->away[i]];
    step->target = NULL;
    step->away = step->now != step->base || step->stale || step->moved;
    if (step->away) graph->away[kept++] = graph->away[i];
  }
  graph->away_count = kept;
}

vyc_status vyc__targets_set(vyc_graph *graph, const vyc_given *given) {
  const vyc_graph_change *changes = given->changes;
  for (uint32_t i = 0; i < given->change_count; i++) {
    vyc_step *step = &graph->steps[changes[i].step];
    VYC_TRY(vyc__step_spare(step, &step->target));
    vyc__values_set(step, step->target, changes[i].run, changes[i].transfer);
    vyc__list_away(graph, changes[i].step);
  }
  if (VYC_LIKELY(given->value_count == 0)) return VYC_OK;
  return vyc__symbols_set(graph, given->values, given->value_count);
}

/* ---- update ---------------------------------------------------------------------------------- */

/* The targets become what all later launches have. */
static void keep_targets(vyc_graph *graph) {
  for (uint32_t i = 0; i < graph->away_count; i++) {
    vyc_step *step = &graph->steps[graph->away[i]];
    vyc_values *fresh = step->target, *old = step->base;
    if (fresh == NULL) continue;
    vyc__values_hold(step, fresh);
    step->base = fresh;
    step->moved = vyc__has_moved(step, fresh);
    vyc__values_drop(step, old);
  }
}

static vyc_status update(vyc_graph *graph, const vyc_given *given) {
  VYC_TRY(vyc__changes_check(graph, given->changes, given->change_count));
  const vyc_status status = vyc__targets_set(graph, given);
  if (status == VYC_OK) keep_targets(graph);
  vyc__changed_keep(graph);
  VYC_TRY(status);
  vyc__graph_list_memory(graph);
  return VYC_OK;
}

static vyc_status update_claimed(vyc_graph *graph, const vyc_given *given) {
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status = update(graph, given);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  return status;
}

vyc_status vyc_graph_update(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count) {
  VYC_REQUIRE(graph != NULL);
  const vyc_given given = {changes, count, NULL, 0};
  return update_claimed(graph, &given);
}

vyc_status vyc_graph_set(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count) {
  VYC_REQUIRE(graph != NULL && (values != NULL || count == 0));
  const vyc_given given = {NULL, 0, values, count};
  return update_claimed(graph, &given);
}
