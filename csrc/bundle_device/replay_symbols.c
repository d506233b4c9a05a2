/* Symbols of a bundled graph that the recorded graph sets by itself: scalars of which no size or
 * grid is made, and arrays, as long as they have as many elements. A launch with only such values
 * allocates nothing and looks at no other step; with arrays of merged steps it looks at what other
 * symbols stand for, which shows the form that runs. */
#include <stdlib.h>

#include "room.h"

/* ---- adding ---------------------------------------------------------------------------------- */

typedef struct uses {
  const vyc_replay *replay;
  const vyc_replay_form *form;
  uint32_t symbol;
  uint32_t count, room;
  vyc_graph_use *list;
  bool is_fixed; /* what it stands for decides more than these */
} uses;

static void add_use(uses *u, uint32_t step, uint32_t place) {
  const uint32_t number = u->form->numbers[step - u->form->begin];
  if (u->count < u->room) u->list[u->count] = (vyc_graph_use){number, place};
  u->count++;
}

static vyc_status list_launch(uses *u, uint32_t step, const vyc_bundle_value *values) {
  const vyc_disk_graph_step *row = vyc__replay_step(u->replay, step);
  const vyc_bundle *bundle = u->replay->bundle;
  const vyc_disk_kernel *kernel = NULL;
  VYC_TRY(vyc__bundle_kernel(bundle, &kernel, row->kernel));
  const vyc_disk_parameter *parameters =
      vyc__bundle_row(bundle, VYC_SECTION_PARAMETERS, kernel->parameters.first, sizeof *parameters);
  uint32_t scalars = 0;
  /* Scalars and arrays are numbered in this order, so the uses are in ascending order. */
  for (uint32_t i = 0; i < row->values.count; i++) {
    const bool is_scalar = parameters[i].role == VYC_ROLE_SCALAR;
    const uint32_t slot = is_scalar ? scalars++ : parameters[i].slot;
    if (values[i].kind != VYC_VALUE_SYMBOL || values[i].index != u->symbol) continue;
    u->is_fixed |= is_scalar && vyc__bundle_decides(bundle, kernel, slot);
    add_use(u, step, slot);
  }
  return VYC_OK;
}

/* The arrays of launches as one come behind their table. */
static void list_rows(uses *u, uint32_t step, const vyc_bundle_value *values) {
  const uint32_t count = vyc__replay_step(u->replay, step)->values.count;
  if (u->form->numbers[step - u->form->begin] == UINT32_MAX) return;
  for (uint32_t v = 0; v < count; v++)
    if (values[v].index == u->symbol) add_use(u, step, v + 1);
}

static vyc_status list_uses(uses *u) {
  const vyc_replay *replay = u->replay;
  u->count = 0;
  for (uint32_t i = u->form->begin; i < u->form->end; i = vyc__replay_behind(replay, i)) {
    const vyc_disk_graph_step *row = vyc__replay_step(replay, i);
    const vyc_bundle_value *values = vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_VALUES,
                                                     row->values.first, sizeof *values);
    if (row->kind == VYC_STEP_LAUNCH) {
      VYC_TRY(list_launch(u, i, values));
      continue;
    }
    if (row->kind == VYC_STEP_ROWS) {
      list_rows(u, i, values);
      continue;
    }
    for (uint32_t v = 0; v < row->values.count; v++) {
      if (values[v].kind != VYC_VALUE_SYMBOL || values[v].index != u->symbol) continue;
      /* Only what a copy reads, or the value of a fill of as many bytes as the device's. */
      const bool is_plain = (row->kind == VYC_STEP_COPY || row->kind == VYC_STEP_FILL) && v == 1;
      u->is_fixed |= !is_plain || (row->kind == VYC_STEP_FILL && vyc__type_bytes(row->type) > 4);
      add_use(u, i, 0);
    }
  }
  return VYC_OK;
}

static vyc_status add_symbol(vyc_replay *replay, const vyc_replay_form *form, vyc_graph *graph,
                             uint32_t symbol) {
  uses u = {.replay = replay, .form = form, .symbol = symbol};
  const vyc_disk_symbol *row = vyc__replay_symbol(replay, symbol);
  form->settable[symbol] = UINT32_MAX;
  VYC_TRY(list_uses(&u));
  if (u.is_fixed) return VYC_OK;
  u.room = u.count;
  u.list = malloc((u.room + 1) * sizeof *u.list);
  if (u.list == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  vyc_status status = list_uses(&u);
  const vyc_graph_symbol made = {.struct_size = sizeof made,
                                 .kind = row->kind,
                                 .element_bytes = vyc__type_bytes(row->type),
                                 .use_count = u.count,
                                 .uses = u.list};
  if (status == VYC_OK) status = vyc_graph_add_symbol(graph, &form->settable[symbol], &made);
  free(u.list);
  return status;
}

vyc_status vyc__replay_add_symbols(vyc_replay *replay, const vyc_replay_form *form,
                                   vyc_graph *graph) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++)
    VYC_TRY(add_symbol(replay, form, graph, i));
  return VYC_OK;
}

/* ---- launching ------------------------------------------------------------------------------- */

#define FEW_SYMBOLS 16u /* for which the stack has room */

/* Room of a launch, for as many as the graph has symbols. */
typedef struct room {
  vyc_meaning *meanings;
  vyc_symbol_value *set;
} room;

