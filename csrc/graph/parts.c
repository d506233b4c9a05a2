/* The collectives of a step: what they touch, and letting them go. */
#include <stdlib.h>

#include "graph.h"

void vyc__collectives_drop(vyc_collectives *of) {
  if (of == NULL) return;
  for (uint32_t i = 0; i < of->count; i++) {
    vyc_buffer_release(of->all[i].in);
    vyc_buffer_release(of->all[i].out);
  }
  vyc_communicator_release(of->communicator);
  free(of);
}

/* There is no memory at this address. All collectives count as writing to it: ranks must run them
 * in the same order. */
static const vyc_access ONE_AFTER_THE_OTHER = {2, 3, 1, 0};
static const vyc_access NOTHING = {0, 0, 0, 0};

bool vyc__collectives_are_empty(const vyc_collectives *of) {
  for (uint32_t i = 0; i < of->count; i++)
    if (of->all[i].count > 0) return false;
  return true;
}

uint32_t vyc__collectives_access_count(const vyc_collectives *of) { return 2 * of->count + 1; }

vyc_access vyc__collectives_access(const vyc_collectives *of, uint32_t i) {
  if (i == 2 * of->count) return ONE_AFTER_THE_OTHER;
  const vyc_collective *w = &of->all[i / 2];
  const vyc_buffer *buffer = i % 2 == 0 ? w->in : w->out;
  if (buffer == NULL) return NOTHING;
  const uint64_t begin = buffer->address + (i % 2 == 0 ? w->in_offset : w->out_offset);
  const uint64_t bytes = vyc__collective_bytes(of->communicator, w, i % 2 != 0);
  return (vyc_access){begin, begin + bytes, i % 2 != 0, 0};
}
