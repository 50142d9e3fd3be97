/* Distances between uses of a line, from which the misses of any LRU cache follow. See reuse.c. */
#ifndef FORETRACE_REUSE_H
#define FORETRACE_REUSE_H

#include "cache_sim/simulation/access.h"
#include "set_order.h"

#define FT_REUSE_MAX_CLASS_SHIFT 9u
#define FT_REUSE_MAX_BURST_SHIFT 9u
#define FT_REUSE_BINS 173u /* the last for distances beyond all others, and for first uses */
#define FT_REUSE_BEYOND (FT_REUSE_BINS - 1)

/* Ways are numbered as in set_order.h. A fully associative cache is one large way: */
#define FT_REUSE_ONE_SET_NEAR 0u /* measured in bursts */
#define FT_REUSE_ONE_SET_FAR 20u /* measured on sampled classes */

/* What is known of all operations together; all in ratios to the accesses. */
#define FT_REUSE_GROUPS 8u /* as many as classes are sampled, at least */
typedef double ft_reuse_group[FT_LINE_SIZES][FT_REUSE_ONE_SET_FAR + 1 - FT_FAR_WAY][FT_REUSE_BINS];

/* Ways are followed together from 1 on (in bursts), from these on, and from FT_FAR_WAY on. */
#define FT_REUSE_MIDDLE_WAY 5u /* 4 KB */
#define FT_REUSE_LARGE_WAY 7u  /* 16 KB */
#define FT_REUSE_SET_END 12u   /* address bits that tell the set of a middle way, */
#define FT_REUSE_SETS 16u      /* by block */

/* Bins of near ways: like others below, but the last of them is for FT_REUSE_BEYOND. */
#define FT_REUSE_NEAR_BINS 17u
#define FT_REUSE_NEAR_BEYOND (FT_REUSE_NEAR_BINS - 1)

/* Variances, from sampling, of the number of accesses with distances of at least a bin's edge. */
struct ft_reuse_variances {
    double sets[FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS]; /* ways from 1 on */
    double one_set[FT_LINE_SIZES][FT_REUSE_BINS];
};

struct ft_reuse;

struct ft_reuse_options {
    unsigned first_class_shift; /* classes are sampled at a rate of 2^-first_class_shift in the beginning, */
    unsigned class_shift;       /* and of 2^-class_shift in the end */
    unsigned burst_shift;       /* at most 2^-burst_shift of the accesses lie in bursts in the end */
    uint64_t burst_accesses;    /* length of a burst */
    uint64_t warm_accesses;     /* before a burst that fill its sets, and are not counted */
    uint64_t exact_accesses;    /* so many are in the first burst, and looked at in all classes */
};

/* In `bin`. First uses in bursts and tracks whose distance is known: */
#define FT_REUSE_RESOLVED 0x8000u /* what they change, */
#define FT_REUSE_FIRST 0x100u     /* and the distances that were seen of them; or of all first uses */

/* Sizes are those of recency.h. `way` to `FT_NEAR_WAYS` (or FT_LAST_WAY) have `accesses` more (or fewer) in the bin. */
struct ft_reuse_count {
    uint32_t op;
    uint8_t size;
    uint8_t way;
    uint16_t bin;
    int64_t accesses;
};

struct ft_reuse_summary {
    uint64_t accesses, burst_accesses;
    uint64_t bursts;
    uint32_t class_shift;
    uint32_t known_blocks;
    uint64_t middle_accesses, large_accesses; /* that those followed stand for in middle and large ways */
};

/* NULL when memory ran out. */
struct ft_reuse *ft_reuse_new(const struct ft_reuse_options *options);
void ft_reuse_free(struct ft_reuse *reuse);

/* Makes room for operations 0 .. num_operations-1. Returns 0, or -1 when memory ran out. */
int ft_reuse_reserve(struct ft_reuse *reuse, size_t num_operations);

/* Every `op` must have room. Returns 0, or -1 when memory ran out. */
int ft_reuse_feed(struct ft_reuse *reuse, const struct ft_access *batch, size_t length);

