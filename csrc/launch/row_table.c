/* The table in which each block of many launches finds the launch that it is of. What the entry
 * expects of it is said in vyre_cuda/kernel.h. */
#include <string.h>

#include "row_block.h"

#define VYC_ROW_HEADER 16u /* bytes: first block, and blocks along x, y and z */
#define VYC_ROW_ALIGN 16u
#define VYC_MOST_BLOCKS INT32_MAX /* along x */

static uint64_t blocks_of(const vyc_rows *rows, uint32_t row) {
  const uint32_t *grid = &rows->grids[(size_t)row * 3];
  uint64_t blocks = (uint64_t)grid[0] * grid[1];
  return vyc__mul_overflows(blocks, grid[2], &blocks) ? UINT64_MAX : blocks;
}

static bool is_flat(const vyc_rows *rows, uint32_t row) {
  const uint32_t *grid = &rows->grids[(size_t)row * 3];
  return grid[1] == 1 && grid[2] == 1;
}

static inline bool is_as_before(const vyc_rows *rows, uint32_t row) {
  const uint32_t *grid = &rows->grids[(size_t)row * 3], *before = grid - 3;
  return grid[0] == before[0] && grid[1] == before[1] && grid[2] == before[2];
}

static uint64_t row_bytes(const vyc_prepared *prepared) {
  const uint64_t bytes = VYC_ROW_HEADER + (uint64_t)prepared->parameter_bytes;
  return (bytes + VYC_ROW_ALIGN - 1) / VYC_ROW_ALIGN * VYC_ROW_ALIGN;
}

/* For all numbers below 2^31, by one multiplication: with 2^log >= each, 2^(31 + log) / each,
 * rounded up, is too large by less than 2^log / each. */
static void set_division(vyc_part *part) {
  uint32_t log = 0;
  while (UINT64_C(1) << log < part->each) log++;
  part->shift = 31 + log;
  part->scale = (uint32_t)((UINT64_C(1) << part->shift) / part->each + 1);
}

static vyc_part count_blocks(const vyc_many *many, uint32_t begin, uint32_t elements) {
  vyc_part part = {.begin = begin, .end = begin, .elements = elements, .flat = true};
  uint64_t blocks = 0;
  for (; part.end < many->rows->count; part.end++) {
    if (part.end == begin || !is_as_before(many->rows, part.end)) {
      blocks = blocks_of(many->rows, part.end);
      if (elements > 1 && blocks != 0) blocks = (blocks - 1) / elements + 1;
    }
    if (blocks == 0) continue;
    if (blocks > VYC_MOST_BLOCKS - part.blocks) break;
    part.flat &= is_flat(many->rows, part.end);
    part.each = part.rows == 0 || part.each == blocks ? (uint32_t)blocks : 0;
    part.blocks += (uint32_t)blocks;
    part.rows++;
  }
  return part;
}

static vyc_run run_of_part(const vyc_part *part) {
  const bool several = part->elements > 1;
  return (vyc_run){.struct_size = sizeof(vyc_run),
                   .grid = {part->blocks * part->elements, 1, 1},
                   .argument_count = 1,
                   .scalar_count = VYC_ROW_SCALARS,
                   .timeout_ns = -1,
                   .flags = several ? VYC_RUN_GRID_OF_WORK : 0};
}

/* The same rows with several elements a thread. */
static vyc_part in_fewer_blocks(const vyc_many *many, const vyc_part *one) {
  const uint32_t elements = many->entry->several_elements;
  if (one->each == 0) return count_blocks(many, one->begin, elements);
  vyc_part part = *one;
  part.elements = elements;
  part.each = (one->each - 1) / elements + 1;
  part.blocks = part.rows * part.each;
  return part;
}

/* With several elements a thread, if that makes at most half as many blocks, and enough of them. */
static vyc_part part_of(const vyc_many *many, uint32_t begin) {
  const vyc_part one = count_blocks(many, begin, 1);
  if (many->entry == NULL || atomic_load(&many->entry->several) == NULL || !one.flat ||
      one.blocks == 0 || (many->rows->flags & VYC_RUN_GRID_OF_WORK) == 0 ||
      (uint64_t)one.blocks * many->prepared->block[0] > VYC_SEVERAL_MOST)
    return one;
  const vyc_part several = in_fewer_blocks(many, &one);
  if (several.end != one.end || several.blocks > one.blocks / 2) return one;
  const vyc_run run = run_of_part(&several);
  return vyc__is_several(many->entry, &run) ? several : one;
}

/* How blocks find their rows, and the size of the table. */
static void set_layout(vyc_part *part) {
  if (part->each != 0) {
    set_division(part);
  } else if (part->rows != 0) {
    while ((part->blocks - 1) >> part->shift >= 2 * (uint64_t)part->rows) part->shift++;
    part->groups = ((part->blocks - 1) >> part->shift) + 1;
  }
  const uint64_t bytes = part->rows * part->stride + (uint64_t)part->groups * 2 * sizeof(uint32_t);
  part->bytes = (bytes + VYC_ROW_ALIGN - 1) / VYC_ROW_ALIGN * VYC_ROW_ALIGN;
}

