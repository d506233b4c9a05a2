/* Places that launches are made from: texts by number, for as long as the process lives. */
#include <stdio.h>
#include <stdlib.h>

#include "room.h"

#define ORIGIN_BYTES 256u

static _Atomic(const char *) texts[VYC_ORIGIN_TEXT]; /* 0 stays NULL */
static _Atomic uint32_t last_origin;

vyc_status vyc_origin_add(uint32_t *origin_out, const char *text) {
  VYC_REQUIRE(origin_out != NULL && text != NULL);
  *origin_out = 0;
  if (atomic_load(&last_origin) >= VYC_ORIGIN_TEXT - 1) return VYC_OK;
  char *copy = malloc(ORIGIN_BYTES);
  if (copy == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  const int used = snprintf(copy, ORIGIN_BYTES, "%s", text);
  char *fitting = used >= 0 && used < (int)ORIGIN_BYTES ? realloc(copy, (size_t)used + 1) : NULL;
  if (fitting != NULL) copy = fitting;
  uint32_t origin = atomic_load(&last_origin);
  do {
    if (origin >= VYC_ORIGIN_TEXT - 1) {
      free(copy);
      return VYC_OK;
    }
  } while (!atomic_compare_exchange_weak(&last_origin, &origin, origin + 1));
  atomic_store(&texts[origin + 1], copy);
  *origin_out = origin + 1;
  return VYC_OK;
}

const char *vyc__origin_text(uint32_t origin) {
  return origin < VYC_ORIGIN_TEXT ? atomic_load(&texts[origin]) : NULL;
}
