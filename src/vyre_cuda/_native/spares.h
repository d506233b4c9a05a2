/* Room of a kernel for the arguments of one call, kept between calls.
 *
 * With a GIL one thread is in here at a time. Without one a thread takes and gives by an exchange,
 * in a place that threads seldom share; who finds nothing there makes room, and who finds the place
 * full frees what was there. */
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

/* The first member of what is kept. */
typedef struct vyre_spare {
  struct vyre_spare *next; /* with a GIL */
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
#endif

/* NULL: there is none. */
static inline void *vyre_spare_take(vyre_spares *spares) {
#ifdef Py_GIL_DISABLED
  return __atomic_exchange_n(vyre_place(spares), NULL, __ATOMIC_ACQUIRE);
#else
  vyre_spare *spare = spares->places[0];
  if (spare != NULL) spares->places[0] = spare->next;
  return spare;
#endif
}

static inline void vyre_spare_give(vyre_spares *spares, void *room) {
  vyre_spare *spare = (vyre_spare *)room;
#ifdef Py_GIL_DISABLED
  free(__atomic_exchange_n(vyre_place(spares), spare, __ATOMIC_ACQ_REL));
#else
  spare->next = spares->places[0];
  spares->places[0] = spare;
#endif
}

/* Nobody takes or gives any more. */
static inline void vyre_spares_free(vyre_spares *spares) {
  for (int i = 0; i < VYRE_PLACES; i++)
    while (spares->places[i] != NULL) {
      vyre_spare *spare = spares->places[i];
#ifdef Py_GIL_DISABLED
      spares->places[i] = NULL;
#else
      spares->places[i] = spare->next;
#endif
      free(spare);
    }
}

#endif
