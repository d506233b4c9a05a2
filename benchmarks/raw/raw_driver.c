/* Times every twin that it is asked for, against any library with the driver API, and prints one
 * JSON line each; the kernels, their layouts and the input sets are files in a folder.
 *
 * Inputs rotate among the sets; outputs are poisoned before and compared bit by bit after each
 * series, and on a sample in between; a wrong bit ends the run without a figure. */
#define _POSIX_C_SOURCE 200809L
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "twins.h"

/* A check disturbs the samples after it: rare enough to stay clear of the 99th percentile. */
enum { CHECK_EVERY = 256 };

static const raw_group *const GROUPS[] = {&small_group, &clear_group, &chain_group, &large_group,
                                          &copy_group,  &pool_group,  &doors_group};

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t sets_of(const raw_options *o, const raw_group *g, const raw_twin *t) {
  return t->rotates ? g->sets(o) : 1;
}

static void verify(const raw_group *g, const raw_twin *t, uint32_t set) {
  if (!g->is_right(t, set)) raw_fail("%s: wrong result in set %u", t->id, set);
}

/* On a sample: compare what the series wrote, poison it, and let the twin write it again. */
static void spot_check(const raw_group *g, const raw_twin *t, uint32_t set) {
  verify(g, t, set);
  g->poison(t, set);
  t->call(set);
  g->wait();
}

static void series_of_blocks(const raw_options *o, const raw_group *g, const raw_twin *t,
                             uint64_t *samples, uint32_t blocks) {
  const uint32_t calls = o->block_calls, sets = sets_of(o, g, t);
  for (uint32_t i = 0; i < blocks; i++) {
    if (t->rests) nanosleep(&(struct timespec){0, RAW_REST_NS}, NULL);
    const uint64_t begin = raw_now_ns();
    for (uint32_t j = 0; j < calls; j++) t->call(j % sets);
    samples[i] = raw_now_ns() - begin;
    g->wait();
    if (i % CHECK_EVERY == CHECK_EVERY - 1) spot_check(g, t, (calls - 1) % sets);
  }
}

static void series_of_trips(const raw_options *o, const raw_group *g, const raw_twin *t,
                            uint64_t *samples, uint32_t trips) {
  const uint32_t sets = sets_of(o, g, t);
  for (uint32_t i = 0; i < trips; i++) {
    const uint64_t begin = raw_now_ns();
    t->call(i % sets);
    samples[i] = raw_now_ns() - begin;
    if (t->drains) g->wait();
    if (i % CHECK_EVERY == CHECK_EVERY - 1) spot_check(g, t, i % sets);
  }
}

static void measure(const raw_options *o, const raw_group *g, const raw_twin *t) {
  const uint32_t blocks = t->rests ? (o->blocks + 4) / 5 : o->blocks;
  const uint32_t count = t->blocks ? blocks : g->trips(o);
  const uint32_t calls = t->blocks ? o->block_calls : 1;
  uint64_t *samples = raw_alloc(count * sizeof *samples);
  if (g->reset != NULL) g->reset();
  for (uint32_t pass = 0; pass < 2; pass++) { /* the first is the warm-up */
    const uint32_t n = pass == 0 ? (count + 9) / 10 : count;
    if (t->blocks)
      series_of_blocks(o, g, t, samples, n);
    else
      series_of_trips(o, g, t, samples, n);
    if (pass == 0)
      for (uint32_t i = 0; i < g->sets(o); i++) g->poison(t, i);
  }
  const uint32_t used = least(sets_of(o, g, t), t->blocks ? calls : count);
  for (uint32_t i = 0; i < used; i++) verify(g, t, i);
  raw_report(t->id, samples, count, calls);
  free(samples);
}

