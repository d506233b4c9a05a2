/* The last launches, for the message of a fault that comes out long after the launch that made it.
 *
 * Streams are written down by their slots, in rings, calls with host arrays by their lanes. A
 * launch fills one cache line, and a wait that succeeded says which launches are out of the
 * question. Reading takes no lock, so every failure may do it; two threads that launch on one
 * stream at the same time may lose one of the two notes. */
#ifndef VYC_HISTORY_H
#define VYC_HISTORY_H

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
  _Atomic uint64_t check; /* the exclusive or of the note and the words */
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

/* What a lane has in flight; never freed before the context, so that it is found without a lock. */
typedef struct vyc_flight {
  struct vyc_flight *next;
  _Atomic bool taken;
  vyc_entry entry;
} vyc_flight;

typedef struct vyc_traces vyc_traces;

typedef struct vyc_history {
  _Atomic uint32_t next[VYC_RINGS]; /* launches so far */
  _Atomic uint32_t settled[VYC_RINGS]; /* so many of them are known to have ended */
  _Atomic uint64_t handles[VYC_RINGS]; /* the CUstream */
  _Atomic uint32_t rings; /* past the last that was ever in use */
  vyc_entry (*entries)[VYC_HISTORY]; /* VYC_RINGS of them */
  _Atomic(vyc_traces *) traces; /* NULL: nobody traces */
  uint32_t fork_generation; /* of the process that made it */
  void *memory;                      /* that has the entries */
  _Atomic(vyc_flight *) flights;
  _Atomic(vyc_name *) retired;  /* names that only notes may have */
  _Atomic uint32_t retired_count, retired_limit;
  _Atomic uint32_t readers; /* threads that follow notes */
  _Atomic bool collecting;
} vyc_history;

/* ---- names.c ---- */

/* Held by the caller; VYC_E_MEMORY, recorded. `desc`: of the plan that is called so, or NULL. */
vyc_status vyc__name_make(vyc_name **name_out, const char *text, const vyc_plan_desc *desc);
static inline vyc_name *vyc__name_retain(vyc_name *name) {
  atomic_fetch_add_explicit(&name->references, 1, memory_order_relaxed);
  return name;
}
/* No launch is noted with it any more; NULL is allowed. */
void vyc__name_release(vyc_history *history, vyc_name *name);
/* Nothing is in the context but notes. */
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

/* ---- labels.c ---- */

/* Types are known ones. */
vyc_status vyc__labels_check(const vyc_plan_desc *desc);
/* What is noted of the arguments, one allocation, for free(). VYC_E_MEMORY, recorded. */
vyc_status vyc__labels_make(vyc_shown **shown_out, uint32_t *count_out, bool *more_out,
                            const vyc_plan_desc *desc);
/* " with x=float32[256] at 0x7f0a00000000, a=2.5"; empty: there are none to tell. */
void vyc__labels_text(char *to, size_t bytes, const vyc_name *name, const uint64_t *words);

/* ---- origin.c ---- */

/* The text of an origin; NULL: there is no such origin. */
const char *vyc__origin_text(uint32_t origin);

/* ---- history.c ---- */

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
vyc_flight *vyc__flight_take(vyc_history *history);
void vyc__flight_give(vyc_flight *flight);
/* Before a wait for one slot, and for all; after it, when it has succeeded. */
typedef struct vyc_settling {
  uint32_t rings;
  uint32_t next[VYC_RINGS];
} vyc_settling;
void vyc__settling_begin(vyc_history *history, vyc_settling *settling);
void vyc__settling_end(vyc_history *history, const vyc_settling *settling);
/* What is not known to have ended, newest first, a line each; the number of lines. */
uint32_t vyc__history_text(vyc_history *history, char *text_out, size_t bytes);
void vyc__history_free(vyc_history *history);

#endif