/* The same for an array operation. */
int ft_reuse_feed_array(struct ft_reuse *reuse, const struct ft_array_run *run);

/* Whether what is fed from now on repeats what was fed before, so that it need not be looked at often. */
void ft_reuse_set_repeating(struct ft_reuse *reuse, bool is_repeating);

/* Outside bursts, accesses to the line used last in its set may be left out (see recent_lines.h; sets by bits of
 * addresses from FT_BLOCK_SHIFT to FT_REUSE_SET_END - 1, or some of them): distances in ways of 4 KB and more are the
 * same, those among all lines count up to 16 lines of a size too few. Takes what is left of some accesses, those of
 * `repeats` as often as these say (in order); how many there were is told behind, which returns 0, or -1 when memory
 * ran out. */
void ft_reuse_sample(struct ft_reuse *reuse, const struct ft_access *batch, size_t length,
                     const struct ft_repeat *repeats, size_t num_repeats);
int ft_reuse_end_sample(struct ft_reuse *reuse, uint64_t num_accesses);

/* The accesses of an array operation, without saying how many there were. */
void ft_reuse_sample_array(struct ft_reuse *reuse, const struct ft_array_run *run);

/* Accesses that repeat some that were fed at least twice may be passed over, if it is possible when the first comes.
 * What was passed over is then made up for, before anything else is fed: by a replay of one repetition, fed in between,
 * which stands for `times`; and with ft_reuse_sample and ft_reuse_sample_array for what there was of one more. Where a
 * replay's beginning is true, the repetition is to be fed once more behind ft_reuse_count_replay. */
bool ft_reuse_can_pass(const struct ft_reuse *reuse);
void ft_reuse_pass(struct ft_reuse *reuse, uint64_t accesses);
bool ft_reuse_begin_replay(struct ft_reuse *reuse, uint64_t accesses, uint32_t times);
void ft_reuse_count_replay(struct ft_reuse *reuse, uint32_t times);
void ft_reuse_end_replay(struct ft_reuse *reuse);

/* What is sampled changes at multiples of so many accesses, too, which is where what ft_reuse_end_sample is told ends
 * at the latest. */
#define FT_REUSE_INTERVAL 16384u

/* Numbers of accesses: where a period's burst begins and ends, its warming up included, and where the period ends. */
struct ft_reuse_period {
    uint64_t burst_begin, burst_end, end;
};

/* That of period 0 is known from the beginning on, of 1 when the burst of 0 has been fed, and of n when that of n - 2
 * has: another thread may ask for it from then on, until the burst of n has. */
struct ft_reuse_period ft_reuse_period_of(const struct ft_reuse *reuse, unsigned number);

/* The number of the one at hand. */
unsigned ft_reuse_period_at_hand(const struct ft_reuse *reuse);

struct ft_reuse_summary ft_reuse_summary(const struct ft_reuse *reuse);

/* Smallest distance of a bin, in lines; not for FT_REUSE_BEYOND. */
uint64_t ft_reuse_bin_edge(unsigned bin);

/* Makes the counts complete; to be called before `ft_reuse_next`. Returns how many there are, some may be 0. */
const ft_reuse_group *ft_reuse_groups(const struct ft_reuse *reuse);

size_t ft_reuse_finish(struct ft_reuse *reuse);

/* Non-zero counts, in no order; *position starts at 0. Returns 0 when there are no more. */
int ft_reuse_next(const struct ft_reuse *reuse, size_t *position, struct ft_reuse_count *count);

/* What was sampled of an operation. */
struct ft_reuse_operation {
    uint64_t in_bursts;   /* executions that those in bursts stand for */
    uint64_t leaving;     /* executions that miss a small direct-mapped cache, */
    uint64_t followed[2]; /* and that those stand for which were followed: in middle ways, in large ones */
    uint64_t is_of_array; /* 1: not all of those were counted */
};

/* Of operations below this number. */
size_t ft_reuse_operations(const struct ft_reuse *reuse);
const struct ft_reuse_operation *ft_reuse_sampled(const struct ft_reuse *reuse);

const struct ft_reuse_variances *ft_reuse_variances(const struct ft_reuse *reuse);

#endif
