/* Graphs of bundles: setting their symbols, for one launch or for all, and launching them. */
#include <stdlib.h>

#include "room.h"

/* ---- values --------------------------------------------------------------------------------- */

static void meanings_drop(const vyc_replay *replay, vyc_meaning *meanings) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++)
    if (meanings[i].value.buffer != NULL) vyc_buffer_release(meanings[i].value.buffer);
  free(meanings);
}

static vyc_status give(const vyc_replay *replay, vyc_meaning *meanings,
                       const vyc_symbol_value *value) {
  if (value->symbol >= replay->row->symbols.count)
    return vyc__fail(VYC_E_INVALID, "replay",
                     "there is no symbol %u: the graph has %u, numbered from 0", value->symbol,
                     replay->row->symbols.count);
  vyc_meaning *meaning = &meanings[value->symbol];
  const vyc_disk_symbol *symbol = vyc__replay_symbol(replay, value->symbol);
  const char *name = vyc__bundle_text(replay->bundle, symbol->name);
  if (meaning->is_given)
    return vyc__fail(VYC_E_INVALID, "replay", "symbol %s is given twice: give each one value",
                     name);
  if ((symbol->kind == VYC_SYMBOL_ARRAY) != (value->buffer != NULL))
    return vyc__fail(VYC_E_INVALID, "replay", "symbol %s is %s", name,
                     symbol->kind == VYC_SYMBOL_ARRAY ? "an array: it needs a buffer"
                                                      : "a scalar: it takes no buffer");
  if (value->buffer != NULL) vyc__child_retain(&value->buffer->child);
  vyc_buffer *before = meaning->value.buffer;
  meaning->value = *value;
  meaning->is_set = meaning->is_given = true;
  vyc_buffer_release(before);
  return VYC_OK;
}

