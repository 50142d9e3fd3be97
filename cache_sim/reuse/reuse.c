/* Three samples of one stream, for caches whose ways are small, larger, and large.
 *
 * Bursts: all accesses of a short time, for ways below 4 KB and for small fully associative caches. They see all sets,
 * for a small part of the time.
 *
 * Tracks: all accesses to some residues (set_order.h), for ways of 4 and 8 KB (MIDDLE) and of 16 to 512 KB (LARGE).
 * They see conflicts as they are, some of the sets all the time; which ones changes from window to window, in an order
 * that meets all equally often. A window lasts for a share of the accesses until then (`window_shift`): long enough to
 * see most lines again, short enough to come to many residues. In very long programs a track is not followed in each of
 * the windows.
 *
 * Which sets have the lines that are used most is chance, but how many accesses miss a direct-mapped cache of 4 KB
 * (`leaving`) is known of all operations. What tracks found is scaled by that: the accesses of theirs that miss it
 * stand for all that do.
 *
 * What bursts and tracks cannot tell is how long ago a line was used that they see for the first time. For that they
 * have the third sample: a first use that is sampled there too stands for all of them that looked like it (FIRST), and
 * its distance is that one's, divided by the number of sets.
 *
 * Classes: all accesses to some of the 256-byte blocks modulo 1 MB, for ways from 1 MB on and for large fully
 * associative caches. Whole sets of such ways are sampled, so that distances within a set are exact; those among all
 * lines are scaled by the rate (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST'15).
 *
 * An access sampled at a rate of 1/n counts as n. Rates are chosen before what they are for is seen: from the number of
 * accesses until then, so that short programs are measured exactly and long ones cheaply, from the work until then, so
 * that no program costs much, and that of bursts from the error until then. Each period of a stream (2^n bursts long)
 * has one burst, somewhere in it; windows begin and end at multiples of FT_REUSE_INTERVAL. Classes only become fewer,
 * by half each time.
 *
 * Where the program does exactly the same again and again, bursts are as rare as can be: they would see the same. Or
 * its accesses are passed over altogether: then one repetition stands for as many, in classes, tracks and bursts of its
 * own (a replay). A period's burst that would lie in what is passed over is left out; as it may lie anywhere, what the
 * period has besides is still represented as often as it should be, on average.
 *
 * Each sample has its file, as have counts, array operations, and replays; samples.h is what they share.
 */
#include "samples.h"

#include <stdlib.h>
#include <string.h>

#define FETCHED_AHEAD 4u /* accesses */

bool ft_reuse_look_at(struct ft_reuse *reuse, const struct ft_access *access, uint32_t times, bool leaves,
                      struct distances *far)
{
    const uint64_t last_byte = access->address + access->size_bytes - 1;
    const bool spans = (access->address ^ last_byte) >> FT_BLOCK_SHIFT;
    const unsigned followed =
        spans ? UINT8_MAX : reuse->followed[access->address >> FT_BLOCK_SHIFT & (FT_NUM_CLASSES - 1)];
    const bool is_far = followed & FAR_BIT && ft_reuse_sample_classes(reuse, access, times, far);
    for (unsigned track = MIDDLE; track <= LARGE; track++)
        if (followed & BIT_OF(track))
            ft_reuse_follow_access(reuse, track, access, times, reuse->times > 0, leaves, is_far ? far : NULL);
    return is_far;
}

uint64_t ft_reuse_random_below(struct ft_reuse *reuse, uint64_t limit)
{
    uint64_t z = reuse->random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % limit;
}

