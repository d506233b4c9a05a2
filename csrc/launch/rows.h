/* What the parts of many launches as one share. */
#ifndef VYC_LAUNCH_ROWS_H
#define VYC_LAUNCH_ROWS_H

#include "row_ranges.h"

/* The bytes of one binding in all rows. */
typedef struct vyc_row_span {
  uint64_t low, high;
  bool apart; /* each row was above or below all before it, so none share bytes */
} vyc_row_span;

/* What one call works with. */
typedef struct vyc_many {
  vyc_prepared *prepared;
  vyc_prepared *entry; /* NULL: one launch after the other */
  const vyc_rows *rows;
  vyc_launch_stream on;
  vyc_row_span *spans; /* one for each binding */
  vyc_row_range *ranges; /* of arguments that are not empty; NULL: they were not needed */
  vyc_row_key *keys, *room; /* as many */
  uint32_t range_count;
  bool clears; /* some outs */
} vyc_many;

static inline vyc_run vyc__row_run(const vyc_many *many, uint32_t row) {
  const vyc_rows *rows = many->rows;
  const uint32_t *grid = &rows->grids[(size_t)row * 3];
  return (vyc_run){.struct_size = sizeof(vyc_run),
                   .grid = {grid[0], grid[1], grid[2]},
                   .argument_count = rows->argument_count,
                   .scalar_count = rows->scalar_count,
                   .arguments = rows->arguments + (size_t)row * rows->argument_count,
                   .scalars = rows->scalars + (size_t)row * rows->scalar_count,
                   .stream = rows->stream,
                   .timeout_ns = -1,
                   .origin = rows->origin,
                   .flags = rows->flags};
}

/* The failure of a row, with its number; returns the status. */
vyc_status vyc__in_row(vyc_status status, uint32_t row);
/* All that may be wrong with the rows. If outs are to be cleared, the keys of their ranges are sorted
 * then. The caller frees `ranges`. */
vyc_status vyc__many_check(vyc_many *many);
/* Clear the outs that are to be cleared. */
vyc_status vyc__many_clear(const vyc_many *many);
/* Launch rows that were checked, whose buffers are marked and whose outs are cleared. */
vyc_status vyc__many_launch(const vyc_many *many);

#endif
