/* What the three samples of reuse.c share: their state, and what they offer each other. */
#ifndef FORETRACE_REUSE_SAMPLES_H
#define FORETRACE_REUSE_SAMPLES_H

#include "cache_sim/simulation/recent_lines.h"
#include "reuse.h"

#define MAX_DISTANCE ((UINT64_C(1) << 44) - 1)
#define PART 1024u
#define REPEATING_SHIFT 5u /* smallest burst_shift at which bursts may become rarer where everything repeats */

/* What bursts and tracks follow; the last way of each, and which bit of `followed` stands for it. */
enum { SMALL, MIDDLE, LARGE, NUM_TRACKS };

static const uint8_t first_way_of[NUM_TRACKS + 1] = {1, FT_REUSE_MIDDLE_WAY, FT_REUSE_LARGE_WAY, FT_NEAR_WAYS + 1};
#define FAR_BIT 1u
#define BIT_OF(track) (1u << (track))

struct bucket {
    uint64_t key; /* 1 + (op << 17 | resolved << 16 | bin << 7 | way << 2 | size) */
    int64_t accesses;
};

/* What is counted of an operation before it is weighted. Ways count from 1 here. */
struct near_counts {
    uint32_t op, is_changed; /* since they were weighted */
    int32_t accesses[FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];
};

#define ALIKE 128u

/* Accesses of an operation to a group of classes that came one after the other, had the same distances, and are not
 * counted yet: those of a stream do. `bins` has a byte for each way, and one for distances among all lines. */
struct far_counts {
    uint64_t bins;
    uint32_t op;
    uint16_t group, size;
    int64_t accesses;
};

/* What one burst or window counts for all operations; `resolved` are the changes for those first uses whose distance is
 * known. */
struct burst_counts {
    int64_t sets[2][FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];
    int64_t one_set[2][FT_LINE_SIZES][FT_REUSE_BINS];
    int64_t first_uses[NUM_TRACKS][FT_LINE_SIZES], resolved_uses[NUM_TRACKS][FT_LINE_SIZES];
};

/* How many of all accesses these stand for, as shares of them, for distances from each bin's edge on. */
struct burst_misses {
    double sets[FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];
    double one_set[FT_LINE_SIZES][FT_REUSE_BINS];
};

/* One line size of an access: its distances by way, from the first one of a track on. */
struct distances {
    uint16_t ways[8];
    uint64_t one_set;
    bool is_new, changes;
};

struct track {
    struct ft_near *near;
    int64_t weight;
    unsigned shift;                      /* it is followed at a rate of 2^-shift */
    uint16_t order[FT_NUM_CLASSES >> 6]; /* of the residues */
    unsigned first;                      /* place in `order` of the first one followed; the others come next */
    uint64_t begin, end;                 /* of the window */
    uint64_t accesses;                   /* that those until then stand for */
    uint32_t windows_left, on_in;        /* windows of which it is followed in one */
    bool is_on;
    bool is_complete; /* has been followed where it is since the first access: what is new is so in the program */
    bool has_last;    /* a burst or window before this one */
};

enum phase { BEFORE_BURST, IN_BURST, AFTER_BURST };

/* Periods of a stream that are planned: the one at hand, and one or two behind it. */
#define PLANNED_PERIODS 4u /* one is about to be planned */
struct periods {
    unsigned num_begun, num_planned;
    struct ft_reuse_period planned[PLANNED_PERIODS]; /* period n in n % PLANNED_PERIODS */
    unsigned shifts[PLANNED_PERIODS];                /* its burst stands for 2^shift as many accesses */
};

/* Where the stream stands, kept while another is replayed. */
struct schedule {
    enum phase phase;
    bool is_counted;
    uint64_t num_accesses, phase_end, period_end, burst_begin;
    struct track tracks[NUM_TRACKS];
};

#define MAPPED_LINES 64u /* of a direct-mapped cache as large as the smallest way of a track */
#define MAPPED_LINE_SHIFT 6u

