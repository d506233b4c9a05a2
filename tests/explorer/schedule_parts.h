/* What the files of the schedule share: pages, the program's variables, who waits for what. */
#ifndef EXPLORER_SCHEDULE_PARTS_H
#define EXPLORER_SCHEDULE_PARTS_H

#include "schedule.h"

#define HEAP_BYTES ((size_t)16 << 20)

/* Of zeros; `place` 0: anywhere. */
void *take_pages(size_t bytes, uint64_t place);
/* Where the program's own variables and thread-locals are, which are those of what is explored. */
void find_variables(void);
/* The thread waits until `object` wakes it. */
void wait_for(const volatile void *object);
/* Wakes so many that wait for `object`. */
void wake(const volatile void *object, uint32_t most);
/* Room for what threads use, and what they do at a point, and in a call (schedule_uses.c). */
void prepare_uses(void);
void note_uses(const explorer_passed *passed);
void note_device_step(void);
/* The place that a thread stopped at, as text. */
const char *where(uint32_t thread);

#endif
