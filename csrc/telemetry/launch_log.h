/* The last launches, for the message of a fault, which is reported long after the launch that
 * caused it.
 *
 * Launches on streams are noted in a ring for each slot, calls with host arrays with their
 * submission. A launch fills one cache line, and a wait that succeeds rules out the launches before
 * it. Reading takes no lock, so every failure may do it; two threads that launch on one stream at
 * the same time may lose one of the two notes. */
#ifndef VYC_LAUNCH_LOG_H
#define VYC_LAUNCH_LOG_H

#include <string.h>

#include "base/room.h"

#define VYC_HISTORY 32u /* launches of a stream that are remembered */
#define VYC_RINGS (VYC_NEAR_SLOTS + 1u)
#define VYC_RING_FAR VYC_NEAR_SLOTS /* far streams share one */

/* A launch as one word, written by one store: who and where from. The low 48 bits are a vyc_name
 * and the rest an origin; or, with VYC_ORIGIN_TEXT, they are a text that says both. 0: nothing. */
typedef uint64_t vyc_note;
#define VYC_ORIGIN_TEXT 0xffffu
#define VYC_NOTE_SHIFT 48u

/* So much of the start of a parameter block is noted; every block has as much. */
#define VYC_NOTED_WORDS 6u
#define VYC_NOTED_BYTES (8u * VYC_NOTED_WORDS)

/* A launch and its arguments, a cache line in a ring. Whoever reads it while it is written, or
 * after two threads have written at the same time, sees by `check` that the words are not those of
 * the note. */
typedef struct vyc_entry {
  _Atomic(vyc_note) note;
  _Atomic uint64_t check; /* of the note and the words */
  _Atomic uint64_t words[VYC_NOTED_WORDS];
} vyc_entry;

typedef struct vyc_shown vyc_shown;

/* What kernels and graphs are called. It outlives them while a note has it. */
typedef struct vyc_name {
  struct vyc_name *next; /* among those that nobody holds */
  _Atomic uint32_t references;
  bool noted; /* of the collection in progress */
  bool more;  /* it has arguments beyond those that are noted */
  uint32_t shown_count; /* 0 of a graph */
  vyc_shown *shown;
  char text[];
} vyc_name;

/* Who has something in flight. */
typedef struct vyc_flight_kind {
  const char *what; /* it is called */
  /* Whether that is known to have ended; without a driver call and without a wait, from whichever
   * thread, until the flight is given back. */
  bool (*has_ended)(void *owner);
} vyc_flight_kind;

/* What a submission, or a call of a worker, has in flight; never freed before the context, so that
 * it is found without a lock. */
typedef struct vyc_flight {
  struct vyc_flight *next;
  _Atomic bool taken;
  const vyc_flight_kind *kind; /* of the owner; both are set before there is a note */
  void *owner;
  vyc_entry entry;
} vyc_flight;

typedef struct vyc_traces vyc_traces;

typedef struct vyc_history {
  _Atomic uint32_t next[VYC_RINGS]; /* launches so far */
  _Atomic uint32_t ended[VYC_RINGS]; /* so many of them are known to have ended */
  _Atomic uint64_t handles[VYC_RINGS]; /* the CUstream */
  _Atomic uint32_t rings; /* past the last that was ever in use */
  vyc_entry (*entries)[VYC_HISTORY]; /* VYC_RINGS of them */
  _Atomic(vyc_traces *) traces; /* NULL: nobody traces */
  uint32_t fork_generation; /* of the process that made it */
  void *memory; /* that has the entries */
  _Atomic(vyc_flight *) flights;
  _Atomic(vyc_name *) retired; /* names that only notes may have */
  _Atomic uint32_t retired_count, retired_limit;
  _Atomic uint32_t readers; /* threads that follow notes */
  _Atomic bool collecting;
} vyc_history;

/* ---- kernel_name.c ---- */

/* Held by the caller; VYC_E_MEMORY, recorded. `desc`: of the prepared kernel that is called so, or
 * NULL. */