#define WARMING_LINES 2048u

struct ft_reuse {
    struct ft_reuse_options options;
    struct ft_recency *near_lines, *far_lines;
    struct ft_far *far;
    uint64_t num_accesses, random_state;
    uint8_t followed[FT_NUM_CLASSES];    /* by block: FAR_BIT, and those of tracks */
    uint8_t is_followed[FT_NUM_CLASSES]; /* 0 or 1 */
    struct track tracks[NUM_TRACKS];
    uint64_t near_work;
    unsigned extra; /* rates are lower by 2^extra than they should be, as work was dear */
    /* bursts */
    enum phase phase;
    bool is_counted, is_repeating;
    uint64_t phase_end, period_end, burst_begin;
    struct periods periods, replay_periods; /* those of the stream are read by other threads */
    bool is_replaying;
    unsigned replay_shift;
    int64_t times;          /* that each access stands for: 1, or more in a replay */
    struct schedule stream; /* in a replay */
    uint64_t num_bursts, burst_accesses;
    uint64_t mapped[MAPPED_LINES];
    uint64_t last_line;              /* 1 + the line of 32 bytes that was used last in a burst */
    uint64_t warming[WARMING_LINES]; /* lines of 32 bytes that warm a burst up and have not been looked at yet */
    size_t num_warming;
    struct ft_recent_lines recent;
    struct ft_reuse_operation *operations;
    struct near_counts **near_counts; /* by operation, NULL where there are none */
    size_t num_operations, num_unweighted;
    struct burst_counts burst;
    struct burst_misses last_burst;
    struct ft_reuse_variances variances;
    /* classes */
    unsigned class_shift;
    uint64_t far_work;
    ft_reuse_group groups[FT_REUSE_GROUPS];
    struct far_counts alike[ALIKE]; /* by operation and line size */
    /* results */
    struct bucket *counts;
    size_t counts_size, counts_used;
    bool failed;
};

/* ---- reuse.c ------------------------------------------------------------------------------------------------------ */

/* An access in a block that is followed, that leaves a line or not. Returns whether `far` has its distances. */
bool ft_reuse_look_at(struct ft_reuse *reuse, const struct ft_access *access, uint32_t times, bool leaves,
                      struct distances *far);

/* Between bursts only those in blocks that are followed are looked at. */
void ft_reuse_sample_part(struct ft_reuse *reuse, const struct ft_access *batch, size_t length);

/* A phase is over with its last access, not with the first behind it: the next burst is then planned. */
void ft_reuse_advance(struct ft_reuse *reuse, uint64_t accesses);

/* Whether an access may be in a block that is followed (0 or 1): those in several are taken to be. */
static inline unsigned may_be_followed(const uint8_t *is_followed, uint64_t address, uint64_t size_bytes)
{
    const uint64_t last = address + size_bytes - 1;
    return is_followed[address >> FT_BLOCK_SHIFT & (FT_NUM_CLASSES - 1)] | ((address ^ last) >> FT_BLOCK_SHIFT != 0);
}

/* Whether an access goes to no other line, of the shortest size, than the one before. *last_line is 1 + that line, 0 if
 * there were several. */
static inline bool uses_line_again(const struct ft_access *access, uint64_t *last_line)
{
    const uint64_t line = access->address >> FT_LINE_SHIFT;
    const bool is_one = (access->address + access->size_bytes - 1) >> FT_LINE_SHIFT == line;
    const bool again = is_one && line + 1 == *last_line;
    *last_line = is_one ? line + 1 : 0;
    return again;
}

/* Whether an access goes to a line other than the last one that was used in its set of a direct-mapped cache, which is
 * kept in `mapped`. */
static inline bool leaves_line(uint64_t *mapped, uint64_t address)
{
    const uint64_t line = address >> MAPPED_LINE_SHIFT;
    uint64_t *last = &mapped[line & (MAPPED_LINES - 1)];
    const bool leaves = *last != line;
    *last = line;
    return leaves;
}

