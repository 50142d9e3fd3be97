/* What the nodes of the execution tree did before each call of a rank (FT_TAG_CALL of stream.h).
 *
 * Work since the call before is added up by call. Samples of software-defined events want it, too, by sample: each
 * keeps the work that it has not seen.
 */
#ifndef FORETRACE_READER_RANK_CALLS_H
#define FORETRACE_READER_RANK_CALLS_H

#include "tracer/reader/execution_tree/tree.h"

#include <stdbool.h>

#define FT_MAX_CALLS (1u << 22)

struct ft_rank_calls {
    struct ft_tree_works *works; /* by call */
    uint32_t number, capacity;
    bool is_sampled;             /* there are samples of events */
    struct ft_tree_works ahead;  /* that samples of events took since the last call, */
    struct ft_tree_works behind; /* and that calls took since the last sample */
};

/* The calls begin here: what the thread did before is no call's. False when memory ran out. */
bool ft_rank_calls_begin(struct ft_rank_calls *calls, struct ft_tree *tree);

/* A call, before which the thread did what is new in the tree. False when memory ran out. */
bool ft_rank_calls_read(struct ft_rank_calls *calls, uint32_t call, struct ft_tree *tree);

/* Work that a sample of events takes, to which what calls took is added; it is kept for the next call as well. False
 * when memory ran out. */
bool ft_rank_calls_sampled(struct ft_rank_calls *calls, struct ft_tree_works *works);

void ft_rank_calls_free(struct ft_rank_calls *calls);

#endif
