/* A worker, its calls, and the ring between them. */
#ifndef VYC_WORKER_WORKER_H
#define VYC_WORKER_WORKER_H

#include "room.h"

/* As in codegen/emit/resident.py. */
#define WORKER_SLOTS 64u
#define WORKER_SLOT_WORDS 32u
#define WORKER_HEADER_WORDS 4u
#define WORKER_ANSWER_WORDS                                                                        \
  16u /* 32-bit, from one answer to the next: a line of the host's cache */
#define WORKER_MORE_BYTES 4096u
#define WORKER_SLOT_BYTES ((WORKER_SLOT_WORDS - WORKER_HEADER_WORDS) * 4u)
#define WORKER_STOP 0xffffu
#define WORKER_BUSY_NS UINT64_C(20000000)

enum {             /* vyc_worker_call.state, as those of submissions */
       CALL_FREE = 0,
       CALL_CLAIMED, /* one thread prepares, waits for or collects it */
       CALL_FLIGHT   /* submitted; a thread that claims it may check whether it has ended */
};

typedef struct vyc_worker_call {
  struct vyc_worker_call *next; /* of the worker; set once */
  _Atomic int state;
  vyc_worker *worker;
  vyc_prepared *prepared;
  uint32_t number; /* in the ring, of the last slot of the call */
  bool in_ring; /* it has a slot */
  bool dropped; /* its results are not wanted */
  uint32_t looks;
  vyc_block *slab; /* page-locked: the host arrays of the call; or NULL */
  vyc_ticket *ticket;
  vyc_flight *flight; /* what it has in flight */
  uint32_t result_count, clear_count, held_count;
  struct worker_result {
    void *to;
    const void *from;
    uint64_t bytes;
  } *results;
  uint32_t *clears; /* bindings in device memory to be cleared first */
  vyc_buffer **held; /* of a call that nobody waits for */
  uint64_t *addresses;
  uint8_t *block;
} vyc_worker_call;

struct vyc_worker {
  vyc_child child;
  vyc_prepared *entry, *clearing;
  vyc_prepared **kernels;
  uint32_t kernel_count;
  uint64_t idle_ns, busy_ns;
  CUstream stream; /* nobody else's; NULL: destroyed */
  vyc_block *memory, *more; /* page-locked: slots, answers, end; larger parameter blocks or NULL */
  vyc_claim claim; /* guards the next two, and the words of free slots */
  uint32_t next; /* number of the next call */
  uint32_t from; /* of the first call of the first launch */
  _Atomic uint32_t launch; /* the number of the last launch; 0: none; changed under the claim */
  _Atomic uint32_t pauses; /* by the caller: while this is not 0, nobody launches it */
  _Atomic bool closed;
  _Atomic(vyc_worker_call *) calls;
  uint32_t most_bindings, block_bytes; /* of its kernels */
  _Atomic uint64_t call_count, launch_count, pause_count;
};

/* ---- ring.c ---- */

void vyc__ring_begin(vyc_worker *worker, uint32_t first);
/* The caller has the claim: whether so many more calls have room. */
bool vyc__ring_has_room(const vyc_worker *worker, uint32_t count);
/* The caller has the claim, and there is room. Returns the call's number. */
uint32_t vyc__ring_put(vyc_worker *worker, uint32_t kernel, const uint32_t grid[3],
                       const uint8_t *block, uint32_t bytes);
/* The caller has the claim, and the worker does not run: the calls from `before` on were not put.
 */
void vyc__ring_take_back(vyc_worker *worker, uint32_t before);
/* Whether the call has been answered: then everything that it wrote can be read. */
bool vyc__ring_is_answered(const vyc_worker *worker, uint32_t number);
/* The worker was launched and has not noted its end. */
bool vyc__worker_is_running(const vyc_worker *worker);
/* The caller has the claim. Launches the worker unless it runs or is paused. */
vyc_status vyc__ring_go_on(vyc_worker *worker);
/* VYC_NOT_READY, or the fault that has ended the worker, which only the driver can report. */
vyc_status vyc__worker_ask(const vyc_worker *worker);

/* ---- worker.c ---- */

/* Nobody may launch it: by the caller, or because a driver call waits for the device. */
static inline bool vyc__worker_is_paused(const vyc_worker *worker) {
  return atomic_load(&worker->pauses) != 0 ||
         atomic_load(&worker->child.context->worker_pauses) != 0;
}

/* ---- call.c ---- */

/* A call for the caller alone. */
vyc_status vyc__call_take(vyc_worker *worker, vyc_worker_call **call_out);
/* Copy and lay out the arguments of a checked run. On failure the call is free again. */
vyc_status vyc__call_prepare(vyc_worker_call *call, uint32_t kernel, const vyc_run *run);
/* Give it to the worker, which is launched if need be; waits for room for at most timeout_ns. On
 * failure the call is free again. */
vyc_status vyc__call_submit(vyc_worker_call *call, uint32_t kernel, const vyc_run *run,
                            int64_t timeout_ns);
/* VYC_OK if it has ended, VYC_NOT_READY if not. */
vyc_status vyc__call_look(vyc_worker_call *call);
vyc_status vyc__call_wait(vyc_worker_call *call, int64_t timeout_ns);
/* After a wait that ended with `status`: results are copied and the call is free, or it stays in
 * flight without results. Returns the status of the call. */
vyc_status vyc__call_collect(vyc_worker_call *call, vyc_status status);
/* Gives back what it has; it is free, or not used any more. */
void vyc__call_empty(vyc_worker_call *call);
static inline void vyc__call_set(vyc_worker_call *call, int state) {
  atomic_store_explicit(&call->state, state, memory_order_release);
}

#endif
