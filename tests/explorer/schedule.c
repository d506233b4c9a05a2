/* Logical threads, points, locks, and the memory that a schedule may change. */
#define _GNU_SOURCE
#include "schedule.h"

#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define STACK_BYTES ((size_t)512 << 10)
#define HEAP_BYTES ((size_t)16 << 20)
#define HEAP_PLACE UINT64_C(0x200000000000) /* the same in each run, so that schedules are, too */
#define STACK_PLACE UINT64_C(0x210000000000)
#define STREAK 4000u      /* points of one thread in a row: it looks for what others do */
#define IDLE_ROUNDS 60000u
#define CLOCK_STEP_NS UINT64_C(5000000) /* a look at the clock: waits are few looks long */
#define STATES (1u << 22)
#define SHARED_OBJECTS (1u << 14)

/* Not among the variables that are put back: the pointer never changes, what it points to is
 * elsewhere. */
static explorer_state *state_place;
explorer_state *const *const explorer_p = &state_place;

static void *take_pages(size_t bytes, uint64_t place) {
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

/* The program's own variables and thread-locals, which are those of what is explored. */
static int find_variables(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  (void)data;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_LOAD && (header->p_flags & PF_W) != 0) {
      explorer->variables_home = (char *)(info->dlpi_addr + header->p_vaddr);
      explorer->variables_bytes = header->p_memsz;
    }
    if (header->p_type == PT_TLS) {
      explorer->locals_home = info->dlpi_tls_data;
      explorer->locals_bytes = header->p_memsz;
    }
  }
  /* What was relocated is read-only now, and never changes. */
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_GNU_RELRO) continue;
    const uintptr_t end = (info->dlpi_addr + header->p_vaddr + header->p_memsz) & ~(uintptr_t)4095;
    const uintptr_t begin = (uintptr_t)explorer->variables_home;
    if (end <= begin) continue;
    explorer->variables_home = (char *)end;
    explorer->variables_bytes -= end - begin;
  }
  return 1; /* the program is the first */
}

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
  dl_iterate_phdr(find_variables, NULL);
  explorer->heap = take_pages(HEAP_BYTES, HEAP_PLACE);
  explorer->heap_end = explorer->heap + HEAP_BYTES;
  explorer->states = take_pages(STATES * sizeof *explorer->states, 0);
  explorer->sharing = take_pages(SHARED_OBJECTS * sizeof *explorer->sharing, 0);
  for (uint32_t i = 0; i < EXPLORER_THREADS; i++) {
    explorer->threads[i].stack =
        take_pages(STACK_BYTES, STACK_PLACE + i * (UINT64_C(4) << 20) + (UINT64_C(1) << 20));
    explorer->locals[i] = take_pages(explorer->locals_bytes + 1, 0);
    if (explorer->locals_bytes > 0)
      memcpy(explorer->locals[i], explorer->locals_home, explorer->locals_bytes);
  }
  watch_crashes();
}

/* ---- memory that is put back ----------------------------------------------------------------- */

extern explorer_site __start_explorer_sites[], __stop_explorer_sites[];

#define PAGE ((size_t)4096)
#define LOOK_EVERY 64u /* schedules, at pages of long tables that nobody has written to yet */
#define LONG_TABLE 16u /* pages */

enum { /* of a page */
       PAGE_IS_LOOKED_AT = 0,
       PAGE_CHANGES, /* so it is put back without a look */
       PAGE_IS_ZERO  /* among many: of a table that is hardly ever used */
};

static void put_back_range(char *home, const char *kept, size_t bytes, uint8_t *pages, bool all) {
  for (size_t at = 0; at < bytes; at += PAGE) {
    const size_t part = bytes - at < PAGE ? bytes - at : PAGE;
    uint8_t *const page = &pages[at / PAGE];
    if (*page == PAGE_IS_ZERO && !all) continue;
    if (*page != PAGE_CHANGES && memcmp(home + at, kept + at, part) != 0) *page = PAGE_CHANGES;
    if (*page == PAGE_CHANGES) memcpy(home + at, kept + at, part);
  }
}

static void find_long_tables(const char *kept, size_t bytes, uint8_t *pages) {
  size_t zeros = 0;
  for (size_t at = 0; at + PAGE <= bytes; at += PAGE) {
    const bool is_zero = kept[at] == 0 && memcmp(kept + at, kept + at + 1, PAGE - 1) == 0;
    zeros = is_zero ? zeros + 1 : 0;
    if (zeros == LONG_TABLE) memset(&pages[at / PAGE + 1 - LONG_TABLE], PAGE_IS_ZERO, LONG_TABLE);
    if (zeros > LONG_TABLE) pages[at / PAGE] = PAGE_IS_ZERO;
  }
}

/* The sites count on through all schedules: what is in front of them, and behind. */
typedef struct parts {
  size_t begin, end;
  uint8_t *behind;
} parts;

static parts parts_of(const explorer_snapshot *snapshot) {
  const size_t begin = (size_t)((char *)__start_explorer_sites - explorer->variables_home);
  const size_t end = (size_t)((char *)__stop_explorer_sites - explorer->variables_home);
  return (parts){begin, end, snapshot->variable_pages + begin / PAGE + 1};
}

