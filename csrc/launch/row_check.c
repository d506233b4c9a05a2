/* The checks of many launches as one: each row by itself, and whether rows share memory. */
#include <stdlib.h>

#include "rows.h"

#define VYC_ROWS_AHEAD 6u /* of whose buffers the cache is told */

/* A function of its own, because a record needs much of the stack. */
__attribute__((cold, noinline)) vyc_status vyc__in_row(vyc_status status, uint32_t row) {
  vyc_error error;
  vyc__error_save(&error);
  if (status != VYC_E_INVALID) return status;
  return vyc__fail(status, error.operation, "row %u: %s", row, error.message);
}

static inline void extend_span(vyc_row_span *span, uint64_t begin, uint64_t end) {
  span->apart &= begin >= span->high || end <= span->low;
  span->low = begin < span->low ? begin : span->low;
  span->high = end > span->high ? end : span->high;
}

/* All that vyc__launch_check says of a row, but for arguments that share bytes, which all ranges
 * together show. False: it has the message. */
static inline bool row_is_plain(vyc_many *many, const vyc_run *run) {
  const vyc_prepared *prepared = many->prepared;
  if (VYC_UNLIKELY(run->scalar_count != prepared->plain_scalars)) return false;
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    const vyc_buffer *buffer = argument->buffer;
    const vyc_binding *binding = &prepared->bindings[i];
    uint64_t bytes;
    if (argument->kind != VYC_ARGUMENT_BUFFER || buffer == NULL ||
        buffer->child.context != prepared->child.context ||
        vyc__mul_overflows(argument->count, binding->element_bytes, &bytes) ||
        argument->offset > buffer->bytes || bytes > buffer->bytes - argument->offset)
      return false;
    const uint64_t begin = buffer->address + argument->offset;
    const bool written = binding->role != VYC_ROLE_IN;
    if (written && buffer->read_only) return false;
    if (bytes == 0) continue;
    if (!vyc__is_aligned(begin, binding->element_bytes)) return false;
    many->clears |= written && vyc__needs_clear(prepared, i, run);
    extend_span(&many->spans[i], begin, begin + bytes);
  }
  return true;
}

/* A row that is not plain, with everything that can be wrong with it. */
__attribute__((cold, noinline)) static vyc_status check_row(vyc_many *many, const vyc_run *run) {
  const vyc_prepared *prepared = many->prepared;
  VYC_TRY(vyc__launch_check(prepared, run));
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    many->clears |= run->arguments[i].count != 0 && vyc__needs_clear(prepared, i, run);
    many->spans[i].apart = false; /* its bytes may be among them already */
  }
  return VYC_OK;
}

/* By where they begin; a kernel has few. */
static void sort_spans(vyc_row_span *spans, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    const vyc_row_span span = spans[i];
    uint32_t at = i;
    for (; at > 0 && spans[at - 1].low > span.low; at--) spans[at] = spans[at - 1];
    spans[at] = span;
  }
}

/* Enough to know that no rows share bytes that one of them writes. The spans are in another order
 * then. */
static bool spans_are_apart(vyc_many *many) {
  vyc_row_span *spans = many->spans;
  const uint32_t count = many->prepared->binding_count;
  for (uint32_t i = 0; i < count; i++)
    if (spans[i].written && !spans[i].apart) return false;
  sort_spans(spans, count);
  uint64_t all = 0, written = 0; /* ends of those so far */
  for (uint32_t i = 0; i < count; i++) {
    if (spans[i].low >= spans[i].high) continue; /* nothing of it is touched */
    if (spans[i].low < (spans[i].written ? all : written)) return false;
    all = spans[i].high > all ? spans[i].high : all;
    if (spans[i].written && spans[i].high > written) written = spans[i].high;
  }
  return true;
}

static void gather_ranges(vyc_many *many) {
  const vyc_prepared *prepared = many->prepared;
  for (uint32_t row = 0; row < many->rows->count; row++) {
    const vyc_argument *arguments = many->rows->arguments + (size_t)row * prepared->binding_count;
    for (uint32_t i = 0; i < prepared->binding_count; i++) {
      const uint64_t begin = arguments[i].buffer->address + arguments[i].offset;
      const uint64_t bytes = arguments[i].count * prepared->bindings[i].element_bytes;
      if (bytes != 0)
        many->ranges[many->range_count++] = (vyc_row_range){
            begin, begin + bytes, row, (uint16_t)i, prepared->bindings[i].role != VYC_ROLE_IN};
    }
  }
}

