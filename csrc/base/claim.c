/* Waiting for a claim, and notifying the waiters.
 *
 * A waiter checks, lets others of its priority run, and then sleeps between checks, so that a
 * holder of lower priority can continue. If the waiter has real-time priority and the holder has
 * not, a thread in between could keep the holder from running forever: then the waiter lends its
 * priority, by sleeping on a futex with priority inheritance that names the holder as its owner.
 *
 * Each such sleeper has an entry of a table that is never freed: the address of the claim, which is
 * only compared, and the futex. The futex belongs to the sleeper: it writes the holder's number
 * there and frees the entry; every other thread only changes it from its own number to 0, or has
 * the kernel do so and wake the sleeper, which at worst checks too early. In each of these cases
 * this works:
 *
 * - The sleeper writes its entry, and then marks the claim as waited for, if it still has the
 *   holder that was written. The release is an exchange of the same word: either it comes before
 *   the mark, which then fails, or it finds the mark, and with it the entry.
 * - The holder releases the claim before the sleeper sleeps: the futex is 0, and the kernel gives
 *   it to the sleeper at once.
 * - Another thread takes the claim before the sleeper wakes: the sleeper checks again, and waits
 *   for that thread.
 * - Several threads wait: each has its entry, and the release notifies all of them.
 * - The entry has another owner when the holder notifies it: its futex has the number of another
 *   holder, or the new owner is notified too early.
 * - The claim was freed meanwhile, and another one is at its address: the futexes of its waiters
 *   have the number of its holder, which is not the thread that notifies.
 * - The holder has ended, and another thread has its thread pointer and the claim: the kernel does
 *   not know the old number, or the wrong thread gets the priority, and no thread is notified.
 *
 * The last case, and any that was not foreseen, ends with the time limit of each sleep.
 *
 * How a thread pointer becomes a number: the kernel clears a word at the end of each thread, where
 * glibc keeps that number, at the same distance from the thread pointer in every thread. If that
 * does not hold, or the kernel has no such futexes, waiters sleep and lend nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "claim.h"
#include "clock.h"

/* Checks before a waiter lets others of its priority run, and before it sleeps: a launch takes
 * microseconds. */
#define SPINS 64u
#define YIELDS 64u
#define LENT_NS 1000000 /* at most, before another check */
#define LENDINGS 64u /* sleepers that lend at the same time; others sleep as if they could not */

typedef struct lending {
  _Atomic(const vyc_claim *) claim; /* NULL: free */
  _Atomic uint32_t holder; /* the futex: the number of a thread, and bits of the kernel */
} lending;

static lending lendings[LENDINGS];

static uint32_t own_number(void) { return (uint32_t)syscall(SYS_gettid); }

/* ---- the number of a holder ------------------------------------------------------------------ */

#define OFFSET_UNKNOWN 0 /* no thread has its number at its thread pointer */
#define OFFSET_NONE 1 /* nor at an odd distance */

static _Atomic intptr_t number_offset; /* bytes from a thread pointer to the number of the thread */

static intptr_t find_offset(void) {
  int *word = NULL;
  if (prctl(PR_GET_TID_ADDRESS, &word, 0, 0, 0) != 0 || word == NULL) return OFFSET_NONE;
  const intptr_t offset = (intptr_t)((uintptr_t)word - vyc__thread_pointer());
  const bool is_number = offset % (intptr_t)sizeof *word == 0 && offset != OFFSET_UNKNOWN &&
                         (uint32_t)*word == own_number();
  return is_number ? offset : OFFSET_NONE;
}

/* Read through the kernel, because the thread may have released the claim and ended by now. 0:
 * unknown. */
