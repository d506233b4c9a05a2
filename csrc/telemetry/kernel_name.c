/* What kernels and graphs are called in messages.
 *
 * A name is held by what it names. After that a note of a launch may still have it, and a thread
 * may be reading that note: the name is freed when neither is the case, which is checked for many
 * names at once. */
#include <stdlib.h>
#include <string.h>

#include "base/room.h"
#include "room.h"

#define FEW 1024u /* names that nobody holds, before notes are looked through for them */

static void name_free(vyc_name *name) {
  free(name->shown);
  free(name);
}

vyc_status vyc__name_make(vyc_name **name_out, const char *text, const vyc_prepared_desc *desc) {
  const size_t size = strlen(text) + 1;
  vyc_name *name = calloc(1, sizeof *name + size);
  if (name == NULL) return vyc__fail(VYC_E_MEMORY, "name", "out of host memory");
  memcpy(name->text, text, size);
  atomic_init(&name->references, 1);
  const vyc_status status =
      desc == NULL ? VYC_OK : vyc__labels_make(&name->shown, &name->shown_count, &name->more, desc);
  if (status != VYC_OK) {
    free(name);
    return status;
  }
  *name_out = name;
  return VYC_OK;
}

static void push(vyc_history *history, vyc_name *first, vyc_name *last) {
  last->next = atomic_load(&history->retired);
  while (!atomic_compare_exchange_weak(&history->retired, &last->next, first)) {
  }
}

static void mark(vyc_note note) {
  if (vyc__note_origin(note) == VYC_ORIGIN_TEXT) return;
  vyc_name *name = (vyc_name *)(uintptr_t)vyc__note_pointer(note);
  if (name != NULL) name->noted = true;
}

static void mark_noted(vyc_history *history) {
  const uint32_t rings = atomic_load(&history->rings);
  for (uint32_t ring = 0; ring < rings; ring++)
    for (uint32_t i = 0; i < VYC_HISTORY; i++) mark(atomic_load(&history->entries[ring][i].note));
  for (vyc_flight *f = atomic_load(&history->flights); f != NULL; f = f->next)
    mark(atomic_load(&f->entry.note));
}

/* One thread at a time. A reader that comes after the look at `readers` finds only names that are
 * noted, because none of the others is noted again. */
static void collect(vyc_history *history) {
  vyc_name *name = atomic_exchange(&history->retired, NULL);
  for (vyc_name *n = name; n != NULL; n = n->next) n->noted = false;
  mark_noted(history);
  const bool read = atomic_load(&history->readers) != 0;
  vyc_name *first = NULL, *last = NULL;
  uint32_t kept = 0, freed = 0;
  while (name != NULL) {
    vyc_name *next = name->next;
    if (read || name->noted) {
      name->next = first;
      first = name;
      if (last == NULL) last = name;
      kept++;
    } else {
      name_free(name);
      freed++;
    }
    name = next;
  }
  if (first != NULL) push(history, first, last);
  atomic_fetch_sub(&history->retired_count, freed);
  atomic_store(&history->retired_limit, 2 * kept + FEW);
}

void vyc__name_release(vyc_history *history, vyc_name *name) {
  if (name == NULL) return;
  if (atomic_fetch_sub_explicit(&name->references, 1, memory_order_acq_rel) != 1) return;
  push(history, name, name);
  const uint32_t count = atomic_fetch_add(&history->retired_count, 1) + 1;
  if (count < FEW || count < atomic_load(&history->retired_limit)) return;
  if (history->fork_generation != vyc__fork_count() || atomic_exchange(&history->collecting, true))
    return;
  collect(history);
  atomic_store(&history->collecting, false);
}

void vyc__names_free(vyc_history *history) {
  vyc_name *name = atomic_exchange(&history->retired, NULL);
  while (name != NULL) {
    vyc_name *next = name->next;
    name_free(name);
    name = next;
  }
}

void vyc__notes_begin(vyc_history *history) { atomic_fetch_add(&history->readers, 1); }

void vyc__notes_end(vyc_history *history) { atomic_fetch_sub(&history->readers, 1); }