/* A copy of what all symbols stand for, with `values` put in. */
static vyc_status meanings_of(vyc_replay *replay, vyc_meaning **meanings_out,
                              const vyc_symbol_value *values, uint32_t count) {
  const uint32_t symbols = replay->row->symbols.count;
  vyc_meaning *meanings = calloc(symbols + 1, sizeof *meanings);
  if (meanings == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  pthread_mutex_lock(&replay->lock);
  memcpy(meanings, replay->meanings, symbols * sizeof *meanings);
  for (uint32_t i = 0; i < symbols; i++)
    if (meanings[i].value.buffer != NULL) vyc__child_retain(&meanings[i].value.buffer->child);
  pthread_mutex_unlock(&replay->lock);
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; i < count && status == VYC_OK; i++)
    status = give(replay, meanings, &values[i]);
  if (status == VYC_OK)
    *meanings_out = meanings;
  else
    meanings_drop(replay, meanings);
  return status;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* The steps that given symbols change, and room for their values, in one block of memory. */
typedef struct changes {
  void *memory;
  vyc_graph_change *list;
  uint32_t count;
} changes;

static vyc_status make_room(changes *made, vyc_bound **bounds_out, uint32_t steps,
                            uint64_t values) {
  const size_t bytes = steps * (sizeof(vyc_graph_change) + sizeof(vyc_bound)) +
                       values * (sizeof(vyc_argument) + sizeof(uint64_t));
  made->memory = calloc(1, bytes + 1);
  if (made->memory == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  vyc_bound *bounds = made->memory;
  vyc_argument *arguments = (vyc_argument *)(void *)(bounds + steps);
  uint64_t *scalars = (uint64_t *)(void *)(arguments + values);
  made->list = (vyc_graph_change *)(void *)(scalars + values);
  bounds->arguments = arguments;
  bounds->scalars = scalars;
  *bounds_out = bounds;
  return VYC_OK;
}

/* With `all`, the graph has other values than the symbols stand for. */
static bool is_changed(const vyc_replay *replay, const vyc_replay_form *form,
                       const vyc_meaning *meanings, bool all, uint32_t step) {
  return form->numbers[step - form->begin] != UINT32_MAX &&
         (all ? vyc__replay_has_symbols(replay, step)
              : vyc__replay_uses_given(replay, meanings, step)) &&
         vyc__replay_is_complete(replay, meanings, step);
}

static vyc_status changes_of(const vyc_replay *replay, const vyc_replay_form *form, changes *made,
                             const vyc_meaning *meanings, bool all) {
  uint32_t steps = 0;
  uint64_t values = 0;
  *made = (changes){0};
  for (uint32_t i = form->begin; i < form->end; i = vyc__replay_behind(replay, i))
    if (is_changed(replay, form, meanings, all, i)) {
      steps++;
      values += vyc__replay_step(replay, i)->values.count;
    }
  if (steps == 0) return VYC_OK;
  vyc_bound *bound = NULL;
  VYC_TRY(make_room(made, &bound, steps, values));
  vyc_argument *arguments = bound->arguments;
  uint64_t *scalars = bound->scalars;
  vyc_status status = VYC_OK;
  for (uint32_t i = form->begin; i < form->end && status == VYC_OK;
       i = vyc__replay_behind(replay, i)) {
    if (!is_changed(replay, form, meanings, all, i)) continue;
    const vyc_disk_graph_step *row = vyc__replay_step(replay, i);
    bound->arguments = arguments;
    bound->scalars = scalars;
    status = vyc__replay_bind(replay, bound, meanings, i);
    vyc_graph_change *change = &made->list[made->count++];
    change->step = form->numbers[i - form->begin];
    if (row->kind == VYC_STEP_LAUNCH || row->kind == VYC_STEP_ROWS)
      change->run = &bound->run;
    else
      change->transfer = &bound->transfer;
    arguments += row->values.count;
    scalars += row->values.count;
    bound++;
  }
  if (status != VYC_OK) free(made->memory);
  return status;
}

/* ---- setting and launching ------------------------------------------------------------------- */

static vyc_status check_values(const vyc_replay *replay, const vyc_symbol_value *values,
                               uint32_t count) {
  VYC_REQUIRE_IN("replay", replay != NULL);
  VYC_REQUIRE_IN("replay", values != NULL || count == 0);
  return vyc__check_usable(replay->context);
}

/* The given values replace the previous ones, whose references are dropped. */
static void keep(vyc_replay *replay, vyc_meaning *meanings) {
  pthread_mutex_lock(&replay->lock);
  for (uint32_t i = 0; i < replay->row->symbols.count; i++) {
    if (!meanings[i].is_given) continue;
    const vyc_meaning before = replay->meanings[i];
    replay->meanings[i] = meanings[i];
    replay->meanings[i].is_given = false;
    meanings[i].value = before.value;
  }
  pthread_mutex_unlock(&replay->lock);
}

/* The form whose graph gets these values: with two, the one that runs with them, if all symbols
 * have one. */
static vyc_replay_form *form_to_set(vyc_replay *replay, vyc_meaning *meanings) {
  if (replay->form_count == 1) return &replay->forms[0];
  return vyc__replay_has_all(replay, meanings) ? vyc__replay_choose(replay, meanings) : NULL;
}

/* The other form, or both, gets the values with its next launch. */
static void outdate(vyc_replay *replay, const vyc_replay_form *updated) {
  for (uint32_t i = 0; i < replay->form_count; i++)
    atomic_store(&replay->forms[i].is_outdated, &replay->forms[i] != updated);
}

static vyc_status set(vyc_replay *replay, vyc_meaning *meanings) {
  vyc_replay_form *form = form_to_set(replay, meanings);
  vyc_graph *graph = form == NULL ? NULL : atomic_load(&form->graph);
  changes made = {0};
  if (form != NULL)
    VYC_TRY(changes_of(replay, form, &made, meanings, atomic_load(&form->is_outdated)));
  else
    VYC_TRY(changes_of(replay, &replay->forms[1], &made, meanings, false)); /* checked alone */
  vyc_status status = VYC_OK;
  atomic_fetch_add(&replay->version, 1);
  if (graph != NULL && made.count > 0) status = vyc_graph_update(graph, made.list, made.count);
  if (status == VYC_OK) {
    keep(replay, meanings);
    outdate(replay, form);
  }
  atomic_fetch_add(&replay->version, 1);
  free(made.memory);
  VYC_TRY(status);
  const bool is_complete = vyc__replay_has_all(replay, replay->meanings);
  atomic_store(&replay->ready, graph != NULL && is_complete ? form : NULL);
  atomic_store(&replay->is_complete, is_complete);
  return VYC_OK;
}

vyc_status vyc_replay_set(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count) {
  vyc_meaning *meanings = NULL;
  VYC_TRY(check_values(replay, values, count));
  while (atomic_load(&replay->launchers) != 0) vyc__sleep_us(20);
  vyc__claim_take(&replay->claim);
  vyc_status status = meanings_of(replay, &meanings, values, count);
  if (status == VYC_OK) {
    status = set(replay, meanings);
    meanings_drop(replay, meanings);
  }
  vyc__claim_drop(&replay->claim);
  return status;
}

static vyc_status missing(const vyc_replay *replay, const vyc_meaning *meanings) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++)
    if (!meanings[i].is_set)
      return vyc__fail(VYC_E_INVALID, "replay",
                       "symbol %s has no value: give it one in the launch, or set it before",
                       vyc__bundle_text(replay->bundle, vyc__replay_symbol(replay, i)->name));
  return VYC_OK;
}

