/* The checks of many launches as one: each row by itself, and whether rows share memory. */
#include <stdlib.h>

#include "rows.h"

#define VYC_ROWS_AHEAD 12u /* the row whose buffers are prefetched */

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
  uint32_t element_bytes;
  bool written;
} plain_binding;

static plain_binding binding_of(const vyc_many *many, uint32_t i) {
  const vyc_binding *binding = &many->prepared->bindings[i];
  const uint32_t element = binding->element_bytes;
  return (plain_binding){.context = many->prepared->child.context,
                         .most = UINT64_MAX / element,
                         .unaligned = (element & (0 - element)) - 1,
                         .element_bytes = element,
                         .written = binding->role != VYC_ROLE_IN};
}

/* Where its bytes begin and end, wherever that is. */
static inline bool is_plain(const plain_binding *b, const vyc_argument *argument,
                            uint64_t *begin_out, uint64_t *end_out) {
  const vyc_buffer *buffer = argument->buffer;
  if (VYC_UNLIKELY(argument->kind != VYC_ARGUMENT_BUFFER || buffer == NULL ||
                   buffer->child.context != b->context || argument->count > b->most))
    return false;
  const uint64_t offset = argument->offset, begin = buffer->address + offset;
  const uint64_t bytes = argument->count * b->element_bytes;
  *begin_out = begin;
  *end_out = begin + bytes;
  return VYC_LIKELY(offset <= buffer->bytes && bytes <= buffer->bytes - offset);
}

/* What is_plain and the code after it read of a buffer is one cache line, which does not begin with
 * the buffer. If the buffer is NULL, nothing is at the address, which a prefetch ignores. */
static inline void prefetch_buffer(const vyc_argument *argument) {
  const uintptr_t buffer = (uintptr_t)argument->buffer;
  __builtin_prefetch((const void *)(buffer + offsetof(vyc_buffer, child.context)));
}

/* The marks that all buffers have, and the least epoch of theirs. */
typedef struct common_marks {
  uint64_t used_on;
  uint32_t epoch;
} common_marks;

static inline void add_marks(common_marks *common, const vyc_buffer *buffer) {
  const uint32_t epoch = atomic_load_explicit(&buffer->epoch, memory_order_acquire);
  common->used_on &= atomic_load_explicit(&buffer->used_on, memory_order_relaxed);
  common->epoch = epoch < common->epoch ? epoch : common->epoch;
}

/* Whether vyc__buffer_is_marked says so of all. */
static bool all_are_marked(const vyc_many *many, const common_marks *common) {
  const uint32_t slot = many->on.slot;
  return slot < VYC_NEAR_SLOTS && (common->used_on >> slot & 1) != 0 &&
         common->epoch >= many->prepared->child.context->epochs[slot];
}

static inline void add_range(vyc_row_span *span, uint64_t begin, uint64_t end) {
  if (VYC_UNLIKELY(begin == end)) return;
  span->apart &= (begin >= span->high) | (end <= span->low);
  span->low = begin < span->low ? begin : span->low;
  span->high = end > span->high ? end : span->high;
}

/* Whether one argument of all rows passes vyc__launch_check, except that it may share bytes with
 * others, which all ranges together show. False: each row must be checked by itself. */
