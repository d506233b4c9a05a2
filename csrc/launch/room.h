/* Launches on device memory; nothing here waits for them. */
#ifndef VYC_LAUNCH_ROOM_H
#define VYC_LAUNCH_ROOM_H

#include "kernel/room.h"

/* vyc__run_check for a run whose arguments are all buffers. */
vyc_status vyc__launch_check(const vyc_prepared *prepared, const vyc_run *run);
/* All launches: those counted, and those of bound calls that are not counted yet. */
uint64_t vyc__kernel_launches(vyc_context *context);

/* ---- many launches as one ---- */

#define VYC_FEW_CLEARS 4u /* so many memsets take about as long as a launch with its table */

/* Bytes that are cleared. */
typedef struct vyc_clear {
  const vyc_argument *first; /* that they begin with */
  uint64_t begin, end;
} vyc_clear;

#define VYC_ROW_SCALARS 5u /* of an entry for many launches */
#define VYC_MOST_TABLES 16u /* kernels of one such entry, with a scalar more for each but one */
#define VYC_MOST_PLACES 16u /* arrays of one such entry beside its table */

/* A launch of an entry for many launches; not to be moved. */
typedef struct vyc_part_run {
  vyc_argument argument;
  uint64_t scalars[VYC_ROW_SCALARS + VYC_MOST_TABLES - 1];
  vyc_run run;
} vyc_part_run;

typedef struct vyc_row_bytes {
  uint64_t begin, end;
  bool written;
} vyc_row_bytes;

/* Rows that are launched again and again; not to be moved. Arguments of clears are those of the
 * rows. */
typedef struct vyc_kept_rows {
  vyc_buffer *table; /* on the device; NULL: no row has blocks */
  vyc_part_run launch; /* of the entry */
  vyc_argument arguments[1 + VYC_MOST_PLACES]; /* of it: the table, and what has a place */
  uint32_t range_count, clear_count;
  vyc_row_bytes *ranges; /* that the rows touch, in order; adjacent ones are one */
  vyc_clear *clears; /* to be done before */
} vyc_kept_rows;

/* Check the rows of `count` kernels and write their table, for the entry of all of them.
 * `places`, or some of them, may be NULL. VYC_E_UNSUPPORTED: they have more blocks than a launch.
 */
vyc_status vyc__kept_rows_make(vyc_kept_rows *kept, vyc_prepared *entry, uint32_t count,
                               vyc_prepared *const *prepared, const vyc_rows *const *rows,
                               const uint8_t *const *places);
void vyc__kept_rows_end(vyc_kept_rows *kept);
/* The row of the clearing kernel for these bytes; false: it cannot clear them. */
bool vyc__clearing_row(const vyc_prepared *clearing, const vyc_clear *clear,
                       vyc_argument *argument_out, uint32_t grid_out[3]);

#endif
