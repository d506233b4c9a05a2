/* Room of a kernel for the arguments of one call, kept between calls: as much as there were calls
 * at a time.
 *
 * With a GIL one thread is in here at a time. Without one a thread looks in a place that threads
 * seldom share, and claims room there by an exchange; who finds none makes it, and gives it to that
 * place for good. */
#ifndef VYRE_CUDA_SPARES_H
#define VYRE_CUDA_SPARES_H

#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef Py_GIL_DISABLED
#define VYRE_PLACES 16
#else
#define VYRE_PLACES 1
#endif

/* The first member of what is kept, which is zero at first. */
typedef struct vyre_spare {
  struct vyre_spare *next;
#ifdef Py_GIL_DISABLED
  unsigned char listed; /* in a place, for good */
  unsigned char idle;
#endif
} vyre_spare;

typedef struct vyre_spares {
  vyre_spare *places[VYRE_PLACES];
} vyre_spares;

#ifdef Py_GIL_DISABLED

/* Threads have stacks of their own, so an address on it tells them apart. */
static inline vyre_spare **vyre_place(vyre_spares *spares) {
  char here;
  const uint64_t page = (uint64_t)(uintptr_t)&here >> 16;
  return &spares->places[page * UINT64_C(0x9E3779B97F4A7C15) >> 60];
}

/* NULL: there is none. */
static inline void *vyre_spare_take(vyre_spares *spares) {
  vyre_spare *spare = __atomic_load_n(vyre_place(spares), __ATOMIC_ACQUIRE);
  for (; spare != NULL; spare = spare->next)
    if (__atomic_load_n(&spare->idle, __ATOMIC_RELAXED) &&
        __atomic_exchange_n(&spare->idle, 0, __ATOMIC_ACQUIRE))
      return spare;
  return NULL;
}

static inline void vyre_spare_give(vyre_spares *spares, void *room) {
  vyre_spare *spare = (vyre_spare *)room;
  if (spare->listed) {
    __atomic_store_n(&spare->idle, 1, __ATOMIC_RELEASE);
    return;
  }
  vyre_spare **place = vyre_place(spares);
  spare->listed = spare->idle = 1;
  spare->next = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(place, &spare->next, spare, 1, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
}

#else

/* NULL: there is none. */
static inline void *vyre_spare_take(vyre_spares *spares) {
  vyre_spare *spare = spares->places[0];
  if (spare != NULL) spares->places[0] = spare->next;
  return spare;
}

static inline void vyre_spare_give(vyre_spares *spares, void *room) {
  vyre_spare *spare = (vyre_spare *)room;
  spare->next = spares->places[0];
  spares->places[0] = spare;
}

#endif

/* Nobody takes or gives any more. */
static inline void vyre_spares_free(vyre_spares *spares) {
  for (int i = 0; i < VYRE_PLACES; i++)
    while (spares->places[i] != NULL) {
      vyre_spare *spare = spares->places[i];
      spares->places[i] = spare->next;
      free(spare);
    }
}

#endif
