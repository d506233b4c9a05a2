/* What the public contract (vyre_cuda.h) says about the order of operations, as a relation between
 * them, and whether a value that was seen is one that it allows.
 *
 * An operation begins when it is called and ends when it returns; one that ended before another
 * began may come before it. It does where both are in one order (call order, a stream, a graph,
 * memory with a source), where the later one waits (copies for all work on the buffer), where the
 * earlier one has waited for itself, and where a stream uses a buffer for the first time, or again
 * after a copy; and by steps of these. What an operation writes is its number, so whatever is read
 * tells who wrote it. */
#ifndef EXPLORER_ORDER_H
#define EXPLORER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#define ORDER_MOST 64u    /* operations of a schedule, and bits of a set of them */
#define ORDER_BUFFERS 32u /* at most, in the life of a schedule */
#define ORDER_BUFFER_BYTES 16u /* of each */
#define ORDER_CALLS 0u    /* the stream of what has none: call order */
#define ORDER_NOWHERE 99u /* the stream of what gives the device nothing */

enum { /* order_operation.flags */
       ORDER_COPY = 1u,        /* streams use its buffers anew after it */
       ORDER_BLOCKS = 2u,      /* has ended on the device when it returns */
       ORDER_WAITS_ALL = 4u,   /* behind everything that was given before */
       ORDER_WAITS_BUFFERS = 8u, /* behind all work on its buffers, on whatever stream */
       ORDER_WAITS_OTHER = 16u,  /* behind what `other` was given before */
       ORDER_IS_ON_OTHER = 32u,  /* in the order of `other` as well */
       ORDER_TELLS = 64u         /* of failed assertions */
};

typedef struct order_operation {
  const char *name;
  uint32_t thread, stream, flags;
  uint32_t other; /* stream */
  uint32_t graph; /* 0: none */
  uint64_t begin, end; /* steps; end 0: it goes on */
  bool failed;
  uint64_t before; /* those that are ordered before it */
  uint32_t reads, writes; /* sets of buffers */
  uint64_t in, out; /* addresses that a launch of it must use; 0: not known */
  uint32_t launched; /* kernels that it gave the device */
  uint32_t executed; /* and that ran */
} order_operation;

/* A value that is set and used by calls alone: arguments of a bound call, a symbol of a graph. */
typedef struct order_register {
  uint64_t writers; /* set of operations */
} order_register;

typedef struct order_buffer {
  const char *name;
  uint64_t address, released; /* steps; released 0: live */
  uint64_t taken;             /* at this step */
  bool has_source;            /* adopted, with a stream of its owner */
} order_buffer;

typedef struct order {
  uint32_t count; /* operation 0 is the beginning */
  order_operation list[ORDER_MOST];
  uint32_t buffer_count;
  order_buffer buffers[ORDER_BUFFERS];
} order;

uint32_t order_begin(order *o, order_operation operation);
void order_end(order *o, uint32_t operation, bool failed);
uint32_t order_buffer_add(order *o, const char *name, uint64_t address, bool has_source);
void order_buffer_release(order *o, uint32_t buffer);
/* Who owned the memory when the device was given work on it: the last that was given it. */
uint32_t order_owner(const order *o, uint64_t address);
static inline bool order_is_before(const order *o, uint32_t earlier, uint32_t later) {
  return earlier == 0 || (o->list[later].before >> earlier & 1) != 0;
}
/* `reader` finds what `writer` wrote in a buffer: fails the schedule where it cannot. */
void order_check_read(const order *o, uint32_t reader, uint32_t buffer, uint64_t found);
/* `writer` writes over `found`. */
void order_check_write(const order *o, uint32_t writer, uint32_t buffer, uint64_t found);
/* A value of a register is used, right now, by an operation. */
void order_check_register(const order *o, const order_register *r, uint32_t reader, uint64_t found,
                          const char *what);

#endif