/* What symbols stand for, with what this launch gives those that have no value. */
static vyc_status base_of(vyc_replay *replay, vyc_meaning **base_out, bool *is_complete_out,
                          const vyc_meaning *given) {
  VYC_TRY(meanings_of(replay, base_out, NULL, 0));
  vyc_meaning *base = *base_out;
  *is_complete_out = vyc__replay_has_all(replay, base);
  for (uint32_t i = 0; i < replay->row->symbols.count; i++) {
    if (base[i].is_set) continue;
    base[i] = given[i];
    if (given[i].value.buffer != NULL) vyc__child_retain(&given[i].value.buffer->child);
  }
  return VYC_OK;
}

/* Values for this launch alone stay in the graph only where a symbol has no other, or if the form
 * does not run with what symbols stand for. */
static vyc_status make_graph(vyc_replay *replay, vyc_replay_form *form, const vyc_meaning *given) {
  vyc_meaning *base = NULL;
  vyc_graph *graph = NULL;
  bool is_complete = false;
  VYC_TRY(base_of(replay, &base, &is_complete, given));
  const bool fits = vyc__replay_choose(replay, base) == form;
  const vyc_status status = vyc__replay_build(replay, form, &graph, fits ? base : given);
  meanings_drop(replay, base);
  if (status != VYC_OK) return status;
  atomic_store(&form->is_outdated, !fits);
  atomic_store(&form->graph, graph);
  if (fits && is_complete) atomic_store(&replay->ready, form);
  return VYC_OK;
}

/* The first launch of a form builds its graph. `held`: the caller has the claim. */
static vyc_status ensure_graph(vyc_replay *replay, vyc_replay_form *form, const vyc_meaning *given,
                               bool held) {
  vyc_status status = VYC_OK;
  if (!held) vyc__claim_take(&replay->claim);
  if (atomic_load(&form->graph) == NULL) status = make_graph(replay, form, given);
  if (!held) vyc__claim_drop(&replay->claim);
  return status;
}

/* Steps that no given value changes are launched as they are in the graph: both must have the same
 * version. */
static vyc_status launch_form(vyc_replay *replay, vyc_meaning *meanings, vyc_stream *stream,
                              uint32_t version, bool held, bool *stale_out) {
  vyc_replay_form *form = vyc__replay_choose(replay, meanings);
  changes made = {0};
  if (atomic_load(&form->graph) == NULL) VYC_TRY(ensure_graph(replay, form, meanings, held));
  VYC_TRY(changes_of(replay, form, &made, meanings, atomic_load(&form->is_outdated)));
  const vyc_status status = vyc__graph_launch_if(atomic_load(&form->graph), made.list, made.count,
                                                 stream, &replay->version, version, stale_out);
  free(made.memory);
  return status;
}

static vyc_status try_launch(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count,
                             vyc_stream *stream, bool held, bool *stale_out) {
  vyc_meaning *meanings = NULL;
  const uint32_t version = atomic_load(&replay->version);
  *stale_out = version % 2 != 0;
  if (*stale_out) return VYC_OK;
  VYC_TRY(meanings_of(replay, &meanings, values, count));
  vyc_status status = missing(replay, meanings);
  if (status == VYC_OK) status = launch_form(replay, meanings, stream, version, held, stale_out);
  meanings_drop(replay, meanings);
  return status;
}

#define TRIES 4 /* attempts while other threads set symbols, before those are held up */

static vyc_status launch(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count,
                         vyc_stream *stream) {
  bool stale = true;
  vyc_status status = VYC_OK;
  for (int i = 0; stale && i < TRIES; i++)
    status = try_launch(replay, values, count, stream, false, &stale);
  if (VYC_LIKELY(!stale)) return status;
  atomic_fetch_add(&replay->launchers, 1);
  vyc__claim_take(&replay->claim);
  status = try_launch(replay, values, count, stream, true, &stale);
  vyc__claim_drop(&replay->claim);
  atomic_fetch_sub(&replay->launchers, 1);
  return status;
}

vyc_status vyc_replay_launch(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count,
                             vyc_stream *stream) {
  VYC_TRY(check_values(replay, values, count));
  const vyc_replay_form *ready = atomic_load(&replay->ready);
  if (count == 0 && ready != NULL)
    return vyc_graph_launch(atomic_load(&ready->graph), NULL, 0, stream);
  bool done = false;
  const vyc_status status = vyc__replay_launch_set(replay, values, count, stream, &done);
  return done || status != VYC_OK ? status : launch(replay, values, count, stream);
}
