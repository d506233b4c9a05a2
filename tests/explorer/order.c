/* The relation is worked out when an operation begins: all that can come before it has ended. */
#include "order.h"

#include "schedule.h"

#define BIT(n) (UINT64_C(1) << (n))

static bool touches(const order_operation *operation, uint32_t buffers) {
  return ((operation->reads | operation->writes) & buffers) != 0;
}

static uint32_t with_source(const order *o, uint32_t buffers) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < o->buffer_count; i++)
    if (o->buffers[i].has_source) found |= buffers & 1u << i;
  return found;
}

static bool is_on(const order_operation *operation, uint32_t stream) {
  return stream != ORDER_NOWHERE &&
         (operation->stream == stream ||
          ((operation->flags & ORDER_IS_ON_OTHER) != 0 && operation->other == stream));
}

static bool share_a_stream(const order_operation *a, const order_operation *b) {
  return is_on(a, b->stream) || ((b->flags & ORDER_IS_ON_OTHER) != 0 && is_on(a, b->other));
}

/* The stream of `later` uses the buffer for the first time, or again after a copy. */
static bool is_first_use(const order *o, const order_operation *later, uint32_t buffer) {
  uint64_t copied = 0; /* the last copy that has ended began then */
  bool used = false;
  for (uint32_t i = 1; i < o->count; i++) {
    const order_operation *p = &o->list[i];
    if ((p->flags & ORDER_COPY) != 0 && touches(p, 1u << buffer) && p->end != 0 && !p->failed &&
        p->begin > copied)
      copied = p->begin;
  }
  for (uint32_t i = 1; i < o->count; i++) {
    const order_operation *p = &o->list[i];
    if (is_on(p, later->stream) && touches(p, 1u << buffer) && (p->end == 0 || p->end >= copied))
      used = true;
  }
  return !used;
}

/* The buffers that it uses so; adopted ones follow their source instead. */
static uint32_t used_anew(const order *o, const order_operation *later) {
  const uint32_t buffers = later->reads | later->writes;
  uint32_t found = 0;
  for (uint32_t i = 0; i < o->buffer_count; i++)
    if ((buffers >> i & 1) != 0 && !o->buffers[i].has_source && is_first_use(o, later, i))
      found |= 1u << i;
  return found;
}

static bool comes_before(const order *o, const order_operation *p, const order_operation *later,
                         uint32_t anew) {
  const uint32_t buffers = later->reads | later->writes;
  if ((p->flags & ORDER_BLOCKS) != 0) return true;
  if ((later->flags & ORDER_WAITS_ALL) != 0) return true;
  if (share_a_stream(p, later)) return true;
  if ((later->flags & ORDER_WAITS_BUFFERS) != 0 && touches(p, buffers)) return true;
  if ((later->flags & ORDER_WAITS_OTHER) != 0 && is_on(p, later->other)) return true;
  if (p->graph != 0 && p->graph == later->graph) return true;
  if (touches(p, with_source(o, buffers))) return true;
  return touches(p, anew) && is_on(p, ORDER_CALLS) && later->stream != ORDER_NOWHERE;
}

uint32_t order_begin(order *o, order_operation operation) {
  if (o->count >= ORDER_MOST) explorer_fail("the model of order is full");
  if (o->count == 0) o->list[o->count++] = (order_operation){.name = "the beginning", .end = 1};
  operation.begin = ++explorer->steps;
  operation.end = 0;
  operation.thread = explorer->current;
  operation.before = 1;
  const uint32_t anew = used_anew(o, &operation);
  for (uint32_t i = 1; i < o->count; i++) {
    const order_operation *p = &o->list[i];
    if (p->end == 0 || p->failed || !comes_before(o, p, &operation, anew)) continue;
    operation.before |= BIT(i) | p->before;
  }
  o->list[o->count] = operation;
  return o->count++;
}

void order_end(order *o, uint32_t operation, bool failed) {
  o->list[operation].end = ++explorer->steps;
  o->list[operation].failed = failed;
}

