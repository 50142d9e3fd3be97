/* Places of a program, numbered as they come up: a piece of code in a calling context. See flow.h.
 *
 * A library's code is the program's that calls it: all that runs between a call into libraries and its return, other
 * than functions of the program that libraries call back, is one place, and all of the dynamic loader is one. Else each
 * lazy binding and each formatted number would be hundreds of places.
 */
#ifndef FORETRACE_FLOW_PLACES_H
#define FORETRACE_FLOW_PLACES_H

#include "pairs.h"

#define FT_FLOW_SYSTEM 0u /* the place of what the system reads and writes */

/* A memory operation of the place, and the local number of its block in the context's function. */
struct ft_flow_place {
    uint32_t context, operation, local;
    uint64_t loops_known; /* when it was last made sure of that the operation is in this place */
};

enum ft_code_owner { FT_CODE_PROGRAM, FT_CODE_LIBRARY, FT_CODE_LOADER };

struct ft_code_range {
    uint64_t first, end; /* guest addresses [first, end) */
    uint64_t owner;      /* enum ft_code_owner */
};

struct ft_flow_context {
    uint32_t counts_as; /* the context whose place its accesses are of */
    uint32_t above;     /* itself, or of the loader's the nearest context above that is none of it; FT_FLOW_NONE */
    uint32_t owner;     /* enum ft_code_owner */
};

struct ft_flow_places {
    struct ft_flow_pairs numbers; /* by context and code */
    struct ft_flow_place *places;
    uint32_t num_places, capacity;
    struct ft_code_range *ranges; /* by address, without overlaps; what lies in none is the program's */
    uint32_t num_ranges;
    uint32_t loader;                  /* the first of its contexts; FT_FLOW_NONE */
    uint32_t version;                 /* of the ranges */
    struct ft_flow_context *contexts; /* by number */
    uint32_t num_contexts, contexts_capacity;
};

#endif
