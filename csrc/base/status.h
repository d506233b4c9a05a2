/* The error record: one per thread, written where something failed and nowhere else.
 *
 * A function that fails returns the status that vyc__fail returns. Nothing here runs on success. */
#ifndef VYC_STATUS_H
#define VYC_STATUS_H

#include <string.h>

#include "vyre_cuda.h"

#define VYC_LIKELY(x) __builtin_expect(!!(x), 1)
#define VYC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Return early with whatever went wrong; for functions with nothing to undo. */
#define VYC_TRY(expression)                                                                        \
  do {                                                                                             \
    const vyc_status vyc_try_status = (expression);                                                \
    if (VYC_UNLIKELY(vyc_try_status != VYC_OK)) return vyc_try_status;                             \
  } while (0)

/* A contract of the caller: VYC_E_INVALID with the text of the condition. */
#define VYC_REQUIRE(condition) VYC_REQUIRE_IN(__func__, condition)
/* The same in what public functions share, which callers know by another name. */
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

__attribute__((cold)) vyc_status vyc__fail_assert(uint64_t report, uint64_t index, uint64_t tag,
                                                  const char *kernel);

/* Add to the record which launches had not ended. */
void vyc__fail_launches(const char *launches);

/* Fill a caller's struct that may be older, hence shorter, than ours; struct_size stays. */
static inline void vyc__struct_out(void *to, const void *from, size_t from_bytes) {
  uint32_t room;
  memcpy(&room, to, sizeof room);
  const size_t bytes = room < from_bytes ? room : from_bytes;
  memcpy((char *)to + sizeof room, (const char *)from + sizeof room, bytes - sizeof room);
}

/* Until vyc__record_resume what fails is not written down, so that cleaning up does not hide the
 * first failure; nests. For code that nobody in it asks for its record. */
void vyc__record_keep(void);
void vyc__record_resume(void);
/* Around a function of the host's, which may call this library: its failures are written down. */
uint32_t vyc__record_open(void);
void vyc__record_shut(uint32_t keepers);
/* Copy the record out and back in, where a failure in between may be the one to tell. A record
 * takes much room on a stack: not in a function whose callees go deep. */
void vyc__error_save(vyc_error *error_out);
void vyc__error_restore(const vyc_error *error);

#endif
