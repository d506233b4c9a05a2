/* Whether arrays share memory as they did when steps were merged.
 *
 * Arrays that shared memory then, directly or by way of others, are a cluster. They share memory in
 * the same way where each cluster has moved as a whole, and no two clusters meet. Clusters with an
 * array that is no symbol stay where that is. So each symbol is compared with its cluster alone,
 * and the clusters in the order of their addresses. */
#include <stdlib.h>

#include "room.h"

/* ---- what is compared ------------------------------------------------------------------------ */

#define OF_STEP UINT32_MAX

/* An array when steps were merged: of a condition, or of a step. */
typedef struct item {
  uint32_t memory, condition;
  uint64_t begin, end;
} item;

bool vyc__replay_is_default(const vyc_replay *replay, uint32_t array) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++) {
    const vyc_disk_symbol *symbol = vyc__replay_symbol(replay, i);
    if (symbol->kind == VYC_SYMBOL_ARRAY && (symbol->flags & VYC_SYMBOL_HAS_DEFAULT) != 0 &&
        symbol->array == array)
      return true;
  }
  return false;
}

static bool is_array(const vyc_replay *replay, uint32_t condition) {
  return vyc__replay_symbol(replay, replay->conditions[condition].symbol)->kind == VYC_SYMBOL_ARRAY;
}

/* Other values cannot stand for memory that nobody but the graph knows. */
static void find_reachable(const vyc_replay *replay, bool *reachable) {
  const uint32_t arrays = replay->row->arrays.count;
  for (uint32_t i = 0; i < replay->row->symbols.count; i++) {
    const vyc_disk_symbol *symbol = vyc__replay_symbol(replay, i);
    if (symbol->kind == VYC_SYMBOL_ARRAY && (symbol->flags & VYC_SYMBOL_HAS_DEFAULT) != 0)
      reachable[symbol->array] = true;
  }
  for (uint32_t i = 0; i < replay->condition_count; i++)
    if (is_array(replay, i) && replay->conditions[i].memory < arrays)
      reachable[replay->conditions[i].memory] = true;
}

static uint32_t type_of(const vyc_replay *replay, const vyc_disk_graph_step *step, uint32_t value) {
  if (step->kind != VYC_STEP_LAUNCH) return step->type;
  const vyc_disk_kernel *kernel =
      vyc__bundle_row(replay->bundle, VYC_SECTION_KERNELS, step->kernel, sizeof *kernel);
  const vyc_disk_parameter *p = vyc__bundle_row(replay->bundle, VYC_SECTION_PARAMETERS,
                                                kernel->parameters.first + value, sizeof *p);
  return p->type;
}

static void add(item *items, uint32_t *count, const item *found) {
  if (found->begin == found->end) return; /* it meets nothing */
  if (items != NULL) items[*count] = *found;
  (*count)++;
}

static void list_step(const vyc_replay *replay, const bool *reachable, uint32_t number, item *items,
                      uint32_t *count) {
  const vyc_disk_graph_step *step = vyc__replay_step(replay, number);
  const vyc_bundle_value *values = vyc__replay_values(replay, step);
  for (uint32_t v = 0; v < step->values.count; v++) {
    if (values[v].kind != VYC_VALUE_SPAN || !reachable[values[v].index]) continue;
    const uint64_t bytes = values[v].count * vyc__type_bytes(type_of(replay, step, v));
    add(items, count, &(item){values[v].index, OF_STEP, values[v].value, values[v].value + bytes});
  }
}

/* Counts them if `items` is NULL. */
static uint32_t list_items(const vyc_replay *replay, const bool *reachable, item *items) {
  uint32_t count = 0;
  const vyc_replay_form *form = &replay->forms[1];
  for (uint32_t i = form->begin; i < form->end; i++) list_step(replay, reachable, i, items, &count);
  for (uint32_t i = 0; i < replay->condition_count; i++) {
    const vyc_disk_condition *c = &replay->conditions[i];
    if (!is_array(replay, i)) continue;
    const uint64_t bytes = c->count * vyc__type_bytes(vyc__replay_symbol(replay, c->symbol)->type);
    add(items, &count, &(item){c->memory, i, c->value, c->value + bytes});
  }
  return count;
}

static int by_place(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->memory != y->memory) return x->memory < y->memory ? -1 : 1;
  return x->begin < y->begin ? -1 : x->begin > y->begin ? 1 : 0;
}

static int by_address(const void *a, const void *b) {
  const vyc_extent *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin ? 1 : 0;
}

/* ---- clusters -------------------------------------------------------------------------------- */

static void join(vyc_replay *replay, vyc_cluster *cluster, const item *i) {
  if (i->end > cluster->then.end) cluster->then.end = i->end;
  if (i->condition == OF_STEP) {
    cluster->is_fixed = true;
    cluster->moved = replay->arrays[i->memory]->address;
    return;
  }
  replay->cluster_of[i->condition] = (uint32_t)(cluster - replay->clusters);
  if (i->condition < cluster->first) cluster->first = i->condition;
}

