/* The state of a context, entering and leaving it, and what its driver calls fail with.
 *
 * The locks are leaves: none is taken while another is held, and none is held across a driver call
 * that can block. */
#ifndef VYC_CONTEXT_H
#define VYC_CONTEXT_H

#include <pthread.h>
#include <stddef.h>

#include "child.h"
#include "embedding.h"
#include "telemetry/room.h"

typedef struct vyc_report vyc_report;
typedef struct vyc_reason vyc_reason;
typedef struct vyc_hidden_stream vyc_hidden_stream;

/* The number of threads inside the context, for which a close waits, in the lower half; in the
 * upper one, how many of them only wait for work, for whom the close of another context does not.
 * In one word, because that close must see both at the same moment. Each gate has a cache line, so
 * two threads seldom share one. */
typedef struct vyc_gate {
  _Atomic uint64_t inside;
  uint64_t padding[7];
} vyc_gate;
#define VYC_GATE_WAITS (UINT64_C(1) << 32)
#define VYC_GATES 16

/* How far the device is behind on one stream; see queue_depth.c. */
typedef struct vyc_depth {
  CUevent events[2]; /* guarded by `claimed`, as is `turn` */
  uint32_t turn;
  _Atomic bool claimed;
} vyc_depth;

#define VYC_KEPT_EVENTS 8u

typedef struct vyc_worker_note vyc_worker_note;

/* What lower rooms need upper ones to do. */
typedef struct vyc_above {
  void (*end)(vyc_context *context); /* the last reference is gone */
  void (*empty_submissions)(vyc_context *context); /* see submission/ */
  bool (*submissions_destroy)(vyc_prepared *prepared);
  void (*submissions_free)(vyc_prepared *prepared);
  void (*workers_stop)(vyc_context *context); /* see worker/ */
  vyc_status (*workers_finish)(vyc_context *context, int64_t timeout_ns);
  vyc_status (*workers_note)(vyc_context *context, vyc_worker_note **notes_out);
  vyc_status (*workers_reach)(vyc_context *context, vyc_worker_note *notes, int64_t timeout_ns);
  void (*workers_forget)(vyc_worker_note *notes);
  bool (*workers_may_run)(vyc_context *context);
} vyc_above;

/* Upper rooms have more for each context: their structs begin with this one, or with that of the
 * room below them, so that a context is allocated once, and found without a pointer. */
