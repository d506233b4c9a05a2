/* What a context closes: its children, and how graphs that others have captured hold one. */
#ifndef VYC_CHILD_H
#define VYC_CHILD_H

#include "base/room.h"

typedef struct vyc_child vyc_child;

/* The functions of one kind of children. */
typedef struct vyc_child_kind {
  void (*destroy)(vyc_child *child); /* returns the driver's resources */
  void (*finish)(vyc_child *child);  /* frees the memory; NULL: free() */
  /* A thread is launching it without having entered the context; NULL: this never happens. */
  bool (*is_claimed)(const vyc_child *child);
  /* Destroy and free a leaked one, now that nothing is in flight; NULL: children of this kind never
   * leak. */
  void (*reap)(vyc_child *child);
} vyc_child_kind;

/* The first member of every object that holds resources of the driver; a context closes it. */
struct vyc_child {
  struct vyc_child *next, *previous;
  struct vyc_child *closing; /* list of a close in progress */
  const vyc_child_kind *kind;
  _Atomic bool destroyed; /* destroy has run or is running; it runs once */
  bool has_leaked; /* set by destroy: unfinished work uses the child, and a close reaps it */
  bool is_warm; /* destroy makes no driver call that a capture forbids, or relaxes for it */
  /* The fields from here on are read by launches. */
  vyc_context *context;
  _Atomic uint32_t references;
};

/* ---- child.c ---- */

/* The caller has entered the context. */
void vyc__child_add(vyc_child *child, vyc_context *context, const vyc_child_kind *kind);
/* Drop one reference; the last one destroys and frees. */
void vyc__child_release(vyc_child *child);
static inline void vyc__child_retain(vyc_child *child) {
  atomic_fetch_add_explicit(&child->references, 1, memory_order_relaxed);
}
/* Drop a reference that is not the last. False: it is the last one, and the caller still has it. */
static inline bool vyc__child_drop_shared(vyc_child *child) {
  uint32_t references = atomic_load_explicit(&child->references, memory_order_acquire);
  while (VYC_UNLIKELY(references > 1))
    if (atomic_compare_exchange_weak_explicit(&child->references, &references, references - 1,
                                              memory_order_release, memory_order_acquire))
      return true;
  return false;
}
/* Nobody holds the child any more: the context keeps its memory reachable, because it leaks on
 * purpose. */
void vyc__child_leak(vyc_child *child);
/* Destroy the driver's resources of every child, newest first, and what has leaked. No thread is
 * inside the context. */
void vyc__children_close(vyc_context *context);
/* Some child is claimed. */
bool vyc__children_are_claimed(vyc_context *context);

/* ---- captured_hold.c ---- */

typedef struct vyc_hold vyc_hold;

/* Make a graph that is being captured, and everything made from it, hold the child. False: the
 * driver does not support this. */
bool vyc__hold_give(vyc_hold **hold_out, vyc_child *child, CUgraph into);
/* During a close: graphs no longer hold the child; the caller does. NULL is allowed, as below. */
void vyc__hold_take_back(vyc_hold *hold);
/* To be called before the memory of the child is freed. */
void vyc__hold_forget(vyc_hold *hold);
/* Release what can no longer be launched, of a context or (NULL) of all contexts. False: there was
 * nothing. The caller must have claimed nothing and must not be inside a context, because this
 * calls owners of adopted memory. The error record is unchanged. */
bool vyc__holds_reap(const vyc_context *context);

#endif