static void measure_group(const raw_options *o, const raw_group *g) {
  bool open = false;
  for (uint32_t i = 0; i < g->twin_count; i++) {
    const raw_twin *t = &g->twins[i];
    if (!raw_wanted(o->only, t->id)) continue;
    raw_begin(t->id);
    const char *absent = g->absent == NULL ? NULL : g->absent();
    if (absent != NULL) {
      raw_absent(t->id, absent);
      continue;
    }
    if (!open) {
      g->open(o);
      raw_use_core(g->one_core ? o->core : -1);
    }
    open = true;
    measure(o, g, t);
  }
}

/* ---- command line --------------------------------------------------------------------------- */

static uint32_t number(const char *text) {
  char *end = NULL;
  const unsigned long value = strtoul(text, &end, 10);
  if (*text == 0 || *end != 0 || value == 0 || value > 1000000000) raw_fail("no count: %s", text);
  return (uint32_t)value;
}

typedef struct count_option {
  const char *name;
  size_t offset;
} count_option;

/* clang-format off */
#define RAW_COUNT_OPTION(field) {#field, offsetof(raw_options, field)}
static const count_option COUNTS[] = {
    RAW_COUNT_OPTION(elements),       RAW_COUNT_OPTION(sets),
    RAW_COUNT_OPTION(large_elements), RAW_COUNT_OPTION(large_sets),
    RAW_COUNT_OPTION(copy_elements),  RAW_COUNT_OPTION(copy_sets),
    RAW_COUNT_OPTION(nodes),          RAW_COUNT_OPTION(blocks),
    RAW_COUNT_OPTION(block_calls),    RAW_COUNT_OPTION(trips),
    RAW_COUNT_OPTION(long_trips),     RAW_COUNT_OPTION(copy_trips),
    RAW_COUNT_OPTION(thread_blocks),
};
/* clang-format on */

/* --count name=value sets a field; every one of them must be set. */
static void set_count(raw_options *o, const char *text) {
  const char *equals = strchr(text, '=');
  if (equals == NULL) raw_fail("no count: %s", text);
  for (uint32_t i = 0; i < RAW_COUNT(COUNTS); i++) {
    const size_t length = strlen(COUNTS[i].name);
    if (length != (size_t)(equals - text) || strncmp(COUNTS[i].name, text, length) != 0) continue;
    *(uint32_t *)(void *)((char *)o + COUNTS[i].offset) = number(equals + 1);
    return;
  }
  raw_fail("no count of that name: %s", text);
}

static raw_options parse(int count, char **values) {
  raw_options o = {.driver = "libcuda.so.1", .core = -1};
  static const struct option NAMES[] = {{"driver", 1, NULL, 'd'}, {"folder", 1, NULL, 'f'},
                                        {"rows", 1, NULL, 'r'},   {"count", 1, NULL, 'c'},
                                        {"core", 1, NULL, 'k'},   {NULL, 0, NULL, 0}};
  for (int flag; (flag = getopt_long(count, values, "", NAMES, NULL)) != -1;) {
    if (flag == 'd')
      o.driver = optarg;
    else if (flag == 'f')
      o.folder = optarg;
    else if (flag == 'r')
      o.only = optarg;
    else if (flag == 'c')
      set_count(&o, optarg);
    else if (flag == 'k')
      o.core = atoi(optarg);
    else
      exit(2);
  }
  if (o.folder == NULL) raw_fail("--folder is needed");
  for (uint32_t i = 0; i < RAW_COUNT(COUNTS); i++)
    if (*(const uint32_t *)(const void *)((const char *)&o + COUNTS[i].offset) == 0)
      raw_fail("--count %s=... is needed", COUNTS[i].name);
  return o;
}

int main(int count, char **values) {
  const raw_options options = parse(count, values);
  CUcontext context;
  raw_open(options.driver);
  raw_open_device(&context);
  for (uint32_t i = 0; i < RAW_COUNT(GROUPS); i++) measure_group(&options, GROUPS[i]);
  raw_use_core(-1);
  if (raw_wanted(options.only, RAW_THREADS_ID)) {
    raw_begin(RAW_THREADS_ID);
    raw_measure_threads(&options, context);
  }
  return 0;
}
