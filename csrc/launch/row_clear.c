/* Outs that are cleared before many launches: adjacent ones of a buffer together, as the driver
 * fills no memory that is of two allocations, and many of them in a launch of their own. */
#include <stdlib.h>

#include "rows.h"

static bool is_cleared(const vyc_many *many, const vyc_row_range *range) {
  const vyc_run run = vyc__row_run(many, range->row);
  return vyc__needs_clear(many->prepared, range->argument, &run);
}

vyc_clear vyc__next_clear(const vyc_many *many, uint32_t *at) {
  vyc_clear clear = {NULL, 0, 0};
  for (; *at < many->range_count; ++*at) {
    const vyc_row_range *range = &many->ranges[many->keys[*at].range];
    if (!is_cleared(many, range)) continue;
    const vyc_argument *argument =
        &many->rows->arguments[(size_t)range->row * many->rows->argument_count + range->argument];
    if (clear.first != NULL &&
        (range->begin != clear.end || argument->buffer != clear.first->buffer))
      break;
    if (clear.first == NULL) {
      clear.begin = range->begin;
      clear.first = argument;
    }
    clear.end = range->end;
  }
  return clear;
}

static vyc_status clear_bytes(const vyc_many *many, const vyc_clear *clear) {
  return vyc__clear(many->prepared->child.context, clear->begin, clear->end - clear->begin,
                    many->on.stream);
}

static vyc_status clear_one_by_one(const vyc_many *many) {
  uint32_t at = 0;
  for (vyc_clear clear = vyc__next_clear(many, &at); clear.first != NULL;
       clear = vyc__next_clear(many, &at))
    VYC_TRY(clear_bytes(many, &clear));
  return VYC_OK;
}

bool vyc__clearing_row(const vyc_prepared *clearing, const vyc_clear *clear,
                       vyc_argument *argument_out, uint32_t grid_out[3]) {
  const uint64_t words = (clear->end - clear->begin) / sizeof(uint32_t);
  if ((clear->begin | clear->end) % sizeof(uint32_t) != 0 || words > INT32_MAX) return false;
  *argument_out = *clear->first;
  argument_out->count = words;
  grid_out[0] = (uint32_t)((words - 1) / clearing->block[0] + 1);
  grid_out[1] = grid_out[2] = 1;
  return true;
}

/* What the clearing kernel does not take is cleared here. Returns the number of its rows. */
static vyc_status fill_clearing(const vyc_many *many, vyc_argument *arguments,
                                vyc_row_array *arrays, uint32_t *grids, uint32_t *count_out) {
  uint32_t at = 0, count = 0;
  for (vyc_clear clear = vyc__next_clear(many, &at); clear.first != NULL;
       clear = vyc__next_clear(many, &at)) {
    if (vyc__clearing_row(many->rows->clearing, &clear, &arguments[count],
                          &grids[3 * (size_t)count])) {
      arrays[count] = (vyc_row_array){clear.begin, arguments[count].count};
      count++;
    } else {
      VYC_TRY(clear_bytes(many, &clear));
    }
  }
  *count_out = count;
  return VYC_OK;
}

static vyc_status clear_by_rows(const vyc_many *many, uint32_t most) {
  const size_t each = sizeof(vyc_argument) + sizeof(vyc_row_array) + 3 * sizeof(uint32_t);
  vyc_argument *arguments = malloc(most * each);
  if (arguments == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  vyc_row_array *arrays = (vyc_row_array *)(void *)(arguments + most);
  uint32_t *grids = (uint32_t *)(void *)(arrays + most);
  vyc_rows rows = {.struct_size = sizeof rows,
                   .argument_count = 1,
                   .arguments = arguments,
                   .grids = grids,
                   .stream = many->rows->stream,
                   .origin = many->rows->origin,
                   .flags = VYC_RUN_GRID_OF_WORK};
  const vyc_many clearing = {.prepared = many->rows->clearing,
                             .entry = many->rows->many_clearing,
                             .rows = &rows,
                             .on = many->on,
                             .arrays = arrays};
  vyc_status status = fill_clearing(many, arguments, arrays, grids, &rows.count);
  if (status == VYC_OK) status = vyc__many_launch(&clearing);
  free(arguments);
  return status;
}

vyc_status vyc__many_clear(const vyc_many *many) {
  uint32_t at = 0, count = 0;
  while (vyc__next_clear(many, &at).first != NULL) count++;
  const bool by_rows = many->rows->clearing != NULL && many->rows->many_clearing != NULL;
  return by_rows && count > VYC_FEW_CLEARS ? clear_by_rows(many, count) : clear_one_by_one(many);
}
