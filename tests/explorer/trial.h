/* Trials: operations that run at the same time, by a plan; and what a whole exploration keeps. */
#ifndef EXPLORER_TRIAL_H
#define EXPLORER_TRIAL_H

#include "model.h"
#include "schedule.h"

#define MOST_CANDIDATES 32768u
#define MOST_DEFECTS 256u
#define MOST_TRIED (UINT64_C(1) << 23) /* schedules of one search that are remembered */
#define MOST_TOGETHER 3u
_Static_assert(MOST_TOGETHER < EXPLORER_CALLERS, "thread 0 judges");
/* Operations that run at the same time, in what setting. */
typedef struct trial {
  uint32_t count, setting;
  uint32_t operations[MOST_TOGETHER];
} trial;

typedef struct defect {
  trial trial;
  explorer_plan plan;
  uint64_t hits;
  char failure[EXPLORER_TEXT], key[EXPLORER_TEXT];
} defect;

/* Not among the variables that each schedule puts back. */
typedef struct laboratory {
  uint64_t random, seed;
  uint64_t budget, random_schedules, most;
  uint32_t traces;
  bool everything, verbose, coverage;
  model_plant plant;
  uint32_t pairs, complete, longest, unrepeated;
  uint64_t fewest, most_of_a_pair;
  uint32_t defect_count;
  defect defects[MOST_DEFECTS];
  uint64_t searches;
  uint64_t tried[MOST_TRIED];
  explorer_preemption candidates[2][MOST_CANDIDATES];
} laboratory;
extern laboratory *lab;

/* ---- one schedule (trial.c) ------------------------------------------------------------------ */

/* Makes the scenes that schedules begin with. */
void prepare_scenes(void);
/* Whether one of its operations has a name that begins so. */
bool trial_has(const trial *t, const char *beginning);
/* Whether it needs two devices. */
bool trial_has_devices(const trial *t);
/* False: it failed, and explorer->failure says how. */
bool run_trial(const trial *t, const explorer_plan *plan);

/* ---- the search (search.c) ------------------------------------------------------------------- */

void search_pair(uint32_t first, uint32_t second);
void search_pairs(void);
/* Three operations, and two with more preemptions, at random. */
void search_random(void);

/* ---- telling (telling.c) --------------------------------------------------------------------- */

void print_trial(const trial *t);
/* The schedule that ran last: what tells, and where threads were stopped and went on. */
void print_trace(const trial *t);
void print_command(const trial *t, const explorer_plan *plan);
void print_defects(void);
void print_coverage(double seconds);

#endif
