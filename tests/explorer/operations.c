#include "operations.h"

#define OPERATION_ROW(name, function) {name, operate_##function},
const operation_row operation_rows[] = {OPERATION_TABLE(OPERATION_ROW)};
const uint32_t operation_count = (uint32_t)(sizeof operation_rows / sizeof operation_rows[0]);
