/* Memory of a context: pools of blocks, buffers and page-locked memory, copies and fills. */
#ifndef VYC_MEMORY_ROOM_H
#define VYC_MEMORY_ROOM_H

#include "context/room.h"
#include "marks.h"
#include "pool.h"

/* Page-locked memory through which small copies go; see small_copy.c. */
#define VYC_SMALL_COPY_PARTS 4u
typedef struct vyc_small_copies {
  vyc_claim claim;      /* guards the rest */
  struct vyc_block *block; /* NULL: none has been needed yet */
  uint32_t part;        /* the part in which copies get room now */
  uint64_t used;        /* bytes of it that are in use */
  CUevent events[VYC_SMALL_COPY_PARTS]; /* after the copies of each full part; NULL: not made */
  bool busy[VYC_SMALL_COPY_PARTS]; /* full, and its event is not known to have been reached */
} vyc_small_copies;

/* The kernel that reads many small ranges at once; see gather.c. */
typedef struct vyc_gather {
  _Atomic uint32_t asked; /* downloads that it would have served before it was loaded */
  CUmodule module; /* NULL: not loaded */
  _Atomic(CUfunction) function; /* NULL: not to be used */
} vyc_gather;

/* What is known of another CUcontext: asked for access to its memory, and allowed to kernels. */
typedef struct vyc_known_peer {
  struct vyc_known_peer *next;
  unsigned long long id; /* of the CUcontext; never used again for another one */
  _Atomic uint32_t state;
} vyc_known_peer;

/* A context with its memory. */
typedef struct vyc_memory_context {
  vyc_context context;
  vyc_pool device_pool, pinned_pool;
  vyc_small_copies small;
  vyc_gather gather;
  _Atomic(vyc_known_peer *) peers; /* entries are only ever added */
  bool knows_peers; /* is in the list of those that do, which guards the rest: see peer_close.c */
  struct vyc_memory_context *next_user;
  uint32_t empty_gates; /* that a close of a peer has seen empty */
} vyc_memory_context;

static inline vyc_pool *vyc__device_pool(vyc_context *context) {
  return &((vyc_memory_context *)context)->device_pool;
}
static inline vyc_pool *vyc__pinned_pool(vyc_context *context) {
  return &((vyc_memory_context *)context)->pinned_pool;
}
static inline vyc_small_copies *vyc__small_copies(vyc_context *context) {
  return &((vyc_memory_context *)context)->small;
}

/* ---- memory.c ---- */

void vyc__memory_begin(vyc_context *context);
/* Blocks may be on their way back; no close of a pool may overtake them. */
bool vyc__memory_is_giving(vyc_context *context);
/* The device is idle and no thread is inside; see vyc__pool_close. */
void vyc__memory_close(vyc_context *context);
/* The same if the CUcontext was destroyed. */
void vyc__memory_forget(vyc_context *context);
/* After that: frees the records. */
void vyc__memory_end(vyc_context *context);

/* ---- memory_stats.c ---- */

/* The current state of the pools. If the driver can be queried, blocks that are no longer in use
 * are found first. */
vyc_memory_stats vyc__memory_read(vyc_context *context);

/* ---- small_copy.c ---- */

/* Return its memory to the pool, to be reused after the copies that use it. */
void vyc__small_copies_trim(vyc_context *context);
void vyc__small_copies_close(vyc_context *context);

/* ---- gather.c ---- */

void vyc__gather_close(vyc_context *context);

/* ---- adopted_buffer.c ---- */

/* Before a stream works on memory whose owner works on buffer->source. */
vyc_status vyc__adopted_before(vyc_buffer *buffer, CUstream stream);
/* After work on an adopted buffer: orders its owner after that work. */
vyc_status vyc__adopted_after(vyc_buffer *buffer, CUstream stream);
/* The same, and vyc__stream_order_owner, for all arguments of a run that was enqueued on a stream.
 */
