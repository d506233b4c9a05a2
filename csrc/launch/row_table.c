/* The table in which each block of many launches finds the launch that it is of. What the entry
 * expects of it is said in vyre_cuda/kernel.h. */
#include <string.h>

#include "rows.h"

#define VYC_ROW_HEADER 16u /* bytes: first block, and blocks along x, y and z */
#define VYC_ROW_ALIGN 16u
#define VYC_MOST_BLOCKS INT32_MAX /* along x */

static uint64_t blocks_of(const vyc_rows *rows, uint32_t row) {
  const uint32_t *grid = &rows->grids[(size_t)row * 3];
  uint64_t blocks = (uint64_t)grid[0] * grid[1];
  return vyc__mul_overflows(blocks, grid[2], &blocks) ? UINT64_MAX : blocks;
}

static uint64_t row_bytes(const vyc_prepared *prepared) {
  const uint64_t bytes = VYC_ROW_HEADER + (uint64_t)prepared->parameter_bytes;
  return (bytes + VYC_ROW_ALIGN - 1) / VYC_ROW_ALIGN * VYC_ROW_ALIGN;
}

vyc_part vyc__part_of(const vyc_many *many, uint32_t begin) {
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
    while ((part.blocks - 1) >> part.shift >= 2 * (uint64_t)part.rows) part.shift++;
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

void vyc__part_write(const vyc_many *many, const vyc_part *part, uint8_t *table) {
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

void vyc__part_run_set(vyc_part_run *launch, const vyc_part *part, vyc_buffer *table) {
  launch->argument = (vyc_argument){
      .kind = VYC_ARGUMENT_BUFFER, .count = part->bytes / VYC_ROW_ALIGN, .buffer = table};
  launch->scalars[0] = part->rows;
  launch->scalars[1] = part->each;
  launch->scalars[2] = part->shift;
  launch->run = (vyc_run){.struct_size = sizeof(vyc_run),
                          .grid = {part->blocks, 1, 1},
                          .argument_count = 1,
                          .scalar_count = 3,
                          .arguments = &launch->argument,
                          .scalars = launch->scalars,
                          .timeout_ns = -1};
}
