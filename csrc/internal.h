/* Struct bodies and small helpers shared by the .c files; no public name is declared here.
 *
 * The locks are leaves: none is taken while another is held, and none is held across a driver call
 * that can block. */
#ifndef VYC_INTERNAL_H
#define VYC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/room.h"
#include "telemetry/room.h"
#include "embedding.h"

#define VYC_ALIGN 256u         /* bytes: every block and slab part begins on such a boundary */
#define VYC_MAX_BINDINGS 256
#define VYC_REPORT_NONE UINT64_MAX
#define VYC_REPORT_BYTES 32u

typedef struct vyc_child vyc_child;
typedef struct vyc_report vyc_report;
typedef struct vyc_hidden_stream vyc_hidden_stream;

/* What the children of one kind do. */
typedef struct vyc_child_kind {
  void (*destroy)(vyc_child *child); /* gives the driver's resources back */
  void (*finish)(vyc_child *child);  /* frees the memory; NULL: free() */
  /* Some thread is launching it without having entered the context; NULL: nobody does. */
  bool (*is_claimed)(const vyc_child *child);
  /* Destroy and free one that has leaked, now that nothing is in flight; NULL: none does. */
  void (*reap)(vyc_child *child);
} vyc_child_kind;

/* What a context closes: the first member of every object that holds something of the driver. */
struct vyc_child {
  struct vyc_child *next, *previous;
  struct vyc_child *closing; /* list of a close in progress */
  const vyc_child_kind *kind;
  _Atomic bool destroyed; /* destroy has run or runs; it runs once */
  bool has_leaked; /* says destroy: work that had not ended uses it, and a close reaps it */
  bool is_warm; /* destroy makes no driver call that a capture forbids, or relaxes for it */
  /* From here on what launches look at. */
  vyc_context *context;
  _Atomic uint32_t references;
};



/* Threads inside the context, counted so that a close can wait for them. A cache line each: two
 * threads seldom share one. */
typedef struct vyc_gate {
  _Atomic uint32_t inside;
  uint32_t padding[15];
} vyc_gate;
#define VYC_GATES 16

/* How far the device is behind on one stream; see queue_depth.c. */
typedef struct vyc_depth {
  CUevent events[2]; /* guarded by `claimed`, as is `turn` */
  uint32_t turn;
  _Atomic bool claimed;
} vyc_depth;

#define VYC_KEPT_EVENTS 8u

/* What lower rooms have upper ones do. */
typedef struct vyc_above {
  void (*end)(vyc_context *context); /* the last reference is gone */
  void (*empty_lanes)(vyc_context *context); /* see lane.c */
  bool (*lanes_destroy)(vyc_plan *plan);
  void (*lanes_free)(vyc_plan *plan);
} vyc_above;

/* Upper rooms have more for each context: their structs begin with this one, or with that of the
 * room below them, so that a context is allocated once, and found without a pointer. */
