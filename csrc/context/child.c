/* What a context closes: counted children, each giving its driver resources back exactly once.
 *
 * The last reference goes under the lock that a close takes, so a close either holds a child or
 * knows that it is being released and waits for that. In a forked child no lock is taken. */
#include <stdlib.h>

#include "room.h"

void vyc__child_add(vyc_child *child, vyc_context *context, const vyc_child_kind *kind) {
  child->context = vyc__context_retain(context);
  child->kind = kind;
  atomic_init(&child->references, 1);
  pthread_mutex_lock(&context->children_lock);
  child->previous = NULL;
  child->next = context->children;
  if (child->next != NULL) child->next->previous = child;
  context->children = child;
  pthread_mutex_unlock(&context->children_lock);
}

static void destroy_once(vyc_child *child) {
  vyc_context *context = child->context;
  vyc_scope scope;
  if (atomic_exchange(&child->destroyed, true) || atomic_load(&context->gone)) return;
  if (!vyc__enter_release(context, &scope)) return;
  if (!child->is_warm) vyc__scope_relax(context, &scope);
  child->kind->destroy(child);
  vyc__leave(context, &scope);
}

/* ---- release -------------------------------------------------------------------------------- */

/* Drop the last reference and leave the list, unless a close has taken hold of it meanwhile. */
static bool detach(vyc_child *child) {
  vyc_context *context = child->context;
  pthread_mutex_lock(&context->children_lock);
  const bool last = atomic_fetch_sub_explicit(&child->references, 1, memory_order_acq_rel) == 1;
  if (last) {
    if (child->previous != NULL) child->previous->next = child->next;
    if (child->next != NULL) child->next->previous = child->previous;
    if (context->children == child) context->children = child->next;
    context->releasing++;
  }
  pthread_mutex_unlock(&context->children_lock);
  return last;
}

/* The caller holds children_lock, and no other thread can reach the child. */
static void list_leaked(vyc_context *context, vyc_child *child) {
  child->next = context->leaked;
  context->leaked = child;
}

/* False: this was not the last reference. A leaked child may be freed as soon as the release is
 * over. */
static bool destroy_last(vyc_child *child, bool *leaked_out) {
  vyc_context *context = child->context;
  if (vyc__is_forked(context))
    return atomic_fetch_sub_explicit(&child->references, 1, memory_order_acq_rel) == 1;
  if (!detach(child)) return false;
  destroy_once(child);
  *leaked_out = child->has_leaked;
  pthread_mutex_lock(&context->children_lock);
  if (child->has_leaked) list_leaked(context, child);
  context->releasing--;
  pthread_mutex_unlock(&context->children_lock);
  return true;
}

void vyc__child_leak(vyc_child *child) {
  vyc_context *context = child->context;
  pthread_mutex_lock(&context->children_lock);
  list_leaked(context, child);
  pthread_mutex_unlock(&context->children_lock);
}

static void finish(vyc_child *child) {
  if (child->kind->finish == NULL)
    free(child);
  else
    child->kind->finish(child);
}

void vyc__child_release(vyc_child *child) {
  uint32_t references = atomic_load_explicit(&child->references, memory_order_relaxed);
  while (references > 1)
    if (atomic_compare_exchange_weak_explicit(&child->references, &references, references - 1,
                                              memory_order_release, memory_order_relaxed))
      return;
  vyc_context *context = child->context;
  bool has_leaked = false;
  if (!destroy_last(child, &has_leaked)) return;
  if (!has_leaked) finish(child);
  vyc__context_release(context);
}

/* ---- close ---------------------------------------------------------------------------------- */

/* Every child, held, newest first. */
static vyc_child *hold_children(vyc_context *context) {
  vyc_child *first = NULL, **link = &first;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_child *child = context->children; child != NULL; child = child->next) {
    vyc__child_retain(child); /* never 0: the last reference is dropped under this lock */
    *link = child;
    link = &child->closing;
  }
  *link = NULL;
  pthread_mutex_unlock(&context->children_lock);
  return first;
}

static bool is_releasing(vyc_context *context) {
  pthread_mutex_lock(&context->children_lock);
  const bool releasing = context->releasing != 0;
  pthread_mutex_unlock(&context->children_lock);
  return releasing;
}

/* A child that is reaped may be the last holder of another, which leaks in turn. */
static void reap(vyc_context *context) {
  for (;;) {
    pthread_mutex_lock(&context->children_lock);
    vyc_child *child = context->leaked;
    if (child != NULL) context->leaked = child->next;
    pthread_mutex_unlock(&context->children_lock);
    if (child == NULL) return;
    child->kind->reap(child);
  }
}

void vyc__children_close(vyc_context *context) {
  vyc_child *held = hold_children(context);
  /* Releases that have started may still use streams; from now on nobody else destroys anything. */
  while (is_releasing(context)) vyc__sleep_us(20);
  for (vyc_child *child = held; child != NULL; child = child->closing) destroy_once(child);
  while (held != NULL) {
    vyc_child *next = held->closing;
    vyc__child_release(held);
    held = next;
  }
  while (is_releasing(context)) vyc__sleep_us(20);
  reap(context);
}

bool vyc__children_are_claimed(vyc_context *context) {
  bool found = false;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_child *child = context->children; child != NULL && !found; child = child->next)
    found = child->kind->is_claimed != NULL && child->kind->is_claimed(child);
  pthread_mutex_unlock(&context->children_lock);
  return found;
}
