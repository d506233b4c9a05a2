/* Memory that is put back before each schedule: the program's variables, its thread-locals, the
 * heap. */
#define _GNU_SOURCE
#include <link.h>
#include <string.h>

#include "schedule_parts.h"

static int find_in_program(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  (void)data;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_LOAD && (header->p_flags & PF_W) != 0) {
      explorer->variables_home = (char *)(info->dlpi_addr + header->p_vaddr);
      explorer->variables_bytes = header->p_memsz;
    }
    if (header->p_type == PT_TLS) {
      explorer->locals_home = info->dlpi_tls_data;
      explorer->locals_bytes = header->p_memsz;
    }
  }
  /* What was relocated is read-only now, and never changes. */
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_GNU_RELRO) continue;
    const uintptr_t end = (info->dlpi_addr + header->p_vaddr + header->p_memsz) & ~(uintptr_t)4095;
    const uintptr_t begin = (uintptr_t)explorer->variables_home;
    if (end <= begin) continue;
    explorer->variables_home = (char *)end;
    explorer->variables_bytes -= end - begin;
  }
  return 1; /* the program is the first */
}

void find_variables(void) { dl_iterate_phdr(find_in_program, NULL); }

extern explorer_site __start_explorer_sites[], __stop_explorer_sites[];

#define PAGE ((size_t)4096)
#define LOOK_EVERY 64u /* schedules, at pages of long tables that nobody has written to yet */
#define LONG_TABLE 16u /* pages */

enum { /* of a page */
       PAGE_IS_LOOKED_AT = 0,
       PAGE_CHANGES, /* so it is put back without a look */
       PAGE_IS_ZERO  /* among many: of a table that is hardly ever used */
};

static void put_back_range(char *home, const char *kept, size_t bytes, uint8_t *pages, bool all) {
  for (size_t at = 0; at < bytes; at += PAGE) {
    const size_t part = bytes - at < PAGE ? bytes - at : PAGE;
    uint8_t *const page = &pages[at / PAGE];
    if (*page == PAGE_IS_ZERO && !all) continue;
    if (*page != PAGE_CHANGES && memcmp(home + at, kept + at, part) != 0) *page = PAGE_CHANGES;
    if (*page == PAGE_CHANGES) memcpy(home + at, kept + at, part);
  }
}

static void find_long_tables(const char *kept, size_t bytes, uint8_t *pages) {
  size_t zeros = 0;
  for (size_t at = 0; at + PAGE <= bytes; at += PAGE) {
    const bool is_zero = kept[at] == 0 && memcmp(kept + at, kept + at + 1, PAGE - 1) == 0;
    zeros = is_zero ? zeros + 1 : 0;
    if (zeros == LONG_TABLE) memset(&pages[at / PAGE + 1 - LONG_TABLE], PAGE_IS_ZERO, LONG_TABLE);
    if (zeros > LONG_TABLE) pages[at / PAGE] = PAGE_IS_ZERO;
  }
}

/* The sites count on through all schedules: what is in front of them, and behind. */
typedef struct parts {
  size_t begin, end;
  uint8_t *behind;
} parts;

static parts parts_of(const explorer_snapshot *snapshot) {
  const size_t begin = (size_t)((char *)__start_explorer_sites - explorer->variables_home);
  const size_t end = (size_t)((char *)__stop_explorer_sites - explorer->variables_home);
  return (parts){begin, end, snapshot->variable_pages + begin / PAGE + 1};
}

static void put_variables_back(const explorer_snapshot *snapshot, bool all) {
  char *const home = explorer->variables_home;
  const parts p = parts_of(snapshot);
  put_back_range(home, snapshot->variables, p.begin, snapshot->variable_pages, all);
  put_back_range(home + p.end, snapshot->variables + p.end, explorer->variables_bytes - p.end,
                 p.behind, all);
}

void explorer_keep(uint32_t number) {
  explorer_snapshot *snapshot = &explorer->snapshots[number];
  snapshot->taken = true;
  snapshot->heap_bytes = explorer->heap_used;
  snapshot->steps = explorer->steps;
  snapshot->clock_ns = explorer->clock_ns;
  snapshot->heap = take_pages(explorer->heap_used + 1, 0);
  snapshot->heap_pages = take_pages(explorer->heap_used / PAGE + 1, 0);
  snapshot->variables = take_pages(explorer->variables_bytes + 1, 0);
  snapshot->variable_pages = take_pages(explorer->variables_bytes / PAGE + 3, 0);
  snapshot->locals = take_pages(EXPLORER_THREADS * explorer->locals_bytes + 1, 0);
  memcpy(snapshot->heap, explorer->heap, explorer->heap_used);
  memcpy(snapshot->variables, explorer->variables_home, explorer->variables_bytes);
  const parts p = parts_of(snapshot);
  find_long_tables(snapshot->variables + p.end, explorer->variables_bytes - p.end, p.behind);
  memcpy(explorer->locals[0], explorer->locals_home, explorer->locals_bytes);
  for (uint32_t i = 0; i < EXPLORER_THREADS; i++)
    memcpy(snapshot->locals + i * explorer->locals_bytes, explorer->locals[i],
           explorer->locals_bytes);
}

void explorer_put_back(uint32_t number) {
  const explorer_snapshot *snapshot = &explorer->snapshots[number];
  const bool all = explorer->failed || explorer->schedules % LOOK_EVERY == 0;
  put_back_range(explorer->heap, snapshot->heap, snapshot->heap_bytes, snapshot->heap_pages, true);
  explorer->heap_used = snapshot->heap_bytes;
  put_variables_back(snapshot, all);
  for (uint32_t i = 0; i < EXPLORER_THREADS; i++)
    memcpy(explorer->locals[i], snapshot->locals + i * explorer->locals_bytes,
           explorer->locals_bytes);
  memcpy(explorer->locals_home, explorer->locals[0], explorer->locals_bytes);
  explorer->failed = false;
  explorer->failure[0] = '\0';
  explorer->steps = snapshot->steps;
  explorer->clock_ns = snapshot->clock_ns;
}
