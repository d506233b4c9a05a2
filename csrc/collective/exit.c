/* Communicators that are open where the process ends.
 *
 * NCCL's library waits in the exit for what runs on its devices, and what waits for another rank
 * there never ends; and a communicator that NCCL still ends then may use what the driver has given
 * back. So the exit ends unfinished work first, and waits for NCCL's ends, both for some seconds.
 * Where other ranks stay longer, NCCL's threads cannot be stopped, and the process ends at once. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fork.h"
#include "room.h"

#define WORK_NS UINT64_C(1000000000) /* for all work of the process together */
#define ENDS_NS INT64_C(5000000000) /* for all of NCCL's ends: ranks of a machine end together */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static vyc_exit_entry *all; /* a communicator is closed after it has left the list */
static bool is_registered;
static uint32_t generation; /* of forks: a child has none of the threads */

/* NCCL's library was opened before, so this runs before what that does in the exit. */
static void at_exit(int exit_status, void *data) {
  (void)data;
  const uint64_t limit = vyc__now_ns() + WORK_NS;
  if (generation != atomic_load(&vyc__fork_generation)) return;
  pthread_mutex_lock(&lock);
  for (vyc_exit_entry *entry = all; entry != NULL; entry = entry->next) entry->end(entry, limit);
  pthread_mutex_unlock(&lock);
  if (vyc__nccl_await_ends(ENDS_NS)) return;
  fflush(NULL); /* what the rest of the exit would do */
  _exit(exit_status);
}

void vyc__exit_add(vyc_exit_entry *entry) {
  pthread_mutex_lock(&lock);
  if (!is_registered) {
    generation = atomic_load(&vyc__fork_generation);
    is_registered = on_exit(at_exit, NULL) == 0;
  }
  entry->next = all;
  all = entry;
  pthread_mutex_unlock(&lock);
}

void vyc__exit_remove(vyc_exit_entry *entry) {
  pthread_mutex_lock(&lock);
  vyc_exit_entry **link = &all;
  while (*link != NULL && *link != entry) link = &(*link)->next;
  if (*link != NULL) *link = entry->next;
  pthread_mutex_unlock(&lock);
}
