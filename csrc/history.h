/* The last launches, for the message of a fault that comes out long after the launch that made it.
 *
 * Streams are written down by their slots, in rings, calls with host arrays by their lanes. A
 * launch costs two stores, and a wait that succeeded says which launches are out of the question.
 * Reading takes no lock, so every failure may do it; two threads that launch on one stream at the
 * same time may lose one of the two names. Included by internal.h only. */
#ifndef VYC_HISTORY_H
#define VYC_HISTORY_H

#define VYC_HISTORY 32u /* launches of a stream that are remembered */

/* What a lane has in flight; never freed before the context, so that it is found without a lock. */
typedef struct vyc_flight {
  struct vyc_flight *next;
  _Atomic bool taken;
  _Atomic(const char *) name; /* NULL: nothing */
} vyc_flight;

typedef struct vyc_traces vyc_traces;

typedef struct vyc_history {
  _Atomic uint32_t next[VYC_STREAM_SLOTS]; /* launches so far */
  _Atomic uint32_t settled[VYC_STREAM_SLOTS]; /* so many of them are known to have ended */
  _Atomic uint64_t handles[VYC_STREAM_SLOTS]; /* the CUstream */
  _Atomic uint32_t slots; /* past the highest that was ever in use */
  _Atomic(const char *) names[VYC_STREAM_SLOTS][VYC_HISTORY];
  _Atomic(vyc_flight *) flights;
  _Atomic(vyc_traces *) traces; /* NULL: nobody traces */
} vyc_history;

/* The text that the thread gave for its next launch, else `name`. */
const char *vyc__traced(vyc_context *context, const char *name);
/* A stream begins in the slot. */
void vyc__history_stream(vyc_context *context, uint32_t slot, uint64_t handle);
/* NULL: out of host memory, and recorded. */
vyc_flight *vyc__flight_take(vyc_context *context);
void vyc__flight_give(vyc_flight *flight);
/* Before a wait for one slot, and for all; after it, when it has succeeded. */
typedef struct vyc_settling {
  uint32_t slots;
  uint32_t next[VYC_STREAM_SLOTS];
} vyc_settling;
void vyc__settling_begin(vyc_context *context, vyc_settling *settling);
void vyc__settling_end(vyc_context *context, const vyc_settling *settling);
/* What is not known to have ended, newest first, a line each; the number of lines. */
uint32_t vyc__history_text(vyc_context *context, char *text_out, size_t bytes);
void vyc__history_free(vyc_context *context);

#endif
