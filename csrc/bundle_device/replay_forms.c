/* Which form of a bundled graph runs: the merged steps where the symbols have as many elements and
 * share memory as when these were merged, else the steps as they were recorded. */
#include <stdlib.h>

#include "room.h"

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
  return allocate(replay, &replay->forms[1]);
}

static bool holds(const vyc_replay *replay, uint32_t index, const vyc_meaning *meanings) {
  const vyc_disk_condition *condition = &replay->conditions[index];
  const vyc_symbol_value *value = &meanings[condition->symbol].value;
  return value->buffer == NULL ? value->bits == condition->value : value->count == condition->count;
}

vyc_replay_form *vyc__replay_choose(vyc_replay *replay, vyc_meaning *meanings) {
  if (replay->form_count == 1) return &replay->forms[0];
  for (uint32_t i = 0; i < replay->condition_count; i++)
    if (!holds(replay, i, meanings)) return &replay->forms[1];
  return &replay->forms[vyc__replay_shares_alike(replay, meanings) ? 0 : 1];
}
