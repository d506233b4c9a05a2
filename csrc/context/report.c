/* Checks that failed in asynchronous launches: where kernels write them down, and which wait
 * reports them.
 *
 * Each place that launches has a record for each kernel: a stream slot, or a graph. A wait looks at
 * those of the streams that it waited for. A failure that was not reported when its stream ended is
 * kept for waits for a buffer or for the context, because buffers do not know that stream any more;
 * so is one that was not reported when a copy had waited for the stream in their place. A record
 * lives as long as work may write to it: when its kernel or graph is gone, until a wait that began
 * after that has found nothing in it. */
#include <stdlib.h>
#include <string.h>

#include "room.h"

#define TRIES 1000 /* before a record that a kernel is writing is left for the next look */

/* Key and index as one thread of the kernel wrote them, and the record preset again; false when
 * there is nothing to take. A writer stores the key before the index, both under the lock, so an
 * index that was read between two looks at the same key, with the lock seen free after the first,
 * is that key's. No atomic of the host needs to exclude one of the device: across PCIe none does.
 */
static bool take_record(uint64_t *cell, uint64_t *report_out, uint64_t *index_out) {
  for (int i = 0; i < TRIES; i++) {
    uint64_t key = __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    if (key == VYC_REPORT_NONE) return false;
    if ((uint32_t)__atomic_load_n(cell + 2, __ATOMIC_ACQUIRE) != 0) continue;
    const uint64_t index = __atomic_load_n(cell + 1, __ATOMIC_ACQUIRE);
    *report_out = key;
    *index_out = index;
    if (__atomic_compare_exchange_n(cell, &key, VYC_REPORT_NONE, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      return true;
  }
  return false;
}

void vyc__report_reset(uint64_t *cell) {
  memset(cell, 0, VYC_REPORT_BYTES);
  cell[0] = VYC_REPORT_NONE;
}

/* Caller holds children_lock. */
static void list_remove(vyc_context *context, vyc_report *report) {
  if (report->previous != NULL) report->previous->next = report->next;
  if (report->next != NULL) report->next->previous = report->previous;
  if (context->reports == report) context->reports = report->next;
  atomic_fetch_sub(&context->report_count, 1);
}

void vyc__report_add(vyc_context *context, vyc_report *report) {
  pthread_mutex_lock(&context->children_lock);
  report->next = context->reports;
  if (report->next != NULL) report->next->previous = report;
  context->reports = report;
  atomic_fetch_add(&context->report_count, 1);
  pthread_mutex_unlock(&context->children_lock);
}

static void free_record(vyc_context *context, vyc_report *report) {
  vyc__name_release(&context->history, report->called);
  vyc__far_free(&report->used.far);
  free(report);
}

void vyc__report_free(vyc_context *context, vyc_report *report) {
  report->give_back(context, report);
  free_record(context, report);
}

/* Of a list through `next`. All work that could write to them has ended. */
static void give_back(vyc_context *context, vyc_report *list) {
  while (list != NULL) {
    vyc_report *report = list;
    list = report->next;
    vyc__report_free(context, report);
  }
}

/* ---- looking --------------------------------------------------------------------------------- */

typedef struct finding {
  uint64_t report, index, tag;
  vyc_name *called; /* held; NULL: none */
} finding;

/* Whose reports a wait asks for: those of all streams, or of some, or of one. */
typedef struct question {
  bool all;
  const vyc_slots *slots; /* NULL: one */
  uint32_t slot;
  uint32_t ended;
} question;

static bool is_asked(const vyc_report *report, const question *asked) {
  if (asked->all) return true;
  return asked->slots == NULL
             ? vyc__slots_has(&report->used, asked->slot)
             : report->is_copied_after || vyc__slots_meet(asked->slots, &report->used);
}

/* Caller holds children_lock. */
static bool take(vyc_report *report, const question *asked, finding *found) {
  if ((asked->all || asked->slots != NULL) && report->is_kept) {
    found->report = report->kept_report;
    found->index = report->kept_index;
    report->is_kept = false;
  } else if (is_asked(report, asked) && take_record(report->cell, &found->report, &found->index)) {
    report->is_copied_after = false;
  } else {
    return false;
  }
  found->tag = report->tag;
  found->called = vyc__name_retain(report->called);
  return true;
}

/* After a look at the report: nothing is left in it, and no work can write to it any more. */
static bool is_over(const vyc_report *report, const question *asked) {
  return report->end != 0 && report->end <= asked->ended && !report->is_kept &&
         (asked->all || vyc__slots_is_within(&report->used, asked->slot));
}

/* Caller holds children_lock. The first that is found; the others stay for the next look. */
static finding find(vyc_context *context, const question *asked, vyc_report **over) {
  finding found = {VYC_REPORT_NONE, 0, 0, NULL};
  for (vyc_report *r = context->reports, *next; r != NULL; r = next) {
    next = r->next;
    const bool is_found = take(r, asked, &found);
    if (is_over(r, asked)) {
      list_remove(context, r);
      r->next = *over;
      *over = r;
    }
    if (is_found) return found;
  }
  return found;
}

vyc_status vyc__prints_show(vyc_context *context, CUstream stream) {
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  VYC_CU_RESULT;
  const vyc_status status = VYC_CU(context, cuStreamSynchronize, stream);
  vyc__capture_restore(context->driver, mode);
  return status;
}

static vyc_status check(vyc_context *context, question asked) {
  if (VYC_UNLIKELY(vyc__has_prints(context))) VYC_TRY(vyc__prints_show(context, context->main));
  if (VYC_LIKELY(atomic_load_explicit(&context->report_count, memory_order_relaxed) == 0))
    return VYC_OK;
  if (VYC_UNLIKELY(atomic_load(&context->broken) != NULL))
    return vyc__context_fail_broken(context, "communicator");
  vyc_report *over = NULL;
  pthread_mutex_lock(&context->children_lock);
  const finding found = find(context, &asked, &over);
  pthread_mutex_unlock(&context->children_lock);
  give_back(context, over);
  if (found.called == NULL) return VYC_OK;
  vyc__fail_assert(found.report, found.index, found.tag, found.called->text);
  vyc__name_release(&context->history, found.called);
  return VYC_E_ASSERT;
}

vyc_status vyc__check_reports(vyc_context *context, uint32_t ended) {
  return check(context, (question){.all = true, .ended = ended});
}

vyc_status vyc__check_reports_of(vyc_context *context, uint32_t slot, uint32_t ended) {
  return check(context, (question){.slot = slot, .ended = ended});
}

vyc_status vyc__check_reports_on(vyc_context *context, const vyc_slots *slots) {
  return check(context, (question){.slots = slots});
}

void vyc__reports_copied_after(vyc_context *context, uint32_t slot) {
  if (VYC_LIKELY(atomic_load_explicit(&context->report_count, memory_order_relaxed) == 0)) return;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_report *r = context->reports; r != NULL; r = r->next)
    if (vyc__slots_has(&r->used, slot) &&
        __atomic_load_n(r->cell, __ATOMIC_ACQUIRE) != VYC_REPORT_NONE)
      r->is_copied_after = true;
  pthread_mutex_unlock(&context->children_lock);
}

/* ---- ends ------------------------------------------------------------------------------------ */

void vyc__report_end(vyc_context *context, vyc_report *report) {
  report->end = atomic_load(&context->reports_ended) + 1;
  report->is_of_stream = false;
}

void vyc__slot_reports_end(vyc_context *context, uint32_t slot) {
  uint64_t report = 0, index = 0;
  if (slot == VYC_SLOT_OTHER || atomic_load(&context->report_count) == 0) return;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_report *r = context->reports; r != NULL; r = r->next) {
    if (!vyc__slots_has(&r->used, slot)) continue;
    if (take_record(r->cell, &report, &index) && !r->is_kept) {
      r->kept_report = report;
      r->kept_index = index;
      r->is_kept = true;
    }
    if (!r->is_of_stream) vyc__slots_remove(&r->used, slot); /* else the next stream's, too */
  }
  pthread_mutex_unlock(&context->children_lock);
}

void vyc__reports_close(vyc_context *context) {
  pthread_mutex_lock(&context->children_lock);
  vyc_report *list = context->reports;
  context->reports = NULL;
  atomic_store(&context->report_count, 0);
  pthread_mutex_unlock(&context->children_lock);
  give_back(context, list);
}

void vyc__reports_free(vyc_context *context) {
  vyc__reasons_free(context);
  while (context->reports != NULL) {
    vyc_report *report = context->reports;
    context->reports = report->next;
    free_record(context, report);
  }
}
