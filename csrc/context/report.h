/* Failed checks of kernels: where they are written down, and the waits that report them. */
#ifndef VYC_REPORT_H
#define VYC_REPORT_H

#include "context.h"

#define VYC_REPORT_NONE UINT64_MAX
#define VYC_REPORT_BYTES 32u

/* ---- report.c ---- */

/* The record of failed checks of a kernel in one place. */
struct vyc_report {
  vyc_report *next, *previous; /* of the context; guarded by children_lock, as the rest */
  uint64_t *cell; /* what kernels write to: key, index, lock, reserved */
  void (*give_back)(vyc_context *context, vyc_report *report); /* the memory of the cell */
  vyc_slots used; /* whose work may write to it */
  bool is_of_stream; /* launches on one stream alone, and on what gets its slot next */
  bool is_copied_after; /* what is in the cell is reported by waits for any buffer, too */
  bool is_kept; /* of a stream that has ended: */
  uint32_t end; /* which of context->reports_ended was its own; 0: it lives */
  uint64_t kept_report, kept_index;
  uint64_t tag;
  vyc_name *called; /* held */
};

/* Preset the cell: no check has failed. */
void vyc__report_reset(uint64_t *cell);
/* Waits look at the report from here on. */
void vyc__report_add(vyc_context *context, vyc_report *report);
/* Free one that was not added, or is over; free() takes it. */
void vyc__report_free(vyc_context *context, vyc_report *report);
/* Caller holds children_lock, and counts the end before it lets go. No launch follows; what the
 * earlier ones write is reported by waits for their streams or for the context. */
void vyc__report_end(vyc_context *context, vyc_report *report);
static inline void vyc__report_count_end(vyc_context *context) {
  atomic_fetch_add(&context->reports_ended, 1);
}
/* Look for an assertion that asynchronous launches reported, on whatever stream, on the one that
 * has the slot, or on any of several. Each is reported once. `ended`: vyc__reports_ended before the
 * wait; 0: not all their work was waited for. */
vyc_status vyc__check_reports(vyc_context *context, uint32_t ended);
vyc_status vyc__check_reports_of(vyc_context *context, uint32_t slot, uint32_t ended);
vyc_status vyc__check_reports_on(vyc_context *context, const vyc_slots *slots);
/* A copy in call order has waited for the work of the slot, and takes its marks from a buffer:
 * later waits for the buffer no longer wait for that stream, but still report its failures. */
void vyc__reports_copied_after(vyc_context *context, uint32_t slot);
static inline uint32_t vyc__reports_ended(vyc_context *context) {
  return atomic_load(&context->reports_ended);
}
/* Some kernel prints. */
static inline bool vyc__has_prints(const vyc_context *context) {
  return atomic_load_explicit(&context->prints, memory_order_relaxed);
}
/* ---- broken.c ---- */

/* From here on waits fail with VYC_E_COMMUNICATION and the message, until the last communicator has
 * ended. */
vyc_status vyc__context_break(vyc_context *context, const char *message);
vyc_status vyc__context_fail_broken(vyc_context *context, const char *operation);
void vyc__communicator_begin(vyc_context *context);
void vyc__communicator_end(vyc_context *context);
void vyc__reasons_free(vyc_context *context);

/* ---- both ---- */

/* There are reports, or lines that kernels printed. */
static inline bool vyc__has_reports(const vyc_context *context) {
  return atomic_load_explicit(&context->report_count, memory_order_relaxed) != 0 ||
         vyc__has_prints(context);
}
/* Kernels whose work on the stream has ended may have printed: the driver keeps the lines until one
 * of its own waits, and waits of this library poll. */
vyc_status vyc__prints_show(vyc_context *context, CUstream stream);
/* The work of the stream that has the slot has ended, and another one may get it. */
void vyc__slot_reports_end(vyc_context *context, uint32_t slot);
/* All work has ended: the memory of records goes to the pool. */
void vyc__reports_close(vyc_context *context);
/* The rest, where no close could do that. */
void vyc__reports_free(vyc_context *context);

#endif
