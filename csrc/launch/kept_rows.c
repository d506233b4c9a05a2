/* Many launches as one that is launched again and again: a table of its own, what the rows touch,
 * and what is cleared before. The rows may be those of several kernels. */
#include <stdlib.h>
#include <string.h>

#include "rows.h"

/* ---- what they touch -------------------------------------------------------------------------
 */

/* The ranges of one kernel in order; what adjacent ones share is written if one of them is. */
static void list_of_kernel(vyc_kept_rows *kept, const vyc_many *many, bool with_places) {
  const uint32_t before = kept->range_count;
  for (uint32_t i = 0; i < many->range_count; i++) {
    const vyc_row_range *range = &many->ranges[many->keys[i].range];
    if (!with_places && vyc__place_of(many, range->row, range->argument) != 0) continue;
    vyc_row_bytes *last = kept->range_count == before ? NULL : &kept->ranges[kept->range_count - 1];
    if (last != NULL && last->written == range->written && range->begin <= last->end) {
      if (range->end > last->end) last->end = range->end;
      continue;
    }
    kept->ranges[kept->range_count++] = (vyc_row_bytes){range->begin, range->end, range->written};
  }
}

static int by_begin(const void *a, const void *b) {
  const uint64_t x = ((const vyc_row_bytes *)a)->begin, y = ((const vyc_row_bytes *)b)->begin;
  return x < y ? -1 : x > y ? 1 : 0;
}

/* Those of several kernels, none of which meets another one that is written. */
static void put_in_order(vyc_kept_rows *kept) {
  uint32_t joined = 0;
  qsort(kept->ranges, kept->range_count, sizeof *kept->ranges, by_begin);
  for (uint32_t i = 0; i < kept->range_count; i++) {
    const vyc_row_bytes range = kept->ranges[i];
    vyc_row_bytes *last = joined == 0 ? NULL : &kept->ranges[joined - 1];
    if (last == NULL || last->written != range.written || range.begin > last->end)
      kept->ranges[joined++] = range;
    else if (range.end > last->end)
      last->end = range.end;
  }
  kept->range_count = joined;
}

/* Those of several kernels; the rows of each kernel have been compared with each other. */
static vyc_status compare_kernels(vyc_kept_rows *kept) {
  uint64_t all = 0, written = 0;
  qsort(kept->ranges, kept->range_count, sizeof *kept->ranges, by_begin);
  for (uint32_t i = 0; i < kept->range_count; i++) {
    const vyc_row_bytes *range = &kept->ranges[i];
    if (range->begin < (range->written ? all : written))
      return vyc__fail(VYC_E_INVALID, "graph",
                       "rows of several kernels share memory that one of them writes; launch some "
                       "of them in another step");
    all = range->end > all ? range->end : all;
    if (range->written && range->end > written) written = range->end;
  }
  return VYC_OK;
}

