/* The kernels: a table of name, function and what the function needs (kernels.h has the contract). */
#define _POSIX_C_SOURCE 200112L

#include "kernels.h"

#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define FT_FP "x"
#elif defined(__aarch64__)
#define FT_FP "w"
#elif defined(__riscv)
#define FT_FP "f"
#elif defined(__powerpc__)
#define FT_FP "d"
#else
#define FT_FP "m"
#endif

/* The compiler must take the variable for changed (KEEP) or used (USE). */
#define KEEP(x) __asm__ volatile("" : "+r"(x))
#define KEEP_FP(x) __asm__ volatile("" : "+" FT_FP(x))
#define USE_FP(x) __asm__ volatile("" : : FT_FP(x))
#define CLOBBER() __asm__ volatile("" : : : "memory")

#define TIMES4(s) s s s s
#define TIMES16(s) TIMES4(TIMES4(s))

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static uint64_t load8(struct ft_work *work)
{
    const size_t n = work->bytes / 8;
    for (uint64_t r = 0; r < work->repeats; r++) {
        const volatile uint64_t *p = work->data, *end = p + n;
        for (; p != end; p += 8) {
            (void)p[0], (void)p[1], (void)p[2], (void)p[3];
            (void)p[4], (void)p[5], (void)p[6], (void)p[7];
        }
    }
    return n * work->repeats;
}

static uint64_t store8(struct ft_work *work)
{
    const size_t n = work->bytes / 8;
    for (uint64_t r = 0; r < work->repeats; r++) {
        volatile uint64_t *p = work->data, *end = p + n;
        for (; p != end; p += 8) {
            p[0] = r, p[1] = r, p[2] = r, p[3] = r;
            p[4] = r, p[5] = r, p[6] = r, p[7] = r;
        }
    }
    return n * work->repeats;
}

typedef double ft_v2 __attribute__((vector_size(16)));

static uint64_t load16(struct ft_work *work)
{
    const size_t n = work->bytes / 16;
    for (uint64_t r = 0; r < work->repeats; r++) {
        const ft_v2 *p = work->data, *end = p + n;
        for (; p != end; p += 4) {
            ft_v2 a = p[0], b = p[1], c = p[2], d = p[3];
            USE_FP(a);
            USE_FP(b);
            USE_FP(c);
            USE_FP(d);
        }
        CLOBBER();
    }
    return n * work->repeats;
}

/* Four independent generators (Knuth's MMIX constants), so that no access waits for another. */
static uint64_t random8(struct ft_work *work)
{
    const volatile uint64_t *data = work->data;
    const uint64_t mask = work->bytes / 8 - 1;
    const uint64_t a = UINT64_C(6364136223846793005), c = UINT64_C(1442695040888963407);
    uint64_t s0 = work->state, s1 = s0 * a + 1, s2 = s1 * a + 3, s3 = s2 * a + 5;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(s0 = s0 * a + c; (void)data[(s0 >> 33) & mask]; s1 = s1 * a + c; (void)data[(s1 >> 33) & mask];
               s2 = s2 * a + c; (void)data[(s2 >> 33) & mask]; s3 = s3 * a + c; (void)data[(s3 >> 33) & mask];)
    }
    work->state = s0;
    return 16 * work->repeats;
}

static uint64_t chase(struct ft_work *work)
{
    char *p = (char *)work->data + work->state;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(p = *(char *volatile *)p;)
    }
    work->state = (uint64_t)(p - (char *)work->data);
    return 16 * work->repeats;
}

/* SGBench's loops (Carrington et al., ICS'11, Figures 2 and 3). */
static uint64_t gather(struct ft_work *work)
{
    const double *data = work->data;
    for (uint64_t r = 0; r < work->repeats; r++) {
        for (size_t i = 0; i < work->elements; i++)
            work->dense[i] = data[work->index[i]];
        CLOBBER();
    }
    return work->elements * work->repeats;
}

static uint64_t scatter(struct ft_work *work)
{
    double *data = work->data;
    for (uint64_t r = 0; r < work->repeats; r++) {
        for (size_t i = 0; i < work->elements; i++)
            data[work->index[i]] = work->dense[i];
        CLOBBER();
    }
    return work->elements * work->repeats;
}

bool ft_link_chain(void *data, size_t lines, const uint32_t *order, uint8_t *scratch)
{
    char *base = data;
    for (size_t i = 0; i < lines; i++) {
        if (order[i] >= lines || scratch[order[i]]++)
            return false;
        const size_t next = order[(i + 1) % lines];
        *(char **)(base + (size_t)order[i] * FT_LINE_BYTES) = base + next * FT_LINE_BYTES;
    }
    return true;
}

/* ---- the core -------------------------------------------------------------------------------------------------- */

