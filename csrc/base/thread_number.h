/* Numbers of threads: each has one while it lives, and those of ended threads are reused, so that
 * what is kept by number stays small. */
#ifndef VYC_THREAD_NUMBER_H
#define VYC_THREAD_NUMBER_H

#include <stdint.h>

#include "status.h"

#define VYC_THREADS                                                                                \
  1024u /* threads at a time with a number of their own; others share this one                     \
         */

/* From 1 on; 0: the thread has none yet. */
extern __attribute__((visibility("hidden"))) _Thread_local uint32_t vyc__thread;
/* The calling thread's number, never 0. */
uint32_t vyc__thread_take(void);
static inline uint32_t vyc__thread_number(void) {
  return VYC_LIKELY(vyc__thread != 0) ? vyc__thread : vyc__thread_take();
}

#endif
