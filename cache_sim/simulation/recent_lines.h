/* Accesses to the line that was used last in its set, which change nothing in any cache with least recently used lines
 * replaced: they hit, and leave all in the order it had. Found without a look-up, and left out.
 *
 * `lines` holds, for each set of a cache whose sets are unions of sets of all caches simulated, the line used last, in
 * the smallest size of line. If that is an access's line, it is the line used last in its set of every one of them.
 */
#ifndef FORETRACE_RECENT_LINES_H
#define FORETRACE_RECENT_LINES_H

#include "access.h"

#define FT_RECENT_SETS 64u

struct ft_recent_lines {
    unsigned line_shift; /* of the smallest line */
    unsigned set_shift;  /* the set is in the lowest bits of address >> set_shift */
    uint64_t set_mask;
    uint64_t lines[FT_RECENT_SETS];
};

/* Knows no line any more: after accesses that it was not told of. */
static inline void ft_recent_clear(struct ft_recent_lines *recent)
{
    for (uint64_t i = 0; i <= recent->set_mask; i++)
        recent->lines[i] = UINT64_MAX;
}

/* For caches with lines of at least 1 << line_shift bytes, all of which have their set in bits set_shift .. end-1 of
 * the address, if nowhere else. */
static inline void ft_recent_init(struct ft_recent_lines *recent, unsigned line_shift, unsigned set_shift, unsigned end)
{
    recent->line_shift = line_shift;
    recent->set_shift = set_shift;
    recent->set_mask = set_shift < end ? (UINT64_C(1) << (end - set_shift)) - 1 : 0;
    if (recent->set_mask >= FT_RECENT_SETS)
        recent->set_mask = FT_RECENT_SETS - 1;
    ft_recent_clear(recent);
}

static inline uint64_t *ft_recent_of(struct ft_recent_lines *recent, uint64_t address)
{
    return &recent->lines[address >> recent->set_shift & recent->set_mask];
}

/* Uses the lines of an access that has several. Returns whether any was not the one used last in its set. */
static __attribute__((noinline)) bool ft_recent_use_several(struct ft_recent_lines *recent, uint64_t first,
                                                            uint64_t last)
{
    bool changes = false;
    for (uint64_t line = first >> recent->line_shift; line <= last >> recent->line_shift; line++) {
        uint64_t *used = ft_recent_of(recent, line << recent->line_shift);
        changes |= *used != line;
        *used = line;
    }
    return changes;
}

/* Uses an access's lines. Returns whether that changes anything. */
static inline bool ft_recent_use(struct ft_recent_lines *recent, uint64_t address, uint64_t size)
{
    const uint64_t last = address + size - 1, line = address >> recent->line_shift;
    if (__builtin_expect((address ^ last) >> recent->line_shift != 0, 0))
        return ft_recent_use_several(recent, address, last);
    uint64_t *used = ft_recent_of(recent, address);
    const bool changes = *used != line;
    *used = line;
    return changes;
}

#endif
