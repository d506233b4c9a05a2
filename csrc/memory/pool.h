/* Pools of device and page-locked memory: blocks that are kept for reuse.
 *
 * A block is live (in use), in a magazine (idle, for a few threads), idle in the pool, or waiting
 * (idle once its marks have been reached). The bodies of vyc_buffer and vyc_pinned are part of a
 * block, so that handing one out allocates nothing. */
#ifndef VYC_POOL_H
#define VYC_POOL_H

#include "context/room.h"

#define VYC_ALIGN 256u /* bytes: the alignment of every block and slab part */
#define VYC_SMALL_BINS 16                       /* 256 B steps to 4 KiB */
#define VYC_LARGE_BIN (VYC_SMALL_BINS + 9u * 4u) /* after four classes per doubling up to 2 MiB */
#define VYC_BINS (VYC_LARGE_BIN + 1u)
#define VYC_LARGE_BUCKETS 64u /* of stacks by size, beyond 2 MiB */
#define VYC_MAGAZINES 64u

typedef struct vyc_block vyc_block;
typedef struct vyc_pool vyc_pool;

struct vyc_buffer {
  vyc_child child; /* one of the context's children only if `block` is NULL */
  uint64_t address;
  uint64_t bytes;
  vyc_stream *source; /* of adopted memory: the stream that its owner uses, or NULL */
  _Atomic uint64_t used_on; /* marks, a bit per near slot and one for all far ones; see marks.c */
  vyc_block *block;         /* NULL: adopted */
  bool read_only;
  _Atomic bool exported;  /* another library knows the address: the memory outlives a close */
  bool unwaited; /* a wait for `taken` has failed; guarded by slots_lock, like the next two */
  _Atomic uint32_t epoch; /* marks are of streams that had begun by then: vyc_context.epochs */
  _Atomic uint64_t taken; /* marks that were removed while their work is not known to have ended */
  uint32_t waiters, takes;
  uint32_t main_takes; /* how often the mark of the main stream was taken */
  _Atomic uint32_t comers; /* threads that are about to mark the buffer; changed under slots_lock */
  vyc_far_set far; /* for the last bits of `used_on` and `taken` */
  void (*drop)(void *owner); /* returns adopted memory to its owner; or NULL */
  void *owner;
  vyc_buffer *peer; /* of another context, whose memory this is; see peers.c; or NULL */
};

struct vyc_pinned {
  vyc_child child; /* as of vyc_buffer */
  vyc_block *block; /* NULL: the memory is the caller's */
  void *data;
  uint64_t bytes;
  vyc_slots used; /* slots of the streams on which work on it was enqueued */
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
  CUevent event; /* recorded on one stream at the time of the release */
  uint32_t queue;
} vyc_mark;

/* Marks of one stream, oldest first, except where threads overtook each other. Once one has not
 * been reached, no later one is queried. */
typedef struct vyc_queue {
  vyc_mark *first, *last;
} vyc_queue;
#define VYC_QUEUES 64u /* slots are mapped to queues modulo this: the bits of vyc_pool.queued */