uint32_t order_buffer_add(order *o, const char *name, uint64_t address, bool has_source) {
  if (o->buffer_count >= ORDER_BUFFERS) explorer_fail("the model of order has no more buffers");
  o->buffers[o->buffer_count] = (order_buffer){name, address, 0, ++explorer->steps, has_source};
  return o->buffer_count++;
}

void order_buffer_release(order *o, uint32_t buffer) {
  o->buffers[buffer].released = ++explorer->steps;
}

uint32_t order_owner(const order *o, uint64_t address) {
  for (uint32_t i = o->buffer_count; i-- > 0;)
    if (address - o->buffers[i].address < ORDER_BUFFER_BYTES) return i;
  return ORDER_BUFFERS;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *name(const order *o, uint64_t operation) {
  return operation < o->count ? o->list[operation].name : "nobody";
}

static bool writes(const order *o, uint64_t operation, uint32_t buffer) {
  return operation == 0 || (operation < o->count && (o->list[operation].writes >> buffer & 1) != 0);
}

/* Between a value and its reader: written over by somebody who is ordered between. */
static uint32_t newer(const order *o, uint32_t reader, uint32_t buffer, uint64_t found,
                      bool is_own) {
  for (uint32_t i = 1; i < o->count; i++) {
    if (i == found || i == reader || o->list[i].failed || !writes(o, i, buffer)) continue;
    if (!order_is_before(o, i, reader)) continue;
    if (!is_own || order_is_before(o, (uint32_t)found, i)) return i;
  }
  return 0;
}

void order_check_read(const order *o, uint32_t reader, uint32_t buffer, uint64_t found) {
  const order_buffer *b = &o->buffers[buffer];
  const bool is_own = writes(o, found, buffer);
  if (is_own && found != 0 && order_is_before(o, reader, (uint32_t)found))
    explorer_fail("%s (%u) reads from %s what %s (%lu) writes after it", name(o, reader), reader,
                  b->name, name(o, found), (unsigned long)found);
  const uint32_t later = newer(o, reader, buffer, found, is_own);
  if (later != 0)
    explorer_fail("%s (%u) reads from %s what %s (%lu) wrote%s, not what %s (%u) wrote",
                  name(o, reader), reader, b->name, name(o, found), (unsigned long)found,
                  is_own ? "" : " for another owner of the memory", name(o, later), later);
}

void order_check_write(const order *o, uint32_t writer, uint32_t buffer, uint64_t found) {
  const order_buffer *b = &o->buffers[buffer];
  if (found == 0 || found >= o->count || found == writer) return;
  if (writes(o, found, buffer)) {
    if (order_is_before(o, writer, (uint32_t)found))
      explorer_fail("%s (%u) writes to %s over what %s (%lu) has written after it", name(o, writer),
                    writer, b->name, name(o, found), (unsigned long)found);
    return;
  }
  for (uint32_t i = buffer + 1; i < o->buffer_count; i++)
    if (o->buffers[i].address == b->address && writes(o, found, i))
      explorer_fail("%s (%u) writes to %s, whose memory is %s meanwhile, over what %s (%lu) wrote",
                    name(o, writer), writer, b->name, o->buffers[i].name, name(o, found),
                    (unsigned long)found);
}

void order_check_register(const order *o, const order_register *r, uint32_t reader, uint64_t found,
                          const char *what) {
  if (found >= o->count || (found != reader && found != 0 && (r->writers >> found & 1) == 0))
    explorer_fail("%s (%u) uses %s of %lu, which nobody has set", name(o, reader), reader, what,
                  (unsigned long)found);
  if (found == reader) return;
  const order_operation *value = &o->list[found];
  for (uint32_t i = 1; i < o->count; i++) {
    const order_operation *other = &o->list[i];
    if (i == found || i == reader || (r->writers >> i & 1) == 0 || other->failed) continue;
    if (other->end == 0 || other->end >= o->list[reader].begin) continue;
    if (value->end != 0 && value->end < other->begin)
      explorer_fail("%s (%u) uses %s of %s (%lu), not of %s (%u)", name(o, reader), reader, what,
                    value->name, (unsigned long)found, other->name, i);
  }
}
