/* A submission: one execution with host arguments: stream, pinned slab, device slab, graph. */
#ifndef VYC_SUBMISSION_SUBMISSION_H
#define VYC_SUBMISSION_SUBMISSION_H

#include "kernel/room.h"
#include "room.h"

#define VYC_MAX_SUBMISSIONS 64u

/* When a kernel uses host memory in place (mapped) that it does not stream through: while the
 * sectors that it loads or stores, each a transfer of its own of 1 to 2 ns, cost less than the copy
 * that they save: 0.6 us and 0.03 ns a byte to the device, 2 us and more from there. Measured on an
 * H200 with benchmarks/probes/transports.c; the same figures show that small inputs in the
 * parameter block would save 0.5 us at best, and cost up to ten times the copy. */
#define VYC_MAPPED_LOADS(bytes) (512u + (bytes) / 64u)
#define VYC_MAPPED_STORES 4096u
/* Pageable memory of so many bytes goes through the copy engine, whatever the kernel does with it:
 * in by such chunks, which the host writes past its caches, and back by the driver's own copies.
 * Medians on an H200, by benchmarks/probes/pageable.c, for 64 KiB, 256 KiB, 1, 4, 16 and 64 MiB
 * each way: so 32, 62, 185, 671 us, 3.2 and 12.9 ms; in place, in page-locked memory, 19, 59, 219,
 * 775 us, 4.0 and 21.1 ms. A ring of chunks that stay in the caches is 11 % slower for 4 MiB and 7
 * % faster for 64 MiB, and a submission would wait for it. For the way back from 1 MiB on the
 * driver takes 113, 347 us, 1.21 and 4.4 ms, and the host, chunk by chunk, 118, 327 us, 1.15 and
 * 4.5 ms. */
#define VYC_LARGE_BYTES (UINT64_C(1) << 20)
#define VYC_LARGE_CHUNK (UINT64_C(512) << 10)
/* Of unspecified contents that would show what was never a result of this process; the
 * interpreter's, so that the emulator gives its results. */
#define VYC_UNSPECIFIED_BYTE 0xA5u
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
       SUBMISSION_FREE = 0, /* anybody may claim it */
       SUBMISSION_CLAIMED,  /* one thread prepares, waits for or collects it */
       SUBMISSION_FLIGHT,   /* submitted; whoever claims it may look whether it has finished */
       SUBMISSION_DEAD      /* never used again: retired, or its run could not be seen to end */
};

enum {                 /* vyc_submission.ways: of a binding in host memory */
       WAY_MAPPED = 0, /* the kernel uses it there */
       WAY_COPIED,     /* a copy each way between page-locked memory and the device slab */
       WAY_LARGE       /* pageable: by chunks to the device slab, and to its place at the end */
};

struct vyc_submission {
  struct vyc_submission *next; /* of the prepared kernel; set once */
  _Atomic int state;
  vyc_prepared *prepared;
  vyc_hidden_stream own; /* its stream; the handle is NULL once it is destroyed */
  CUevent done;        /* recorded when a run goes on another stream */
  CUevent start, stop; /* around the kernel of a timed run; made on first need */
  bool elsewhere;      /* this run is on another stream */
  uint32_t slot;       /* of that stream */
  bool copies_out;     /* this run has results in the device slab */
  bool flagged;        /* its graph sets the flag at its end; else the stream or `done` tells */
  bool dropped;        /* nobody wants this run's results: none are written */
  bool has_large;      /* this run has a binding of WAY_LARGE */
  bool cramped;        /* nor may it have one: the device has no room for it */
  uint32_t looks;      /* at the flag */
  uint64_t asked_ns;   /* when somebody who does not wait last queried the driver for the run */
  vyc_block *cell;     /* page-locked: the record of failed checks, and the flag */
  vyc_block *pinned, *device;
  vyc_block *barrier; /* grid barrier state */
  vyc_ticket *ticket;
  vyc_flight *flight; /* what it has in flight */
  vyc_launch_graph launch_graph;
  uint32_t result_count;
  vyc_result *results;
  uint32_t held_count;
  vyc_pinned **held; /* page-locked arguments of the run */
  uint8_t *ways;     /* of each binding of the run */
  uint64_t *addresses; /* likewise, for the kernel */
  uint64_t
      *contents;  /* of vyc_run: what the last run left of each in the device slab; 0: nothing */
  bool keeps;          /* `contents` is of the last run, and the slab is that one still */
  uint8_t *block; /* the parameter block being built */
};

struct vyc_ticket {
  _Atomic uint32_t references; /* the holder, and the submission until it has finished */
  _Atomic bool done;
  vyc_submission *submission;
  vyc_prepared *prepared; /* the holder's reference; the submission does not need it */
  bool timed;
  uint64_t begin_ns, submitted_ns; /* of a timed run */
  vyc_timing timing;               /* of a timed run; valid once done */
  vyc_error error; /* status VYC_OK or what the run failed with; valid once done; the last member */
};

