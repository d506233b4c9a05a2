/* Included in front of every source that is explored (-include): a point before each atomic
 * operation, and locks, time and the loader of libraries of the explorer's own.
 *
 * What the sources say is compiled as it stands; <stdatomic.h> is made of the compiler's functions
 * that are named here, so both ways of writing an atomic operation have a point. gcc alone. */
#ifndef EXPLORER_POINTS_H
#define EXPLORER_POINTS_H

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A line of the sources with a point; all are in one section, reached or not. */
typedef struct explorer_site {
  const char *file;
  const char *what;
  unsigned line;
  unsigned reached;   /* by a thread that others ran beside */
  unsigned preempted; /* there */
  unsigned reserved;
} explorer_site;

enum { /* of a point; 0: changes an object that others may use */
       EXPLORER_OWN = 1u,    /* is about the thread alone */
       EXPLORER_READS = 2u,  /* does not change its object */
       EXPLORER_DRIVER = 4u, /* is a call of the driver */
       EXPLORER_WORK = 8u,   /* which gives the device work, or depends on what it has ended */
       EXPLORER_NEW = 16u    /* which makes an object that nobody else knows yet */
};

void explorer_point(explorer_site *site, const char *function, const volatile void *object,
                    unsigned kind);
/* The next point has this object, too. */
void explorer_name(const volatile void *object);

#define EXPLORER_SITE(text)                                                                        \
  static explorer_site explorer_here                                                               \
      __attribute__((section("explorer_sites"), used)) = {__FILE__, text, __LINE__, 0, 0, 0}
#define EXPLORER_AT_KIND(text, object, kind)                                                       \
  __extension__({                                                                                  \
    EXPLORER_SITE(text);                                                                           \
    explorer_point(&explorer_here, __func__, (object), (kind));                                    \
  })
#define EXPLORER_AT(text, object) EXPLORER_AT_KIND(text, object, 0)

/* A macro is not expanded within itself: the right side is the compiler's. */
#define __atomic_load(p, ...)                                                                      \
  (EXPLORER_AT_KIND("load", p, EXPLORER_READS), __atomic_load(p, __VA_ARGS__))
#define __atomic_load_n(p, m) (EXPLORER_AT_KIND("load", p, EXPLORER_READS), __atomic_load_n(p, m))
#define __atomic_store(p, ...) (EXPLORER_AT("store", p), __atomic_store(p, __VA_ARGS__))
#define __atomic_store_n(p, ...) (EXPLORER_AT("store", p), __atomic_store_n(p, __VA_ARGS__))
#define __atomic_exchange(p, ...) (EXPLORER_AT("exchange", p), __atomic_exchange(p, __VA_ARGS__))
#define __atomic_exchange_n(p, ...)                                                                \
  (EXPLORER_AT("exchange", p), __atomic_exchange_n(p, __VA_ARGS__))
#define __atomic_compare_exchange(p, ...)                                                          \
  (EXPLORER_AT("compare_exchange", p), __atomic_compare_exchange(p, __VA_ARGS__))
#define __atomic_compare_exchange_n(p, ...)                                                        \
  (EXPLORER_AT("compare_exchange", p), __atomic_compare_exchange_n(p, __VA_ARGS__))
#define __atomic_fetch_add(p, ...) (EXPLORER_AT("fetch_add", p), __atomic_fetch_add(p, __VA_ARGS__))
#define __atomic_fetch_sub(p, ...) (EXPLORER_AT("fetch_sub", p), __atomic_fetch_sub(p, __VA_ARGS__))
#define __atomic_fetch_or(p, ...) (EXPLORER_AT("fetch_or", p), __atomic_fetch_or(p, __VA_ARGS__))
#define __atomic_fetch_and(p, ...) (EXPLORER_AT("fetch_and", p), __atomic_fetch_and(p, __VA_ARGS__))
#define __atomic_fetch_xor(p, ...) (EXPLORER_AT("fetch_xor", p), __atomic_fetch_xor(p, __VA_ARGS__))
#define __atomic_add_fetch(p, ...) (EXPLORER_AT("add_fetch", p), __atomic_add_fetch(p, __VA_ARGS__))
#define __atomic_sub_fetch(p, ...) (EXPLORER_AT("sub_fetch", p), __atomic_sub_fetch(p, __VA_ARGS__))
#define __atomic_test_and_set(p, m) (EXPLORER_AT("test_and_set", p), __atomic_test_and_set(p, m))
#define __atomic_clear(p, m) (EXPLORER_AT("clear", p), __atomic_clear(p, m))