uint64_t ft_reuse_random_below(struct ft_reuse *reuse, uint64_t limit);

/* ---- counts.c ----------------------------------------------------------------------------------------------- */

/* Counts an access of a track, or in a burst. `far` is NULL if it is not in a sampled class. */
void ft_reuse_count_near(struct ft_reuse *reuse, unsigned track, uint32_t op, uint32_t times, struct distances *near,
                         const struct distances *far);

/* Counts a line size of an access to a class of some group. */
void ft_reuse_count_far(struct ft_reuse *reuse, uint32_t op, unsigned group, unsigned size, int64_t times,
                        const struct distances *found);

/* Counts those that are not counted yet: before the rate of classes changes. */
void ft_reuse_settle_far(struct ft_reuse *reuse);

/* Moves what operations have to `counts`, weighted: before weights change. */
void ft_reuse_weight_counts(struct ft_reuse *reuse);

/* ---- bursts.c ----------------------------------------------------------------------------------------------- */

/* Returns how many of the accesses were looked at: fewer than given when there is no room for more blocks. */
size_t ft_reuse_burst(struct ft_reuse *reuse, const struct ft_access *batch, size_t length);

void ft_reuse_begin_burst(struct ft_reuse *reuse, uint64_t length);

/* From here on the burst is counted: it is warm. */
void ft_reuse_begin_counting(struct ft_reuse *reuse);

/* Plans as far ahead as reuse.h says, where a burst is over. */
void ft_reuse_plan_periods(struct ft_reuse *reuse);
void ft_reuse_begin_period(struct ft_reuse *reuse);
void ft_reuse_next_phase(struct ft_reuse *reuse);

/* ---- tracks.c ----------------------------------------------------------------------------------------------- */

/* An access as a track sees it: it has the distances of its last block. Returns false if there was no room. */
bool ft_reuse_follow_access(struct ft_reuse *reuse, unsigned track, const struct ft_access *access, uint32_t times,
                            bool is_counted, bool leaves, const struct distances *far);

/* Returns false when memory ran out. */
bool ft_reuse_begin_track(struct ft_reuse *reuse, unsigned name);

/* Begins or ends to follow a track's residues: so many of them, */
void ft_reuse_follow(struct ft_reuse *reuse, unsigned name, bool is_on);
unsigned ft_reuse_num_followed(const struct track *track);

/* and in one of so many windows. */
unsigned ft_reuse_num_windows(const struct track *track);

/* Ends a track's window, if it is followed in that, and begins the next one. */
void ft_reuse_begin_window(struct ft_reuse *reuse, unsigned name);

/* The rate of bursts and tracks after so many accesses, as a power of 1/2, if it is to be 2^-shift in a long program.
 * The number of accesses looked at grows with the square root of all: what error they leave depends on how many there
 * are, not on their share. */
unsigned ft_reuse_rate_shift(const struct ft_reuse *reuse, uint64_t accesses, unsigned shift);

/* Adds what a burst or window tells of its track's variances; it stands for so many accesses. */
void ft_reuse_end_window(struct ft_reuse *reuse, unsigned name, double accesses);

/* Whether bursts and tracks have cost more than they should. */
bool ft_reuse_is_dear(const struct ft_reuse *reuse);

/* ---- classes.c ---------------------------------------------------------------------------------------------- */

/* Begins to sample classes at the first rate. */
void ft_reuse_begin_classes(struct ft_reuse *reuse);

/* Counts an access to sampled classes. It has the distances of its last block: in a stream, that is the one that is
 * new. Returns whether they are known. */
bool ft_reuse_sample_classes(struct ft_reuse *reuse, const struct ft_access *access, uint32_t times,
                             struct distances *found);

/* Samples fewer if they are too many: when a phase is over, and now and then in a long burst, not where one batch
 * happens to end. */
void ft_reuse_fit_classes(struct ft_reuse *reuse);

#endif
