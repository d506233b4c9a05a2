/* One schedule: two or three operations on a scene that is put back before each. */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operations.h"
#include "scene.h"

static void run_operation(void *argument) {
  const uint32_t packed = (uint32_t)(uintptr_t)argument;
  operation_rows[packed >> 8].run(packed & 0xff);
  model_check_thread();
}

bool trial_has(const trial *t, const char *beginning) {
  for (uint32_t i = 0; i < t->count; i++)
    if (strncmp(operation_rows[t->operations[i]].name, beginning, strlen(beginning)) == 0)
      return true;
  return false;
}

bool trial_has_devices(const trial *t) { return trial_has(t, "other-") || trial_has(t, "ranks-"); }

/* Of the scene that a setting begins with. */
static const uint32_t scenes[] = {0,
                                  SETTING_PENDING,
                                  SETTING_FAR,
                                  SETTING_FAR | SETTING_PENDING,
                                  SETTING_GATHERS,
                                  SETTING_GATHERS | SETTING_PENDING,
                                  SETTING_FORMS,
                                  SETTING_FORMS | SETTING_PENDING,
                                  SETTING_FORMS | SETTING_FAR,
                                  SETTING_FORMS | SETTING_FAR | SETTING_PENDING,
                                  SETTING_DEVICES,
                                  SETTING_DEVICES | SETTING_PENDING,
                                  SETTING_DEVICES | SETTING_RANKS,
                                  SETTING_DEVICES | SETTING_RANKS | SETTING_PENDING};
#define SCENES ((uint32_t)(sizeof scenes / sizeof scenes[0]))
#define PROCESS SCENES /* the snapshot before all scenes */
_Static_assert(PROCESS < EXPLORER_SNAPSHOTS, "each has one");

static uint32_t snapshot_of(const trial *t) {
  const bool forms = trial_has(t, "forms");
  const uint32_t wanted =
      (t->setting & (SETTING_PENDING | SETTING_FAR | (forms ? 0 : SETTING_GATHERS))) |
      (forms ? SETTING_FORMS : 0) | (trial_has_devices(t) ? SETTING_DEVICES : 0) |
      (trial_has(t, "ranks-") ? SETTING_RANKS : 0);
  uint32_t number = 0;
  while (scenes[number] != wanted) number++;
  return number;
}

static void begin_scene(void *argument) {
  const trial *t = argument;
  model_be_wrong(lab->plant);
  if (trial_has(t, "ranks-close-second") || trial_has(t, "other-close")) scene_expect_leaving();
  scene_begin(t->setting);
}

bool run_trial(const trial *t, const explorer_plan *plan) {
  void (*runs[MOST_TOGETHER])(void *);
  void *arguments[MOST_TOGETHER];
  trial all = *t;
  for (uint32_t i = 0; i < t->count; i++) {
    runs[i] = run_operation;
    arguments[i] = (void *)(uintptr_t)(t->operations[i] << 8 | (i + 1));
  }
  explorer_put_back(snapshot_of(t));
  explorer->points = 0;
  return explorer_run_alone(begin_scene, &all) &&
         explorer_run_together(runs, arguments, t->count, plan) &&
         explorer_run_alone(scene_judge, NULL);
}

static void prepare_snapshot(uint32_t number) {
  void (*const runs[])(void *) = {scene_make_communicator, scene_number_thread,
                                  scene_number_thread};
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

void prepare_scenes(void) {
  scene_prepare_process();
  scene_be_wrong(lab->plant);
  explorer_keep(PROCESS);
  for (uint32_t number = 0; number < SCENES; number++) {
    explorer_put_back(PROCESS);
    prepare_snapshot(number);
  }
}
