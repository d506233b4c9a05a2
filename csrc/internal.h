/* Struct bodies and small helpers shared by the .c files; no public name is declared here.
 *
 * The locks are leaves: none is taken while another is held, and none is held across a driver call
 * that can block. */
#ifndef VYC_INTERNAL_H
#define VYC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "driver.h"
#include "status.h"

#define VYC_ALIGN 256u         /* bytes: every block and slab part begins on such a boundary */
#define VYC_STREAM_SLOTS 64    /* bits of vyc_buffer.used_on */
#define VYC_SLOT_MAIN 0
#define VYC_SLOT_OTHER 63      /* streams without a slot of their own */
#define VYC_MAX_BINDINGS 256
#define VYC_REPORT_NONE UINT64_MAX

/* What a context closes: the first member of every object that holds something of the driver. */
typedef struct vyc_child {
  struct vyc_child *next, *previous;
  struct vyc_child *closing; /* list of a close in progress */
  vyc_context *context;
  void (*destroy)(struct vyc_child *child); /* gives the driver's resources back */
  void (*finish)(struct vyc_child *child);  /* frees the memory */
  _Atomic uint32_t references;
  _Atomic bool destroyed; /* destroy has run or runs; it runs once */
} vyc_child;

typedef struct vyc_block {
  struct vyc_block *next;
  uint64_t address;
  uint64_t bytes; /* of the size class */
  CUevent event;  /* while it waits: recorded at release on the stream that may still use it */
  bool recycled;  /* an earlier owner may still use it on the main stream */
} vyc_block;

#define VYC_SMALL_BINS 16 /* 256 B steps to 4 KiB */
#define VYC_BINS (VYC_SMALL_BINS + 9 * 4 + 1)

typedef struct vyc_pool {
  pthread_mutex_t lock;
  bool pinned; /* page-locked host memory, else device memory */
  vyc_block *bins[VYC_BINS];
  vyc_block *waiting; /* released, still used on another stream */
  uint64_t live_bytes, idle_bytes, peak_bytes, live_count, hits, misses;
} vyc_pool;

struct vyc_context {
  vyc_driver *driver;
  CUdevice device;
  CUcontext handle;
  CUstream main;
  uint32_t fork_generation; /* of the process that opened it */
  _Atomic uint32_t references;
  _Atomic bool closed;
  _Atomic bool lost;
  _Atomic(const char *) last_launch; /* name of the kernel launched last, for "device lost" */
  _Atomic uint32_t report_plans;     /* plans that may hold an assertion report */
  pthread_mutex_t children_lock;
  vyc_child *children; /* newest first, so a plan goes before its module */
  uint32_t releasing;  /* children whose last reference is gone and whose destroy still runs */
  struct vyc_name *names; /* kernel names, kept for last_launch; guarded by children_lock */
  _Atomic bool gone;      /* the driver has nothing of this context any more */
  pthread_mutex_t slots_lock;
  vyc_stream *slots[VYC_STREAM_SLOTS]; /* by number; main and other stay NULL */
  vyc_pool device_pool, pinned_pool;
  vyc_caps caps;
};

struct vyc_stream {
  vyc_child child;
  CUstream handle;
  uint32_t slot;
};

struct vyc_event {
  vyc_child child;
  CUevent handle;
};

struct vyc_buffer {
  vyc_child child;
  vyc_block *block;
  uint64_t address;
  uint64_t bytes;
  _Atomic uint64_t used_on; /* bit per stream slot with work on it that nobody has waited for */
};

struct vyc_pinned {
  vyc_child child;
  vyc_block *block;
};

struct vyc_module {
  vyc_child child;
  CUmodule handle;
};

/* ---- context.c ---- */

typedef struct vyc_scope {
  CUcontext saved;
  bool changed;
} vyc_scope;

