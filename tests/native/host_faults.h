/* Host memory that runs out, for tests: the n-th allocation of the C layer fails.
 *
 * Two builds of host_faults.c count the same calls. Linked into a program together with the C
 * layer's sources and the options of host_faults.ld, it stands before the allocator, the
 * sanitizers' too. As a library of its own that is loaded first (-DHOST_FAULTS_INTERPOSE,
 * LD_PRELOAD), it fails the allocations of libvyre_cuda and of the Python extensions as they are
 * installed. All functions are thread-safe. */
#ifndef HOST_FAULTS_H
#define HOST_FAULTS_H

#include <stdint.h>

/* The n-th allocation from now on (1: the next) and `count` - 1 after it fail. */
void host_faults_arm(uint64_t nth, uint64_t count);
/* None fails any more. How many have failed since the faults were armed. */
uint64_t host_faults_disarm(void);
/* Allocations that were made and not freed. */
uint64_t host_faults_live(void);
/* Where those made after the `before` first ones were made, to stderr. */
void host_faults_tell(uint64_t before);
/* Allocations that were made. */
uint64_t host_faults_made(void);

#endif
