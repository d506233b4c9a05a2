/* A submission: one execution with host arguments: stream, pinned slab, device slab, graph. */
#ifndef VYC_SUBMISSION_SUBMISSION_H
#define VYC_SUBMISSION_SUBMISSION_H

#include "kernel/room.h"
#include "room.h"

#define VYC_MAX_SUBMISSIONS 64u

/* When a kernel uses host memory in place (mapped) although it does not stream through it: if the
 * sectors that it loads or stores, each a transfer of its own of 1 to 2 ns, cost less than the copy
 * that they save: 0.6 us and 0.03 ns a byte to the device, 2 us and more from it. Measured on an
 * H200 with benchmarks/probes/transports.c; the same figures show that small inputs in the
 * parameter block would save 0.5 us at best, and cost up to ten times the copy. */
#define VYC_MAPPED_LOADS(bytes) (512u + (bytes) / 64u)
#define VYC_MAPPED_STORES 4096u
/* Pageable memory from this size on goes through the copy engine, whatever the kernel does with it:
 * to the device in such chunks, which the host writes past its caches, and back by the driver's own
 * copies. Medians on an H200, by benchmarks/probes/pageable.c, for 64 KiB, 256 KiB, 1, 4, 16 and 64
 * MiB each way: 32, 62, 185, 671 us, 3.2 and 12.9 ms; in place, in page-locked memory, 19, 59, 219,
 * 775 us, 4.0 and 21.1 ms. A ring of chunks that stay in the caches is 11 % slower for 4 MiB and 7
 * % faster for 64 MiB, and a submission would wait for it. For the way back, from 1 MiB on, the
 * driver takes 113, 347 us, 1.21 and 4.4 ms, and the host, chunk by chunk, 118, 327 us, 1.15
 * and 4.5 ms. */
#define VYC_LARGE_BYTES (UINT64_C(1) << 20)
#define VYC_LARGE_CHUNK (UINT64_C(512) << 10)
#define VYC_FLAG_OFFSET                                                                            \
  64u /* bytes into a submission's cell: a cache line apart from the record                        \
       */
#define VYC_CELL_BYTES 128u

typedef struct vyc_result {
  void *to;
  const void *from; /* in page-locked memory; NULL: at `device` */
  uint64_t device;
  uint64_t bytes;
} vyc_result;

enum {           /* vyc_submission.state */
       SUBMISSION_FREE = 0, /* any thread may claim it */
       SUBMISSION_CLAIMED,  /* one thread prepares, waits for or collects it */
       SUBMISSION_FLIGHT, /* submitted; a thread that claims it may check whether it has finished */
       SUBMISSION_DEAD /* never used again: retired, or it is unknown whether its run has ended */
};

enum { /* vyc_submission.ways: of a binding in host memory */
       WAY_MAPPED = 0, /* the kernel uses it there */
       WAY_COPIED, /* a copy each way between page-locked memory and the device slab */
       WAY_LARGE /* pageable: by chunks to the device slab, and to its place at the end */
};

struct vyc_submission {
  struct vyc_submission *next; /* of the prepared kernel; set once */
  _Atomic int state;
  vyc_prepared *prepared;
  vyc_hidden_stream own; /* its stream; the handle is NULL once it is destroyed */
  CUevent done; /* recorded when a run goes on another stream */
  CUevent start, stop; /* around the kernel of a timed run; made on first need */
  bool elsewhere; /* this run is on another stream */
  uint32_t slot; /* of that stream */
  bool copies_out; /* this run has results in the device slab */
  bool flagged; /* its graph sets the flag at its end; otherwise the stream or `done` is queried */
  bool dropped; /* the results of this run are not wanted: none are written */
  bool has_large; /* this run has a binding of WAY_LARGE */
  bool cramped; /* the device has no room for one of WAY_LARGE, so it gets none */
  uint32_t looks; /* at the flag, so far */
  uint64_t asked_ns; /* when a caller that does not wait last queried the driver for the run */
  vyc_block *cell; /* page-locked: the record of failed checks, and the flag */
  vyc_block *pinned, *device;
  vyc_block *barrier; /* grid barrier state */
  vyc_ticket *ticket;
  vyc_flight *flight; /* what it has in flight */
  vyc_launch_graph launch_graph;
  uint32_t result_count;
  vyc_result *results;
  uint32_t held_count;
  vyc_pinned **held; /* page-locked arguments of the run */
  uint8_t *ways; /* of each binding of the run */
  uint64_t *addresses; /* likewise, for the kernel */
  uint64_t *contents; /* as in vyc_run: what the last run left in the device slab; 0: nothing */
  bool keeps; /* `contents` is that of the last run, and the slab has not been replaced since */
  uint8_t *block; /* the parameter block being built */
};

