/* What a context closes: its children, and how captured graphs of others hold one. */
#ifndef VYC_CHILD_H
#define VYC_CHILD_H

#include "base/room.h"

typedef struct vyc_child vyc_child;

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
/* Nobody holds the child: its memory stays in reach of the context, as what leaks on purpose. */
void vyc__child_leak(vyc_child *child);
/* Destroy what every child holds of the driver, newest first, and what has leaked. Nobody is inside
 * the context. */
void vyc__children_close(vyc_context *context);
/* Some child is claimed. */
bool vyc__children_are_claimed(vyc_context *context);

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

#endif
