/* The checks of many launches as one: each row by itself, and whether rows share memory. */
#include "rows.h"

/* A function of its own, because a record needs much of the stack. */
__attribute__((cold, noinline)) vyc_status vyc__in_row(vyc_status status, uint32_t row) {
  vyc_error error;
  vyc__error_save(&error);
  if (status != VYC_E_INVALID) return status;
  return vyc__fail(status, error.operation, "row %u: %s", row, error.message);
}

/* All that vyc__launch_check says of a row, but for arguments that share bytes, which the order of
 * all ranges shows. False: it has the message. */
static inline bool row_is_plain(vyc_many *many, const vyc_run *run, uint32_t row) {
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
    if (bytes == 0) continue;
    if (!vyc__is_aligned(begin, binding->element_bytes) || (written && buffer->read_only))
      return false;
    many->clears |= written && vyc__needs_clear(prepared, i, run);
    many->ranges[many->range_count++] =
        (vyc_row_range){begin, begin + bytes, row, (uint16_t)i, written};
  }
  return true;
}

/* A row that is not plain, with everything that can be wrong with it. */
__attribute__((cold, noinline)) static vyc_status check_row(vyc_many *many, const vyc_run *run,
                                                            uint32_t row) {
  const vyc_prepared *prepared = many->prepared;
  VYC_TRY(vyc__launch_check(prepared, run));
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    const uint64_t begin = argument->buffer->address + argument->offset;
    const uint64_t bytes = argument->count * prepared->bindings[i].element_bytes;
    if (bytes == 0) continue;
    many->clears |= vyc__needs_clear(prepared, i, run);
    many->ranges[many->range_count++] = (vyc_row_range){
        begin, begin + bytes, row, (uint16_t)i, prepared->bindings[i].role != VYC_ROLE_IN};
  }
  return VYC_OK;
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

static vyc_status check_rows(vyc_many *many) {
  const uint32_t count = many->rows->count;
  for (uint32_t row = 0; row < count; row++) {
    const uint32_t before = many->range_count;
    const vyc_run run = vyc__row_run(many, row);
    if (VYC_LIKELY(row_is_plain(many, &run, row))) continue;
    many->range_count = before;
    const vyc_status status = check_row(many, &run, row);
    if (status != VYC_OK) return vyc__in_row(status, row);
  }
  many->keys = vyc__row_ranges_sort(many->ranges, many->keys, many->room, many->range_count);
  const vyc_row_meeting meeting = vyc__row_ranges_meet(many->ranges, many->keys, many->range_count,
                                                       many->prepared->may_overlap);
  return VYC_LIKELY(meeting.first == NULL) ? VYC_OK : fail_meeting(many, &meeting);
}

static vyc_status check_entry(const vyc_many *many) {
  const vyc_prepared *prepared = many->prepared, *entry = many->entry;
  if (entry == NULL) return VYC_OK;
  const vyc_prepared *clearing = many->rows->clearing;
  if (clearing != NULL && (clearing->child.context != prepared->child.context ||
                           clearing->binding_count != 1 || clearing->scalar_count != 0 ||
                           clearing->bindings[0].element_bytes != sizeof(uint32_t)))
    return vyc__fail(VYC_E_INVALID, "launch", "the kernel that clears does not take one array");
  if (entry->child.context != prepared->child.context || entry->binding_count != 1 ||
      entry->scalar_count != 3 || entry->has_barrier || prepared->has_barrier ||
      entry->has_report != prepared->has_report ||
      memcmp(entry->block, prepared->block, sizeof entry->block) != 0)
    return vyc__fail(VYC_E_INVALID, "launch", "the entry for many launches is not of this kernel");
  return VYC_OK;
}

vyc_status vyc__many_check(vyc_many *many) {
  VYC_TRY(check_entry(many));
  return check_rows(many);
}
