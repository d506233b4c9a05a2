/* Pools of device and page-locked memory: blocks that are kept for reuse.
 *
 * A block is live (somebody has it), in a magazine (idle, of a few threads), idle in the pool,
 * or waiting (idle once its marks have been passed). The bodies of vyc_buffer and vyc_pinned are
 * part of a block, so that giving one out allocates nothing. */
#ifndef VYC_POOL_H
#define VYC_POOL_H

#include "context/room.h"

#define VYC_ALIGN 256u /* bytes: every block and slab part begins on such a boundary */
#define VYC_SMALL_BINS 16                       /* 256 B steps to 4 KiB */
#define VYC_LARGE_BIN (VYC_SMALL_BINS + 9u * 4u) /* after four classes a doubling to 2 MiB */
#define VYC_BINS (VYC_LARGE_BIN + 1u)
#define VYC_LARGE_BUCKETS 64u /* of stacks by size, beyond 2 MiB */
#define VYC_MAGAZINES 64u

typedef struct vyc_block vyc_block;
typedef struct vyc_pool vyc_pool;

struct vyc_buffer {
  vyc_child child; /* among the context's children only where `block` is NULL */
  uint64_t address;
  uint64_t bytes;
  vyc_stream *source; /* of adopted memory: the stream that its owner works on, or NULL */
  _Atomic uint64_t used_on; /* marks, a bit per near slot and one for all far ones; see marks.c */
  vyc_block *block;         /* NULL: adopted */
  bool read_only;
  _Atomic bool exported;  /* another library has the address: the memory outlives a close */
  bool unwaited; /* a wait for `taken` has failed; guarded by slots_lock, as the next two */
  _Atomic uint32_t epoch; /* marks are of streams that began by then; see vyc_context.epochs */
  _Atomic uint64_t taken; /* marks that were taken out, whose work is not known to have ended */
  uint32_t waiters, takes;
  _Atomic uint32_t comers; /* threads that are about to mark it; changed under slots_lock */
  vyc_far_set far; /* for the last bits of `used_on` and `taken` */
  void (*drop)(void *owner); /* adopted memory goes back to its owner; or NULL */
  void *owner;
};

struct vyc_pinned {
  vyc_child child; /* as of vyc_buffer */
  vyc_block *block; /* NULL: memory of the caller's */
  void *data;
  uint64_t bytes;
  vyc_slots used; /* slots whose streams were given work on it */
};

/* The idle blocks of one size, newest on top. */
typedef struct vyc_stack {
  struct vyc_stack *next; /* of the bin or bucket */
  uint64_t bytes;
  vyc_block *top;
} vyc_stack;

typedef struct vyc_mark {
  struct vyc_mark *next;
  vyc_block *block;
  CUevent event; /* behind the work of one stream at the time of the release */
  uint32_t queue;
} vyc_mark;

/* Marks of one stream, oldest first, except where threads overtook each other: after one that has
 * not been passed, none is queried. */
typedef struct vyc_queue {
  vyc_mark *first, *last;
} vyc_queue;
#define VYC_QUEUES 64u /* by number of slot, modulo this: the bits of vyc_pool.queued */

struct vyc_block {
  uint64_t address;
  uint64_t bytes; /* of the size class */
  uint16_t bin;
  uint16_t pending; /* its marks in queues */
  bool recycled; /* an earlier owner may still use it on the main stream */
  bool retires; /* waits to go back to the driver */
  bool has_handle; /* live as a vyc_buffer or vyc_pinned */
  bool outlives; /* the pool closed while it was live: whoever has it ends it */
  vyc_stack *stack;
  vyc_block *next, *previous; /* in its stack; `next` also in a magazine */
  vyc_block *older, *newer; /* among all that are idle in the pool */
  vyc_block *registered_next, *registered_previous; /* among all of the pool */
  vyc_mark *marks; /* before they are in queues */
  union {
    vyc_buffer buffer;
    vyc_pinned pinned;
  } as;
};
/* A launch touches one cache line of a buffer. */
_Static_assert((offsetof(vyc_block, as) + offsetof(vyc_child, context)) % VYC_CACHE_LINE == 0,
               "what launches look at begins a line");
_Static_assert(offsetof(vyc_buffer, taken) - offsetof(vyc_child, context) <= VYC_CACHE_LINE,
               "and is in it");

/* Idle blocks within reach of few threads, mostly one, without a lock: claimed for
 * a few instructions. Who finds it claimed goes to the pool instead. */
typedef struct vyc_magazine {
  vyc_claim claim;
  uint64_t bytes; /* in it */
  uint64_t takes, gives; /* that it served */
  uint8_t counts[VYC_BINS];
  vyc_block *tops[VYC_BINS];
} vyc_magazine;

struct vyc_pool {
  bool pinned; /* page-locked host memory, else device memory */
  _Atomic(vyc_magazine *) magazines[VYC_MAGAZINES];
  _Atomic uint64_t live_bytes, peak_bytes;
  _Atomic uint64_t magazine_bytes; /* that one magazine may hold */
  pthread_mutex_t lock; /* of all below */
  vyc_stack stacks[VYC_LARGE_BIN];
  vyc_stack *large[VYC_LARGE_BUCKETS];
  vyc_block *newest, *oldest; /* idle in the pool */
  vyc_queue queues[VYC_QUEUES]; /* of the waiting blocks */
  uint64_t queued; /* a bit per queue that is not empty */
  vyc_block *stuck; /* work that nobody could wait for may use them; freed at a close */
  vyc_block *registered;
  vyc_mark *spare_marks;
  uint64_t idle_bytes; /* in the pool or waiting; magazines count their own */
  uint64_t budget; /* bytes that may be idle, magazines included */
  uint64_t takes, gives, misses, frees;
  uint32_t magazine_count;
  uint32_t giving; /* threads in the middle of vyc__pool_give */
  bool closed;
};

