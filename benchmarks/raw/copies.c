/* One large array across the link, each way, from and to page-locked and pageable memory. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "twins.h"

enum { HUGE_PAGE = 2 << 20 };

typedef struct copy_set {
  raw_set *host;    /* inputs[0] is the source, result the destination: pageable, touched */
  float *pinned[2]; /* source, destination */
  CUdeviceptr device;
} copy_set;

static struct {
  copy_set *sets;
  size_t bytes;
  void *fresh; /* what the last copy_d2h_new made */
  uint32_t fresh_set;
} s;

static void open(const raw_options *o) {
  s.bytes = o->copy_elements * sizeof(float);
  raw_set *host = raw_read_sets(o->folder, "copy", o->copy_sets, o->copy_elements, 0);
  s.sets = raw_alloc(o->copy_sets * sizeof *s.sets);
  for (uint32_t i = 0; i < o->copy_sets; i++) {
    copy_set *set = &s.sets[i];
    set->host = &host[i];
    for (uint32_t j = 0; j < 2; j++) {
      CU(cuMemHostAlloc((void **)&set->pinned[j], s.bytes, 0));
      memcpy(set->pinned[j], host[i].expected, s.bytes);
    }
    memcpy(host[i].result, host[i].expected, s.bytes);
    CU(cuMemAlloc(&set->device, s.bytes));
  }
}

/* A copy from pageable memory may return while its last part is under way. */
static void h2d(uint32_t set, const void *from) {
  CU(cuMemcpyHtoD(s.sets[set].device, from, s.bytes));
  CU(cuCtxSynchronize());
}

static void h2d_pinned(uint32_t set) { h2d(set, s.sets[set].pinned[0]); }

static void h2d_pageable(uint32_t set) { h2d(set, s.sets[set].host->expected); }

static void d2h_pinned(uint32_t set) {
  CU(cuMemcpyDtoH(s.sets[set].pinned[1], s.sets[set].device, s.bytes));
}

static void d2h_pageable(uint32_t set) {
  CU(cuMemcpyDtoH(s.sets[set].host->result, s.sets[set].device, s.bytes));
}

/* Into memory that nobody has touched, in huge pages as NumPy asks for; the one before is given
 * back. */
static void d2h_new(uint32_t set) {
  free(s.fresh);
  if (posix_memalign(&s.fresh, HUGE_PAGE, s.bytes) != 0) raw_fail("out of memory");
  (void)madvise(s.fresh, s.bytes, MADV_HUGEPAGE); /* a hint: refusal is no failure */
  s.fresh_set = set;
  CU(cuMemcpyDtoH(s.fresh, s.sets[set].device, s.bytes));
}

static bool is_in(const raw_twin *t) { return t->call == h2d_pinned || t->call == h2d_pageable; }

static void poison(const raw_twin *t, uint32_t set) {
  copy_set *at = &s.sets[set];
  memset(at->pinned[1], RAW_POISON, s.bytes);
  memset(at->host->result, RAW_POISON, s.bytes);
  if (is_in(t))
    CU(cuMemcpyHtoD(at->device, at->host->result, s.bytes));
  else
    CU(cuMemcpyHtoD(at->device, at->host->expected, s.bytes));
}

static bool is_right(const raw_twin *t, uint32_t set) {
  const copy_set *at = &s.sets[set];
  if (t->call == d2h_new && s.fresh_set != set) return true; /* gone; the last one is looked at */
  const void *found = t->call == d2h_new      ? s.fresh
                      : t->call == d2h_pinned ? (const void *)at->pinned[1]
                                              : (const void *)at->host->result;
  if (is_in(t)) CU(cuMemcpyDtoH(at->host->result, at->device, s.bytes));
  return memcmp(found, at->host->expected, s.bytes) == 0;
}

static uint32_t sets(const raw_options *o) { return o->copy_sets; }
static uint32_t trips(const raw_options *o) { return o->copy_trips; }
static void wait(void) {}

static const raw_twin TWINS[] = {
    {"copy_h2d_pinned", h2d_pinned, false, true, false, false},
    {"copy_h2d_pageable", h2d_pageable, false, true, false, false},
    {"copy_d2h_pinned", d2h_pinned, false, true, false, false},
    {"copy_d2h_pageable", d2h_pageable, false, true, false, false},
    {"copy_d2h_new", d2h_new, false, true, false, false},
};

const raw_group copy_group = {false,    open, sets,  trips,           NULL, wait, poison,
                              is_right, NULL, TWINS, RAW_COUNT(TWINS)};