/* Check that the context can be used and make it current; vyc__leave undoes the latter. */
vyc_status vyc__enter(vyc_context *context, vyc_scope *scope);
void vyc__leave(const vyc_context *context, const vyc_scope *scope);
/* For releases: current when the driver may be called at all, whatever the context's state. */
bool vyc__enter_release(vyc_context *context, vyc_scope *scope);

/* CUresult of a call into the right status; notes a lost device. */
vyc_status vyc__driver_failed(vyc_context *context, CUresult result, const char *operation);

/* A driver call of a context: VYC_OK or the recorded failure. */
#define VYC_CU(ctx, function, ...)                                             \
  (VYC_LIKELY((vyc__result = (ctx)->driver->function(__VA_ARGS__)) == CUDA_SUCCESS) \
       ? VYC_OK                                                                \
       : vyc__driver_failed((ctx), vyc__result, #function))
/* The same for a function without arguments. */
#define VYC_CU0(ctx, function)                                                 \
  (VYC_LIKELY((vyc__result = (ctx)->driver->function()) == CUDA_SUCCESS)       \
       ? VYC_OK                                                                \
       : vyc__driver_failed((ctx), vyc__result, #function))
/* Declares what VYC_CU writes to. */
#define VYC_CU_RESULT CUresult vyc__result

vyc_context *vyc__context_retain(vyc_context *context);
/* `finish` NULL: free(child). */
void vyc__child_add(vyc_child *child, vyc_context *context, void (*destroy)(vyc_child *),
                    void (*finish)(vyc_child *));
/* A copy of `name` that lives as long as the context. */
vyc_status vyc__intern(vyc_context *context, const char **name_out, const char *name);
/* Drop one reference; the last one destroys and frees. */
void vyc__child_release(vyc_child *child);
/* Look for an assertion that asynchronous launches reported. */
vyc_status vyc__check_reports(vyc_context *context);

/* ---- pool.c ---- */

void vyc__pool_init(vyc_pool *pool, bool pinned);
vyc_status vyc__pool_take(vyc_context *context, vyc_pool *pool, vyc_block **block_out,
                          uint64_t bytes);
void vyc__pool_give(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on);
/* Free idle blocks; with `all`, the waiting ones too (the device must be idle). */
void vyc__pool_trim(vyc_context *context, vyc_pool *pool, bool all);
void vyc__pool_close(vyc_context *context, vyc_pool *pool, bool free_blocks);

/* ---- stream.c ---- */

/* The CUstream and slot of a run: the given stream's, or the context's own. */
vyc_status vyc__stream_of(vyc_context *context, CUstream *handle_out, uint32_t *slot_out,
                          vyc_stream *stream);
vyc_status vyc__slot_synchronize(vyc_context *context, uint32_t slot);
/* One more holder of the stream in a slot, or NULL when there is none (any more). */
vyc_stream *vyc__slot_retain(vyc_context *context, uint32_t slot);

/* ---- buffer.c ---- */

/* Wait for all work on a buffer that was given on streams other than `except`. */
vyc_status vyc__buffer_wait(vyc_buffer *buffer, uint32_t except);
vyc_status vyc__buffer_first_use(vyc_buffer *buffer, CUstream stream, uint32_t slot);

static inline vyc_status vyc__buffer_use(vyc_buffer *buffer, CUstream stream, uint32_t slot) {
  const uint64_t bit = UINT64_C(1) << slot;
  if (VYC_LIKELY((atomic_load_explicit(&buffer->used_on, memory_order_relaxed) & bit) != 0))
    return VYC_OK;
  return vyc__buffer_first_use(buffer, stream, slot);
}

/* ---- small helpers ---- */

static inline uint64_t vyc__align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

static inline bool vyc__mul_overflows(uint64_t a, uint64_t b, uint64_t *product_out) {
  return __builtin_mul_overflow(a, b, product_out);
}

uint64_t vyc__now_ns(void);
void vyc__sleep_us(uint32_t microseconds);

#endif
