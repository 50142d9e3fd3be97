/* Code itself: much of it.
 *
 * Straight code is run again and again, more and more until a core no longer keeps it decoded. All instructions have
 * four bytes, as in most programs on average: additions of integers and of vectors (signs of floating-point numbers,
 * where there are none) in turns, so that neither kind's units are what is timed.
 */
#include "kernels.h"

#include "kernel_parts.h"

#if defined(__x86_64__)
#define PAIR(x, v) "leaq 1(%%" x "), %%" x "\n paddq %%xmm" v ", %%xmm" v "\n"
#define EIGHT_PAIRS                                                                                                    \
    PAIR("rax", "0") PAIR("rcx", "1") PAIR("rdx", "2") PAIR("rsi", "3") PAIR("rdi", "4") PAIR("r8", "5")               \
    PAIR("r9", "6") PAIR("r10", "7")
#define CHANGED                                                                                                        \
    "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7"
#define OF_FOUR_BYTES(code) code
#elif defined(__aarch64__)
#define PAIR(n) "add x" n ", x" n ", #1\n add v" n ".2d, v" n ".2d, v" n ".2d\n"
#define EIGHT_PAIRS PAIR("0") PAIR("1") PAIR("2") PAIR("3") PAIR("4") PAIR("5") PAIR("6") PAIR("7")
#define CHANGED "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"
#define OF_FOUR_BYTES(code) code
#elif defined(__riscv) && __riscv_xlen == 64
#define PAIR(n) "addi a" n ", a" n ", 1\n fsgnjx.d fa" n ", fa" n ", fa" n "\n"
#define EIGHT_PAIRS PAIR("0") PAIR("1") PAIR("2") PAIR("3") PAIR("4") PAIR("5") PAIR("6") PAIR("7")
#define CHANGED "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7"
#define OF_FOUR_BYTES(code) ".option push\n .option norvc\n" code ".option pop\n"
#endif

#ifdef PAIR
#define STRETCH 512 /* instructions */
#define TEXT(number) #number
#define RUNS_OF(number) ".rept " TEXT(number) " / 16\n"
#define FROM(number)                                                                                                   \
    case number:                                                                                                       \
        __asm__ volatile(OF_FOUR_BYTES(RUNS_OF(STRETCH) EIGHT_PAIRS ".endr\n") : : : CHANGED);                       \
        __attribute__((fallthrough));

/* The last so many of 32 stretches, in each round. */
static __attribute__((noinline)) uint64_t run_code(struct ft_work *work, unsigned stretches)
{
    for (uint64_t r = 0; r < work->repeats; r++) {
        KEEP(stretches);
        switch (stretches) { /* clang-format off */
            FROM(32) FROM(31) FROM(30) FROM(29) FROM(28) FROM(27) FROM(26) FROM(25)
            FROM(24) FROM(23) FROM(22) FROM(21) FROM(20) FROM(19) FROM(18) FROM(17)
            FROM(16) FROM(15) FROM(14) FROM(13) FROM(12) FROM(11) FROM(10) FROM(9)
            FROM(8) FROM(7) FROM(6) FROM(5) FROM(4) FROM(3) FROM(2) FROM(1)
        default:; /* clang-format on */
        }
    }
    return (uint64_t)STRETCH * stretches * work->repeats;
}

#define EACH_CODE(X)                                                                                                   \
    X(512, 1) X(1024, 2) X(1536, 3) X(2048, 4) X(2560, 5) X(3072, 6) X(4096, 8) X(5120, 10) X(6144, 12) X(7168, 14)    \
    X(8192, 16) X(12288, 24) X(16384, 32)
#define CODE(instructions, stretches)                                                                                  \
    static uint64_t code_##instructions(struct ft_work *work) { return run_code(work, stretches); }
EACH_CODE(CODE)

/* Stretches of 64 instructions, more than a core keeps decoded, and behind each a call of some that it does keep. */
static __attribute__((noinline)) void kept(void)
{
    __asm__ volatile(OF_FOUR_BYTES(EIGHT_PAIRS) : : : CHANGED);
}

#define TIMES7(code) code code code code code code code
#define ANEW_AND_KEPT                                                                                                  \
    __asm__ volatile(OF_FOUR_BYTES(RUNS_OF(64) EIGHT_PAIRS ".endr\n") : : : CHANGED);                                 \
    kept();

static uint64_t decode_in_turns(struct ft_work *work)
{
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES7(TIMES16(ANEW_AND_KEPT))
    }
    return 7 * 16 * work->repeats;
}

static uint64_t decode_kept(struct ft_work *work)
{
    for (uint64_t r = 0; r < work->repeats; r++) {
        TIMES7(TIMES16(kept();))
    }
    return 7 * 16 * work->repeats;
}

#endif

const struct ft_kernel ft_code_kernels[] = {
#ifdef PAIR
#define CODE_KERNEL(instructions, stretches) {"code_" #instructions, code_##instructions, 0, false, false, 0, NULL},
    /* clang-format off */
    EACH_CODE(CODE_KERNEL)
    /* clang-format on */
    {"decode_in_turns", decode_in_turns, 0, false, false, 0, NULL},
    {"decode_kept", decode_kept, 0, false, false, 0, NULL},
#endif
    {0},
};
