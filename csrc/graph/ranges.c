/* Whether a graph can also be used for other values: its nodes, and its edges.
 *
 * The edges were made for the ranges of the first values. Ranges that have moved need no new edge
 * if they do not overlap written ranges, and written ones overlap none, of those when the graph was
 * built and among themselves; otherwise cover.c checks whether the graph has the edges that they
 * need. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ---- ranges as built ------------------------------------------------------------------------- */

static vyc_status append(vyc_ranges *ranges, uint64_t begin, uint64_t end) {
  if (begin >= end) return VYC_OK;
  VYC_TRY(vyc__grow(&ranges->list, &ranges->room, ranges->count + 1, sizeof *ranges->list));
  ranges->list[ranges->count++] = (vyc_range){begin, end};
  return VYC_OK;
}

static int by_begin(const void *a, const void *b) {
  const vyc_range *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin ? 1 : 0;
}

static void merge(vyc_ranges *ranges) {
  uint32_t kept = 0;
  if (ranges->count > 1) qsort(ranges->list, ranges->count, sizeof *ranges->list, by_begin);
  for (uint32_t i = 1; i < ranges->count; i++) {
    vyc_range *last = &ranges->list[kept];
    if (ranges->list[i].begin > last->end)
      ranges->list[++kept] = ranges->list[i];
    else if (ranges->list[i].end > last->end)
      last->end = ranges->list[i].end;
  }
  if (ranges->count > 0) ranges->count = kept + 1;
}

vyc_status vyc__ranges_make(vyc_graph *graph) {
  graph->touched.count = 0;
  graph->written.count = 0;
  for (uint32_t i = 0; i < graph->step_count; i++) {
    const vyc_step *step = &graph->steps[i];
    if (step->kind == STEP_REPEAT && step->until != NULL)
      VYC_TRY(
          append(&graph->touched, step->until_address, step->until_address + step->until_bytes));
    for (uint32_t j = 0; step->kind != STEP_REPEAT && j < step->access_count; j++) {
      const vyc_access *access = &step->built[j];
      VYC_TRY(append(&graph->touched, access->begin, access->end));
      if (access->write) VYC_TRY(append(&graph->written, access->begin, access->end));
    }
  }
  merge(&graph->touched);
  merge(&graph->written);
  return VYC_OK;
}

static bool meets(const vyc_ranges *ranges, const vyc_access *access) {
  uint32_t low = 0, high = ranges->count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (ranges->list[middle].end > access->begin)
      high = middle;
    else
      low = middle + 1;
  }
  return low < ranges->count && ranges->list[low].begin < access->end;
}

/* ---- edges ----------------------------------------------------------------------------------- */

static bool same(const vyc_access *a, const vyc_access *b) {
  return (a->begin == b->begin && a->end == b->end) || (a->begin >= a->end && b->begin >= b->end);
}

bool vyc__has_moved(const vyc_step *step, const vyc_values *values) {
  const uint32_t count = vyc__access_count(step, values);
  for (uint32_t i = 0; i < count; i++) {
    const vyc_access access = vyc__access(step, values, i);
    if (!same(&access, &step->built[i])) return true;
  }
  return false;
}

/* What has moved in one step; false: it overlaps the ranges of the graph. */
static vyc_status add_moved(vyc_graph *graph, uint32_t number, bool *apart) {
  const vyc_step *step = &graph->steps[number];
  const vyc_values *values = vyc__step_target(step);
  const uint32_t all = vyc__access_count(step, values);
  for (uint32_t i = 0; i < all && *apart; i++) {
    const vyc_access access = vyc__access(step, values, i);
    if (same(&access, &step->built[i]) || access.begin >= access.end) continue;
    *apart = !meets(access.write ? &graph->touched : &graph->written, &access);
    VYC_TRY(
        vyc__grow(&graph->moved, &graph->moved_room, graph->moved_count + 1, sizeof *graph->moved));
    graph->moved[graph->moved_count++] =
        (vyc_moved){access.begin, access.end, number, access.write};
  }
  return VYC_OK;
}

/* How far the ranges so far extend: those of the step that extends furthest, and those of the
 * others. */
typedef struct reach {
  uint64_t end, end_of_others;
  uint32_t step;
} reach;

static void extend(reach *r, const vyc_moved *m) {
  if (m->end > r->end) {
    if (m->step != r->step) r->end_of_others = r->end;
    r->end = m->end;
    r->step = m->step;
  } else if (m->step != r->step && m->end > r->end_of_others) {
    r->end_of_others = m->end;
  }
}

static bool meets_other_step(const reach *r, const vyc_moved *m) {
  return (m->step == r->step ? r->end_of_others : r->end) > m->begin;
}

static int by_begin_of_moved(const void *a, const void *b) {
  const vyc_moved *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin ? 1 : 0;
}

/* Whether no step writes to the ranges of another. */
static bool lie_apart(vyc_moved *list, uint32_t count) {
  reach all = {0, 0, VYC_NONE}, written = all;
  if (count > 1) qsort(list, count, sizeof *list, by_begin_of_moved);
  for (uint32_t i = 0; i < count; i++) {
    if (meets_other_step(list[i].write ? &all : &written, &list[i])) return false;
    extend(&all, &list[i]);
    if (list[i].write) extend(&written, &list[i]);
  }
  return true;
}

vyc_status vyc__edges_fit(vyc_graph *graph, bool *fit_out) {
  *fit_out = true;
  if (graph->path || graph->serial) return VYC_OK;
  graph->moved_count = 0;
  for (uint32_t i = 0; i < graph->away_count && *fit_out; i++)
    VYC_TRY(add_moved(graph, graph->away[i], fit_out));
  *fit_out = *fit_out && lie_apart(graph->moved, graph->moved_count);
  return *fit_out || graph->loops_made > 0 ? VYC_OK : vyc__edges_cover(graph, fit_out);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool has_clear(const vyc_step *step, uint32_t binding) {
  return (step->clears[binding / 64] >> binding % 64 & 1) != 0;
}

static bool clears_fit(const vyc_graph *graph, const vyc_step *step, const vyc_values *values) {
  for (uint32_t i = 0; i < step->prepared->binding_count; i++) {
    const uint64_t bytes = values->arguments[i].count * step->prepared->bindings[i].element_bytes;
    const bool needed = bytes > 0 && vyc__needs_clear(step->prepared, i, &values->run);
    if (needed && !has_clear(step, i)) return false;
    if (bytes == 0 && has_clear(step, i)) return false;
  }
  for (uint32_t i = step->first_node; i != VYC_NONE; i = graph->nodes[i].next) {
    const vyc_node *node = &graph->nodes[i];
    if (node->role >= VYC_MAX_BINDINGS) continue;
    const vyc_argument *argument = &values->arguments[node->role];
    const uint64_t bytes = argument->count * step->prepared->bindings[node->role].element_bytes;
    const uint64_t address = argument->buffer->address + argument->offset;
    if ((address | bytes) % node->element_bytes != 0) return false;
  }
  return true;
}

bool vyc__nodes_fit(const vyc_graph *graph, const vyc_step *step, const vyc_values *values) {
  if (vyc__step_is_empty(step, values) != step->built_empty) return false;
  if (step->kind == STEP_LAUNCH) return clears_fit(graph, step, values);
  return values->transfer.element_bytes == step->now->transfer.element_bytes;
}
