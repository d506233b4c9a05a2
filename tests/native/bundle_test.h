/* What the programs that test bundles share: the bundles beside them, which
 * tests/device/bundle_programs.py writes. */
#ifndef BUNDLE_TEST_H
#define BUNDLE_TEST_H

#include "dispatch_test.h"

/* Until the next call. */
static const char *path_beside(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", TEST_BUNDLES, name);
  return path;
}

static const char *example_path(void) { return path_beside("example.vyre"); }

UNUSED static vyc_bundle *open_example(void) {
  vyc_bundle *bundle = NULL;
  OK(vyc_bundle_open(&bundle, example_path(), NULL, 0));
  return bundle;
}

#endif
