/* Logical threads, and who of them runs after each point. */
#define _GNU_SOURCE
#include "schedule_parts.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES ((size_t)512 << 10)
#define HEAP_PLACE UINT64_C(0x200000000000) /* the same in each run, so that schedules are, too */
#define STACK_PLACE UINT64_C(0x210000000000)
#define STREAK 4000u      /* points of one thread in a row: it looks for what others do */
#define IDLE_ROUNDS 60000u
#define STATES (1u << 22)

/* Not among the variables that are put back: the pointer never changes, what it points to is
 * elsewhere. */
static explorer_state *state_place;
explorer_state *const *const explorer_p = &state_place;

void *take_pages(size_t bytes, uint64_t place) {
  void *pages = mmap((void *)(uintptr_t)place, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    perror("mmap");
    exit(2);
  }
  return pages;
}

/* ---- failing --------------------------------------------------------------------------------- */

void explorer_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!explorer->failed) vsnprintf(explorer->failure, EXPLORER_TEXT, format, arguments);
  va_end(arguments);
  explorer->failed = true;
  explorer->heap_on = false;
  setcontext(&explorer->root);
  abort();
}

static void on_crash(int number) {
  const logical_thread *thread = &explorer->threads[explorer->current];
  explorer_fail("the program crashed (signal %d) in thread %u behind %s:%u", number,
                explorer->current, thread->site == NULL ? "its begin" : thread->site->file,
                thread->site == NULL ? 0 : thread->site->line);
}

/* ---- start ----------------------------------------------------------------------------------- */

static void watch_crashes(void) {
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  const stack_t stack = {.ss_sp = take_pages(STACK_BYTES, 0), .ss_size = STACK_BYTES};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_flags = SA_ONSTACK | SA_NODEFER};
  action.sa_handler = on_crash;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    sigaction(numbers[i], &action, NULL);
}

void explorer_start(void) {
  state_place = take_pages(sizeof *explorer, 0);
  find_variables();
  explorer->heap = take_pages(HEAP_BYTES, HEAP_PLACE);
  explorer->heap_end = explorer->heap + HEAP_BYTES;
  explorer->states = take_pages(STATES * sizeof *explorer->states, 0);
  prepare_uses();
  for (uint32_t i = 0; i < EXPLORER_THREADS; i++) {
    explorer->threads[i].stack =
        take_pages(STACK_BYTES, STACK_PLACE + i * (UINT64_C(4) << 20) + (UINT64_C(1) << 20));
    explorer->locals[i] = take_pages(explorer->locals_bytes + 1, 0);
    if (explorer->locals_bytes > 0)
      memcpy(explorer->locals[i], explorer->locals_home, explorer->locals_bytes);
  }
  watch_crashes();
}

/* ---- who runs -------------------------------------------------------------------------------- */

static void note_state(void) {
  uint64_t hash = UINT64_C(0x9E3779B97F4A7C15);
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) {
    hash ^= (uintptr_t)explorer->threads[i].site + explorer->threads[i].state;
    hash *= UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 29;
  }
  hash |= 1;
  for (uint32_t at = (uint32_t)hash % STATES, i = 0; i < 64; i++, at = (at + 1) % STATES) {
    if (explorer->states[at] == hash) return;
    if (explorer->states[at] != 0) continue;
    explorer->states[at] = hash;
    explorer->state_count++;
    return;
  }
}

static void change_locals(uint32_t from, uint32_t to) {
  memcpy(explorer->locals[from], explorer->locals_home, explorer->locals_bytes);
  memcpy(explorer->locals_home, explorer->locals[to], explorer->locals_bytes);
}

static void go_to(uint32_t to) {
  const uint32_t from = explorer->current;
  if (from == to) return;
  explorer->switches++;
  note_state();
  change_locals(from, to);
  explorer->threads[to].streak = 0;
  explorer->current = to;
  swapcontext(&explorer->threads[from].context, &explorer->threads[to].context);
}

const char *where(uint32_t thread) {
  static char text[160]; /* right before the end of a schedule alone */
  const explorer_site *site = explorer->threads[thread].site;
  snprintf(text, sizeof text, "%s:%u", site == NULL ? "?" : site->file,
           site == NULL ? 0 : site->line);
  return text;
}

