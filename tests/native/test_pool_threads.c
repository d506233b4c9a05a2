/* The pools under threads: what one left another finds, no two have the same memory, statistics are
 * exact, and a context closes under all that. */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>

#include "pool_test.h"

static void *take_one(void *argument) {
  vyc_context *context = argument;
  for (int kind = 0; kind < KINDS; kind++) {
    const piece p = new_piece(kind, context, 3000);
    end_piece(&p);
  }
  return NULL;
}

static void a_thread_finds_what_another_one_left(void) {
  vyc_context *context = open_context();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, take_one, context) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  take_one(context);
  for (int kind = 0; kind < KINDS; kind++) {
    const stats s = read_stats(kind, context);
    CHECK(s.misses == 1 && s.hits == 1);
  }
  vyc_context_release(context);
  check_nothing_lives();
}

enum { WORKERS = 4, TURNS = 3000, SHELF = 32 };

typedef struct shelf {
  vyc_context *context;
  pthread_mutex_t lock; /* the caller's own: a handle has one user at a time */
  piece pieces[SHELF];
  uint64_t allocations[KINDS];
  _Atomic int workers;
} shelf;

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void stamp(const piece *p, uint8_t value) {
  if (p->bytes == 0) return;
  p->data[0] = value;
  p->data[p->bytes - 1] = value;
}

/* Puts a fresh piece on the shelf and ends what lay there, mostly another thread's. */
static void *work(void *argument) {
  shelf *s = argument;
  uint32_t state = (uint32_t)(uintptr_t)&state;
  for (int turn = 0; turn < TURNS; turn++) {
    const int kind = (int)(next_random(&state) % KINDS);
    piece mine = new_piece(kind, s->context, SIZES[next_random(&state) % (SIZE_COUNT - 1)]);
    const uint32_t place = next_random(&state) % SHELF;
    stamp(&mine, (uint8_t)place);
    pthread_mutex_lock(&s->lock);
    const piece old = s->pieces[place];
    s->pieces[place] = mine;
    s->allocations[kind]++;
    pthread_mutex_unlock(&s->lock);
    if (old.data == NULL) continue;
    if (old.bytes > 0) CHECK(old.data[0] == place && old.data[old.bytes - 1] == place);
    end_piece(&old);
  }
  s->workers--;
  return NULL;
}

static void *disturb(void *argument) {
  shelf *s = argument;
  while (s->workers > 0) {
    for (int kind = 0; kind < KINDS; kind++) CHECK(read_stats(kind, s->context).count < 1000);
    OK(vyc_context_trim(s->context));
    set_budget(DEVICE, s->context, 8 * MIB);
    sched_yield();
  }
  return NULL;
}

static void threads_share_the_pools(void) {
  shelf *s = calloc(1, sizeof *s);
  CHECK(s != NULL);
  pthread_t threads[WORKERS + 1];
  s->context = open_context();
  s->workers = WORKERS;
  CHECK(pthread_mutex_init(&s->lock, NULL) == 0);
  for (int i = 0; i <= WORKERS; i++)
    CHECK(pthread_create(&threads[i], NULL, i < WORKERS ? work : disturb, s) == 0);
  for (int i = 0; i <= WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < SHELF; i++)
    if (s->pieces[i].data != NULL) end_piece(&s->pieces[i]);
  OK(vyc_context_trim(s->context));
  for (int kind = 0; kind < KINDS; kind++) {
    const stats t = read_stats(kind, s->context);
    CHECK(t.live == 0 && t.count == 0 && t.idle == 0);
    CHECK(t.hits + t.misses == s->allocations[kind] && t.frees == t.misses);
  }
  vyc_context_release(s->context);
  check_nothing_lives();
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static void *work_until_closed(void *argument) {
  shelf *s = argument;
  uint32_t state = (uint32_t)(uintptr_t)&state;
  for (;;) {
    piece p;
    const vyc_status status =
        vyc_buffer_try_alloc(&p.buffer, s->context, 100 + next_random(&state) % 9000);
    if (status == VYC_NOT_READY &&
        vyc_buffer_alloc(&p.buffer, s->context, 100 + next_random(&state) % 9000) != VYC_OK)
      return NULL;
    if (vyc_buffer_try_release(p.buffer) != VYC_OK) vyc_buffer_release(p.buffer);
  }
}

/* The threads go on with a context of their own after that: magazines are the context's. */
static void a_context_closes_under_its_magazines(void) {
  for (int round = 0; round < 20; round++) {
    shelf s = {.context = open_context()};
    pthread_t threads[WORKERS];
    const piece kept[KINDS] = {new_piece(DEVICE, s.context, 100),
                               new_piece(PINNED, s.context, 100)};
    for (int i = 0; i < WORKERS; i++)
      CHECK(pthread_create(&threads[i], NULL, work_until_closed, &s) == 0);
    for (int i = 0; i < round; i++) sched_yield();
    OK(vyc_context_close(s.context));
    for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(count_of("allocations") == 0 && count_of("pinned") == 1);
    kept[PINNED].data[99] = 1;
    vyc_context_release(s.context);
    for (int kind = 0; kind < KINDS; kind++) end_piece(&kept[kind]);
    check_nothing_lives();
  }
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  a_thread_finds_what_another_one_left();
  threads_share_the_pools();
  a_context_closes_under_its_magazines();
  puts("pool_threads: passed");
  return 0;
}