/* ---- pool.c ---- */

void vyc__pool_init(vyc_pool *pool, bool pinned);
/* After a close: frees the records. */
void vyc__pool_destroy(vyc_pool *pool);
/* The caller is inside the context. VYC_E_MEMORY after idle blocks were freed and it still failed.
 */
vyc_status vyc__pool_take(vyc_context *context, vyc_pool *pool, vyc_block **block_out,
                          uint64_t bytes);
/* The same, but free submissions keep their slabs. */
vyc_status vyc__pool_try_take(vyc_context *context, vyc_pool *pool, vyc_block **block_out,
                              uint64_t bytes);
/* The caller has the context current. The block is reused behind the work of the streams `used_on`,
 * by their slots' bits, and behind that of the main stream where it is device memory. `far`: which
 * ones the last bit is; NULL: any. */
void vyc__pool_give_used(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on,
                         const vyc_far_set *far);
static inline void vyc__pool_give(vyc_context *context, vyc_pool *pool, vyc_block *block,
                                  uint64_t used_on) {
  vyc__pool_give_used(context, pool, block, used_on, NULL);
}
/* A handle's: without the driver and without a lock. False: nothing was done. */
bool vyc__handle_try_give(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on);
/* Where its memory is from; functions NULL: from the driver. */
const vyc_allocator *vyc__pool_allocator(const vyc_context *context, const vyc_pool *pool);
/* The record of a block, whose memory is gone or somebody else's. */
void vyc__block_drop(const vyc_pool *pool, vyc_block *block);
/* The size class of a request: bytes and bin. */
uint64_t vyc__pool_class(uint64_t bytes, uint32_t *bin_out);
void vyc__pool_note_live(vyc_pool *pool, uint64_t bytes);
/* Caller holds the lock. Waiting blocks whose marks have been passed become idle, or, where they
 * retire, go on a list: for vyc__blocks_free, without the lock. True: of some stream so many marks
 * had been passed that there may be more. */
bool vyc__pool_harvest(vyc_context *context, vyc_pool *pool, vyc_block **retired);
/* Caller holds the lock. The block waits for its marks. */
void vyc__pool_wait(vyc_pool *pool, vyc_block *block);
/* Caller holds the lock. A mark that has been passed is no longer waited for: its block when it was
 * the last one, which counts as idle no more, else NULL. */
vyc_block *vyc__pool_pass(vyc_pool *pool, vyc_mark *mark);
/* Caller holds the lock. */
void vyc__pool_queue(vyc_pool *pool, vyc_mark *mark);
/* Caller holds the lock. */
void vyc__pool_push(vyc_pool *pool, vyc_block *block);
void vyc__pool_unlink(vyc_pool *pool, vyc_block *block);
/* An event behind what the stream of a slot has been given; false when the driver gave none. */
bool vyc__pool_mark(vyc_context *context, vyc_pool *pool, vyc_block *block, CUstream stream,
                    uint32_t slot);

/* ---- magazine.c ---- */

/* Without the driver and without a lock; NULL and false when that cannot be. What is taken is live
 * as a handle until the caller says otherwise. */
vyc_block *vyc__magazine_take(vyc_context *context, vyc_pool *pool, uint64_t bytes);
bool vyc__magazine_give(vyc_context *context, vyc_pool *pool, vyc_block *block);
/* The calling thread has a magazine from now on, unless memory is short. */
void vyc__magazine_make(vyc_pool *pool);
/* A block of this size from any thread's. */
vyc_block *vyc__magazine_steal(vyc_pool *pool, uint64_t size, uint32_t bin);
/* Everything out of all magazines, as one list. */
vyc_block *vyc__magazines_drain(vyc_pool *pool);
typedef struct vyc_magazine_sums {
  uint64_t bytes, takes, gives;
} vyc_magazine_sums;
vyc_magazine_sums vyc__magazines_sum(vyc_pool *pool);

/* ---- reclaim.c ---- */

/* vyc__pool_give_used of a block that was live as a handle, in every state of the context. */
void vyc__handle_give(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on,
                      const vyc_far_set *far);
/* Device: a quarter of the device's memory; page-locked: a sixteenth of that. */
void vyc__pool_set_budget(vyc_context *context, vyc_pool *pool, uint64_t bytes);
/* Idle blocks over the budget back to the driver, those that were used longest ago first. */
void vyc__pool_keep_budget(vyc_context *context, vyc_pool *pool);
/* All idle blocks back to the driver, after the work that still uses them. */
void vyc__pool_trim(vyc_context *context, vyc_pool *pool);
/* The device is idle and nobody is inside: everything back to the driver, but live blocks whose
 * address is known outside, which keep the primary context until they are given. */
void vyc__pool_close(vyc_context *context, vyc_pool *pool);
/* Somebody is in the middle of vyc__pool_give. */
bool vyc__pool_is_giving(vyc_pool *pool);
/* A block that the pool's close left to its holder. */
void vyc__block_end(vyc_context *context, vyc_pool *pool, vyc_block *block);
/* A list, linked by `next`, back to the driver. */
void vyc__blocks_free(vyc_context *context, vyc_pool *pool, vyc_block *list);

/* ---- what handles share ---- */

/* Host code, or another library, has the address. */
static inline bool vyc__is_known_outside(const vyc_pool *pool, const vyc_block *block) {
  return pool->pinned || atomic_load(&block->as.buffer.exported);
}

/* True when the reference that was dropped was the last. */
static inline bool vyc__handle_drop(vyc_child *child) {
  return atomic_fetch_sub_explicit(&child->references, 1, memory_order_acq_rel) == 1;
}

#endif
