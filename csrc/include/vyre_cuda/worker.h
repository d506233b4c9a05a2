/* Workers: kernels that stay on the device and take calls from memory, without a launch for each.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_WORKER_H
#define VYRE_CUDA_WORKER_H

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vyc_worker vyc_worker;

/* The most bytes of host arrays in one call of a worker, each rounded up to 256. */
#define VYC_WORKER_CALL_BYTES (UINT64_C(1) << 20)

typedef struct vyc_worker_desc {
  uint32_t struct_size;
  uint32_t kernel_count; /* 1 to 64 */
  vyc_prepared *const
      *kernels; /* by number; the calls of each are checked and laid out as its runs */
  /* Writes 0 to each byte of its one out, number `kernel_count` in the worker; NULL: calls that
   * would have to clear device memory are refused. */
  vyc_prepared *clearing;
  uint64_t idle_ns; /* without a call, after which it ends, until the next call; not 0 */
  /* In all, after which it ends between two calls and is launched again; 0: 10 ms. Work of others
   * that waits for the whole device then gets its turn. At least 10,000, so that each launch takes
   * a call; this and idle_ns are at most INT64_MAX, which is no limit. VYC_E_INVALID otherwise. */
  uint64_t busy_ns;
  uint32_t first; /* the number of the first call; they are counted modulo 2^32 */
  /* Blocks of the device that take calls, up to 32; 0: one. Each stays there from its first call
   * on. With several, calls run side by side if none writes device memory that the other uses, and
   * one with a grid of 8 blocks or more is spread over those that have nothing to do. */
  uint32_t blocks;
} vyc_worker_desc;

typedef struct vyc_worker_stats {
  uint32_t struct_size;
  uint32_t running; /* blocks on the device, as far as is known */
  uint64_t calls; /* submitted */
  uint64_t launches; /* of the worker */
  uint64_t pauses; /* stops for calls of this library that wait for the device, and by the caller */
} vyc_worker_stats;

/* `entry`: the worker as a prepared kernel of its module, without parameters; each block is a
 * launch of its own, with the block of `entry`, of at least one warp. The worker starts at the
 * first call. It keeps what it is given. VYC_E_UNSUPPORTED: a kernel has checks, grid barriers or
 * prints. */
VYC_API vyc_status vyc_worker_create(vyc_worker **worker_out, vyc_prepared *entry,
                                     const vyc_worker_desc *desc);
/* vyc_prepared_run by the worker: kernel number `kernel`. Without a stream, iterations and timing;
 * VYC_E_UNSUPPORTED for these, for more than VYC_WORKER_CALL_BYTES of host arrays, which are copied
 * to page-locked memory, where the kernel uses them, for outs in device memory that it cannot
 * clear, and for memory that was adopted with a stream. If work on the buffers is in flight on
 * streams, the call begins when that has ended, and calls behind it in the same block after it.
 * What is submitted to streams while the call runs is not ordered against it, except behind
 * vyc_stream_wait_worker. While the worker is paused the call waits. VYC_E_TIMEOUT: the call goes
 * on, and *ticket_out, unless ticket_out is NULL, owns it; if *ticket_out is NULL even so, the call
 * was not started. After vyc_ticket_release, a call with buffers that has not ended is ordered as a
 * launch in call order at that time, or, if the worker was paused before the call, it never runs.
 * VYC_E_UNAVAILABLE: the worker was closed. */
VYC_API vyc_status vyc_worker_run(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel,
                                  const vyc_run *run);
/* The same without the wait, for host arrays; VYC_E_UNSUPPORTED for buffers. It waits only while
 * the worker has no room for the call, for at most timeout_ns; then VYC_E_TIMEOUT, and nothing was
 * started. With one block calls run in the order in which they are submitted. A call whose worker
 * has ended is taken up when a thread waits for it or makes another call. */
VYC_API vyc_status vyc_worker_submit(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel,
                                     const vyc_run *run);
/* Work that is given to the stream later begins when the calls submitted so far have ended; no
 * thread waits for that. Both must belong to one context. VYC_E_INVALID: the stream is being
 * captured. VYC_E_UNAVAILABLE: the caller has paused the worker, and some of these calls were
 * submitted since, so that they may never end. */
VYC_API vyc_status vyc_stream_wait_worker(vyc_stream *stream, vyc_worker *worker);
/* Keep the worker off the device, until as many calls of vyc_worker_resume. When this returns, the
 * calls that were submitted before have ended, and all others wait. VYC_NOT_READY: it has not left
 * the device within timeout_ns (negative: no limit); it is paused all the same, and leaves after
 * those calls: vyc_worker_pause_wait waits for that. After any other failure it is not paused. */
VYC_API vyc_status vyc_worker_pause(vyc_worker *worker, int64_t timeout_ns);
/* Wait again for a worker that is paused or closed to leave the device. VYC_NOT_READY: as for
 * vyc_worker_pause. VYC_E_INVALID: it is neither. */
VYC_API vyc_status vyc_worker_pause_wait(vyc_worker *worker, int64_t timeout_ns);
/* Undo one pause. VYC_E_INVALID: it is not paused. Works in every state of the context. */
VYC_API vyc_status vyc_worker_resume(vyc_worker *worker);
/* Take no more calls, which fail with VYC_E_UNAVAILABLE from now on, undo all pauses, finish the
 * calls that were submitted, and leave the device. VYC_NOT_READY: that was not done within
 * timeout_ns (negative: no limit); the worker is closed all the same, its calls go on, and another
 * close waits for them again. */
VYC_API vyc_status vyc_worker_close(vyc_worker *worker, int64_t timeout_ns);
/* What the worker has done since it was created. */
VYC_API vyc_status vyc_worker_stats_get(vyc_worker *worker, vyc_worker_stats *stats_out);
/* The last reference closes it, for at most the context's time limit (vyc_context_set_patience);
 * what has not ended by then is leaked. Tickets hold a reference. */
VYC_API void vyc_worker_release(vyc_worker *worker);

#ifdef __cplusplus
}
#endif
#endif
