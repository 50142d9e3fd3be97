/* Kernels of the core but for vectors and floating point: integers, branches, issue, a store read back. */
#include "kernels.h"

#include "kernel_parts.h"

/* A dependent addition of registers takes one cycle on every core this runs on: the unit of all that is in cycles.
 * (Not of an immediate: some cores fold those.) */
static uint64_t int_add_64x1_chain(struct ft_work *work)
{
    uint64_t x = 1, y = 3;
    KEEP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(TIMES16(x += y; KEEP(x);))
    }
    return 64 * work->repeats;
}

#define EIGHT_OF(STEP) STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h)
#define ADD(v) v += y; KEEP(v);
#define MUL(v) v *= y; KEEP(v);

static uint64_t int_add_64x1_free(struct ft_work *work)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, y = 5;
    KEEP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(TIMES16(EIGHT_OF(ADD)))
    }
    return 512 * work->repeats;
}

static uint64_t int_mul_64x1_chain(struct ft_work *work)
{
    uint64_t x = 3, y = 5;
    KEEP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(MUL(x))
    }
    return 16 * work->repeats;
}

static uint64_t int_mul_64x1_free(struct ft_work *work)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, y = 5;
    KEEP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(EIGHT_OF(MUL))
    }
    return 32 * work->repeats;
}

/* The quotient of a chain, which divides again, alternates between two values; some dividers take longer for longer
 * quotients, so both are of medium length. */
#define DIVISIONS(bits, T, N, D)                                                                                       \
    static uint64_t int_div_##bits##x1_chain(struct ft_work *work)                                                     \
    {                                                                                                                  \
        T n = N, x = D;                                                                                                \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES4(KEEP(n); x = n / x; KEEP(x); KEEP(n); x = n / x; KEEP(x);)                                          \
        }                                                                                                              \
        return 8 * work->repeats;                                                                                      \
    }                                                                                                                  \
    static uint64_t int_div_##bits##x1_free(struct ft_work *work)                                                      \
    {                                                                                                                  \
        T n = N, d = D, q;                                                                                             \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES4(KEEP(n); KEEP(d); q = n / d; KEEP(q); KEEP(n); KEEP(d); q = n / d; KEEP(q);)                        \
        }                                                                                                              \
        return 8 * work->repeats;                                                                                      \
    }

/* Kinds of integer instructions that not every unit does. Compilers choose among several for the same in C. */
#if defined(__x86_64__)
#define SHIFT(v) __asm__ volatile("rol $5, %0" : "+r"(v) : : "cc");
#define SELECT(v) __asm__ volatile("cmovne %1, %0" : "+r"(v) : "r"(y));
#define SELECT_LESS(v) __asm__ volatile("cmovl %1, %0" : "+r"(v) : "r"(y));
#define COMPARE(v) __asm__ volatile("cmpq %1, %0" : : "r"(v), "r"(y) : "cc");
#define SHIFT_ADD(v) __asm__ volatile("leaq 8(%0,%1,4), %0" : "+r"(v) : "r"(y));
#define BIT_COUNT(v) __asm__ volatile("rep bsfq %0, %0" : "+r"(v) : : "cc"); /* tzcnt where there is one */
#elif defined(__aarch64__)
#define SHIFT(v) __asm__ volatile("ror %0, %0, #5" : "+r"(v));
#define SELECT(v) __asm__ volatile("csel %0, %0, %1, ne" : "+r"(v) : "r"(y));
#define SELECT_LESS(v) __asm__ volatile("csel %0, %0, %1, lt" : "+r"(v) : "r"(y));
#define COMPARE(v) __asm__ volatile("cmp %0, %1" : : "r"(v), "r"(y) : "cc");
#define SHIFT_ADD(v) __asm__ volatile("add %0, %1, %0, lsl #5" : "+r"(v) : "r"(y));
#define BIT_COUNT(v) __asm__ volatile("clz %0, %0" : "+r"(v));
#elif defined(__riscv) && __riscv_xlen == 64
#define SHIFT(v) __asm__ volatile("slli %0, %0, 5" : "+r"(v));
#endif