static void put_variables_back(const explorer_snapshot *snapshot, bool all) {
  char *const home = explorer->variables_home;
  const parts p = parts_of(snapshot);
  put_back_range(home, snapshot->variables, p.begin, snapshot->variable_pages, all);
  put_back_range(home + p.end, snapshot->variables + p.end, explorer->variables_bytes - p.end,
                 p.behind, all);
}

void explorer_keep(uint32_t number) {
  explorer_snapshot *snapshot = &explorer->snapshots[number];
  snapshot->taken = true;
  snapshot->heap_bytes = explorer->heap_used;
  snapshot->steps = explorer->steps;
  snapshot->clock_ns = explorer->clock_ns;
  snapshot->heap = take_pages(explorer->heap_used + 1, 0);
  snapshot->heap_pages = take_pages(explorer->heap_used / PAGE + 1, 0);
  snapshot->variables = take_pages(explorer->variables_bytes + 1, 0);
  snapshot->variable_pages = take_pages(explorer->variables_bytes / PAGE + 3, 0);
  snapshot->locals = take_pages(EXPLORER_THREADS * explorer->locals_bytes + 1, 0);
  memcpy(snapshot->heap, explorer->heap, explorer->heap_used);
  memcpy(snapshot->variables, explorer->variables_home, explorer->variables_bytes);
  const parts p = parts_of(snapshot);
  find_long_tables(snapshot->variables + p.end, explorer->variables_bytes - p.end, p.behind);
  memcpy(explorer->locals[0], explorer->locals_home, explorer->locals_bytes);
  for (uint32_t i = 0; i < EXPLORER_THREADS; i++)
    memcpy(snapshot->locals + i * explorer->locals_bytes, explorer->locals[i],
           explorer->locals_bytes);
}