struct vyc_context {
  /* What every launch reads and few write, together. */
  vyc_driver *driver;
  CUcontext handle;
  CUstream main;
  const vyc_above *above;
  uint32_t fork_generation; /* of the process that opened it */
  _Atomic bool closed;
  _Atomic bool lost;
  _Atomic uint32_t exec_clock; /* launches that found no room for an exec */
  _Atomic uint32_t marks_taken; /* how often, out of a buffer; see vyc__buffer_wait */
  vyc_gate gates[VYC_GATES]; /* apart from what is written often */
  CUdevice device;
  _Atomic uint32_t references;
  _Atomic uint32_t primary_holders; /* see vyc__primary_retain */
  unsigned long long id; /* of the CUcontext; a handle may come to name another */
  _Atomic bool destroyed; /* the CUcontext is gone: lost, and no driver call is made any more */
  _Atomic int lost_result; /* CUresult of the first sticky failure, and the call that gave it */
  _Atomic(const char *) lost_operation;
  _Atomic uint32_t report_count;
  _Atomic uint32_t reports_ended; /* times that plans or graphs with records ended */
  pthread_mutex_t children_lock;
  vyc_child *children; /* newest first, so a plan goes before its module */
  uint32_t releasing; /* children whose last reference is gone and whose destroy still runs */
  vyc_child *leaked; /* released with work in flight that had not ended; as above */
  vyc_report *reports; /* guarded by children_lock */
  _Atomic bool gone; /* no driver call is made any more: everything was freed, or given up */
  vyc_context *next_abandoned; /* of the process; set once */
  _Atomic bool abandoned; /* a close has given it up: its plans and streams stay */
  _Atomic bool hung; /* work had not ended when a release ran out of patience */
  _Atomic bool strays; /* work is in flight that no stream of ours is ordered behind: nothing that
                          other streams used is reused or freed, and a close gives up */
  _Atomic int64_t patience_ns; /* how long a release or close waits for work */
  vyc_depth depth; /* of call order */
  _Atomic(vyc_event *) kept_events[VYC_KEPT_EVENTS]; /* held by nobody; see event.c */
  pthread_mutex_t slots_lock;
  vyc_stream *slots[VYC_NEAR_SLOTS]; /* by number; main stays NULL */
  /* When the stream of a slot began, counted in streams that took the slot of another: written
   * before anybody knows that stream. 0: nobody had the slot before. */
  uint32_t epochs[VYC_NEAR_SLOTS];
  _Atomic uint32_t epoch; /* the latest; changed under slots_lock */
  uint64_t begun; /* near slots that a stream has had; guarded by slots_lock */
  vyc_far far_slots; /* of vyc_far_slot */
  vyc_stream *streams; /* all of them; guarded by slots_lock */
  vyc_hidden_stream *hidden_streams; /* likewise */
  vyc_host host; /* set once */
  vyc_counters counters;
  vyc_history history;
  vyc_caps caps;
};

/* What is in `slots`, `epochs` and `begun` of a near slot. */
typedef struct vyc_far_slot {
  vyc_stream *stream;
  uint32_t epoch;
  bool begun;
} vyc_far_slot;

/* A stream that callers have no handle of. */
struct vyc_hidden_stream {
  vyc_hidden_stream *next, *previous; /* of the context; guarded by slots_lock, as the rest */
  uint32_t holders; /* who look at it */
  bool listed;
  CUstream handle;
  const _Atomic int *state; /* 0: nothing is in flight on it */
};

struct vyc_stream {
  vyc_child child;
  vyc_stream *next, *previous; /* of the context */
  bool listed; /* among those; guarded by slots_lock, as the next */
  CUstream handle; /* this library's own, in every case */
  CUstream target; /* where work goes: `handle`, or the stream of somebody else that `handle` is
                      ordered behind after each piece of work given to it */
  uint32_t slot;
  vyc_depth depth;
  CUevent scratch; /* of an adopted stream: for one record and one wait at a time */
  vyc_claim ordering; /* of who uses `scratch` */
  _Atomic uint32_t holders; /* who found it by its slot or listed, and is in the middle of that */
};

/* Where one launch goes. */
typedef struct vyc_place {
  CUstream stream;
  vyc_stream *object; /* NULL: the context's own */
  uint32_t slot;
  bool captured; /* somebody else is capturing the stream */
} vyc_place;

struct vyc_event {
  vyc_child child;
  CUevent handle;
  uint32_t slot; /* of the stream */
  bool is_foreign; /* recorded on an adopted stream */
};

struct vyc_module {
  vyc_child child;
  CUmodule handle;
};

#include "marks.h"
#include "pool.h"

/* Page-locked memory that small copies go by; see ferry.c. */
#define VYC_FERRY_PARTS 4u
typedef struct vyc_ferry {
  vyc_claim claim;      /* guards the rest */
  struct vyc_block *block; /* NULL: none was needed yet */
  uint32_t part;        /* copies are given room in this one */
  uint64_t used;        /* bytes of it */
  CUevent events[VYC_FERRY_PARTS]; /* behind the copies of each part that is full; NULL: not made */
  bool busy[VYC_FERRY_PARTS]; /* full, and not known to have been passed */
} vyc_ferry;

/* A context with its memory. */
typedef struct vyc_memory_context {
  vyc_context context;
  vyc_pool device_pool, pinned_pool;
  vyc_ferry ferry;
} vyc_memory_context;

