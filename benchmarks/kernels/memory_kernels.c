/* Kernels over memory: sequential and strided loads, stores and copies; loads at random; chains; gather and scatter. */
#include "kernels.h"

#include "kernel_parts.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- one access after the other -------------------------------------------------------------------------------- */

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

/* Sweeps with vectors of type T, four a step. A copy goes from the first half of data to the second. */
#define VECTOR_SWEEPS(T, width, target)                                                                                \
    target static uint64_t load##width(struct ft_work *work)                                                           \
    {                                                                                                                  \
        const size_t n = work->bytes / sizeof(T);                                                                      \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            for (const T *p = work->data, *end = p + n; p != end; p += 4) {                                            \
                T a = p[0], b = p[1], c = p[2], d = p[3];                                                              \
                USE_FP(a);                                                                                             \
                USE_FP(b);                                                                                             \
                USE_FP(c);                                                                                             \
                USE_FP(d);                                                                                             \
            }                                                                                                          \
            CLOBBER();                                                                                                 \
        }                                                                                                              \
        return n * work->repeats;                                                                                      \
    }                                                                                                                  \
    target static uint64_t store##width(struct ft_work *work)                                                          \
    {                                                                                                                  \
        const size_t n = work->bytes / sizeof(T);                                                                      \
        T v = {0};                                                                                                     \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            for (T *p = work->data, *end = p + n; p != end; p += 4) {                                                  \
                KEEP_FP(v); /* or it becomes a call of memset */                                                       \
                p[0] = v, p[1] = v, p[2] = v, p[3] = v;                                                                \
                CLOBBER();                                                                                             \
            }                                                                                                          \
        }                                                                                                              \
        return n * work->repeats;                                                                                      \
    }                                                                                                                  \
    target static uint64_t copy##width(struct ft_work *work)                                                           \
    {                                                                                                                  \
        const size_t n = work->bytes / sizeof(T) / 2;                                                                  \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            T *to = (T *)work->data + n;                                                                               \
            for (const T *p = work->data, *end = p + n; p != end; p += 4, to += 4) {                                   \
                T a = p[0], b = p[1], c = p[2], d = p[3];                                                              \
                KEEP_FP(a); /* or it becomes a call of memcpy */                                                       \
                to[0] = a, to[1] = b, to[2] = c, to[3] = d;                                                            \
                CLOBBER();                                                                                             \
            }                                                                                                          \
        }                                                                                                              \
        return 2 * n * work->repeats;                                                                                  \
    }

#ifdef FT_VECTORS
VECTOR_SWEEPS(ft_v2, 16, )
#endif
#if defined(__x86_64__)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
VECTOR_SWEEPS(__m256d, 32, __attribute__((target("avx2"))))
#endif

/* ---- strided ------------------------------------------------------------------------------------------------------ */

#define EIGHT(s) s(0) s(1) s(2) s(3) s(4) s(5) s(6) s(7)

static uint64_t load_strided(struct ft_work *work)
{
    const size_t step = work->stride / 8, n = work->bytes / work->stride;
    for (uint64_t r = 0; r < work->repeats; r++) {
        const volatile uint64_t *p = work->data;
        for (size_t i = 0; i < n; i += 8, p += 8 * step) {
#define LOAD(k) (void)p[k * step];
            EIGHT(LOAD)
        }
    }
    return n * work->repeats;
}

static uint64_t store_strided(struct ft_work *work)
{
    const size_t step = work->stride / 8, n = work->bytes / work->stride;
    for (uint64_t r = 0; r < work->repeats; r++) {
        volatile uint64_t *p = work->data;
        for (size_t i = 0; i < n; i += 8, p += 8 * step) {
#define STORE(k) p[k * step] = r;
            EIGHT(STORE)
        }
    }
    return n * work->repeats;
}

static uint64_t copy_strided(struct ft_work *work)
{
    const size_t step = work->stride / 8, n = work->bytes / work->stride / 2;
    for (uint64_t r = 0; r < work->repeats; r++) {
        const volatile uint64_t *p = work->data;
        volatile uint64_t *to = (volatile uint64_t *)work->data + n * step;
        for (size_t i = 0; i < n; i += 8, p += 8 * step, to += 8 * step) {
#define COPY(k) to[k * step] = p[k * step];
            EIGHT(COPY)
        }
    }
    return 2 * n * work->repeats;
}

/* ---- streams beside streams ---------------------------------------------------------------------------------------- */

/* Streams through all that stands behind the first `stride` bytes, parts of it side by side, beside others through
 * those bytes, again and again: a line of each in turns. They begin some lines apart, so that they do not share a
 * cache's sets. */
