/* The error record: one per thread, written where something failed and nowhere else.
 *
 * A function that fails returns the status that vyc__fail returns. Nothing here runs on success. */
#ifndef VYC_STATUS_H
#define VYC_STATUS_H

#include <string.h>

#include "vyre_cuda.h"

#define VYC_LIKELY(x) __builtin_expect(!!(x), 1)
#define VYC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Return a failure at once; for functions that have nothing to undo. */
#define VYC_TRY(expression)                                                                        \
  do {                                                                                             \
    const vyc_status vyc_try_status = (expression);                                                \
    if (VYC_UNLIKELY(vyc_try_status != VYC_OK)) return vyc_try_status;                             \
  } while (0)

/* A requirement on the caller; otherwise VYC_E_INVALID with the text of the condition. */
#define VYC_REQUIRE(condition) VYC_REQUIRE_IN(__func__, condition)
/* The same in code that public functions share, with the name that callers know. */
#define VYC_REQUIRE_IN(operation, condition)                                                       \
  do {                                                                                             \
    if (VYC_UNLIKELY(!(condition)))                                                                \
      return vyc__fail(VYC_E_INVALID, operation, "%s", "required: " #condition);                   \
  } while (0)

__attribute__((format(printf, 3, 4), cold)) vyc_status vyc__fail(vyc_status status,
                                                                 const char *operation,
                                                                 const char *format, ...);

/* The same for a driver call: `result` is its CUresult, `name` the CUresult's name. */
__attribute__((format(printf, 5, 6), cold)) vyc_status vyc__fail_driver(vyc_status status,
                                                                        const char *operation,
                                                                        int32_t result,
                                                                        const char *name,
                                                                        const char *format, ...);

/* Of a report of a failed check: below these the site, above them the linear number of the thread.
 */
#define VYC_SITE_BITS 20u
__attribute__((cold)) vyc_status vyc__fail_assert(uint64_t report, uint64_t index, uint64_t tag,
                                                  const char *kernel);

/* The ending of a noun behind its number: "1 element", "2 elements". */
#define VYC_S(number) ((number) == 1 ? "" : "s")

/* Add to the record which launches had not ended. */
void vyc__fail_launches(const char *launches);

/* Fill the caller's struct, which may be of an older version and shorter; struct_size is unchanged.
 */
static inline void vyc__struct_out(void *to, const void *from, size_t from_bytes) {
  uint32_t room;
  memcpy(&room, to, sizeof room);
  const size_t bytes = room < from_bytes ? room : from_bytes;
  memcpy((char *)to + sizeof room, (const char *)from + sizeof room, bytes - sizeof room);
}

/* Until vyc__record_resume, failures are not recorded, so that cleaning up does not hide the first
 * one. Calls nest. Not for code that reads the record. */
void vyc__record_keep(void);
void vyc__record_resume(void);
/* Around a function of the host, which may call this library: its failures are recorded. */
uint32_t vyc__record_open(void);
void vyc__record_shut(uint32_t keepers);
/* Save and restore the record, where a failure in between may be the one to report. A record needs
 * much of the stack, so not in functions with deep callees. */
void vyc__error_save(vyc_error *error_out);
void vyc__error_restore(const vyc_error *error);

#endif
