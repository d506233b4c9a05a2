/* Kernels with grid barriers: all blocks of the grid must be resident at once, and two words of
 * device memory hold the state of the barrier.
 *
 * The state belongs to one submission, or to one prepared kernel on one stream, where launches
 * follow each other. It is cleared before every launch, because one that failed a check may have
 * left it with any value. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>

#include "room.h"

vyc_status vyc__cooperative_supported(const vyc_context *context, const char *what) {
  if (context->caps.cooperative_launch > 0) return VYC_OK;
  return vyc__fail(VYC_E_UNSUPPORTED, "cooperative_launch",
                   "%s has grid barriers, but %s does not support cooperative launches: end "
                   "the kernel at each barrier, and launch the rest as another",
                   what, context->caps.name);
}

vyc_status vyc__cooperative_prepare(vyc_prepared *prepared, vyc_context *context) {
  char what[160];
  (void)snprintf(what, sizeof what, "kernel %s", prepared->name);
  VYC_TRY(vyc__cooperative_supported(context, what));
  const uint32_t threads = prepared->block[0] * prepared->block[1] * prepared->block[2];
  int resident = 0;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuOccupancyMaxActiveBlocksPerMultiprocessor, &resident,
                 prepared->function, (int)threads, prepared->dynamic_shared_bytes));
  prepared->most_blocks = (uint64_t)resident * (uint64_t)context->caps.multiprocessor_count;
  return VYC_OK;
}

vyc_status vyc__cooperative_check(const vyc_prepared *prepared, const uint32_t grid[3]) {
  uint64_t blocks = (uint64_t)grid[0] * grid[1];
  if (VYC_UNLIKELY(vyc__mul_overflows(blocks, grid[2], &blocks))) blocks = UINT64_MAX;
  if (VYC_LIKELY(blocks <= prepared->most_blocks)) return VYC_OK;
  const uint32_t threads = prepared->block[0] * prepared->block[1] * prepared->block[2];
  return vyc__fail(
      VYC_E_UNSUPPORTED, "resident_blocks",
      "kernel %s has grid barriers, so all its blocks must be resident at once: the launch has "
      "%" PRIu64 " block%s of %u thread%s, and the device holds %" PRIu64
      "; change grid=, the work, or block=",
      prepared->name, blocks, VYC_S(blocks), threads, VYC_S(threads), prepared->most_blocks);
}

vyc_status vyc__barrier_clear(vyc_context *context, uint64_t address, CUstream stream) {
  VYC_CU_RESULT;
  if (VYC_LIKELY(address == 0)) return VYC_OK;
  return VYC_CU(context, cuMemsetD8Async, (CUdeviceptr)address, 0, VYC_BARRIER_BYTES, stream);
}

static vyc_status make(vyc_context *context, vyc_block **block_out, CUstream stream) {
  vyc_block *block = NULL;
  VYC_TRY(vyc__pool_take(context, vyc__device_pool(context), &block, VYC_BARRIER_BYTES));
  if (block->recycled && stream != context->main) {
    const vyc_status status = vyc__stream_after_main(context, stream);
    if (status != VYC_OK) {
      vyc__pool_give(context, vyc__device_pool(context), block, 0);
      return status;
    }
  }
  *block_out = block;
  return VYC_OK;
}

vyc_status vyc__barrier_ready(vyc_context *context, vyc_block **block, CUstream stream) {
  if (VYC_UNLIKELY(*block == NULL)) VYC_TRY(make(context, block, stream));
  return vyc__barrier_clear(context, (*block)->address, stream);
}

/* Return a state that launches on the stream of the slot have used. If there is no memory to say
 * which stream that was, this waits for all work. */
static void give(vyc_context *context, vyc_block *block, uint32_t slot) {
  vyc_slots used = {0};
  vyc_error failure;
  vyc__error_save(&failure);
  const bool told = vyc__slots_add(&used, slot) == VYC_OK;
  vyc__error_restore(&failure);
  vyc__pool_give_used(context, vyc__device_pool(context), block, vyc__slot_bit(slot),
                      told ? &used.far : NULL);
  vyc__far_free(&used.far);
}

/* Another library's graph may run at the same time as launches of this library: it gets a state of
 * its own, for as long as the prepared kernel exists. Work of an earlier owner of the block is
 * waited for, because a capture cannot be ordered after anything outside of it. */
static vyc_status captured_state(vyc_prepared *prepared, uint64_t *address_out) {
  vyc_context *context = prepared->child.context;
  vyc_block *block = NULL;
  VYC_TRY(vyc__pool_take(context, vyc__device_pool(context), &block, VYC_BARRIER_BYTES));
  vyc_status status = VYC_OK;
  if (block->recycled) {
    const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
    status = vyc__stream_finish(context, context->main, -1);
    vyc__capture_restore(context->driver, mode);
  }
  if (status != VYC_OK) {
    vyc__pool_give(context, vyc__device_pool(context), block, 0);
    return status;
  }
  block->next = atomic_load(&prepared->captured);
  while (!atomic_compare_exchange_weak(&prepared->captured, &block->next, block)) {
  }
  *address_out = block->address;
  return VYC_OK;
}

vyc_status vyc__barrier_of(vyc_prepared *prepared, uint64_t *address_out,
                           const vyc_launch_stream *on) {
  *address_out = 0;
  if (VYC_LIKELY(!prepared->has_barrier)) return VYC_OK;
  if (on->captured) return captured_state(prepared, address_out);
  const uint32_t slot = on->slot;
  if (slot == VYC_SLOT_OTHER)
    return vyc__fail(
        VYC_E_UNSUPPORTED, "streams",
        "kernel %s has grid barriers: it can be launched on %u streams at a time: use fewer, "
        "or give some of them up",
        prepared->name, VYC_SLOTS - 2u);
  vyc_context *context = prepared->child.context;
  vyc_on_stream *at = vyc__on_stream_make(prepared, slot);
  if (VYC_UNLIKELY(at == NULL)) return VYC_E_MEMORY;
  vyc_block *block = atomic_load_explicit(&at->barrier, memory_order_acquire);
  if (VYC_UNLIKELY(block == NULL)) {
    vyc_block *fresh = NULL;
    VYC_TRY(make(context, &fresh, on->stream));
    if (atomic_compare_exchange_strong(&at->barrier, &block, fresh))
      block = fresh;
    else
      give(context, fresh, slot);
  }
  *address_out = block->address;
  return VYC_OK;
}

void vyc__cooperative_begin(vyc_prepared *prepared) {
  if (VYC_LIKELY(!prepared->cooperative)) return;
  vyc__claim_take(&prepared->pairing);
}

void vyc__cooperative_end(vyc_prepared *prepared) {
  if (VYC_UNLIKELY(prepared->cooperative)) vyc__claim_drop(&prepared->pairing);
}

static void release(vyc_prepared *prepared, vyc_on_stream *at, uint32_t slot) {
  vyc_block *block = atomic_exchange(&at->barrier, NULL);
  if (block != NULL) give(prepared->child.context, block, slot);
}

void vyc__barriers_release(vyc_prepared *prepared) {
  vyc_context *context = prepared->child.context;
  vyc__on_each_stream(prepared, release);
  vyc_block *captured = atomic_exchange(&prepared->captured, NULL);
  while (captured != NULL) {
    vyc_block *next = captured->next;
    vyc__pool_give(context, vyc__device_pool(context), captured, 0);
    captured = next;
  }
}