static vyc_status list_ranges(vyc_kept_rows *kept, const vyc_many *many, uint32_t count) {
  size_t most = 1;
  for (uint32_t i = 0; i < count; i++) most += many[i].range_count;
  kept->ranges = malloc(most * sizeof *kept->ranges);
  if (kept->ranges == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  for (uint32_t i = 0; count > 1 && i < count; i++) list_of_kernel(kept, &many[i], true);
  if (count > 1) VYC_TRY(compare_kernels(kept));
  kept->range_count = 0; /* what has a place is an argument of the launch */
  for (uint32_t i = 0; i < count; i++) list_of_kernel(kept, &many[i], false);
  if (count > 1) put_in_order(kept);
  return VYC_OK;
}

static vyc_status list_clears(vyc_kept_rows *kept, const vyc_many *many, uint32_t count) {
  size_t most = 0;
  for (uint32_t i = 0; i < count; i++) most += many[i].clears ? many[i].range_count : 0;
  if (most == 0) return VYC_OK;
  kept->clears = malloc(most * sizeof *kept->clears);
  if (kept->clears == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = 0;
    if (!many[i].clears) continue;
    for (vyc_clear clear = vyc__next_clear(&many[i], &at); clear.first != NULL;
         clear = vyc__next_clear(&many[i], &at))
      kept->clears[kept->clear_count++] = clear;
  }
  return VYC_OK;
}

/* ---- the table -------------------------------------------------------------------------------
 */

static vyc_status fail_blocks(void) {
  return vyc__fail(
      VYC_E_UNSUPPORTED, "graph",
      "the rows have more blocks than a launch can have: add some of them as another step");
}

static void set_arguments(vyc_kept_rows *kept, const vyc_prepared *entry) {
  kept->arguments[0] = kept->launch.argument;
  kept->launch.run.arguments = kept->arguments;
  kept->launch.run.argument_count = entry->binding_count;
}

/* `ends` are NULL for one kernel. */
static vyc_status put_table(vyc_kept_rows *kept, const vyc_prepared *entry, const vyc_many *many,
                            uint32_t count, const vyc_part *part, const uint64_t *ends) {
  if (part->rows == 0) return VYC_OK;
  uint8_t *bytes = calloc(1, part->bytes);
  if (bytes == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  if (ends == NULL)
    vyc__part_write(many, part, bytes);
  else
    vyc__part_write_all(many, count, part, bytes);
  vyc_status status = vyc_buffer_alloc(&kept->table, many->prepared->child.context, part->bytes);
  if (status == VYC_OK) status = vyc_copy_in(kept->table, 0, bytes, part->bytes);
  free(bytes);
  if (status != VYC_OK) return status;
  vyc__part_run_set(&kept->launch, part, kept->table);
  set_arguments(kept, entry);
  for (uint32_t i = 0; i + 1 < count; i++) kept->launch.scalars[VYC_ROW_SCALARS + i] = ends[i];
  kept->launch.run.scalar_count = VYC_ROW_SCALARS + count - 1;
  return VYC_OK;
}

static vyc_status make_table(vyc_kept_rows *kept, const vyc_prepared *entry, const vyc_many *many,
                             uint32_t count) {
  uint64_t ends[VYC_MOST_TABLES];
  vyc_part part;
  if (count == 1) {
    part = vyc__part_of(many, 0);
    if (part.end != many->rows->count) return fail_blocks();
    return put_table(kept, entry, many, 1, &part, NULL);
  }
  if (!vyc__part_of_all(many, count, &part, ends)) return fail_blocks();
  return put_table(kept, entry, many, count, &part, ends);
}

/* ---- all of it -------------------------------------------------------------------------------
 */

static vyc_status check_kernels(const vyc_prepared *entry, uint32_t count,
                                vyc_prepared *const *prepared) {
  bool fits = entry->binding_count >= 1 && entry->scalar_count == VYC_ROW_SCALARS + count - 1 &&
              !entry->has_barrier && !entry->has_report;
  for (uint32_t i = 0; i < count; i++)
    fits &= prepared[i]->child.context == entry->child.context && !prepared[i]->has_barrier &&
            !prepared[i]->has_report && !prepared[i]->may_overlap &&
            memcmp(entry->block, prepared[i]->block, sizeof entry->block) == 0;
  if (fits) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "launch",
                   "the entry for many launches was made for other kernels");
}

static vyc_status check(const vyc_prepared *entry, vyc_many *many, uint32_t count,
                        vyc_prepared *const *prepared) {
  if (count > 1) VYC_TRY(check_kernels(entry, count, prepared));
  for (uint32_t i = 0; i < count; i++) {
    VYC_TRY(vyc__rows_check(prepared[i], many[i].rows));
    VYC_TRY(vyc__many_begin(&many[i]));
    VYC_TRY(vyc__many_check(&many[i]));
  }
  return VYC_OK;
}

static vyc_status make(vyc_kept_rows *kept, const vyc_prepared *entry, const vyc_many *many,
                       uint32_t count) {
  VYC_TRY(vyc__row_places_find(kept->arguments, entry, many, count));
  VYC_TRY(list_ranges(kept, many, count));
  VYC_TRY(list_clears(kept, many, count));
  for (uint32_t i = 0; i < count; i++) vyc__row_places_put(&many[i]);
  return make_table(kept, entry, many, count);
}

static vyc_status make_of(vyc_kept_rows *kept, vyc_prepared *entry, vyc_many *many, uint32_t count,
                          vyc_prepared *const *prepared, const vyc_rows *const *rows,
                          const uint8_t *const *places) {
  for (uint32_t i = 0; i < count; i++) {
    many[i].prepared = prepared[i];
    many[i].entry = count == 1 ? entry : NULL;
    many[i].rows = rows[i];
    many[i].places = places == NULL ? NULL : places[i];
    many[i].lists = true;
  }
  vyc_status status = check(entry, many, count, prepared);
  if (status == VYC_OK) status = make(kept, entry, many, count);
  for (uint32_t i = 0; i < count; i++) vyc__many_end(&many[i]);
  return status;
}

vyc_status vyc__kept_rows_make(vyc_kept_rows *kept, vyc_prepared *entry, uint32_t count,
                               vyc_prepared *const *prepared, const vyc_rows *const *rows,
                               const uint8_t *const *places) {
  memset(kept, 0, sizeof *kept);
  vyc_many *many = calloc(count, sizeof *many);
  if (many == NULL) return vyc__fail(VYC_E_MEMORY, "calloc", "out of host memory");
  const vyc_status status = make_of(kept, entry, many, count, prepared, rows, places);
  free(many);
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
