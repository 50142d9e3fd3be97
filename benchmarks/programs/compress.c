/* usage: compress [BYTES]
 *
 * Compresses generated text and expands it again: repeated pieces are replaced by a distance and a length (LZ77, found by
 * chains of hashes of three letters), and what is left is coded by an adaptive order-1 model and a binary range coder.
 */
#include "program.h"

enum { HASH_BITS = 15, WINDOW = 1 << 16, LEAST_MATCH = 4, MOST_MATCH = 258, MOST_TRIES = 24, WORDS = 3000 };

/* ---- the text: words with Zipf's frequencies ---- */

KERNEL static void write_text(size_t size, uint8_t *text)
{
    static char words[WORDS][12];
    static double cumulative[WORDS];
    uint64_t state = 24;
    double sum = 0;
    for (size_t w = 0; w < WORDS; w++) {
        size_t length = 2 + random_below(&state, 9);
        for (size_t i = 0; i < length; i++)
            words[w][i] = i % 2 ? "aeiou"[random_below(&state, 5)] : "bcdfghklmnprst"[random_below(&state, 14)];
        cumulative[w] = sum += 1 / (double)(w + 3);
    }
    for (size_t at = 0, column = 0; at < size;) {
        double wanted = random_unit(&state) * sum;
        size_t low = 0, high = WORDS - 1;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (cumulative[middle] < wanted)
                low = middle + 1;
            else
                high = middle;
        }
        for (const char *letter = words[low]; *letter && at < size; letter++, column++)
            text[at++] = (uint8_t)*letter;
        if (at < size)
            text[at++] = column > 70 ? '\n' : ' ';
        column = column > 70 ? 0 : column + 1;
    }
}

/* ---- bits by probability: a binary range coder, 12-bit adaptive probabilities ---- */

struct coder {
    uint32_t low, high, code;
    uint8_t *at; /* next byte of the compressed data */
};

static uint16_t order_1[256][256], flag[2], length_model[512], distance_model[17][256];

static void reset_models(void)
{
    uint16_t *models[] = {order_1[0], flag, length_model, distance_model[0]};
    size_t counts[] = {256 * 256, 2, 512, 17 * 256};
    for (size_t m = 0; m < 4; m++)
        for (size_t i = 0; i < counts[m]; i++)
            models[m][i] = 2048;
}

static void adapt(uint16_t *probability, int bit)
{
    *probability = (uint16_t)(bit ? *probability + ((4096 - *probability) >> 5) : *probability - (*probability >> 5));
}

static void encode_bit(struct coder *c, uint16_t *probability, int bit)
{
    uint32_t middle = c->low + (uint32_t)((uint64_t)(c->high - c->low) * *probability >> 12);
    if (bit)
        c->high = middle;
    else
        c->low = middle + 1;
    adapt(probability, bit);
    for (; (c->low ^ c->high) < 1u << 24; c->low <<= 8, c->high = c->high << 8 | 255)
        *c->at++ = (uint8_t)(c->high >> 24);
}

static int decode_bit(struct coder *c, uint16_t *probability)
{
    uint32_t middle = c->low + (uint32_t)((uint64_t)(c->high - c->low) * *probability >> 12);
    int bit = c->code <= middle;
    if (bit)
        c->high = middle;
    else
        c->low = middle + 1;
    adapt(probability, bit);
    for (; (c->low ^ c->high) < 1u << 24; c->low <<= 8, c->high = c->high << 8 | 255)
        c->code = c->code << 8 | *c->at++;
    return bit;
}

/* A number of `bits` bits, most significant first; each prefix has a probability of its own. */
static void encode_number(struct coder *c, uint16_t *model, int bits, uint32_t number)
{
    for (uint32_t prefix = 1; bits-- > 0;) {
        int bit = number >> bits & 1;
        encode_bit(c, model + prefix, bit);
        prefix = prefix << 1 | (uint32_t)bit;
    }
}

static uint32_t decode_number(struct coder *c, uint16_t *model, int bits)
{
    uint32_t prefix = 1;
    for (int i = 0; i < bits; i++)
        prefix = prefix << 1 | (uint32_t)decode_bit(c, model + prefix);
    return prefix - (1u << bits);
}

