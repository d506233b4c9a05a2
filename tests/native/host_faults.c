/* See host_faults.h. What is counted are calls that give memory or fail for want of it; addresses
 * are remembered until somebody frees them. */
#define _GNU_SOURCE
#include "host_faults.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which call fails ------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t first, last; /* of the calls that fail; 0: none */
static uint64_t asked, failed;

void host_faults_arm(uint64_t nth, uint64_t count) {
  pthread_mutex_lock(&lock);
  asked = failed = 0;
  first = nth;
  last = count > UINT64_MAX - nth ? UINT64_MAX : nth + count - 1;
  pthread_mutex_unlock(&lock);
}

uint64_t host_faults_disarm(void) {
  pthread_mutex_lock(&lock);
  const uint64_t count = failed;
  first = last = 0;
  pthread_mutex_unlock(&lock);
  return count;
}

static bool fails(void) {
  pthread_mutex_lock(&lock);
  asked++;
  const bool now = first != 0 && asked >= first && asked <= last;
  failed += now;
  pthread_mutex_unlock(&lock);
  if (now) errno = ENOMEM;
  return now;
}

/* ---- what is live ---------------------------------------------------------------------------- */

#define ROOM (UINT32_C(1) << 16) /* far more than a test has at a time */

static struct place {
  const void *address; /* NULL: free */
  const void *caller;
  uint64_t number;
} places[ROOM];
static uint64_t made;
static _Atomic uint64_t live;

static uint32_t home_of(const void *address) {
  return (uint32_t)(((uintptr_t)address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 48);
}

static void remember(const void *address, const void *caller) {
  if (address == NULL) return;
  pthread_mutex_lock(&lock);
  uint32_t at = home_of(address);
  while (places[at].address != NULL) at = (at + 1) % ROOM;
  places[at] = (struct place){address, caller, ++made};
  if (atomic_fetch_add(&live, 1) == ROOM / 2) abort();
  pthread_mutex_unlock(&lock);
}

/* What was put further on because this place was taken moves up. */
static void vacate(uint32_t hole) {
  for (uint32_t at = (hole + 1) % ROOM; places[at].address != NULL; at = (at + 1) % ROOM) {
    if ((at - home_of(places[at].address)) % ROOM < (at - hole) % ROOM) continue;
    places[hole] = places[at];
    hole = at;
  }
  places[hole].address = NULL;
}

/* False: not one of those that are counted. */
static bool forget(const void *address) {
  if (address == NULL || atomic_load(&live) == 0) return false;
  pthread_mutex_lock(&lock);
  uint32_t at = home_of(address);
  while (places[at].address != NULL && places[at].address != address) at = (at + 1) % ROOM;
  const bool found = places[at].address != NULL;
  if (found) {
    vacate(at);
    atomic_fetch_sub(&live, 1);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

uint64_t host_faults_live(void) { return atomic_load(&live); }

uint64_t host_faults_made(void) {
  pthread_mutex_lock(&lock);
  const uint64_t count = made;
  pthread_mutex_unlock(&lock);
  return count;
}

void host_faults_tell(uint64_t before) {
  for (uint32_t i = 0; i < ROOM; i++)
    if (places[i].address != NULL && places[i].number > before)
      fprintf(stderr, "  allocation %llu, made at %p\n", (unsigned long long)places[i].number,
              places[i].caller);
}

/* ---- the calls ------------------------------------------------------------------------------- */

#define CALLER __builtin_return_address(0)

#ifdef HOST_FAULTS_INTERPOSE

#include <link.h>

/* glibc's own names of what stands behind the public ones. */
#define COUNTED is_ours(CALLER)
#define CALL(name) name
#define REAL(name) __libc_##name
#define REAL_aligned_alloc __libc_memalign

static struct range {
  uintptr_t begin, end;
} ranges[64];
static _Atomic uint32_t range_count;

static bool is_ours(const void *caller) {
  for (uint32_t i = 0; i < atomic_load_explicit(&range_count, memory_order_acquire); i++)
    if ((uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end) return true;
  return false;
}

static int note(struct dl_phdr_info *info, size_t size, void *count) {
  uint32_t *const n = count;
  (void)size;
  if (strstr(info->dlpi_name, "/libvyre_cuda.so") == NULL &&
      strstr(info->dlpi_name, "/vyre_cuda/_native/") == NULL)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
    if (*n == sizeof ranges / sizeof ranges[0]) abort();
    ranges[*n].begin = (uintptr_t)(info->dlpi_addr + part->p_vaddr);
    ranges[*n].end = ranges[*n].begin + part->p_memsz;
    ++*n;
  }
  return 0;
}

/* What is loaded by now is counted; how many pieces of code that is. */
uint32_t host_faults_watch(void);
uint32_t host_faults_watch(void) {
  uint32_t count = 0;
  atomic_store(&range_count, 0);
  dl_iterate_phdr(note, &count);
  atomic_store_explicit(&range_count, count, memory_order_release);
  return count;
}

#else

#define COUNTED true
#define CALL(name) __wrap_##name
#define REAL(name) __real_##name
#define REAL_aligned_alloc REAL(aligned_alloc)

#endif

void *REAL(malloc)(size_t bytes);
void *REAL(calloc)(size_t count, size_t bytes);
void *REAL(realloc)(void *address, size_t bytes);
void *REAL_aligned_alloc(size_t alignment, size_t bytes);
void REAL(free)(void *address);

void *CALL(malloc)(size_t bytes) {
  if (!COUNTED) return REAL(malloc)(bytes);
  void *const address = fails() ? NULL : REAL(malloc)(bytes);
  remember(address, CALLER);
  return address;
}

void *CALL(calloc)(size_t count, size_t bytes) {
  if (!COUNTED) return REAL(calloc)(count, bytes);
  void *const address = fails() ? NULL : REAL(calloc)(count, bytes);
  remember(address, CALLER);
  return address;
}

void *CALL(aligned_alloc)(size_t alignment, size_t bytes) {
  if (!COUNTED) return REAL_aligned_alloc(alignment, bytes);
  void *const address = fails() ? NULL : REAL_aligned_alloc(alignment, bytes);
  remember(address, CALLER);
  return address;
}

/* Forgotten first: once it is free another thread may be given the address. */
void *CALL(realloc)(void *address, size_t bytes) {
  if (COUNTED && fails()) return NULL;
  const bool counted = forget(address) || COUNTED;
  void *const fresh = REAL(realloc)(address, bytes);
  if (counted) remember(fresh, CALLER);
  return fresh;
}

void CALL(free)(void *address) {
  forget(address);
  REAL(free)(address);
}

#ifndef HOST_FAULTS_INTERPOSE

FILE *__real_fopen(const char *path, const char *mode);
int __real_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __real_pthread_key_create(pthread_key_t *key, void (*destroy)(void *));
FILE *__wrap_fopen(const char *path, const char *mode);
int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destroy)(void *));

FILE *__wrap_fopen(const char *path, const char *mode) {
  return fails() ? NULL : __real_fopen(path, mode);
}

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return fails() ? ENOMEM : __real_pthread_atfork(prepare, parent, child);
}

int __wrap_pthread_key_create(pthread_key_t *key, void (*destroy)(void *)) {
  return fails() ? ENOMEM : __real_pthread_key_create(key, destroy);
}

#endif
