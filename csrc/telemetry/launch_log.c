/* What was launched last and is not known to have ended, as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/room.h"
#include "room.h"

/* ---- texts of a caller ----------------------------------------------------------------------- */

#define TRACES 256u /* as many launches keep their texts */
#define TRACE_BYTES 256u
#define NAME_BYTES 512u /* of a line, who launched and from where */
#define ARGUMENT_BYTES 384u /* and with what */

struct vyc_traces {
  _Atomic uint32_t next;
  uint64_t number; /* of the process: an address comes again with the next context */
  char texts[TRACES][TRACE_BYTES];
};

static _Atomic uint64_t numbers;

/* `text` is in the traces of that number. */
static _Thread_local struct {
  uint64_t number;
  const char *text;
} label;

vyc_status vyc__trace(vyc_history *history, const char *text) {
  if (text == NULL) {
    label.text = NULL;
    return VYC_OK;
  }
  vyc_traces *traces = atomic_load(&history->traces);
  if (traces == NULL) {
    vyc_traces *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL || !vyc__note_fits(fresh))
      return vyc__fail(VYC_E_MEMORY, "trace", "out of host memory");
    fresh->number = atomic_fetch_add(&numbers, 1) + 1;
    if (atomic_compare_exchange_strong(&history->traces, &traces, fresh))
      traces = fresh;
    else
      free(fresh);
  }
  char *const room = traces->texts[atomic_fetch_add(&traces->next, 1) % TRACES];
  snprintf(room, TRACE_BYTES, "%s", text);
  label.number = traces->number;
  label.text = room;
  return VYC_OK;
}

vyc_note vyc__traced(vyc_history *history, const vyc_name *name, uint32_t origin) {
  const vyc_traces *traces = atomic_load_explicit(&history->traces, memory_order_acquire);
  if (label.text == NULL || label.number != traces->number) return vyc__note_make(name, origin);
  const char *text = label.text;
  label.text = NULL;
  return vyc__note_make(text, VYC_ORIGIN_TEXT);
}

/* ---- writing down ---------------------------------------------------------------------------- */

#define LINE 64u /* bytes of a cache line */
_Static_assert(sizeof(vyc_entry) == LINE, "an entry is a cache line");

vyc_status vyc__history_init(vyc_history *history) {
  history->fork_generation = vyc__fork_count();
  history->memory = calloc(1, VYC_RINGS * sizeof *history->entries + LINE);
  if (history->memory == NULL) return vyc__fail(VYC_E_MEMORY, "history", "out of host memory");
  const uint64_t first = vyc__align_up((uint64_t)(uintptr_t)history->memory, LINE);
  history->entries = (vyc_entry(*)[VYC_HISTORY])(uintptr_t)first;
  return VYC_OK;
}

void vyc__history_stream(vyc_history *history, uint32_t slot, uint64_t handle) {
  const uint32_t ring = vyc__ring(slot);
  if (ring != VYC_RING_FAR) {
    atomic_store(&history->ended[ring], atomic_load(&history->next[ring]));
    atomic_store(&history->handles[ring], handle);
  }
  uint32_t rings = atomic_load(&history->rings);
  while (rings <= ring && !atomic_compare_exchange_weak(&history->rings, &rings, ring + 1)) {
  }
}

vyc_flight *vyc__flight_take(vyc_history *history, const vyc_flight_kind *kind, void *owner) {
  vyc_flight *flight = atomic_load(&history->flights);
  while (flight != NULL && atomic_exchange(&flight->taken, true)) flight = flight->next;
  const bool found = flight != NULL;
  if (!found) flight = calloc(1, sizeof *flight);
  if (flight == NULL) {
    vyc__fail(VYC_E_MEMORY, "run", "out of host memory");
    return NULL;
  }
  flight->kind = kind;
  flight->owner = owner;
  if (found) return flight;
  atomic_init(&flight->taken, true);
  flight->next = atomic_load(&history->flights);
  while (!atomic_compare_exchange_weak(&history->flights, &flight->next, flight)) {
  }
  return flight;
}

/* A reader that comes after the look at `readers` finds no note. In a forked child `readers` may
 * count threads that do not exist there. */
void vyc__flight_give(vyc_history *history, vyc_flight *flight) {
  atomic_store(&flight->entry.note, 0);
  while (atomic_load(&history->readers) != 0 && history->fork_generation == vyc__fork_count())
    vyc__sleep_us(VYC_SLEEP_MIN_US);
  atomic_store(&flight->taken, false);
}

void vyc__progress_begin(vyc_history *history, vyc_progress *progress) {
  progress->rings = atomic_load_explicit(&history->rings, memory_order_relaxed);
  for (uint32_t ring = 0; ring < progress->rings; ring++)
    progress->next[ring] = atomic_load_explicit(&history->next[ring], memory_order_relaxed);
}

