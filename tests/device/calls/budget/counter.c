/* Preloaded into a process: counts, while on, the allocations, locks and reads of the environment
 * and the clock that libvyre_cuda and the extensions make themselves. The caller is told by its
 * return address, so what Python, NumPy, the C library or the emulator do for themselves is not
 * counted.
 *
 * Blocks of Python's own allocators are counted whoever asks, once they are wrapped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* glibc's own names, which need no lookup. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

enum kind {
  MALLOC,
  CALLOC,
  REALLOC,
  FREE,
  MUTEX_LOCK,
  MUTEX_TRYLOCK,
  RWLOCK,
  GETENV,
  CLOCK,
  PYTHON_BLOCK,
  KINDS
};

static const char *const NAMES[KINDS] = {"malloc",
                                         "calloc",
                                         "realloc",
                                         "free",
                                         "pthread_mutex_lock",
                                         "pthread_mutex_trylock",
                                         "pthread_rwlock_lock",
                                         "getenv",
                                         "clock_gettime",
                                         "python_block"};
static atomic_ulong counts[KINDS];
static atomic_bool on;

typedef struct range {
  uintptr_t begin, end;
} range;

static range ranges[64];
static unsigned range_count;

static bool is_ours(const char *path) {
  const char *base = strrchr(path, '/');
  if (base == NULL) return false;
  return strcmp(base, "/libvyre_cuda.so") == 0 || strncmp(base, "/libvyre_cuda.so.", 17) == 0 ||
         strstr(path, "/_native/") != NULL;
}

static int add_ranges(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size;
  (void)unused;
  char path[4096];
  /* The build may have been linked into place: the file decides, and the name that was loaded. */
  if (object->dlpi_name[0] == 0) return 0;
  const char *real = realpath(object->dlpi_name, path);
  if (!is_ours(object->dlpi_name) && (real == NULL || !is_ours(real))) return 0;
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &object->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0) continue;
    if (range_count == sizeof ranges / sizeof *ranges) abort();
    const uintptr_t begin = object->dlpi_addr + p->p_vaddr;
    ranges[range_count++] = (range){begin, begin + p->p_memsz};
  }
  return 0;
}

static void count(enum kind kind, const void *caller) {
  if (!atomic_load_explicit(&on, memory_order_relaxed)) return;
  const uintptr_t at = (uintptr_t)caller;
  for (unsigned i = 0; i < range_count; i++)
    if (at >= ranges[i].begin && at < ranges[i].end) atomic_fetch_add(&counts[kind], 1);
}

#define CALLER __builtin_return_address(0)

/* ---- what the test calls -------------------------------------------------------------------- */

/* Returns how many parts of ours are loaded. */
unsigned counting_begin(void) {
  range_count = 0;
  dl_iterate_phdr(add_ranges, NULL);
  for (unsigned i = 0; i < KINDS; i++) atomic_store(&counts[i], 0);
  atomic_store(&on, true);
  return range_count;
}

void counting_end(void) { atomic_store(&on, false); }

/* NULL past the last. */
const char *counted_kind(unsigned kind) { return kind < KINDS ? NAMES[kind] : NULL; }
unsigned long counted_calls(unsigned kind) { return atomic_load(&counts[kind]); }

/* ---- Python's allocators -------------------------------------------------------------------- */

/* PyMemAllocatorEx of Python's C API, the same since 3.5. */
typedef struct allocator {
  void *context;
  void *(*malloc)(void *context, size_t size);
  void *(*calloc)(void *context, size_t count, size_t size);
  void *(*realloc)(void *context, void *memory, size_t size);
  void (*free)(void *context, void *memory);
} allocator;

static allocator wrapped[2];

static void count_block(void) {
  if (atomic_load_explicit(&on, memory_order_relaxed)) atomic_fetch_add(&counts[PYTHON_BLOCK], 1);
}

static void *block_malloc(void *context, size_t size) {
  count_block();
  const allocator *real = context;
  return real->malloc(real->context, size);
}

static void *block_calloc(void *context, size_t n, size_t size) {
  count_block();
  const allocator *real = context;
  return real->calloc(real->context, n, size);
}

static void *block_realloc(void *context, void *memory, size_t size) {
  count_block();
  const allocator *real = context;
  return real->realloc(real->context, memory, size);
}

static void block_free(void *context, void *memory) {
  const allocator *real = context;
  real->free(real->context, memory);
}

/* Turns the allocator of a domain, 0 or 1 here, into one that counts. */
void count_blocks(unsigned number, allocator *of_domain) {
  wrapped[number] = *of_domain;
  *of_domain = (allocator){&wrapped[number], block_malloc, block_calloc, block_realloc, block_free};
}

/* ---- what everybody calls ------------------------------------------------------------------- */

void *malloc(size_t size) {
  count(MALLOC, CALLER);
  return __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
  count(CALLOC, CALLER);
  return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size) {
  count(REALLOC, CALLER);
  return __libc_realloc(memory, size);
}

void free(void *memory) {
  count(FREE, CALLER);
  __libc_free(memory);
}

#define NEXT(type, name)                                                                           \
  static type real;                                                                                \
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, name)

int pthread_mutex_lock(pthread_mutex_t *mutex) {
  NEXT(__typeof__(&pthread_mutex_lock), "pthread_mutex_lock");
  count(MUTEX_LOCK, CALLER);
  return real(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) {
  NEXT(__typeof__(&pthread_mutex_trylock), "pthread_mutex_trylock");
  count(MUTEX_TRYLOCK, CALLER);
  return real(mutex);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
  NEXT(__typeof__(&pthread_rwlock_rdlock), "pthread_rwlock_rdlock");
  count(RWLOCK, CALLER);
  return real(lock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
  NEXT(__typeof__(&pthread_rwlock_wrlock), "pthread_rwlock_wrlock");
  count(RWLOCK, CALLER);
  return real(lock);
}

char *getenv(const char *name) {
  NEXT(__typeof__(&getenv), "getenv");
  count(GETENV, CALLER);
  return real(name);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  NEXT(__typeof__(&clock_gettime), "clock_gettime");
  count(CLOCK, CALLER);
  return real(clock, now);
}
