/* Graphs of bundles: loading them on a device, setting their symbols, launching them. */
#include "replay.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- loading -------------------------------------------------------------------------------- */

typedef struct compiler_log {
  char *text;
  size_t bytes;
} compiler_log;

static vyc_status load_kernels(vyc_replay *replay, compiler_log log, uint64_t tag) {
  for (uint32_t i = 0; i < replay->row->steps.count; i++) {
    const vyc_disk_graph_step *step = vyc__replay_step(replay, i);
    if (step->kind != VYC_STEP_LAUNCH || replay->kernels[step->kernel] != NULL) continue;
    const vyc_disk_kernel *row = NULL;
    VYC_TRY(vyc__bundle_kernel(replay->bundle, &row, step->kernel));
    VYC_TRY(vyc_kernel_load(&replay->kernels[step->kernel], log.text, log.bytes, replay->context,
                            replay->bundle, vyc__bundle_text(replay->bundle, row->name), tag));
  }
  return VYC_OK;
}

static vyc_status load_arrays(vyc_replay *replay) {
  for (uint32_t i = 0; i < replay->row->arrays.count; i++) {
    const vyc_disk_array *row = vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_ARRAYS,
                                                replay->row->arrays.first + i, sizeof *row);
    const void *contents = vyc__bundle_data(replay->bundle, row->contents);
    VYC_TRY(vyc_buffer_alloc(&replay->arrays[i], replay->context, row->bytes));
    if (contents != NULL)
      VYC_TRY(vyc_copy_in(replay->arrays[i], 0, contents, row->bytes));
    else
      VYC_TRY(vyc_fill_zero(replay->arrays[i], 0, row->bytes));
  }
  return VYC_OK;
}

static void set_defaults(vyc_replay *replay) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++) {
    const vyc_disk_symbol *symbol = vyc__replay_symbol(replay, i);
    vyc_meaning *meaning = &replay->meanings[i];
    meaning->value.symbol = i;
    meaning->is_set = (symbol->flags & VYC_SYMBOL_HAS_DEFAULT) != 0;
    if (!meaning->is_set) continue;
    if (symbol->kind == VYC_SYMBOL_SCALAR) {
      meaning->value.bits = symbol->value;
      continue;
    }
    meaning->value.buffer = replay->arrays[symbol->array];
    meaning->value.offset = symbol->value;
    meaning->value.count = symbol->count;
    vyc__child_retain(&meaning->value.buffer->child);
  }
}

static vyc_status allocate(vyc_replay *replay) {
  replay->kernels = calloc(replay->kernel_count + 1, sizeof *replay->kernels);
  replay->arrays = calloc(replay->row->arrays.count + 1, sizeof(vyc_buffer *));
  replay->numbers = calloc(replay->row->steps.count + 1, sizeof *replay->numbers);
  replay->meanings = calloc(replay->row->symbols.count + 1, sizeof *replay->meanings);
  if (replay->kernels == NULL || replay->arrays == NULL || replay->numbers == NULL ||
      replay->meanings == NULL)
    return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  uint32_t number = 0;
  for (uint32_t i = 0; i < replay->row->steps.count; i++) {
    replay->numbers[i] = number;
    number += vyc__replay_step(replay, i)->kind != VYC_STEP_END;
  }
  return VYC_OK;
}

static bool is_complete(const vyc_replay *replay, const vyc_meaning *meanings) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++)
    if (!meanings[i].is_set) return false;
  return true;
}

static vyc_status fill(vyc_replay *replay, compiler_log log, uint64_t tag) {
  vyc_graph *graph = NULL;
  VYC_TRY(allocate(replay));
  VYC_TRY(load_kernels(replay, log, tag));
  VYC_TRY(load_arrays(replay));
  set_defaults(replay);
  if (!is_complete(replay, replay->meanings)) return VYC_OK;
  VYC_TRY(vyc__replay_build(replay, &graph, replay->meanings));
  atomic_store(&replay->graph, graph);
  atomic_store(&replay->is_complete, true);
  return VYC_OK;
}