/* A dependent addition of registers takes one cycle on every core this runs on: the unit of all that is in cycles.
 * (Not of an immediate: some cores fold those.) */
static uint64_t int_add_chain(struct ft_work *work)
{
    uint64_t x = 1, y = 3;
    KEEP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(TIMES16(x += y; KEEP(x);))
    }
    return 64 * work->repeats;
}

/* Four independent additions and four empty instructions: what the core can issue, whatever its ALUs. */
static uint64_t issue(struct ft_work *work)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, y = 5;
    KEEP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(a += y; KEEP(a); __asm__ volatile("nop"); b += y; KEEP(b); __asm__ volatile("nop"); c += y; KEEP(c);
                __asm__ volatile("nop"); d += y; KEEP(d); __asm__ volatile("nop");)
    }
    return 128 * work->repeats;
}

static uint64_t int_div(struct ft_work *work)
{
    uint64_t n = UINT64_C(0x123456789ab), d = 12347, q;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(KEEP(n); KEEP(d); q = n / d; KEEP(q); KEEP(n); KEEP(d); q = n / d; KEEP(q);)
    }
    return 8 * work->repeats;
}

static uint64_t fp_add_chain(struct ft_work *work)
{
    double x = 1.0, y = 1e-3;
    KEEP_FP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(x += y; KEEP_FP(x);)
    }
    return 16 * work->repeats;
}

static uint64_t fp_mul_chain(struct ft_work *work)
{
    double x = 1.25, y = 1.0;
    KEEP_FP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(x *= y; KEEP_FP(x);)
    }
    return 16 * work->repeats;
}

/* x alternates between two values with full mantissas: no short cut for easy operands. */
static uint64_t fp_div_chain(struct ft_work *work)
{
    double x = 1.7, y = 1.3;
    KEEP_FP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(x = y / x; KEEP_FP(x);)
    }
    return 16 * work->repeats;
}

static uint64_t fp_div(struct ft_work *work)
{
    double n = 1.3, d = 1.7, q;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(KEEP_FP(n); KEEP_FP(d); q = n / d; KEEP_FP(q);)
    }
    return 16 * work->repeats;
}

/* Independent scalar additions and multiplications, half of each. */
static uint64_t fp_scalar(struct ft_work *work)
{
    double a = 1, b = 1, c = 1, d = 1, e = 1, f = 1, s = 1, t = 1, u = 1, v = 1, w = 1, x = 1, y = 1.0;
    KEEP_FP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(a += y; KEEP_FP(a); s *= y; KEEP_FP(s); b += y; KEEP_FP(b); t *= y; KEEP_FP(t); c += y; KEEP_FP(c); u *= y;
               KEEP_FP(u); d += y; KEEP_FP(d); v *= y; KEEP_FP(v); e += y; KEEP_FP(e); w *= y; KEEP_FP(w); f += y;
               KEEP_FP(f); x *= y; KEEP_FP(x);)
    }
    return 48 * work->repeats;
}

/* The same with the vectors that every machine of this architecture has. */
static uint64_t fp_vector(struct ft_work *work)
{
    ft_v2 y = {1, 1}, a = y, b = y, c = y, d = y, e = y, f = y, s = y, t = y, u = y, v = y, w = y, x = y;
    KEEP_FP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(a += y; KEEP_FP(a); s *= y; KEEP_FP(s); b += y; KEEP_FP(b); t *= y; KEEP_FP(t); c += y; KEEP_FP(c); u *= y;
               KEEP_FP(u); d += y; KEEP_FP(d); v *= y; KEEP_FP(v); e += y; KEEP_FP(e); w *= y; KEEP_FP(w); f += y;
               KEEP_FP(f); x *= y; KEEP_FP(x);)
    }
    return 96 * work->repeats;
}

/* A branch per byte of data, taken or not as the byte says. Of random bytes a predictor misses half. */
static uint64_t branches(struct ft_work *work)
{
    const uint8_t *data = work->data;
    for (uint64_t r = 0; r < work->repeats; r++) {
        for (size_t i = 0; i < work->bytes; i++) {
            if (data[i])
                __asm__ volatile("nop");
        }
    }
    return work->bytes * work->repeats;
}

/* ---- what only some machines of an architecture have ------------------------------------------------------------ */

#if defined(__x86_64__)

