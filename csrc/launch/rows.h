/* What the parts of many launches as one share. */
#ifndef VYC_LAUNCH_ROWS_H
#define VYC_LAUNCH_ROWS_H

#include <string.h>

#include "row_ranges.h"

/* The bytes of one binding in all rows. */
typedef struct vyc_row_span {
  uint64_t low, high;
  bool apart; /* each row was above or below all before it, so none share bytes */
  bool written;
} vyc_row_span;

/* What is kept of the argument of a row; a vyc_argument fills a cache line. */
typedef struct vyc_row_array {
  uint64_t begin, count; /* address, elements */
} vyc_row_array;

/* What one call works with. */
typedef struct vyc_many {
  vyc_prepared *prepared;
  vyc_prepared *entry; /* NULL: one launch after the other */
  const vyc_rows *rows;
  const uint8_t *places; /* as in vyc_graph_add_tables_with; or NULL */
  vyc_launch_stream on;
  vyc_row_span *spans; /* one for each binding */
  vyc_row_array *arrays; /* of the arguments, row after row, once they are checked */
  vyc_row_range *ranges; /* of arguments that are not empty; NULL: they were not needed */
  vyc_row_key *keys, *room; /* as many */
  uint32_t range_count;
  bool clears; /* some outs */
  bool lists; /* the ranges are needed in any case */
  bool unmarked; /* some buffer is not known to have work on the stream */
  bool adopted; /* some buffer is adopted; two of these may be the same memory */
} vyc_many;

/* Of an argument of a row; 0: none. */
static inline uint8_t vyc__place_of(const vyc_many *many, uint32_t row, uint32_t argument) {
  return many->places == NULL ? 0
                              : many->places[(size_t)row * many->rows->argument_count + argument];
}

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

/* The same, made from the run of another row: only what differs is written. */
static inline void vyc__row_run_next(const vyc_many *many, uint32_t row, vyc_run *run) {
  const vyc_rows *rows = many->rows;
  memcpy(run->grid, &rows->grids[(size_t)row * 3], sizeof run->grid);
  run->arguments = rows->arguments + (size_t)row * rows->argument_count;
  run->scalars = rows->scalars + (size_t)row * rows->scalar_count;
}

/* Check what `rows` says of itself. */
vyc_status vyc__rows_check(const vyc_prepared *prepared, const vyc_rows *rows);
/* Make room for the checks, and free what they made. */
vyc_status vyc__many_begin(vyc_many *many);
void vyc__many_end(vyc_many *many);

/* ---- row_bits.c ---- */

/* Whether no written bytes belong to another argument too, for rows that were checked: each bit
 * stands for so many bytes that few bits are needed. False: unknown. */
bool vyc__row_bits_are_apart(const vyc_many *many);

/* ---- row_buffers.c ---- */

/* Whether no written buffer belongs to another argument too: then no bytes do, because each buffer
 * has memory of its own. For rows that were checked, and have no adopted memory. */
bool vyc__row_buffers_are_apart(const vyc_many *many);

/* ---- row_places.c ---- */

/* The arguments of a launch of the entry behind its table, from the rows of `count` kernels. */
vyc_status vyc__row_places_find(vyc_argument *arguments_out, const vyc_prepared *entry,
                                const vyc_many *many, uint32_t count);
/* From here on the rows have the number of the place instead of the address. */
void vyc__row_places_put(const vyc_many *many);

/* ---- row_table.c ---- */

/* The rows from `begin` to `end` that have blocks, as one launch. */
typedef struct vyc_part {
  uint32_t begin, end;
  uint32_t rows, blocks;
  uint32_t elements; /* of a thread; more than 1 in the entry's form for large launches */
  uint32_t each; /* blocks of every row; 0: they differ */
  bool flat; /* all blocks are along x */
  uint32_t scale; /* block * scale >> shift is the row, if each is not 0 */
  uint32_t shift, groups; /* else they are of the map, which has no groups otherwise */
  uint64_t stride, bytes; /* of a row, of the table */
} vyc_part;

/* The next part after the row before `begin`: as many rows as a launch can have blocks of. */
vyc_part vyc__part_of(const vyc_many *many, uint32_t begin);
void vyc__part_write(const vyc_many *many, const vyc_part *part, uint8_t *table);
/* The launch of the entry, with its table. */
void vyc__part_run_set(vyc_part_run *launch, const vyc_part *part, vyc_buffer *table);
/* All rows of several kernels, the first ones those of the first; `ends_out`: before which row
 * those of each kernel end. False: one launch has not so many blocks. */
bool vyc__part_of_all(const vyc_many *many, uint32_t count, vyc_part *part_out, uint64_t *ends_out);
void vyc__part_write_all(const vyc_many *many, uint32_t count, const vyc_part *part,
                         uint8_t *table);

/* ---- checks, clears, launches ---- */

/* The failure of a row, with its number; returns the status. */
vyc_status vyc__in_row(vyc_status status, uint32_t row);
/* All that may be wrong with the rows. If outs are to be cleared, or ranges listed, the keys of
 * their ranges are sorted then. */
vyc_status vyc__many_check(vyc_many *many);
/* The next bytes that are to be cleared and that nothing separates, after the ranges before `*at`,
 * which moves on; none: `first` is NULL. */
vyc_clear vyc__next_clear(const vyc_many *many, uint32_t *at);
/* Clear the outs that are to be cleared. */
vyc_status vyc__many_clear(const vyc_many *many);
/* Launch rows that were checked, whose buffers are marked and whose outs are cleared. */
vyc_status vyc__many_launch(const vyc_many *many);

#endif