void explorer_put_back(uint32_t number) {
  const explorer_snapshot *snapshot = &explorer->snapshots[number];
  const bool all = explorer->failed || explorer->schedules % LOOK_EVERY == 0;
  put_back_range(explorer->heap, snapshot->heap, snapshot->heap_bytes, snapshot->heap_pages, true);
  explorer->heap_used = snapshot->heap_bytes;
  put_variables_back(snapshot, all);
  for (uint32_t i = 0; i < EXPLORER_THREADS; i++)
    memcpy(explorer->locals[i], snapshot->locals + i * explorer->locals_bytes,
           explorer->locals_bytes);
  memcpy(explorer->locals_home, explorer->locals[0], explorer->locals_bytes);
  explorer->failed = false;
  explorer->failure[0] = '\0';
  explorer->steps = snapshot->steps;
  explorer->clock_ns = snapshot->clock_ns;
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

static const char *where(uint32_t thread) {
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
    if (explorer->device_step != NULL && explorer->device_step(true))
      explorer->idle = 0;
    else if (++explorer->idle > IDLE_ROUNDS)
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

static uint8_t choices(void) {
  uint8_t mask = 0;
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++)
    if (i != explorer->current && explorer->threads[i].state == THREAD_READY)
      mask = (uint8_t)(mask | 1u << i);
  if (explorer->device_has_work != NULL && explorer->device_has_work())
    mask = (uint8_t)(mask | 1u << EXPLORER_DEVICE);
  return mask;
}

static uint64_t *sharing_of(uintptr_t object) {
  uint32_t at = (uint32_t)((object >> 2) * UINT64_C(0x9E3779B97F4A7C15) >> 50);
  for (uint32_t i = 0; i < 256; i++, at = (at + 1) % SHARED_OBJECTS)
    if (explorer->sharing[at] == 0 || explorer->sharing[at] >> 8 == object)
      return &explorer->sharing[at];
  return NULL;
}

void explorer_forget_sharing(void) {
  memset(explorer->sharing, 0, SHARED_OBJECTS * sizeof *explorer->sharing);
}

bool explorer_is_shared(uintptr_t object) {
  const uint64_t *entry = sharing_of(object);
  const uint64_t mask = entry == NULL ? 0 : *entry & 0xff;
  return object == 0 || (mask & (mask - 1)) != 0;
}

static void note_sharing(uintptr_t object) {
  uint64_t *entry = sharing_of(object);
  if (entry != NULL)
    *entry = (uint64_t)object << 8 | (*entry & 0xff) | UINT64_C(1) << explorer->current;
}

/* Apart, because most points are passed by the thread that sets up and judges. */
static void pass(explorer_site *site, const char *function, const volatile void *object, int kind);

void explorer_point(explorer_site *site, const char *function, const volatile void *object,
                    int kind) {
  explorer->steps++;
  if (explorer->running) pass(site, function, object, kind);
}

__attribute__((noinline)) static void pass(explorer_site *site, const char *function,
                                           const volatile void *object, int kind) {
  explorer_state *const e = explorer;
  logical_thread *thread = &e->threads[e->current];
  thread->site = site;
  site->reached++;
  if (e->points >= EXPLORER_POINTS) explorer_fail("the schedule does not end");
  const uint32_t number = e->points++;
  explorer_passed *passed = &e->passed[number];
  *passed = (explorer_passed){site,
                              function,
                              (uintptr_t)object,
                              (uint8_t)e->current,
                              choices(),
                              (uint8_t)(kind == EXPLORER_OWN),
                              (uint8_t)e->current};
  if (object != NULL) note_sharing((uintptr_t)object);
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
  explorer->running = true;
  explorer->schedules++;
  change_locals(0, 1);
  return run_from_root(1);
}

/* ---- locks and time -------------------------------------------------------------------------- */

/* The holder, and 1 more, is the first word of a mutex: zeros are one that is free. */
static uint32_t *holder_of(pthread_mutex_t *mutex) { return (uint32_t *)(void *)mutex; }

int explorer_mutex_init(pthread_mutex_t *mutex) {
  memset(mutex, 0, sizeof *mutex);
  return 0;
}

static void wait_for(const volatile void *object) {
  if (!explorer->running) explorer_fail("a lock was left by a thread that has ended");
  logical_thread *thread = &explorer->threads[explorer->current];
  thread->state = THREAD_WAITS;
  thread->waits_for = object;
  thread->streak = 0;
  const uint32_t to = next_thread();
  go_to(to);
}

static void wake(const volatile void *object, uint32_t most) {
  for (uint32_t i = 1; i < EXPLORER_THREADS && most > 0; i++) {
    logical_thread *thread = &explorer->threads[i];
    if (thread->state != THREAD_WAITS || thread->waits_for != object) continue;
    thread->state = THREAD_READY;
    most--;
  }
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

/* ---- the heap -------------------------------------------------------------------------------- */

/* Nothing is used twice in one schedule, so whoever uses what was freed is seen. */
typedef struct block_head {
  size_t bytes;
  struct block_head *next_freed;
  uint64_t is_live;
  char padding[40];
} block_head;

/* The list of what was freed is in the heap, and put back with it. */
static block_head **freed_list(void) { return (block_head **)(void *)explorer->heap; }
static uint64_t *live_count(void) { return (uint64_t *)(void *)(explorer->heap + 8); }

static block_head *head_of(void *memory) { return (block_head *)(void *)((char *)memory - 64); }

static bool is_ours(const void *memory) {
  return (const char *)memory >= explorer->heap && (const char *)memory < explorer->heap_end;
}

void *explorer_heap_take(size_t bytes) {
  if (explorer->heap_used == 0) {
    explorer->heap_used = 64;
    memset(explorer->heap, 0, 64);
  }
  const size_t room = sizeof(block_head) + ((bytes + 63) & ~(size_t)63);
  if (explorer->heap_used + room > HEAP_BYTES) explorer_fail("the heap of the explorer is full");
  block_head *head = (block_head *)(void *)(explorer->heap + explorer->heap_used);
  explorer->heap_used += room;
  *head = (block_head){.bytes = bytes};
  return head + 1;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);

static bool is_on(void) { return state_place != NULL && explorer->heap_on; }

void *__wrap_malloc(size_t bytes) {
  if (!is_on()) return __real_malloc(bytes);
  void *memory = explorer_heap_take(bytes);
  head_of(memory)->is_live = 1;
  ++*live_count();
  memset(memory, 0xA5, bytes);
  return memory;
}

void *__wrap_calloc(size_t count, size_t bytes) {
  if (!is_on()) return __real_calloc(count, bytes);
  void *memory = __wrap_malloc(count * bytes);
  return memset(memory, 0, count * bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  if (!is_on()) return __real_aligned_alloc(alignment, bytes);
  if (alignment > 64) explorer_fail("an alignment of %zu is not modelled", alignment);
  return __wrap_malloc(bytes);
}

void __wrap_free(void *memory) {
  if (memory == NULL) return;
  if (!is_ours(memory)) {
    __real_free(memory);
    return;
  }
  block_head *head = head_of(memory);
  if (head->is_live == 0) explorer_fail("memory is freed twice");
  head->is_live = 0;
  --*live_count();
  memset(memory, 0xDD, head->bytes);
  head->next_freed = *freed_list();
  *freed_list() = head;
}

void *__wrap_realloc(void *memory, size_t bytes) {
  if (!is_on() || (memory != NULL && !is_ours(memory))) return __real_realloc(memory, bytes);
  void *fresh = __wrap_malloc(bytes);
  if (memory == NULL) return fresh;
  const size_t before = head_of(memory)->bytes;
  memcpy(fresh, memory, before < bytes ? before : bytes);
  __wrap_free(memory);
  return fresh;
}

void explorer_check_freed(void) {
  for (const block_head *head = *freed_list(); head != NULL; head = head->next_freed) {
    const unsigned char *bytes = (const unsigned char *)(head + 1);
    const size_t count = head->bytes;
    if (count > 0 && (bytes[0] != 0xDD || memcmp(bytes, bytes + 1, count - 1) != 0))
      explorer_fail("%zu bytes were written to after they were freed", count);
  }
  if (*live_count() != 0)
    explorer_fail("%lu blocks of host memory were not freed", (unsigned long)*live_count());
}
