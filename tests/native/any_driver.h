/* What the programs share that run on the emulator and on a GPU: the driver as the host of
 * libvyre_cuda sees it, by its own look-up. */
#ifndef ANY_DRIVER_H
#define ANY_DRIVER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cuda.h"
#include "vyre_cuda.h"

static void check(int good, const char *file, int line, const char *what) {
  if (good) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  fprintf(stderr, "%s:%d: %s\n  last error %d: %s\n", file, line, what, error.status,
          error.message);
  exit(1);
}
#define CHECK(condition) check((condition) != 0, __FILE__, __LINE__, #condition)
#define OK(call) CHECK((call) == VYC_OK)

static const char *driver_path;

/* The function with the ABI that CUDA version `since` has of it, into the pointer at `slot`. */
static void find(void *slot, const char *name, int since) {
  void *library = dlopen(driver_path, RTLD_NOW);
  CHECK(library != NULL);
  CUresult (*lookup)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
  *(void **)&lookup = dlsym(library, "cuGetProcAddress_v2");
  CUdriverProcAddressQueryResult status;
  CHECK(lookup != NULL && lookup(name, slot, since, 0, &status) == CUDA_SUCCESS);
  CHECK(*(void **)slot != NULL);
}

/* The emulator counts what a client of the driver holds; a GPU's driver does not. */
static void check_nothing_lives(void) {
  static const char *const KINDS[] = {"allocations",  "pinned",  "modules", "streams",
                                      "events",       "graphs",  "execs",   "links",
                                      "user_objects", "contexts"};
  void *library = dlopen(driver_path, RTLD_NOW);
  int (*count)(const char *, uint64_t *);
  *(void **)&count = dlsym(library, "vyre_emulator_count");
  for (size_t i = 0; count != NULL && i < sizeof KINDS / sizeof *KINDS; i++) {
    uint64_t value = 0;
    CHECK(count(KINDS[i], &value) == 0);
    if (value == 0) continue;
    fprintf(stderr, "%llu %s are left\n", (unsigned long long)value, KINDS[i]);
    exit(1);
  }
}

#endif