/* ---- matches ---- */

struct matcher {
    uint32_t last[1 << HASH_BITS], before[WINDOW]; /* position + 1; 0: none */
};

static uint32_t hash(const uint8_t *p)
{
    return ((uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]) * 2654435761u >> (32 - HASH_BITS);
}

static void remember(struct matcher *m, const uint8_t *text, size_t at)
{
    uint32_t *last = &m->last[hash(text + at)];
    m->before[at % WINDOW] = *last;
    *last = (uint32_t)at + 1;
}

/* Length of the longest match of what is at `at`, with its distance; 0 where there is none worth it. */
KERNEL static size_t find_match(const struct matcher *m, const uint8_t *text, size_t size, size_t at, size_t *distance)
{
    size_t best = LEAST_MATCH - 1, most = size - at < MOST_MATCH ? size - at : MOST_MATCH;
    uint32_t next = m->last[hash(text + at)];
    for (int tries = 0; next && at - (next - 1) < WINDOW && tries < MOST_TRIES; tries++) {
        const uint8_t *old = text + next - 1, *new = text + at;
        if (best < most && old[best] == new[best]) {
            size_t length = 0;
            while (length < most && old[length] == new[length])
                length++;
            if (length > best) {
                best = length;
                *distance = at - (next - 1);
            }
        }
        next = m->before[(next - 1) % WINDOW];
    }
    return best >= LEAST_MATCH ? best : 0;
}

KERNEL static size_t compress(size_t size, const uint8_t *text, uint8_t *compressed)
{
    static struct matcher matcher;
    struct coder c = {0, UINT32_MAX, 0, compressed};
    reset_models();
    for (size_t at = 0; at < size;) {
        size_t distance = 0, length = at + LEAST_MATCH <= size ? find_match(&matcher, text, size, at, &distance) : 0;
        encode_bit(&c, flag, length > 0);
        if (length) {
            encode_number(&c, length_model, 8, (uint32_t)(length - LEAST_MATCH));
            encode_number(&c, distance_model[0], 8, (uint32_t)(distance >> 8));
            encode_number(&c, distance_model[1], 8, distance & 255);
        } else {
            encode_number(&c, order_1[at ? text[at - 1] : 0], 8, text[at]);
            length = 1;
        }
        for (size_t end = at + length; at < end; at++)
            if (at + LEAST_MATCH <= size)
                remember(&matcher, text, at);
    }
    for (int shift = 24; shift >= 0; shift -= 8)
        *c.at++ = (uint8_t)(c.low >> shift);
    return (size_t)(c.at - compressed);
}

KERNEL static void expand(size_t size, uint8_t *text, uint8_t *compressed)
{
    struct coder c = {0, UINT32_MAX, 0, compressed};
    reset_models();
    for (int i = 0; i < 4; i++)
        c.code = c.code << 8 | *c.at++;
    for (size_t at = 0; at < size;) {
        if (!decode_bit(&c, flag)) {
            text[at] = (uint8_t)decode_number(&c, order_1[at ? text[at - 1] : 0], 8);
            at++;
            continue;
        }
        size_t length = LEAST_MATCH + decode_number(&c, length_model, 8);
        size_t distance = (size_t)decode_number(&c, distance_model[0], 8) << 8;
        distance |= decode_number(&c, distance_model[1], 8);
        for (size_t end = at + length; at < end && at < size; at++)
            text[at] = text[at - distance];
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "compress [BYTES]");
    size_t size = number_argument(argc, argv, 1, 3300000, 1, ARENA_BYTES / 8);
    uint8_t *text = allocate_bytes(size + 8), *compressed = allocate_bytes(2 * size + 64), *back = allocate_bytes(size + 8);
    write_text(size, text);
    size_t compressed_bytes = compress(size, text, compressed);
    uint64_t checksum = 0;
    for (size_t i = 0; i < compressed_bytes; i++)
        checksum = checksum * 31 + compressed[i];
    expand(size, back, compressed);
    int same = memcmp(text, back, size) == 0;
    printf("bytes %zu  compressed %zu  %s  checksum %016" PRIx64 "\n", size, compressed_bytes,
           same ? "same again" : "different", checksum);
    return !same;
}
