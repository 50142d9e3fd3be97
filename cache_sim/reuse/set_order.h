/* How many lines of its set were used since a line was, for caches of any number of sets at once. See set_order.c.
 *
 * A way of a cache has `sets x line size` bytes. Lines with the same address modulo the way size, rounded down to
 * lines, share a set. Way sizes are numbered: way size w is 128 << w bytes, from 1 (256 bytes) on. */
#ifndef FORETRACE_SET_ORDER_H
#define FORETRACE_SET_ORDER_H

#include "recency.h"

#define FT_NEAR_WAYS 12u /* numbers 1 .. 12: 256 bytes to 512 KB */
#define FT_FAR_WAY 13u   /* number of 1 MB, the way size of a class */
#define FT_LAST_WAY 19u  /* 64 MB */
#define FT_NUM_CLASSES 4096u
#define FT_NEAR_DEPTH 30u /* distances below are told apart in ways 1 .. 12 */
#define FT_BEYOND 0xffffu /* a distance larger than those that are told apart */

struct ft_near;
struct ft_far;

/* For ways first_way .. last_way. Blocks with the same number modulo first_way share sets, or do not, whatever other
 * blocks do: they are a residue, numbered 0 .. ft_near_residues()-1. NULL when memory ran out. */
struct ft_near *ft_near_new(unsigned first_way, unsigned last_way);
void ft_near_free(struct ft_near *near);
unsigned ft_near_residues(const struct ft_near *near);

/* Forgets the lines of a residue. */
void ft_near_clear(struct ft_near *near, unsigned residue);

enum ft_near_use {
    FT_NEAR_SAME,  /* was the most recent of all its sets already: distances are 0 */
    FT_NEAR_KNOWN, /* its distances are known */
    FT_NEAR_NEW,   /* was not used since lines were forgotten: the distances are how many were used since */
};

/* Where a block's lines are. */
struct ft_near_block {
    size_t first_set;
    uint32_t line;
};
struct ft_near_block ft_near_find(const struct ft_near *near, uint64_t block);

/* Makes a line the most recent in its sets: `size` and `part` are those of recency.h. `distances`, by way from
 * first_way on, become its distances where these are larger: all must be 0 before the first line of an access. NULL:
 * nobody wants them. */
enum ft_near_use ft_near_touch(struct ft_near *near, struct ft_near_block block, unsigned size, unsigned part,
                               uint16_t *distances);

struct ft_far *ft_far_new(void);
void ft_far_free(struct ft_far *far);
void ft_far_clear_class(struct ft_far *far, unsigned class);

/* The same for ways from FT_FAR_WAY to FT_LAST_WAY. A new line has the distance FT_BEYOND. Returns whether
 * anything changed. */
bool ft_far_touch(struct ft_far *far, unsigned size, uint64_t address, bool is_new, uint16_t *distances);

/* Has brought near what touching the lines at an address needs. */
void ft_far_fetch(const struct ft_far *far, uint64_t address);

#endif
