/* Changes to bundles that get past the digest: words in the rows of its tables, cuts and copies,
 * and what libFuzzer makes of them. */
#include <string.h>

#include "bundle_fuzz.h"

static uint64_t state = 1;

void fuzz_seed(uint64_t seed) { state = seed * UINT64_C(0x9E3779B97F4A7C15) | 1; }

/* xorshift64*. */
uint64_t fuzz_draw(uint64_t below) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (state * UINT64_C(0x2545F4914F6CDD1D) >> 11) % below;
}

void fuzz_seal(uint8_t *data, size_t bytes) {
  vyc_disk_header header;
  vyc_digest digest;
  if (bytes < sizeof header) return;
  memcpy(&header, data, sizeof header);
  header.file_bytes = bytes;
  memset(header.digest, 0, sizeof header.digest);
  vyc__digest_begin(&digest);
  vyc__digest_add(&digest, &header, sizeof header);
  vyc__digest_add(&digest, data + sizeof header, bytes - sizeof header);
  vyc__digest_end(&digest, header.digest);
  memcpy(data, &header, sizeof header);
}

/* ---- where ----------------------------------------------------------------------------------- */

/* A section that lies in the file: texts, programs and code are most of a bundle's bytes, tables
 * most of what is checked. */
static int draw_section(size_t *offset_out, size_t *bytes_out, const uint8_t *data, size_t bytes) {
  vyc_disk_header header;
  vyc_disk_section section;
  if (bytes < sizeof header) return 0;
  memcpy(&header, data, sizeof header);
  if (header.section_count == 0 || header.section_count > (bytes - sizeof header) / sizeof section)
    return 0;
  memcpy(&section, data + sizeof header + fuzz_draw(header.section_count) * sizeof section,
         sizeof section);
  if (section.offset > bytes || section.bytes > bytes - section.offset) return 0;
  *offset_out = (size_t)section.offset;
  *bytes_out = (size_t)section.bytes;
  return section.bytes >= 4;
}

/* Of a word, on a boundary of 4. */
static size_t draw_place(const uint8_t *data, size_t bytes) {
  size_t offset = 0, room = 0;
  if (fuzz_draw(4) != 0 && draw_section(&offset, &room, data, bytes))
    return (offset & ~(size_t)3) + fuzz_draw(room / 4) * 4;
  return fuzz_draw(bytes / 4) * 4;
}

/* ---- what ------------------------------------------------------------------------------------ */

static const uint32_t INTERESTING[] = {0,  1,  2,  3,   4,    5,         7,          8,
                                       16, 32, 64, 255, 4096, 0x7FFFFFF, 0x80000000, UINT32_MAX};

static void change_word(uint8_t *data, size_t bytes) {
  if (bytes < 8) return;
  const size_t at = draw_place(data, bytes);
  uint32_t word;
  memcpy(&word, data + at, sizeof word);
  switch (fuzz_draw(5)) {
  case 0: word = INTERESTING[fuzz_draw(sizeof INTERESTING / sizeof INTERESTING[0])]; break;
  case 1: word += (uint32_t)fuzz_draw(17) - 8; break;
  case 2: word ^= UINT32_C(1) << fuzz_draw(32); break;
  case 3: word = (uint32_t)fuzz_draw(UINT32_MAX); break;
  default: memcpy(&word, data + draw_place(data, bytes), sizeof word); break;
  }
  memcpy(data + at, &word, sizeof word);
}

/* Cut off, taken out, put in twice, or as it was. */
static size_t change_length(uint8_t *data, size_t bytes) {
  if (bytes < 64 || fuzz_draw(4) != 0) return bytes;
  const size_t from = fuzz_draw(bytes), count = fuzz_draw(bytes - from) + 1;
  const size_t to = fuzz_draw(bytes - count + 1);
  switch (fuzz_draw(3)) {
  case 0: return from;
  case 1: memmove(data + from, data + from + count, bytes - from - count); return bytes - count;
  default: memmove(data + to, data + from, count); return bytes;
  }
}

size_t fuzz_change(uint8_t *data, size_t bytes) {
  const uint64_t changes = 1 + fuzz_draw(4);
  for (uint64_t i = 0; i < changes; i++) change_word(data, bytes);
  return change_length(data, bytes);
}

#ifdef VYC_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed) {
  fuzz_seed(seed);
  bytes = fuzz_draw(3) == 0 ? LLVMFuzzerMutate(data, bytes, room) : fuzz_change(data, bytes);
  if (fuzz_draw(64) != 0) fuzz_seal(data, bytes);
  return bytes;
}
#endif