void ft_reuse_advance(struct ft_reuse *reuse, uint64_t accesses)
{
    reuse->num_accesses += accesses;
    while (reuse->num_accesses == reuse->phase_end)
        ft_reuse_next_phase(reuse);
    for (unsigned name = MIDDLE; name <= LARGE && reuse->num_accesses % FT_REUSE_INTERVAL == 0; name++)
        if (reuse->num_accesses >= reuse->tracks[name].end)
            ft_reuse_begin_window(reuse, name);
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

/* Writes to `chosen` which accesses may be in blocks that are followed, and to `leaves` whether each leaves a line (0
 * or 1), and counts those that do, `times` each. Returns how many are chosen. */
static inline __attribute__((always_inline)) size_t choose_of(struct ft_reuse *reuse, const struct ft_access *batch,
                                                              size_t length, uint64_t times, uint16_t *chosen,
                                                              uint8_t *leaves)
{
    struct ft_reuse_operation *const operations = reuse->operations;
    const uint8_t *const is_followed = reuse->is_followed;
    uint64_t *const mapped = reuse->mapped;
    size_t num_chosen = 0;
    for (size_t i = 0; i < length; i++) {
        const uint64_t address = batch[i].address;
        const uint64_t leaves_one = leaves_line(mapped, address);
        operations[batch[i].op].leaving += leaves_one * times;
        leaves[i] = (uint8_t)leaves_one;
        chosen[num_chosen] = (uint16_t)i;
        num_chosen += may_be_followed(is_followed, address, batch[i].size_bytes);
    }
    return num_chosen;
}

/* A function of its own has registers for all of it. */
static __attribute__((noinline)) size_t choose_once(struct ft_reuse *reuse, const struct ft_access *batch,
                                                    size_t length, uint16_t *chosen, uint8_t *leaves)
{
    return choose_of(reuse, batch, length, 1, chosen, leaves);
}

static size_t choose(struct ft_reuse *reuse, const struct ft_access *batch, size_t length, uint16_t *chosen,
                     uint8_t *leaves)
{
    return reuse->times == 1 ? choose_once(reuse, batch, length, chosen, leaves)
                             : choose_of(reuse, batch, length, (uint64_t)reuse->times, chosen, leaves);
}

/* Has brought near what accesses in sampled classes need that come some places behind number `i` of those chosen. */
static inline void fetch_ahead(const struct ft_reuse *reuse, const struct ft_access *batch, const uint16_t *chosen,
                               size_t num_chosen, size_t i)
{
    if (i + 2 * FETCHED_AHEAD < num_chosen)
        ft_recency_fetch_place(reuse->far_lines, batch[chosen[i + 2 * FETCHED_AHEAD]].address >> FT_BLOCK_SHIFT);
    if (i + FETCHED_AHEAD < num_chosen) {
        const uint64_t address = batch[chosen[i + FETCHED_AHEAD]].address, block = address >> FT_BLOCK_SHIFT;
        if (reuse->followed[block & (FT_NUM_CLASSES - 1)] & FAR_BIT) {
            ft_recency_fetch_block(reuse->far_lines, block);
            ft_far_fetch(reuse->far, address);
        }
    }
}

void ft_reuse_sample_part(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    uint16_t chosen[PART];
    uint8_t leaves[PART];
    struct distances found[FT_LINE_SIZES];
    const size_t num_chosen = choose(reuse, batch, length, chosen, leaves);
    for (size_t i = 0; i < num_chosen && !reuse->failed; i++) {
        fetch_ahead(reuse, batch, chosen, num_chosen, i);
        ft_reuse_look_at(reuse, &batch[chosen[i]], 1, leaves[chosen[i]], found);
    }
}

int ft_reuse_feed(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    while (length && !reuse->failed) {
        uint64_t left = reuse->phase_end - reuse->num_accesses;
        size_t part = length < PART ? length : PART;
        part = part < left ? part : (size_t)left;
        left = FT_REUSE_INTERVAL - reuse->num_accesses % FT_REUSE_INTERVAL;
        part = part < left ? part : (size_t)left;
        if (reuse->phase == IN_BURST) {
            size_t done = ft_reuse_burst(reuse, batch, part);
            if (done < part)
                reuse->phase_end = reuse->num_accesses + done;
            part = done;
        } else {
            ft_reuse_sample_part(reuse, batch, part);
        }
        ft_reuse_advance(reuse, part);
        if (reuse->phase == IN_BURST && reuse->num_accesses % FT_REUSE_INTERVAL == 0)
            ft_reuse_fit_classes(reuse);
        batch += part;
        length -= part;
    }
    return reuse->failed ? -1 : 0;
}

void ft_reuse_set_repeating(struct ft_reuse *reuse, bool is_repeating)
{
    reuse->is_repeating = is_repeating;
}

/* Counts those that leave a line as often as repeats from `repeat` on tell, besides once, of accesses begin .. end-1 of
 * a batch; `leaves` is of these. Returns the first repeat that may tell of others. */
static const struct ft_repeat *count_leaving_again(struct ft_reuse_operation *operations, const struct ft_access *batch,
                                                   const uint8_t *leaves, size_t begin, size_t end,
                                                   const struct ft_repeat *repeat, const struct ft_repeat *last)
{
    for (; repeat < last && repeat->begin < end; repeat++) {
        size_t i = repeat->begin > begin ? repeat->begin : begin;
        for (; i < repeat->end && i < end; i++)
            operations[batch[i].op].leaving += leaves[i - begin] ? repeat->times : 0;
        if (repeat->end > end)
            break;
    }
    return repeat;
}

void ft_reuse_sample(struct ft_reuse *reuse, const struct ft_access *batch, size_t length,
                     const struct ft_repeat *repeats, size_t num_repeats)
{
    const struct ft_repeat *repeat = repeats, *unseen = repeats, *const last = repeats + num_repeats;
    struct distances found[FT_LINE_SIZES];
    uint16_t chosen[PART];
    uint8_t leaves[PART];
    for (size_t begin = 0; begin < length; begin += PART) {
        const size_t part = length - begin < PART ? length - begin : PART;
        const size_t num_chosen = choose(reuse, batch + begin, part, chosen, leaves);
        unseen = count_leaving_again(reuse->operations, batch, leaves, begin, begin + part, unseen, last);
        for (size_t i = 0; i < num_chosen && !reuse->failed; i++) {
            const size_t place = begin + chosen[i];
            fetch_ahead(reuse, batch + begin, chosen, num_chosen, i);
            while (repeat < last && repeat->end <= place)
                repeat++;
            const uint32_t more = repeat < last && repeat->begin <= place ? repeat->times : 0;
            ft_reuse_look_at(reuse, &batch[place], 1 + more, leaves[chosen[i]], found);
        }
    }
}

int ft_reuse_end_sample(struct ft_reuse *reuse, uint64_t num_accesses)
{
    ft_reuse_advance(reuse, num_accesses);
    return reuse->failed ? -1 : 0;
}

struct ft_reuse_period ft_reuse_period_of(const struct ft_reuse *reuse, unsigned number)
{
    return reuse->periods.planned[number % PLANNED_PERIODS];
}

unsigned ft_reuse_period_at_hand(const struct ft_reuse *reuse)
{
    return reuse->periods.num_begun - 1;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

struct ft_reuse *ft_reuse_new(const struct ft_reuse_options *options)
{
    struct ft_reuse *reuse = calloc(1, sizeof *reuse);
    if (!reuse)
        return NULL;
    reuse->options = *options;
    reuse->near_lines = ft_recency_new();
    reuse->far_lines = ft_recency_new();
    reuse->far = ft_far_new();
    reuse->counts_size = 4096;
    reuse->counts = calloc(reuse->counts_size, sizeof *reuse->counts);
    bool good = reuse->near_lines && reuse->far_lines && reuse->far && reuse->counts;
    for (unsigned name = SMALL; good && name < NUM_TRACKS; name++)
        good = ft_reuse_begin_track(reuse, name);
    if (!good) {
        ft_reuse_free(reuse);
        return NULL;
    }
    ft_reuse_begin_classes(reuse);
    reuse->times = 1;
    ft_reuse_follow(reuse, MIDDLE, true);
    ft_reuse_follow(reuse, LARGE, true);
    ft_recent_init(&reuse->recent, FT_LINE_SHIFT, FT_BLOCK_SHIFT, FT_BLOCK_SHIFT + FT_REUSE_MIDDLE_WAY - 1);
    ft_reuse_begin_burst(reuse, options->exact_accesses);
    reuse->periods.planned[0] = (struct ft_reuse_period){0, options->exact_accesses, options->exact_accesses};
    reuse->periods.num_begun = reuse->periods.num_planned = 1;
    reuse->is_counted = true;
    return reuse;
}

void ft_reuse_free(struct ft_reuse *reuse)
{
    if (!reuse)
        return;
    ft_recency_free(reuse->near_lines);
    ft_recency_free(reuse->far_lines);
    for (unsigned name = SMALL; name < NUM_TRACKS; name++)
        ft_near_free(reuse->tracks[name].near);
    ft_far_free(reuse->far);
    free(reuse->operations);
    for (size_t op = 0; op < reuse->num_operations; op++)
        free(reuse->near_counts[op]);
    free(reuse->near_counts);
    free(reuse->counts);
    free(reuse);
}

int ft_reuse_reserve(struct ft_reuse *reuse, size_t num_operations)
{
    if (num_operations <= reuse->num_operations)
        return 0;
    const size_t before = reuse->num_operations, number = num_operations * 2;
    struct ft_reuse_operation *operations = realloc(reuse->operations, number * sizeof *operations);
    if (operations)
        reuse->operations = operations;
    struct near_counts **counts = realloc(reuse->near_counts, number * sizeof *counts);
    if (counts)
        reuse->near_counts = counts;
    if (!operations || !counts)
        return -1;
    memset(operations + before, 0, (number - before) * sizeof *operations);
    for (size_t op = before; op < number; op++)
        counts[op] = NULL;
    reuse->num_operations = number;
    return 0;
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

struct ft_reuse_summary ft_reuse_summary(const struct ft_reuse *reuse)
{
    uint64_t followed[NUM_TRACKS];
    for (unsigned name = SMALL; name < NUM_TRACKS; name++) {
        const struct track *track = &reuse->tracks[name];
        followed[name] = track->accesses;
        if (track->is_on)
            followed[name] += (reuse->num_accesses - track->begin) * ft_reuse_num_windows(track);
    }
    uint64_t in_burst = reuse->phase == IN_BURST ? reuse->num_accesses - reuse->burst_begin : 0;
    return (struct ft_reuse_summary){
        .accesses = reuse->num_accesses,
        .burst_accesses = reuse->burst_accesses + in_burst,
        .bursts = reuse->num_bursts + (in_burst > 0),
        .class_shift = reuse->class_shift,
        .middle_accesses = followed[MIDDLE],
        .large_accesses = followed[LARGE],
        .known_blocks = (uint32_t)ft_recency_lines(reuse->far_lines, FT_LINE_SIZES - 1),
    };
}

size_t ft_reuse_operations(const struct ft_reuse *reuse)
{
    return reuse->num_operations;
}

const struct ft_reuse_operation *ft_reuse_sampled(const struct ft_reuse *reuse)
{
    return reuse->operations;
}

const struct ft_reuse_variances *ft_reuse_variances(const struct ft_reuse *reuse)
{
    return &reuse->variances;
}

const ft_reuse_group *ft_reuse_groups(const struct ft_reuse *reuse)
{
    return reuse->groups;
}
