/* BLAKE2b-256, as in RFC 7693. Words are little-endian, as the hosts of this library are. */
#include "digest.h"

#include <string.h>

#define ROUNDS 12

/* RFC 7693, section 2.6. */
static const uint64_t INITIAL[8] = {UINT64_C(0x6A09E667F3BCC908), UINT64_C(0xBB67AE8584CAA73B),
                                    UINT64_C(0x3C6EF372FE94F82B), UINT64_C(0xA54FF53A5F1D36F1),
                                    UINT64_C(0x510E527FADE682D1), UINT64_C(0x9B05688C2B3E6C1F),
                                    UINT64_C(0x1F83D9ABFB41BD6B), UINT64_C(0x5BE0CD19137E2179)};

/* RFC 7693, section 2.7; rounds 10 and 11 take the first two rows again. */
static const uint8_t SIGMA[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                      {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                      {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                      {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                      {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                      {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                      {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                      {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                      {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                      {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static inline uint64_t rotate(uint64_t value, unsigned by) {
  return (value >> by) | (value << (64u - by));
}

static inline void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
  v[a] += v[b] + x;
  v[d] = rotate(v[d] ^ v[a], 32);
  v[c] += v[d];
  v[b] = rotate(v[b] ^ v[c], 24);
  v[a] += v[b] + y;
  v[d] = rotate(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotate(v[b] ^ v[c], 63);
}

static void compress(vyc_digest *digest, const uint8_t *block, int is_last) {
  uint64_t m[16], v[16];
  memcpy(m, block, sizeof m);
  memcpy(v, digest->state, sizeof digest->state);
  memcpy(v + 8, INITIAL, sizeof INITIAL);
  v[12] ^= digest->length;
  if (is_last) v[14] = ~v[14];
  for (int round = 0; round < ROUNDS; round++) {
    const uint8_t *s = SIGMA[round % 10];
    mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
    mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
    mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
    mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
    mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
    mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
    mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
    mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
  }
  for (int i = 0; i < 8; i++) digest->state[i] ^= v[i] ^ v[i + 8];
}

void vyc__digest_begin(vyc_digest *digest) {
  memset(digest, 0, sizeof *digest);
  memcpy(digest->state, INITIAL, sizeof INITIAL);
  /* The parameter block: no key, one leaf, so many bytes out (section 2.5). */
  digest->state[0] ^= UINT64_C(0x01010000) ^ VYC_DIGEST_BYTES;
}

/* The last block is compressed by vyc__digest_end alone, so a full one waits for more. */
void vyc__digest_add(vyc_digest *digest, const void *data, size_t bytes) {
  const uint8_t *from = data;
  while (bytes > 0) {
    if (digest->pending == VYC_DIGEST_BLOCK) {
      digest->length += VYC_DIGEST_BLOCK;
      compress(digest, digest->block, 0);
      digest->pending = 0;
    }
    const size_t room = VYC_DIGEST_BLOCK - digest->pending;
    const size_t taken = bytes < room ? bytes : room;
    memcpy(digest->block + digest->pending, from, taken);
    digest->pending += taken;
    from += taken;
    bytes -= taken;
  }
}

void vyc__digest_end(vyc_digest *digest, uint8_t out[VYC_DIGEST_BYTES]) {
  digest->length += digest->pending;
  memset(digest->block + digest->pending, 0, VYC_DIGEST_BLOCK - digest->pending);
  compress(digest, digest->block, 1);
  memcpy(out, digest->state, VYC_DIGEST_BYTES);
}
