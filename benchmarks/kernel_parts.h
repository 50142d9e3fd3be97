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

/* A value of 64 bits from an integer to a floating-point register, and back. */
#if defined(__x86_64__)
#define FT_TO_FP(fp, x) __asm__ volatile("movq %1, %0" : "=x"(fp) : "r"(x))
#define FT_FROM_FP(x, fp) __asm__ volatile("movq %1, %0" : "=r"(x) : "x"(fp))
#elif defined(__aarch64__)
#define FT_TO_FP(fp, x) __asm__ volatile("fmov %d0, %1" : "=w"(fp) : "r"(x))
#define FT_FROM_FP(x, fp) __asm__ volatile("fmov %0, %d1" : "=r"(x) : "w"(fp))
#elif defined(__riscv) && __riscv_xlen == 64
#define FT_TO_FP(fp, x) __asm__ volatile("fmv.d.x %0, %1" : "=f"(fp) : "r"(x))
#define FT_FROM_FP(x, fp) __asm__ volatile("fmv.x.d %0, %1" : "=r"(x) : "f"(fp))
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
