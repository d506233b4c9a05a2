/* Many launches of one kernel as one: the table in which each block finds the launch that it is of.
 *
 * The launches are independent, which is checked, so they may run in any order. What the entry
 * expects of the table is said in vyre_cuda/kernel.h. */
#include <stdlib.h>
#include <string.h>

#include "rows.h"

#define VYC_ROW_HEADER 16u /* bytes: first block, and blocks along x, y and z */
#define VYC_ROW_ALIGN 16u
#define VYC_MOST_BLOCKS INT32_MAX /* along x */

/* All arguments, for what is done with the buffers of a run. */
static vyc_run run_of_all(const vyc_rows *rows) {
  return (vyc_run){.struct_size = sizeof(vyc_run),
                   .argument_count = rows->count * rows->argument_count,
                   .arguments = rows->arguments,
                   .stream = rows->stream,
                   .timeout_ns = -1};
}

static uint64_t blocks_of(const vyc_rows *rows, uint32_t row) {
  const uint32_t *grid = &rows->grids[(size_t)row * 3];
  uint64_t blocks = (uint64_t)grid[0] * grid[1];
  return vyc__mul_overflows(blocks, grid[2], &blocks) ? UINT64_MAX : blocks;
}

/* ---- the table -------------------------------------------------------------------------------- */

/* The rows from `begin` to `end` that have blocks, as one launch. */
typedef struct vyc_part {
  uint32_t begin, end;
  uint32_t rows, blocks;
  uint32_t each; /* blocks of every row; 0: they differ */
  uint32_t shift, groups; /* of the map; no groups if it is not needed */
  uint64_t bytes;
} vyc_part;

static uint64_t row_bytes(const vyc_prepared *prepared) {
  const uint64_t bytes = VYC_ROW_HEADER + (uint64_t)prepared->parameter_bytes;
  return (bytes + VYC_ROW_ALIGN - 1) / VYC_ROW_ALIGN * VYC_ROW_ALIGN;
}

/* The next part after the row before `begin`: as many rows as a launch can have blocks of. */
static vyc_part part_of(const vyc_many *many, uint32_t begin) {
  vyc_part part = {.begin = begin, .end = begin};
  for (; part.end < many->rows->count; part.end++) {
    const uint64_t blocks = blocks_of(many->rows, part.end);
    if (blocks == 0) continue;
    if (blocks > VYC_MOST_BLOCKS - part.blocks) break;
    part.each = part.rows == 0 || part.each == blocks ? (uint32_t)blocks : 0;
    part.blocks += (uint32_t)blocks;
    part.rows++;
  }
  if (part.rows != 0 && part.each == 0) {
    while ((part.blocks - 1) >> part.shift >= 2 * (uint64_t)part.rows)
      part.shift++;
    part.groups = ((part.blocks - 1) >> part.shift) + 1;
  }
  const uint64_t bytes =
      part.rows * row_bytes(many->prepared) + (uint64_t)part.groups * 2 * sizeof(uint32_t);
  part.bytes = (bytes + VYC_ROW_ALIGN - 1) / VYC_ROW_ALIGN * VYC_ROW_ALIGN;
  return part;
}

static void write_group(uint32_t *map, const vyc_part *part, uint32_t row, uint32_t first,
                        uint32_t last) {
  for (uint32_t group = first >> part->shift; group <= last >> part->shift; group++) {
    if (group << part->shift >= first) map[2 * (size_t)group] = row;
    map[2 * (size_t)group + 1] = row;
  }
}

/* What comes from no argument the entry has itself. */
static inline void write_block(const vyc_prepared *prepared, uint8_t *block,
                               const vyc_argument *arguments, const uint64_t *scalars) {
  const vyc_block_parameter *const end = prepared->parameters + prepared->parameter_count;
  for (const vyc_block_parameter *p = prepared->parameters; p != end; p++) {
    uint64_t value = 0;
    if (p->kind == VYC_PARAMETER_POINTER)
      value = arguments[p->index].buffer->address + arguments[p->index].offset;
    else if (p->kind == VYC_PARAMETER_SCALAR)
      value = scalars[p->index];
    else if (p->kind == VYC_PARAMETER_SIZE)
      value = arguments[p->index].count;
    if (p->size == sizeof value)
      memcpy(block + p->offset, &value, sizeof value);
    else if (p->size == sizeof(uint32_t))
      memcpy(block + p->offset, &value, sizeof(uint32_t));
    else
      memcpy(block + p->offset, &value, p->size);
  }
}

static void write_table(const vyc_many *many, const vyc_part *part, uint8_t *table) {
  const uint64_t stride = row_bytes(many->prepared);
  const vyc_rows *rows = many->rows;
  uint32_t *map = (uint32_t *)(void *)(table + part->rows * stride);
  uint32_t first = 0, written = 0;
  for (uint32_t row = part->begin; row < part->end; row++) {
    const uint32_t *grid = &rows->grids[(size_t)row * 3];
    const uint32_t blocks = (uint32_t)blocks_of(rows, row);
    if (blocks == 0) continue;
    const uint32_t header[4] = {first, grid[0], grid[1], grid[2]};
    memcpy(table, header, sizeof header);
    write_block(many->prepared, table + VYC_ROW_HEADER,
                rows->arguments + (size_t)row * rows->argument_count,
                rows->scalars + (size_t)row * rows->scalar_count);
    if (part->groups != 0) write_group(map, part, written, first, first + blocks - 1);
    table += stride;
    first += blocks;
    written++;
  }
}