/* ---- locks: a thread that waits for one is not run ------------------------------------------- */

int explorer_mutex_init(pthread_mutex_t *mutex);
int explorer_mutex_lock(pthread_mutex_t *mutex);
int explorer_mutex_trylock(pthread_mutex_t *mutex);
int explorer_mutex_unlock(pthread_mutex_t *mutex);
int explorer_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int explorer_cond_wait_shortly(pthread_mutex_t *mutex);
int explorer_thread_create(pthread_t *thread_out, void *(*run)(void *), void *argument);
pthread_t explorer_thread_self(void);
long explorer_write(int file, unsigned long bytes);
int explorer_cond_wake(pthread_cond_t *cond);
int explorer_once(pthread_once_t *once, void (*call)(void));
int explorer_yield(void);
int explorer_sleep(const struct timespec *time);
int explorer_clock(struct timespec *now_out);
long explorer_syscall(long number, ...);
void *explorer_dlopen(const char *path);
void *explorer_dlsym(void *library, const char *name);
int explorer_key_create(pthread_key_t *key);

/* What the library has is gone with the trial, before the process ends. */
#define atexit(function) ((void)(function), 0)
#define pthread_mutex_init(m, a) ((void)(a), explorer_mutex_init(m))
#define pthread_mutex_destroy(m) ((void)(m), 0)
#define pthread_mutex_lock(m) (EXPLORER_AT("lock", m), explorer_mutex_lock(m))
#define pthread_mutex_trylock(m) (EXPLORER_AT("trylock", m), explorer_mutex_trylock(m))
#define pthread_mutex_unlock(m) (EXPLORER_AT("unlock", m), explorer_mutex_unlock(m))
#define pthread_cond_init(c, a) ((void)(c), (void)(a), 0)
#define pthread_cond_destroy(c) ((void)(c), 0)
#define pthread_cond_wait(c, m)                                                                    \
  (explorer_name(m), EXPLORER_AT("cond_wait", c), explorer_cond_wait(c, m))
#define pthread_cond_timedwait(c, m, t)                                                            \
  ((void)(t), explorer_name(m), EXPLORER_AT("cond_wait", c), explorer_cond_wait_shortly(m))
#define pthread_cond_signal(c) (EXPLORER_AT("cond_signal", c), explorer_cond_wake(c))
#define pthread_cond_broadcast(c) (EXPLORER_AT("cond_signal", c), explorer_cond_wake(c))
#define pthread_create(t, a, f, d) ((void)(a), explorer_thread_create(t, f, d))
#define pthread_detach(t) ((void)(t), 0)
#define pthread_self() explorer_thread_self()
#define pthread_sigmask(h, s, o) ((void)(h), (void)(s), (void)(o), 0)
#define write(f, d, n) ((void)(d), explorer_write(f, n))
#define pthread_once(o, f) (EXPLORER_AT("once", o), explorer_once(o, f))
#define pthread_atfork(a, b, c) ((void)(a), (void)(b), (void)(c), 0)
#define pthread_key_create(k, d) ((void)(d), explorer_key_create(k))
#define pthread_setspecific(k, v) ((void)(k), (void)(v), 0)
#define sched_yield() (EXPLORER_AT("sched_yield", NULL), explorer_yield())
#define nanosleep(t, r) ((void)(r), EXPLORER_AT("nanosleep", NULL), explorer_sleep(t))
#define clock_gettime(c, t) ((void)(c), explorer_clock(t))
#define syscall(...) (EXPLORER_AT("syscall", NULL), explorer_syscall(__VA_ARGS__))
#define dlopen(p, f) ((void)(f), explorer_dlopen(p))
#define dlsym(l, n) explorer_dlsym(l, n)
#define dlclose(l) ((void)(l), 0)

#endif
