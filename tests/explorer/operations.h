/* The public operations that are run against each other: one row each. What a later subsystem adds
 * is a function and a row. */
#ifndef EXPLORER_OPERATIONS_H
#define EXPLORER_OPERATIONS_H

#include <stdint.h>

typedef struct operation_row {
  const char *name;
  void (*run)(uint32_t thread); /* on a logical thread, from 1 */
} operation_row;

extern const operation_row operation_rows[];
extern const uint32_t operation_count;

#endif