static inline vyc_pool *vyc__device_pool(vyc_context *context) {
  return &((vyc_memory_context *)context)->device_pool;
}
static inline vyc_pool *vyc__pinned_pool(vyc_context *context) {
  return &((vyc_memory_context *)context)->pinned_pool;
}
static inline vyc_ferry *vyc__ferry(vyc_context *context) {
  return &((vyc_memory_context *)context)->ferry;
}

/* ---- memory.c ---- */

void vyc__memory_begin(vyc_context *context);
/* Blocks may be on their way back, which no close of a pool must overtake. */
bool vyc__memory_is_giving(vyc_context *context);
/* The device is idle, nobody is inside: as vyc__pool_close. */
void vyc__memory_close(vyc_context *context);
/* The same where the CUcontext was destroyed. */
void vyc__memory_forget(vyc_context *context);
/* After that: frees the records. */
void vyc__memory_end(vyc_context *context);

/* ---- memory_stats.c ---- */

/* The pools as they are; blocks whose use has ended are looked for where the driver can be asked.
 */
vyc_memory_stats vyc__memory_read(vyc_context *context);

/* ---- captured_hold.c ---- */

typedef struct vyc_hold vyc_hold;

/* Have a graph that is captured, and all that is made of it, hold the child. False: the driver
 * cannot. */
bool vyc__hold_give(vyc_hold **hold_out, vyc_child *child, CUgraph into);
/* In a close: the child is no longer held, whatever graphs there are. The caller holds it. NULL is
 * allowed, as below. */
void vyc__hold_take_back(vyc_hold *hold);
/* The memory of the child is about to be freed. */
void vyc__hold_forget(vyc_hold *hold);
/* Release what nothing can launch any more: of a context, or with NULL of all. False: there was
 * none. For a caller that has claimed nothing and is not inside a context, because owners of
 * adopted memory are told. The error record stays as it was. */
bool vyc__holds_reap(const vyc_context *context);

/* ---- context.c ---- */

typedef struct vyc_scope {
  CUcontext saved;
  bool changed;
  CUstreamCaptureMode mode; /* that the thread's is to come back to; RELAXED: nothing to do */
  vyc_gate *gate; /* NULL for releases */
} vyc_scope;

/* Check that the context can be used, make it current and keep it open; vyc__leave undoes that.
 * Driver calls that a capture of somebody else forbids are allowed until then. */
vyc_status vyc__enter(vyc_context *context, vyc_scope *scope);
/* The same, but the thread's capture mode stays as it was found: for what makes no such call. */
vyc_status vyc__enter_as_found(vyc_context *context, vyc_scope *scope);
/* For warm paths, which relax where they make such a call, and ask of a host's context nothing. */
vyc_status vyc__enter_warm(vyc_context *context, vyc_scope *scope);
void vyc__leave(const vyc_context *context, const vyc_scope *scope);
/* Allow what a capture of somebody else forbids until vyc__leave. */
void vyc__scope_relax(const vyc_context *context, vyc_scope *scope);
/* For releases: current when the driver may be called at all, whatever the context's state. False
 * in a forked child, and when the CUcontext was destroyed by somebody else. */
bool vyc__enter_release(vyc_context *context, vyc_scope *scope);
/* This process is a fork of the one that opened the context. */
static inline bool vyc__is_forked(const vyc_context *context) {
  return context->fork_generation != vyc__fork_count();
}
/* VYC_OK, or why the context cannot be used; for functions that make no driver call. */
vyc_status vyc__check_usable(vyc_context *context);
/* Open, not lost, not of a parent process. */
static inline bool vyc__is_usable(const vyc_context *context) {
  return VYC_LIKELY(!atomic_load(&context->closed) &&
                    !atomic_load_explicit(&context->lost, memory_order_acquire) &&
                    !vyc__is_forked(context));
}

/* CUresult of a call into the right status; notes a lost device. */
vyc_status vyc__driver_failed(vyc_context *context, CUresult result, const char *operation);

