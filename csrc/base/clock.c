/* The monotonic clock, and short sleeps. */
#define _POSIX_C_SOURCE 200809L
#include "clock.h"

#include <time.h>

uint64_t vyc__now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void vyc__sleep_us(uint32_t microseconds) {
  const struct timespec pause = {0, (long)microseconds * 1000};
  nanosleep(&pause, NULL);
}
