/* The monotonic clock, and short sleeps. */
#ifndef VYC_CLOCK_H
#define VYC_CLOCK_H

#include <stdint.h>

#define VYC_SLEEP_MIN_US 20u /* between two checks of something that another thread has */

uint64_t vyc__now_ns(void);
void vyc__sleep_us(uint32_t microseconds);

#endif
