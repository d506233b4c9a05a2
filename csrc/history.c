/* What was launched last and is not known to have ended, as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- texts of a caller ----------------------------------------------------------------------- */

#define TRACES 256u /* as many launches keep their texts */
#define TRACE_BYTES 256u
#define NAME_BYTES 512u /* of a line, who launched and from where */

struct vyc_traces {
  _Atomic uint32_t next;
  char texts[TRACES][TRACE_BYTES];
};

static _Thread_local struct {
  vyc_context *context;
  const char *text;
} label;

vyc_status vyc_context_trace(vyc_context *context, const char *text) {
  VYC_REQUIRE(context != NULL);
  VYC_TRY(vyc__check_usable(context));
  if (text == NULL) {
    label.text = NULL;
    return VYC_OK;
  }
  vyc_traces *traces = atomic_load(&context->traces);
  if (traces == NULL) {
    vyc_traces *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL || !vyc__note_fits(fresh))
      return vyc__fail(VYC_E_MEMORY, "trace", "out of host memory");
    if (atomic_compare_exchange_strong(&context->traces, &traces, fresh))
      traces = fresh;
    else
      free(fresh);
  }
  char *const room = traces->texts[atomic_fetch_add(&traces->next, 1) % TRACES];
  snprintf(room, TRACE_BYTES, "%s", text);
  label.context = context;
  label.text = room;
  return VYC_OK;
}

vyc_note vyc__traced(vyc_context *context, const vyc_name *name, uint32_t origin) {
  if (label.text == NULL || label.context != context) return vyc__note_make(name, origin);
  const char *text = label.text;
  label.text = NULL;
  return vyc__note_make(text, VYC_ORIGIN_TEXT);
}

/* ---- writing down ---------------------------------------------------------------------------- */

void vyc__history_stream(vyc_context *context, uint32_t slot, uint64_t handle) {
  vyc_history *history = &context->history;
  atomic_store(&history->settled[slot], atomic_load(&history->next[slot]));
  atomic_store(&history->handles[slot], handle);
  uint32_t slots = atomic_load(&history->slots);
  while (slots <= slot && !atomic_compare_exchange_weak(&history->slots, &slots, slot + 1)) {
  }
}

vyc_flight *vyc__flight_take(vyc_context *context) {
  vyc_history *history = &context->history;
  for (vyc_flight *flight = atomic_load(&history->flights); flight != NULL; flight = flight->next)
    if (!atomic_exchange(&flight->taken, true)) return flight;
  vyc_flight *flight = calloc(1, sizeof *flight);
  if (flight == NULL) {
    vyc__fail(VYC_E_MEMORY, "run", "out of host memory");
    return NULL;
  }
  atomic_init(&flight->taken, true);
  flight->next = atomic_load(&history->flights);
  while (!atomic_compare_exchange_weak(&history->flights, &flight->next, flight)) {
  }
  return flight;
}

void vyc__flight_give(vyc_flight *flight) {
  atomic_store(&flight->note, 0);
  atomic_store(&flight->taken, false);
}

void vyc__settling_begin(vyc_context *context, vyc_settling *settling) {
  vyc_history *history = &context->history;
  settling->slots = atomic_load_explicit(&history->slots, memory_order_relaxed);
  for (uint32_t slot = 0; slot < settling->slots; slot++)
    settling->next[slot] = atomic_load_explicit(&history->next[slot], memory_order_relaxed);
}

void vyc__settling_end(vyc_context *context, const vyc_settling *settling) {
  for (uint32_t slot = 0; slot < settling->slots; slot++)
    atomic_store_explicit(&context->history.settled[slot], settling->next[slot],
                          memory_order_relaxed);
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

static void name_stream(char *to, size_t bytes, uint32_t slot, uint64_t handle) {
  if (slot == VYC_SLOT_MAIN)
    snprintf(to, bytes, "in call order");
  else if (slot == VYC_SLOT_OTHER)
    snprintf(to, bytes, "on one of the streams beyond the first %d", VYC_SLOT_OTHER - 1);
  else
    snprintf(to, bytes, "on stream 0x%" PRIx64, handle);
}

/* Who launched, and from where if that was said. */
static void name_note(char *to, size_t bytes, vyc_note note) {
  const uint32_t origin = vyc__note_origin(note);
  const void *pointer = vyc__note_pointer(note);
  const char *where = origin == VYC_ORIGIN_TEXT ? NULL : vyc__origin_text(origin);
  const char *who = pointer == NULL             ? "a kernel"
                    : origin == VYC_ORIGIN_TEXT ? pointer
                                                : ((const vyc_name *)pointer)->text;
  snprintf(to, bytes, "%s%s%s", who, where == NULL ? "" : ", launched at ",
           where == NULL ? "" : where);
}

static void add_slot(page *p, vyc_history *history, uint32_t slot) {
  const uint32_t next = atomic_load(&history->next[slot]);
  const uint32_t open = next - atomic_load(&history->settled[slot]);
  char where[64], who[NAME_BYTES], line[NAME_BYTES + 96];
  name_stream(where, sizeof where, slot, atomic_load(&history->handles[slot]));
  for (uint32_t ago = 1; ago <= open && ago <= VYC_HISTORY; ago++) {
    const vyc_note note = atomic_load(&history->notes[slot][(next - ago) % VYC_HISTORY]);
    if (note == 0) continue;
    name_note(who, sizeof who, note);
    snprintf(line, sizeof line, "%s, %" PRIu32 " launch%s ago %s", who, ago, ago == 1 ? "" : "es",
             where);
    add(p, line);
  }
  if (open <= VYC_HISTORY) return;
  snprintf(line, sizeof line, "%" PRIu32 " launches before those %s", open - VYC_HISTORY, where);
  add(p, line);
}

uint32_t vyc__history_text(vyc_context *context, char *text_out, size_t bytes) {
  vyc_history *history = &context->history;
  page p = {text_out, bytes, 0, 0};
  if (bytes > 0) text_out[0] = '\0';
  vyc__notes_begin(context);
  const uint32_t slots = atomic_load(&history->slots);
  for (uint32_t slot = 0; slot < slots; slot++) add_slot(&p, history, slot);
  for (vyc_flight *f = atomic_load(&history->flights); f != NULL; f = f->next) {
    const vyc_note note = atomic_load(&f->note);
    char who[NAME_BYTES], line[NAME_BYTES + 32];
    if (note == 0) continue;
    name_note(who, sizeof who, note);
    snprintf(line, sizeof line, "%s, a call with host arrays", who);
    add(&p, line);
  }
  vyc__notes_end(context);
  return p.lines;
}

vyc_status vyc_context_in_flight(vyc_context *context, char *text_out, size_t bytes,
                                 uint32_t *count_out) {
  VYC_REQUIRE(context != NULL && (text_out != NULL || bytes == 0) && count_out != NULL);
  *count_out = vyc__history_text(context, text_out, bytes);
  return VYC_OK;
}

void vyc__history_free(vyc_context *context) {
  vyc_flight *flight = atomic_load(&context->history.flights);
  while (flight != NULL) {
    vyc_flight *next = flight->next;
    free(flight);
    flight = next;
  }
  free(atomic_load(&context->traces));
}
