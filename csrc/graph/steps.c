/* The parameters of a recorded step: checking, copying, holding and comparing them, and what they
 * touch. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ---- checks ---------------------------------------------------------------------------------- */

vyc_status vyc__recorded_check(const vyc_prepared *prepared, const vyc_run *run) {
  VYC_TRY(vyc__launch_check(prepared, run));
  if (run->stream == NULL) return VYC_OK;
  return vyc__fail(
      VYC_E_INVALID, "graph",
      "a recorded launch cannot have a stream of its own: give one to the launch of the graph");
}

static vyc_status check_side(const vyc_context *context, const vyc_buffer *buffer, uint64_t offset,
                             uint64_t bytes) {
  if (buffer->child.context != context)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "the buffer belongs to device %d: copy it to one of device %d",
                     buffer->child.context->caps.ordinal, context->caps.ordinal);
  if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "graph",
                   "a range of %" PRIu64 " byte%s from byte %" PRIu64
                   " does not fit in a buffer of %" PRIu64 " byte%s",
                   bytes, VYC_S(bytes), offset, buffer->bytes, VYC_S(buffer->bytes));
}

static vyc_status check_fill(const vyc_graph_transfer *t) {
  VYC_REQUIRE_IN("transfer", t->to != NULL);
  VYC_REQUIRE_IN("transfer",
                 t->element_bytes == 1 || t->element_bytes == 2 || t->element_bytes == 4);
  VYC_REQUIRE_IN("transfer",
                 t->bytes % t->element_bytes == 0 && t->to_offset % t->element_bytes == 0);
  return VYC_OK;
}

vyc_status vyc__transfer_check(const vyc_context *context, const vyc_graph_transfer *t) {
  VYC_REQUIRE(t != NULL && t->struct_size >= sizeof *t);
  VYC_REQUIRE(t->to == NULL || t->to_host == NULL);
  VYC_REQUIRE(t->from == NULL || t->from_host == NULL);
  VYC_REQUIRE(t->to != NULL || (t->to_host != NULL && t->from != NULL));
  VYC_REQUIRE(t->pinned == NULL || t->to_host != NULL || t->from_host != NULL);
  if (t->to != NULL) VYC_TRY(check_side(context, t->to, t->to_offset, t->bytes));
  if (t->to != NULL) VYC_TRY(vyc__check_writable(t->to, "graph"));
  if (t->from != NULL) VYC_TRY(check_side(context, t->from, t->from_offset, t->bytes));
  if (vyc__is_fill(t)) return check_fill(t);
  if (t->to == NULL || t->to != t->from) return VYC_OK;
  const uint64_t low = t->to_offset < t->from_offset ? t->to_offset : t->from_offset;
  const uint64_t high = t->to_offset < t->from_offset ? t->from_offset : t->to_offset;
  if (high - low >= t->bytes) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "graph",
                   "the ranges of a recorded copy overlap: copy by way of other memory");
}

/* ---- values ---------------------------------------------------------------------------------- */