static bool has_avx2_fma(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

__attribute__((target("avx2"))) static uint64_t load32(struct ft_work *work)
{
    const size_t n = work->bytes / 32;
    for (uint64_t r = 0; r < work->repeats; r++) {
        const __m256d *p = work->data, *end = p + n;
        for (; p != end; p += 4) {
            __m256d a = p[0], b = p[1], c = p[2], d = p[3];
            USE_FP(a);
            USE_FP(b);
            USE_FP(c);
            USE_FP(d);
        }
        CLOBBER();
    }
    return n * work->repeats;
}

__attribute__((target("avx2,fma"))) static uint64_t fp_fma_chain(struct ft_work *work)
{
    __m128d x = _mm_set_sd(1.25), y = _mm_set_sd(1.0), z = _mm_set_sd(1e-3);
    KEEP_FP(y);
    KEEP_FP(z);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(x = _mm_fmadd_sd(x, y, z); KEEP_FP(x);)
    }
    return 16 * work->repeats;
}

#define FMA(v) v = _mm256_fmadd_pd(v, y, y); KEEP_FP(v);

__attribute__((target("avx2,fma"))) static uint64_t fp_vector_fma(struct ft_work *work)
{
    __m256d y = _mm256_set1_pd(1.0), a = y, b = y, c = y, d = y, e = y, f = y, s = y, t = y, u = y, v = y, w = y, x = y;
    KEEP_FP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(FMA(a) FMA(b) FMA(c) FMA(d) FMA(e) FMA(f) FMA(s) FMA(t) FMA(u) FMA(v) FMA(w) FMA(x))
    }
    return 4 * 12 * 8 * work->repeats;
}

#elif defined(__aarch64__)

#include <arm_neon.h>

static uint64_t fp_fma_chain(struct ft_work *work)
{
    double x = 1.25, y = 1.0, z = 1e-3;
    KEEP_FP(y);
    KEEP_FP(z);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(x = __builtin_fma(x, y, z); KEEP_FP(x);)
    }
    return 16 * work->repeats;
}

#define FMA(v) v = vfmaq_f64(v, y, y); KEEP_FP(v);

static uint64_t fp_vector_fma(struct ft_work *work)
{
    float64x2_t y = vdupq_n_f64(1.0), a = y, b = y, c = y, d = y, e = y, f = y, s = y, t = y, u = y, v = y, w = y, x = y;
    KEEP_FP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(FMA(a) FMA(b) FMA(c) FMA(d) FMA(e) FMA(f) FMA(s) FMA(t) FMA(u) FMA(v) FMA(w) FMA(x))
    }
    return 4 * 12 * 4 * work->repeats;
}

#endif

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct ft_kernel ft_kernels[] = {
    {"load8", load8, FT_LINE_BYTES, false, false, NULL},
    {"load16", load16, FT_LINE_BYTES, false, false, NULL},
    {"store8", store8, FT_LINE_BYTES, false, false, NULL},
    {"random8", random8, FT_LINE_BYTES, true, false, NULL},
    {"chase", chase, FT_LINE_BYTES, false, false, NULL},
    {"gather", gather, 8, false, true, NULL},
    {"scatter", scatter, 8, false, true, NULL},
    {"branches", branches, 1, false, false, NULL},
    {"int_add_chain", int_add_chain, 0, false, false, NULL},
    {"issue", issue, 0, false, false, NULL},
    {"int_div", int_div, 0, false, false, NULL},
    {"fp_add_chain", fp_add_chain, 0, false, false, NULL},
    {"fp_mul_chain", fp_mul_chain, 0, false, false, NULL},
    {"fp_div_chain", fp_div_chain, 0, false, false, NULL},
    {"fp_div", fp_div, 0, false, false, NULL},
    {"fp_scalar", fp_scalar, 0, false, false, NULL},
    {"fp_vector", fp_vector, 0, false, false, NULL},
#if defined(__x86_64__)
    {"load32", load32, 2 * FT_LINE_BYTES, false, false, has_avx2_fma},
    {"fp_fma_chain", fp_fma_chain, 0, false, false, has_avx2_fma},
    {"fp_vector_fma", fp_vector_fma, 0, false, false, has_avx2_fma},
#elif defined(__aarch64__)
    {"fp_fma_chain", fp_fma_chain, 0, false, false, NULL},
    {"fp_vector_fma", fp_vector_fma, 0, false, false, NULL},
#endif
};

const size_t ft_kernel_count = sizeof ft_kernels / sizeof ft_kernels[0];

bool ft_kernel_fits(const struct ft_kernel *kernel, const struct ft_work *work)
{
    if (kernel->available && !kernel->available())
        return false;
    if (kernel->granule) {
        if (!work->data || (uintptr_t)work->data % FT_LINE_BYTES || !work->bytes || work->bytes % kernel->granule)
            return false;
        if (kernel->power_of_two && (work->bytes & (work->bytes - 1)))
            return false;
    }
    if (kernel->run == chase && (work->state >= work->bytes || work->state % FT_LINE_BYTES))
        return false;
    return !kernel->indexed || (work->index && work->dense && work->elements);
}

double ft_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