struct vyc_context {
  /* What every launch reads and little writes, together. */
  vyc_driver *driver;
  CUcontext handle;
  CUstream main;
  const vyc_above *above;
  uint32_t fork_generation; /* of the process that opened it */
  _Atomic bool closed;
  _Atomic bool lost;
  _Atomic uint32_t launch_graph_clock; /* launches that found no room for a launch graph */
  _Atomic uint32_t marks_taken; /* how often, out of a buffer; see vyc__buffer_wait */
  _Atomic bool unnoticed; /* a hidden stream may have an end that the driver has not noticed */
  vyc_gate gates[VYC_GATES]; /* apart from what is written often */
  CUdevice device;
  _Atomic uint32_t references;
  _Atomic uint32_t primary_holders; /* see vyc__primary_retain */
  unsigned long long id; /* of the CUcontext, whose handle may be reused for another one */
  _Atomic bool destroyed; /* the CUcontext is gone: lost, and no driver call is made any more */
  _Atomic int lost_result; /* CUresult of the first sticky failure, and the call that gave it */
  _Atomic(const char *) lost_operation;
  _Atomic uint32_t report_count;
  _Atomic bool prints; /* a prepared kernel that prints exists, or has existed */
  _Atomic uint32_t reports_ended; /* times that prepared kernels or graphs with records ended */
  pthread_mutex_t children_lock;
  vyc_child *children; /* newest first, so a prepared kernel goes before its module */
  uint32_t releasing; /* children whose last reference is gone and whose destroy is still running */
  vyc_child *leaked; /* released with work in flight that had not ended; as above */
  vyc_report *reports; /* guarded by children_lock */
  _Atomic bool gone; /* no driver call is made any more: everything was freed, or abandoned */
  vyc_context *next_abandoned; /* of the process; set once */
  _Atomic bool abandoned; /* a close has abandoned it: its prepared kernels and streams stay */
  _Atomic bool hung; /* work had not ended when a release ran out of patience */
  _Atomic bool strays; /* work is in flight that no stream of ours is ordered behind: nothing that
                          other streams used is reused or freed, and a close gives up */
  _Atomic int64_t patience_ns; /* how long a release or close waits for work */
  _Atomic uint32_t worker_count; /* workers that may be on the device */
  _Atomic uint32_t worker_pauses; /* while this is not 0, no worker is launched */
  _Atomic uint32_t communicators; /* that are open */
  _Atomic(vyc_reason *) broken; /* why the results of work are unspecified; see broken.c */
  vyc_reason *reasons; /* all that there have been; guarded by children_lock */
  vyc_depth depth; /* of call order */
  vyc_claim together; /* see together.c */
  _Atomic(vyc_event *) kept_events[VYC_KEPT_EVENTS]; /* not in use; see event.c */
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

/* ---- context.c ---- */

typedef struct vyc_scope {
  CUcontext saved;
  bool changed;
  bool current; /* the context is this thread's */
  CUstreamCaptureMode mode; /* the thread's mode to restore; RELAXED: nothing to do */
  vyc_gate *gate; /* NULL for releases */
} vyc_scope;

/* Check that the context can be used, make it current and keep it open; vyc__leave undoes this.
 * Until then, driver calls are allowed that another library's capture would forbid. */
vyc_status vyc__enter(vyc_context *context, vyc_scope *scope);
/* The same, but the thread's capture mode is unchanged: for functions that make no such call. */
vyc_status vyc__enter_as_found(vyc_context *context, vyc_scope *scope);
/* For warm paths, which relax the mode where they make such a call, and do not check whether a
 * host's context still exists. */
vyc_status vyc__enter_warm(vyc_context *context, vyc_scope *scope);
/* The same, but the context becomes the thread's only by vyc__scope_current, before the first
 * driver call: for warm paths without any. */
vyc_status vyc__enter_quietly(vyc_context *context, vyc_scope *scope);
vyc_status vyc__scope_current(vyc_context *context, vyc_scope *scope);
/* A scope in which `from` is current becomes one in which `to` is, without what was found in
 * between; if that fails, it stays as it is. */
vyc_status vyc__scope_move(vyc_scope *scope, const vyc_context *from, vyc_context *to);
void vyc__leave(const vyc_context *context, const vyc_scope *scope);
/* Between the two, a thread that entered only waits for work, and uses no memory of another context
 * that it has not put in the order of that context. */
void vyc__scope_rest(const vyc_scope *scope);
void vyc__scope_go_on(const vyc_scope *scope);
/* Until vyc__leave, allow driver calls that another library's capture would forbid. */
void vyc__scope_relax(const vyc_context *context, vyc_scope *scope);
/* For releases: makes the context current in every state in which the driver may be called. False
 * in a forked child, and if somebody else has destroyed the CUcontext. */
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

/* Around driver calls that wait for all kernels of the device: no worker is on it meanwhile, after
 * the context's time limit at the latest. The error record is unchanged. */
static inline void vyc__workers_pause(vyc_context *context) {
  atomic_fetch_add(&context->worker_pauses, 1);
  if (VYC_UNLIKELY(atomic_load(&context->worker_count) != 0)) context->above->workers_stop(context);
}
static inline void vyc__workers_resume(vyc_context *context) {
  atomic_fetch_sub(&context->worker_pauses, 1);
}

/* The status for the CUresult of a call; notes a lost device. */
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

/* ---- together.c ---- */

typedef struct vyc_together {
  uint32_t count; /* 0 at first */
  vyc_context *all[VYC_MOST_TOGETHER]; /* by address, each once */
} vyc_together;

/* False: there are too many. */
bool vyc__together_add(vyc_together *together, vyc_context *context);
/* Until the end, no stream of another context comes to wait for one of these. In between, nothing
 * of peers.c is called. */
void vyc__together_begin(const vyc_together *together);
void vyc__together_end(const vyc_together *together);

/* ---- references ---- */

vyc_context *vyc__context_retain(vyc_context *context);
void vyc__context_release(vyc_context *context);
/* The last reference closes the context, which may take long. */
static inline bool vyc__is_last_of_context(const vyc_context *context) {
  return atomic_load_explicit(&context->references, memory_order_relaxed) == 1;
}
/* The primary context is held by the open vyc_context and by memory that outlives its close. */
void vyc__primary_retain(vyc_context *context);
void vyc__primary_release(vyc_context *context);

#endif