static vyc_status alloc_values(vyc_values **values_out, const vyc_step *step) {
  const vyc_prepared *prepared = step->prepared;
  const uint32_t bindings = prepared == NULL ? 0 : prepared->binding_count;
  const uint32_t scalars = prepared == NULL ? 0 : prepared->scalar_count;
  const uint32_t parameters = prepared == NULL ? 0 : prepared->parameter_count;
  const uint32_t block = prepared == NULL ? 0 : prepared->parameter_bytes;
  vyc_values *values =
      calloc(1, sizeof *values + bindings * sizeof(vyc_argument) + scalars * sizeof(uint64_t) +
                    parameters * sizeof(void *) + block);
  if (values == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  values->arguments = (vyc_argument *)(void *)(values + 1);
  values->scalars = (uint64_t *)(void *)(values->arguments + bindings);
  values->pointers = (void **)(void *)(values->scalars + scalars);
  values->block = (uint8_t *)(values->pointers + parameters);
  if (prepared != NULL) vyc__block_pointers(prepared, values->pointers, values->block);
  *values_out = values;
  return VYC_OK;
}

vyc_status vyc__step_spare(vyc_step *step, vyc_values **values_out) {
  uint32_t i = 0;
  while (step->values[i] != NULL && (step->values[i] == step->base || step->values[i] == step->now))
    i++; /* this ends, because there is one more than the two */
  if (step->values[i] == NULL) VYC_TRY(alloc_values(&step->values[i], step));
  *values_out = step->values[i];
  return VYC_OK;
}

void vyc__step_free(vyc_step *step) {
  for (uint32_t i = 0; i < VYC_STEP_VALUES; i++) free(step->values[i]);
  free(step->built);
  vyc__row_memory_drop(step->rows);
}

void vyc__values_refresh(const vyc_step *step, vyc_values *values) {
  const vyc_hidden hidden = {step->report, step->barrier != NULL ? step->barrier->address : 0};
  vyc__block_write_buffers(step->prepared, values->block, &values->run, &hidden);
}

/* All but the block. */
static void copy_launch(const vyc_step *step, vyc_values *values, const vyc_run *run) {
  const vyc_prepared *prepared = step->prepared;
  for (uint32_t i = 0; i < prepared->binding_count; i++) values->arguments[i] = run->arguments[i];
  for (uint32_t i = 0; i < prepared->scalar_count; i++) values->scalars[i] = run->scalars[i];
  memcpy(&values->run, run, VYC_RUN_BYTES_FIRST); /* a caller's struct may end here */
  values->run.struct_size = sizeof values->run;
  values->run.flags = vyc__run_flags_of(run);
  values->run.timing_out = NULL;
  values->run.arguments = values->arguments;
  values->run.scalars = values->scalars;
}

/* Of many launches as one, whose table stays. */
static void set_arrays(const vyc_step *step, vyc_values *values, const vyc_run *run) {
  const vyc_argument *arguments = vyc__rows_arguments(step, run);
  copy_launch(step, values, &step->base->run);
  for (uint32_t i = 1; i < step->prepared->binding_count; i++)
    values->arguments[i] = arguments[i - 1];
}

static uint64_t address_of(const vyc_buffer *buffer, uint64_t offset, const void *host) {
  return buffer != NULL ? buffer->address + offset : (uint64_t)(uintptr_t)host;
}

void vyc__values_set(const vyc_step *step, vyc_values *values, const vyc_run *run,
                     const vyc_graph_transfer *transfer) {
  if (step->kind == STEP_LAUNCH) {
    if (step->rows != NULL && step->base != values)
      set_arrays(step, values, run);
    else
      copy_launch(step, values, run);
    vyc__values_refresh(step, values);
    return;
  }
  values->transfer = *transfer;
  values->to = address_of(transfer->to, transfer->to_offset, transfer->to_host);
  values->from = address_of(transfer->from, transfer->from_offset, transfer->from_host);
}

void vyc__values_begin(const vyc_step *step, vyc_values *values) {
  if (step->kind == STEP_LAUNCH)
    copy_launch(step, values, &step->base->run);
  else
    vyc__values_set(step, values, NULL, &step->base->transfer);
}

void vyc__values_hold(const vyc_step *step, const vyc_values *values) {
  if (step->kind == STEP_LAUNCH) {
    for (uint32_t i = 0; i < step->prepared->binding_count; i++)
      vyc__child_retain(&values->arguments[i].buffer->child);
    return;
  }
  if (values->transfer.to != NULL) vyc__child_retain(&values->transfer.to->child);
  if (values->transfer.from != NULL) vyc__child_retain(&values->transfer.from->child);
  if (values->transfer.pinned != NULL) vyc__pinned_retain(values->transfer.pinned);
}

void vyc__values_drop(const vyc_step *step, const vyc_values *values) {
  if (step->kind == STEP_LAUNCH) {
    for (uint32_t i = 0; i < step->prepared->binding_count; i++)
      vyc_buffer_release(values->arguments[i].buffer);
    return;
  }
  vyc_buffer_release(values->transfer.to);
  vyc_buffer_release(values->transfer.from);
  vyc__pinned_drop(values->transfer.pinned);
}

bool vyc__values_equal(const vyc_step *step, const vyc_values *a, const vyc_values *b) {
  if (step->kind == STEP_LAUNCH)
    return memcmp(a->run.grid, b->run.grid, sizeof a->run.grid) == 0 &&
           a->run.flags == b->run.flags &&
           memcmp(a->block, b->block, step->prepared->parameter_bytes) == 0;
  const vyc_graph_transfer *x = &a->transfer, *y = &b->transfer;
  return x->bytes == y->bytes && x->value == y->value && x->element_bytes == y->element_bytes &&
         a->to == b->to && a->from == b->from;
}

/* There is no memory at this address. Cooperative kernels count as writing to it: one of them may
 * need the whole device, so they run one after the other. */
static const vyc_access RESIDENCY = {1, 2, 1, 0};

static vyc_access argument_access(const vyc_step *step, const vyc_values *values, uint32_t i) {
  const vyc_argument *a = &values->arguments[i];
  const vyc_binding *b = &step->prepared->bindings[i];
  uint64_t begin = a->buffer->address + a->offset;
  uint64_t end = begin + a->count * b->element_bytes;
  if (step->prepared->may_overlap) { /* a loaded kernel, which may touch any byte of it */
    begin = a->buffer->address;
    end = begin + a->buffer->bytes;
  }
  return (vyc_access){begin, end, b->role != VYC_ROLE_IN, 0};
}

uint32_t vyc__access_count(const vyc_step *step, const vyc_values *values) {
  if (VYC_UNLIKELY(step->kind == STEP_COLLECTIVES))
    return vyc__collectives_access_count(step->collectives);
  if (step->kind == STEP_TRANSFER) return vyc__is_fill(&values->transfer) ? 1 : 2;
  const uint32_t of_rows = step->rows == NULL ? 0 : step->rows->access_count;
  return step->prepared->binding_count + of_rows + (step->barrier != NULL) +
         step->prepared->cooperative;
}

vyc_access vyc__access(const vyc_step *step, const vyc_values *values, uint32_t i) {
  if (VYC_UNLIKELY(step->kind == STEP_COLLECTIVES))
    return vyc__collectives_access(step->collectives, i);
  if (step->kind == STEP_TRANSFER) {
    const uint64_t begin = i == 0 ? values->to : values->from;
    return (vyc_access){begin, begin + values->transfer.bytes, i == 0, 0};
  }
  if (VYC_LIKELY(i < step->prepared->binding_count)) return argument_access(step, values, i);
  if (step->rows != NULL) return step->rows->accesses[i - step->prepared->binding_count];
  if (i > step->prepared->binding_count || step->barrier == NULL) return RESIDENCY;
  const uint64_t address = step->barrier->address;
  return (vyc_access){address, address + VYC_BARRIER_BYTES, 1, 0};
}

uint32_t vyc__step_accesses(const vyc_step *step, const vyc_values *values,
                            vyc_access *accesses_out) {
  const uint32_t count = vyc__access_count(step, values);
  for (uint32_t i = 0; i < count; i++) accesses_out[i] = vyc__access(step, values, i);
  return count;
}
