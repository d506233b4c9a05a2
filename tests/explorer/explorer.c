/* The schedule explorer: the sources of csrc on a model of a driver, run by two and three threads
 * in every order that few preemptions make, and at random beyond. See README.md beside this. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "operations.h"
#include "trial.h"

laboratory *lab;

static double now(void) {
  struct timespec time;
  (clock_gettime)(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void fail_usage(const char *what) {
  fprintf(stderr,
          "%s\n"
          "explorer [--budget SCHEDULES] [--random SCHEDULES] [--most SCHEDULES] [--seed N]\n"
          "         [--pair A:B] [--everything] [--traces N] [--coverage] [--verbose]\n"
          "         [--plant loses-call|answers-early|answers-another|gathers-apart|\n"
          "                  forgets-owned|shares-own|loses-collective|answers-faulted|\n"
          "                  stays-faulted|forms-apart|sets-unseen|shares-cells]\n"
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
  const bool is_good = run_trial(&t, plan);
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

static model_plant parse_plant(const char *word) {
  static const char *const words[] = {"",
                                      "loses-call",
                                      "answers-early",
                                      "answers-another",
                                      "gathers-apart",
                                      "forgets-owned",
                                      "shares-own",
                                      "loses-collective",
                                      "answers-faulted",
                                      "stays-faulted",
                                      "forms-apart",
                                      "sets-unseen",
                                      "shares-cells"};
  for (uint32_t i = 1; i < sizeof words / sizeof words[0]; i++)
    if (strcmp(word, words[i]) == 0) return (model_plant)i;
  fail_usage(word);
  return MODEL_IS_RIGHT;
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
      {"list", 0, NULL, 'l'},    {"plant", 1, NULL, 'P'},    {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(count, words, "", options, NULL)) != -1;) {
    switch (c) {
    case 'p': set_trial(pair, optarg); break;
    case 'R': set_trial(&replayed->trial, optarg); break;
    case 'a': replayed->plan = parse_plan(optarg); break;
    case 'P': lab->plant = parse_plant(optarg); break;
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
  prepare_scenes();
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
