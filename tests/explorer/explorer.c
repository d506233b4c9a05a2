/* The schedule explorer: the sources of csrc on a model of a driver, run by two and three threads
 * in every order that few preemptions make, and at random beyond. See README.md beside this. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "operations.h"
#include "scene.h"

#define MOST_CANDIDATES 32768u
#define MOST_DEFECTS 256u
#define MOST_TOGETHER 3u
_Static_assert(MOST_TOGETHER < EXPLORER_THREADS, "thread 0 judges");
#define TRIPLES_AT_ONCE 16u /* random schedules of three operations before others are chosen */

static const uint32_t settings[] = {SETTING_HOT_FIRST,
                                    0,
                                    SETTING_FREE,
                                    SETTING_PENDING,
                                    SETTING_PENDING | SETTING_FREE,
                                    SETTING_PENDING | SETTING_EAGER,
                                    SETTING_FAR,
                                    SETTING_FAR | SETTING_FREE,
                                    SETTING_FAR | SETTING_PENDING};
#define SETTINGS ((uint32_t)(sizeof settings / sizeof settings[0]))

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
  uint32_t pairs, complete, longest, unrepeated;
  uint64_t fewest, most_of_a_pair;
  uint32_t defect_count;
  defect defects[MOST_DEFECTS];
  explorer_preemption candidates[2][MOST_CANDIDATES];
} laboratory;
static laboratory *lab;