/* Whether every symbol has a value, of its own or by this launch. */
static bool has_values(vyc_replay *replay, const room *of, const vyc_symbol_value *values,
                       uint32_t count) {
  const uint32_t symbols = replay->row->symbols.count;
  if (VYC_LIKELY(atomic_load(&replay->is_complete))) return true;
  bool all = true;
  for (uint32_t i = 0; i < symbols; i++) of->meanings[i].is_given = false;
  for (uint32_t i = 0; i < count; i++) of->meanings[values[i].symbol].is_given = true;
  pthread_mutex_lock(&replay->lock);
  for (uint32_t i = 0; i < symbols && all; i++)
    all = replay->meanings[i].is_set || of->meanings[i].is_given;
  pthread_mutex_unlock(&replay->lock);
  return all;
}

/* With two forms, the one that runs with what symbols stand for by themselves. */
static const vyc_replay_form *form_of(vyc_replay *replay) {
  return replay->form_count == 1 ? &replay->forms[0] : atomic_load(&replay->ready);
}

static bool is_decided(const vyc_replay *replay, const vyc_symbol_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (replay->decides[values[i].symbol]) return true;
  return false;
}

/* The form that runs with these values, and what the other symbols stand for now; NULL: one of them
 * has no value. */
static const vyc_replay_form *form_with(vyc_replay *replay, vyc_meaning *meanings,
                                        const vyc_symbol_value *values, uint32_t count) {
  const uint32_t symbols = replay->row->symbols.count;
  const vyc_replay_form *form = NULL;
  pthread_mutex_lock(&replay->lock); /* it keeps their buffers, too */
  memcpy(meanings, replay->meanings, symbols * sizeof *meanings);
  for (uint32_t i = 0; i < count; i++)
    meanings[values[i].symbol] = (vyc_meaning){.value = values[i], .is_set = true};
  if (vyc__replay_has_all(replay, meanings)) form = vyc__replay_choose(replay, meanings);
  pthread_mutex_unlock(&replay->lock);
  return form;
}

/* The values by their numbers in the graph of the form. */
static bool as_settable(const vyc_replay_form *form, vyc_symbol_value *set,
                        const vyc_symbol_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    set[i] = values[i];
    set[i].symbol = form->settable[values[i].symbol];
    if (set[i].symbol == UINT32_MAX) return false;
  }
  return true;
}

/* The form was found by what other symbols stand for, which a thread that sets them may have
 * changed: then the version is another one. */
static vyc_status launch_decided(vyc_replay *replay, const room *of, const vyc_symbol_value *values,
                                 uint32_t count, vyc_stream *stream, bool *done_out) {
  bool is_stale = false;
  const uint32_t version = atomic_load(&replay->version);
  const vyc_replay_form *form = form_with(replay, of->meanings, values, count);
  vyc_graph *graph = form == NULL ? NULL : atomic_load(&form->graph);
  if (version % 2 != 0 || graph == NULL || atomic_load(&form->is_outdated) ||
      !as_settable(form, of->set, values, count))
    return VYC_OK;
  const vyc_status status = vyc__graph_launch_with_if(graph, of->set, count, stream,
                                                      &replay->version, version, &is_stale);
  *done_out = !is_stale && status != VYC_E_INVALID;
  return *done_out ? status : VYC_OK;
}

static vyc_status launch_in(const room *of, vyc_replay *replay, const vyc_symbol_value *values,
                            uint32_t count, vyc_stream *stream, bool *done_out) {
  if (!has_values(replay, of, values, count)) return VYC_OK;
  if (is_decided(replay, values, count))
    return launch_decided(replay, of, values, count, stream, done_out);
  const vyc_replay_form *form = form_of(replay);
  vyc_graph *graph = form == NULL ? NULL : atomic_load(&form->graph);
  if (graph == NULL || !as_settable(form, of->set, values, count)) return VYC_OK;
  const vyc_status status = vyc_graph_launch_with(graph, of->set, count, stream, 0);
  *done_out = status != VYC_E_INVALID; /* other values may need other sizes and grids */
  return *done_out ? status : VYC_OK;
}

/* The replay keeps the room of the launch that ended last. Without memory for it, or if a symbol is
 * there twice, the launch continues in the other way. */
static vyc_status launch_of_many(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count,
                                 vyc_stream *stream, bool *done_out) {
  const size_t symbols = replay->row->symbols.count;
  vyc_meaning *meanings = atomic_exchange(&replay->room, NULL);
  if (meanings == NULL)
    meanings = malloc(symbols * (sizeof(vyc_meaning) + sizeof(vyc_symbol_value)));
  if (meanings == NULL) return VYC_OK;
  const room of = {meanings, (vyc_symbol_value *)(void *)(meanings + symbols)};
  const vyc_status status = launch_in(&of, replay, values, count, stream, done_out);
  free(atomic_exchange(&replay->room, meanings));
  return status;
}

vyc_status vyc__replay_launch_set(vyc_replay *replay, const vyc_symbol_value *values,
                                  uint32_t count, vyc_stream *stream, bool *done_out) {
  const uint32_t symbols = replay->row->symbols.count;
  *done_out = false;
  if (count > symbols) return VYC_OK;
  for (uint32_t i = 0; i < count; i++)
    if (values[i].symbol >= symbols) return VYC_OK;
  if (VYC_UNLIKELY(symbols > FEW_SYMBOLS))
    return launch_of_many(replay, values, count, stream, done_out);
  vyc_meaning meanings[FEW_SYMBOLS];
  vyc_symbol_value set[FEW_SYMBOLS];
  return launch_in(&(room){meanings, set}, replay, values, count, stream, done_out);
}