vyc_part vyc__part_of(const vyc_many *many, uint32_t begin) {
  vyc_part part = part_of(many, begin);
  part.stride = row_bytes(many->prepared);
  set_layout(&part);
  return part;
}

bool vyc__part_of_all(const vyc_many *many, uint32_t count, vyc_part *part_out,
                      uint64_t *ends_out) {
  vyc_part all = {.elements = 1, .flat = true};
  for (uint32_t i = 0; i < count; i++) {
    const vyc_part part = count_blocks(&many[i], 0, 1);
    if (part.end != many[i].rows->count || part.blocks > VYC_MOST_BLOCKS - all.blocks) return false;
    const uint64_t stride = row_bytes(many[i].prepared);
    all.stride = stride > all.stride ? stride : all.stride;
    all.flat &= part.flat;
    if (part.rows != 0) all.each = all.rows == 0 || all.each == part.each ? part.each : 0;
    all.blocks += part.blocks;
    all.rows += part.rows;
    ends_out[i] = all.rows;
  }
  set_layout(&all);
  *part_out = all;
  return true;
}

static void write_group(uint32_t *map, const vyc_part *part, uint32_t row, uint32_t first,
                        uint32_t last) {
  for (uint32_t group = first >> part->shift; group <= last >> part->shift; group++) {
    if (group << part->shift >= first) map[2 * (size_t)group] = row;
    map[2 * (size_t)group + 1] = row;
  }
}

/* Where the next row of a table is written. */
typedef struct cursor {
  uint8_t *at;
  uint32_t *map;
  uint32_t first, written; /* blocks and rows before it */
} cursor;

static cursor begin_table(const vyc_part *part, uint8_t *table) {
  return (cursor){table, (uint32_t *)(void *)(table + part->rows * part->stride), 0, 0};
}

static void write_rows(const vyc_many *many, const vyc_part *part, uint32_t begin, uint32_t end,
                       cursor *next) {
  const vyc_rows rows = *many->rows; /* what is written to the table changes none of it */
  const uint64_t stride = part->stride;
  const uint32_t elements = part->elements;
  const bool mapped = part->groups != 0;
  const vyc_row_block plan = vyc__row_block_of(many->prepared);
  const uint64_t *scalars = rows.scalars + (size_t)begin * rows.scalar_count;
  const vyc_row_array *arrays = many->arrays + (size_t)begin * rows.argument_count;
  uint8_t *table = next->at;
  uint32_t first = next->first, written = next->written;
  for (uint32_t row = begin; row < end; row++) {
    const uint32_t *grid = &rows.grids[(size_t)row * 3];
    /* More than one element: they are flat. All rows of a part have few blocks. */
    const uint32_t along = elements > 1 && grid[0] != 0 ? (grid[0] - 1) / elements + 1 : grid[0];
    const uint32_t blocks = along * grid[1] * grid[2];
    if (blocks != 0) {
      const uint32_t header[4] = {first, along, grid[1], grid[2]};
      memcpy(table, header, sizeof header);
      vyc__row_block_write(&plan, table + VYC_ROW_HEADER, arrays, scalars);
      if (mapped) write_group(next->map, part, written, first, first + blocks - 1);
      table += stride;
      first += blocks;
      written++;
    }
    arrays += rows.argument_count;
    scalars += rows.scalar_count;
  }
  *next = (cursor){table, next->map, first, written};
}

void vyc__part_write(const vyc_many *many, const vyc_part *part, uint8_t *table) {
  cursor next = begin_table(part, table);
  write_rows(many, part, part->begin, part->end, &next);
}

void vyc__part_write_all(const vyc_many *many, uint32_t count, const vyc_part *part,
                         uint8_t *table) {
  cursor next = begin_table(part, table);
  for (uint32_t i = 0; i < count; i++) write_rows(&many[i], part, 0, many[i].rows->count, &next);
}

void vyc__part_run_set(vyc_part_run *launch, const vyc_part *part, vyc_buffer *table) {
  launch->argument = (vyc_argument){
      .kind = VYC_ARGUMENT_BUFFER, .count = part->bytes / VYC_ROW_ALIGN, .buffer = table};
  const uint64_t scalars[] = {part->rows, part->each, part->scale, part->shift, part->flat};
  _Static_assert(sizeof scalars == VYC_ROW_SCALARS * sizeof *scalars, "those of an entry");
  memcpy(launch->scalars, scalars, sizeof scalars);
  launch->run = run_of_part(part);
  launch->run.arguments = &launch->argument;
  launch->run.scalars = launch->scalars;
}
