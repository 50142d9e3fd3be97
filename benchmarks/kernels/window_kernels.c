/* Instructions in flight: how many, of all kinds and of stores, a core has room for between two loads from main memory.
 *
 * Two chains, one in each half of the data, linked alike: their loads take turns, with `between` other instructions
 * after each. While a core has room for those, a load of the one chain is under way with one of the other; beyond that
 * it waits. A kernel is named after the figure of a profile that it is for, and `between`.
 */
#include "kernels.h"

#include "kernel_parts.h"

/* SUM: of two registers, to a third. ADD: to a vector; where there are none, a sign to a floating-point number. */
#if defined(__x86_64__)
#define SUM(to, a, b) "leaq (" a "," b "), " to "\n"
#define ADD(to, a) "paddq " a ", " to "\n"
#define STORE(a, line, place) "movq " a ", " place "(" line ")\n"
#elif defined(__aarch64__)
#define SUM(to, a, b) "add " to ", " a ", " b "\n"
#define ADD(to, a) "add " to ".2d, " to ".2d, " a ".2d\n"
#define STORE(a, line, place) "str " a ", [" line ", " place "]\n"
#elif defined(__riscv) && __riscv_xlen == 64
#define SUM(to, a, b) "add " to ", " a ", " b "\n"
#define ADD(to, a) "fsgnj.d " to ", " to ", " a "\n"
#define STORE(a, line, place) "sd " a ", " place "(" line ")\n"
#endif

#ifdef SUM
#define STORE_AT(place) STORE("%[y]", "%[line]", place)

/* Eight instructions of each kind; of all, so few that write a register that these do not run out first. */
#define WINDOW                                                                                                         \
    SUM("%[i0]", "%[y]", "%[y]") ADD("%[v0]", "%[z]") "nop\n" SUM("%[i1]", "%[y]", "%[y]") ADD("%[v1]", "%[z]") "nop\n"  \
    SUM("%[i2]", "%[y]", "%[y]") ADD("%[v2]", "%[z]")
#define STORING                                                                                                        \
    STORE_AT("0") STORE_AT("8") STORE_AT("16") STORE_AT("24") STORE_AT("32") STORE_AT("40") STORE_AT("48") STORE_AT("56")

/* `between` instructions behind a load. */
#define FILL(between, eight)                                                                                           \
    __asm__ volatile(".rept " #between " / 8\n" eight ".endr\n"                                                        \
                     : [i0] "=&r"(i0), [i1] "=&r"(i1), [i2] "=&r"(i2), [v0] "+" FT_FP(v0), [v1] "+" FT_FP(v1),            \
                       [v2] "+" FT_FP(v2)                                                                              \
                     : [y] "r"(y), [z] FT_FP(z), [line] "r"(line)                                                      \
                     : "memory");

#define BETWEEN(name, between, eight)                                                                                  \
    static uint64_t name##_##between(struct ft_work *work)                                                             \
    {                                                                                                                  \
        char *p = (char *)work->data + work->state % (work->bytes / 2), *q = p + work->bytes / 2;                      \
        _Alignas(FT_LINE_BYTES) uint64_t line[FT_LINE_BYTES / sizeof(uint64_t)];                                       \
        uint64_t i0, i1, i2, y = 5;                                                                                    \
        double v0 = 0, v1 = 0, v2 = 0, z = 0;                                                                          \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            p = *(char *volatile *)p;                                                                                  \
            FILL(between, eight)                                                                                       \
            q = *(char *volatile *)q;                                                                                  \
            FILL(between, eight)                                                                                       \
        }                                                                                                              \
        work->state = (uint64_t)(p - (char *)work->data);                                                              \
        return 2 * work->repeats;                                                                                      \
    }

#define EACH_STORING(X, name, eight)                                                                                   \
    X(name, 16, eight) X(name, 24, eight) X(name, 32, eight) X(name, 40, eight) X(name, 48, eight) X(name, 56, eight)  \
    X(name, 64, eight) X(name, 72, eight) X(name, 80, eight) X(name, 88, eight) X(name, 96, eight)                     \
    X(name, 112, eight) X(name, 128, eight) X(name, 144, eight) X(name, 160, eight) X(name, 176, eight)                \
    X(name, 192, eight) X(name, 208, eight) X(name, 224, eight) X(name, 256, eight)
#define EACH_OF_ALL(X, name, eight)                                                                                   \
    X(name, 16, eight) X(name, 32, eight) X(name, 48, eight) X(name, 64, eight) X(name, 80, eight) X(name, 96, eight)  \
    X(name, 112, eight) X(name, 128, eight) X(name, 144, eight) X(name, 160, eight) X(name, 176, eight)                \
    X(name, 192, eight) X(name, 208, eight) X(name, 224, eight) X(name, 240, eight) X(name, 256, eight)                \
    X(name, 288, eight) X(name, 320, eight) X(name, 352, eight) X(name, 384, eight) X(name, 416, eight)                \
    X(name, 448, eight) X(name, 480, eight) X(name, 512, eight)
#define EACH_KERNEL(X)                                                                                                 \
    X(window, 8, WINDOW)                                                                                               \
    EACH_OF_ALL(X, window, WINDOW)                                                                                    \
    X(window, 576, WINDOW) X(window, 640, WINDOW) X(window, 768, WINDOW)                                               \
    EACH_STORING(X, storing, STORING)

EACH_KERNEL(BETWEEN)
#endif

const struct ft_kernel ft_window_kernels[] = {
#ifdef SUM
#define KERNEL(name, between, eight) {#name "_" #between, name##_##between, 2 * FT_LINE_BYTES, false, false, 0, NULL},
    EACH_KERNEL(KERNEL)
#endif
        {0},
};
