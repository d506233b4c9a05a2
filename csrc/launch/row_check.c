/* The checks of many launches as one: each row by itself, and whether rows share memory. */
#include <stdlib.h>

#include "rows.h"

#define VYC_ROWS_AHEAD 12u /* of whose buffers the cache is told */

/* A function of its own, because a record needs much of the stack. */
__attribute__((cold, noinline)) vyc_status vyc__in_row(vyc_status status, uint32_t row) {
  vyc_error error;
  vyc__error_save(&error);
  if (status != VYC_E_INVALID) return status;
  return vyc__fail(status, error.operation, "row %u: %s", row, error.message);
}

/* What the buffers of a binding have in common, so that no row asks for it again. */
typedef struct plain_binding {
  const vyc_context *context;
  uint64_t most, unaligned; /* elements; bits of an address that are 0 */
  uint64_t mark; /* of the stream; 0: it is not told by one */
  uint32_t element_bytes, epoch;
  bool written;
} plain_binding;

static plain_binding binding_of(const vyc_many *many, uint32_t i) {
  const vyc_binding *binding = &many->prepared->bindings[i];
  const vyc_context *context = many->prepared->child.context;
  const uint32_t slot = many->on.slot, element = binding->element_bytes;
  const bool near = slot < VYC_NEAR_SLOTS;
  return (plain_binding){.context = context,
                         .most = UINT64_MAX / element,
                         .unaligned = (element & (0 - element)) - 1,
                         .mark = near ? UINT64_C(1) << slot : 0,
                         .element_bytes = element,
                         .epoch = near ? context->epochs[slot] : 0,
                         .written = binding->role != VYC_ROLE_IN};
}

/* Its bytes; none may begin anywhere. */
static inline bool is_plain(const plain_binding *b, const vyc_argument *argument, uint64_t *begin,
                            uint64_t *end) {
  const vyc_buffer *buffer = argument->buffer;
  if (VYC_UNLIKELY(argument->kind != VYC_ARGUMENT_BUFFER || buffer == NULL ||
                   buffer->child.context != b->context || argument->count > b->most))
    return false;
  const uint64_t offset = argument->offset, bytes = argument->count * b->element_bytes;
  *begin = buffer->address + offset;
  *end = *begin + bytes;
  return VYC_LIKELY(offset <= buffer->bytes && bytes <= buffer->bytes - offset &&
                    !(b->written && buffer->read_only) &&
                    ((*begin & b->unaligned) == 0 || bytes == 0));
}

/* The part of a buffer that is_plain and what follows it look at is one line of the cache, which
 * does not begin with the buffer. The address is of no buffer where that is NULL. */
static inline void tell_cache(const vyc_argument *argument) {
  const uintptr_t buffer = (uintptr_t)argument->buffer;
  __builtin_prefetch((const void *)(buffer + offsetof(vyc_buffer, child.context)));
}

/* All that vyc__launch_check says of one argument of all rows, but whether it shares bytes with
 * others, which all ranges together show. False: one of the rows is to be checked by itself. */
static bool binding_is_plain(vyc_many *many, uint32_t i) {
  const plain_binding b = binding_of(many, i);
  const uint32_t across = many->rows->argument_count, count = many->rows->count;
  const vyc_argument *argument = many->rows->arguments + i;
  uint64_t low = UINT64_MAX, high = 0;
  bool apart = true, unmarked = false, adopted = false;
  for (uint32_t row = 0; row < count; row++, argument += across) {
    uint64_t begin, end;
    if (row + VYC_ROWS_AHEAD < count) tell_cache(&argument[(size_t)VYC_ROWS_AHEAD * across]);
    if (VYC_UNLIKELY(!is_plain(&b, argument, &begin, &end))) return false;
    const vyc_buffer *buffer = argument->buffer;
    if (VYC_UNLIKELY(!vyc__buffer_is_marked(buffer, b.mark, b.epoch))) unmarked = true;
    if (VYC_UNLIKELY(buffer->block == NULL)) adopted = true;
    if (VYC_UNLIKELY(begin == end)) continue;
    apart &= begin >= high || end <= low;
    low = begin < low ? begin : low;
    high = end > high ? end : high;
  }
  many->spans[i] = (vyc_row_span){low, high, apart, b.written};
  many->unmarked |= unmarked;
  many->adopted |= adopted;
  return true;
}

/* The same as vyc__needs_clear, of all rows, where the blocks alone decide. */
static void look_for_gaps(vyc_many *many, uint32_t i) {
  const uint32_t across = many->rows->argument_count;
  const vyc_argument *argument = many->rows->arguments + i;
  const uint32_t *grid = many->rows->grids;
  bool gaps = false;
  for (uint32_t row = 0; row < many->rows->count; row++, argument += across, grid += 3)
    gaps |= !vyc__blocks_reach(many->prepared, grid, argument->count);
  many->clears |= gaps;
}

static void look_for_clears(vyc_many *many, uint32_t i) {
  if (VYC_LIKELY(vyc__goes_by_blocks(&many->prepared->bindings[i]))) {
    look_for_gaps(many, i);
    return;
  }
  vyc_run run = vyc__row_run(many, 0);
  for (uint32_t row = 0; !many->clears && row < many->rows->count; row++) {
    vyc__row_run_next(many, row, &run);
    many->clears |= run.arguments[i].count != 0 && vyc__needs_clear(many->prepared, i, &run);
  }
}

static bool rows_are_plain(vyc_many *many) {
  const vyc_prepared *prepared = many->prepared;
  if (many->rows->scalar_count != prepared->plain_scalars) return false;
  for (uint32_t i = 0; i < prepared->binding_count; i++)
    if (!binding_is_plain(many, i)) return false;
  for (uint32_t i = 0; i < prepared->binding_count; i++)
    if (prepared->bindings[i].role == VYC_ROLE_OUT) look_for_clears(many, i);
  return true;
}

/* Rows that are not plain, each with everything that can be wrong with it. */
__attribute__((cold, noinline)) static vyc_status check_each(vyc_many *many) {
  const vyc_prepared *prepared = many->prepared;
  for (uint32_t row = 0; row < many->rows->count; row++) {
    const vyc_run run = vyc__row_run(many, row);
    const vyc_status status = vyc__launch_check(prepared, &run);
    if (status != VYC_OK) return vyc__in_row(status, row);
    for (uint32_t i = 0; i < prepared->binding_count; i++)
      many->clears |= run.arguments[i].count != 0 && vyc__needs_clear(prepared, i, &run);
  }
  many->unmarked = many->adopted = true; /* which was not looked at */
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
                   "and argument %u of row %u; launch one of them in another call",
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

static vyc_status check_rows(vyc_many *many) {
  if (many->rows->count == 0) return VYC_OK;
  const bool plain = rows_are_plain(many);
  if (!plain) VYC_TRY(check_each(many));
  if (!plain || many->clears || many->lists) return compare_ranges(many);
  if (spans_are_apart(many) || (!many->adopted && vyc__row_buffers_are_apart(many))) return VYC_OK;
  return compare_ranges(many);
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
