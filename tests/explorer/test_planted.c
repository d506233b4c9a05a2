/* The explorer itself: it finds what was planted within two preemptions, and nothing where nothing
 * is. Compiled with points.h in front, as what it explores. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule.h"

#define LIST 64u /* preemptions of a schedule here */

static _Atomic int value, first_value;
static _Atomic bool taken;
static pthread_mutex_t first_lock, second_lock;
static _Atomic(int *) shared;
static int *kept;

static void add_in_two_steps(void *unused) {
  (void)unused;
  const int before = atomic_load(&value);
  atomic_store(&value, before + 1);
}

static void add_at_once(void *unused) {
  (void)unused;
  atomic_fetch_add(&value, 1);
}

static void add_by_comparing(void *unused) {
  (void)unused;
  int before = atomic_load_explicit(&value, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&value, &before, before + 1)) {
  }
}

static void add_under_lock(void *unused) {
  (void)unused;
  pthread_mutex_lock(&first_lock);
  add_in_two_steps(NULL);
  pthread_mutex_unlock(&first_lock);
}

static void add_under_claim(void *unused) {
  (void)unused;
  while (atomic_exchange(&taken, true)) sched_yield();
  add_in_two_steps(NULL);
  atomic_store(&taken, false);
}

/* Checked, then claimed: two may see that it is free. */
static void add_under_broken_claim(void *unused) {
  (void)unused;
  while (atomic_load(&taken)) sched_yield();
  atomic_store(&taken, true);
  add_in_two_steps(NULL);
  atomic_store(&taken, false);
}

static void lock_upwards(void *unused) {
  (void)unused;
  pthread_mutex_lock(&first_lock);
  pthread_mutex_lock(&second_lock);
  add_in_two_steps(NULL);
  pthread_mutex_unlock(&second_lock);
  pthread_mutex_unlock(&first_lock);
}

static void lock_downwards(void *unused) {
  (void)unused;
  pthread_mutex_lock(&second_lock);
  pthread_mutex_lock(&first_lock);
  add_in_two_steps(NULL);
  pthread_mutex_unlock(&first_lock);
  pthread_mutex_unlock(&second_lock);
}

static void write_shared(void *unused) {
  (void)unused;
  int *found = atomic_load(&shared);
  add_at_once(NULL);
  if (found != NULL) *found = 7;
}

static void free_shared(void *unused) {
  (void)unused;
  add_at_once(NULL);
  free(atomic_exchange(&shared, NULL));
}

/* In the way of the first thread alone: no preemption there is worth a schedule. */
static void add_between_others(void *unused) {
  atomic_fetch_add(&first_value, 1);
  add_in_two_steps(unused);
  atomic_fetch_add(&first_value, 1);
}

/* The second thread uses what only the first changes, once it sees that it has begun. */
static void follow(void *unused) {
  (void)unused;
  if (atomic_load(&value) == 1) atomic_fetch_add(&first_value, 1);
  if (atomic_load(&first_value) == 2)
    atomic_store(&value, 7);
  else
    atomic_fetch_add(&value, 1);
}

/* ---- the search ------------------------------------------------------------------------------ */

static void prepare(void *unused) {
  (void)unused;
  kept = malloc(sizeof *kept);
  atomic_store(&shared, kept);
}

static void judge(void *unused) {
  (void)unused;
  if (atomic_load(&value) != 2) explorer_fail("the value is %d", atomic_load(&value));
  free(atomic_exchange(&shared, NULL));
  explorer_check_freed();
}

static bool run(void (*first)(void *), void (*second)(void *), const explorer_plan *plan) {
  void (*const runs[])(void *) = {first, second};
  void *const none[] = {NULL, NULL};
  explorer_put_back(0);
  return explorer_run_together(runs, none, 2, plan) && explorer_run_alone(judge, NULL);
}

/* The fewest preemptions with which it fails; 3: none of up to two. */
static uint32_t fewest(void (*first)(void *), void (*second)(void *)) {
  uint32_t found = 3;
  if (!run(first, second, &(explorer_plan){0})) return 0;
  const uint32_t points = explorer->points;
  for (uint32_t i = 0; i < points + 4; i++)
    for (uint32_t a = 1; a <= 2; a++) {
      explorer_plan plan = {1, {{i, a}}};
      if (!run(first, second, &plan)) return 1;
      for (uint32_t j = i + 1; j < points + 8; j++)
        for (uint32_t b = 1; b <= 2; b++) {
          plan = (explorer_plan){2, {{i, a}, {j, b}}};
          if (!run(first, second, &plan)) found = 2;
        }
    }
  return found;
}

/* The same of the preemptions that matter, which must be as few. */
static uint32_t fewest_that_matter(void (*first)(void *), void (*second)(void *)) {
  explorer_preemption ones[LIST], twos[LIST];
  uint32_t found = 3;
  const uint64_t uses = explorer->uses;
  if (!run(first, second, &(explorer_plan){0})) return 0;
  const uint32_t count = explorer_find_preemptions(ones, LIST, 0, false);
  for (uint32_t i = 0; i < count; i++) {
    explorer_plan plan = {1, {ones[i]}};
    if (!run(first, second, &plan)) return 1;
    plan.count = 2;
    const uint32_t more = explorer_find_preemptions(twos, LIST, ones[i].at + 1, true);
    for (uint32_t j = 0; j < more; j++) {
      plan.list[1] = twos[j];
      if (!run(first, second, &plan)) found = 2;
    }
  }
  return explorer->uses == uses ? found : fewest_that_matter(first, second);
}

typedef struct row {
  const char *name;
  void (*first)(void *), (*second)(void *);
  uint32_t wanted; /* preemptions; 3: it is right */
} row;

int main(void) {
  static const row rows[] = {
      {"load and store", add_in_two_steps, add_in_two_steps, 1},
      {"load and store beside an addition", add_in_two_steps, add_at_once, 1},
      {"additions", add_at_once, add_at_once, 3},
      {"compared and exchanged", add_by_comparing, add_by_comparing, 3},
      {"under a lock", add_under_lock, add_under_lock, 3},
      {"under a claim", add_under_claim, add_under_claim, 3},
      {"under a claim of two steps", add_under_broken_claim, add_under_broken_claim, 2},
      {"two locks in one order", lock_upwards, lock_upwards, 3},
      {"two locks in two orders", lock_upwards, lock_downwards, 1},
      {"load and store between others", add_between_others, add_at_once, 1},
      {"what is used after a preemption alone", add_between_others, follow, 1},
      {"freed while it is written to", write_shared, free_shared, 1},
  };
  int failures = 0;
  explorer_start();
  if (!explorer_run_alone(prepare, NULL)) return 2;
  explorer_keep(0);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const uint32_t found = fewest(rows[i].first, rows[i].second);
    explorer_forget_uses();
    const uint32_t mattering = fewest_that_matter(rows[i].first, rows[i].second);
    if (found == rows[i].wanted && mattering == found) continue;
    printf("%s: %u preemptions, and %u that matter, not %u\n", rows[i].name, found, mattering,
           rows[i].wanted);
    failures++;
  }
  printf("%lu schedules, %d failed\n", (unsigned long)explorer->schedules, failures);
  return failures != 0;
}
