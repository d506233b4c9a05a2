/* Graphs of bundles: loading them on a device, and looking at them. */
#include "room.h"

#include <stdlib.h>

/* ---- loading -------------------------------------------------------------------------------- */

static vyc_status load_kernels(vyc_replay *replay, vyc_compiler_log log, uint64_t tag) {
  for (uint32_t i = 0; i < replay->row->steps.count; i++) {
    const vyc_disk_graph_step *step = vyc__replay_step(replay, i);
    if (step->kind != VYC_STEP_LAUNCH || replay->kernels[step->kernel] != NULL) continue;
    const vyc_disk_kernel *row = NULL;
    VYC_TRY(vyc__bundle_kernel(replay->bundle, &row, step->kernel));
    if ((row->flags & (VYC_KERNEL_WORKER | VYC_KERNEL_ROWS)) != 0)
      return vyc__fail(VYC_E_UNSUPPORTED, "replay", "%s is an entry of other kernels, not a kernel",
                       vyc__bundle_text(replay->bundle, row->name));
    VYC_TRY(vyc__bundled_load(&replay->kernels[step->kernel], log, replay->context, replay->bundle,
                              step->kernel, tag));
  }
  return VYC_OK;
}

/* Entries for many launches as one, of kernels that are loaded. */
static vyc_status load_entries(vyc_replay *replay) {
  bool some = false;
  for (uint32_t i = 0; i < replay->row->steps.count; i++) {
    const vyc_disk_graph_step *step = vyc__replay_step(replay, i);
    if (step->kind != VYC_STEP_ROWS || replay->entries[step->kernel] != NULL) continue;
    VYC_TRY(vyc__rows_entry_load(&replay->entries[step->kernel], replay->context, replay->bundle,
                                 step->kernel, replay->kernels));
    some = true;
  }
  if (!some) return VYC_OK;
  return vyc__rows_clearing_load(&replay->clearing, &replay->many_clearing, replay->context,
                                 replay->bundle);
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
  replay->kernels = calloc(replay->kernel_count + (size_t)1, sizeof *replay->kernels);
  replay->entries = calloc(replay->kernel_count + (size_t)1, sizeof *replay->entries);
  replay->arrays = calloc(replay->row->arrays.count + (size_t)1, sizeof(vyc_buffer *));
  replay->meanings = calloc(replay->row->symbols.count + (size_t)1, sizeof *replay->meanings);
  replay->decides = calloc(replay->row->symbols.count + (size_t)1, sizeof *replay->decides);
  if (replay->kernels == NULL || replay->entries == NULL || replay->arrays == NULL ||
      replay->meanings == NULL || replay->decides == NULL)
    return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  return VYC_OK;
}

static vyc_status fill(vyc_replay *replay, vyc_compiler_log log, uint64_t tag) {
  vyc_graph *graph = NULL;
  VYC_TRY(allocate(replay));
  VYC_TRY(vyc__replay_find_forms(replay));
  VYC_TRY(load_kernels(replay, log, tag));
  VYC_TRY(load_entries(replay));
  VYC_TRY(load_arrays(replay));
  VYC_TRY(vyc__replay_find_clusters(replay));
  set_defaults(replay);
  if (!vyc__replay_has_all(replay, replay->meanings)) return VYC_OK;
  vyc_replay_form *form = vyc__replay_choose(replay, replay->meanings);
  VYC_TRY(vyc__replay_build(replay, form, &graph, replay->meanings));
  atomic_store(&form->graph, graph);
  atomic_store(&replay->ready, form);
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
  const vyc_disk_range conditions = vyc__bundle_conditions(bundle, index);
  replay->conditions =
      vyc__bundle_row(bundle, VYC_SECTION_CONDITIONS, conditions.first, sizeof *replay->conditions);
  replay->condition_count = conditions.count;
  const vyc_status status = fill(replay, (vyc_compiler_log){log_out, log_bytes}, tag);
  if (status == VYC_OK)
    *replay_out = replay;
  else
    vyc_replay_release(replay);
  return status;
}

void vyc_replay_release(vyc_replay *replay) {
  if (replay == NULL) return;
  vyc_error failure; /* releases may wait; they must not replace the reason of a failed load */
  vyc__error_save(&failure);
  for (uint32_t i = 0; i < 2; i++) {
    vyc_graph_release(atomic_load(&replay->forms[i].graph));
    free(replay->forms[i].numbers);
    free(replay->forms[i].settable);
  }
  for (uint32_t i = 0; replay->meanings != NULL && i < replay->row->symbols.count; i++)
    vyc_buffer_release(replay->meanings[i].value.buffer);
  for (uint32_t i = 0; replay->kernels != NULL && i < replay->kernel_count; i++)
    vyc_bundled_kernel_release(replay->kernels[i]);
  for (uint32_t i = 0; replay->entries != NULL && i < replay->kernel_count; i++)
    vyc_prepared_release(replay->entries[i]);
  vyc_prepared_release(replay->clearing);
  vyc_prepared_release(replay->many_clearing);
  for (uint32_t i = 0; replay->arrays != NULL && i < replay->row->arrays.count; i++)
    vyc_buffer_release(replay->arrays[i]);
  free(replay->meanings);
  free(replay->decides);
  free(atomic_load(&replay->room));
  free(replay->clusters);
  free(replay->cluster_of);
  free(replay->fixed);
  free(replay->kernels);
  free(replay->entries);
  free(replay->arrays);
  pthread_mutex_destroy(&replay->lock);
  vyc_bundle_release(replay->bundle);
  vyc__context_release(replay->context);
  free(replay);
  vyc__error_restore(&failure);
}

/* ---- looking --------------------------------------------------------------------------------- */

vyc_status vyc_replay_site(vyc_replay *replay, vyc_site *site_out, const char *kernel,
                           uint64_t report) {
  VYC_REQUIRE(replay != NULL && kernel != NULL);
  uint32_t index = 0;
  VYC_TRY(vyc_bundle_kernel_find(replay->bundle, &index, kernel));
  if (replay->kernels[index] == NULL)
    return vyc__fail(VYC_E_INVALID, "replay", "the graph does not launch kernel %.200s", kernel);
  return vyc_bundled_kernel_site(replay->kernels[index], site_out, report);
}

vyc_status vyc_replay_get(vyc_replay *replay, vyc_symbol_value *value_out, uint32_t symbol) {
  VYC_REQUIRE(replay != NULL && value_out != NULL);
  VYC_REQUIRE(symbol < replay->row->symbols.count);
  pthread_mutex_lock(&replay->lock);
  const vyc_meaning meaning = replay->meanings[symbol];
  if (meaning.value.buffer != NULL) vyc__child_retain(&meaning.value.buffer->child);
  pthread_mutex_unlock(&replay->lock);
  if (!meaning.is_set)
    return vyc__fail(VYC_E_INVALID, "replay",
                     "symbol %s has no value: give it one in a launch, or set it",
                     vyc__bundle_text(replay->bundle, vyc__replay_symbol(replay, symbol)->name));
  *value_out = meaning.value;
  return VYC_OK;
}
