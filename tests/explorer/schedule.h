/* Logical threads that run one at a time, and who decides which: one schedule is a list of
 * preemptions, so whatever was found, by search or at random, is run again by that list.
 *
 * Everything that a schedule changes lies in memory that is put back before the next one: the heap
 * of what is explored, the program's own variables and its thread-locals. What must last lies in
 * `explorer`. */
#ifndef EXPLORER_SCHEDULE_H
#define EXPLORER_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "points.h"

#define EXPLORER_CALLERS 4u /* thread 0 sets up and judges, the others run at the same time */
#define EXPLORER_THREADS 6u /* behind them those that the library starts */
#define EXPLORER_DEVICE 7u  /* as a choice: the device ends a piece of work */
#define EXPLORER_PREEMPTIONS 12u
#define EXPLORER_POINTS 16384u /* of one schedule */
#define EXPLORER_TEXT 1024u
#define EXPLORER_SNAPSHOTS 15u

typedef struct explorer_preemption {
  uint32_t at; /* number of the point, from 0 */
  uint32_t to; /* thread, or EXPLORER_DEVICE */
} explorer_preemption;

typedef struct explorer_plan {
  uint32_t count;
  explorer_preemption list[EXPLORER_PREEMPTIONS];
} explorer_plan;

/* A point that was passed, and who could have run there instead. */
typedef struct explorer_passed {
  explorer_site *site;
  const char *function;
  uintptr_t object, other; /* 0: none; without the first, any */
  uint32_t steps;          /* of the device, before */
  uint8_t thread, choices, kind;
  uint8_t went; /* who ran then */
} explorer_passed;

typedef enum thread_state { THREAD_OFF, THREAD_READY, THREAD_WAITS, THREAD_YIELDED } thread_state;

typedef struct logical_thread {
  ucontext_t context;
  char *stack;
  thread_state state;
  const volatile void *waits_for;
  void (*run)(void *);
  void *(*started)(void *); /* by the library, in place of that */
  void *argument;
  explorer_site *site; /* where it stopped last */
  uint32_t streak; /* points since somebody else ran */
} logical_thread;

typedef struct explorer_snapshot {
  bool taken;
  size_t heap_bytes;
  uint64_t steps, clock_ns;
  char *heap, *variables, *locals;
  uint8_t *heap_pages, *variable_pages; /* what is known of each */
} explorer_snapshot;

typedef struct explorer_state {
  ucontext_t root;
  logical_thread threads[EXPLORER_THREADS];
  uint32_t current; /* logical thread */
  bool running;     /* threads from 1 on: points count, and may be preempted */
  const explorer_plan *plan;
  uint32_t next_preemption;
  uint32_t points;
  explorer_passed passed[EXPLORER_POINTS];
  uintptr_t named; /* the other object of the next point */
  uint32_t device_steps; /* not those of the plan */
  uint32_t idle; /* rounds in which nobody came on */
  /* The device ends one piece of work: of what is waited for, or the oldest; false: it has none. */
  bool (*device_step)(bool is_waited_for);
  bool (*device_has_work)(void);
  bool (*device_can_write)(uintptr_t address);
  void (*wrote)(int file); /* 8 bytes, as to an eventfd */
  char *locals[EXPLORER_THREADS]; /* thread-local variables of threads that do not run */
  char *locals_home;
  size_t locals_bytes;
  char *variables_home;
  size_t variables_bytes;
  char *heap, *heap_end;
  size_t heap_used; /* bytes */
  uint64_t live_blocks, live_bytes;
  bool heap_on;
  uint64_t clock_ns;
  uint64_t steps; /* points in all of this schedule, those of the judge too */
  bool failed;
  char failure[EXPLORER_TEXT];
  explorer_snapshot snapshots[EXPLORER_SNAPSHOTS];
  /* Sums of all schedules. */
  uint64_t schedules, switches;
  uint32_t state_count;
  uint64_t *states; /* hashes of where all threads stood at a switch */
  uint64_t *sharing; /* objects of this search, with the threads that used them */
  uint64_t uses; /* of an object by a thread in a new way */
  uint64_t skipped; /* preemptions that are the same as others */
} explorer_state;

extern explorer_state *const *const explorer_p;
#define explorer (*explorer_p)

void explorer_start(void);
/* Run on logical thread 0 alone; false: it failed. */
bool explorer_run_alone(void (*run)(void *), void *argument);
/* Run on threads 1 to `count` at the same time, by the plan. */
bool explorer_run_together(void (*const *run)(void *), void *const *arguments, uint32_t count,
                           const explorer_plan *plan);
/* Keep everything as it is now, and put it back. */
void explorer_keep(uint32_t snapshot);
void explorer_put_back(uint32_t snapshot);
/* Ends the schedule: it has shown a defect. */
__attribute__((format(printf, 1, 2), noreturn)) void explorer_fail(const char *format, ...);
/* The thread waits for something that others or the device bring about. */
void explorer_wait_round(void);
/* Bytes of the explored heap that were freed and written to since. */
void explorer_check_freed(void);
void *explorer_heap_take(size_t bytes);
/* In a call of the driver the device ends work that it was given. */
void explorer_device_steps(void);

/* ---- which preemptions matter (schedule_uses.c) ---------------------------------------------- */

/* Objects are told apart by the threads that use them; forgotten for another search. */
void explorer_forget_uses(void);
bool explorer_is_shared(uintptr_t object);
/* Preemptions of the schedule that ran last, from a point on, without those that are the same as
 * others; `is_last`: none is added behind them. At most `most`; returns how many. */
uint32_t explorer_find_preemptions(explorer_preemption *list, uint32_t most, uint32_t from,
                                   bool is_last);

#endif