/* A driver call of a context: VYC_OK or the recorded failure. */
#define VYC_CU(ctx, function, ...)                                                                 \
  (VYC_LIKELY((vyc__result = (ctx)->driver->function(__VA_ARGS__)) == CUDA_SUCCESS)                \
       ? VYC_OK                                                                                    \
       : vyc__driver_failed((ctx), vyc__result, #function))
/* The same for a function without arguments. */
#define VYC_CU0(ctx, function)                                                                     \
  (VYC_LIKELY((vyc__result = (ctx)->driver->function()) == CUDA_SUCCESS)                           \
       ? VYC_OK                                                                                    \
       : vyc__driver_failed((ctx), vyc__result, #function))
/* Declares what VYC_CU writes to. */
#define VYC_CU_RESULT CUresult vyc__result

vyc_context *vyc__context_retain(vyc_context *context);
void vyc__context_release(vyc_context *context);
/* vyc_above.end: close it, and free what it has. */
void vyc__context_end(vyc_context *context);
/* The last reference to a context closes it, which takes its time. */
static inline bool vyc__is_last_of_context(const vyc_context *context) {
  return atomic_load_explicit(&context->references, memory_order_relaxed) == 1;
}
/* The primary context is held by the open vyc_context and by memory that outlives its close. */
void vyc__primary_retain(vyc_context *context);
void vyc__primary_release(vyc_context *context);

/* ---- backoff.c ---- */

/* The pace of one wait. */
typedef struct vyc_pace {
  uint64_t begin_ns, waited_ns;
  uint64_t spin_ns; /* so long without a sleep */
  int64_t timeout_ns; /* negative: none */
} vyc_pace;

vyc_pace vyc__pace_begin(int64_t timeout_ns, uint64_t spin_ns);
/* Before another look: VYC_OK, after a sleep or at once; VYC_NOT_READY when time is out;
 * VYC_E_UNAVAILABLE when a close has given up what is waited for. */
vyc_status vyc__pace(const vyc_context *context, vyc_pace *pace);
/* Waits for work look at once so long, then sleep between looks. A sleep takes 70 us or more, with
 * the timer's slack: this keeps it under 2 % of a wait. */
#define VYC_SPIN_NS UINT64_C(4000000)
static inline bool vyc__pace_sleeps(const vyc_pace *pace) {
  return pace->waited_ns >= pace->spin_ns;
}
/* What is left of the time; negative: no limit. */
int64_t vyc__pace_left(const vyc_pace *pace);
/* What a query of a stream or an event says: VYC_OK, VYC_NOT_READY or the recorded failure. */
vyc_status vyc__ready(vyc_context *context, CUresult result, const char *operation);
vyc_status vyc__event_wait(vyc_context *context, CUevent event, vyc_pace *pace);

/* ---- synchronize.c ---- */

/* Wait for all work given through the context, or to one of its streams, before this call; with
 * VYC_NOT_READY when time is out. Negative timeout: none. */
vyc_status vyc__work_wait(vyc_context *context, int64_t timeout_ns);
vyc_status vyc__stream_finish(vyc_context *context, CUstream stream, int64_t timeout_ns);
/* The same for the streams in some slots, one after the other. */
vyc_status vyc__slots_finish(vyc_context *context, uint64_t slots, const vyc_far_set *far,
                             int64_t timeout_ns);
/* The first, VYC_NOT_READY also for work that nobody can wait for. */
vyc_status vyc__own_wait(vyc_context *context, int64_t timeout_ns);
/* One look at all of it. */
vyc_status vyc__work_look(vyc_context *context);
/* Looks until there is none; work that is given meanwhile is waited for, too. */
vyc_status vyc__work_look_on(vyc_context *context, vyc_pace *pace);
/* The same of one stream, and by an event behind what it has been given. */
vyc_status vyc__stream_finish_by_looks(vyc_context *context, CUstream stream, vyc_pace *pace);
vyc_status vyc__stream_finish_by_event(vyc_context *context, CUstream stream, vyc_pace *pace);

/* An event on each stream that has work. */
typedef struct vyc_work_events {
  CUevent *events;
  uint32_t count, room;
} vyc_work_events;

/* Into an empty one. On failure it is empty again. */
vyc_status vyc__work_events_set(vyc_context *context, vyc_work_events *events);
/* The same on every stream, which may not be asked whether it has work. */
vyc_status vyc__work_events_set_all(vyc_context *context, vyc_work_events *events);
vyc_status vyc__work_events_wait(vyc_context *context, const vyc_work_events *events,
                                 vyc_pace *pace);
void vyc__work_events_free(vyc_context *context, vyc_work_events *events);

/* ---- abandoned.c ---- */

/* The context is never freed: its work may run for ever, or, left, that of another one does. */
void vyc__abandoned_keep(vyc_context *context);
void vyc__left_keep(vyc_context *context);
/* Whether nothing runs that other contexts on the device have abandoned: asked before a driver call
 * that waits for every kernel of the device. */
bool vyc__is_alone(vyc_context *context);

/* ---- patience.c ---- */

/* How long a release waits for work. */
int64_t vyc__patience(vyc_context *context);
/* Both for releases, before a driver call that waits for kernels: at most as long as the
 * context's patience lasts, one look when it is known to have run out. False: something may run for
 * ever, and what it uses is leaked. The error record stays as it was. */
bool vyc__settle(vyc_context *context);
bool vyc__stream_settle(vyc_context *context, CUstream stream);
/* The same after a wait that ended with `status`. The caller keeps the error record. */
bool vyc__settle_after(vyc_context *context, vyc_status status);

/* ---- child.c ---- */

/* The caller is inside the context. */
void vyc__child_add(vyc_child *child, vyc_context *context, const vyc_child_kind *kind);
/* Drop one reference; the last one destroys and frees. */
void vyc__child_release(vyc_child *child);
static inline void vyc__child_retain(vyc_child *child) {
  atomic_fetch_add_explicit(&child->references, 1, memory_order_relaxed);
}
/* Drop a reference that is not the last. False: it is the last, and still the caller's. */
static inline bool vyc__child_drop_shared(vyc_child *child) {
  uint32_t references = atomic_load_explicit(&child->references, memory_order_acquire);
  while (VYC_UNLIKELY(references > 1))
    if (atomic_compare_exchange_weak_explicit(&child->references, &references, references - 1,
                                              memory_order_release, memory_order_acquire))
      return true;
  return false;
}
/* Destroy what every child holds of the driver, newest first, and what has leaked. Nobody is inside
 * the context. */
void vyc__children_close(vyc_context *context);
/* Some child is. */
bool vyc__children_are_claimed(vyc_context *context);

/* ---- report.c ---- */

/* The record of failed checks of a kernel in one place. */
struct vyc_report {
  vyc_report *next, *previous; /* of the context; guarded by children_lock, as the rest */
  uint64_t *cell; /* what kernels write to: key, index, lock, reserved */
  void (*give_back)(vyc_context *context, vyc_report *report); /* the memory of the cell */
  vyc_slots used; /* whose work may write to it */
  bool is_of_stream; /* launches on one stream alone, and on what gets its slot next */
  bool is_kept; /* of a stream that has ended: */
  uint32_t end; /* which of context->reports_ended was its own; 0: it lives */
  uint64_t kept_report, kept_index;
  uint64_t tag;
  vyc_name *called; /* held */
};

/* The cell has nothing in it. */
void vyc__report_reset(uint64_t *cell);
/* Waits look at the report from here on. */
void vyc__report_add(vyc_context *context, vyc_report *report);
/* Free one that was not added, or is over; free() takes it. */
void vyc__report_free(vyc_context *context, vyc_report *report);
/* Caller holds children_lock, and counts the end before it lets go. No launch is
 * made any more: what comes is told by waits for their streams, or the context. */
void vyc__report_end(vyc_context *context, vyc_report *report);
static inline void vyc__report_count_end(vyc_context *context) {
  atomic_fetch_add(&context->reports_ended, 1);
}
/* Look for an assertion that asynchronous launches reported, on whatever stream, on the one that
 * has the slot, or on any of several. Each is told once. `ended`: vyc__reports_ended before the
 * wait; 0: not all their work was waited for. */
vyc_status vyc__check_reports(vyc_context *context, uint32_t ended);
vyc_status vyc__check_reports_of(vyc_context *context, uint32_t slot, uint32_t ended);
vyc_status vyc__check_reports_on(vyc_context *context, const vyc_slots *slots);
static inline uint32_t vyc__reports_ended(vyc_context *context) {
  return atomic_load(&context->reports_ended);
}
/* There are any. */
static inline bool vyc__has_reports(const vyc_context *context) {
  return atomic_load_explicit(&context->report_count, memory_order_relaxed) != 0;
}
/* The work of the stream that has the slot has ended, and another one may get it. */
void vyc__slot_reports_end(vyc_context *context, uint32_t slot);
/* All work has ended: the memory of records goes to the pool. */
void vyc__reports_close(vyc_context *context);
/* The rest, where no close could do that. */
void vyc__reports_free(vyc_context *context);

/* ---- stream_slots.c ---- */

void vyc__stream_list(vyc_context *context, vyc_stream *stream);
/* From here on nobody looks for work on it, and another stream may have its slot. Its work has
 * ended, so that holders wait for nothing. Nothing when it was removed before. */
void vyc__stream_unlist(vyc_context *context, vyc_stream *stream);
/* VYC_E_MEMORY, recorded. */
vyc_status vyc__stream_claim_slot(vyc_context *context, vyc_stream *stream);
/* When the stream in a slot began; see vyc_context.epochs. */
static inline uint32_t vyc__slot_epoch(const vyc_context *context, uint32_t slot) {
  if (VYC_LIKELY(slot < VYC_NEAR_SLOTS)) return context->epochs[slot];
  const vyc_far_slot *far = vyc__far_entry(&context->far_slots, slot, sizeof *far);
  return far == NULL ? 0 : far->epoch;
}
/* How many are open, and how many of them are adopted. */
void vyc__streams_count(vyc_context *context, uint64_t *all_out, uint64_t *adopted_out);
/* Waits for all work look at the stream while its state is not 0. */
void vyc__hidden_stream_add(vyc_context *context, vyc_hidden_stream *stream);
/* From here on nobody looks at it. Nothing when it was removed before. */
void vyc__hidden_stream_remove(vyc_context *context, vyc_hidden_stream *stream);
/* One more holder of the stream that work for `target` goes to: the oldest one, and older than
 * `newest` where that is given; or NULL. */
vyc_stream *vyc__stream_known(vyc_context *context, CUstream target, const vyc_stream *newest);
/* The stream in a slot, which is not destroyed before vyc__slot_let_go; NULL: there is none. It is
 * no reference: the caller's last one waits for the work, whoever looks at the stream. */
vyc_stream *vyc__slot_hold(vyc_context *context, uint32_t slot);
void vyc__slot_let_go(vyc_stream *stream);

/* ---- stream.c ---- */

/* Order a stream behind what another, or the main stream, has been given. */
vyc_status vyc__stream_after(vyc_context *context, CUstream later, CUstream earlier);
vyc_status vyc__stream_after_main(vyc_context *context, CUstream stream);
/* A new stream; for an adopted one `target` and the event that becomes its `scratch`, else NULL. */
vyc_status vyc__stream_make(vyc_stream **stream_out, vyc_context *context, CUstream target,
                            CUevent scratch);
/* Wait for the work on the stream in a slot; VYC_NOT_READY when time is out. */
vyc_status vyc__slot_finish(vyc_context *context, uint32_t slot, int64_t timeout_ns);
/* The same for the streams in some slots, one after the other. */
vyc_status vyc__slots_finish(vyc_context *context, uint64_t slots, const vyc_far_set *far,
                             int64_t timeout_ns);
/* ---- event.c ---- */

/* Give back the events that are kept. Nobody is inside the context. */
void vyc__events_close(vyc_context *context);
uint64_t vyc__events_kept(const vyc_context *context);
/* An event that was kept, or a new one; the caller has relaxed the capture mode. */
vyc_status vyc__event_take(vyc_event **event_out, vyc_context *context);
vyc_status vyc__event_record(vyc_event *event, const vyc_place *place);
/* The rest, where no close could do that. */
void vyc__events_free(vyc_context *context);

/* ---- ferry.c ---- */

/* Give its memory back to the pool, behind the copies that use it. */
void vyc__ferry_trim(vyc_context *context);
void vyc__ferry_close(vyc_context *context);

/* ---- adopted_stream.c ---- */

/* Where a launch on the given stream goes. An adopted stream is asked whether it is captured. */
vyc_status vyc__place_of(vyc_context *context, vyc_place *place_out, vyc_stream *stream);
/* The CUstream and slot of a run: the given stream's, or the context's own. VYC_E_INVALID when it
 * is being captured. */
vyc_status vyc__stream_of(vyc_context *context, CUstream *handle_out, uint32_t *slot_out,
                          vyc_stream *stream);
/* `later` waits for what `earlier` has been given, one of which is the stream's handle or target;
 * through the scratch event of an adopted one. */
vyc_status vyc__stream_order(vyc_stream *stream, CUstream later, CUstream earlier);
/* The same for what the stream in a slot has been given; waits where it cannot be told which. */
vyc_status vyc__stream_after_slot(vyc_context *context, CUstream later, uint32_t slot);
/* After work given to an adopted stream: lets others be ordered behind it. */
vyc_status vyc__stream_given(vyc_stream *stream);
/* Whether somebody captures the stream. */
vyc_status vyc__ask_capture(vyc_context *context, bool *captured_out, CUstream stream);
static inline uint32_t vyc__slot_of(const vyc_stream *stream) {
  return stream == NULL ? VYC_SLOT_MAIN : stream->slot;
}
static inline bool vyc__is_adopted(const vyc_stream *stream) {
  return stream != NULL && stream->target != stream->handle;
}
/* ---- adopted_buffer.c ---- */

/* Before a stream works on memory whose owner works on buffer->source. */
vyc_status vyc__foreign_before(vyc_buffer *buffer, CUstream stream);
/* After work on an adopted buffer: lets its owner be ordered behind it. */
vyc_status vyc__foreign_after(vyc_buffer *buffer, CUstream stream);
/* The same, and vyc__stream_given, for all arguments of a run that was enqueued on a stream. */
vyc_status vyc__run_given(const vyc_run *run, CUstream stream);

/* ---- copy.c ---- */

vyc_status vyc__check_range(const vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                            const char *operation);
/* Everything a transfer on the main stream needs of a buffer. */
vyc_status vyc__copy_prepare(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                             const char *operation);
/* The transfer was given to the main stream. */
vyc_status vyc__copy_given(vyc_buffer *buffer);

/* The same of one that is written; VYC_E_INVALID when it is read-only. */
vyc_status vyc__copy_prepare_written(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                                     const char *operation);

/* Somebody else may look at the memory without asking for an order: what he finds is what was
 * written before, as with the copies of other libraries. */
static inline bool vyc__is_seen_outside(const vyc_buffer *buffer) {
  return atomic_load_explicit(&buffer->exported, memory_order_relaxed) ||
         (buffer->block == NULL && buffer->source == NULL);
}

/* The driver's copies and fills, counted. */
vyc_status vyc__copy_up(vyc_context *context, uint64_t to, const void *from, uint64_t bytes,
                        CUstream stream);
vyc_status vyc__copy_back(vyc_context *context, void *to, uint64_t from, uint64_t bytes,
                          CUstream stream);
vyc_status vyc__copy_within(vyc_context *context, uint64_t to, uint64_t from, uint64_t bytes,
                            CUstream stream);
vyc_status vyc__clear(vyc_context *context, uint64_t to, uint64_t bytes, CUstream stream);

/* ---- bounce.c ---- */

#define VYC_CHUNK (UINT64_C(1) << 20) /* bytes; pageable memory goes to the device in such */

/* On the main stream. The caller's memory has been read, or written, when they return. */
vyc_status vyc__bounce_in(vyc_context *context, uint64_t to, const void *data, uint64_t bytes);

/* ---- queue_depth.c ---- */

void vyc__depth_close(vyc_context *context, const vyc_depth *depth);

/* ---- pinned.c ---- */

/* A run that is seen to end later, or a graph, holds the memory meanwhile; vyc__pinned_drop ends
 * that. vyc_pinned_release is for who made it. */
void vyc__pinned_drop(vyc_pinned *pinned);
static inline void vyc__pinned_retain(vyc_pinned *pinned) { vyc__child_retain(&pinned->child); }
/* Work that nobody is going to wait for was given to the stream of a slot: when the memory is
 * released it is reused behind that. */
static inline vyc_status vyc__pinned_use(vyc_pinned *pinned, uint32_t slot) {
  return vyc__slots_add(&pinned->used, slot);
}

#endif
