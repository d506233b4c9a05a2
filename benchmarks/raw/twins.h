/* A twin is the least that a C program pays the driver for one task; a group shares one set-up.
 *
 * raw_driver.c opens a group before its first twin, times the calls of each, poisons what they
 * write before a series and compares it afterwards. README.md says what each twin does. */
#ifndef RAW_TWINS_H
#define RAW_TWINS_H

#include "support.h"

typedef struct raw_options {
  const char *driver, *folder, *only; /* only: ids separated by commas, NULL for all */
  uint32_t elements, sets;            /* of the small tasks */
  uint32_t large_elements, large_sets;
  uint32_t copy_elements, copy_sets;
  uint32_t nodes; /* of a recorded graph */
  /* samples of a series: blocks of block_calls calls, or single trips of each group's kind */
  uint32_t blocks, block_calls, trips, long_trips, copy_trips;
  uint32_t thread_blocks; /* blocks of one thread of the scaling curve */
  int core;               /* for the groups that run on one core; negative: any */
} raw_options;

typedef struct raw_twin {
  const char *id;
  void (*call)(uint32_t set);
  bool blocks;  /* timed in blocks that are drained outside of the timing */
  bool rotates; /* uses all sets, not only the first */
  bool rests;   /* sleeps RAW_REST_NS before each block; a fifth of the blocks */
  bool drains;  /* a trip whose end is waited for outside of the timing */
} raw_twin;

/* As long as CPython lets another thread compute before it hands the GIL over, by default. */
#define RAW_REST_NS 5000000

typedef struct raw_group {
  bool one_core;
  void (*open)(const raw_options *options);
  uint32_t (*sets)(const raw_options *options);
  uint32_t (*trips)(const raw_options *options);
  void (*reset)(void); /* before each series; NULL for nothing to do */
  void (*wait)(void);
  void (*poison)(const raw_twin *twin, uint32_t set);
  bool (*is_right)(const raw_twin *twin, uint32_t set);
  const char *(*absent)(void); /* the driver function that is missing; NULL: never absent */
  const raw_twin *twins;
  uint32_t twin_count;
} raw_group;

extern const raw_group small_group, clear_group, chain_group, large_group, copy_group, pool_group,
    doors_group;

/* Launches a second from 1, 2, 4 and 8 threads, each with its own stream and graph. */
void raw_measure_threads(const raw_options *options, CUcontext context);
#define RAW_THREADS_ID "scaling_raw"

#define RAW_COUNT(array) (uint32_t)(sizeof(array) / sizeof *(array))

#endif