vyc_status vyc__name_make(vyc_name **name_out, const char *text, const vyc_prepared_desc *desc);
static inline vyc_name *vyc__name_retain(vyc_name *name) {
  atomic_fetch_add_explicit(&name->references, 1, memory_order_relaxed);
  return name;
}
/* No launch is noted with it any more; NULL is allowed. */
void vyc__name_release(vyc_history *history, vyc_name *name);
/* Nothing is left of the context but notes. */
void vyc__names_free(vyc_history *history);
/* Between them what notes point to stays. */
void vyc__notes_begin(vyc_history *history);
void vyc__notes_end(vyc_history *history);

static inline vyc_note vyc__note_make(const void *pointer, uint32_t origin) {
  return (vyc_note)(uintptr_t)pointer | (vyc_note)origin << VYC_NOTE_SHIFT;
}
static inline const void *vyc__note_pointer(vyc_note note) {
  return (const void *)(uintptr_t)(note & ((UINT64_C(1) << VYC_NOTE_SHIFT) - 1));
}
static inline uint32_t vyc__note_origin(vyc_note note) {
  return (uint32_t)(note >> VYC_NOTE_SHIFT);
}
/* Addresses of a Linux process fit, unless it asked for others or memory is tagged. */
static inline bool vyc__note_fits(const void *pointer) {
  return (uintptr_t)pointer >> VYC_NOTE_SHIFT == 0;
}
/* What to note launches with: NULL where the address does not fit. */
static inline const vyc_name *vyc__noted_as(const vyc_name *name) {
  return vyc__note_fits(name) ? name : NULL;
}

/* ---- argument_text.c ---- */

/* Types are known ones. */
vyc_status vyc__labels_check(const vyc_prepared_desc *desc);
/* A number of this VYC_TYPE_... and of `size` bytes, as the text shows it; 0: in hexadecimal. */
void vyc__scalar_text(char *to, size_t bytes, uint32_t type, uint32_t size, uint64_t bits);
/* What is known of the arguments, one allocation, for free(). VYC_E_MEMORY, recorded. */
vyc_status vyc__labels_make(vyc_shown **shown_out, uint32_t *count_out, bool *more_out,
                            const vyc_prepared_desc *desc);
/* " with x=float32[256] at 0x7f0a00000000, a=2.5"; empty: there are none to tell. */
void vyc__labels_text(char *to, size_t bytes, const vyc_name *name, const uint64_t *words);
typedef struct vyc_array_text {
  char text[80];
} vyc_array_text;
/* "`x`", the name of an array; "array 2", from 0 and without scalars, where it has none. */
vyc_array_text vyc__array_text(const vyc_name *name, uint32_t binding);

/* ---- call_site.c ---- */

/* The text of an origin; NULL: there is no such origin. */
const char *vyc__origin_text(uint32_t origin);

/* ---- launch_log.c ---- */

/* VYC_E_MEMORY, recorded. */
vyc_status vyc__history_init(vyc_history *history);
/* `text` is what the thread's next launch is called; NULL: nothing is. VYC_E_MEMORY, recorded. */
vyc_status vyc__trace(vyc_history *history, const char *text);
/* The text that the thread gave for its next launch, else name and origin. */
vyc_note vyc__traced(vyc_history *history, const vyc_name *name, uint32_t origin);
/* Where launches on the stream of a slot are written down. */
static inline uint32_t vyc__ring(uint32_t slot) {
  return slot < VYC_NEAR_SLOTS ? slot : VYC_RING_FAR;
}
/* A stream begins in the slot. */
void vyc__history_stream(vyc_history *history, uint32_t slot, uint64_t handle);
/* NULL: out of host memory, and recorded. */
vyc_flight *vyc__flight_take(vyc_history *history, const vyc_flight_kind *kind, void *owner);
/* Nobody asks the owner any more when this returns. */
void vyc__flight_give(vyc_history *history, vyc_flight *flight);
/* Before a wait for one slot, and for all; after it, when it has succeeded. */
typedef struct vyc_progress {
  uint32_t rings;
  uint32_t next[VYC_RINGS];
} vyc_progress;
void vyc__progress_begin(vyc_history *history, vyc_progress *progress);
void vyc__progress_end(vyc_history *history, const vyc_progress *progress);
/* What is not known to have ended, newest first, a line each; the number of lines. */
uint32_t vyc__history_text(vyc_history *history, char *text_out, size_t bytes);
void vyc__history_free(vyc_history *history);

