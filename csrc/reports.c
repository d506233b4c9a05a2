/* Checks that asynchronous launches have failed: where kernels write them down, and who is told.
 *
 * Each place that launches has a record for each plan: a stream slot, or a graph. A wait looks at
 * those of the streams that it was for. What is untold when a stream ends is kept for whoever waits
 * for the context. A record lives as long as work may write to it: when its plan or graph is gone,
 * until a wait that began after that has found nothing in it. */
#include <stdlib.h>

#include "graph.h"

#define TRIES 1000 /* before a record that a thread is at is left for the next look */

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

/* Caller holds children_lock. */
static void list_remove(vyc_context *context, vyc_reporter *reporter) {
  if (reporter->previous != NULL) reporter->previous->next = reporter->next;
  if (reporter->next != NULL) reporter->next->previous = reporter->previous;
  if (context->reporters == reporter) context->reporters = reporter->next;
  atomic_fetch_sub(&context->reporter_count, 1);
}

static void list_add(vyc_context *context, vyc_reporter *reporter) {
  pthread_mutex_lock(&context->children_lock);
  reporter->next = context->reporters;
  if (reporter->next != NULL) reporter->next->previous = reporter;
  context->reporters = reporter;
  atomic_fetch_add(&context->reporter_count, 1);
  pthread_mutex_unlock(&context->children_lock);
}

/* Of a list through `next`. All work that could write to them has ended. */
static void give_back(vyc_context *context, vyc_reporter *list) {
  while (list != NULL) {
    vyc_reporter *reporter = list;
    list = reporter->next;
    vyc__pool_give(context, &context->pinned_pool, reporter->block, 0);
    vyc__name_release(&context->history, reporter->called);
    vyc__far_free(&reporter->used.far);
    free(reporter);
  }
}

/* ---- making ---------------------------------------------------------------------------------- */

static vyc_status make(vyc_reporter **reporter_out, vyc_plan *plan) {
  vyc_context *context = plan->child.context;
  vyc_reporter *reporter = calloc(1, sizeof *reporter);
  if (reporter == NULL) return vyc__fail(VYC_E_MEMORY, "launch", "out of host memory");
  const vyc_status status =
      vyc__pool_take(context, &context->pinned_pool, &reporter->block, VYC_REPORT_BYTES);
  if (status != VYC_OK) {
    free(reporter);
    return status;
  }
  vyc__report_reset(reporter->block);
  reporter->tag = plan->tag;
  reporter->called = vyc__name_retain(plan->called);
  *reporter_out = reporter;
  return VYC_OK;
}

static vyc_status make_of_plan(vyc_reporter **reporter_out, vyc_plan *plan, uint32_t slot) {
  VYC_TRY(make(reporter_out, plan));
  (*reporter_out)->of_plan = true;
  const vyc_status status = vyc__slots_add(&(*reporter_out)->used, slot);
  if (VYC_UNLIKELY(status != VYC_OK)) give_back(plan->child.context, *reporter_out);
  return status;
}

vyc_status vyc__report_of(vyc_plan *plan, uint64_t *address_out, uint32_t slot) {
  *address_out = 0;
  if (VYC_LIKELY(!plan->has_report)) return VYC_OK;
  vyc_on_stream *at = vyc__on_stream_make(plan, slot);
  if (VYC_UNLIKELY(at == NULL)) return VYC_E_MEMORY;
  vyc_reporter *reporter = atomic_load_explicit(&at->reporter, memory_order_acquire);
  if (VYC_UNLIKELY(reporter == NULL)) {
    vyc_reporter *fresh = NULL;
    VYC_TRY(make_of_plan(&fresh, plan, slot));
    if (atomic_compare_exchange_strong(&at->reporter, &reporter, fresh)) {
      list_add(plan->child.context, fresh);
      reporter = fresh;
    } else {
      give_back(plan->child.context, fresh);
    }
  }
  *address_out = reporter->block->address;
  return VYC_OK;
}

vyc_status vyc__graph_report_of(vyc_graph *graph, uint64_t *address_out, vyc_plan *plan) {
  *address_out = 0;
  if (VYC_LIKELY(!plan->has_report)) return VYC_OK;
  vyc_reporter *reporter = graph->reporters;
  while (reporter != NULL && reporter->called != plan->called) reporter = reporter->sibling;
  if (reporter == NULL) {
    VYC_TRY(make(&reporter, plan));
    reporter->sibling = graph->reporters;
    graph->reporters = reporter;
    list_add(graph->child.context, reporter);
  }
  *address_out = reporter->block->address;
  return VYC_OK;
}