static size_t lines_apart(size_t lines, size_t n)
{
    const size_t skew = 17;
    return lines > 2 * n * skew ? skew : 0;
}

#define ADD(i)                                                                                                         \
    sum += p[i];                                                                                                       \
    KEEP(sum); /* or all are loaded first, and do not fit into registers */

struct lines {
    const volatile uint64_t *first;
    size_t apart;
    unsigned n;
};

static inline __attribute__((always_inline)) uint64_t sum_of(struct lines lines)
{
    const volatile uint64_t *p = lines.first;
    uint64_t all = 0;
    for (unsigned stream = 0; stream < lines.n; stream++, p += lines.apart) {
        uint64_t sum = 0;
        EIGHT(ADD)
        all += sum;
    }
    return all;
}

/* A line of each after the other. */
static inline __attribute__((always_inline)) uint64_t in_turns(struct lines far, struct lines near)
{
    return sum_of(far) + sum_of(near);
}

/* An element of each after the other, and twenty additions more, as in a stencil. */
static inline __attribute__((always_inline)) uint64_t together(struct lines far, struct lines near)
{
    uint64_t sum = 0, a = 1, b = 2, c = 3, d = 4;
    for (unsigned i = 0; i < FT_LINE_BYTES / 8; i++) {
        for (unsigned stream = 0; stream < far.n; stream++)
            sum += far.first[stream * far.apart + i];
        for (unsigned stream = 0; stream < near.n; stream++)
            sum += near.first[stream * near.apart + i];
        for (unsigned more = 0; more < 5; more++) {
            a += sum;
            KEEP(a);
            b += 3;
            KEEP(b);
            c += 3;
            KEEP(c);
            d += 3;
            KEEP(d);
        }
    }
    return a;
}