#define COMPARE_SELECT(v) COMPARE(v) SELECT(v)
#define COMPARE_SELECT_LESS(v) COMPARE(v) SELECT_LESS(v)

#define DEPENDENT_INTEGERS(name, STEP, OTHER)                                                                          \
    static uint64_t name##_64x1_chain(struct ft_work *work)                                                            \
    {                                                                                                                  \
        uint64_t x = 3, y = 5;                                                                                         \
        KEEP(y);                                                                                                       \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES2(TIMES16(STEP(x) OTHER(x)))                                                                          \
        }                                                                                                              \
        return 64 * work->repeats;                                                                                     \
    }
#define FREE_INTEGERS(name, STEP, OTHER)                                                                               \
    static uint64_t name##_64x1_free(struct ft_work *work)                                                             \
    {                                                                                                                  \
        uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, y = 5;                                        \
        KEEP(y);                                                                                                       \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES16(STEP(a) OTHER(b) STEP(c) OTHER(d) STEP(e) OTHER(f) STEP(g) OTHER(h))                               \
        }                                                                                                              \
        return 128 * work->repeats;                                                                                    \
    }
#define INTEGERS(name, STEP) DEPENDENT_INTEGERS(name, STEP, STEP) FREE_INTEGERS(name, STEP, STEP)

#ifdef SHIFT
INTEGERS(int_shift, SHIFT)
#endif
#ifdef SELECT
/* By two conditions in turns, one of which reads two flags: Zen 5 takes two turns for such a one, and a cycle longer.
 * In the chain each comes behind a comparison. */
FREE_INTEGERS(int_select, SELECT, SELECT_LESS)
DEPENDENT_INTEGERS(int_select, COMPARE_SELECT, COMPARE_SELECT_LESS)
INTEGERS(int_shift_add, SHIFT_ADD)
INTEGERS(int_bit_count, BIT_COUNT)
#endif

DIVISIONS(32, uint32_t, 0x12345678u, 12347u)
DIVISIONS(64, uint64_t, UINT64_C(0x123456789ab), UINT64_C(1234577))

/* Four independent additions, two loads and two additions of floating-point numbers, eight of which take turns: what
 * the core can issue, whatever its units. Zen 5 issues 7.5 of them a cycle; 6.4 where half are empty, or add two
 * registers. */
static uint64_t issue(struct ft_work *work)
{
    const volatile uint64_t p[2] = {1, 2};
    uint64_t a = 1, b = 2, c = 3, d = 4;
    double z = 1e-3, s = 1.7, t = s, u = s, v = s, w = s, x = s, f = s, g = s;
    KEEP_FP(z);
    for (uint64_t r = 0; r < work->repeats; r++) {
#define ISSUE_EIGHT(one, other)                                                                                        \
    a += 3; KEEP(a); (void)p[0]; one += z; KEEP_FP(one); b += 3; KEEP(b);                                               \
    c += 3; KEEP(c); (void)p[1]; other += z; KEEP_FP(other); d += 3; KEEP(d);
        TIMES16(ISSUE_EIGHT(s, t) ISSUE_EIGHT(u, v) ISSUE_EIGHT(w, x) ISSUE_EIGHT(f, g))
    }
    return 512 * work->repeats;
}

/* Kernels that load floating-point numbers store them first: what other kernels leave in the same memory are integers,
 * subnormal numbers when read as doubles, and Intel's cores compute with those in microcode, up to 100 times as slowly.
 */

/* Chains of 16 additions and 16 multiplications in turns, each begun anew from memory: as many are under way at once as
 * can wait for their operands and start. Counts chains. */
static uint64_t fp_long_chains(struct ft_work *work)
{
    volatile double *p = work->data;
    double x, y = 3, z = 1;
    p[0] = 1;
    KEEP_FP(y);
    KEEP_FP(z);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(x = p[0]; TIMES16(x += y; KEEP_FP(x); x *= z; KEEP_FP(x);))
    }
    return 4 * work->repeats;
}

/* Loads of the same line, without the work of a loop through memory between them. */
static uint64_t loads(struct ft_work *work)
{
    const volatile uint64_t *p = work->data;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16((void)p[0]; (void)p[1]; (void)p[2]; (void)p[3]; (void)p[4]; (void)p[5]; (void)p[6]; (void)p[7];)
    }
    return 128 * work->repeats;
}

