/* The search for schedules that fail, and the shortest form of each. */
#include <stdio.h>
#include <string.h>

#include "operations.h"
#include "scene.h"
#include "trial.h"

#define TRIPLES_AT_ONCE 16u /* random schedules of three operations before others are chosen */

static const uint32_t settings[] = {SETTING_HOT_FIRST,
                                    0,
                                    SETTING_FREE,
                                    SETTING_PENDING,
                                    SETTING_PENDING | SETTING_FREE,
                                    SETTING_PENDING | SETTING_EAGER,
                                    SETTING_FAR,
                                    SETTING_FAR | SETTING_FREE,
                                    SETTING_FAR | SETTING_PENDING,
                                    SETTING_GATHERS,
                                    SETTING_GATHERS | SETTING_FREE,
                                    SETTING_GATHERS | SETTING_PENDING};
#define SETTINGS ((uint32_t)(sizeof settings / sizeof settings[0]))

static uint64_t random_below(uint64_t limit) {
  lab->random ^= lab->random << 13;
  lab->random ^= lab->random >> 7;
  lab->random ^= lab->random << 17;
  return (lab->random >> 11) % limit;
}

/* ---- defects --------------------------------------------------------------------------------- */

/* Fewest preemptions: each is left out where it fails without. */
static void minimise(const trial *t, explorer_plan *plan) {
  for (uint32_t i = 0; i < plan->count;) {
    explorer_plan fewer = *plan;
    memmove(&fewer.list[i], &fewer.list[i + 1], (fewer.count - i - 1) * sizeof fewer.list[0]);
    fewer.count--;
    if (run_trial(t, &fewer)) {
      i++;
    } else {
      *plan = fewer;
      i = 0;
    }
  }
  run_trial(t, plan);
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
  if (run_trial(t, plan)) { /* what a schedule left to the next: every page is put back by now */
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

/* ---- what was tried -------------------------------------------------------------------------- */

static uint64_t key_of(const explorer_plan *plan) {
  uint64_t key = lab->searches << 36;
  for (uint32_t i = 0; i < plan->count; i++)
    key |= ((uint64_t)plan->list[i].at << 3 | plan->list[i].to) << 18 * i;
  return key;
}

/* Whether this search has tried it; what earlier searches left is written over. */
static bool was_tried(const explorer_plan *plan) {
  const uint64_t key = key_of(plan);
  uint64_t at = (key * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
  for (uint32_t i = 0; i < 64; i++, at++) {
    uint64_t *const entry = &lab->tried[at % MOST_TRIED];
    if (*entry == key) return true;
    if (*entry >> 36 == lab->searches) continue;
    *entry = key;
    return false;
  }
  return false; /* no room: it is tried again */
}

/* ---- the search ------------------------------------------------------------------------------ */

static bool is_enough(void) { return lab->most != 0 && explorer->schedules >= lab->most; }

static bool try(const trial *t, const explorer_plan *plan) {
  const bool is_good = run_trial(t, plan);
  if (explorer->points > lab->longest) lab->longest = explorer->points;
  if (!is_good) note_defect(t, plan);
  return is_good;
}

/* All second preemptions behind a first one, or so many of them in 65536. */
static bool search_second(const trial *t, explorer_plan *plan, uint64_t share) {
  explorer_preemption *list = lab->candidates[1];
  const bool by_device = plan->list[0].to == EXPLORER_DEVICE; /* the point is still to come */
  const uint32_t count =
      explorer_find_preemptions(list, MOST_CANDIDATES, plan->list[0].at + !by_device, true);
  plan->count = 2;
  for (uint32_t i = 0; i < count && !is_enough(); i++) {
    if (random_below(65536) >= share) continue;
    plan->list[1] = list[i];
    if (was_tried(plan)) continue;
    if (!try(t, plan) && !lab->everything) return false;
  }
  return true;
}

/* Of 65536. */
static uint64_t share_of(uint64_t wanted, uint64_t all) {
  return lab->budget == 0 || wanted >= all ? 65536 : wanted * 65536 / all;
}

/* None, one and two preemptions; whether that was all of them that are known to matter. */
static bool search_once(const trial *t) {
  explorer_plan plan = {0};
  if (!try(t, &plan) && !lab->everything) return false;
  explorer_preemption *list = lab->candidates[0];
  const uint32_t count = explorer_find_preemptions(list, MOST_CANDIDATES, 0, false);
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

/* Again where schedules have shown that threads use more objects than was known before. */
static bool search(const trial *t) {
  const uint64_t skipped = explorer->skipped;
  explorer_forget_uses();
  lab->searches++;
  for (;;) {
    const uint64_t uses = explorer->uses;
    explorer->skipped = skipped;
    const bool is_complete = search_once(t);
    if (!is_complete || explorer->uses == uses) return is_complete;
  }
}

/* Two devices have a scene with nothing but streams of near slots. What else is run with them is
 * what is done to the first one, or ends it. A copy from one to the other that comes between the
 * parts of both in an all-reduce orders one behind the other, so it must not (vyre_cuda.h). */
static bool is_with_devices(uint32_t operation) {
  static const char *const others[] = {"launch-call-order", "copy-in", "copy-out",
                                       "wait-all",          "trim",    "close"};
  const trial alone = {.count = 1, .operations = {operation}};
  bool is_found = trial_has_devices(&alone);
  for (uint32_t i = 0; i < sizeof others / sizeof others[0]; i++)
    is_found |= strcmp(operation_rows[operation].name, others[i]) == 0;
  return is_found;
}

/* Whether it gives the ranks their parts by several calls, between which nobody may copy from one
 * device to the other. */
static bool gives_in_parts(const trial *t) {
  return trial_has(t, "ranks-reduce") || trial_has(t, "ranks-thrice") ||
         trial_has(t, "ranks-first") || trial_has(t, "ranks-refused");
}

static bool matters_to_devices(const trial *t) {
  for (uint32_t i = 0; i < t->count; i++)
    if (!is_with_devices(t->operations[i])) return false;
  if (gives_in_parts(t) && trial_has(t, "other-copy")) return false;
  return (t->setting & (SETTING_HOT_FIRST | SETTING_FREE | SETTING_FAR | SETTING_GATHERS)) == 0;
}

/* With scattered ranges by a kernel there is neither a worker nor a graph with two forms, and the
 * rest is as in another setting. Such a graph has only memory of its own, besides what it reads, so
 * how buffers are read at the end, or released, is nothing to it. One that is made for an
 * operation, or captured, writes to them, but takes the time of three others: it is left out where
 * only streams or the device differ. */
static bool matters(const trial *t) {
  if (trial_has_devices(t)) return matters_to_devices(t);
  if ((t->setting & SETTING_GATHERS) != 0)
    return trial_has(t, "gather") && !trial_has(t, "worker") && !trial_has(t, "forms");
  if (!trial_has(t, "forms")) return true;
  if (trial_has(t, "forms-made") || trial_has(t, "forms-captured") ||
      trial_has(t, "forms-shared-captured"))
    return (t->setting & (SETTING_HOT_FIRST | SETTING_FAR | SETTING_EAGER)) == 0;
  return (t->setting & (SETTING_FREE | SETTING_HOT_FIRST)) == 0;
}

void search_pair(uint32_t first, uint32_t second) {
  const uint64_t before = explorer->schedules;
  bool is_complete = true;
  for (uint32_t i = 0; i < SETTINGS; i++) {
    const trial t = {2, settings[i], {first, second, 0}};
    if (matters(&t)) is_complete = search(&t) && is_complete;
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

void search_pairs(void) {
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

/* All of them with two devices, or none. */
static void choose_operations(trial *t) {
  const bool has_devices = random_below(16) == 0;
  do {
    for (uint32_t i = 0; i < t->count; i++)
      t->operations[i] = (uint32_t)random_below(operation_count);
  } while (has_devices
               ? !(trial_has_devices(t) &&
                   matters(&(trial){
                       t->count, 0, {t->operations[0], t->operations[1], t->operations[2]}}))
               : trial_has_devices(t));
}

void search_random(void) {
  const uint64_t end = explorer->schedules + lab->random_schedules;
  while (explorer->schedules < end) {
    explorer_plan plan = {0};
    trial t = {.count = random_below(4) == 0 ? 2 : 3, .setting = settings[random_below(SETTINGS)]};
    choose_operations(&t);
    while (!matters(&t)) t.setting = settings[random_below(SETTINGS)];
    bool is_good = try(&t, &plan);
    const uint32_t points = explorer->points;
    for (uint32_t i = 0; i < TRIPLES_AT_ONCE && (is_good || lab->everything); i++) {
      random_plan(&plan, t.count, points);
      is_good = try(&t, &plan);
    }
  }
}