vyc_status vyc_replay_load(vyc_replay **replay_out, char *log_out, size_t log_bytes,
                           vyc_context *context, vyc_bundle *bundle, const char *name,
                           uint64_t tag) {
  VYC_REQUIRE(replay_out != NULL);
  *replay_out = NULL;
  VYC_REQUIRE(context != NULL && bundle != NULL && name != NULL);
  uint32_t index = 0;
  VYC_TRY(vyc__check_usable(context));
  VYC_TRY(vyc_bundle_graph_find(bundle, &index, name));
  vyc_replay *replay = calloc(1, sizeof *replay);
  if (replay == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  pthread_mutex_init(&replay->lock, NULL);
  replay->bundle = vyc__bundle_retain(bundle);
  replay->context = vyc__context_retain(context);
  replay->kernel_count = (uint32_t)bundle->tables[VYC_SECTION_KERNELS].count;
  replay->row = vyc__bundle_row(bundle, VYC_SECTION_GRAPHS, index, sizeof *replay->row);
  const vyc_status status = fill(replay, (compiler_log){log_out, log_bytes}, tag);
  if (status == VYC_OK)
    *replay_out = replay;
  else
    vyc_replay_release(replay);
  return status;
}

void vyc_replay_release(vyc_replay *replay) {
  if (replay == NULL) return;
  vyc_error failure; /* releases may wait, and leave the reason of a failed load alone */
  vyc__error_save(&failure);
  vyc_graph_release(atomic_load(&replay->graph));
  for (uint32_t i = 0; replay->meanings != NULL && i < replay->row->symbols.count; i++)
    vyc_buffer_release(replay->meanings[i].value.buffer);
  for (uint32_t i = 0; replay->kernels != NULL && i < replay->kernel_count; i++)
    vyc_kernel_release(replay->kernels[i]);
  for (uint32_t i = 0; replay->arrays != NULL && i < replay->row->arrays.count; i++)
    vyc_buffer_release(replay->arrays[i]);
  free(replay->meanings);
  free(replay->kernels);
  free(replay->arrays);
  free(replay->numbers);
  pthread_mutex_destroy(&replay->lock);
  vyc_bundle_release(replay->bundle);
  vyc_context_release(replay->context);
  free(replay);
  vyc__error_restore(&failure);
}

/* ---- values --------------------------------------------------------------------------------- */

static void meanings_drop(const vyc_replay *replay, vyc_meaning *meanings) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++)
    if (meanings[i].value.buffer != NULL) vyc_buffer_release(meanings[i].value.buffer);
  free(meanings);
}

static vyc_status give(const vyc_replay *replay, vyc_meaning *meanings,
                       const vyc_symbol_value *value) {
  if (value->symbol >= replay->row->symbols.count)
    return vyc__fail(VYC_E_INVALID, "replay", "no symbol %u: the graph has %u", value->symbol,
                     replay->row->symbols.count);
  vyc_meaning *meaning = &meanings[value->symbol];
  const vyc_disk_symbol *symbol = vyc__replay_symbol(replay, value->symbol);
  const char *name = vyc__bundle_text(replay->bundle, symbol->name);
  if (meaning->is_given)
    return vyc__fail(VYC_E_INVALID, "replay", "symbol %s is given twice", name);
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

/* A copy of what all symbols stand for, with `values` in their places. */
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

/* Steps that given symbols change, and room for their values: one block of memory. */
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

static bool is_changed(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step) {
  return vyc__replay_uses_given(replay, meanings, step) &&
         vyc__replay_is_complete(replay, meanings, step);
}

static vyc_status changes_of(const vyc_replay *replay, changes *made, const vyc_meaning *meanings) {
  const uint32_t step_count = replay->row->steps.count;
  uint32_t steps = 0;
  uint64_t values = 0;
  *made = (changes){0};
  for (uint32_t i = 0; i < step_count; i++)
    if (is_changed(replay, meanings, i)) {
      steps++;
      values += vyc__replay_step(replay, i)->values.count;
    }
  if (steps == 0) return VYC_OK;
  vyc_bound *bound = NULL;
  VYC_TRY(make_room(made, &bound, steps, values));
  vyc_argument *arguments = bound->arguments;
  uint64_t *scalars = bound->scalars;
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; i < step_count && status == VYC_OK; i++) {
    if (!is_changed(replay, meanings, i)) continue;
    const vyc_disk_graph_step *row = vyc__replay_step(replay, i);
    bound->arguments = arguments;
    bound->scalars = scalars;
    status = vyc__replay_bind(replay, bound, meanings, i);
    vyc_graph_change *change = &made->list[made->count++];
    change->step = replay->numbers[i];
    if (row->kind == VYC_STEP_LAUNCH)
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

/* What was given takes the place of what was there, whose references go. */
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

/* Setting symbols and making the graph are done by one thread at a time. */
static void claim(vyc_replay *replay) {
  while (atomic_exchange_explicit(&replay->claimed, true, memory_order_acquire)) vyc__sleep_us(20);
}
static void unclaim(vyc_replay *replay) {
  atomic_store_explicit(&replay->claimed, false, memory_order_release);
}

static vyc_status set(vyc_replay *replay, vyc_meaning *meanings) {
  vyc_graph *graph = atomic_load(&replay->graph);
  changes made;
  VYC_TRY(changes_of(replay, &made, meanings));
  vyc_status status = VYC_OK;
  if (graph != NULL && made.count > 0) status = vyc_graph_update(graph, made.list, made.count);
  free(made.memory);
  VYC_TRY(status);
  keep(replay, meanings);
  atomic_store(&replay->is_complete, is_complete(replay, replay->meanings));
  return VYC_OK;
}

vyc_status vyc_replay_set(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count) {
  vyc_meaning *meanings = NULL;
  VYC_TRY(check_values(replay, values, count));
  claim(replay);
  vyc_status status = meanings_of(replay, &meanings, values, count);
  if (status == VYC_OK) {
    status = set(replay, meanings);
    meanings_drop(replay, meanings);
  }
  unclaim(replay);
  return status;
}

static vyc_status missing(const vyc_replay *replay, const vyc_meaning *meanings) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++)
    if (!meanings[i].is_set)
      return vyc__fail(VYC_E_INVALID, "replay", "symbol %s has no value",
                       vyc__bundle_text(replay->bundle, vyc__replay_symbol(replay, i)->name));
  return VYC_OK;
}