/* A value goes to memory and back, again and again. Through two pointers, so that a core that skips memory where a load
 * has the very operand of a store before does not: it must predict or find that the addresses are the same. */
#define STORE_FORWARD(name, T)                                                                                         \
    static uint64_t name(struct ft_work *work)                                                                         \
    {                                                                                                                  \
        volatile T *p = work->data, *q = work->data;                                                                   \
        T x = 1;                                                                                                       \
        KEEP(q);                                                                                                       \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES4(p[0] = x; x = q[0]; p[1] = x; x = q[1]; p[2] = x; x = q[2]; p[3] = x; x = q[3];)                    \
        }                                                                                                              \
        p[0] = x;                                                                                                      \
        return 16 * work->repeats;                                                                                     \
    }

STORE_FORWARD(store_forward, uint64_t)

#ifdef FT_TO_FP
/* A value goes to a floating-point register and back: two crossings. */
static uint64_t register_crossing(struct ft_work *work)
{
    uint64_t x = 1;
    double fp;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(FT_TO_FP(fp, x); FT_FROM_FP(x, fp);)
    }
    return 32 * work->repeats;
}

/* Integers to floating point and back: two conversions. */
static uint64_t fp_convert_64x1_chain(struct ft_work *work)
{
    int64_t x = 1;
    double fp;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(fp = (double)x; KEEP_FP(fp); x = (int64_t)fp; KEEP(x);)
    }
    return 32 * work->repeats;
}

static uint64_t fp_convert_64x1_free(struct ft_work *work)
{
    double fp = 1;
    int64_t a, b, c, d;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(KEEP_FP(fp); a = (int64_t)fp; KEEP(a); KEEP_FP(fp); b = (int64_t)fp; KEEP(b); KEEP_FP(fp);
                c = (int64_t)fp; KEEP(c); KEEP_FP(fp); d = (int64_t)fp; KEEP(d);)
    }
    return 64 * work->repeats;
}

/* What a comparison makes goes to flags, and by an operation of one cycle and a crossing to where it is compared again.
 */
static uint64_t fp_compare_64x1_chain(struct ft_work *work)
{
    double fp = 1, other = 2;
    uint64_t x = UINT64_C(0x3ff0000000000000);
    KEEP_FP(other);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(FT_COMPARE_INTO(x, fp, other); FT_TO_FP(fp, x);)
    }
    return 16 * work->repeats;
}

static uint64_t fp_compare_64x1_free(struct ft_work *work)
{
    double x = 1, y = 2;
    KEEP_FP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(FT_COMPARE(x, y); FT_COMPARE(y, x); FT_COMPARE(x, x); FT_COMPARE(y, y);)
    }
    return 64 * work->repeats;
}

/* Some cores dispatch nothing for a while beside it: so not only one after the other, but also among 64 additions. */
static uint64_t fp_control_64x1_chain(struct ft_work *work)
{
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(FT_CONTROL();)
    }
    return 16 * work->repeats;
}

static uint64_t fp_control_64x1_free(struct ft_work *work)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, y = 5;
    KEEP(y);
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(FT_CONTROL(); TIMES4(EIGHT_OF(ADD) EIGHT_OF(ADD)))
    }
    return 4 * work->repeats;
}
#endif

/* A predictor misses half of the branches on the sign of a random number: they never come again. Those on a counter's
 * lowest bit it knows. Both make the number, so that the difference is what the misses cost. */
#define BRANCHES(name, CONDITION)                                                                                      \
    static uint64_t name(struct ft_work *work)                                                                         \
    {                                                                                                                  \
        uint64_t s = work->state;                                                                                      \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            s = ft_next_bits(s);                                                                                       \
            KEEP(s);                                                                                                   \
            if (CONDITION)                                                                                             \
                __asm__ volatile("nop");                                                                               \
        }                                                                                                              \
        work->state = s;                                                                                               \
        return work->repeats;                                                                                          \
    }

BRANCHES(branches_random, (int64_t)s < 0)
BRANCHES(branches_regular, r & 1)