/* ---- the launch ------------------------------------------------------------------------------- */

static vyc_status launch_table(const vyc_many *many, const vyc_part *part, vyc_buffer *table) {
  const vyc_argument argument = {
      .kind = VYC_ARGUMENT_BUFFER, .count = part->bytes / VYC_ROW_ALIGN, .buffer = table};
  const uint64_t scalars[3] = {part->rows, part->each, part->shift};
  const vyc_run run = {.struct_size = sizeof run,
                       .grid = {part->blocks, 1, 1},
                       .argument_count = 1,
                       .scalar_count = 3,
                       .arguments = &argument,
                       .scalars = scalars,
                       .stream = many->rows->stream,
                       .timeout_ns = -1,
                       .origin = many->rows->origin};
  return vyc_prepared_launch(many->entry, &run);
}

/* Both are given back at once: they are reused behind what uses them. */
static vyc_status fill_and_launch(const vyc_many *many, const vyc_part *part, vyc_buffer *table,
                                  vyc_pinned *staging) {
  vyc_context *context = many->prepared->child.context;
  write_table(many, part, staging->data);
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
    const vyc_part part = part_of(many, begin);
    const bool too_large = part.begin == part.end; /* the row alone */
    if (too_large)
      VYC_TRY(launch_row(many, begin));
    else if (part.rows != 0)
      VYC_TRY(launch_part(many, &part));
    begin = part.end + too_large;
  }
  return VYC_OK;
}

static vyc_status launch_as_one(const vyc_many *many, uint32_t taken) {
  const vyc_run all = run_of_all(many->rows);
  for (uint32_t i = 0; i < all.argument_count; i++)
    VYC_TRY(vyc__buffer_use(all.arguments[i].buffer, many->on.stream, many->on.slot));
  vyc_status status = many->clears ? vyc__many_clear(many) : VYC_OK;
  if (status == VYC_OK) status = vyc__many_launch(many);
  if (VYC_UNLIKELY(status != VYC_OK)) vyc__record_keep();
  /* Even then: something may have been enqueued. */
  const vyc_status ordered = vyc__run_enqueued(many->prepared->child.context, &all, many->on.stream,
                                               many->on.slot, taken);
  if (VYC_UNLIKELY(status != VYC_OK)) vyc__record_resume();
  return status == VYC_OK ? ordered : status;
}

static vyc_status launch_many(vyc_many *many) {
  const uint32_t taken = vyc__marks_taken(many->prepared->child.context);
  VYC_TRY(vyc__many_check(many));
  VYC_TRY(vyc__launch_stream_of(many->prepared->child.context, &many->on, many->rows->stream));
  if (many->entry != NULL && many->rows->count > 1 && !many->on.captured)
    return launch_as_one(many, taken);
  for (uint32_t row = 0; row < many->rows->count; row++)
    VYC_TRY(launch_row(many, row));
  return VYC_OK;
}

static vyc_status launch_in_room(vyc_many *many) {
  vyc_context *context = many->prepared->child.context;
  many->spans = malloc((many->rows->argument_count + (size_t)1) * sizeof *many->spans);
  if (many->spans == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = launch_many(many);
    vyc__leave(context, &scope);
  }
  free(many->ranges);
  free(many->spans);
  return status;
}

vyc_status vyc_prepared_launch_many(vyc_prepared *prepared, vyc_prepared *many,
                                    const vyc_rows *rows) {
  VYC_REQUIRE(prepared != NULL && rows != NULL && rows->struct_size >= sizeof *rows);
  if (rows->argument_count != prepared->binding_count ||
      rows->scalar_count != prepared->scalar_count)
    return vyc__fail(
        VYC_E_INVALID, "launch",
        "rows of %u buffer and %u scalar arguments for a kernel that takes %u and %u",
        rows->argument_count, rows->scalar_count, prepared->binding_count, prepared->scalar_count);
  VYC_REQUIRE(rows->count == 0 || rows->grids != NULL);
  VYC_REQUIRE(rows->arguments != NULL || rows->argument_count == 0);
  VYC_REQUIRE(rows->scalars != NULL || rows->scalar_count == 0);
  if ((uint64_t)rows->count * prepared->binding_count > INT32_MAX)
    return vyc__fail(VYC_E_INVALID, "launch", "%u rows of %u arrays are too many", rows->count,
                     prepared->binding_count);
  vyc_many what = {.prepared = prepared, .entry = many, .rows = rows};
  return rows->count == 0 ? VYC_OK : launch_in_room(&what);
}