void vyc__progress_end(vyc_history *history, const vyc_progress *progress) {
  for (uint32_t ring = 0; ring < progress->rings; ring++)
    atomic_store_explicit(&history->ended[ring], progress->next[ring], memory_order_relaxed);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct page {
  char *text;
  size_t bytes, used;
  uint32_t lines;
} page;

/* A line that does not fit whole is left out, and only counted. */
static void add(page *p, const char *line) {
  const size_t length = strlen(line) + (p->used > 0 ? 1 : 0);
  p->lines++;
  if (p->used + length + 1 > p->bytes) return;
  p->used += (size_t)snprintf(p->text + p->used, p->bytes - p->used, "%s%s",
                              p->used > 0 ? "\n" : "", line);
}

static void name_stream(char *to, size_t bytes, uint32_t ring, uint64_t handle) {
  if (ring == VYC_SLOT_MAIN)
    snprintf(to, bytes, "in call order");
  else if (ring == VYC_RING_FAR)
    snprintf(to, bytes, "on one of the streams beyond the first %u", VYC_NEAR_SLOTS - 1);
  else
    snprintf(to, bytes, "on stream 0x%" PRIx64, handle);
}

/* What it was called with, when the words are whole. */
static void name_arguments(char *to, size_t bytes, const vyc_name *name, const vyc_entry *entry,
                           vyc_note note) {
  uint64_t words[VYC_NOTED_WORDS], check = note;
  for (uint32_t i = 0; i < VYC_NOTED_WORDS; i++) {
    words[i] = atomic_load_explicit(&entry->words[i], memory_order_relaxed);
    check = vyc__check_add(check, words[i]);
  }
  if (check == atomic_load_explicit(&entry->check, memory_order_relaxed))
    vyc__labels_text(to, bytes, name, words);
}

/* Who launched, with what, and from where if that was said; false: nobody did. */
static bool name_entry(char *to, size_t bytes, const vyc_entry *entry) {
  const vyc_note note = atomic_load_explicit(&entry->note, memory_order_acquire);
  const uint32_t origin = vyc__note_origin(note);
  const void *pointer = vyc__note_pointer(note);
  char arguments[ARGUMENT_BYTES] = "";
  if (note == 0) return false;
  if (origin == VYC_ORIGIN_TEXT) {
    snprintf(to, bytes, "%s", (const char *)pointer);
    return true;
  }
  const vyc_name *name = pointer;
  const char *where = vyc__origin_text(origin);
  if (name != NULL) name_arguments(arguments, sizeof arguments, name, entry, note);
  snprintf(to, bytes, "%s%s%s%s", name == NULL ? "a kernel" : name->text, arguments,
           where == NULL ? "" : ", launched at ", where == NULL ? "" : where);
  return true;
}

static void add_ring(page *p, vyc_history *history, uint32_t ring) {
  const uint32_t next = atomic_load(&history->next[ring]);
  const uint32_t open = next - atomic_load(&history->ended[ring]);
  char where[64], who[NAME_BYTES + ARGUMENT_BYTES], line[sizeof who + 96];
  name_stream(where, sizeof where, ring, atomic_load(&history->handles[ring]));
  for (uint32_t ago = 1; ago <= open && ago <= VYC_HISTORY; ago++) {
    if (!name_entry(who, sizeof who, vyc__entry_of(history, ring, next - ago))) continue;
    snprintf(line, sizeof line, "%s, %" PRIu32 " launch%s ago %s", who, ago, ago == 1 ? "" : "es",
             where);
    add(p, line);
  }
  if (open <= VYC_HISTORY) return;
  snprintf(line, sizeof line, "%" PRIu32 " launch%s before those %s", open - VYC_HISTORY,
           open - VYC_HISTORY == 1 ? "" : "es", where);
  add(p, line);
}

static void add_flight(page *p, const vyc_flight *flight) {
  char who[NAME_BYTES + ARGUMENT_BYTES], line[sizeof who + 32];
  if (atomic_load(&flight->entry.note) == 0 || flight->kind->has_ended(flight->owner)) return;
  if (!name_entry(who, sizeof who, &flight->entry)) return;
  snprintf(line, sizeof line, "%s, %s", who, flight->kind->what);
  add(p, line);
}

uint32_t vyc__history_text(vyc_history *history, char *text_out, size_t bytes) {
  page p = {text_out, bytes, 0, 0};
  if (bytes > 0) text_out[0] = '\0';
  vyc__notes_begin(history);
  const uint32_t rings = atomic_load(&history->rings);
  for (uint32_t ring = 0; ring < rings; ring++) add_ring(&p, history, ring);
  for (vyc_flight *f = atomic_load(&history->flights); f != NULL; f = f->next) add_flight(&p, f);
  vyc__notes_end(history);
  return p.lines;
}

void vyc__history_free(vyc_history *history) {
  vyc_flight *flight = atomic_exchange(&history->flights, NULL);
  atomic_store(&history->rings, 0);
  while (flight != NULL) {
    vyc_flight *next = flight->next;
    free(flight);
    flight = next;
  }
  free(history->memory);
  free(atomic_load(&history->traces));
}
