/* In which order lines were used last, for lines of 32, 64, 128 and 256 bytes at once. See recency.c. */
#ifndef FORETRACE_RECENCY_H
#define FORETRACE_RECENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_LINE_SIZES 4u
#define FT_LINE_SHIFT 5u /* of the smallest */
#define FT_BLOCK_SHIFT 8u /* of the largest: a block */
#define FT_LINES_OF_BLOCK 15u /* 8 + 4 + 2 + 1 */
#define FT_MAX_BLOCKS (1u << 15)
#define FT_NEW_LINE UINT64_MAX

struct ft_recency;

struct ft_recency *ft_recency_new(void);
void ft_recency_free(struct ft_recency *recency);

/* Forgets all blocks. */
void ft_recency_clear(struct ft_recency *recency);

/* Forgets the blocks for which `kept` is false; the others may get other numbers. */
void ft_recency_filter(struct ft_recency *recency, bool (*kept)(uint64_t block, const void *context),
                       const void *context);

/* The number (1 .. FT_MAX_BLOCKS) of a block, which becomes known if it is not; 0 if it is not and there is no room. */
uint32_t ft_recency_block(struct ft_recency *recency, uint64_t block);

/* Have brought near what finding a block's number needs: first the one, then the other. */
void ft_recency_fetch_place(const struct ft_recency *recency, uint64_t block);
void ft_recency_fetch_block(const struct ft_recency *recency, uint64_t block);

/* Makes a line the most recent one. `size` is 0 for lines of 32 bytes to 3 for those of 256, `part` is the line's place
 * in its block. Returns how many lines of that size were used since it was, or FT_NEW_LINE. */
uint64_t ft_recency_touch(struct ft_recency *recency, uint32_t number, unsigned size, unsigned part);

/* Of that size, among known blocks. */
size_t ft_recency_lines(const struct ft_recency *recency, unsigned size);

#endif