static uint32_t number_of(uintptr_t thread_pointer) {
  intptr_t offset = atomic_load_explicit(&number_offset, memory_order_relaxed);
  if (VYC_UNLIKELY(offset == OFFSET_UNKNOWN)) {
    offset = find_offset();
    atomic_store_explicit(&number_offset, offset, memory_order_relaxed);
  }
  if (offset == OFFSET_NONE) return 0;
  pid_t number = 0;
  const pid_t process = getpid();
  const struct iovec to = {&number, sizeof number};
  const struct iovec from = {(void *)(thread_pointer + (uintptr_t)offset), sizeof number};
  const bool is_read = process_vm_readv(process, &to, 1, &from, 1, 0) == (ssize_t)sizeof number;
  const bool is_ours = is_read && number > 0 && syscall(SYS_tgkill, process, number, 0) == 0;
  return is_ours ? (uint32_t)number : 0;
}

/* ---- lending --------------------------------------------------------------------------------- */

static long futex(_Atomic uint32_t *word, int operation, const struct timespec *until) {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, 0, until, NULL, 0);
}

static bool is_lent_to(uint32_t number) {
  for (uint32_t i = 0; i < LENDINGS; i++)
    if ((atomic_load(&lendings[i].holder) & FUTEX_TID_MASK) == number) return true;
  return false;
}

/* Its own real-time priority, or one that was lent to it. The kernel does not lend other
 * priorities. */
static bool has_priority(void) {
  const int policy = sched_getscheduler(0);
  if (policy < 0) return false;
  const int kind = policy & ~SCHED_RESET_ON_FORK;
  return kind == SCHED_FIFO || kind == SCHED_RR || kind == SCHED_DEADLINE ||
         is_lent_to(own_number());
}

static lending *take_lending(const vyc_claim *claim) {
  for (uint32_t i = 0; i < LENDINGS; i++) {
    const vyc_claim *nobody = NULL;
    if (atomic_compare_exchange_strong(&lendings[i].claim, &nobody, claim)) return &lendings[i];
  }
  return NULL;
}

static void give_lending(lending *entry) {
  atomic_store(&entry->holder, 0);
  atomic_store(&entry->claim, NULL);
}

/* False: the kernel does not support it. */
static bool sleep_lending(lending *entry) {
  struct timespec until; /* of the clock that the kernel takes here */
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += LENT_NS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  if (futex(&entry->holder, FUTEX_LOCK_PI, &until) != 0) return errno == ETIMEDOUT;
  futex(&entry->holder, FUTEX_UNLOCK_PI, NULL);
  return true;
}

/* Sleep, with the priority lent to the holder of the claim. False: that is impossible. */
static bool lend(vyc_claim *claim) {
  uintptr_t was = atomic_load(claim);
  const uintptr_t holder = was & ~VYC_CLAIM_WAITED;
  if (holder == 0) return true;
  if (holder == vyc__thread_pointer() || !has_priority()) return false;
  const uint32_t number = number_of(holder);
  lending *entry = number == 0 ? NULL : take_lending(claim);
  if (entry == NULL) return false;
  atomic_store(&entry->holder, number);
  const bool is_told = atomic_compare_exchange_strong(claim, &was, holder | VYC_CLAIM_WAITED);
  const bool done = !is_told || sleep_lending(entry);
  give_lending(entry);
  return done;
}

void vyc__claim_notify(const vyc_claim *claim) {
  const uint32_t own = own_number();
  for (uint32_t i = 0; i < LENDINGS; i++) {
    lending *entry = &lendings[i];
    if (atomic_load(&entry->claim) != claim) continue;
    uint32_t holder = own;
    if (!atomic_compare_exchange_strong(&entry->holder, &holder, 0) &&
        (holder & FUTEX_TID_MASK) == own)
      futex(&entry->holder, FUTEX_UNLOCK_PI, NULL);
  }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void pause_a_moment(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void vyc__claim_wait(vyc_claim *claim) {
  uint32_t looks = 0;
  while (VYC_UNLIKELY(!vyc__claim_try(claim))) do {
      if (looks < SPINS)
        pause_a_moment();
      else if (looks < SPINS + YIELDS)
        sched_yield();
      else if (!lend(claim))
        vyc__sleep_us(VYC_SLEEP_MIN_US);
      looks++;
    } while (atomic_load_explicit(claim, memory_order_relaxed) != 0);
}