vyc_status vyc__graph_reports_on(const vyc_graph *graph, uint32_t slot) {
  for (vyc_reporter *r = graph->reporters; r != NULL; r = r->sibling)
    VYC_TRY(vyc__slots_add(&r->used, slot));
  return VYC_OK;
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

static bool is_asked(const vyc_reporter *reporter, const question *asked) {
  if (asked->all) return true;
  return asked->slots == NULL ? vyc__slots_has(&reporter->used, asked->slot)
                              : vyc__slots_meet(asked->slots, &reporter->used);
}

/* Caller holds children_lock. */
static bool take(vyc_reporter *reporter, const question *asked, finding *found) {
  if (asked->all && reporter->is_kept) {
    found->report = reporter->kept_report;
    found->index = reporter->kept_index;
    reporter->is_kept = false;
  } else if (!is_asked(reporter, asked) ||
             !take_record(vyc__report_cell(reporter->block), &found->report, &found->index)) {
    return false;
  }
  found->tag = reporter->tag;
  found->called = vyc__name_retain(reporter->called);
  return true;
}

/* Nothing is there, once it was looked at, and nothing can come any more. */
static bool is_over(const vyc_reporter *reporter, const question *asked) {
  return reporter->end != 0 && reporter->end <= asked->ended && !reporter->is_kept &&
         (asked->all || vyc__slots_is_within(&reporter->used, asked->slot));
}

/* Caller holds children_lock. The first that is found; the others stay for the next look. */
static finding find(vyc_context *context, const question *asked, vyc_reporter **over) {
  finding found = {VYC_REPORT_NONE, 0, 0, NULL};
  for (vyc_reporter *r = context->reporters, *next; r != NULL; r = next) {
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

static vyc_status check(vyc_context *context, question asked) {
  if (VYC_LIKELY(atomic_load_explicit(&context->reporter_count, memory_order_relaxed) == 0))
    return VYC_OK;
  vyc_reporter *over = NULL;
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

/* ---- ends ------------------------------------------------------------------------------------ */

/* Caller holds children_lock. */
static void end(vyc_context *context, vyc_reporter *reporter) {
  if (reporter == NULL) return;
  reporter->end = atomic_load(&context->reports_ended) + 1;
  reporter->of_plan = false;
}

static void count_end(vyc_context *context) {
  atomic_fetch_add(&context->reports_ended, 1);
  pthread_mutex_unlock(&context->children_lock);
}

static void end_on(vyc_plan *plan, vyc_on_stream *at, uint32_t slot) {
  (void)slot;
  end(plan->child.context, atomic_exchange(&at->reporter, NULL));
}

void vyc__plan_reports_end(vyc_plan *plan) {
  vyc_context *context = plan->child.context;
  if (!plan->has_report) return;
  pthread_mutex_lock(&context->children_lock);
  vyc__on_each_stream(plan, end_on);
  count_end(context);
}

void vyc__graph_reports_end(vyc_graph *graph) {
  vyc_context *context = graph->child.context;
  if (graph->reporters == NULL) return;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_reporter *r = graph->reporters; r != NULL; r = r->sibling) end(context, r);
  graph->reporters = NULL;
  count_end(context);
}

void vyc__slot_reports_end(vyc_context *context, uint32_t slot) {
  uint64_t report = 0, index = 0;
  if (slot == VYC_SLOT_OTHER || atomic_load(&context->reporter_count) == 0) return;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_reporter *r = context->reporters; r != NULL; r = r->next) {
    if (!vyc__slots_has(&r->used, slot)) continue;
    if (take_record(vyc__report_cell(r->block), &report, &index) && !r->is_kept) {
      r->kept_report = report;
      r->kept_index = index;
      r->is_kept = true;
    }
    if (!r->of_plan) vyc__slots_remove(&r->used, slot); /* else the next stream's, too */
  }
  pthread_mutex_unlock(&context->children_lock);
}

void vyc__reports_close(vyc_context *context) {
  pthread_mutex_lock(&context->children_lock);
  vyc_reporter *list = context->reporters;
  context->reporters = NULL;
  atomic_store(&context->reporter_count, 0);
  pthread_mutex_unlock(&context->children_lock);
  give_back(context, list);
}

void vyc__reports_free(vyc_context *context) {
  while (context->reporters != NULL) {
    vyc_reporter *next = context->reporters->next;
    vyc__name_release(&context->history, context->reporters->called);
    vyc__far_free(&context->reporters->used.far);
    free(context->reporters);
    context->reporters = next;
  }
}
