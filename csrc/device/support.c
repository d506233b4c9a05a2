/* What a context supports, by the names in messages of VYC_E_UNSUPPORTED; this runs the checks
 * themselves. */
#include <string.h>

#include "graph/room.h"
#include "room.h"

static vyc_status cooperative_launch(const vyc_context *context) {
  return vyc__cooperative_supported(context, "the kernel");
}

static vyc_status conditional_nodes(const vyc_context *context) {
  return vyc__loops_supported(context, "a loop that ends on the device");
}

static const struct question {
  const char *capability;
  vyc_status (*check)(const vyc_context *context);
} questions[] = {{"cooperative_launch", cooperative_launch},
                 {"conditional_nodes", conditional_nodes},
                 {"captured_replay", vyc__captures_supported},
                 {"cuFuncGetParamInfo", vyc__parameters_supported}};

vyc_status vyc_context_supports(vyc_context *context, const char *capability) {
  VYC_REQUIRE(context != NULL && capability != NULL);
  VYC_TRY(vyc__check_usable(context));
  for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
    if (strcmp(questions[i].capability, capability) == 0) return questions[i].check(context);
  return vyc__fail(
      VYC_E_INVALID, "supports",
      "there is no capability %s: pass the one that an error with VYC_E_UNSUPPORTED names",
      capability);
}