static void form_clusters(vyc_replay *replay, const item *items, uint32_t count) {
  vyc_cluster *cluster = NULL;
  for (uint32_t i = 0; i < count; i++) {
    const item *each = &items[i];
    if (cluster == NULL || items[i - 1].memory != each->memory ||
        each->begin >= cluster->then.end) {
      cluster = &replay->clusters[replay->cluster_count++];
      *cluster = (vyc_cluster){.then = {each->begin, each->end}, .first = UINT32_MAX};
    }
    join(replay, cluster, each);
  }
}

static vyc_extent moved_by(const vyc_cluster *cluster, uint64_t moved) {
  return (vyc_extent){cluster->then.begin + moved, cluster->then.end + moved};
}

static void list_fixed(vyc_replay *replay) {
  for (uint32_t i = 0; i < replay->cluster_count; i++)
    if (replay->clusters[i].is_fixed)
      replay->fixed[replay->fixed_count++] =
          moved_by(&replay->clusters[i], replay->clusters[i].moved);
  qsort(replay->fixed, replay->fixed_count, sizeof *replay->fixed, by_address);
}

vyc_status vyc__replay_find_clusters(vyc_replay *replay) {
  if (replay->form_count == 1) return VYC_OK;
  bool *reachable = calloc(replay->row->arrays.count + (size_t)1, sizeof *reachable);
  if (reachable == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  find_reachable(replay, reachable);
  const uint32_t count = list_items(replay, reachable, NULL);
  item *items = malloc((count + (size_t)1) * sizeof *items);
  replay->clusters = malloc((count + (size_t)1) * sizeof *replay->clusters);
  replay->fixed = malloc((count + (size_t)1) * sizeof *replay->fixed);
  replay->cluster_of = malloc((replay->condition_count + (size_t)1) * sizeof(uint32_t));
  vyc_status status = VYC_OK;
  if (items == NULL || replay->clusters == NULL || replay->fixed == NULL ||
      replay->cluster_of == NULL) {
    status = vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  } else {
    (void)list_items(replay, reachable, items);
    for (uint32_t i = 0; i < replay->condition_count; i++) replay->cluster_of[i] = VYC_NO_CLUSTER;
    qsort(items, count, sizeof *items, by_place);
    form_clusters(replay, items, count);
    list_fixed(replay);
  }
  free(items);
  free(reachable);
  return status;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static uint64_t moved_of(const vyc_replay *replay, uint32_t condition,
                         const vyc_meaning *meanings) {
  const vyc_disk_condition *c = &replay->conditions[condition];
  const vyc_symbol_value *value = &meanings[c->symbol].value;
  return value->buffer->address + value->offset - c->value;
}

/* As heapsort does it: `extent` goes down from place `at` of so many. */
static void sift(vyc_meaning *meanings, uint32_t at, uint32_t count, vyc_extent extent) {
  for (;;) {
    uint32_t next = 2 * at + 1;
    if (next + 1 < count && meanings[next + 1].extent.begin > meanings[next].extent.begin) next++;
    if (next >= count || meanings[next].extent.begin <= extent.begin) break;
    meanings[at].extent = meanings[next].extent;
    at = next;
  }
  meanings[at].extent = extent;
}

static void sort_extents(vyc_meaning *meanings, uint32_t count) {
  for (uint32_t i = count / 2; i-- > 0;) sift(meanings, i, count, meanings[i].extent);
  for (uint32_t i = count; i-- > 1;) {
    const vyc_extent last = meanings[i].extent;
    meanings[i].extent = meanings[0].extent;
    sift(meanings, 0, i, last);
  }
}

/* Both are in order, and the fixed ones do not meet. */
static bool are_apart(const vyc_replay *replay, vyc_meaning *meanings, uint32_t count) {
  uint32_t fixed = 0;
  sort_extents(meanings, count);
  for (uint32_t i = 0; i < count; i++) {
    const vyc_extent *extent = &meanings[i].extent;
    if (i > 0 && extent->begin < meanings[i - 1].extent.end) return false;
    while (fixed < replay->fixed_count && replay->fixed[fixed].end <= extent->begin) fixed++;
    if (fixed < replay->fixed_count && replay->fixed[fixed].begin < extent->end) return false;
  }
  return true;
}

bool vyc__replay_shares_alike(const vyc_replay *replay, vyc_meaning *meanings) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < replay->condition_count; i++) {
    if (replay->cluster_of[i] == VYC_NO_CLUSTER) continue;
    const vyc_cluster *cluster = &replay->clusters[replay->cluster_of[i]];
    const uint64_t moved = moved_of(replay, i, meanings);
    if (cluster->is_fixed) {
      if (moved != cluster->moved) return false;
    } else if (cluster->first == i) {
      meanings[count++].extent = moved_by(cluster, moved);
    } else if (moved != moved_of(replay, cluster->first, meanings)) {
      return false;
    }
  }
  return are_apart(replay, meanings, count);
}
