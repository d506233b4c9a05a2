/* Loaded into a process under callgrind: says when to collect, and names what was collected. */
#include <valgrind/callgrind.h>

void instrument_begin(void) {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
}

void instrument_end(const char *name) {
  CALLGRIND_DUMP_STATS_AT(name);
  CALLGRIND_STOP_INSTRUMENTATION;
}
