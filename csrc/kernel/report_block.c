/* Where prepared kernels report failed checks: a record in page-locked memory for
 * each stream slot. */
#include <stdlib.h>

#include "room.h"

static void give_back(vyc_context *context, vyc_report *report) {
  vyc__pool_give(context, vyc__pinned_pool(context), ((vyc_report_block *)report)->block, 0);
}

vyc_status vyc__report_block_make(vyc_report_block **block_out, vyc_prepared *prepared) {
  vyc_context *context = prepared->child.context;
  vyc_report_block *made = calloc(1, sizeof *made);
  if (made == NULL) return vyc__fail(VYC_E_MEMORY, "launch", "out of host memory");
  const vyc_status status =
      vyc__pool_take(context, vyc__pinned_pool(context), &made->block, VYC_REPORT_BYTES);
  if (status != VYC_OK) {
    free(made);
    return status;
  }
  made->report.cell = (uint64_t *)(uintptr_t)made->block->address;
  made->report.give_back = give_back;
  made->report.tag = prepared->tag;
  made->report.called = vyc__name_retain(prepared->called);
  vyc__report_reset(made->report.cell);
  *block_out = made;
  return VYC_OK;
}

static vyc_status make_of_stream(vyc_report_block **block_out, vyc_prepared *prepared,
                                 uint32_t slot) {
  VYC_TRY(vyc__report_block_make(block_out, prepared));
  vyc_report *report = &(*block_out)->report;
  report->is_of_stream = true;
  const vyc_status status = vyc__slots_add(&report->used, slot);
  if (VYC_UNLIKELY(status != VYC_OK)) vyc__report_free(prepared->child.context, report);
  return status;
}

vyc_status vyc__report_of(vyc_prepared *prepared, uint64_t *address_out, uint32_t slot) {
  *address_out = 0;
  if (VYC_LIKELY(!prepared->has_report)) return VYC_OK;
  vyc_on_stream *at = vyc__on_stream_make(prepared, slot);
  if (VYC_UNLIKELY(at == NULL)) return VYC_E_MEMORY;
  vyc_report_block *made = atomic_load_explicit(&at->report, memory_order_acquire);
  if (VYC_UNLIKELY(made == NULL)) {
    vyc_report_block *fresh = NULL;
    VYC_TRY(make_of_stream(&fresh, prepared, slot));
    if (atomic_compare_exchange_strong(&at->report, &made, fresh)) {
      vyc__report_add(prepared->child.context, &fresh->report);
      made = fresh;
    } else {
      vyc__report_free(prepared->child.context, &fresh->report);
    }
  }
  *address_out = made->block->address;
  return VYC_OK;
}

static void end_on(vyc_prepared *prepared, vyc_on_stream *at, uint32_t slot) {
  (void)slot;
  vyc_report_block *made = atomic_exchange(&at->report, NULL);
  if (made != NULL) vyc__report_end(prepared->child.context, &made->report);
}

void vyc__prepared_reports_end(vyc_prepared *prepared) {
  vyc_context *context = prepared->child.context;
  if (!prepared->has_report) return;
  pthread_mutex_lock(&context->children_lock);
  vyc__on_each_stream(prepared, end_on);
  vyc__report_count_end(context);
  pthread_mutex_unlock(&context->children_lock);
}