static bool binding_is_plain(vyc_many *many, uint32_t i) {
  const plain_binding b = binding_of(many, i);
  const uint32_t across = many->rows->argument_count, count = many->rows->count;
  const vyc_argument *argument = many->rows->arguments + i;
  vyc_row_array *array = many->arrays + i;
  common_marks common = {UINT64_MAX, UINT32_MAX};
  vyc_row_span span = {UINT64_MAX, 0, true, b.written};
  uint64_t begins = 0; /* the bits of all */
  bool adopted = false;
  for (uint32_t row = 0; row < count; row++, argument += across, array += across) {
    uint64_t begin, end;
    if (row + VYC_ROWS_AHEAD < count) prefetch_buffer(&argument[(size_t)VYC_ROWS_AHEAD * across]);
    if (VYC_UNLIKELY(!is_plain(&b, argument, &begin, &end))) return false;
    const vyc_buffer *buffer = argument->buffer;
    add_marks(&common, buffer);
    if (VYC_UNLIKELY(buffer->block == NULL)) { /* only such a one may be read-only */
      if (b.written && buffer->read_only) return false;
      adopted = true;
    }
    add_range(&span, begin, end);
    *array = (vyc_row_array){begin, argument->count};
    begins |= begin;
  }
  if (VYC_UNLIKELY((begins & b.unaligned) != 0)) return false; /* it may be empty */
  many->spans[i] = span;
  many->unmarked |= !all_are_marked(many, &common);
  many->adopted |= adopted;
  return true;
}

/* The same as vyc__needs_clear, of all rows, where the blocks alone decide. */
static void look_for_gaps(vyc_many *many, uint32_t i) {
  const uint32_t across = many->rows->argument_count, count = many->rows->count;
  const vyc_row_array *array = many->arrays + i;
  const uint32_t *grid = many->rows->grids;
  for (uint32_t row = 0; row < count; row++, array += across, grid += 3)
    if (VYC_UNLIKELY(!vyc__blocks_reach(many->prepared, grid, array->count))) {
      many->clears = true;
      return;
    }
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
    for (uint32_t i = 0; i < prepared->binding_count; i++) {
      const vyc_argument *argument = &run.arguments[i];
      many->arrays[(size_t)row * prepared->binding_count + i] =
          (vyc_row_array){argument->buffer->address + argument->offset, argument->count};
      many->clears |= argument->count != 0 && vyc__needs_clear(prepared, i, &run);
    }
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
  const vyc_row_array *array = many->arrays;
  for (uint32_t row = 0; row < many->rows->count; row++) {
    for (uint32_t i = 0; i < prepared->binding_count; i++, array++) {
      const uint64_t bytes = array->count * prepared->bindings[i].element_bytes;
      if (bytes != 0)
        many->ranges[many->range_count++] =
            (vyc_row_range){array->begin, array->begin + bytes, row, (uint16_t)i,
                            prepared->bindings[i].role != VYC_ROLE_IN};
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
                   "rows %u and %u share memory that one of them writes: %s of row %u and %s of "
                   "row %u; launch one of them in another call",
                   first->row, second->row,
                   vyc__array_text(many->prepared->called, first->argument).text, first->row,
                   vyc__array_text(many->prepared->called, second->argument).text, second->row);
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
  if (spans_are_apart(many) || vyc__row_bits_are_apart(many) ||
      (!many->adopted && vyc__row_buffers_are_apart(many)))
    return VYC_OK;
  return compare_ranges(many);
}

static vyc_status check_entry(const vyc_many *many) {
  const vyc_prepared *prepared = many->prepared, *entry = many->entry;
  if (entry == NULL) return VYC_OK;
  const vyc_prepared *clearing = many->rows->clearing;
  if (clearing != NULL &&
      (clearing->child.context != prepared->child.context || clearing->binding_count != 1 ||
       clearing->scalar_count != 0 || clearing->bindings[0].element_bytes != sizeof(uint32_t)))
    return vyc__fail(
        VYC_E_INVALID, "launch",
        "the kernel that clears must take one array of 4-byte elements, and nothing else");
  if (entry->child.context != prepared->child.context || entry->binding_count == 0 ||
      (many->places == NULL && entry->binding_count != 1) ||
      entry->scalar_count != VYC_ROW_SCALARS || entry->has_barrier || prepared->has_barrier ||
      entry->has_report != prepared->has_report ||
      memcmp(entry->block, prepared->block, sizeof entry->block) != 0)
    return vyc__fail(VYC_E_INVALID, "launch",
                     "the entry for many launches was made for another kernel");
  return VYC_OK;
}

vyc_status vyc__many_check(vyc_many *many) {
  VYC_TRY(check_entry(many));
  return check_rows(many);
}
