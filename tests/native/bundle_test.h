/* What the programs that test bundles share: the bundle beside them.
 *
 * example.vyre is what tests/device/bundle_programs.py writes. */
#ifndef BUNDLE_TEST_H
#define BUNDLE_TEST_H

#include "dispatch_test.h"

static const char *example_path(void) {
  static char path[4096];
  snprintf(path, sizeof path - 64, "%s", __FILE__);
  char *slash = strrchr(path, '/');
  snprintf(slash == NULL ? path : slash + 1, 64, "example.vyre");
  return path;
}

UNUSED static vyc_bundle *open_example(void) {
  vyc_bundle *bundle = NULL;
  OK(vyc_bundle_open(&bundle, example_path(), NULL, 0));
  return bundle;
}

#endif
