/* BLAKE2b-256 (RFC 7693), without a key: the digest of bundles.
 *
 * Equal to Python's hashlib.blake2b(data, digest_size=32). Input may come in pieces of any size. */
#ifndef VYC_DIGEST_H
#define VYC_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define VYC_DIGEST_BYTES 32u
#define VYC_DIGEST_BLOCK 128u

typedef struct vyc_digest {
  uint64_t state[8];
  uint64_t length; /* bytes so far; never reaches 2^64 */
  size_t pending;  /* bytes in block */
  uint8_t block[VYC_DIGEST_BLOCK];
} vyc_digest;

void vyc__digest_begin(vyc_digest *digest);
void vyc__digest_add(vyc_digest *digest, const void *data, size_t bytes);
void vyc__digest_end(vyc_digest *digest, uint8_t out[VYC_DIGEST_BYTES]);

#endif
