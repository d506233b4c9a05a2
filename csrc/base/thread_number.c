/* Numbers of threads, which are returned when they end. */
#include "thread_number.h"

#include <pthread.h>
#include <stdbool.h>

_Thread_local uint32_t vyc__thread;

static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t numbers_given;  /* 1 to this have been given out at some time */
static uint32_t numbers_left; /* of ended threads, for new ones: the first entries of the array */
static uint32_t numbers[VYC_THREADS];
static pthread_key_t numbers_key;
static bool numbers_have_key, numbers_watch_forks;

/* At the end of a thread: if more code runs in it, that gets a new number. */
static void give_number(void *value) {
  const uint32_t number = (uint32_t)(uintptr_t)value;
  vyc__thread = 0;
  pthread_mutex_lock(&numbers_lock);
  if (number < VYC_THREADS) numbers[numbers_left++] = number;
  pthread_mutex_unlock(&numbers_lock);
}

static void lock_numbers(void) { pthread_mutex_lock(&numbers_lock); }
static void unlock_numbers(void) { pthread_mutex_unlock(&numbers_lock); }

/* Caller holds the lock. If memory is short, the next thread tries again. */
static void prepare(void) {
  if (!numbers_have_key) numbers_have_key = pthread_key_create(&numbers_key, give_number) == 0;
  if (!numbers_watch_forks)
    numbers_watch_forks = pthread_atfork(lock_numbers, unlock_numbers, unlock_numbers) == 0;
}

uint32_t vyc__thread_take(void) {
  pthread_mutex_lock(&numbers_lock);
  prepare();
  uint32_t number = VYC_THREADS;
  if (numbers_left > 0)
    number = numbers[--numbers_left];
  else if (numbers_given < VYC_THREADS - 1)
    number = ++numbers_given;
  const bool returns = numbers_have_key && number < VYC_THREADS;
  pthread_mutex_unlock(&numbers_lock);
  vyc__thread = number;
  if (returns)
    pthread_setspecific(numbers_key, (void *)(uintptr_t)number); /* otherwise it is never reused */
  return number;
}