/* ---- the warm way: no lock and no atomic exchange ---- */

static inline vyc_note vyc__note_of(vyc_history *history, const vyc_name *name, uint32_t origin) {
  const void *traces = atomic_load_explicit(&history->traces, memory_order_relaxed);
  return VYC_LIKELY(traces == NULL) ? vyc__note_make(name, origin)
                                    : vyc__traced(history, name, origin);
}

static inline vyc_entry *vyc__entry_of(vyc_history *history, uint32_t ring, uint32_t number) {
  return &history->entries[ring][number % VYC_HISTORY];
}

/* Odd, so no word's bits are lost; words that change alike, such as two addresses by one distance,
 * do not make up for each other as they do in an exclusive or. */
#define VYC_CHECK_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* The check so far, with another word. */
static inline uint64_t vyc__check_add(uint64_t check, uint64_t word) {
  return check * VYC_CHECK_FACTOR + word;
}

static inline uint64_t vyc__entry_put(vyc_entry *entry, uint64_t check, uint32_t i,
                                      const uint8_t *block) {
  uint64_t word;
  memcpy(&word, block + 8 * i, sizeof word);
  atomic_store_explicit(&entry->words[i], word, memory_order_relaxed);
  return vyc__check_add(check, word);
}

/* `block` has VYC_NOTED_BYTES at least. Written out, because loops here are not unrolled. */
static inline void vyc__entry_write(vyc_entry *entry, vyc_note note, const uint8_t *block) {
  _Static_assert(VYC_NOTED_WORDS == 6, "each word is put");
  uint64_t check = note;
  check = vyc__entry_put(entry, check, 0, block);
  check = vyc__entry_put(entry, check, 1, block);
  check = vyc__entry_put(entry, check, 2, block);
  check = vyc__entry_put(entry, check, 3, block);
  check = vyc__entry_put(entry, check, 4, block);
  check = vyc__entry_put(entry, check, 5, block);
  atomic_store_explicit(&entry->check, check, memory_order_relaxed);
  atomic_store_explicit(&entry->note, note, memory_order_release);
}

static inline vyc_note vyc__entry_note(const vyc_entry *entry) {
  return atomic_load_explicit(&entry->note, memory_order_relaxed);
}

/* Without arguments: whatever words are there, they are not this note's. */
static inline void vyc__entry_write_name(vyc_entry *entry, vyc_note note) {
  uint64_t check = note;
  for (uint32_t i = 0; i < VYC_NOTED_WORDS; i++)
    check = vyc__check_add(check, atomic_load_explicit(&entry->words[i], memory_order_relaxed));
  atomic_store_explicit(&entry->check, ~check, memory_order_relaxed);
  atomic_store_explicit(&entry->note, note, memory_order_release);
}

/* Right before a launch on a stream that has the ring; origin 0: nobody said where from. */
static inline void vyc__note_in(vyc_history *history, uint32_t ring, const vyc_name *name,
                                uint32_t origin, const uint8_t *block) {
  const uint32_t at = atomic_load_explicit(&history->next[ring], memory_order_relaxed);
  vyc__entry_write(vyc__entry_of(history, ring, at), vyc__note_of(history, name, origin), block);
  atomic_store_explicit(&history->next[ring], at + 1, memory_order_relaxed);
}

static inline void vyc__note_launch(vyc_history *history, uint32_t slot, const vyc_name *name,
                                    uint32_t origin, const uint8_t *block) {
  vyc__note_in(history, vyc__ring(slot), name, origin, block);
}

static inline void vyc__note_graph(vyc_history *history, uint32_t slot, const vyc_name *name,
                                   uint32_t origin) {
  const uint32_t ring = vyc__ring(slot);
  const uint32_t at = atomic_load_explicit(&history->next[ring], memory_order_relaxed);
  vyc__entry_write_name(vyc__entry_of(history, ring, at), vyc__note_of(history, name, origin));
  atomic_store_explicit(&history->next[ring], at + 1, memory_order_relaxed);
}

#endif
