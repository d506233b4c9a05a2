/* Every driver call of a scene fails in turn, at its first, second and last use, with several
 * results, once or from then on. The scene then ends well or with the status that the fault calls
 * for; the device is as good as new or says that it is lost, and its close leaves nothing with the
 * driver, unless giving it back is what failed. fault_sweep.py does the same from Python, which has
 * no use for some of these functions. */
#include "scenes_bundles.h"

typedef vyc_status (*scene)(vyc_context *context);

static const struct {
  const char *name;
  scene act;
  int mode; /* of streams; lazy has work left to wait for wherever that can be */
} SCENES[] = {{"copies", copies, LAZY},
              {"links", links, LAZY},
              {"bundles", bundles, LAZY},
              {"replays_of_rows", replays_of_rows, LAZY},
              {"launches_of_bundles", launches_of_bundles, LAZY},
              {"workers_of_bundles", workers_of_bundles, THREADED},
              {"copies_on_streams", copies_on_streams, LAZY},
              {"tells_the_end", tells_the_end, THREADED}};

static const struct {
  int32_t result; /* of the driver */
  vyc_status status;
} RESULTS[] = {{2, VYC_E_MEMORY}, {700, VYC_E_LOST}, {999, VYC_E_DRIVER}};

/* What fails to give something back leaves that one thing with the driver. */
static const char *const RELEASING[] = {"cuCtxSetCurrent",     "cuDevicePrimaryCtxRelease",
                                        "cuEventDestroy",      "cuGraphDestroy",
                                        "cuGraphExecDestroy",  "cuLinkDestroy",
                                        "cuMemFree",           "cuMemFreeHost",
                                        "cuMemHostUnregister", "cuModuleUnload",
                                        "cuStreamDestroy",     "cuUserObjectRelease"};

typedef struct fault {
  const char *scene, *function;
  uint64_t nth;
  int32_t result, lasting;
} fault;

static fault now; /* what is tried, for the message of a check that fails */

static void say_what_is_tried(void) {
  if (now.scene != NULL)
    fprintf(stderr, "in %s: %s, use %llu%s, gave %d\n", now.scene, now.function,
            (unsigned long long)now.nth, now.lasting ? " and later ones" : "", now.result);
}

static void fail(const char *what, const char *more) {
  fprintf(stderr, "%s: %s\n", what, more);
  exit(1);
}

static int is_releasing(const char *function) {
  for (size_t i = 0; i < sizeof RELEASING / sizeof RELEASING[0]; i++)
    if (strcmp(function, RELEASING[i]) == 0) return 1;
  return 0;
}

static void begin(int mode) {
  CHECK(emulator_reset() == 0);
  CHECK(emulator_set("stream_mode", mode) == 0);
}

static void check_status(vyc_status status, const vyc_error *error, vyc_status expected) {
  if (error->status != (int32_t)status || error->message[0] == '\0')
    fail("the failure is not on record", error->message);
  /* What the call was to allow is forbidden then. */
  if (strcmp(now.function, "cuThreadExchangeStreamCaptureMode") == 0) return;
  if (status != expected) fail("another status", error->message);
}

static void attempt(scene to_act, int mode, vyc_status expected) {
  vyc_error error = {.struct_size = sizeof error};
  uint64_t before[sizeof LIVE / sizeof LIVE[0]];
  for (size_t i = 0; i < sizeof LIVE / sizeof LIVE[0]; i++) before[i] = count_of(LIVE[i]);
  begin(mode);
  vyc_context *context = open_context();
  CHECK(emulator_fail(now.function, now.nth, now.result, now.lasting) == 0);
  const vyc_status status = to_act(context);
  OK(vyc_last_error(&error));
  begin(mode);
  if (status != VYC_OK) check_status(status, &error, expected);
  const vyc_status after = vyc_context_synchronize(context);
  if (after == VYC_E_LOST)
    CHECK(now.result == 700 && to_act(context) == VYC_E_LOST);
  else {
    CHECK(after == VYC_OK);
    OK(to_act(context));
  }
  (void)vyc_context_close(context);
  vyc_context_release(context);
  if (is_releasing(now.function)) return;
  for (size_t i = 0; i < sizeof LIVE / sizeof LIVE[0]; i++)
    if (count_of(LIVE[i]) != before[i]) fail("left with the driver", LIVE[i]);
}

static void sweep(size_t index) {
  enum { MOST = 128 };
  const scene to_act = SCENES[index].act;
  const int mode = SCENES[index].mode;
  uint64_t counts[MOST], tried = 0;
  begin(mode);
  vyc_context *context = open_context();
  for (uint64_t i = 0; emulator_function(i) != NULL; i++) {
    CHECK(i < MOST);
    counts[i] = count_of(emulator_function(i));
  }
  OK(to_act(context));
  for (uint64_t i = 0; emulator_function(i) != NULL; i++)
    counts[i] = count_of(emulator_function(i)) - counts[i];
  vyc_context_release(context);
  for (uint64_t i = 0; emulator_function(i) != NULL; i++) {
    const uint64_t uses[] = {1, 2, counts[i]};
    for (uint64_t use = 0; use < 3 && use < counts[i]; use++)
      for (size_t r = 0; r < sizeof RESULTS / sizeof RESULTS[0]; r++)
        for (int lasting = 0; lasting < 2; lasting++, tried++) {
          now = (fault){SCENES[index].name, emulator_function(i), uses[use], RESULTS[r].result,
                        lasting};
          attempt(to_act, mode, RESULTS[r].status);
        }
  }
  now.scene = NULL;
  CHECK(tried > 20);
  printf("%s: %llu faults\n", SCENES[index].name, (unsigned long long)tried);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  CHECK(atexit(say_what_is_tried) == 0);
  for (size_t i = 0; i < sizeof SCENES / sizeof SCENES[0]; i++) sweep(i);
  CHECK(emulator_reset() == 0);
  return 0;
}
