/* Small scattered ranges of device memory, written to page-locked memory by one kernel instead of a
 * copy each: a copy takes the device 1.3 us, a block of this kernel next to nothing.
 *
 * The places are parameters of the launch, so nothing of the host is read later. A block has a
 * range, whose place in page-locked memory begins as many bytes behind a multiple of 16 as the
 * range does: a thread moves 16 bytes at such multiples, and one byte before and behind them. */
#include <stdlib.h>

#include "gather.h"

/* The driver compiles the kernel in some ms; that many downloads must have asked for it. */
#define AFTER 64u

/* If the driver refuses the text, ranges are copied one by one. */
static void load(vyc_context *context, vyc_gather *gather) {
  const vyc_driver *driver = context->driver;
  char *text = malloc(VYC_GATHER_TEXT_BYTES);
  if (text == NULL) return;
  vyc__gather_text(text, VYC_GATHER_ROWS);
  CUfunction function = NULL;
  const uint64_t begin_ns = vyc__now_ns();
  vyc__workers_pause(context);
  if (driver->cuModuleLoadDataEx(&gather->module, text, 0, NULL, NULL) != CUDA_SUCCESS)
    gather->module = NULL;
  vyc__workers_resume(context);
  vyc__count(&context->counters, module_loads, 1);
  vyc__count(&context->counters, module_load_ns_total, vyc__now_ns() - begin_ns);
  free(text);
  if (gather->module == NULL ||
      driver->cuModuleGetFunction(&function, gather->module, "vyc_gather") != CUDA_SUCCESS)
    return;
  atomic_store_explicit(&gather->function, function, memory_order_release);
}

/* Blocks of a worker may hold the device for as long as they like; a copy need not wait for them.
 */
static bool is_ready(vyc_context *context) {
  vyc_gather *gather = &((vyc_memory_context *)context)->gather;
  if (atomic_load(&context->worker_count) != 0) return false;
  if (atomic_load_explicit(&gather->function, memory_order_acquire) != NULL) return true;
  if (atomic_fetch_add_explicit(&gather->asked, 1, memory_order_relaxed) != AFTER) return false;
  load(context, gather);
  return atomic_load_explicit(&gather->function, memory_order_relaxed) != NULL;
}

bool vyc__gather_begin(vyc_gathering *gathering, vyc_context *context, uint32_t ranges) {
  *gathering = (vyc_gathering){.context = context};
  return ranges >= VYC_GATHER_LEAST && is_ready(context);
}

vyc_status vyc__gather_end(vyc_gathering *gathering) {
  vyc_context *context = gathering->context;
  if (gathering->count == 0) return VYC_OK;
  const vyc_gather *gather = &((vyc_memory_context *)context)->gather;
  const CUfunction function = atomic_load_explicit(&gather->function, memory_order_relaxed);
  void *parameters[] = {gathering->rows};
  const uint32_t blocks = gathering->count;
  const uint32_t threads = (uint32_t)vyc__align_up(gathering->most / 16 + 1, 32);
  gathering->count = 0;
  vyc__count(&context->counters, kernel_launches, 1);
  vyc__count(&context->counters, plain_kernel_launches, 1);
  VYC_CU_RESULT;
  return VYC_CU(context, cuLaunchKernel, function, blocks, 1, 1, threads, 1, 1, 0, context->main,
                parameters, NULL);
}

vyc_status vyc__gather_add(vyc_gathering *gathering, const void *to, uint64_t from,
                           uint64_t bytes) {
  vyc__count(&gathering->context->counters, mapped_write_bytes, bytes);
  gathering->rows[gathering->count++] = (vyc_gather_row){
      .from = from, .distance = (uint64_t)(uintptr_t)to - from, .end = from + bytes};
  if (bytes > gathering->most) gathering->most = bytes;
  return gathering->count == VYC_GATHER_ROWS ? vyc__gather_end(gathering) : VYC_OK;
}

void vyc__gather_close(vyc_context *context) {
  vyc_gather *gather = &((vyc_memory_context *)context)->gather;
  if (gather->module != NULL) context->driver->cuModuleUnload(gather->module);
  gather->module = NULL;
  atomic_store_explicit(&gather->function, NULL, memory_order_relaxed);
}
