/* What the loops of a program carry from one iteration to a later one, by way of memory.
 *
 * Time is the number of block executions so far. A *level* is a loop that is being run, by its thread and in its
 * calling context: the time at which it was entered, and the time at which its current iteration began. Levels are
 * nested, so these times ascend from the outermost to the innermost one. Shadow memory holds for each granule of 8
 * bytes (4 or 1, on pages with smaller or unaligned accesses) who wrote it last and when, who read that first, and who
 * read it last.
 *
 * An access that meets an earlier one of its thread, at time t, depends on it. The innermost level entered by then
 * either carries the dependence, where its current iteration began later than t; or both are in one iteration of it.
 *
 * The tree learns of a loop at its first back edge. The loop's entry is then the time at which its header last ran, so
 * that no iteration is lost.
 */
#ifndef FORETRACE_DEPENDENCES_H
#define FORETRACE_DEPENDENCES_H

#include "tracer/reader/execution_tree/tree.h"

struct ft_dependences;

enum ft_dependence {
    FT_FLOW_WITHIN, /* written and read in one iteration of the loop, outside of any loop inside it */
    FT_FLOW,        /* written, read in a later iteration */
    FT_OUTPUT,      /* written, and again in a later iteration */
    FT_ANTI,        /* read, overwritten in a later iteration */
    FT_UPDATE, /* read, and overwritten before the same operation reads anything else, in a loop or not; has no loop */
    FT_STORES, /* all stores of an operation; there is neither a source nor a loop */
    FT_WRITTEN /* stored where no store of the same iteration went. That is so for the row's loop and all those inside
                * it, down to the innermost one around the store: the source is that loop, no operation */
};

/* NULL when out of memory. Shadow memory takes `max_bytes`; where the program touches more, pages are followed by
 * chance. The tree outlives it. */
struct ft_dependences *ft_dependences_new(const struct ft_tree *tree, uint64_t max_bytes);
void ft_dependences_free(struct ft_dependences *d);

/* What comes is of another thread, as the tree has it. False when memory ran out. */
bool ft_dependences_switch(struct ft_dependences *d, uint32_t thread);

/* Begins anew after blocks and accesses that were left out: all loops are entered by what comes next, and nothing
 * depends on what was before. ft_dependences_switch is to come next. */
void ft_dependences_resume(struct ft_dependences *d);

/* How many chunks of the stream, of those that may be examined, are to be from here on so that more is known of the
 * loops that the tree stands in; 0 for none. To be asked where a chunk begins. They count as examined for these loops.
 */
uint32_t ft_dependences_wanted(struct ft_dependences *d, uint32_t may_be_examined);

/* A block has begun, which the tree knows of. False when memory ran out. */
bool ft_dependences_enter(struct ft_dependences *d);

/* An access by an instruction (0, 1, ...) of that block. False when memory ran out. */
bool ft_dependences_access(struct ft_dependences *d, uint64_t address, uint32_t op, uint32_t size_bytes, bool is_store,
                           uint32_t instruction);

/* An array operation begins, or goes on with another record; its points are iterations of a loop. Both are false when
 * memory ran out. */
bool ft_dependences_array(struct ft_dependences *d, uint32_t array_id, bool goes_on);
bool ft_dependences_point(struct ft_dependences *d);

#define FT_DEPENDENCE_COLUMNS 8
/* kind (enum ft_dependence), source and sink operation, loop (a row below), count, least and most distance in
 * iterations, bytes. Returns how many rows there are, and writes them if `out` is not NULL. */
uint64_t ft_dependences_rows(const struct ft_dependences *d, uint64_t *out);

#define FT_DEPENDENCE_LOOP_COLUMNS 7
/* node (its rank in the tree's rows), block of the function's entry, block of the header, array operation (0: none),
 * iterations, entries, the loop around it when it was entered first (a row, UINT32_MAX: none) */
uint64_t ft_dependences_loops(const struct ft_dependences *d, uint64_t *out);

/* The share of memory pages that were followed. */
double ft_dependences_share(const struct ft_dependences *d);

#endif
