/* Host memory runs out at every allocation in turn: alone, together with the next one, and with all
 * that follow. Whatever is done then succeeds or says VYC_E_MEMORY, leaves nothing behind, and can
 * be done right afterwards on the same device. */
#include "host_faults.h"
#include "scenes_bundles.h"
#include "scenes_graphs.h"
#include "scenes_work.h"

typedef vyc_status (*scene)(vyc_context *context);

static const struct {
  const char *name;
  scene act;
  int opens; /* a context of its own */
  int mode; /* of streams; lazy has work left to wait for wherever that can be */
} SCENES[] = {{"opens", opens, 1, LAZY},
              {"allocates", allocates, 0, LAZY},
              {"copies", copies, 0, LAZY},
              {"links", links, 0, LAZY},
              {"runs", runs, 0, EAGER},
              {"submits", submits, 0, LAZY},
              {"runs_on", runs_on, 0, LAZY},
              {"launches", launches, 0, LAZY},
              {"drops", drops, 0, LAZY},
              {"waits", waits, 0, THREADED},
              {"shares", shares, 0, LAZY},
              {"graphs", graphs, 0, LAZY},
              {"bundles", bundles, 0, LAZY},
              {"tells", tells, 0, EAGER},
              {"runs_large", runs_large, 0, LAZY},
              {"replays_of_rows", replays_of_rows, 0, LAZY},
              {"launches_of_bundles", launches_of_bundles, 0, LAZY},
              {"workers_of_bundles", workers_of_bundles, 0, THREADED},
              {"copies_on_streams", copies_on_streams, 0, LAZY},
              {"tells_the_end", tells_the_end, 0, THREADED}};
/* How many allocations fail, one after the other. The thread sanitizer looks for races, for which
 * one way will do, and takes ten times as long. */
#ifdef __SANITIZE_THREAD__
static const uint64_t COUNTS[] = {1};
#else
static const uint64_t COUNTS[] = {1, 2, UINT64_MAX};
#endif

static const char *acting;
static uint64_t nth, count;

static void fail(const char *what) {
  fprintf(stderr, "%s, allocation %llu and %llu more: %s\n", acting, (unsigned long long)nth,
          (unsigned long long)(count - 1), what);
  exit(1);
}

/* ---- one attempt, in a thread that the library has not seen before --------------------------- */

typedef struct attempt {
  scene act;
  vyc_context *context;
  vyc_status status;
  uint64_t failed;
  char message[700];
} attempt;

static void *act(void *argument) {
  attempt *a = argument;
  vyc_error error = {.struct_size = sizeof error};
  host_faults_arm(nth, count);
  a->status = a->act(a->context);
  a->failed = host_faults_disarm();
  OK(vyc_last_error(&error));
  if (a->status != VYC_OK && (error.status != (int32_t)a->status || error.message[0] == '\0'))
    fail("the failure is not on record");
  snprintf(a->message, sizeof a->message, "status %d: %s", a->status, error.message);
  return NULL;
}

static attempt try_in_thread(scene to_act, vyc_context *context) {
  attempt a = {.act = to_act, .context = context};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, act, &a) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  return a;
}

/* ---- the sweep ------------------------------------------------------------------------------- */

/* What a context holds that did this twice: with the driver, and in host memory. */
typedef struct holdings {
  uint64_t driver[sizeof LIVE / sizeof LIVE[0]];
} holdings;

static holdings read_holdings(void) {
  holdings h;
  for (size_t i = 0; i < sizeof LIVE / sizeof LIVE[0]; i++) h.driver[i] = count_of(LIVE[i]);
  return h;
}

static holdings undisturbed(scene to_act) {
  vyc_context *context = open_context();
  for (int turn = 0; turn < 2; turn++) OK(to_act(context));
  OK(vyc_context_trim(context));
  const holdings h = read_holdings();
  vyc_context_release(context);
  return h;
}

static void check_holdings(const holdings *expected) {
  const holdings found = read_holdings();
  for (size_t i = 0; i < sizeof LIVE / sizeof LIVE[0]; i++)
    if (found.driver[i] > expected->driver[i]) fail(LIVE[i]);
}

static void check_all_given_back(uint64_t live, uint64_t made) {
  check_nothing_lives();
  if (host_faults_live() == live) return;
  host_faults_tell(made);
  fail("host memory was not freed");
}

/* False: no allocation failed any more. */
static int survive(scene to_act, int opens_one, const holdings *expected) {
  const uint64_t live = host_faults_live(), made = host_faults_made();
  vyc_context *context = opens_one ? NULL : open_context();
  const attempt a = try_in_thread(to_act, context);
  if (a.status != VYC_OK && (a.failed == 0 || a.status != VYC_E_MEMORY)) fail(a.message);
  OK(to_act(context));
  if (!opens_one) {
    OK(vyc_context_trim(context));
    check_holdings(expected);
    OK(vyc_context_close(context));
  }
  vyc_context_release(context);
  check_all_given_back(live, made);
  return a.failed != 0;
}

static void sweep(size_t index) {
  acting = SCENES[index].name;
  const scene to_act = SCENES[index].act;
  const int opens_one = SCENES[index].opens;
  CHECK(emulator_set("stream_mode", SCENES[index].mode) == 0);
  const holdings expected = opens_one ? (holdings){{0}} : undisturbed(to_act);
  for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
    count = COUNTS[i];
    for (nth = 1; survive(to_act, opens_one, &expected); nth++) {
    }
    CHECK(nth > 2);
    printf("%s: %llu allocations\n", acting, (unsigned long long)nth - 1);
  }
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  for (size_t i = 0; i < sizeof SCENES / sizeof SCENES[0]; i++) sweep(i);
  CHECK(emulator_reset() == 0);
  return 0;
}
