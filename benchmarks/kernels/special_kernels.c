/* Instructions that only some processors have, or that cost more than a sum: AES, SHA, CRC, products without carries
 * and in GF(2^8), bit deposits, products of vectors. Dependent (`..._chain`) and independent (`..._free`) ones, as in
 * fp_kernels.c. */
#include "kernels.h"

#include "kernel_parts.h"

#if defined(__x86_64__)
#include <cpuid.h>
#define SPECIAL_VECTOR "x"
typedef uint64_t ft_words __attribute__((vector_size(16)));
#elif defined(__aarch64__)
#include <sys/auxv.h>
#define SPECIAL_VECTOR "w"
typedef uint64_t ft_words __attribute__((vector_size(16)));
#endif

#ifdef SPECIAL_VECTOR

#define SPECIAL(name, T, CODE, constraint, per_step)                                                                   \
    static uint64_t name##_chain(struct ft_work *work)                                                                 \
    {                                                                                                                  \
        T x = (T){0} + 3, y = (T){0} + 5;                                                                              \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES16(__asm__ volatile(CODE : "+" constraint(x) : constraint(y));)                                       \
        }                                                                                                              \
        return 16 * per_step * work->repeats;                                                                          \
    }                                                                                                                  \
    static uint64_t name##_free(struct ft_work *work)                                                                  \
    {                                                                                                                  \
        T a = (T){0} + 3, b = a, c = a, d = a, e = a, f = a, g = a, h = a, y = (T){0} + 5;                             \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES2(SPECIAL_STEP(CODE, constraint, a) SPECIAL_STEP(CODE, constraint, b)                                 \
                   SPECIAL_STEP(CODE, constraint, c) SPECIAL_STEP(CODE, constraint, d)                                 \
                   SPECIAL_STEP(CODE, constraint, e) SPECIAL_STEP(CODE, constraint, f)                                 \
                   SPECIAL_STEP(CODE, constraint, g) SPECIAL_STEP(CODE, constraint, h))                                \
        }                                                                                                              \
        return 16 * per_step * work->repeats;                                                                          \
    }
#define SPECIAL_STEP(CODE, constraint, v) __asm__ volatile(CODE : "+" constraint(v) : constraint(y));
#define VECTORS(name, CODE, per_step) SPECIAL(name, ft_words, CODE, SPECIAL_VECTOR, per_step)
#define NUMBERS(name, CODE) SPECIAL(name, uint64_t, CODE, "r", 1)
#define ENTRY(name, available)                                                                                         \
    {#name "_chain", name##_chain, 0, false, false, 0, available}, {#name "_free", name##_free, 0, false, false, 0, available}

#endif

#if defined(__x86_64__)

VECTORS(vector_mul_16x8, "pmullw %1, %0", 1)
VECTORS(aes_64x2, "aesenc %1, %0", 1)
VECTORS(sha_round_64x2, "sha256rnds2 %%xmm0, %1, %0", 1) /* whatever xmm0 holds */
VECTORS(sha_schedule_64x2, "sha256msg1 %1, %0\n sha256msg2 %1, %0", 2)
VECTORS(carryless_mul_64x2, "pclmulqdq $0, %1, %0", 1)
VECTORS(galois_8x16, "gf2p8affineqb $0, %1, %0", 1)
NUMBERS(crc32_64x1, "crc32q %1, %0")
NUMBERS(bit_deposit_64x1, "pdepq %1, %0, %0")

static bool has_bit(unsigned leaf, bool in_ebx, unsigned bit)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(leaf, 0, &a, &b, &c, &d) && ((in_ebx ? b : c) >> bit & 1);
}

static bool has_aes(void)
{
    return has_bit(1, false, 25);
}

static bool has_carryless(void)
{
    return has_bit(1, false, 1);
}

static bool has_crc32(void)
{
    return has_bit(1, false, 20);
}

static bool has_sha(void)
{
    return has_bit(7, true, 29);
}

static bool has_galois(void)
{
    return has_bit(7, false, 8);
}

static bool has_bmi2(void)
{
    return has_bit(7, true, 8);
}

#elif defined(__aarch64__)

#define HAS_AES (1u << 3) /* of AT_HWCAP: Linux, arch/arm64/include/uapi/asm/hwcap.h */
#define HAS_SHA2 (1u << 6)
#define HAS_CRC32 (1u << 7)

VECTORS(vector_mul_16x8, "mul %0.8h, %0.8h, %1.8h", 1)
VECTORS(aes_8x16, ".arch_extension crypto\n aese %0.16b, %1.16b\n aesmc %0.16b, %0.16b", 1)
VECTORS(sha_round_64x2, ".arch_extension crypto\n sha256h %q0, %q1, %1.4s", 1)
VECTORS(sha_schedule_32x4, ".arch_extension crypto\n sha256su0 %0.4s, %1.4s\n sha256su1 %0.4s, %1.4s, %1.4s", 2)
NUMBERS(crc32_32x1, ".arch_extension crc\n crc32cx %w0, %w0, %1")

static bool has_aes(void)
{
    return getauxval(AT_HWCAP) & HAS_AES;
}

static bool has_sha(void)
{
    return getauxval(AT_HWCAP) & HAS_SHA2;
}

static bool has_crc32(void)
{
    return getauxval(AT_HWCAP) & HAS_CRC32;
}

#endif

const struct ft_kernel ft_special_kernels[] = {
#if defined(__x86_64__)
    ENTRY(vector_mul_16x8, NULL),
    ENTRY(aes_64x2, has_aes),
    ENTRY(sha_round_64x2, has_sha),
    ENTRY(sha_schedule_64x2, has_sha),
    ENTRY(carryless_mul_64x2, has_carryless),
    ENTRY(galois_8x16, has_galois),
    ENTRY(crc32_64x1, has_crc32),
    ENTRY(bit_deposit_64x1, has_bmi2),
#elif defined(__aarch64__)
    ENTRY(vector_mul_16x8, NULL),
    ENTRY(aes_8x16, has_aes),
    ENTRY(sha_round_64x2, has_sha),
    ENTRY(sha_schedule_32x4, has_sha),
    ENTRY(crc32_32x1, has_crc32),
#endif
    {0},
};