vyc_status vyc__run_order_owners(const vyc_run *run, CUstream stream);

/* ---- peers.c ---- */

/* The part of another context in work that this one is about to enqueue on a stream of its own:
 * `buffer` is of that other context. Afterwards the stream is behind all work on the buffer. */
vyc_status vyc__peer_before(vyc_buffer *buffer, vyc_context *context, CUstream stream);
/* After the work was enqueued: later work of the other context on the buffer is behind it. If that
 * fails, this waits for the work, because nothing else would. */
vyc_status vyc__peer_after(vyc_buffer *buffer, vyc_context *context, CUstream stream);
/* Wait for all work on it. */
vyc_status vyc__peer_await_end(vyc_buffer *buffer);
/* Let the driver copy directly from the memory of the other context, if it can. */
void vyc__peer_reach(vyc_context *context, vyc_context *other);
/* Access for kernels of this library's own; the caller has entered the context. */
vyc_status vyc__peer_access(vyc_context *context, vyc_context *other);
void vyc__peers_end(vyc_context *context);
/* Whether `context` has used memory of `other`, or may. */
bool vyc__peer_is_known(vyc_context *context, const vyc_context *other);

/* ---- peer_close.c ---- */

/* The context is about to use memory of others. */
void vyc__peer_user_add(vyc_context *context);
void vyc__peer_user_remove(vyc_context *context);
/* Whether all calls have ended that may use memory of this context, which is closing, from another
 * one; asked again until it is true, or vyc__peers_forget. */
bool vyc__peers_have_left(const vyc_context *closing);
void vyc__peers_forget(const vyc_context *closing);

/* ---- copy.c ---- */

vyc_status vyc__check_range(const vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                            const char *operation);
vyc_status vyc__check_writable(const vyc_buffer *buffer, const char *operation);
/* Everything a transfer on the main stream needs of a buffer. */
vyc_status vyc__copy_prepare(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                             const char *operation);
/* To be called after the transfer was enqueued on the main stream. */
vyc_status vyc__copy_enqueued(vyc_buffer *buffer);

/* The same for a buffer that is written; VYC_E_INVALID if it is read-only. */
vyc_status vyc__copy_prepare_written(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                                     const char *operation);

/* Others may read the memory without asking for an order; they find what was written before, as
 * with the copies of other libraries. */
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
/* The same with bytes of any value. */
vyc_status vyc__fill_bytes(vyc_context *context, uint64_t to, uint8_t value, uint64_t bytes,
                           CUstream stream);

/* ---- fill.c ---- */

/* What unspecified contents are filled with where they could show what was never a result of this
 * process; the same as in the interpreter, so that the emulator has the same results. */
#define VYC_UNSPECIFIED_BYTE 0xA5u

/* The driver's fills with elements of 1, 2 or 4 bytes, counted. */
vyc_status vyc__fill_elements(vyc_context *context, uint64_t to, uint32_t value,
                              uint32_t element_bytes, uint64_t bytes, CUstream stream);

/* ---- bounce.c ---- */

#define VYC_CHUNK (UINT64_C(1) << 20) /* bytes: chunks of pageable memory for the device */

/* On the main stream. The caller's memory has been read, or written, when they return. */
vyc_status vyc__bounce_in(vyc_context *context, uint64_t to, const void *data, uint64_t bytes);

/* ---- pinned.c ---- */

/* A run whose end is noticed later, or a graph, holds the memory until vyc__pinned_drop;
 * vyc_pinned_release is for its creator. */
void vyc__pinned_drop(vyc_pinned *pinned);
static inline void vyc__pinned_retain(vyc_pinned *pinned) { vyc__child_retain(&pinned->child); }
/* Work that nobody will wait for was enqueued on the stream of a slot: after its release the memory
 * is reused only behind that work. */
static inline vyc_status vyc__pinned_use(vyc_pinned *pinned, uint32_t slot) {
  return vyc__slots_add(&pinned->used, slot);
}

#endif
