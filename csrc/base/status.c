/* The thread's error record. */
#include "status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define VYC_VERSION 100u /* 0.1.0 */

static _Thread_local vyc_error record;
static _Thread_local uint32_t kept; /* calls of vyc__record_keep that have not been undone */

static void set_text(char *to, size_t size, const char *from) {
  snprintf(to, size, "%s", from == NULL ? "" : from);
}

static void begin(vyc_status status, const char *operation) {
  memset(&record, 0, sizeof record);
  record.struct_size = (uint32_t)sizeof record;
  record.status = (int32_t)status;
  set_text(record.operation, sizeof record.operation, operation);
}

void vyc__record_keep(void) { kept++; }

void vyc__record_resume(void) { kept--; }

uint32_t vyc__record_open(void) {
  const uint32_t keepers = kept;
  kept = 0;
  return keepers;
}

void vyc__record_shut(uint32_t keepers) { kept = keepers; }

vyc_status vyc__fail(vyc_status status, const char *operation, const char *format, ...) {
  if (kept != 0) return status;
  begin(status, operation);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record.message, sizeof record.message, format, arguments);
  va_end(arguments);
  return status;
}

vyc_status vyc__fail_driver(vyc_status status, const char *operation, int32_t result,
                            const char *name, const char *format, ...) {
  if (kept != 0) return status;
  begin(status, operation);
  record.driver_result = result;
  set_text(record.driver_name, sizeof record.driver_name, name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record.message, sizeof record.message, format, arguments);
  va_end(arguments);
  return status;
}

vyc_status vyc__fail_assert(uint64_t report, uint64_t index, uint64_t tag, const char *kernel) {
  if (kept != 0) return VYC_E_ASSERT;
  begin(VYC_E_ASSERT, kernel);
  record.report = report;
  record.report_index = index;
  record.tag = tag;
  snprintf(record.message, sizeof record.message,
           "kernel %s: check %" PRIu64 " failed in thread %" PRIu64, kernel,
           report & ((UINT64_C(1) << VYC_SITE_BITS) - 1), report >> VYC_SITE_BITS);
  return VYC_E_ASSERT;
}

void vyc__fail_launches(const char *launches) {
  if (kept != 0) return;
  set_text(record.launches, sizeof record.launches, launches);
}

void vyc__error_save(vyc_error *error_out) { *error_out = record; }

void vyc__error_restore(const vyc_error *error) { record = *error; }

/* Whole lines only, for a caller whose struct has less room. */
static void cut_launches(vyc_error *error) {
  const size_t before = offsetof(vyc_error, launches);
  if (error->struct_size <= before || error->struct_size >= sizeof *error) return;
  const size_t room = error->struct_size - before;
  if (memchr(error->launches, 0, room) != NULL) return;
  size_t used = room;
  while (used > 0 && error->launches[used - 1] != '\n') used--;
  error->launches[used > 0 ? used - 1 : 0] = '\0';
}

vyc_status vyc_last_error(vyc_error *error_out) {
  if (error_out == NULL || error_out->struct_size < sizeof(uint32_t)) return VYC_E_INVALID;
  vyc__struct_out(error_out, &record, sizeof record);
  cut_launches(error_out);
  return VYC_OK;
}

const char *vyc_last_message(void) {
  static _Thread_local char text[sizeof record.operation + 2 + sizeof record.message];
  if (record.status == VYC_OK) return "";
  snprintf(text, sizeof text, "%s: %s", record.operation, record.message);
  return text;
}

uint32_t vyc_version(void) { return VYC_VERSION; }