static bool has_state(thread_state wanted) {
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++)
    if (explorer->threads[i].state == wanted) return true;
  return false;
}

/* The next that can run, 0: all have ended. When all wait for something the device goes on, as late
 * as it can be. */
static uint32_t next_thread(void) {
  for (;;) {
    for (uint32_t i = 1; i < EXPLORER_THREADS; i++) {
      const uint32_t to = (explorer->current + i - 1) % (EXPLORER_THREADS - 1) + 1;
      if (explorer->threads[to].state == THREAD_READY) return to;
    }
    if (!has_state(THREAD_YIELDED)) break;
    if (explorer->device_step != NULL && explorer->device_step(true)) {
      explorer->idle = 0;
      explorer->device_steps++;
    } else if (++explorer->idle > IDLE_ROUNDS)
      explorer_fail("nobody comes on: thread %u waits at %s", explorer->current,
                    where(explorer->current));
    for (uint32_t i = 1; i < EXPLORER_THREADS; i++)
      if (explorer->threads[i].state == THREAD_YIELDED) explorer->threads[i].state = THREAD_READY;
  }
  if (has_state(THREAD_WAITS)) explorer_fail("threads wait for each other's locks");
  return 0;
}

void explorer_wait_round(void) {
  if (!explorer->running) {
    if (explorer->device_step != NULL && explorer->device_step(true))
      explorer->idle = 0;
    else if (++explorer->idle > IDLE_ROUNDS)
      explorer_fail("nobody comes on, with one thread alone");
    return;
  }
  explorer->threads[explorer->current].state = THREAD_YIELDED;
  explorer->threads[explorer->current].streak = 0;
  const uint32_t to = next_thread();
  go_to(to);
}

void wait_for(const volatile void *object) {
  if (!explorer->running) explorer_fail("a lock was left by a thread that has ended");
  logical_thread *thread = &explorer->threads[explorer->current];
  thread->state = THREAD_WAITS;
  thread->waits_for = object;
  thread->streak = 0;
  const uint32_t to = next_thread();
  go_to(to);
}

void wake(const volatile void *object, uint32_t most) {
  for (uint32_t i = 1; i < EXPLORER_THREADS && most > 0; i++) {
    logical_thread *thread = &explorer->threads[i];
    if (thread->state != THREAD_WAITS || thread->waits_for != object) continue;
    thread->state = THREAD_READY;
    most--;
  }
}

static uint8_t choices(void) {
  uint8_t mask = 0;
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++)
    if (i != explorer->current && explorer->threads[i].state == THREAD_READY)
      mask = (uint8_t)(mask | 1u << i);
  if (explorer->device_has_work != NULL && explorer->device_has_work())
    mask = (uint8_t)(mask | 1u << EXPLORER_DEVICE);
  return mask;
}

void explorer_name(const volatile void *object) { explorer->named = (uintptr_t)object; }

void explorer_device_steps(void) {
  explorer->device_steps++;
  if (explorer->running) note_device_step();
}

/* Apart, because most points are passed by the thread that sets up and judges. */
static void pass(explorer_site *site, const char *function, const volatile void *object,
                 unsigned kind);

void explorer_point(explorer_site *site, const char *function, const volatile void *object,
                    unsigned kind) {
  explorer->steps++;
  if (explorer->running) pass(site, function, object, kind);
}

