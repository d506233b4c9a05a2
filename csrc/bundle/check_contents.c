/* The checks of texts and machine code in a bundle. */
#include "check.h"

uint32_t vyc__utf8_bytes(const uint8_t *text, uint64_t left) {
  const uint8_t first = text[0];
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const uint32_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes > left) return 0;
  for (uint32_t i = 1; i < bytes; i++)
    if ((text[i] & 0xC0) != 0x80) return 0;
  if ((first == 0xE0 && text[1] < 0xA0) || (first == 0xED && text[1] > 0x9F)) return 0;
  if ((first == 0xF0 && text[1] < 0x90) || (first == 0xF4 && text[1] > 0x8F)) return 0;
  return bytes;
}

/* Little-endian words of an ELF64 header (System V ABI, ELF header). */
static uint64_t word_at(const uint8_t *data, size_t offset, size_t bytes) {
  uint64_t word = 0;
  memcpy(&word, data + offset, bytes);
  return word;
}

/* A table of `count` rows at `offset` is inside the file. */
static bool is_table(uint64_t offset, uint64_t count, uint64_t row_bytes, uint64_t bytes) {
  return offset <= bytes && count * row_bytes <= bytes - offset;
}

bool vyc__is_elf(const uint8_t *data, uint64_t bytes) {
  const size_t header_bytes = 64;
  if (bytes < header_bytes || memcmp(data,
                                     "\x7f"
                                     "ELF\x02\x01",
                                     6) != 0)
    return false;
  return is_table(word_at(data, 32, 8), word_at(data, 56, 2), word_at(data, 54, 2), bytes) &&
         is_table(word_at(data, 40, 8), word_at(data, 60, 2), word_at(data, 58, 2), bytes);
}
