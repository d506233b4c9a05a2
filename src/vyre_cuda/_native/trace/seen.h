/* The table of places that launched: found by code object and instruction, forgotten when the code
 * dies. For origin.pyx alone.
 *
 * The lock is a leaf: nothing of Python is called under it. A fork happens with the lock free. */
#ifndef VYRE_CUDA_SEEN_H
#define VYRE_CUDA_SEEN_H

#include <pthread.h>

#include "current.h"

#define VYRE_PLACES 16384
#define VYRE_CHAINS 4096 /* a power of 2 */

static vyre_seen vyre_places[VYRE_PLACES];
static vyre_seen *vyre_chains[VYRE_CHAINS];
static vyre_seen *vyre_free_places;
static uint32_t vyre_used_places; /* of the array; those given back are in the list */
static pthread_mutex_t vyre_seen_lock = PTHREAD_MUTEX_INITIALIZER;

static void vyre_seen_take(void) { pthread_mutex_lock(&vyre_seen_lock); }
static void vyre_seen_give(void) { pthread_mutex_unlock(&vyre_seen_lock); }
static int vyre_seen_start(void) {
  return pthread_atfork(vyre_seen_take, vyre_seen_give, vyre_seen_give);
}

/* By code alone, so that all places of one are in one chain. */
static vyre_seen **vyre_chain_of(const PyObject *code) {
  const uint64_t bits = (uint64_t)(uintptr_t)code >> 4;
  return &vyre_chains[(bits * UINT64_C(0x9e3779b97f4a7c15)) >> 52 & (VYRE_CHAINS - 1)];
}

/* The place, or NULL; `*watched_out`: the table has one of this code. */
static vyre_seen *vyre_seen_find(PyObject *code, intptr_t where, int *watched_out) {
  vyre_seen *found = NULL;
  *watched_out = 0;
  vyre_seen_take();
  for (vyre_seen *seen = *vyre_chain_of(code); seen != NULL && found == NULL; seen = seen->next) {
    if (seen->code != code) continue;
    *watched_out = 1;
    if (seen->where == where) found = seen;
  }
  vyre_seen_give();
  return found;
}

/* A new place; NULL: the table is full. The code is alive, and its end comes to vyre_seen_forget.
 */
static vyre_seen *vyre_seen_add(PyObject *code, intptr_t where, uint32_t origin) {
  vyre_seen_take();
  vyre_seen *seen = vyre_free_places;
  if (seen != NULL)
    vyre_free_places = seen->next;
  else if (vyre_used_places < VYRE_PLACES)
    seen = &vyre_places[vyre_used_places++];
  if (seen != NULL) {
    vyre_seen **chain = vyre_chain_of(code);
    seen->where = where;
    seen->origin = origin;
    seen->next = *chain;
    __atomic_store_n(&seen->code, code, __ATOMIC_RELEASE);
    *chain = seen;
  }
  vyre_seen_give();
  return seen;
}

static int vyre_seen_is_full(void) {
  vyre_seen_take();
  const int full = vyre_free_places == NULL && vyre_used_places == VYRE_PLACES;
  vyre_seen_give();
  return full;
}

/* The code dies, and its address may come again. */
static void vyre_seen_forget(const void *code) {
  vyre_seen_take();
  vyre_seen **link = vyre_chain_of((const PyObject *)code);
  while (*link != NULL) {
    vyre_seen *seen = *link;
    if ((const void *)seen->code != code) {
      link = &seen->next;
      continue;
    }
    *link = seen->next;
    __atomic_store_n(&seen->code, NULL, __ATOMIC_RELEASE);
    seen->next = vyre_free_places;
    vyre_free_places = seen;
  }
  vyre_seen_give();
}

/* Places in use. */
static uint32_t vyre_seen_count(void) {
  uint32_t count = 0;
  vyre_seen_take();
  for (uint32_t i = 0; i < vyre_used_places; i++) count += vyre_places[i].code != NULL;
  vyre_seen_give();
  return count;
}

#endif
