/* A run that changes only the parameters of a one-kernel graph: recognizing it, and the change, in
 * one pass over its arguments and without calling a function.
 *
 * After a launch by the driver little is left in the first-level caches, so the path is short and
 * straight. Everything else, including errors, takes the slow path and is reported there. */
#ifndef VYC_FAST_PATH_H
#define VYC_FAST_PATH_H

#include <string.h>

#include "launch.h"

/* What a plain run puts into the parameter block. */
typedef struct vyc_plain {
  uint64_t addresses[VYC_MAX_BINDINGS], counts[VYC_MAX_BINDINGS];
} vyc_plain;

/* Written arguments overlap no other. */
static inline bool vyc__plain_apart(const vyc_prepared *prepared, const vyc_plain *plain,
                                    const uint64_t *ends) {
  if (VYC_UNLIKELY(prepared->written_count > VYC_FEW_WRITTEN))
    return vyc__ranges_apart(prepared, plain->addresses, ends);
  for (uint32_t w = 0; w < prepared->written_count; w++) {
    const uint32_t i = prepared->written[w];
    const uint64_t begin = plain->addresses[i], end = ends[i];
    uint32_t overlaps = 0; /* including itself */
    for (uint32_t j = 0; j < prepared->binding_count; j++)
      overlaps += (uint32_t)(begin < ends[j]) & (uint32_t)(plain->addresses[j] < end);
    if (overlaps > (begin < end)) return false;
  }
  return true;
}

/* The marks of a near slot are checked one by one on the way; all arguments are buffers. */
static inline bool vyc__run_is_marked_far(const vyc_run *run, uint32_t slot) {
  for (uint32_t i = 0; i < run->argument_count; i++)
    if (!vyc__buffer_is_marked_far(run->arguments[i].buffer, slot)) return false;
  return true;
}

/* The caller has checked struct_size and the stream, which has this slot. Whether all arguments are
 * buffers of the context that the stream has used before, in bounds, without overlaps, and none is
 * to be cleared. */
static inline bool vyc__run_is_plain(const vyc_prepared *prepared, const vyc_run *run,
                                     uint32_t slot, vyc_plain *plain) {
  uint64_t ends[VYC_MAX_BINDINGS];
  const uint32_t count = prepared->binding_count;
  const bool is_near = VYC_LIKELY(slot < VYC_NEAR_SLOTS);
  const uint64_t mark = vyc__slot_bit(slot);
  const vyc_context *context = prepared->child.context;
  const uint32_t epoch = is_near ? context->epochs[slot] : 0;
  if (run->argument_count != count ||
      (VYC_UNLIKELY(run->scalar_count != prepared->plain_scalars) &&
       !vyc__known_agrees(prepared, run)) ||
      (run->arguments == NULL && count > 0) || (run->scalars == NULL && run->scalar_count > 0) ||
      vyc__grid_is_empty(run->grid))
    return false;
  const vyc_argument *argument = run->arguments;
  const vyc_binding *binding = prepared->bindings;
  for (uint32_t i = 0; i < count; i++, argument++, binding++) {
    const vyc_buffer *buffer = argument->buffer;
    const uint64_t elements = argument->count, offset = argument->offset;
    uint64_t bytes;
    if (argument->kind != VYC_ARGUMENT_BUFFER || buffer == NULL ||
        buffer->child.context != context || buffer->source != NULL ||
        vyc__mul_overflows(elements, binding->element_bytes, &bytes) || offset > buffer->bytes ||
        bytes > buffer->bytes - offset || !vyc__buffer_is_marked(buffer, mark, epoch))
      return false;
    const uint64_t begin = buffer->address + offset;
    if (!vyc__is_aligned(begin, binding->element_bytes)) return false;
    if (binding->role != VYC_ROLE_IN && (buffer->read_only || vyc__needs_clear(prepared, i, run)))
      return false;
    plain->addresses[i] = begin;
    plain->counts[i] = elements;
    ends[i] = begin + bytes;
  }
  return (is_near || vyc__run_is_marked_far(run, slot)) && vyc__plain_apart(prepared, plain, ends);
}

/* Writes the run's arguments into a block that was written before; what comes from no argument is
 * kept. True: the block has changed. */
static inline bool vyc__block_change(const vyc_prepared *prepared, uint8_t *block,
                                     const vyc_plain *plain, const vyc_run *run) {
  const uint64_t *const values[] = {[VYC_PARAMETER_POINTER] = plain->addresses,
                                    [VYC_PARAMETER_SCALAR] = run->scalars,
                                    [VYC_PARAMETER_SIZE] = plain->counts};
  const vyc_block_parameter *const end = prepared->parameters + prepared->parameter_count;
  uint64_t difference = 0;
  for (const vyc_block_parameter *p = prepared->parameters; p != end; p++) {
    if (p->kind > VYC_PARAMETER_SIZE) continue;
    const uint64_t value = values[p->kind][p->index];
    uint8_t *at = block + p->offset;
    uint64_t before, narrow;
    uint32_t word;
    switch (p->size) { /* constant sizes, so that no function is called */
    case 8:
      memcpy(&before, at, 8);
      memcpy(at, &value, 8);
      difference |= before ^ value;
      break;
    case 4:
      memcpy(&word, at, 4);
      memcpy(at, &value, 4); /* little-endian host and device */
      difference |= word ^ (uint32_t)value;
      break;
    default:
      narrow = value; /* so that no other value is kept in memory */
      difference |= (uint64_t)(memcmp(at, &narrow, p->size) != 0);
      memcpy(at, &narrow, p->size);
      break;
    }
  }
  return difference != 0;
}

/* The caller has claimed the launch graph and entered no context. Without a current context,
 * drivers of CUDA 13 end the process in a patch. */
static inline vyc_status vyc__launch_graph_patch(vyc_launch_graph *launch_graph,
                                                 vyc_context *context) {
  CUcontext saved;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuCtxGetCurrent, &saved));
  if (VYC_UNLIKELY(saved != context->handle))
    VYC_TRY(VYC_CU(context, cuCtxSetCurrent, context->handle));
  const vyc_status status = VYC_CU(context, cuGraphExecKernelNodeSetParams, launch_graph->handle,
                                   launch_graph->node, &launch_graph->params);
  if (VYC_UNLIKELY(saved != context->handle) &&
      context->driver->cuCtxSetCurrent(saved) != CUDA_SUCCESS)
    context->driver->cuCtxSetCurrent(saved); /* as vyc__leave */
  launch_graph->stale = status != VYC_OK;
  return status;
}

#endif
