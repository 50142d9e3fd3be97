/* What kernels are made of: values the compiler cannot see through, and repetition without a loop. */
#ifndef FORETRACE_KERNEL_PARTS_H
#define FORETRACE_KERNEL_PARTS_H

#if defined(__x86_64__)
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

/* Of a linear congruential generator with Knuth's constants (MMIX): the highest bits are the most random. */
static inline uint64_t ft_next_bits(uint64_t bits)
{
    return bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

/* FT_TO_FP, FT_FROM_FP: a value of 64 bits goes from an integer to a floating-point register, and back.
 * FT_CONTROL: the register of rounding mode and exceptions is read.
 * FT_COMPARE: two floating-point numbers are compared, to flags or an integer register that nothing reads.
 * FT_COMPARE_INTO: and then one operation of a cycle is done, on x. */
#if defined(__x86_64__)
#define FT_TO_FP(fp, x) __asm__ volatile("movq %1, %0" : "=x"(fp) : "r"(x))
#define FT_FROM_FP(x, fp) __asm__ volatile("movq %1, %0" : "=r"(x) : "x"(fp))
#define FT_CONTROL() do { uint32_t word; __asm__ volatile("stmxcsr %0" : "=m"(word)); } while (0)
#define FT_COMPARE(a, b) __asm__ volatile("ucomisd %1, %0" : : "x"(a), "x"(b) : "cc")
#define FT_COMPARE_INTO(x, a, b) __asm__ volatile("ucomisd %2, %1\n setb %b0" : "+r"(x) : "x"(a), "x"(b) : "cc")
#elif defined(__aarch64__)
#define FT_TO_FP(fp, x) __asm__ volatile("fmov %d0, %1" : "=w"(fp) : "r"(x))
#define FT_FROM_FP(x, fp) __asm__ volatile("fmov %0, %d1" : "=r"(x) : "w"(fp))
#define FT_CONTROL() do { uint64_t word; __asm__ volatile("mrs %0, fpcr" : "=r"(word)); } while (0)
#define FT_COMPARE(a, b) __asm__ volatile("fcmp %d0, %d1" : : "w"(a), "w"(b) : "cc")
#define FT_COMPARE_INTO(x, a, b)                                                                                       \
    __asm__ volatile("fcmp %d1, %d2\n csel %0, %0, xzr, mi" : "+r"(x) : "w"(a), "w"(b) : "cc")
#elif defined(__riscv) && __riscv_xlen == 64
#define FT_TO_FP(fp, x) __asm__ volatile("fmv.d.x %0, %1" : "=f"(fp) : "r"(x))
#define FT_FROM_FP(x, fp) __asm__ volatile("fmv.x.d %0, %1" : "=r"(x) : "f"(fp))
#define FT_CONTROL() do { uint64_t word; __asm__ volatile("frcsr %0" : "=r"(word)); } while (0)
#define FT_COMPARE(a, b) __asm__ volatile("flt.d zero, %0, %1" : : "f"(a), "f"(b))
#define FT_COMPARE_INTO(x, a, b)                                                                                       \
    __asm__ volatile("flt.d t0, %1, %2\n or %0, %0, t0" : "+r"(x) : "f"(a), "f"(b) : "t0")
#endif

#define TIMES2(s) s s
#define TIMES4(s) s s s s
#define TIMES16(s) TIMES4(TIMES4(s))

/* Vectors of 16 bytes that every processor of the architecture has, in the registers of FT_FP. */
#if defined(__x86_64__) || defined(__aarch64__)
#define FT_VECTORS
typedef double ft_v2 __attribute__((vector_size(16)));
#endif

#endif