static double now(void) {
  struct timespec time;
  (clock_gettime)(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint64_t random_below(uint64_t limit) {
  lab->random ^= lab->random << 13;
  lab->random ^= lab->random >> 7;
  lab->random ^= lab->random << 17;
  return (lab->random >> 11) % limit;
}

/* ---- one schedule ---------------------------------------------------------------------------- */

static void run_operation(void *argument) {
  const uint32_t packed = (uint32_t)(uintptr_t)argument;
  operation_rows[packed >> 8].run(packed & 0xff);
  model_check_thread();
}

/* Of the scene that a setting begins with. */
static const uint32_t scenes[] = {0, SETTING_PENDING, SETTING_FAR, SETTING_FAR | SETTING_PENDING};
#define SCENES ((uint32_t)(sizeof scenes / sizeof scenes[0]))

static uint32_t snapshot_of(uint32_t setting) {
  uint32_t number = 0;
  while (scenes[number] != (setting & (SETTING_PENDING | SETTING_FAR))) number++;
  return number;
}

static void begin_scene(void *argument) { scene_begin(*(const uint32_t *)argument); }

/* False: it failed, and explorer->failure says how. */
static bool run(const trial *t, const explorer_plan *plan) {
  void (*runs[MOST_TOGETHER])(void *);
  void *arguments[MOST_TOGETHER];
  uint32_t setting = t->setting;
  for (uint32_t i = 0; i < t->count; i++) {
    runs[i] = run_operation;
    arguments[i] = (void *)(uintptr_t)(t->operations[i] << 8 | (i + 1));
  }
  explorer_put_back(snapshot_of(setting));
  explorer->points = 0;
  return explorer_run_alone(begin_scene, &setting) &&
         explorer_run_together(runs, arguments, t->count, plan) &&
         explorer_run_alone(scene_judge, NULL);
}

static void prepare_snapshot(uint32_t number) {
  void (*const runs[])(void *) = {scene_number_thread, scene_number_thread, scene_number_thread};
  void *const none[] = {NULL, NULL, NULL};
  uint32_t setting = scenes[number];
  if (!explorer_run_alone(scene_make, &setting) ||
      !explorer_run_together(runs, none, MOST_TOGETHER, NULL)) {
    fprintf(stderr, "the scene cannot be made: %s\n", explorer->failure);
    exit(2);
  }
  explorer_keep(number);
  explorer->schedules = 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void print_trial(const trial *t) {
  for (uint32_t i = 0; i < t->count; i++)
    printf("%s%s", i == 0 ? "" : ":", operation_rows[t->operations[i]].name);
}

static void print_plan(const explorer_plan *plan) {
  if (plan->count == 0) printf("none");
  for (uint32_t i = 0; i < plan->count; i++) {
    printf("%s%u>", i == 0 ? "" : ",", plan->list[i].at);
    if (plan->list[i].to == EXPLORER_DEVICE)
      printf("D");
    else
      printf("%u", plan->list[i].to);
  }
}

static void print_command(const trial *t, const explorer_plan *plan) {
  printf("  again: explorer --replay ");
  print_trial(t);
  printf(" --setting %u --at '", t->setting);
  print_plan(plan);
  printf("'\n");
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static bool is_driver_call(const explorer_passed *p) {
  return strcmp(p->function, "the driver") == 0;
}

static void print_point(const explorer_passed *p, uint32_t number, const char *how) {
  if (is_driver_call(p))
    printf("    %4u %s%s\n", number, how, p->site->what);
  else
    printf("    %4u %s%s at %s:%u (%s)\n", number, how, p->site->what, base_name(p->site->file),
           p->site->line, p->function);
}

/* Calls of the driver, and what changes an object that several threads use. */
static bool is_telling(const explorer_passed *p) {
  if (is_driver_call(p)) return !p->own;
  return p->object != 0 && explorer_is_shared(p->object) && strcmp(p->site->what, "load") != 0;
}

/* The schedule that ran last: what tells, and where threads were stopped and went on. */
static void print_trace(const trial *t) {
  uint32_t before = 0;
  for (uint32_t i = 0; i < explorer->points; i++) {
    const explorer_passed *p = &explorer->passed[i];
    const bool is_first = p->thread != before;
    const bool is_last = i + 1 == explorer->points || explorer->passed[i + 1].thread != p->thread;
    if (is_first)
      printf("  thread %u (%s)\n", p->thread, operation_rows[t->operations[p->thread - 1]].name);
    before = p->thread;
    if (p->went != p->thread && p->went != EXPLORER_DEVICE)
      print_point(p, i, "is stopped before ");
    else if (lab->verbose || is_first || is_last || is_telling(p))
      print_point(p, i, "");
    if (p->went == EXPLORER_DEVICE) printf("         the device ends a piece of work\n");
  }
  printf("  then: %s\n", explorer->failure);
}

/* ---- defects --------------------------------------------------------------------------------- */

/* Fewest preemptions: each is left out where it fails without. */
static void minimise(const trial *t, explorer_plan *plan) {
  for (uint32_t i = 0; i < plan->count;) {
    explorer_plan fewer = *plan;
    memmove(&fewer.list[i], &fewer.list[i + 1], (fewer.count - i - 1) * sizeof fewer.list[0]);
    fewer.count--;
    if (run(t, &fewer)) {
      i++;
    } else {
      *plan = fewer;
      i = 0;
    }
  }
  run(t, plan);
}

/* Without numbers, so that the same defect is told once. */
static void make_key(char *key, const char *text) {
  size_t used = 0;
  for (; *text != '\0' && used + 1 < EXPLORER_TEXT; text++)
    if (*text < '0' || *text > '9') key[used++] = *text;
  key[used] = '\0';
}

static void note_defect(const trial *t, const explorer_plan *plan) {
  char key[EXPLORER_TEXT];
  if (run(t, plan)) { /* what a schedule left to the next: every page is put back by now */
    lab->unrepeated++;
    return;
  }
  make_key(key, explorer->failure);
  for (uint32_t i = 0; i < lab->defect_count; i++)
    if (strcmp(lab->defects[i].key, key) == 0) {
      lab->defects[i].hits++;
      return;
    }
  if (lab->defect_count >= MOST_DEFECTS) return;
  defect *d = &lab->defects[lab->defect_count++];
  *d = (defect){.trial = *t, .plan = *plan, .hits = 1};
  strcpy(d->key, key);
  minimise(t, &d->plan);
  strcpy(d->failure, explorer->failure);
  if (lab->defect_count > lab->traces) return;
  printf("\n%s\n  ", d->failure);
  print_trial(t);
  printf(", %u preemptions\n", d->plan.count);
  print_trace(t);
  print_command(t, &d->plan);
  fflush(stdout);
}

static void print_defects(void) {
  if (lab->defect_count > 0) printf("\n%u kinds of failures:\n", lab->defect_count);
  for (uint32_t i = 0; i < lab->defect_count; i++) {
    const defect *d = &lab->defects[i];
    printf(" %6lu x %s\n", (unsigned long)d->hits, d->failure);
    print_command(&d->trial, &d->plan);
  }
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Whether a preemption at a point can matter: before what others use, too; for the device, at its
 * driver. */
static bool is_worth(const explorer_passed *p, uint32_t to) {
  if (p->own) return false;
  if (to == EXPLORER_DEVICE) return is_driver_call(p);
  return explorer_is_shared(p->object);
}

static uint32_t find_candidates(explorer_preemption *list, uint32_t from) {
  uint32_t count = 0;
  for (uint32_t i = from; i < explorer->points; i++)
    for (uint32_t to = 1; to <= EXPLORER_DEVICE; to++) {
      const explorer_passed *p = &explorer->passed[i];
      if ((p->choices >> to & 1) == 0 || !is_worth(p, to)) continue;
      if (count < MOST_CANDIDATES) list[count++] = (explorer_preemption){i, to};
    }
  return count;
}

static bool is_enough(void) { return lab->most != 0 && explorer->schedules >= lab->most; }

static bool try(const trial *t, const explorer_plan *plan) {
  const bool is_good = run(t, plan);
  if (explorer->points > lab->longest) lab->longest = explorer->points;
  if (!is_good) note_defect(t, plan);
  return is_good;
}

/* All second preemptions behind a first one, or so many of them in 65536. */
static bool search_second(const trial *t, explorer_plan *plan, uint64_t share) {
  explorer_preemption *list = lab->candidates[1];
  const bool by_device = plan->list[0].to == EXPLORER_DEVICE; /* the point is still to come */
  const uint32_t count = find_candidates(list, plan->list[0].at + !by_device);
  plan->count = 2;
  for (uint32_t i = 0; i < count && !is_enough(); i++) {
    if (random_below(65536) >= share) continue;
    plan->list[1] = list[i];
    if (!try(t, plan) && !lab->everything) return false;
  }
  return true;
}

/* Of 65536. */
static uint64_t share_of(uint64_t wanted, uint64_t all) {
  return lab->budget == 0 || wanted >= all ? 65536 : wanted * 65536 / all;
}

/* None, one and two preemptions; whether that was all of them. */
static bool search(const trial *t) {
  explorer_plan plan = {0};
  if (!try(t, &plan) && !lab->everything) return false;
  explorer_preemption *list = lab->candidates[0];
  const uint32_t count = find_candidates(list, 0);
  const uint64_t pairs = (uint64_t)count * count / 2 + 1;
  const uint64_t left = lab->budget > count ? lab->budget - count : 0;
  const uint64_t first = share_of(lab->budget, count), share = share_of(left, pairs);
  for (uint32_t i = 0; i < count && !is_enough(); i++) {
    if (random_below(65536) >= first) continue;
    plan.count = 1;
    plan.list[0] = list[i];
    if (!try(t, &plan)) {
      if (!lab->everything) return false;
      continue;
    }
    if (share > 0 && !search_second(t, &plan, share)) return false;
  }
  return share == 65536 && !is_enough();
}

static void search_pair(uint32_t first, uint32_t second) {
  const uint64_t before = explorer->schedules;
  bool is_complete = true;
  explorer_forget_sharing();
  for (uint32_t i = 0; i < SETTINGS; i++) {
    const trial t = {2, settings[i], {first, second, 0}};
    is_complete = search(&t) && is_complete;
  }
  const uint64_t count = explorer->schedules - before;
  if (lab->verbose)
    printf("%s:%s: %lu schedules%s\n", operation_rows[first].name, operation_rows[second].name,
           (unsigned long)count, is_complete ? ", all" : "");
  lab->pairs++;
  lab->complete += is_complete;
  if (lab->fewest == 0 || count < lab->fewest) lab->fewest = count;
  if (count > lab->most_of_a_pair) lab->most_of_a_pair = count;
}

static void search_pairs(void) {
  for (uint32_t i = 0; i < operation_count; i++)
    for (uint32_t j = 0; j < operation_count && !is_enough(); j++) search_pair(i, j);
}

static void random_plan(explorer_plan *plan, uint32_t threads, uint32_t points) {
  uint32_t at[EXPLORER_PREEMPTIONS];
  plan->count = 1 + (uint32_t)random_below(8);
  for (uint32_t i = 0; i < plan->count; i++) {
    uint32_t place = (uint32_t)random_below(points + 1u), j = i;
    for (; j > 0 && at[j - 1] > place; j--) at[j] = at[j - 1];
    at[j] = place;
  }
  for (uint32_t i = 0; i < plan->count; i++) {
    const uint32_t to = (uint32_t)random_below(threads + 1u);
    plan->list[i] = (explorer_preemption){at[i], to == threads ? EXPLORER_DEVICE : to + 1};
  }
}

/* Three operations, and two with more preemptions, at random. */
static void search_random(void) {
  const uint64_t end = explorer->schedules + lab->random_schedules;
  while (explorer->schedules < end) {
    explorer_plan plan = {0};
    trial t = {.count = random_below(4) == 0 ? 2 : 3, .setting = settings[random_below(SETTINGS)]};
    for (uint32_t i = 0; i < t.count; i++)
      t.operations[i] = (uint32_t)random_below(operation_count);
    bool is_good = try(&t, &plan);
    const uint32_t points = explorer->points;
    for (uint32_t i = 0; i < TRIPLES_AT_ONCE && (is_good || lab->everything); i++) {
      random_plan(&plan, t.count, points);
      is_good = try(&t, &plan);
    }
  }
}

/* ---- coverage -------------------------------------------------------------------------------- */

extern explorer_site __start_explorer_sites[], __stop_explorer_sites[];

static int by_place(const void *left, const void *right) {
  const explorer_site *a = left, *b = right;
  const int order = strcmp(base_name(a->file), base_name(b->file));
  return order != 0 ? order : a->line < b->line ? -1 : a->line > b->line;
}

/* What is in a header has a site in each source. */
static uint32_t merge_sites(explorer_site *sites, uint32_t count) {
  uint32_t kept = 0;
  qsort(sites, count, sizeof *sites, by_place);
  for (uint32_t i = 0; i < count; i++) {
    if (kept > 0 && by_place(&sites[kept - 1], &sites[i]) == 0) {
      sites[kept - 1].reached += sites[i].reached;
      sites[kept - 1].preempted += sites[i].preempted;
    } else {
      sites[kept++] = sites[i];
    }
  }
  return kept;
}

static void print_unreached(const explorer_site *sites, uint32_t count) {
  const char *file = "";
  printf("lines with a point that no schedule reached:");
  for (uint32_t i = 0; i < count; i++) {
    if (sites[i].reached > 0) continue;
    if (strcmp(file, base_name(sites[i].file)) != 0) printf("\n  %s", base_name(sites[i].file));
    file = base_name(sites[i].file);
    printf(" %u", sites[i].line);
  }
  printf("\n");
}

static void print_coverage(double seconds) {
  const uint32_t all = (uint32_t)(__stop_explorer_sites - __start_explorer_sites);
  explorer_site *sites = malloc(all * sizeof *sites);
  if (sites == NULL) exit(2);
  memcpy(sites, __start_explorer_sites, all * sizeof *sites);
  const uint32_t count = merge_sites(sites, all);
  uint32_t reached = 0, preempted = 0;
  for (uint32_t i = 0; i < count; i++) {
    reached += sites[i].reached > 0;
    preempted += sites[i].preempted > 0;
  }
  printf("%u operations, %u ordered pairs (%u of them completely, with all of two preemptions), "
         "%lu to %lu schedules each\n",
         operation_count, lab->pairs, lab->complete, (unsigned long)lab->fewest,
         (unsigned long)lab->most_of_a_pair);
  printf("%lu schedules in %.1f s (%.0f a second), the longest of %u points; seed %lu\n",
         (unsigned long)explorer->schedules, seconds, (double)explorer->schedules / seconds,
         lab->longest, (unsigned long)lab->seed);
  printf("%u lines have points, %u were reached by threads, %u of them preempted; %u states\n",
         count, reached, preempted, explorer->state_count);
  if (lab->unrepeated > 0)
    printf("%u schedules failed once and not again: the explorer is at fault\n", lab->unrepeated);
  if (lab->coverage) print_unreached(sites, count);
  free(sites);
}

/* ---- commands -------------------------------------------------------------------------------- */

static void fail_usage(const char *what) {
  fprintf(stderr,
          "%s\n"
          "explorer [--budget SCHEDULES] [--random SCHEDULES] [--most SCHEDULES] [--seed N]\n"
          "         [--pair A:B] [--everything] [--traces N] [--coverage] [--verbose]\n"
          "explorer --replay A:B[:C] --setting N --at 'POINT>THREAD,POINT>D,...' [--verbose]\n"
          "explorer --list\n",
          what);
  exit(2);
}

static trial parse_trial(char *text) {
  trial t = {0};
  for (char *word = strtok(text, ":"); word != NULL; word = strtok(NULL, ":")) {
    uint32_t i = 0;
    while (i < operation_count && strcmp(operation_rows[i].name, word) != 0) i++;
    if (i == operation_count || t.count == MOST_TOGETHER) fail_usage(word);
    t.operations[t.count++] = i;
  }
  if (t.count < 1) fail_usage("no operation");
  return t;
}

static explorer_plan parse_plan(char *text) {
  explorer_plan plan = {0};
  if (strcmp(text, "none") == 0) return plan;
  for (char *word = strtok(text, ","); word != NULL; word = strtok(NULL, ",")) {
    char *end = NULL;
    const uint32_t at = (uint32_t)strtoul(word, &end, 10);
    if (*end != '>' || plan.count == EXPLORER_PREEMPTIONS) fail_usage(word);
    const uint32_t to = end[1] == 'D' ? EXPLORER_DEVICE : (uint32_t)strtoul(end + 1, NULL, 10);
    plan.list[plan.count++] = (explorer_preemption){at, to};
  }
  return plan;
}

static int replay_one(trial t, const explorer_plan *plan) {
  const bool is_good = run(&t, plan);
  print_trial(&t);
  printf("\n");
  print_trace(&t);
  if (is_good) printf("  nothing\n");
  return is_good ? 0 : 1;
}

/* What is to be run again; no operation: a search. */
typedef struct again {
  trial trial;
  explorer_plan plan;
} again;

static void set_number(int option, uint64_t number, again *replayed) {
  switch (option) {
  case 'b': lab->budget = number; break;
  case 'r': lab->random_schedules = number; break;
  case 'm': lab->most = number; break;
  case 's': lab->seed = number; break;
  case 't': lab->traces = (uint32_t)number; break;
  default: replayed->trial.setting = (uint32_t)number; break;
  }
}

static void set_trial(trial *t, char *text) {
  const uint32_t setting = t->setting;
  *t = parse_trial(text);
  t->setting = setting;
}

static void read_options(int count, char **words, again *replayed, trial *pair) {
  static const struct option options[] = {
      {"budget", 1, NULL, 'b'},  {"random", 1, NULL, 'r'},   {"most", 1, NULL, 'm'},
      {"seed", 1, NULL, 's'},    {"traces", 1, NULL, 't'},   {"setting", 1, NULL, 'S'},
      {"pair", 1, NULL, 'p'},    {"replay", 1, NULL, 'R'},   {"at", 1, NULL, 'a'},
      {"verbose", 0, NULL, 'v'}, {"coverage", 0, NULL, 'c'}, {"everything", 0, NULL, 'e'},
      {"list", 0, NULL, 'l'},    {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(count, words, "", options, NULL)) != -1;) {
    switch (c) {
    case 'p': set_trial(pair, optarg); break;
    case 'R': set_trial(&replayed->trial, optarg); break;
    case 'a': replayed->plan = parse_plan(optarg); break;
    case 'v': lab->verbose = true; break;
    case 'c': lab->coverage = true; break;
    case 'e': lab->everything = true; break;
    case 'l':
      for (uint32_t i = 0; i < operation_count; i++) printf("%s\n", operation_rows[i].name);
      exit(0);
    case '?': fail_usage("what is that?"); break;
    default: set_number(c, strtoull(optarg, NULL, 10), replayed); break;
    }
  }
}

static void start(void) {
  lab->random = lab->seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
  explorer_start();
  for (uint32_t number = 0; number < SCENES; number++) {
    explorer->heap_used = 0;
    prepare_snapshot(number);
  }
}

int main(int count, char **words) {
  again replayed = {0};
  trial pair = {0};
  lab = mmap(NULL, sizeof *lab, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (lab == MAP_FAILED) return 2;
  lab->seed = 1;
  lab->budget = 400;
  lab->traces = 8;
  read_options(count, words, &replayed, &pair);
  start();
  if (replayed.trial.count > 0) return replay_one(replayed.trial, &replayed.plan);
  const double begin = now();
  if (pair.count == 2)
    search_pair(pair.operations[0], pair.operations[1]);
  else
    search_pairs();
  search_random();
  print_defects();
  print_coverage(now() - begin);
  return lab->defect_count == 0 && lab->unrepeated == 0 ? 0 : 1;
}
