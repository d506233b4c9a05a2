/* Room for the arguments of a call, without a GIL: made once for each of the calls that there are
 * at a time, found again from then on, and never given to two. */
#define _GNU_SOURCE
#include <Python.h>
#undef Py_GIL_DISABLED
#define Py_GIL_DISABLED 1
#include "call/spares.h"

#include <pthread.h>
#include <stdio.h>

#define THREADS 64
#define ROUNDS 200

typedef struct room {
  vyre_spare spare;
  int owner; /* 0: nobody */
} room;

static vyre_spares spares;
static pthread_barrier_t begins, all_have;
static int made;

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void *call(void *number) {
  const int self = (int)(intptr_t)number;
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&begins);
    room *mine = vyre_spare_take(&spares);
    if (mine == NULL) {
      mine = calloc(1, sizeof *mine);
      __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
    }
    check(__atomic_exchange_n(&mine->owner, self, __ATOMIC_RELAXED) == 0, "two have one room");
    pthread_barrier_wait(&all_have);
    check(__atomic_exchange_n(&mine->owner, 0, __ATOMIC_RELAXED) == self, "two had one room");
    vyre_spare_give(&spares, mine);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&begins, NULL, THREADS);
  pthread_barrier_init(&all_have, NULL, THREADS);
  for (int i = 0; i < THREADS; i++)
    check(pthread_create(&threads[i], NULL, call, (void *)(intptr_t)(i + 1)) == 0, "no thread");
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  check(made == THREADS, "room was made again");
  vyre_spares_free(&spares);
  puts("spares: passed");
  return 0;
}
