// The bundle file, as it is, in the read-only data of the program.
#include "bundle.h"

__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        "embedded_bundle_begin:\n"
        ".incbin \"" BUNDLE "\"\n"
        "embedded_bundle_end:\n"
        ".byte 0\n"
        ".popsection\n");

extern "C" {
extern const unsigned char embedded_bundle_begin[] __attribute__((visibility("hidden")));
extern const unsigned char embedded_bundle_end[] __attribute__((visibility("hidden")));
}

const void *bundle_data() { return embedded_bundle_begin; }

std::size_t bundle_bytes() {
  return static_cast<std::size_t>(embedded_bundle_end - embedded_bundle_begin);
}