#define STREAMS(name, n_far, n_near, sum_of_both)                                                                      \
    static uint64_t name(struct ft_work *work)                                                                         \
    {                                                                                                                  \
        const size_t line = FT_LINE_BYTES / 8, held = work->stride / 8;                                                \
        const size_t each = (work->bytes / 8 - held) / n_far / line, near_each = held / n_near / line;                 \
        const size_t skew = lines_apart(each, n_far), near_skew = lines_apart(near_each, n_near);                      \
        const size_t own = each - n_far * skew, lines = near_each - n_near * near_skew;                                \
        const size_t apart = (own + skew) * line, between = (lines + near_skew) * line;                                \
        const volatile uint64_t *data = work->data;                                                                    \
        uint64_t sum = 0;                                                                                              \
        size_t at = 0;                                                                                                 \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            const volatile uint64_t *far = data + held, *end = far + own * line;                                       \
            for (; far != end; far += line) {                                                                          \
                const struct lines all_far = {far, apart, n_far}, near = {data + at * line, between, n_near};          \
                sum += sum_of_both(all_far, near);                                                                     \
                at = at + 1 < lines ? at + 1 : 0;                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        KEEP(sum);                                                                                                     \
        return own * work->repeats;                                                                                    \
    }

STREAMS(streams1_2, 1, 2, in_turns)
STREAMS(streams1_4, 1, 4, in_turns)
STREAMS(streams2_2, 2, 2, in_turns)
STREAMS(streams2_4, 2, 4, in_turns)
STREAMS(streams4_4, 4, 4, in_turns)
STREAMS(busy_streams2_1, 2, 1, together)
STREAMS(busy_streams2_2, 2, 2, together)
STREAMS(busy_streams1_2, 1, 2, together)

/* ---- anywhere ----------------------------------------------------------------------------------------------------- */

/* Indices are those of a small table, each turned by the same random bits in a round. Bits that are made for each
 * access take registers, of which a core has fewer than it can have loads on their way: on a Zen 5 a load from 64 MiB
 * took 5.6 ns with a multiplication, an addition and a shift for each, 4.9 with an exclusive or and a mask, 3.3 so. */
#define NUM_TURNED 512u

static uint64_t random8(struct ft_work *work)
{
    static _Thread_local uint32_t table[NUM_TURNED], table_mask;
    const double *data = work->data;
    const uint32_t mask = (uint32_t)(work->bytes / 8 - 1);
    if (mask != table_mask) {
        uint64_t bits = 0;
        for (uint32_t i = 0; i < NUM_TURNED; i++) {
            bits = ft_next_bits(bits);
            table[i] = (uint32_t)(bits >> 32) & mask;
        }
        table_mask = mask;
    }
    for (uint64_t r = 0; r < work->repeats; r++) {
        work->state = ft_next_bits(work->state);
        const uint32_t turn = (uint32_t)(work->state >> 32) & mask;
        for (uint32_t i = 0; i < NUM_TURNED; i += 4) {
            double a = data[table[i] ^ turn], b = data[table[i + 1] ^ turn];
            double c = data[table[i + 2] ^ turn], d = data[table[i + 3] ^ turn];
            USE_FP(a);
            USE_FP(b);
            USE_FP(c);
            USE_FP(d);
        }
        CLOBBER();
    }
    return NUM_TURNED * work->repeats;
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

/* ---- SGBench's loops (Carrington et al., ICS'11, Figures 2 and 3), and a read-modify-write ------------------------- */

/* A round takes the next FT_CHUNK elements, so that a sample need not last as long as a whole range takes. */
#define INDEXED(name, T, STATEMENT)                                                                                    \
    static uint64_t name(struct ft_work *work)                                                                         \
    {                                                                                                                  \
        T *data = work->data;                                                                                          \
        uint64_t done = 0;                                                                                             \
        for (uint64_t r = 0; r < work->repeats; r++) {                                                                 \
            const size_t rest = work->elements - work->state, n = rest < FT_CHUNK ? rest : FT_CHUNK;                   \
            const uint32_t *index = work->index + work->state;                                                         \
            T *dense = (T *)work->dense + work->state;                                                                 \
            for (size_t i = 0; i < n; i++)                                                                             \
                STATEMENT;                                                                                             \
            CLOBBER();                                                                                                 \
            work->state = n == rest ? 0 : work->state + n;                                                             \
            done += n;                                                                                                 \
        }                                                                                                              \
        return done;                                                                                                   \
    }

INDEXED(gather4, float, dense[i] = data[index[i]])
INDEXED(gather8, double, dense[i] = data[index[i]])
INDEXED(scatter4, float, data[index[i]] = dense[i])
INDEXED(scatter8, double, data[index[i]] = dense[i])
INDEXED(update4, float, data[index[i]] += dense[i])
INDEXED(update8, double, data[index[i]] += dense[i])

const struct ft_kernel ft_memory_kernels[] = {
    {"load8", load8, FT_LINE_BYTES, false, false, 0, NULL},
    {"store8", store8, FT_LINE_BYTES, false, false, 0, NULL},
#ifdef FT_VECTORS
    {"load16", load16, FT_LINE_BYTES, false, false, 0, NULL},
    {"store16", store16, FT_LINE_BYTES, false, false, 0, NULL},
    {"copy16", copy16, 2 * FT_LINE_BYTES, false, false, 0, NULL},
#endif
#if defined(__x86_64__)
    {"load32", load32, 2 * FT_LINE_BYTES, false, false, 0, has_avx2},
    {"store32", store32, 2 * FT_LINE_BYTES, false, false, 0, has_avx2},
    {"copy32", copy32, 4 * FT_LINE_BYTES, false, false, 0, has_avx2},
#endif
    {"load_strided", load_strided, FT_LINE_BYTES, false, true, 0, NULL},
    {"store_strided", store_strided, FT_LINE_BYTES, false, true, 0, NULL},
    {"copy_strided", copy_strided, FT_LINE_BYTES, false, true, 0, NULL},
    {"streams1_2", streams1_2, 8 * FT_LINE_BYTES, false, true, 0, NULL},
    {"streams1_4", streams1_4, 8 * FT_LINE_BYTES, false, true, 0, NULL},
    {"streams2_2", streams2_2, 8 * FT_LINE_BYTES, false, true, 0, NULL},
    {"streams2_4", streams2_4, 8 * FT_LINE_BYTES, false, true, 0, NULL},
    {"streams4_4", streams4_4, 8 * FT_LINE_BYTES, false, true, 0, NULL},
    {"busy_streams2_1", busy_streams2_1, 8 * FT_LINE_BYTES, false, true, 0, NULL},
    {"busy_streams2_2", busy_streams2_2, 8 * FT_LINE_BYTES, false, true, 0, NULL},
    {"busy_streams1_2", busy_streams1_2, 8 * FT_LINE_BYTES, false, true, 0, NULL},
    {"random8", random8, FT_LINE_BYTES, true, false, 0, NULL},
    {"chase", chase, FT_LINE_BYTES, false, false, 0, NULL},
    {"gather4", gather4, 4, false, false, 4, NULL},
    {"gather8", gather8, 8, false, false, 8, NULL},
    {"scatter4", scatter4, 4, false, false, 4, NULL},
    {"scatter8", scatter8, 8, false, false, 8, NULL},
    {"update4", update4, 4, false, false, 4, NULL},
    {"update8", update8, 8, false, false, 8, NULL},
    {0},
};
