/* usage: sha256 [BYTES [REPETITIONS]]
 *
 * SHA-256 (FIPS 180-4) of BYTES bytes, each one more than the one before modulo 251; the digest replaces the first bytes
 * before the next repetition.
 */
#include "program.h"

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

KERNEL static void add_block(uint32_t *state, const uint8_t *block)
{
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++, block += 4)
        w[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int t = 16; t < 64; t++) {
        uint32_t sigma0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t sigma1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
    memcpy(s, state, sizeof s);
    for (int t = 0; t < 64; t++) {
        uint32_t sum1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t t1 = s[7] + sum1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[t] + w[t];
        uint32_t sum0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t t2 = sum0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

/* The digest of `size` bytes, after which there is room for 72 more. */
static void digest(size_t size, uint8_t *data, uint8_t *result)
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    size_t padded = (size + 8) / 64 * 64 + 64;
    memset(data + size, 0, padded - size);
    data[size] = 0x80;
    for (int i = 0; i < 8; i++)
        data[padded - 1 - (size_t)i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    for (size_t at = 0; at < padded; at += 64)
        add_block(state, data + at);
    for (int i = 0; i < 32; i++)
        result[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "sha256 [BYTES [REPETITIONS]]");
    size_t size = number_argument(argc, argv, 1, 700001, 32, ARENA_BYTES / 2);
    size_t repetitions = number_argument(argc, argv, 2, 67, 1, 1000000);
    uint8_t *data = allocate_bytes(size + 72), result[32];
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i % 251);
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        digest(size, data, result);
        memcpy(data, result, sizeof result);
    }
    printf("bytes %zu  repetitions %zu  checksum ", size, repetitions);
    for (int i = 0; i < 32; i++)
        printf("%02x", result[i]);
    printf("\n");
    return 0;
}
