/* The heap of what is explored: each use of what was freed is seen. */
#include <stdlib.h>
#include <string.h>

#include "schedule_parts.h"

/* Nothing is used twice in one schedule, so whoever uses what was freed is seen. */
typedef struct block_head {
  size_t bytes;
  struct block_head *next_freed;
  uint64_t is_live;
  char padding[40];
} block_head;

/* The list of what was freed is in the heap, and put back with it. */
static block_head **freed_list(void) { return (block_head **)(void *)explorer->heap; }
static uint64_t *live_count(void) { return (uint64_t *)(void *)(explorer->heap + 8); }

static block_head *head_of(void *memory) { return (block_head *)(void *)((char *)memory - 64); }

static bool is_ours(const void *memory) {
  return (const char *)memory >= explorer->heap && (const char *)memory < explorer->heap_end;
}

void *explorer_heap_take(size_t bytes) {
  if (explorer->heap_used == 0) {
    explorer->heap_used = 64;
    memset(explorer->heap, 0, 64);
  }
  const size_t room = sizeof(block_head) + ((bytes + 63) & ~(size_t)63);
  if (explorer->heap_used + room > HEAP_BYTES) explorer_fail("the heap of the explorer is full");
  block_head *head = (block_head *)(void *)(explorer->heap + explorer->heap_used);
  explorer->heap_used += room;
  *head = (block_head){.bytes = bytes};
  return head + 1;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);

static bool is_on(void) { return explorer != NULL && explorer->heap_on; }

void *__wrap_malloc(size_t bytes) {
  if (!is_on()) return __real_malloc(bytes);
  void *memory = explorer_heap_take(bytes);
  head_of(memory)->is_live = 1;
  ++*live_count();
  memset(memory, 0xA5, bytes);
  return memory;
}

void *__wrap_calloc(size_t count, size_t bytes) {
  if (!is_on()) return __real_calloc(count, bytes);
  void *memory = __wrap_malloc(count * bytes);
  return memset(memory, 0, count * bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  if (!is_on()) return __real_aligned_alloc(alignment, bytes);
  if (alignment > 64) explorer_fail("an alignment of %zu is not modelled", alignment);
  return __wrap_malloc(bytes);
}

void __wrap_free(void *memory) {
  if (memory == NULL) return;
  if (!is_ours(memory)) {
    __real_free(memory);
    return;
  }
  block_head *head = head_of(memory);
  if (head->is_live == 0) explorer_fail("memory is freed twice");
  head->is_live = 0;
  --*live_count();
  memset(memory, 0xDD, head->bytes);
  head->next_freed = *freed_list();
  *freed_list() = head;
}

void *__wrap_realloc(void *memory, size_t bytes) {
  if (!is_on() || (memory != NULL && !is_ours(memory))) return __real_realloc(memory, bytes);
  void *fresh = __wrap_malloc(bytes);
  if (memory == NULL) return fresh;
  const size_t before = head_of(memory)->bytes;
  memcpy(fresh, memory, before < bytes ? before : bytes);
  __wrap_free(memory);
  return fresh;
}

void explorer_check_freed(void) {
  for (const block_head *head = *freed_list(); head != NULL; head = head->next_freed) {
    const unsigned char *bytes = (const unsigned char *)(head + 1);
    const size_t count = head->bytes;
    if (count > 0 && (bytes[0] != 0xDD || memcmp(bytes, bytes + 1, count - 1) != 0))
      explorer_fail("%zu bytes were written to after they were freed", count);
  }
  if (*live_count() != 0)
    explorer_fail("%lu blocks of host memory were not freed", (unsigned long)*live_count());
}