/* What is given for this launch alone stands in the graph only where nothing else does. */
static vyc_status make_graph(vyc_replay *replay, const vyc_meaning *given) {
  vyc_meaning *meanings = NULL;
  vyc_graph *graph = NULL;
  VYC_TRY(meanings_of(replay, &meanings, NULL, 0));
  for (uint32_t i = 0; i < replay->row->symbols.count; i++) {
    if (meanings[i].is_set) continue;
    meanings[i] = given[i];
    if (given[i].value.buffer != NULL) vyc__child_retain(&given[i].value.buffer->child);
  }
  const vyc_status status = vyc__replay_build(replay, &graph, meanings);
  meanings_drop(replay, meanings);
  if (status == VYC_OK) atomic_store(&replay->graph, graph);
  return status;
}

static vyc_status launch(vyc_replay *replay, const vyc_meaning *meanings, vyc_stream *stream) {
  changes made;
  VYC_TRY(missing(replay, meanings));
  vyc_status status = VYC_OK;
  if (atomic_load(&replay->graph) == NULL) {
    claim(replay);
    if (atomic_load(&replay->graph) == NULL) status = make_graph(replay, meanings);
    unclaim(replay);
    VYC_TRY(status);
  }
  VYC_TRY(changes_of(replay, &made, meanings));
  status = vyc_graph_launch(atomic_load(&replay->graph), made.list, made.count, stream);
  free(made.memory);
  return status;
}

vyc_status vyc_replay_launch(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count,
                             vyc_stream *stream) {
  vyc_meaning *meanings = NULL;
  VYC_TRY(check_values(replay, values, count));
  vyc_graph *graph = atomic_load(&replay->graph);
  if (count == 0 && graph != NULL && atomic_load(&replay->is_complete))
    return vyc_graph_launch(graph, NULL, 0, stream);
  VYC_TRY(meanings_of(replay, &meanings, values, count));
  const vyc_status status = launch(replay, meanings, stream);
  meanings_drop(replay, meanings);
  return status;
}

vyc_status vyc_replay_site(vyc_replay *replay, vyc_site *site_out, const char *kernel,
                           uint64_t report) {
  VYC_REQUIRE(replay != NULL && kernel != NULL);
  uint32_t index = 0;
  VYC_TRY(vyc_bundle_kernel_find(replay->bundle, &index, kernel));
  if (replay->kernels[index] == NULL)
    return vyc__fail(VYC_E_INVALID, "replay", "the graph does not launch kernel %.200s", kernel);
  return vyc_kernel_site(replay->kernels[index], site_out, report);
}

vyc_status vyc_replay_get(vyc_replay *replay, vyc_symbol_value *value_out, uint32_t symbol) {
  VYC_REQUIRE(replay != NULL && value_out != NULL);
  VYC_REQUIRE(symbol < replay->row->symbols.count);
  pthread_mutex_lock(&replay->lock);
  const vyc_meaning meaning = replay->meanings[symbol];
  if (meaning.value.buffer != NULL) vyc__child_retain(&meaning.value.buffer->child);
  pthread_mutex_unlock(&replay->lock);
  if (!meaning.is_set)
    return vyc__fail(VYC_E_INVALID, "replay", "symbol %s has no value",
                     vyc__bundle_text(replay->bundle, vyc__replay_symbol(replay, symbol)->name));
  *value_out = meaning.value;
  return VYC_OK;
}
