/* Many launches as one that is launched again and again: a table of its own, what the rows touch,
 * and what is cleared before. */
#include <stdlib.h>
#include <string.h>

#include "rows.h"

/* The ranges in order; what adjacent ones share is written if one of them is. */
static vyc_status list_ranges(vyc_kept_rows *kept, const vyc_many *many) {
  kept->ranges = malloc(((size_t)many->range_count + 1) * sizeof *kept->ranges);
  if (kept->ranges == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  for (uint32_t i = 0; i < many->range_count; i++) {
    const vyc_row_range *range = &many->ranges[many->keys[i].range];
    vyc_row_bytes *last = kept->range_count == 0 ? NULL : &kept->ranges[kept->range_count - 1];
    if (last != NULL && last->written == range->written && range->begin <= last->end) {
      if (range->end > last->end) last->end = range->end;
      continue;
    }
    kept->ranges[kept->range_count++] = (vyc_row_bytes){range->begin, range->end, range->written};
  }
  return VYC_OK;
}

static vyc_status list_clears(vyc_kept_rows *kept, const vyc_many *many) {
  if (!many->clears) return VYC_OK;
  kept->clears = malloc(((size_t)many->range_count + 1) * sizeof *kept->clears);
  if (kept->clears == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  uint32_t at = 0;
  for (vyc_clear clear = vyc__next_clear(many, &at); clear.first != NULL;
       clear = vyc__next_clear(many, &at))
    kept->clears[kept->clear_count++] = clear;
  return VYC_OK;
}

static vyc_status make_table(vyc_kept_rows *kept, const vyc_many *many) {
  const vyc_part part = vyc__part_of(many, 0);
  if (part.end != many->rows->count)
    return vyc__fail(VYC_E_UNSUPPORTED, "graph", "%u rows have more blocks than a launch can have",
                     many->rows->count);
  if (part.rows == 0) return VYC_OK;
  uint8_t *bytes = calloc(1, part.bytes);
  if (bytes == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  vyc__part_write(many, &part, bytes);
  vyc_status status = vyc_buffer_alloc(&kept->table, many->prepared->child.context, part.bytes);
  if (status == VYC_OK) status = vyc_copy_in(kept->table, 0, bytes, part.bytes);
  free(bytes);
  if (status == VYC_OK) vyc__part_run_set(&kept->launch, &part, kept->table);
  return status;
}

static vyc_status make(vyc_kept_rows *kept, vyc_many *many) {
  VYC_TRY(vyc__many_check(many));
  VYC_TRY(list_ranges(kept, many));
  VYC_TRY(list_clears(kept, many));
  return make_table(kept, many);
}

vyc_status vyc__kept_rows_make(vyc_kept_rows *kept, vyc_prepared *prepared, vyc_prepared *many,
                               const vyc_rows *rows) {
  vyc_many what = {.prepared = prepared, .entry = many, .rows = rows, .lists = true};
  memset(kept, 0, sizeof *kept);
  VYC_TRY(vyc__rows_check(prepared, rows));
  VYC_TRY(vyc__many_begin(&what));
  const vyc_status status = make(kept, &what);
  vyc__many_end(&what);
  if (status != VYC_OK) vyc__kept_rows_end(kept);
  return status;
}

void vyc__kept_rows_end(vyc_kept_rows *kept) {
  vyc__record_keep();
  vyc_buffer_release(kept->table);
  vyc__record_resume();
  free(kept->ranges);
  free(kept->clears);
  memset(kept, 0, sizeof *kept);
}
