/* Tickets: what a caller has of a run for which no one has waited yet. */
#ifndef VYC_SUBMISSION_TICKET_H
#define VYC_SUBMISSION_TICKET_H

#include "kernel/room.h"

/* The functions of tickets of one kind of runs. */
typedef struct vyc_ticket_kind {
  /* Check once, or wait; false: another thread is doing so. Completes the ticket if the run has
   * ended. The thread has entered the context with `scope`. */
  bool (*look)(vyc_ticket *ticket, int64_t timeout_ns, vyc_scope *scope);
  /* Nothing may write to the result memory once this returns. */
  void (*abandon)(vyc_ticket *ticket);
  /* What each holder has, so that a look finds the run and its prepared kernel. */
  void (*hold)(const vyc_ticket *ticket);
  void (*let_go)(const vyc_ticket *ticket);
  bool looks_quietly; /* it makes the context current where it needs that */
} vyc_ticket_kind;

struct vyc_ticket {
  _Atomic uint32_t references; /* the holder, and the run until it has finished */
  _Atomic bool done;
  const vyc_ticket_kind *kind;
  void *run; /* of that kind */
  vyc_prepared *prepared;
  bool timed;
  uint64_t begin_ns, submitted_ns; /* of a timed run */
  vyc_timing timing; /* of a timed run; valid once done */
  vyc_error error; /* status VYC_OK or what the run failed with; valid once done; the last member */
};

/* NULL: out of memory, which is recorded. free() undoes it. */
vyc_ticket *vyc__ticket_alloc(void);
/* Two references: that of the run and that of the caller. */
void vyc__ticket_begin(vyc_ticket *ticket, const vyc_ticket_kind *kind, void *run,
                       vyc_prepared *prepared);
/* The run has ended with this status; its reference is dropped. */
void vyc__ticket_end(vyc_ticket *ticket, vyc_status status);
static inline bool vyc__ticket_is_done(const vyc_ticket *ticket) {
  return atomic_load_explicit(&ticket->done, memory_order_acquire);
}

#endif
