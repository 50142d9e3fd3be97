/* Places of a program, numbered as they come up: a piece of code in a calling context. See flow.h. */
#ifndef FORETRACE_FLOW_PLACES_H
#define FORETRACE_FLOW_PLACES_H

#include "pairs.h"

#define FT_FLOW_SYSTEM 0u /* the place of what the system reads and writes */

/* A memory operation of the place, and the local number of its block in the context's function. */
struct ft_flow_place {
    uint32_t context, operation, local;
    uint64_t loops_known; /* when it was last made sure of that the operation is in this place */
};

struct ft_flow_places {
    struct ft_flow_pairs numbers; /* by context and code */
    struct ft_flow_place *places;
    uint32_t num_places, capacity;
};

#endif
