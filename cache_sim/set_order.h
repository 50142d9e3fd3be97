/* How many lines of its set were used since a line was, for caches of any number of sets at once. See set_order.c.
 *
 * A way of a cache has `sets x line size` bytes. Lines with the same address modulo the way size, rounded down to lines,
 * share a set. Way sizes are numbered: way size w is 128 << w bytes, from 1 (256 bytes) on. */
#ifndef FORETRACE_SET_ORDER_H
#define FORETRACE_SET_ORDER_H

#include "recency.h"

#define FT_NEAR_WAYS 12u /* numbers 1 .. 12: 256 bytes to 512 KB */
#define FT_FAR_WAY 13u   /* number of 1 MB, the way size of a class */
#define FT_LAST_WAY 19u  /* 64 MB */
#define FT_NUM_CLASSES 4096u
#define FT_NEAR_DEPTH 30u /* lines of a set that are kept in order */
#define FT_BEYOND 0xffffu /* a distance larger than those that are kept */

struct ft_near;
struct ft_far;

struct ft_near *ft_near_new(void);
void ft_near_free(struct ft_near *near);
void ft_near_clear(struct ft_near *near);

/* Makes the line of `size` (see recency.h) at `address`, in block `number`, the most recent in its sets. distances[w] for
 * w from `first_way` to FT_NEAR_WAYS become its distances where these are larger: all must be 0 before the first line of
 * an access. The distance of a new line is the number of lines known in its set. Returns the number of sets changed. */
unsigned ft_near_touch(struct ft_near *near, unsigned size, uint64_t address, uint32_t number, bool is_new,
                       unsigned first_way, uint16_t *distances);

struct ft_far *ft_far_new(void);
void ft_far_free(struct ft_far *far);
void ft_far_clear_class(struct ft_far *far, unsigned class);

/* Likewise, for w from FT_FAR_WAY to FT_LAST_WAY. A new line has the distance FT_BEYOND. Returns whether
 * anything changed. */
bool ft_far_touch(struct ft_far *far, unsigned size, uint64_t address, bool is_new, uint16_t *distances);

#endif
