/* Statuses, and the error record of a thread.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_STATUS_H
#define VYRE_CUDA_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define VYC_API __attribute__((visibility("default")))
#else
#define VYC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status --------------------------------------------------------------------------------- */

typedef enum vyc_status {
  VYC_OK = 0,
  VYC_E_INVALID = 1,     /* the caller broke the contract; the message names the argument */
  VYC_E_UNAVAILABLE = 2, /* no driver, no device, a closed context or worker, a forked child */
  VYC_E_UNSUPPORTED = 3, /* this device or driver cannot; the message names what is missing */
  VYC_E_MEMORY = 4,      /* device or host memory ran out; the message has the numbers */
  VYC_E_DRIVER = 5,      /* a driver call failed */
  VYC_E_COMPILE = 6,     /* the driver refused a module */
  VYC_E_LOST = 7,        /* a kernel fault ended the context; only a new process recovers it */
  VYC_E_TIMEOUT = 8,     /* the wait ended before the work did */
  VYC_E_ASSERT = 9,      /* a kernel reported a failed assertion */
  VYC_E_INTERNAL = 10,   /* no function returns it; a vyre::Error without a failure has it */
  VYC_NOT_READY = 11,    /* not an error: the work has not finished */
  VYC_E_FILE = 12,       /* a file cannot be read; the message has the system's reason */
  VYC_E_FORMAT = 13, /* not a bundle, or a damaged one; the message says what is wrong, and where */
  VYC_E_VERSION = 14, /* a bundle of a newer format than this library reads */
  VYC_E_COMMUNICATION = 15 /* collectives failed, or were ended: a rank is gone or late */
} vyc_status;

typedef struct vyc_error {
  uint32_t struct_size;
  int32_t status; /* vyc_status */
  int32_t driver_result; /* CUresult, 0 when no driver call failed */
  uint32_t reserved;
  uint64_t report; /* VYC_E_ASSERT: linear thread << 20 | site */
  uint64_t tag; /* VYC_E_ASSERT: vyc_prepared_desc.tag of the kernel */
  char operation[64]; /* the driver call or what the library did; VYC_E_ASSERT: the kernel */
  char driver_name[64]; /* the CUresult's name */
  char message[640];
  uint64_t report_index; /* VYC_E_ASSERT of a bounds check: the index */
  char launches[4096]; /* VYC_E_LOST, and VYC_E_TIMEOUT of a close: see vyc_context_in_flight, lines
                        * that fit */
} vyc_error;

/* The calling thread's record of its last failure, which stays until its next failure; zeros before
 * the first. VYC_E_INVALID leaves the record as it is. */
VYC_API vyc_status vyc_last_error(vyc_error *error_out);

/* "operation: message" of the same record, for hosts that only print it; "" before the first
 * failure. Valid until the thread's next failure or call of this function. */
VYC_API const char *vyc_last_message(void);

/* Library version: major * 10000 + minor * 100 + patch. */
VYC_API uint32_t vyc_version(void);

#ifdef __cplusplus
}
#endif
#endif
