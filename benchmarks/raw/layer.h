/* What the drivers that call libvyre_cuda share: they end at the first call that fails. */
#ifndef RAW_LAYER_H
#define RAW_LAYER_H

#include <vyre_cuda.h>

#include "support.h"

static void check(vyc_status status, const char *what) {
  if (status == VYC_OK) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  raw_fail("%s: %s", what, error.message);
}

#define VYC(call) check(vyc_##call, #call)

#endif
