/* The checks of bytes before they are read as a bundle. */
#ifndef VYC_BUNDLE_CHECK_H
#define VYC_BUNDLE_CHECK_H

#include "room.h"

/* ---- check.c ---- */

/* Fill in the tables and check everything in them against the format. */
vyc_status vyc__bundle_check(vyc_bundle *bundle);

/* What has been read of each table so far, by its ranges. */
typedef struct vyc_cursors {
  uint64_t next[VYC_SECTION_KINDS];
} vyc_cursors;

bool vyc__bundle_take(const vyc_bundle *bundle, vyc_cursors *cursors, uint32_t kind,
                      vyc_disk_range range);
bool vyc__bundle_take_data(const vyc_bundle *bundle, vyc_cursors *cursors, vyc_disk_data data);
bool vyc__bundle_is_text(const vyc_bundle *bundle, vyc_disk_text text);
__attribute__((format(printf, 1, 2), cold)) vyc_status vyc__bundle_wrong(const char *format, ...);

static inline bool vyc__bundle_is_name(const vyc_bundle *bundle, vyc_disk_text text) {
  return text.length > 0 && vyc__bundle_is_text(bundle, text);
}

/* A requirement of the format, with the place that violates it. */
#define VYC_DEMAND(condition, ...)                                                                 \
  do {                                                                                             \
    if (VYC_UNLIKELY(!(condition))) return vyc__bundle_wrong(__VA_ARGS__);                         \
  } while (0)

/* ---- check_kernel.c ---- */

vyc_status vyc__bundle_kernels_check(const vyc_bundle *bundle, vyc_cursors *cursors);

/* ---- check_graph.c ---- */

vyc_status vyc__bundle_graphs_check(const vyc_bundle *bundle, vyc_cursors *cursors);

/* ---- check_contents.c ---- */

/* Bytes of the UTF-8 sequence at `text`, 0: none (RFC 3629, section 4). */
uint32_t vyc__utf8_bytes(const uint8_t *text, uint64_t left);
/* An ELF64 file that contains its tables. */
bool vyc__is_elf(const uint8_t *data, uint64_t bytes);

#endif
