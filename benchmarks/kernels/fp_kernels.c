/* Arithmetic on floating-point numbers and vectors: dependent (`..._chain`) and independent (`..._free`) instructions
 * of each operation, element size and number of elements, as in `fp_add_64x4_chain`.
 *
 * Operands have full mantissas and stay in range however long a kernel runs: no short cut for easy ones, no denormals.
 * A chain of square roots would end at 1; it multiplies each by a constant, and whoever reads the time subtracts that.
 */
#include "kernels.h"

#include "kernel_parts.h"

#define VALUE(T, S, v) ((T){0} + (S)(v))
#define TWELVE_OF(STEP) STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h) STEP(i) STEP(j) STEP(k) STEP(l)

/* T: the vector's type; S: its element's; Y: the value of y in STEP(v), which works on v. */
#define CHAIN(name, target, T, S, Y, STEP)                                                                             \
    target static uint64_t name##_chain(struct ft_work *work)                                                          \
    {                                                                                                                  \
        T x = VALUE(T, S, 1.7), y = VALUE(T, S, Y);                                                                    \
        KEEP_FP(y);                                                                                                    \
        KEEP_FP(x);                                                                                                    \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES16(STEP(x))                                                                                           \
        }                                                                                                              \
        return 16 * work->repeats;                                                                                     \
    }
#define FREE(name, target, T, S, Y, STEP)                                                                              \
    target static uint64_t name##_free(struct ft_work *work)                                                           \
    {                                                                                                                  \
        T y = VALUE(T, S, Y), a = VALUE(T, S, 1.7), b = a, c = a, d = a, e = a, f = a;                                 \
        T g = a, h = a, i = a, j = a, k = a, l = a;                                                                    \
        KEEP_FP(y);                                                                                                    \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TWELVE_OF(STEP)                                                                                            \
            TWELVE_OF(STEP)                                                                                            \
        }                                                                                                              \
        return 24 * work->repeats;                                                                                     \
    }
#define BOTH(name, target, T, S, Y, STEP) CHAIN(name, target, T, S, Y, STEP) FREE(name, target, T, S, Y, STEP)

#define ADD(v) v += y; KEEP_FP(v);
#define MUL(v) v *= y; KEEP_FP(v);
#define DIV(v) v = y / v; KEEP_FP(v);
#define ADD_MUL(v) ADD(v) MUL(v)

