/* A peer whose close begins in the middle of a call that uses its memory: the call is refused
 * before its work is given, or says that it was done. The close comes where it is forced to
 * (stops.c). */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <time.h>

#include "stops_test.h"

static vyc_context *first, *closing;
static vyc_buffer *mine, *theirs, *view;
static pthread_t closer;

static void *close_it(void *unused) {
  OK(vyc_context_close(closing));
  return unused;
}

/* It waits for the call, so only its begin is waited for. */
static void *begin_to_close(void *unused) {
  const struct timespec some = {0, 100000};
  CHECK(pthread_create(&closer, NULL, close_it, NULL) == 0);
  while (vyc_context_synchronize(closing) == VYC_OK) nanosleep(&some, NULL);
  return unused;
}

static vyc_status copy_theirs(void) { return vyc_copy(mine, 0, theirs, 0, BYTES); }
static vyc_status copy_view(void) { return vyc_copy(mine, 0, view, 0, BYTES); }

static void check_closed_at(vyc_driver *driver, vyc_status (*copy)(void), const char *call,
                            int behind, int skip) {
  OK(vyc_context_open(&closing, driver, 1));
  OK(vyc_context_enable_peer(first, closing));
  mine = filled(first, 1.0f);
  theirs = filled(closing, 2.0f);
  OK(vyc_buffer_adopt_peer(&view, first, theirs));
  OK(vyc_context_synchronize(first));
  OK(vyc_context_synchronize(closing));

  stop_at(call, behind, skip, begin_to_close);
  const vyc_status status = copy();
  const bool is_closed = stop.call == NULL;
  stop.call = NULL;
  if (is_closed)
    CHECK(pthread_join(closer, NULL) == 0);
  else
    close_it(NULL);

  CHECK(status == VYC_OK || status == VYC_E_UNAVAILABLE);
  check_filled(mine, status == VYC_OK ? 2.0f : 1.0f);
  vyc_buffer_release(view);
  vyc_buffer_release(theirs);
  vyc_buffer_release(mine);
  vyc_context_release(closing);
}

int main(int argc, char **argv) {
  static const char *const calls[] = {"cuCtxGetCurrent", "cuEventRecord", "cuStreamWaitEvent"};
  vyc_driver *driver = NULL;
  CHECK(setenv("VYRE_CUDA_EMULATOR_DEVICES", "2", 1) == 0);
  stops_open(argc, argv);
  OK(vyc_driver_open(&driver, emulator_path));
  OK(vyc_context_open(&first, driver, 0));
  for (int i = 0; i < 3; i++)
    for (int behind = 0; behind < 2; behind++)
      for (int skip = 0; skip < 4; skip++) {
        check_closed_at(driver, copy_theirs, calls[i], behind, skip);
        check_closed_at(driver, copy_view, calls[i], behind, skip);
      }
  vyc_context_release(first);
  vyc_driver_release(driver);
  puts("peer closes: ok");
  return 0;
}
