/* The notes of launches, as callers see them. */
#include "room.h"

vyc_status vyc_context_trace(vyc_context *context, const char *text) {
  VYC_REQUIRE(context != NULL);
  VYC_TRY(vyc__check_usable(context));
  return vyc__trace(&context->history, text);
}

vyc_status vyc_context_in_flight(vyc_context *context, char *text_out, size_t bytes,
                                 uint32_t *count_out) {
  VYC_REQUIRE(context != NULL && (text_out != NULL || bytes == 0) && count_out != NULL);
  *count_out = vyc__history_text(&context->history, text_out, bytes);
  return VYC_OK;
}