#if defined(__x86_64__)
#define JUMP "jmp 1f\n .p2align 5\n 1:"
#define STAY "testq %0, %0\n js 1f\n 1:"
#elif defined(__aarch64__)
#define JUMP "b 1f\n .p2align 5\n 1:"
#define STAY "tbnz %0, #63, 1f\n 1:"
#elif defined(__riscv)
#define JUMP "j 1f\n .p2align 5\n 1:"
#define STAY "bltz %0, 1f\n 1:"
#endif
#ifdef JUMP
static uint64_t untaken_branches(struct ft_work *work)
{
    const int64_t x = 1;
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES4(TIMES16(__asm__ volatile(STAY : : "r"(x) : "cc");))
    }
    return 64 * work->repeats;
}

static uint64_t taken_branches(struct ft_work *work)
{
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES16(__asm__ volatile(JUMP);)
    }
    return 17 * work->repeats; /* and the loop's own */
}
#endif

const struct ft_kernel ft_core_kernels[] = {
    {"int_add_64x1_chain", int_add_64x1_chain, 0, false, false, 0, NULL},
    {"int_add_64x1_free", int_add_64x1_free, 0, false, false, 0, NULL},
    {"int_mul_64x1_chain", int_mul_64x1_chain, 0, false, false, 0, NULL},
    {"int_mul_64x1_free", int_mul_64x1_free, 0, false, false, 0, NULL},
#ifdef SHIFT
    {"int_shift_64x1_chain", int_shift_64x1_chain, 0, false, false, 0, NULL},
    {"int_shift_64x1_free", int_shift_64x1_free, 0, false, false, 0, NULL},
#endif
#ifdef SELECT
    {"int_select_64x1_chain", int_select_64x1_chain, 0, false, false, 0, NULL},
    {"int_select_64x1_free", int_select_64x1_free, 0, false, false, 0, NULL},
    {"int_shift_add_64x1_chain", int_shift_add_64x1_chain, 0, false, false, 0, NULL},
    {"int_shift_add_64x1_free", int_shift_add_64x1_free, 0, false, false, 0, NULL},
    {"int_bit_count_64x1_chain", int_bit_count_64x1_chain, 0, false, false, 0, NULL},
    {"int_bit_count_64x1_free", int_bit_count_64x1_free, 0, false, false, 0, NULL},
#endif
    {"int_div_32x1_chain", int_div_32x1_chain, 0, false, false, 0, NULL},
    {"int_div_32x1_free", int_div_32x1_free, 0, false, false, 0, NULL},
    {"int_div_64x1_chain", int_div_64x1_chain, 0, false, false, 0, NULL},
    {"int_div_64x1_free", int_div_64x1_free, 0, false, false, 0, NULL},
    {"issue", issue, 0, false, false, 0, NULL},
    {"fp_long_chains", fp_long_chains, FT_LINE_BYTES, false, false, 0, NULL},
    {"loads", loads, FT_LINE_BYTES, false, false, 0, NULL},
    {"store_forward", store_forward, FT_LINE_BYTES, false, false, 0, NULL},
#ifdef FT_TO_FP
    {"register_crossing", register_crossing, 0, false, false, 0, NULL},
    {"fp_convert_64x1_chain", fp_convert_64x1_chain, 0, false, false, 0, NULL},
    {"fp_convert_64x1_free", fp_convert_64x1_free, 0, false, false, 0, NULL},
    {"fp_compare_64x1_chain", fp_compare_64x1_chain, 0, false, false, 0, NULL},
    {"fp_compare_64x1_free", fp_compare_64x1_free, 0, false, false, 0, NULL},
    {"fp_control_64x1_chain", fp_control_64x1_chain, 0, false, false, 0, NULL},
    {"fp_control_64x1_free", fp_control_64x1_free, 0, false, false, 0, NULL},
#endif
    {"branches_random", branches_random, 0, false, false, 0, NULL},
    {"branches_regular", branches_regular, 0, false, false, 0, NULL},
#ifdef JUMP
    {"taken_branches", taken_branches, 0, false, false, 0, NULL},
    {"untaken_branches", untaken_branches, 0, false, false, 0, NULL},
#endif
    {0},
};
