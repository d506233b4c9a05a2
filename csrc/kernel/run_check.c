/* The checks of a run: its arguments are those that the kernel takes, in memory of its device,
 * aligned, and without overlaps where they are written. */
#include <inttypes.h>

#include "room.h"

static uint64_t bytes_of(const vyc_prepared *prepared, const vyc_run *run, uint32_t i) {
  return run->arguments[i].count * prepared->bindings[i].element_bytes;
}

/* Lists the written bindings that are not empty, by where they begin. Returns their number. */
static uint32_t sort_written(const vyc_prepared *prepared, uint8_t *order, const uint64_t *begins,
                             const uint64_t *ends) {
  uint32_t count = 0;
  for (uint32_t w = 0; w < prepared->written_count; w++)
    if (begins[prepared->written[w]] < ends[prepared->written[w]])
      order[count++] = prepared->written[w];
  for (uint32_t gap = 121; gap > 0; gap /= 3) /* 121, 40, 13, 4, 1: Knuth's */
    for (uint32_t i = gap; i < count; i++) {
      const uint8_t binding = order[i];
      uint32_t at = i;
      for (; at >= gap && begins[order[at - gap]] > begins[binding]; at -= gap)
        order[at] = order[at - gap];
      order[at] = binding;
    }
  return count;
}

bool vyc__ranges_apart(const vyc_prepared *prepared, const uint64_t *begins, const uint64_t *ends) {
  uint8_t order[VYC_MAX_BINDINGS];
  const uint32_t count = sort_written(prepared, order, begins, ends);
  for (uint32_t i = 1; i < count; i++)
    if (begins[order[i]] < ends[order[i - 1]]) return false;
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    if (prepared->bindings[i].role != VYC_ROLE_IN || begins[i] >= ends[i]) continue;
    uint32_t low = 0, high = count; /* finds the last of those that begin before its end */
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (begins[order[middle]] < ends[i])
        low = middle + 1;
      else
        high = middle;
    }
    if (low > 0 && ends[order[low - 1]] > begins[i]) return false;
  }
  return true;
}

/* The same for a run that was checked; arguments outside of buffers have no bytes here. A function
 * of its own, because it uses much of the stack. */
__attribute__((noinline)) static bool buffers_apart(const vyc_prepared *prepared,
                                                    const vyc_run *run) {
  uint64_t begins[VYC_MAX_BINDINGS], ends[VYC_MAX_BINDINGS];
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    const vyc_argument *a = &run->arguments[i];
    const bool counts = a->kind == VYC_ARGUMENT_BUFFER;
    begins[i] = counts ? a->buffer->address + a->offset : 0;
    ends[i] = counts ? begins[i] + bytes_of(prepared, run, i) : 0;
  }
  return vyc__ranges_apart(prepared, begins, ends);
}

/* Binding i is written and in a buffer: no other binding may share bytes with it. */
static vyc_status check_overlap(const vyc_prepared *prepared, const vyc_run *run, uint32_t i) {
  const vyc_argument *a = &run->arguments[i];
  const uint64_t a_begin = a->buffer->address + a->offset;
  const uint64_t a_end = a_begin + bytes_of(prepared, run, i);
  for (uint32_t j = 0; j < prepared->binding_count; j++) {
    const vyc_argument *b = &run->arguments[j];
    if (j == i || b->kind != VYC_ARGUMENT_BUFFER || a->count == 0 || b->count == 0) continue;
    const uint64_t b_begin = b->buffer->address + b->offset;
    if (a_begin < b_begin + bytes_of(prepared, run, j) && b_begin < a_end)
      return vyc__fail(VYC_E_INVALID, "run",
                       "%s and %s of %s overlap, and the kernel writes to one of them: give it "
                       "arrays that share no memory",
                       vyc__array_text(prepared->called, i < j ? i : j).text,
                       vyc__array_text(prepared->called, i < j ? j : i).text, prepared->name);
  }
  return VYC_OK;
}

/* A misaligned load would end the context. */
static vyc_status check_alignment(uint32_t i, uint64_t address, uint64_t bytes,
                                  uint32_t element_bytes) {
  if (VYC_LIKELY(vyc__is_aligned(address, element_bytes) || bytes == 0)) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "run",
                   "argument %u: elements of %u bytes at the address 0x%" PRIx64
                   " are misaligned: give an address "
                   "that is a multiple of %u",
                   i, element_bytes, address, element_bytes);
}

static vyc_status check_buffer(const vyc_prepared *prepared, uint32_t i,
                               const vyc_argument *argument) {
  const uint32_t element_bytes = prepared->bindings[i].element_bytes;
  const vyc_buffer *buffer = argument->buffer;
  if (buffer == NULL || buffer->child.context != prepared->child.context)
    return vyc__fail(VYC_E_INVALID, "run",
                     "argument %u is not a buffer of device %d: copy it to one", i,
                     prepared->child.context->caps.ordinal);
  if (VYC_UNLIKELY(buffer->read_only) && prepared->bindings[i].role != VYC_ROLE_IN)
    return vyc__fail(
        VYC_E_INVALID, "run",
        "argument %u is written, but its memory is read-only, as declared by its owner: give a "
        "copy",
        i);
  uint64_t bytes = 0;
  if (VYC_LIKELY(!vyc__mul_overflows(argument->count, element_bytes, &bytes) &&
                 argument->offset <= buffer->bytes && bytes <= buffer->bytes - argument->offset))
    return check_alignment(i, buffer->address + argument->offset, bytes, element_bytes);
  return vyc__fail(VYC_E_INVALID, "run",
                   "argument %u: a range of %" PRIu64 " element%s of %u byte%s from byte %" PRIu64
                   " does not fit in a buffer of %" PRIu64 " byte%s",
                   i, argument->count, VYC_S(argument->count), element_bytes, VYC_S(element_bytes),
                   argument->offset, buffer->bytes, VYC_S(buffer->bytes));
}