__attribute__((cold, noinline)) static vyc_status fail_meeting(const vyc_many *many,
                                                               const vyc_row_meeting *meeting) {
  const vyc_row_range *first = meeting->first, *second = meeting->second;
  const vyc_run run = vyc__row_run(many, first->row);
  if (first->row == second->row)
    return vyc__in_row(vyc__launch_check(many->prepared, &run), first->row);
  return vyc__fail(VYC_E_INVALID, "launch",
                   "rows %u and %u share memory that one of them writes: argument %u of row %u "
                   "and argument %u of row %u; launch one of them afterwards",
                   first->row, second->row, first->argument, first->row, second->argument,
                   second->row);
}

/* In order of addresses. */
static vyc_status compare_ranges(vyc_many *many) {
  const size_t most = (size_t)many->rows->count * many->rows->argument_count;
  many->ranges = malloc(most * (sizeof(vyc_row_range) + 2 * sizeof(vyc_row_key)) + 1);
  if (many->ranges == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  many->keys = (vyc_row_key *)(void *)(many->ranges + most);
  many->room = many->keys + most;
  gather_ranges(many);
  many->keys = vyc__row_ranges_sort(many->ranges, many->keys, many->room, many->range_count);
  const vyc_row_meeting meeting = vyc__row_ranges_meet(many->ranges, many->keys, many->range_count,
                                                       many->prepared->may_overlap);
  return VYC_LIKELY(meeting.first == NULL) ? VYC_OK : fail_meeting(many, &meeting);
}

static inline void look_ahead(const vyc_many *many, uint32_t row) {
  const uint32_t across = many->rows->argument_count;
  if (row >= many->rows->count) return;
  for (uint32_t i = 0; i < across; i++) {
    const vyc_argument *argument = &many->rows->arguments[(size_t)row * across + i];
    if (argument->kind == VYC_ARGUMENT_BUFFER) __builtin_prefetch(argument->buffer);
  }
}

static vyc_status check_rows(vyc_many *many) {
  for (uint32_t i = 0; i < many->prepared->binding_count; i++)
    many->spans[i] =
        (vyc_row_span){UINT64_MAX, 0, true, many->prepared->bindings[i].role != VYC_ROLE_IN};
  for (uint32_t row = 0; row < many->rows->count; row++) {
    const vyc_run run = vyc__row_run(many, row);
    look_ahead(many, row + VYC_ROWS_AHEAD);
    if (VYC_LIKELY(row_is_plain(many, &run))) continue;
    const vyc_status status = check_row(many, &run);
    if (status != VYC_OK) return vyc__in_row(status, row);
  }
  return !many->clears && !many->lists && spans_are_apart(many) ? VYC_OK : compare_ranges(many);
}

static vyc_status check_entry(const vyc_many *many) {
  const vyc_prepared *prepared = many->prepared, *entry = many->entry;
  if (entry == NULL) return VYC_OK;
  const vyc_prepared *clearing = many->rows->clearing;
  if (clearing != NULL &&
      (clearing->child.context != prepared->child.context || clearing->binding_count != 1 ||
       clearing->scalar_count != 0 || clearing->bindings[0].element_bytes != sizeof(uint32_t)))
    return vyc__fail(VYC_E_INVALID, "launch", "the kernel that clears does not take one array");
  if (entry->child.context != prepared->child.context || entry->binding_count != 1 ||
      entry->scalar_count != VYC_ROW_SCALARS || entry->has_barrier || prepared->has_barrier ||
      entry->has_report != prepared->has_report ||
      memcmp(entry->block, prepared->block, sizeof entry->block) != 0)
    return vyc__fail(VYC_E_INVALID, "launch", "the entry for many launches is not of this kernel");
  return VYC_OK;
}

vyc_status vyc__many_check(vyc_many *many) {
  VYC_TRY(check_entry(many));
  return check_rows(many);
}
