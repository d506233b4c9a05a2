/* Which form of a bundled graph runs: the merged steps where the symbols have as many elements and
 * share memory as when these were merged, else the steps as they were recorded. */
#include <stdlib.h>

#include "room.h"

/* ---- what is compared ------------------------------------------------------------------------ */

bool vyc__replay_is_default(const vyc_replay *replay, uint32_t array) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++) {
    const vyc_disk_symbol *symbol = vyc__replay_symbol(replay, i);
    if (symbol->kind == VYC_SYMBOL_ARRAY && (symbol->flags & VYC_SYMBOL_HAS_DEFAULT) != 0 &&
        symbol->array == array)
      return true;
  }
  return false;
}

/* Other values cannot stand for memory that nobody but the graph knows. */
static bool is_reachable(const vyc_replay *replay, uint32_t array) {
  for (uint32_t i = 0; i < replay->condition_count; i++)
    if (replay->conditions[i].memory == array &&
        vyc__replay_symbol(replay, replay->conditions[i].symbol)->kind == VYC_SYMBOL_ARRAY)
      return true;
  return vyc__replay_is_default(replay, array);
}

static uint32_t type_of(const vyc_replay *replay, const vyc_disk_graph_step *step, uint32_t value) {
  if (step->kind != VYC_STEP_LAUNCH) return step->type;
  const vyc_disk_kernel *kernel =
      vyc__bundle_row(replay->bundle, VYC_SECTION_KERNELS, step->kernel, sizeof *kernel);
  const vyc_disk_parameter *p = vyc__bundle_row(replay->bundle, VYC_SECTION_PARAMETERS,
                                                kernel->parameters.first + value, sizeof *p);
  return p->type;
}

/* Counts them if `places` is NULL. */
static uint32_t list_places(const vyc_replay *replay, vyc_place *places) {
  uint32_t count = 0;
  const vyc_replay_form *form = &replay->forms[1];
  for (uint32_t i = form->begin; i < form->end; i++) {
    const vyc_disk_graph_step *step = vyc__replay_step(replay, i);
    const vyc_bundle_value *values = vyc__replay_values(replay, step);
    for (uint32_t v = 0; v < step->values.count; v++) {
      if (values[v].kind != VYC_VALUE_SPAN || !is_reachable(replay, values[v].index)) continue;
      if (places != NULL)
        places[count] = (vyc_place){values[v].index, values[v].value,
                                    values[v].count * vyc__type_bytes(type_of(replay, step, v))};
      count++;
    }
  }
  return count;
}

static int by_place(const void *a, const void *b) {
  const vyc_place *x = a, *y = b;
  if (x->memory != y->memory) return x->memory < y->memory ? -1 : 1;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes ? 1 : 0;
}

static vyc_status find_places(vyc_replay *replay) {
  const uint32_t all = list_places(replay, NULL);
  replay->places = malloc((all + (size_t)1) * sizeof *replay->places);
  if (replay->places == NULL) return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
  (void)list_places(replay, replay->places);
  qsort(replay->places, all, sizeof *replay->places, by_place);
  for (uint32_t i = 0; i < all; i++)
    if (i == 0 || by_place(&replay->places[i], &replay->places[replay->place_count - 1]) != 0)
      replay->places[replay->place_count++] = replay->places[i];
  return VYC_OK;
}

static vyc_status allocate(const vyc_replay *replay, vyc_replay_form *form) {
  form->numbers = calloc(form->end - form->begin + (size_t)1, sizeof *form->numbers);
  form->settable = calloc(replay->row->symbols.count + (size_t)1, sizeof *form->settable);
  if (form->numbers != NULL && form->settable != NULL) return VYC_OK;
  return vyc__fail(VYC_E_MEMORY, "replay", "out of host memory");
}

vyc_status vyc__replay_find_forms(vyc_replay *replay) {
  const uint32_t steps = replay->row->steps.count;
  uint32_t end = 0;
  for (uint32_t i = 0; i < replay->condition_count; i++)
    replay->decides[replay->conditions[i].symbol] = true;
  while (end < steps && vyc__replay_step(replay, end)->kind != VYC_STEP_OTHERWISE) end++;
  replay->form_count = end < steps ? 2 : 1;
  replay->forms[0].end = end;
  VYC_TRY(allocate(replay, &replay->forms[0]));
  if (replay->form_count == 1) return VYC_OK;
  replay->forms[1].begin = end + 1;
  replay->forms[1].end = steps;
  VYC_TRY(allocate(replay, &replay->forms[1]));
  return find_places(replay);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* An array when steps were merged, and now. */
typedef struct pair {
  vyc_place then;
  uint64_t now;
} pair;

static pair pair_of(const vyc_replay *replay, const vyc_disk_condition *condition,
                    const vyc_meaning *meanings) {
  const vyc_symbol_value *value = &meanings[condition->symbol].value;
  const uint32_t type = vyc__replay_symbol(replay, condition->symbol)->type;
  return (pair){{condition->memory, condition->value, condition->count * vyc__type_bytes(type)},
                value->buffer->address + value->offset};
}

static bool meets(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && (a < b ? b - a < a_bytes : a - b < b_bytes);
}

/* Both have as many bytes as then. */
static bool share_alike(const pair *a, const pair *b) {
  const bool met = a->then.memory == b->then.memory &&
                   meets(a->then.begin, a->then.bytes, b->then.begin, b->then.bytes);
  if (!met) return !meets(a->now, a->then.bytes, b->now, b->then.bytes);
  return a->now - b->now == a->then.begin - b->then.begin;
}

static bool is_alike(const vyc_replay *replay, uint32_t index, const vyc_meaning *meanings) {
  const vyc_disk_condition *condition = &replay->conditions[index];
  const vyc_symbol_value *value = &meanings[condition->symbol].value;
  if (value->buffer == NULL) return value->bits == condition->value;
  if (value->count != condition->count) return false;
  const pair one = pair_of(replay, condition, meanings);
  for (uint32_t i = 0; i < replay->place_count; i++) {
    const vyc_place *place = &replay->places[i];
    const pair other = {*place, replay->arrays[place->memory]->address + place->begin};
    if (!share_alike(&one, &other)) return false;
  }
  for (uint32_t i = 0; i < index; i++) {
    if (meanings[replay->conditions[i].symbol].value.buffer == NULL) continue;
    const pair other = pair_of(replay, &replay->conditions[i], meanings);
    if (!share_alike(&one, &other)) return false;
  }
  return true;
}

vyc_replay_form *vyc__replay_choose(vyc_replay *replay, const vyc_meaning *meanings) {
  for (uint32_t i = 0; i < replay->condition_count; i++)
    if (!is_alike(replay, i, meanings)) return &replay->forms[1];
  return &replay->forms[0];
}