/* The word of a submission's cell that is set when its run has ended. */
static inline _Atomic uint32_t *vyc__submission_flag(const vyc_submission *submission) {
  return (_Atomic uint32_t *)(uintptr_t)(submission->cell->address + VYC_FLAG_OFFSET);
}

/* ---- staging.c ---- */

/* Grow the slabs for this run. */
vyc_status vyc__stage_reserve(vyc_submission *submission, const vyc_run *run, CUstream stream);
/* Stage host arguments; where the kernel finds them goes to submission->addresses. */
vyc_status vyc__stage_in(vyc_submission *submission, const vyc_run *run, CUstream stream,
                         uint32_t slot);
/* After the kernel of a submission that copies out: copies results from the device to the host. */
vyc_status vyc__stage_out(vyc_submission *submission, const vyc_run *run, CUstream stream);

/* ---- pageable.c ---- */

/* The same as memmove, but past the caches, where the device would only look in vain. */
void vyc__host_copy_large(void *to, const void *from, uint64_t bytes);
static inline void vyc__host_copy(void *to, const void *from, uint64_t bytes) {
  if (VYC_LIKELY(bytes < VYC_LARGE_BYTES))
    memmove(to, from, bytes);
  else
    vyc__host_copy_large(to, from, bytes);
}
/* Copy pageable memory to the device through `room`, page-locked memory of the same size: the host
 * copies a chunk while the device copies the one before. This waits for nothing; `data` has been
 * read when it returns. */
vyc_status vyc__chunks_in(vyc_context *context, uint64_t to, void *room, const void *data,
                          uint64_t bytes, CUstream stream);
/* The run has ended: copy its results from the device slab to pageable memory. It fails with
 * *ended_out false if copies may still be in flight. */
vyc_status vyc__results_fetch(vyc_submission *submission, bool *ended_out);

/* ---- submission.c ---- */

/* Waits for at most *left_ns while too many runs are in flight, then returns VYC_NOT_READY;
 * *left_ns becomes the remaining time. Negative: no limit. */
vyc_status vyc__submission_take(vyc_prepared *prepared, vyc_submission **submission_out,
                                int64_t *left_ns);
/* On failure the submission has been abandoned. */
vyc_status vyc__submission_enqueue(vyc_submission *submission, const vyc_run *run, bool timed);
/* The run of a submission is known to have ended: release its page-locked arguments. */
void vyc__submission_let_go(vyc_submission *submission);

/* ---- wait.c ---- */

static inline void vyc__submission_set(vyc_submission *submission, int state) {
  atomic_store_explicit(&submission->state, state, memory_order_release);
}
/* Record `done` after the run of the submission. */
static inline bool vyc__submission_is_marked(const vyc_submission *submission) {
  return submission->elsewhere && (!submission->flagged || submission->slot == VYC_SLOT_OTHER);
}
/* Check a submitted submission once: VYC_OK if its run has ended, VYC_NOT_READY if not. */
vyc_status vyc__submission_poll(vyc_submission *submission);
/* The same wait for a release; see vyc__stream_await_end. */
bool vyc__submission_await_end(vyc_submission *submission);
/* The caller has claimed the submission. Negative timeout: none. VYC_NOT_READY at the time limit.
 */
vyc_status vyc__submission_wait(vyc_submission *submission, int64_t timeout_ns);
/* After a wait that ended with `status`: copies the results to their place and frees the
 * submission; or, if the wait failed, drops the results and leaves the submission in flight until
 * its end is noticed. Returns the run's status. */
vyc_status vyc__submission_collect(vyc_submission *submission, vyc_status status,
                                   vyc_timing *timing_out);
/* No one else uses the prepared kernel. False: the run never ended, and what it uses has leaked. */
bool vyc__submission_destroy(vyc_submission *submission);

/* ---- ticket.c ---- */

/* Two references: that of the submission and that of the caller, who has claimed the submission. */
void vyc__ticket_attach(vyc_ticket *ticket, vyc_submission *submission);
/* Where the times of the submission's run go; NULL if they are not wanted. */
vyc_timing *vyc__ticket_timing(vyc_submission *submission);
/* From clock readings; device_ns is not touched. */
static inline void vyc__timing_fill(vyc_timing *timing, uint64_t begin_ns, uint64_t submitted_ns) {
  const uint64_t end = vyc__now_ns();
  timing->wall_ns = end - begin_ns;
  timing->enqueue_ns = submitted_ns - begin_ns;
  timing->wait_ns = end - submitted_ns;
}
/* Write how the run ended to the submission's ticket, if it has one. */
void vyc__ticket_complete(vyc_submission *submission, vyc_status status);

#endif