/* name: operation's suffix, as in 64x2 */
#define ARITHMETIC(suffix, target, T, S)                                                                               \
    BOTH(fp_add_##suffix, target, T, S, 1e-3, ADD)                                                                     \
    BOTH(fp_mul_##suffix, target, T, S, 1, MUL)                                                                        \
    BOTH(fp_div_##suffix, target, T, S, 1.3, DIV)
#define SQUARE_ROOTS(suffix, target, T, S, SQRT, SQRT_MUL)                                                             \
    CHAIN(fp_sqrt_##suffix, target, T, S, 1.3038404810405297, SQRT_MUL) /* the root of 1.7: the chain stays at 1.7 */  \
    FREE(fp_sqrt_##suffix, target, T, S, 1.7, SQRT)

/* Additions and multiplications, half of each: cores with a unit for either keep both busy. Each of 14 chains has both
 * in turns: of chains of multiplications alone, seven of latency 3 would leave no room for any delay. Counts flops. */
#define ADD_AND_MUL(name, T, S, elements)                                                                              \
    static uint64_t name(struct ft_work *work)                                                                         \
    {                                                                                                                  \
        T y = VALUE(T, S, 1), a = y, b = y, c = y, d = y, e = y, f = y, g = y, h = y, i = y, j = y, k = y, l = y;      \
        T m = y, n = y;                                                                                                \
        KEEP_FP(y);                                                                                                    \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            TIMES2(ADD(a) MUL(b) ADD(c) MUL(d) ADD(e) MUL(f) ADD(g) MUL(h) ADD(i) MUL(j) ADD(k) MUL(l) ADD(m) MUL(n)   \
                   MUL(a) ADD(b) MUL(c) ADD(d) MUL(e) ADD(f) MUL(g) ADD(h) MUL(i) ADD(j) MUL(k) ADD(l) MUL(m) ADD(n))  \
        }                                                                                                              \
        return 56 * elements * work->repeats;                                                                          \
    }

#if defined(__x86_64__)
#define SHUFFLE(v) __asm__ volatile("unpcklpd %0, %0" : "+x"(v));
#elif defined(__aarch64__)
#define SHUFFLE(v) __asm__ volatile("zip1 %0.2d, %0.2d, %0.2d" : "+w"(v));
#endif

ADD_AND_MUL(flops_scalar, double, double, 1)
ARITHMETIC(32x1, , float, float)
ARITHMETIC(64x1, , double, double)
CHAIN(fp_add_mul, , double, double, 1, ADD_MUL)

#ifdef FT_VECTORS
typedef float ft_s4 __attribute__((vector_size(16)));
typedef uint32_t ft_i4 __attribute__((vector_size(16)));
ADD_AND_MUL(flops_vector, ft_v2, double, 2)
ARITHMETIC(32x4, , ft_s4, float)
ARITHMETIC(64x2, , ft_v2, double)
BOTH(int_add_32x4, , ft_i4, uint32_t, 3, ADD)
BOTH(fp_shuffle_64x2, , ft_v2, double, 1, SHUFFLE)
#endif

#if defined(__x86_64__)

typedef double ft_v4 __attribute__((vector_size(32)));
typedef double ft_v8 __attribute__((vector_size(64)));
typedef float ft_s8 __attribute__((vector_size(32)));
typedef float ft_s16 __attribute__((vector_size(64)));
typedef uint32_t ft_i8 __attribute__((vector_size(32)));
typedef uint32_t ft_i16 __attribute__((vector_size(64)));

#define SSE41 __attribute__((target("sse4.1")))
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))

static bool has_sse41(void)
{
    return __builtin_cpu_supports("sse4.1");
}

static bool has_avx2_fma(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

ARITHMETIC(32x8, AVX2, ft_s8, float)
ARITHMETIC(64x4, AVX2, ft_v4, double)
ARITHMETIC(32x16, AVX512, ft_s16, float)
ARITHMETIC(64x8, AVX512, ft_v8, double)
BOTH(int_add_32x8, AVX2, ft_i8, uint32_t, 3, ADD)
BOTH(int_add_32x16, AVX512, ft_i16, uint32_t, 3, ADD)
BOTH(int_mul_32x4, SSE41, ft_i4, uint32_t, 3, MUL)
BOTH(int_mul_32x8, AVX2, ft_i8, uint32_t, 3, MUL)
BOTH(int_mul_32x16, AVX512, ft_i16, uint32_t, 3, MUL)

#define FMA(suffix, v) __asm__ volatile("vfmadd213" suffix " %1, %1, %0" : "+x"(v) : "x"(y));
#define FMA_SS(v) FMA("ss", v)
#define FMA_SD(v) FMA("sd", v)
#define FMA_PS(v) FMA("ps", v)
#define FMA_PD(v) FMA("pd", v)
/* The values have vectors' types: those of a double the compiler may keep in integer registers for a while. */
BOTH(fp_fma_32x1, AVX2, ft_s4, float, 1, FMA_SS)
BOTH(fp_fma_64x1, AVX2, ft_v2, double, 1, FMA_SD)
BOTH(fp_fma_32x4, AVX2, ft_s4, float, 1, FMA_PS)
BOTH(fp_fma_64x2, AVX2, ft_v2, double, 1, FMA_PD)
BOTH(fp_fma_32x8, AVX2, ft_s8, float, 1, FMA_PS)
BOTH(fp_fma_64x4, AVX2, ft_v4, double, 1, FMA_PD)
BOTH(fp_fma_32x16, AVX512, ft_s16, float, 1, FMA_PS)
BOTH(fp_fma_64x8, AVX512, ft_v8, double, 1, FMA_PD)

#define SQRT(instruction, v) __asm__ volatile(instruction " %1, %0" : "=x"(v) : "x"(y));
#define SQRT_MUL(instruction, v)                                                                                       \
    __asm__ volatile(instruction " %0, %0" : "+x"(v));                                                                 \
    v *= y;                                                                                                            \
    KEEP_FP(v);
/* A scalar instruction leaves the rest of its destination as it was, and so waits for it: of a copy, for y alone. */
#define SQRT_SS(v) __asm__ volatile("movaps %1, %0\n sqrtss %0, %0" : "=&x"(v) : "x"(y));
#define SQRT_SD(v) __asm__ volatile("movaps %1, %0\n sqrtsd %0, %0" : "=&x"(v) : "x"(y));
#define SQRT_PS(v) SQRT("sqrtps", v)
#define SQRT_PD(v) SQRT("sqrtpd", v)
#define VSQRT_PS(v) SQRT("vsqrtps", v)
#define VSQRT_PD(v) SQRT("vsqrtpd", v)
#define SQRT_MUL_SS(v) SQRT_MUL("sqrtss", v)
#define SQRT_MUL_SD(v) SQRT_MUL("sqrtsd", v)
#define SQRT_MUL_PS(v) SQRT_MUL("sqrtps", v)
#define SQRT_MUL_PD(v) SQRT_MUL("sqrtpd", v)
#define VSQRT_MUL_PS(v) SQRT_MUL("vsqrtps", v)
#define VSQRT_MUL_PD(v) SQRT_MUL("vsqrtpd", v)
SQUARE_ROOTS(32x1, , float, float, SQRT_SS, SQRT_MUL_SS)
SQUARE_ROOTS(64x1, , double, double, SQRT_SD, SQRT_MUL_SD)
SQUARE_ROOTS(32x4, , ft_s4, float, SQRT_PS, SQRT_MUL_PS)
SQUARE_ROOTS(64x2, , ft_v2, double, SQRT_PD, SQRT_MUL_PD)
SQUARE_ROOTS(32x8, AVX2, ft_s8, float, VSQRT_PS, VSQRT_MUL_PS)
SQUARE_ROOTS(64x4, AVX2, ft_v4, double, VSQRT_PD, VSQRT_MUL_PD)
SQUARE_ROOTS(32x16, AVX512, ft_s16, float, VSQRT_PS, VSQRT_MUL_PS)
SQUARE_ROOTS(64x8, AVX512, ft_v8, double, VSQRT_PD, VSQRT_MUL_PD)

#elif defined(__aarch64__)

BOTH(int_mul_32x4, , ft_i4, uint32_t, 3, MUL)

/* A vector instruction multiplies and adds to its destination: its chain goes through the addend, unlike the scalar's.
 */
#define FMA_S(v) __asm__ volatile("fmadd %s0, %s0, %s1, %s1" : "+w"(v) : "w"(y));
#define FMA_D(v) __asm__ volatile("fmadd %d0, %d0, %d1, %d1" : "+w"(v) : "w"(y));
#define FMA_4S(v) __asm__ volatile("fmla %0.4s, %1.4s, %1.4s" : "+w"(v) : "w"(y));
#define FMA_2D(v) __asm__ volatile("fmla %0.2d, %1.2d, %1.2d" : "+w"(v) : "w"(y));
BOTH(fp_fma_32x1, , float, float, 1, FMA_S)
BOTH(fp_fma_64x1, , double, double, 1, FMA_D)
BOTH(fp_fma_32x4, , ft_s4, float, 1, FMA_4S)
BOTH(fp_fma_64x2, , ft_v2, double, 1, FMA_2D)

#define SQRT_S(v) __asm__ volatile("fsqrt %s0, %s1" : "=w"(v) : "w"(y));
#define SQRT_D(v) __asm__ volatile("fsqrt %d0, %d1" : "=w"(v) : "w"(y));
#define SQRT_4S(v) __asm__ volatile("fsqrt %0.4s, %1.4s" : "=w"(v) : "w"(y));
#define SQRT_2D(v) __asm__ volatile("fsqrt %0.2d, %1.2d" : "=w"(v) : "w"(y));
#define SQRT_MUL_S(v) __asm__ volatile("fsqrt %s0, %s0" : "+w"(v)); MUL(v)
#define SQRT_MUL_D(v) __asm__ volatile("fsqrt %d0, %d0" : "+w"(v)); MUL(v)
#define SQRT_MUL_4S(v) __asm__ volatile("fsqrt %0.4s, %0.4s" : "+w"(v)); MUL(v)
#define SQRT_MUL_2D(v) __asm__ volatile("fsqrt %0.2d, %0.2d" : "+w"(v)); MUL(v)
SQUARE_ROOTS(32x1, , float, float, SQRT_S, SQRT_MUL_S)
SQUARE_ROOTS(64x1, , double, double, SQRT_D, SQRT_MUL_D)
SQUARE_ROOTS(32x4, , ft_s4, float, SQRT_4S, SQRT_MUL_4S)
SQUARE_ROOTS(64x2, , ft_v2, double, SQRT_2D, SQRT_MUL_2D)

#elif defined(__riscv) && defined(__riscv_flen) && __riscv_flen >= 64

#define FMA_S(v) __asm__ volatile("fmadd.s %0, %0, %1, %1" : "+f"(v) : "f"(y));
#define FMA_D(v) __asm__ volatile("fmadd.d %0, %0, %1, %1" : "+f"(v) : "f"(y));
BOTH(fp_fma_32x1, , float, float, 1, FMA_S)
BOTH(fp_fma_64x1, , double, double, 1, FMA_D)

#define SQRT_S(v) __asm__ volatile("fsqrt.s %0, %1" : "=f"(v) : "f"(y));
#define SQRT_D(v) __asm__ volatile("fsqrt.d %0, %1" : "=f"(v) : "f"(y));
#define SQRT_MUL_S(v) __asm__ volatile("fsqrt.s %0, %0" : "+f"(v)); MUL(v)
#define SQRT_MUL_D(v) __asm__ volatile("fsqrt.d %0, %0" : "+f"(v)); MUL(v)
SQUARE_ROOTS(32x1, , float, float, SQRT_S, SQRT_MUL_S)
SQUARE_ROOTS(64x1, , double, double, SQRT_D, SQRT_MUL_D)

#endif

#define ROWS(name, available) \
    {#name "_chain", name##_chain, 0, false, false, 0, available}, {#name "_free", name##_free, 0, false, false, 0, available},
#define ARITHMETIC_ROWS(suffix, available)                                                                             \
    ROWS(fp_add_##suffix, available) ROWS(fp_mul_##suffix, available) ROWS(fp_div_##suffix, available)
#define ALL_ROWS(suffix, available, fma_available)                                                                     \
    ARITHMETIC_ROWS(suffix, available) ROWS(fp_sqrt_##suffix, available) ROWS(fp_fma_##suffix, fma_available)

const struct ft_kernel ft_fp_kernels[] = {
    {"flops_scalar", flops_scalar, 0, false, false, 0, NULL},
    {"fp_add_mul", fp_add_mul_chain, 0, false, false, 0, NULL},
#ifdef FT_VECTORS
    {"flops_vector", flops_vector, 0, false, false, 0, NULL},
    ROWS(fp_shuffle_64x2, NULL)
#endif
#if defined(__x86_64__)
        ALL_ROWS(32x1, NULL, has_avx2_fma) ALL_ROWS(64x1, NULL, has_avx2_fma) ALL_ROWS(32x4, NULL, has_avx2_fma)
            ALL_ROWS(64x2, NULL, has_avx2_fma) ALL_ROWS(32x8, has_avx2_fma, has_avx2_fma)
                ALL_ROWS(64x4, has_avx2_fma, has_avx2_fma) ALL_ROWS(32x16, has_avx512, has_avx512)
                    ALL_ROWS(64x8, has_avx512, has_avx512) ROWS(int_add_32x4, NULL) ROWS(int_add_32x8, has_avx2_fma)
                        ROWS(int_add_32x16, has_avx512) ROWS(int_mul_32x4, has_sse41) ROWS(int_mul_32x8, has_avx2_fma)
                            ROWS(int_mul_32x16, has_avx512)
#elif defined(__aarch64__)
    ALL_ROWS(32x1, NULL, NULL) ALL_ROWS(64x1, NULL, NULL) ALL_ROWS(32x4, NULL, NULL) ALL_ROWS(64x2, NULL, NULL)
        ROWS(int_add_32x4, NULL) ROWS(int_mul_32x4, NULL)
#elif defined(__riscv) && defined(__riscv_flen) && __riscv_flen >= 64
    ALL_ROWS(32x1, NULL, NULL) ALL_ROWS(64x1, NULL, NULL)
#else
    ARITHMETIC_ROWS(32x1, NULL) ARITHMETIC_ROWS(64x1, NULL)
#endif
                                {0},
};