/* `data` is the address that the device will access. */
static vyc_status check_pinned(const vyc_prepared *prepared, uint32_t i,
                               const vyc_argument *argument, const void *data) {
  const vyc_pinned *pinned = argument->pinned;
  if (pinned->child.context != prepared->child.context)
    return vyc__fail(VYC_E_INVALID, "run",
                     "argument %u is page-locked for another device: give memory of this one", i);
  const uint64_t offset = (uint64_t)(uintptr_t)data - (uint64_t)(uintptr_t)pinned->data;
  uint64_t bytes = 0;
  if (vyc__mul_overflows(argument->count, prepared->bindings[i].element_bytes, &bytes) ||
      (bytes > 0 && (offset > pinned->bytes || bytes > pinned->bytes - offset)))
    return vyc__fail(VYC_E_INVALID, "run",
                     "argument %u extends past the end of its page-locked memory", i);
  return check_alignment(i, (uint64_t)(uintptr_t)data, bytes, prepared->bindings[i].element_bytes);
}

static vyc_status check_host(const vyc_prepared *prepared, uint32_t i,
                             const vyc_argument *argument) {
  const uint32_t role = prepared->bindings[i].role;
  const bool reads = role != VYC_ROLE_OUT, writes = role != VYC_ROLE_IN;
  if (argument->kind != VYC_ARGUMENT_HOST && argument->kind != VYC_ARGUMENT_PINNED)
    return vyc__fail(VYC_E_INVALID, "run",
                     "argument %u has the unknown kind %u: set one of VYC_ARGUMENT_...", i,
                     argument->kind);
  if (argument->count > 0 &&
      ((reads && argument->data == NULL) || (writes && argument->result == NULL)))
    return vyc__fail(
        VYC_E_INVALID, "run",
        "argument %u has no memory: set data of what is read, result of what is written", i);
  if (VYC_LIKELY(argument->kind == VYC_ARGUMENT_HOST || argument->pinned == NULL)) return VYC_OK;
  return check_pinned(prepared, i, argument, writes ? argument->result : argument->data);
}

vyc_status vyc__run_fail_size(const vyc_run *run) {
  if (run == NULL) return vyc__fail(VYC_E_INVALID, "run", "run is NULL");
  return vyc__fail(VYC_E_INVALID, "run",
                   "the run's struct_size is %u: set it to sizeof(vyc_run), which is %zu",
                   run->struct_size, sizeof *run);
}

/* The counts are wrong, or there are known values to compare. */
__attribute__((cold, noinline)) static vyc_status check_counts(const vyc_prepared *prepared,
                                                               const vyc_run *run) {
  if (run->argument_count != prepared->binding_count || run->scalar_count != prepared->scalar_count)
    return vyc__fail(
        VYC_E_INVALID, "run", "the kernel takes %u array%s and %u scalar%s, not %u and %u",
        prepared->binding_count, VYC_S(prepared->binding_count), prepared->scalar_count,
        VYC_S(prepared->scalar_count), run->argument_count, run->scalar_count);
  VYC_REQUIRE_IN("run", run->arguments != NULL || run->argument_count == 0);
  VYC_REQUIRE_IN("run", run->scalars != NULL || run->scalar_count == 0);
  return vyc__known_compare(prepared, run);
}

vyc_status vyc__run_check(const vyc_prepared *prepared, const vyc_run *run) {
  VYC_TRY(vyc__run_check_size(run));
  if (VYC_UNLIKELY(run->argument_count != prepared->binding_count ||
                   run->scalar_count != prepared->plain_scalars))
    VYC_TRY(check_counts(prepared, run));
  VYC_REQUIRE_IN("run", run->arguments != NULL || run->argument_count == 0);
  VYC_REQUIRE_IN("run", run->scalars != NULL || run->scalar_count == 0);
  if (VYC_UNLIKELY(prepared->cooperative)) VYC_TRY(vyc__cooperative_check(prepared, run->grid));
  bool written = false; /* a buffer */
  for (uint32_t i = 0; i < run->argument_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (vyc__is_host(argument)) {
      VYC_TRY(check_host(prepared, i, argument));
      continue;
    }
    VYC_TRY(check_buffer(prepared, i, argument));
    written |= prepared->bindings[i].role != VYC_ROLE_IN && !prepared->may_overlap;
  }
  if (written && prepared->written_count > VYC_FEW_WRITTEN && buffers_apart(prepared, run))
    return VYC_OK;
  for (uint32_t i = 0; written && i < run->argument_count; i++)
    if (!vyc__is_host(&run->arguments[i]) && prepared->bindings[i].role != VYC_ROLE_IN)
      VYC_TRY(check_overlap(prepared, run, i));
  return VYC_OK;
}

vyc_status vyc_prepared_check(vyc_prepared *prepared, const vyc_run *run) {
  VYC_REQUIRE(prepared != NULL);
  return vyc__run_check(prepared, run);
}
