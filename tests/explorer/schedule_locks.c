/* Locks, conditions, futexes and the clock of logical threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>

#include "schedule_parts.h"

#define CLOCK_STEP_NS UINT64_C(5000000) /* a look at the clock: waits are few looks long */

/* The holder, and 1 more, is the first word of a mutex: zeros are one that is free. */
static uint32_t *holder_of(pthread_mutex_t *mutex) { return (uint32_t *)(void *)mutex; }

int explorer_mutex_init(pthread_mutex_t *mutex) {
  memset(mutex, 0, sizeof *mutex);
  return 0;
}

int explorer_mutex_lock(pthread_mutex_t *mutex) {
  if (*holder_of(mutex) == explorer->current + 1)
    explorer_fail("a thread takes a lock twice, at %s", where(explorer->current));
  while (*holder_of(mutex) != 0) wait_for(mutex);
  *holder_of(mutex) = explorer->current + 1;
  return 0;
}

int explorer_mutex_trylock(pthread_mutex_t *mutex) {
  if (*holder_of(mutex) != 0) return EBUSY;
  *holder_of(mutex) = explorer->current + 1;
  return 0;
}

int explorer_mutex_unlock(pthread_mutex_t *mutex) {
  if (*holder_of(mutex) != explorer->current + 1)
    explorer_fail("a thread gives a lock back that it has not, at %s", where(explorer->current));
  *holder_of(mutex) = 0;
  wake(mutex, EXPLORER_THREADS);
  return 0;
}

int explorer_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
  explorer_mutex_unlock(mutex);
  wait_for(cond);
  return explorer_mutex_lock(mutex);
}

/* Until a time that is soon: nothing is lost where the thread is not woken before. */
int explorer_cond_wait_shortly(pthread_mutex_t *mutex) {
  explorer_mutex_unlock(mutex);
  explorer_wait_round();
  return explorer_mutex_lock(mutex);
}

int explorer_cond_wake(pthread_cond_t *cond) {
  wake(cond, EXPLORER_THREADS);
  return 0;
}

int explorer_once(pthread_once_t *once, void (*call)(void)) {
  int *done = (int *)(void *)once;
  if (*done == 1) return 0;
  while (*done == 2) explorer_wait_round();
  if (*done == 1) return 0;
  *done = 2;
  call();
  *done = 1;
  return 0;
}

int explorer_yield(void) {
  explorer_wait_round();
  return 0;
}

int explorer_sleep(const struct timespec *time) {
  explorer->clock_ns += (uint64_t)time->tv_sec * UINT64_C(1000000000) + (uint64_t)time->tv_nsec;
  explorer_wait_round();
  return 0;
}

int explorer_clock(struct timespec *now_out) {
  explorer->clock_ns += CLOCK_STEP_NS;
  now_out->tv_sec = (time_t)(explorer->clock_ns / UINT64_C(1000000000));
  now_out->tv_nsec = (long)(explorer->clock_ns % UINT64_C(1000000000));
  return 0;
}

long explorer_write(int file, unsigned long bytes) {
  if (explorer->wrote == NULL || bytes != sizeof(uint64_t))
    explorer_fail("a write that is not modelled: %lu bytes to %d", bytes, file);
  explorer->wrote(file);
  return (long)bytes;
}

int explorer_key_create(pthread_key_t *key) {
  *key = 0;
  return 0;
}

static uint32_t own_id(void) { return 1000u + explorer->current; }

static long lock_pi(uint32_t *word) {
  while (*word != 0) {
    *word |= FUTEX_WAITERS;
    wait_for(word);
  }
  *word = own_id() | FUTEX_WAITERS; /* others may wait still */
  return 0;
}

static long futex(uint32_t *word, int operation, uint32_t value, const void *timeout) {
  switch (operation & FUTEX_CMD_MASK) {
  case FUTEX_WAIT:
  case FUTEX_WAIT_BITSET:
    if (*word != value) {
      errno = EAGAIN;
      return -1;
    }
    if (timeout != NULL || !explorer->running)
      explorer_wait_round();
    else
      wait_for(word);
    return 0;
  case FUTEX_WAKE:
  case FUTEX_WAKE_BITSET: wake(word, value); return 0;
  case FUTEX_LOCK_PI:
#ifdef FUTEX_LOCK_PI2
  case FUTEX_LOCK_PI2:
#endif
    return lock_pi(word);
  case FUTEX_UNLOCK_PI:
    if ((*word & FUTEX_TID_MASK) != own_id())
      explorer_fail("a thread gives a futex back that it has not");
    *word = 0;
    wake(word, EXPLORER_THREADS);
    return 0;
  default: explorer_fail("a futex operation that is not modelled: %d", operation);
  }
}

long explorer_syscall(long number, ...) {
  va_list arguments;
  if (number == SYS_gettid) return (long)own_id();
  if (number == SYS_sched_yield) return explorer_yield();
  if (number != SYS_futex) explorer_fail("a system call that is not modelled: %ld", number);
  va_start(arguments, number);
  uint32_t *word = va_arg(arguments, uint32_t *);
  const int operation = va_arg(arguments, int);
  const uint32_t value = va_arg(arguments, uint32_t);
  const void *timeout = NULL;
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI)
    timeout = va_arg(arguments, const void *);
  va_end(arguments);
  return futex(word, operation, value, timeout);
}
