/* Waits for work: their pace, what they wait for, and how long releases do. */
#ifndef VYC_WAITING_H
#define VYC_WAITING_H

#include "context.h"

/* ---- backoff.c ---- */

/* The pace of one wait. */
typedef struct vyc_pace {
  uint64_t begin_ns, waited_ns;
  uint64_t spin_ns; /* so long without a sleep */
  int64_t timeout_ns; /* negative: none */
} vyc_pace;

vyc_pace vyc__pace_begin(int64_t timeout_ns, uint64_t spin_ns);
/* Before another check: VYC_OK, after a sleep or at once; VYC_NOT_READY at the time limit, after a
 * check that began behind it, because the process may have been stopped while the work ended;
 * VYC_E_UNAVAILABLE if a close has abandoned the work. */
vyc_status vyc__pace(const vyc_context *context, vyc_pace *pace);
/* Waits for work check continuously for this long, then sleep between checks. A sleep takes 70 us
 * or more, with the timer's slack; this keeps it under 2 % of a wait. */
#define VYC_SPIN_NS UINT64_C(4000000)
/* Between two checks without a sleep: gives others the core if the wait has taken long. */
void vyc__yield_after(const vyc_context *context, uint64_t waited_ns);
static inline bool vyc__pace_sleeps(const vyc_pace *pace) {
  return pace->waited_ns >= pace->spin_ns;
}
/* The remaining time; negative: no limit. */
int64_t vyc__pace_left(const vyc_pace *pace);
/* The result of a query of a stream or an event: VYC_OK, VYC_NOT_READY or the recorded failure. */
vyc_status vyc__ready(vyc_context *context, CUresult result, const char *operation);
vyc_status vyc__event_wait(vyc_context *context, CUevent event, vyc_pace *pace);

/* ---- synchronize.c ---- */

/* Wait for all work that was submitted through the context, or to one of its streams, before this
 * call; VYC_NOT_READY at the time limit. Negative timeout: none. */
vyc_status vyc__work_wait(vyc_context *context, int64_t timeout_ns);
vyc_status vyc__stream_finish(vyc_context *context, CUstream stream, int64_t timeout_ns);
/* The same for the streams in some slots, one after the other. */
vyc_status vyc__slots_finish(vyc_context *context, uint64_t slots, const vyc_far_set *far,
                             int64_t timeout_ns);
/* Like the first; also VYC_NOT_READY for work that cannot be waited for. */
vyc_status vyc__own_wait(vyc_context *context, int64_t timeout_ns);
/* If kernels print, wait for the main stream too: lines are shown by a wait of the driver for that
 * stream, which has no time limit. VYC_NOT_READY at the time limit of `pace`. */
vyc_status vyc__prints_await(vyc_context *context, const vyc_pace *pace);
/* The calls that workers were given up to now. What is left of the time is for everything else. */
vyc_status vyc__workers_await(vyc_context *context, int64_t *timeout_ns);
/* One look at all of it. */
vyc_status vyc__work_look(vyc_context *context);
/* Check until there is none; work that is submitted in the meantime is waited for too. */
vyc_status vyc__work_look_on(vyc_context *context, vyc_pace *pace);
/* The same for one stream, and by an event after its work. */
vyc_status vyc__stream_finish_by_looks(vyc_context *context, CUstream stream, vyc_pace *pace);
vyc_status vyc__stream_finish_by_event(vyc_context *context, CUstream stream, vyc_pace *pace);

/* An event on each stream that has work. */
typedef struct vyc_work_events {
  CUevent *events;
  uint32_t count, room;
} vyc_work_events;

/* `events` must be empty; after a failure it is empty again. */
vyc_status vyc__work_events_set(vyc_context *context, vyc_work_events *events);
/* The same on every stream, without a query whether it has work. */
vyc_status vyc__work_events_set_all(vyc_context *context, vyc_work_events *events);
vyc_status vyc__work_events_wait(vyc_context *context, const vyc_work_events *events,
                                 vyc_pace *pace);
void vyc__work_events_free(vyc_context *context, vyc_work_events *events);

/* ---- abandoned.c ---- */

/* The context is never freed: its work may run forever, or (vyc__left_keep) the work of another
 * context. */
void vyc__abandoned_keep(vyc_context *context);
void vyc__left_keep(vyc_context *context);
/* Whether no abandoned work of other contexts on the device is running; checked before a driver
 * call that waits for every kernel of the device. */
bool vyc__is_alone(vyc_context *context);

/* ---- patience.c ---- */

/* How long a release waits for work. */
int64_t vyc__patience(vyc_context *context);
/* Both are for releases, before a driver call that waits for kernels: they wait at most for the
 * context's time limit, or check once if it has run out before. False: something may run forever,
 * and what it uses is leaked. The error record is unchanged. */
bool vyc__await_end(vyc_context *context);
bool vyc__stream_await_end(vyc_context *context, CUstream stream);
/* The same after a wait that ended with `status`. The caller keeps the error record. */
bool vyc__await_end_after(vyc_context *context, vyc_status status);

#endif
