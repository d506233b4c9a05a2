/* Which process this is: a fork of a process that opened a context makes no driver call on it, and
 * takes no lock, because the thread that held the lock may not exist here. */
#ifndef VYC_FORK_H
#define VYC_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "status.h"

/* Forks of which this process is the child, counted from the first vyc__forks_watch. */
extern __attribute__((visibility("hidden"))) _Atomic uint32_t vyc__fork_generation;

static inline uint32_t vyc__fork_count(void) {
  return atomic_load_explicit(&vyc__fork_generation, memory_order_relaxed);
}
/* Count forks from here on. VYC_E_MEMORY, which is recorded. */
vyc_status vyc__forks_watch(void);

#endif