struct vyc_block {
  uint64_t address;
  uint64_t bytes; /* of the size class */
  uint16_t bin;
  uint16_t pending; /* its marks in queues */
  _Atomic bool recycled; /* the previous owner may still be using it on the main stream */
  bool retires; /* waits to be returned to the driver */
  bool has_handle; /* in use as a vyc_buffer or vyc_pinned */
  bool outlives; /* the pool closed while it was live: its holder frees it */
  vyc_stack *stack;
  vyc_block *next, *previous; /* in its stack; `next` also links a magazine */
  vyc_block *older, *newer; /* among all that are idle in the pool */
  vyc_block *registered_next, *registered_previous; /* among all of the pool */
  vyc_mark *marks; /* before they are put into queues */
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

/* Idle blocks for a few threads, usually one, that need no lock: the magazine is claimed for a few
 * instructions. A thread that finds it claimed uses the pool instead. */
typedef struct vyc_magazine {
  vyc_claim claim;
  uint64_t bytes; /* in it */
  uint64_t takes, gives; /* served by this magazine */
  uint8_t counts[VYC_BINS];
  vyc_block *tops[VYC_BINS];
} vyc_magazine;

struct vyc_pool {
  bool pinned; /* page-locked host memory, else device memory */
  _Atomic(vyc_magazine *) magazines[VYC_MAGAZINES];
  _Atomic uint64_t live_bytes, peak_bytes;
  _Atomic uint64_t magazine_bytes; /* the most that one magazine may hold */
  pthread_mutex_t lock; /* guards everything below */
  vyc_stack stacks[VYC_LARGE_BIN];
  vyc_stack *large[VYC_LARGE_BUCKETS];
  vyc_block *newest, *oldest; /* idle in the pool */
  vyc_queue queues[VYC_QUEUES]; /* of the waiting blocks */
  uint64_t queued; /* a bit per queue that is not empty */
  vyc_block *stuck; /* may be in use by work that could not be waited for; freed by a close */
  vyc_block *registered;
  vyc_mark *spare_marks;
  uint64_t idle_bytes; /* in the pool or waiting; magazines count theirs */
  uint64_t budget; /* bytes that may be idle, magazines included */
  uint64_t takes, gives, misses, frees;
  uint32_t magazine_count;
  uint32_t giving; /* threads in the middle of vyc__pool_give */
  bool closed;
};

/* ---- pool.c ---- */

void vyc__pool_init(vyc_pool *pool, bool pinned);
/* To be called after a close; frees the records. */
void vyc__pool_destroy(vyc_pool *pool);
/* The caller has entered the context. VYC_E_MEMORY: it failed even after idle blocks were freed. */
vyc_status vyc__pool_take(vyc_context *context, vyc_pool *pool, vyc_block **block_out,
                          uint64_t bytes);
/* The same, but free submissions keep their slabs. */
vyc_status vyc__pool_try_take(vyc_context *context, vyc_pool *pool, vyc_block **block_out,
                              uint64_t bytes);
/* The caller has made the context current. The block is reused after the work of the streams
 * `used_on` (bits of their slots), and, if it is device memory, after that of the main stream.
 * `far`: which slots the last bit stands for; NULL: any. */
void vyc__pool_give_used(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on,
                         const vyc_far_set *far);
static inline void vyc__pool_give(vyc_context *context, vyc_pool *pool, vyc_block *block,
                                  uint64_t used_on) {
  vyc__pool_give_used(context, pool, block, used_on, NULL);
}
/* For the block of a handle: no driver call and no lock. False: nothing was done. */
bool vyc__handle_try_give(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on);
/* Where its memory comes from; if the functions are NULL, from the driver. */
const vyc_allocator *vyc__pool_allocator(const vyc_context *context, const vyc_pool *pool);
/* Frees the record of a block whose memory is gone or belongs to others. */
void vyc__block_drop(const vyc_pool *pool, vyc_block *block);
/* The size class of a request: bytes and bin. */
uint64_t vyc__pool_class(uint64_t bytes, uint32_t *bin_out);
void vyc__pool_note_live(vyc_pool *pool, uint64_t bytes);
/* Caller holds the lock. */
void vyc__pool_push(vyc_pool *pool, vyc_block *block);
void vyc__pool_unlink(vyc_pool *pool, vyc_block *block);

/* ---- block_marks.c ---- */

/* Record an event after the work of the stream of a slot; false if the driver failed to create one.
 */
bool vyc__pool_mark(vyc_context *context, vyc_pool *pool, vyc_block *block, CUstream stream,
                    uint32_t slot);
/* Mark every stream that may still use the block. False: it is unknown when it may be used again.
 * If no mark is possible, this waits for the context. A close waits for everything anyway. */
bool vyc__pool_mark_users(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on,
                          const vyc_far_set *far);
/* Caller holds the lock. Waiting blocks whose marks have been reached become idle, or, if they are
 * to be returned, go to a list for vyc__blocks_free, which is called without the lock. True: so
 * many marks of one stream had been reached that there may be more. */
bool vyc__pool_harvest(vyc_context *context, vyc_pool *pool, vyc_block **retired);
/* Caller holds the lock. Makes the block wait for its marks. */
void vyc__pool_wait(vyc_pool *pool, vyc_block *block);
/* Caller holds the lock. Removes a mark that has been reached. Returns its block if that was the
 * last mark, no longer counted as idle, else NULL. */
vyc_block *vyc__pool_pass(vyc_pool *pool, vyc_mark *mark);
/* Caller holds the lock. */
void vyc__pool_queue(vyc_pool *pool, vyc_mark *mark);

/* ---- magazine.c ---- */

/* These make no driver call and take no lock; NULL or false if that is impossible. A block that is
 * taken counts as a live handle until the caller changes that. */
vyc_block *vyc__magazine_take(vyc_context *context, vyc_pool *pool, uint64_t bytes);
bool vyc__magazine_give(vyc_context *context, vyc_pool *pool, vyc_block *block);
/* Gives the calling thread a magazine, unless memory is short. */
void vyc__magazine_make(vyc_pool *pool);
/* Takes a block of this size from the magazine of any thread. */
vyc_block *vyc__magazine_steal(vyc_pool *pool, uint64_t size, uint32_t bin);
/* Takes everything out of all magazines, as one list. */
vyc_block *vyc__magazines_drain(vyc_pool *pool);
typedef struct vyc_magazine_sums {
  uint64_t bytes, takes, gives;
} vyc_magazine_sums;
vyc_magazine_sums vyc__magazines_sum(vyc_pool *pool);

/* ---- reclaim.c ---- */

/* vyc__pool_give_used for a block that was a live handle, in every state of the context. */
void vyc__handle_give(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on,
                      const vyc_far_set *far);
/* Device: a quarter of the device's memory; page-locked: a sixteenth of that. */
void vyc__pool_set_budget(vyc_context *context, vyc_pool *pool, uint64_t bytes);
/* Return idle blocks over the budget to the driver, least recently used first. */
void vyc__pool_keep_budget(vyc_context *context, vyc_pool *pool);
/* Return all idle blocks to the driver, after the work that still uses them. */
void vyc__pool_trim(vyc_context *context, vyc_pool *pool);
/* The device is idle and no thread is inside. Returns everything to the driver except live blocks
 * whose address is known outside; these keep the primary context until they are released. */
void vyc__pool_close(vyc_context *context, vyc_pool *pool);
/* Whether a thread is in the middle of vyc__pool_give. */
bool vyc__pool_is_giving(vyc_pool *pool);
/* Frees a block that the close of the pool left to its holder. */
void vyc__block_end(vyc_context *context, vyc_pool *pool, vyc_block *block);
/* Returns a list, linked by `next`, to the driver. */
void vyc__blocks_free(vyc_context *context, vyc_pool *pool, vyc_block *list);

/* ---- what handles share ---- */

/* Host code or another library knows the address. */
static inline bool vyc__is_known_outside(const vyc_pool *pool, const vyc_block *block) {
  return pool->pinned || atomic_load(&block->as.buffer.exported);
}

/* True if the dropped reference was the last. */
static inline bool vyc__handle_drop(vyc_child *child) {
  return atomic_fetch_sub_explicit(&child->references, 1, memory_order_acq_rel) == 1;
}

#endif
