/* What several contexts are given together, because its parts wait for each other.
 *
 * A part must not be behind a wait for the device of an earlier part: it would wait for that part
 * for ever, and that for this one. Only peers.c makes a stream of a context wait for another
 * context, for an event of the context whose claim is held while the driver is given the wait.
 * Whoever gives parts holds the claims of all, so such a wait is given before the first of them,
 * and does not wait for it, or behind the last. Claims of graphs are taken before these. */
#include "context.h"

bool vyc__together_add(vyc_together *t, vyc_context *context) {
  uint32_t place = 0;
  while (place < t->count && t->all[place] < context) place++;
  if (place < t->count && t->all[place] == context) return true;
  if (t->count == VYC_MOST_TOGETHER) return false;
  for (uint32_t i = t->count++; i > place; i--) t->all[i] = t->all[i - 1];
  t->all[place] = context;
  return true;
}

/* What one context is given has no other parts here, and may wait for another process. */
static bool is_alone(const vyc_together *t) { return t->count < 2; }

void vyc__together_begin(const vyc_together *t) {
  if (is_alone(t)) return;
  for (uint32_t i = 0; i < t->count; i++) vyc__claim_take(&t->all[i]->together);
}

void vyc__together_end(const vyc_together *t) {
  if (is_alone(t)) return;
  for (uint32_t i = t->count; i-- > 0;) vyc__claim_drop(&t->all[i]->together);
}
