/* Classes: see reuse.c. */
#include "samples.h"

#define ACCESSES_PER_FAR_WORK 32u
#define FREE_FAR_WORK (UINT64_C(1) << 21)

/* A permutation of classes, of which the first are sampled, in no order that a program's strides could agree with. Of
 * the first 2^n, n at most 6, each has other n lowest bits, so that residues of tracks have equally many of them; and
 * of the first 64, each has other upper six bits. */
unsigned ft_reuse_class_rank(uint64_t block)
{
    const unsigned low = (unsigned)block & 63u, high = (unsigned)block >> 6 & 63u;
    unsigned first = (low ^ low << 2) * 45u, upper = low; /* the first keeps what the lowest bits tell apart */
    first += first * first | 5u;
    upper = ((upper ^ upper >> 2) * 59u) & 63u;
    upper = ((upper ^ upper >> 3) * 33u) & 63u;
    return (first & 63u) | (((upper ^ upper >> 2 ^ high) * 43u) & 63u) << 6;
}

/* Of the sampled classes, each group has equally many, some of all residues. */
static unsigned group_of(uint64_t block)
{
    const unsigned rank = ft_reuse_class_rank(block);
    return (rank + (rank >> 3) * 3) % FT_REUSE_GROUPS;
}

static bool is_sampled(uint64_t block, const void *context)
{
    return ((const struct ft_reuse *)context)->followed[block & (FT_NUM_CLASSES - 1)] & FAR_BIT;
}

void ft_reuse_begin_classes(struct ft_reuse *reuse)
{
    reuse->class_shift = reuse->options.first_class_shift;
    for (unsigned class = 0; class < FT_NUM_CLASSES; class++)
        reuse->followed[class] = ft_reuse_class_rank(class) < FT_NUM_CLASSES >> reuse->class_shift ? FAR_BIT : 0;
}

static void halve_classes(struct ft_reuse *reuse)
{
    ft_reuse_settle_far(reuse);
    reuse->class_shift++;
    for (unsigned class = 0; class < FT_NUM_CLASSES; class++)
        if (is_sampled(class, reuse) && ft_reuse_class_rank(class) >= FT_NUM_CLASSES >> reuse->class_shift) {
            reuse->followed[class] &= (uint8_t)~FAR_BIT;
            reuse->is_followed[class] = reuse->followed[class] > 0;
            ft_far_clear_class(reuse->far, class);
        }
    ft_recency_filter(reuse->far_lines, is_sampled, reuse);
}

/* Whether there are more classes than the accesses until now call for. */
static bool samples_too_many(const struct ft_reuse *reuse)
{
    if (reuse->class_shift == FT_REUSE_MAX_CLASS_SHIFT)
        return false;
    return (reuse->class_shift < reuse->options.class_shift &&
            reuse->num_accesses >> (reuse->class_shift - reuse->options.first_class_shift) >=
                reuse->options.exact_accesses) ||
           reuse->far_work > FREE_FAR_WORK + reuse->num_accesses / ACCESSES_PER_FAR_WORK;
}

void ft_reuse_fit_classes(struct ft_reuse *reuse)
{
    while (!reuse->is_replaying && samples_too_many(reuse))
        halve_classes(reuse);
}

static uint64_t scaled(const struct ft_reuse *reuse, uint64_t distance)
{
    return distance > MAX_DISTANCE >> reuse->class_shift ? FT_NEW_LINE : distance << reuse->class_shift;
}

/* One block of an access. Returns whether it is sampled; then `found` has the distances for each line size. */
static bool touch_far(struct ft_reuse *reuse, uint64_t first_byte, uint64_t last_byte, uint32_t times,
                      struct distances *found)
{
    uint64_t block = first_byte >> FT_BLOCK_SHIFT;
    uint32_t number = 0;
    while (is_sampled(block, reuse) && !(number = ft_recency_block(reuse->far_lines, block))) {
        if (reuse->class_shift == FT_REUSE_MAX_CLASS_SHIFT)
            return false; /* more than 8 GB are in use */
        halve_classes(reuse);
    }
    if (!number)
        return false;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        unsigned shift = FT_LINE_SHIFT + size, mask = 7u >> size;
        found[size] = (struct distances){{0}, 0, false, false};
        for (uint64_t line = first_byte >> shift; line <= last_byte >> shift; line++) {
            uint64_t distance = ft_recency_touch(reuse->far_lines, number, size, (unsigned)line & mask);
            if (distance == 0)
                continue; /* the most recent line of all is that of its sets, too */
            bool is_new = distance == FT_NEW_LINE;
            reuse->far_work += times * (1 + ft_far_touch(reuse->far, size, line << shift, is_new, found[size].ways));
            distance = scaled(reuse, distance);
            if (distance > found[size].one_set)
                found[size].one_set = distance;
        }
    }
    return true;
}

bool ft_reuse_sample_classes(struct ft_reuse *reuse, const struct ft_access *access, uint32_t times,
                             struct distances *found)
{
    uint64_t last_byte = access->address + access->size_bytes - 1, block_mask = (UINT64_C(1) << FT_BLOCK_SHIFT) - 1;
    bool known = false;
    for (uint64_t first = access->address;; first = (first | block_mask) + 1) {
        uint64_t last = (first | block_mask) < last_byte ? first | block_mask : last_byte;
        known = touch_far(reuse, first, last, times, found);
        if (last == last_byte)
            break;
    }
    unsigned group = group_of(last_byte >> FT_BLOCK_SHIFT);
    for (unsigned size = 0; known && size < FT_LINE_SIZES; size++)
        ft_reuse_count_far(reuse, access->op, group, size, times, &found[size]);
    return known;
}
