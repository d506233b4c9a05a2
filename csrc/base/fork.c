/* Forks of which this process is the child. */
#include "fork.h"

#include <pthread.h>

_Atomic uint32_t vyc__fork_generation;
static _Atomic bool is_watched;

static void after_fork(void) {
  atomic_fetch_add_explicit(&vyc__fork_generation, 1, memory_order_relaxed);
}

/* It does no harm if two threads do this at once. */
vyc_status vyc__forks_watch(void) {
  if (atomic_load(&is_watched)) return VYC_OK;
  if (pthread_atfork(NULL, NULL, after_fork) != 0)
    return vyc__fail(VYC_E_MEMORY, "pthread_atfork", "out of host memory");
  atomic_store(&is_watched, true);
  return VYC_OK;
}
