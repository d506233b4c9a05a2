/* Claims: held by one thread at a time, for no longer than a few driver calls.
 *
 * A claim holds the thread pointer of its holder, which takes one instruction to read, is never 0,
 * and leaves the low bits free. A thread that finds it taken may wait; the lowest bit says that a
 * thread sleeps that must be notified. */
#ifndef VYC_CLAIM_H
#define VYC_CLAIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "status.h"

typedef _Atomic uintptr_t vyc_claim; /* 0: free */

#define VYC_CLAIM_WAITED ((uintptr_t)1)

static inline uintptr_t vyc__thread_pointer(void) {
#if defined(__x86_64__) && defined(__LP64__) /* gcc has a builtin for this from version 11 on */
  uintptr_t pointer;
  __asm__("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
#else
  return (uintptr_t)__builtin_thread_pointer();
#endif
}

/* A barrier: what the caller reads next was not read before. */
static inline bool vyc__claim_try(vyc_claim *claim) {
  uintptr_t nobody = 0;
  return atomic_compare_exchange_strong(claim, &nobody, vyc__thread_pointer());
}
/* Another thread has it: take it once that thread has released it. */
__attribute__((cold)) void vyc__claim_wait(vyc_claim *claim);
static inline void vyc__claim_take(vyc_claim *claim) {
  if (VYC_UNLIKELY(!vyc__claim_try(claim))) vyc__claim_wait(claim);
}
/* The claim already belongs to the next holder, which may have freed it: only its address is used.
 */
__attribute__((cold)) void vyc__claim_notify(const vyc_claim *claim);
static inline void vyc__claim_drop(vyc_claim *claim) {
  const uintptr_t was = atomic_exchange_explicit(claim, 0, memory_order_acq_rel);
  if (VYC_UNLIKELY((was & VYC_CLAIM_WAITED) != 0)) vyc__claim_notify(claim);
}
static inline bool vyc__claim_is_taken(const vyc_claim *claim) { return atomic_load(claim) != 0; }

#endif
