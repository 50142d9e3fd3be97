/* A branch predictor of the kind that processors have had since about 2015: what it would not have foreseen.
 *
 * TAGE for conditional branches and ITTAGE for jumps and calls to registers or memory (Seznec and Michaud, "A case for
 * (partially) TAgged GEometric history length branch prediction", JILP 2006): a table by the branch alone, and tagged
 * tables with ever longer histories, of which the longest that matches decides. The history is of both kinds of
 * branches. Returns are foreseen.
 */
#ifndef FORETRACE_BRANCHES_H
#define FORETRACE_BRANCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ft_branch_kind { FT_BRANCH_NONE, FT_BRANCH_CONDITIONAL, FT_BRANCH_INDIRECT };

struct ft_branch {
    uint32_t place;  /* which branch */
    uint32_t target; /* where it went; of a conditional one, 1 if it was taken and 0 if not */
    uint8_t kind;
};

/* Writes to `missed` 1 for each of the branches, in the order in which they ran, that was not foreseen, else 0. False
 * when memory ran out. */
bool ft_branches_predict(const struct ft_branch *branches, size_t n, uint8_t *missed);

#endif
