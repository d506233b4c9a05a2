/* The kernel that reads many small ranges at once; see gather.c. */
#ifndef VYC_GATHER_H
#define VYC_GATHER_H

#include "gather_text.h"
#include "room.h"

/* benchmarks/probes/gather.c measures both ways around each of these. */
#define VYC_GATHER_LEAST 4u /* ranges: fewer copies take less than a launch and what it writes */
#define VYC_GATHER_BYTES 4096u /* of a range, at most: those of a block that are moved at once */
#define VYC_GATHER_ROWS 32u /* of a launch */
#define VYC_GATHER_ALIGN 16u /* bytes, modulo which a range and its place begin alike */

typedef struct vyc_gathering {
  vyc_context *context;
  uint64_t most; /* bytes of a range */
  uint32_t count;
  vyc_gather_row rows[VYC_GATHER_ROWS];
} vyc_gathering;

/* Whether so many ranges are read by the kernel; then vyc__gather_add each, and vyc__gather_end.
 * They are on the main stream, like copies. */
bool vyc__gather_begin(vyc_gathering *gathering, vyc_context *context, uint32_t ranges);
vyc_status vyc__gather_add(vyc_gathering *gathering, const void *to, uint64_t from, uint64_t bytes);
vyc_status vyc__gather_end(vyc_gathering *gathering);

#endif
