/* Interned sets of places, and states: a writer, an object, and a set of readers. See flow.h.
 *
 * Most sets and states are only passed through, on the way to one that is used: by a version that has bytes, or by
 * memory. So all that is used is brought over into new tables now and then (ft_flow_tidy), and limits hold for what is
 * used.
 */
#ifndef FORETRACE_FLOW_STATES_H
#define FORETRACE_FLOW_STATES_H

#include "flow.h"
#include "pairs.h"

struct ft_flow_set {
    uint32_t first, length;        /* in `members`, ascending; FT_FLOW_MERGED's are elsewhere */
    uint32_t last_place, last_set; /* the place that was added last, and the set that came of it */
};

struct ft_flow_state {
    uint32_t writer, set, object;
    uint32_t origin;                   /* number of the pair of writer and object */
    uint32_t last_place, last_state;   /* the place that read last, and the state that came of it */
    uint32_t store_place, store_state; /* the same of the last store */
};

struct ft_flow_states {
    struct ft_flow_set *sets;
    uint32_t num_sets, sets_capacity, max_sets;
    uint64_t used; /* the size of what the last tidying kept */
    uint32_t *members;
    uint32_t num_members, members_capacity;
    bool *is_merged; /* by place: whether FT_FLOW_MERGED has it */
    uint32_t merged_capacity;
    uint32_t *buckets; /* sets by their members: open addressing, number + 1 */
    uint32_t num_buckets;

    struct ft_flow_state *states;
    uint64_t (*bytes)[FT_FLOW_PARTS]; /* by state */
    uint32_t num_states, states_capacity, bytes_capacity;
    uint32_t num_origins;
    struct ft_flow_pairs unions, origins, pairs, reads; /* (set, place): set; (writer, object): origin; (origin, set):
                                                           state; (state, place): state */
};

/* Whether there is so much, compared with what the last tidying kept, that what is used no more should go. */
bool ft_flow_states_have_grown(const struct ft_flow_states *s);

/* All that is there counts as used. */
void ft_flow_states_are_tidy(struct ft_flow_states *s);

bool ft_flow_states_init(struct ft_flow_states *s, uint32_t max_sets);
void ft_flow_states_free(struct ft_flow_states *s);

/* Begins anew with what is used: `s` becomes empty, and its content `before`. */
bool ft_flow_states_renew(struct ft_flow_states *s, struct ft_flow_states *before);

/* The set and the state that stand for one of `before`, each place being `place_of[place]` now. `map` has what was
 * found so far, by number, plus 1. FT_FLOW_NONE when memory ran out. */
uint32_t ft_flow_set_again(struct ft_flow_states *s, const struct ft_flow_states *before, const uint32_t *place_of,
                           uint32_t *map, uint32_t set);
uint32_t ft_flow_state_again(struct ft_flow_states *s, const struct ft_flow_states *before, const uint32_t *place_of,
                             uint32_t *set_map, uint32_t *state_map, uint32_t state);

/* The rest of the functions below. FT_FLOW_NONE when memory ran out. */
uint32_t ft_flow_union_slow(struct ft_flow_states *s, uint32_t set, uint32_t place);
uint32_t ft_flow_read_slow(struct ft_flow_states *s, uint32_t state, uint32_t place);
uint32_t ft_flow_written_slow(struct ft_flow_states *s, uint32_t state, uint32_t place);

/* The state of a version, whose bytes belong to another object from now on. */
uint32_t ft_flow_moved(struct ft_flow_states *s, uint32_t state, uint32_t object);

/* The state of an object's bytes that no store wrote, and nobody has read. */
uint32_t ft_flow_untouched(struct ft_flow_states *s, uint32_t object);

/* A set with one more place. */
static inline uint32_t ft_flow_union(struct ft_flow_states *s, uint32_t set, uint32_t place)
{
    const struct ft_flow_set *of = &s->sets[set];
    return of->last_place == place ? of->last_set : ft_flow_union_slow(s, set, place);
}

/* The state of a version that a place has read. */
static inline uint32_t ft_flow_read(struct ft_flow_states *s, uint32_t state, uint32_t place)
{
    const struct ft_flow_state *of = &s->states[state];
    return __builtin_expect(of->last_place == place, 1) ? of->last_state : ft_flow_read_slow(s, state, place);
}

/* The state of a version that a place has just written, where `state` was. */
static inline uint32_t ft_flow_written(struct ft_flow_states *s, uint32_t state, uint32_t place)
{
    const struct ft_flow_state *of = &s->states[state];
    return __builtin_expect(of->store_place == place, 1) ? of->store_state : ft_flow_written_slow(s, state, place);
}

#endif
