/* Which preemptions matter: those before a point that does not commute with what the others do.
 *
 * A point commutes with another when they are about different objects, or both only look. So where
 * a thread is preempted before a point that commutes with all that the other thread ever does, it
 * may as well be preempted before its next one: the same schedule, with as many preemptions, and by
 * induction the one that is tried. What "ever does" is, is collected over the schedules of a
 * search, by thread and object, and whoever searches begins again when that has grown. That is
 * enough: the first time that the other thread touches such an object, it has seen nothing yet of
 * what the preempted thread does from there on, so it touches it in the schedule that is tried,
 * too.
 *
 * Two things are objects as well. The order in which operations begin and end is one, of which
 * scene_enter and scene_leave tell. The device is the other: calls about its work, and points about
 * memory that it writes, do not commute with what it does, be that in a call or by a preemption
 * that is still to come. The device in turn goes on just as well before the next call, unless what
 * lies between is one of those.
 *
 * Plain memory has no points: where a thread reads or writes it without an atomic operation or a
 * lock between, that is a race, for which the thread sanitizer looks. */
#include "schedule_parts.h"

#include <string.h>

#define OBJECTS (1u << 14)
#define PROBES 256u
#define CHANGES 8u /* bits of threads that use an object, then of those that change it */
_Static_assert(EXPLORER_THREADS <= CHANGES, "two bytes");

enum { /* in the place of an address */
       DEVICE_IN_CALLS = 1,
       DEVICE_BY_PREEMPTION = 2
};

static uint64_t *entry_of(uintptr_t object) {
  uint32_t at = (uint32_t)((object >> 2) * UINT64_C(0x9E3779B97F4A7C15) >> 50);
  for (uint32_t i = 0; i < PROBES; i++, at = (at + 1) % OBJECTS)
    if (explorer->sharing[at] == 0 || explorer->sharing[at] >> 16 == object)
      return &explorer->sharing[at];
  return NULL;
}

void prepare_uses(void) { explorer->sharing = take_pages(OBJECTS * sizeof *explorer->sharing, 0); }

void explorer_forget_uses(void) {
  memset(explorer->sharing, 0, OBJECTS * sizeof *explorer->sharing);
}

static uint64_t threads_of(uintptr_t object) {
  const uint64_t *entry = entry_of(object);
  return entry == NULL ? 0xffff : *entry & 0xffff; /* no room: by all, as far as is known */
}

bool explorer_is_shared(uintptr_t object) {
  const uint64_t users = threads_of(object) & ((1u << CHANGES) - 1);
  return object == 0 || (users & (users - 1)) != 0;
}

static void note(uintptr_t object, uint32_t thread, bool changes) {
  uint64_t *entry = entry_of(object);
  if (entry == NULL) return;
  const uint64_t before = *entry;
  *entry |= (uint64_t)object << 16 | UINT64_C(1) << thread |
            (uint64_t)(changes ? 1u << CHANGES << thread : 0);
  explorer->uses += *entry != before;
}

void note_uses(const explorer_passed *p) {
  const bool changes = (p->kind & EXPLORER_READS) == 0;
  if (p->object != 0) note(p->object, p->thread, changes);
  if (p->other != 0) note(p->other, p->thread, changes);
  if ((p->kind & EXPLORER_DRIVER) != 0 && (p->choices >> EXPLORER_DEVICE & 1) != 0)
    note(DEVICE_BY_PREEMPTION, p->thread, true);
}

void note_device_step(void) { note(DEVICE_IN_CALLS, explorer->current, true); }

/* Another thread changes the object, or uses what this one changes. */
static bool is_met(uintptr_t object, uint32_t thread, bool changes) {
  const uint64_t threads = threads_of(object);
  const uint64_t others = (changes ? threads : threads >> CHANGES) & ((1u << CHANGES) - 1);
  return (others & ~(UINT64_C(1) << thread)) != 0;
}

static bool is_about_work(const explorer_passed *p) {
  if ((p->kind & EXPLORER_DRIVER) != 0) return (p->kind & EXPLORER_WORK) != 0;
  return p->object == 0 ||
         (explorer->device_can_write != NULL && explorer->device_can_write(p->object));
}

static bool is_worth_thread(const explorer_passed *p, bool is_last) {
  const bool changes = (p->kind & EXPLORER_READS) == 0;
  if ((p->kind & (EXPLORER_OWN | EXPLORER_NEW)) != 0) return false;
  if (p->object == 0 || is_met(p->object, p->thread, changes)) return true;
  if (p->other != 0 && is_met(p->other, p->thread, changes)) return true;
  if (!is_about_work(p)) return false;
  return is_met(DEVICE_IN_CALLS, p->thread, false) ||
         (!is_last && is_met(DEVICE_BY_PREEMPTION, p->thread, false));
}

/* Before calls of the driver alone, and not where the next call is as good: also for a thread that
 * is preempted in between. */
static bool is_worth_device(uint32_t at, bool is_last) {
  const explorer_passed *p = &explorer->passed[at];
  if ((p->kind & EXPLORER_DRIVER) == 0 || (p->kind & EXPLORER_OWN) != 0) return false;
  if (is_about_work(p) || (!is_last && is_worth_thread(p, is_last))) return true;
  for (uint32_t i = at + 1; i < explorer->points; i++) {
    const explorer_passed *next = &explorer->passed[i];
    if (next->steps != p->steps) return true;
    if ((next->kind & EXPLORER_OWN) != 0) continue;
    if ((next->kind & EXPLORER_DRIVER) != 0) return false;
    if (is_about_work(next) || (!is_last && is_worth_thread(next, is_last))) return true;
  }
  return true;
}

uint32_t explorer_find_preemptions(explorer_preemption *list, uint32_t most, uint32_t from,
                                   bool is_last) {
  uint32_t count = 0;
  for (uint32_t i = from; i < explorer->points; i++)
    for (uint32_t to = 1; to <= EXPLORER_DEVICE; to++) {
      const explorer_passed *p = &explorer->passed[i];
      if ((p->choices >> to & 1) == 0) continue;
      if (to == EXPLORER_DEVICE ? is_worth_device(i, is_last) : is_worth_thread(p, is_last)) {
        if (count < most) list[count++] = (explorer_preemption){i, to};
      } else {
        explorer->skipped++;
      }
    }
  return count;
}
