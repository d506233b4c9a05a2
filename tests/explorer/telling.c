/* What is printed: schedules, the defects that they showed, and what was covered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operations.h"
#include "trial.h"

/* ---- schedules ------------------------------------------------------------------------------- */

void print_trial(const trial *t) {
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

void print_command(const trial *t, const explorer_plan *plan) {
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

static bool is_driver_call(const explorer_passed *p) { return (p->kind & EXPLORER_DRIVER) != 0; }

static void print_point(const explorer_passed *p, uint32_t number, const char *how) {
  if (is_driver_call(p))
    printf("    %4u %s%s\n", number, how, p->site->what);
  else
    printf("    %4u %s%s at %s:%u (%s)\n", number, how, p->site->what, base_name(p->site->file),
           p->site->line, p->function);
}

/* Calls of the driver, and what changes an object that several threads use. */
static bool is_telling(const explorer_passed *p) {
  if (is_driver_call(p)) return (p->kind & EXPLORER_OWN) == 0;
  return p->object != 0 && explorer_is_shared(p->object) && strcmp(p->site->what, "load") != 0;
}

/* Who runs on a thread; behind the operations are those that the library starts. */
static const char *name_of(const trial *t, uint32_t thread) {
  return thread <= t->count ? operation_rows[t->operations[thread - 1]].name : "of the library";
}

void print_trace(const trial *t) {
  uint32_t before = 0;
  for (uint32_t i = 0; i < explorer->points; i++) {
    const explorer_passed *p = &explorer->passed[i];
    const bool is_first = p->thread != before;
    const bool is_last = i + 1 == explorer->points || explorer->passed[i + 1].thread != p->thread;
    if (is_first) printf("  thread %u (%s)\n", p->thread, name_of(t, p->thread));
    before = p->thread;
    if (p->went != p->thread && p->went != EXPLORER_DEVICE)
      print_point(p, i, "is stopped before ");
    else if (lab->verbose || is_first || is_last || is_telling(p))
      print_point(p, i, "");
    if (p->went == EXPLORER_DEVICE) printf("         the device ends a piece of work\n");
  }
  printf("  then: %s\n", explorer->failure);
}

void print_defects(void) {
  if (lab->defect_count > 0) printf("\n%u kinds of failures:\n", lab->defect_count);
  for (uint32_t i = 0; i < lab->defect_count; i++) {
    const defect *d = &lab->defects[i];
    printf(" %6lu x %s\n", (unsigned long)d->hits, d->failure);
    print_command(&d->trial, &d->plan);
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

void print_coverage(double seconds) {
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
  printf("%lu preemptions were skipped, being the same as others\n",
         (unsigned long)explorer->skipped);
  printf("%u lines have points, %u were reached by threads, %u of them preempted; %u states\n",
         count, reached, preempted, explorer->state_count);
  if (lab->unrepeated > 0)
    printf("%u schedules failed once and not again: the explorer is at fault\n", lab->unrepeated);
  if (lab->coverage) print_unreached(sites, count);
  free(sites);
}