__attribute__((noinline)) static void pass(explorer_site *site, const char *function,
                                           const volatile void *object, unsigned kind) {
  explorer_state *const e = explorer;
  logical_thread *thread = &e->threads[e->current];
  thread->site = site;
  site->reached++;
  if (e->points >= EXPLORER_POINTS) explorer_fail("the schedule does not end");
  const uint32_t number = e->points++;
  explorer_passed *passed = &e->passed[number];
  *passed = (explorer_passed){site,      function,        (uintptr_t)object,
                              e->named,  e->device_steps, (uint8_t)e->current,
                              choices(), (uint8_t)kind,   (uint8_t)e->current};
  e->named = 0;
  note_uses(passed);
  while (e->plan != NULL && e->next_preemption < e->plan->count &&
         e->plan->list[e->next_preemption].at <= number) {
    const explorer_preemption *preemption = &e->plan->list[e->next_preemption++];
    passed->went = (uint8_t)preemption->to;
    if (preemption->to == EXPLORER_DEVICE) {
      site->preempted++;
      if (e->device_step != NULL && e->device_step(false)) e->idle = 0;
    } else if (preemption->to > 0 && preemption->to < EXPLORER_THREADS &&
               e->threads[preemption->to].state == THREAD_READY && preemption->to != e->current) {
      site->preempted++;
      go_to(preemption->to);
    }
  }
  if (++thread->streak > STREAK) explorer_wait_round();
}

/* ---- running --------------------------------------------------------------------------------- */

static void begin(void) {
  logical_thread *thread = &explorer->threads[explorer->current];
  thread->run(thread->argument);
  thread->state = THREAD_OFF;
  if (explorer->running) {
    const uint32_t to = next_thread();
    if (to != 0) {
      change_locals(explorer->current, to);
      explorer->current = to;
      setcontext(&explorer->threads[to].context);
    }
    change_locals(explorer->current, 0);
  }
  explorer->heap_on = false;
  setcontext(&explorer->root);
}

static void prepare(uint32_t number, void (*run)(void *), void *argument) {
  logical_thread *thread = &explorer->threads[number];
  getcontext(&thread->context);
  thread->context.uc_stack.ss_sp = thread->stack;
  thread->context.uc_stack.ss_size = STACK_BYTES;
  thread->context.uc_link = NULL;
  thread->run = run;
  thread->argument = argument;
  thread->state = THREAD_READY;
  thread->site = NULL;
  thread->streak = 0;
  makecontext(&thread->context, begin, 0);
}

static void run_started(void *argument) { explorer->threads[explorer->current].started(argument); }

/* While there is no schedule, the whole of it at once. */
static int run_in_place(pthread_t *thread_out, void *(*run)(void *), void *argument) {
  const uint32_t from = explorer->current;
  change_locals(from, EXPLORER_CALLERS);
  explorer->current = EXPLORER_CALLERS;
  run(argument);
  explorer->current = from;
  change_locals(EXPLORER_CALLERS, from);
  *thread_out = (pthread_t)EXPLORER_CALLERS;
  return 0;
}

/* It begins where the others wait or end, or by a preemption. */
int explorer_thread_create(pthread_t *thread_out, void *(*run)(void *), void *argument) {
  if (!explorer->running) return run_in_place(thread_out, run, argument);
  uint32_t number = EXPLORER_CALLERS;
  while (explorer->threads[number].state != THREAD_OFF) {
    if (++number < EXPLORER_THREADS) continue;
    explorer_wait_round();
    number = EXPLORER_CALLERS;
  }
  prepare(number, run_started, argument);
  explorer->threads[number].started = run;
  *thread_out = (pthread_t)number;
  return 0;
}

pthread_t explorer_thread_self(void) { return (pthread_t)explorer->current; }

static bool run_from_root(uint32_t first) {
  explorer->current = first;
  explorer->idle = 0;
  explorer->heap_on = true;
  swapcontext(&explorer->root, &explorer->threads[first].context);
  explorer->heap_on = false;
  explorer->running = false;
  return !explorer->failed;
}

bool explorer_run_alone(void (*run)(void *), void *argument) {
  explorer->running = false;
  prepare(0, run, argument);
  return run_from_root(0);
}

bool explorer_run_together(void (*const *run)(void *), void *const *arguments, uint32_t count,
                           const explorer_plan *plan) {
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) explorer->threads[i].state = THREAD_OFF;
  for (uint32_t i = 0; i < count; i++) prepare(i + 1, run[i], arguments[i]);
  explorer->plan = plan;
  explorer->next_preemption = 0;
  explorer->points = 0;
  explorer->named = 0;
  explorer->device_steps = 0;
  explorer->running = true;
  explorer->schedules++;
  change_locals(0, 1);
  return run_from_root(1);
}