/* The word of a submission's cell that says its run has ended. */
static inline _Atomic uint32_t *vyc__submission_flag(const vyc_submission *submission) {
  return (_Atomic uint32_t *)(uintptr_t)(submission->cell->address + VYC_FLAG_OFFSET);
}

/* ---- staging.c ---- */

/* Grow the slabs for this run. */
vyc_status vyc__stage_reserve(vyc_submission *submission, const vyc_run *run, CUstream stream);
/* Host arguments to where the kernel will look, which goes into submission->addresses. */
vyc_status vyc__stage_in(vyc_submission *submission, const vyc_run *run, CUstream stream,
                         uint32_t slot);
/* After the kernel of a submission that copies out: device-side results back to their host side. */
vyc_status vyc__stage_out(vyc_submission *submission, const vyc_run *run, CUstream stream);

/* ---- pageable.c ---- */

/* The same as memmove, past the caches, which the device would ask in vain. */
void vyc__host_copy_large(void *to, const void *from, uint64_t bytes);
static inline void vyc__host_copy(void *to, const void *from, uint64_t bytes) {
  if (VYC_LIKELY(bytes < VYC_LARGE_BYTES))
    memmove(to, from, bytes);
  else
    vyc__host_copy_large(to, from, bytes);
}
/* Pageable memory to the device by way of `room` in page-locked memory, as large: the host copies a
 * chunk while the device copies the one before. Nothing is waited for; `data` has been read. */
vyc_status vyc__chunks_in(vyc_context *context, uint64_t to, void *room, const void *data,
                          uint64_t bytes, CUstream stream);
/* The run has ended: its results in the device slab to pageable memory. It fails with *ended_out
 * false when copies may be in flight still. */
vyc_status vyc__results_fetch(vyc_submission *submission, bool *ended_out);

/* ---- submission.c ---- */

/* Waits at most *left_ns while too many are in flight, then VYC_NOT_READY; *left_ns becomes what is
 * left of that. Negative: no limit. */
vyc_status vyc__submission_take(vyc_prepared *prepared, vyc_submission **submission_out,
                                int64_t *left_ns);
/* On failure the submission has been given up. */
vyc_status vyc__submission_enqueue(vyc_submission *submission, const vyc_run *run, bool timed);
/* The run of a submission is known to have ended: let go of its page-locked arguments. */
void vyc__submission_let_go(vyc_submission *submission);

/* ---- wait.c ---- */

static inline void vyc__submission_set(vyc_submission *submission, int state) {
  atomic_store_explicit(&submission->state, state, memory_order_release);
}
/* `done` is behind the submission's run. */
static inline bool vyc__submission_is_marked(const vyc_submission *submission) {
  return submission->elsewhere && (!submission->flagged || submission->slot == VYC_SLOT_OTHER);
}
/* One look at a submitted submission: VYC_OK when its run has ended, VYC_NOT_READY when it has not.
 */
vyc_status vyc__submission_poll(vyc_submission *submission);
/* The same wait for a release, as vyc__stream_await_end. */
bool vyc__submission_await_end(vyc_submission *submission);
/* The caller has claimed the submission. Negative timeout: none. VYC_NOT_READY when it ran out. */
vyc_status vyc__submission_wait(vyc_submission *submission, int64_t timeout_ns);
/* After a wait that ended with `status`: results to their place and the submission free again, or,
 * when the wait failed, the results dropped and the submission in flight until it is seen to end.
 * Returns the run's status. */
vyc_status vyc__submission_collect(vyc_submission *submission, vyc_status status,
                                   vyc_timing *timing_out);
/* Nobody else uses the prepared kernel. False: the run never ended, and what it uses is leaked. */
bool vyc__submission_destroy(vyc_submission *submission);

/* ---- ticket.c ---- */

/* NULL: out of memory, and recorded. free() undoes it. */
vyc_ticket *vyc__ticket_alloc(void);
/* Two references: the submission's and the caller's, who has claimed the submission. */
void vyc__ticket_attach(vyc_ticket *ticket, vyc_submission *submission);
/* Where the times of the submission's run go; NULL when nobody asked for them. */
vyc_timing *vyc__ticket_timing(vyc_submission *submission);
/* From clock readings; device_ns is not touched. */
static inline void vyc__timing_fill(vyc_timing *timing, uint64_t begin_ns, uint64_t submitted_ns) {
  const uint64_t end = vyc__now_ns();
  timing->wall_ns = end - begin_ns;
  timing->enqueue_ns = submitted_ns - begin_ns;
  timing->wait_ns = end - submitted_ns;
}
/* Tell the submission's ticket, if it has one, how the run ended. */
void vyc__ticket_complete(vyc_submission *submission, vyc_status status);

#endif
