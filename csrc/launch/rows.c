/* Many launches of one kernel as one. They are independent, which is checked, so they may run in
 * any order. */
#include <stdlib.h>

#include "rows.h"

/* All arguments, for what is done with the buffers of a run. */
static vyc_run run_of_all(const vyc_rows *rows) {
  return (vyc_run){.struct_size = sizeof(vyc_run),
                   .argument_count = rows->count * rows->argument_count,
                   .arguments = rows->arguments,
                   .stream = rows->stream,
                   .timeout_ns = -1};
}

/* ---- the launch -------------------------------------------------------------------------------
 */

static vyc_status launch_table(const vyc_many *many, const vyc_part *part, vyc_buffer *table) {
  vyc_part_run launch;
  vyc__part_run_set(&launch, part, table);
  launch.run.stream = many->rows->stream;
  launch.run.origin = many->rows->origin;
  return vyc_prepared_launch(many->entry, &launch.run);
}

/* Both are given back at once: they are reused behind what uses them. */
static vyc_status fill_and_launch(const vyc_many *many, const vyc_part *part, vyc_buffer *table,
                                  vyc_pinned *staging) {
  vyc_context *context = many->prepared->child.context;
  vyc__part_write(many, part, staging->data);
  VYC_TRY(vyc__pinned_use(staging, many->on.slot));
  VYC_TRY(vyc__buffer_use(table, many->on.stream, many->on.slot));
  VYC_TRY(vyc__copy_up(context, table->address, staging->data, part->bytes, many->on.stream));
  return launch_table(many, part, table);
}

static vyc_status launch_part(const vyc_many *many, const vyc_part *part) {
  vyc_context *context = many->prepared->child.context;
  vyc_buffer *table = NULL;
  vyc_pinned *staging = NULL;
  vyc_status status = vyc_buffer_alloc(&table, context, part->bytes);
  if (status == VYC_OK) status = vyc_pinned_alloc(&staging, context, part->bytes);
  if (status == VYC_OK) status = fill_and_launch(many, part, table, staging);
  vyc__record_keep();
  vyc__pinned_drop(staging);
  vyc_buffer_release(table);
  vyc__record_resume();
  return status;
}

static vyc_status launch_row(const vyc_many *many, uint32_t row) {
  const vyc_run run = vyc__row_run(many, row);
  const vyc_status status = vyc_prepared_launch(many->prepared, &run);
  return VYC_LIKELY(status == VYC_OK) ? VYC_OK : vyc__in_row(status, row);
}

vyc_status vyc__many_launch(const vyc_many *many) {
  for (uint32_t begin = 0; begin < many->rows->count;) {
    const vyc_part part = vyc__part_of(many, begin);
    const bool too_large = part.begin == part.end; /* the row alone */
    if (too_large)
      VYC_TRY(launch_row(many, begin));
    else if (part.rows != 0)
      VYC_TRY(launch_part(many, &part));
    begin = part.end + too_large;
  }
  return VYC_OK;
}

/* Without adopted memory, no buffer has an owner whose stream is ordered behind the launch. */
static vyc_status follow(const vyc_many *many, uint32_t taken) {
  vyc_context *context = many->prepared->child.context;
  const vyc_run all = run_of_all(many->rows);
  if (VYC_UNLIKELY(many->adopted || vyc__marks_taken(context) != taken))
    return vyc__run_enqueued(context, &all, many->on.stream, many->on.slot, taken);
  return vyc__stream_order_owner(many->rows->stream);
}

static vyc_status launch_as_one(const vyc_many *many, uint32_t taken) {
  const vyc_run all = run_of_all(many->rows);
  for (uint32_t i = 0; many->unmarked && i < all.argument_count; i++)
    VYC_TRY(vyc__buffer_use(all.arguments[i].buffer, many->on.stream, many->on.slot));
  vyc_status status = many->clears ? vyc__many_clear(many) : VYC_OK;
  if (status == VYC_OK) status = vyc__many_launch(many);
  if (VYC_UNLIKELY(status != VYC_OK)) vyc__record_keep();
  const vyc_status ordered = follow(many, taken); /* even then: something may have been enqueued */
  if (VYC_UNLIKELY(status != VYC_OK)) vyc__record_resume();
  return status == VYC_OK ? ordered : status;
}

static vyc_status launch_many(vyc_many *many) {
  const uint32_t taken = vyc__marks_taken(many->prepared->child.context);
  VYC_TRY(vyc__launch_stream_of(many->prepared->child.context, &many->on, many->rows->stream));
  VYC_TRY(vyc__many_check(many));
  if (many->entry != NULL && many->rows->count > 1 && !many->on.captured)
    return launch_as_one(many, taken);
  for (uint32_t row = 0; row < many->rows->count; row++) VYC_TRY(launch_row(many, row));
  return VYC_OK;
}

vyc_status vyc__many_begin(vyc_many *many) {
  const size_t across = many->rows->argument_count, all = across * many->rows->count;
  many->spans = malloc((across + 1) * sizeof *many->spans + all * sizeof *many->arrays);
  if (many->spans == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  many->arrays = (vyc_row_array *)(void *)(many->spans + across + 1);
  return VYC_OK;
}

void vyc__many_end(vyc_many *many) {
  free(many->ranges);
  free(many->spans);
}

static vyc_status check_and_launch(vyc_many *many) {
  vyc_context *context = many->prepared->child.context;
  VYC_TRY(vyc__many_begin(many));
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = launch_many(many);
    vyc__leave(context, &scope);
  }
  vyc__many_end(many);
  return status;
}

vyc_status vyc__rows_check(const vyc_prepared *prepared, const vyc_rows *rows) {
  VYC_REQUIRE_IN("launch", rows->struct_size >= sizeof *rows);
  if (rows->argument_count != prepared->binding_count ||
      rows->scalar_count != prepared->scalar_count)
    return vyc__fail(VYC_E_INVALID, "launch",
                     "the kernel takes %u array%s and %u scalar%s in each row, not %u and %u",
                     prepared->binding_count, VYC_S(prepared->binding_count),
                     prepared->scalar_count, VYC_S(prepared->scalar_count), rows->argument_count,
                     rows->scalar_count);
  VYC_REQUIRE_IN("launch", rows->count == 0 || rows->grids != NULL);
  VYC_REQUIRE_IN("launch", rows->arguments != NULL || rows->argument_count == 0);
  VYC_REQUIRE_IN("launch", rows->scalars != NULL || rows->scalar_count == 0);
  if ((uint64_t)rows->count * prepared->binding_count <= INT32_MAX) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "launch",
                   "%u rows of %u arrays are too many: launch some of them in another call",
                   rows->count, prepared->binding_count);
}

vyc_status vyc_prepared_launch_many(vyc_prepared *prepared, vyc_prepared *many,
                                    const vyc_rows *rows) {
  VYC_REQUIRE(prepared != NULL && rows != NULL);
  VYC_TRY(vyc__rows_check(prepared, rows));
  vyc_many what = {.prepared = prepared, .entry = many, .rows = rows};
  return rows->count == 0 ? VYC_OK : check_and_launch(&what);
}
