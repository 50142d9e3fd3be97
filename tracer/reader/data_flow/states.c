/* Interned sets and states. See states.h. */
#include "states.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STATES (1u << 20) /* beyond, a version's readers are FT_FLOW_MERGED */
#define MAX_MEMBERS (1u << 24) /* of all sets: 64 MiB */
#define FEW (UINT64_C(1) << 17) /* not worth tidying */
#define MANY (UINT64_C(1) << 22) /* too much to wait until it has doubled */

/* ---- sets --------------------------------------------------------------------------------------------------------- */

static bool is_in(const struct ft_flow_states *s, uint32_t set, uint32_t place)
{
    if (set == FT_FLOW_MERGED)
        return place < s->merged_capacity && s->is_merged[place];
    const uint32_t *members = s->members + s->sets[set].first;
    uint32_t low = 0, high = s->sets[set].length;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (members[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->sets[set].length && members[low] == place;
}

static uint64_t hash_of(const uint32_t *members, uint32_t length)
{
    uint64_t hash = length;
    for (uint32_t i = 0; i < length; i++)
        hash = ft_flow_mixed(hash ^ members[i]);
    return hash;
}

static void place_set(struct ft_flow_states *s, uint32_t number)
{
    const struct ft_flow_set *set = &s->sets[number];
    uint64_t i = hash_of(s->members + set->first, set->length);
    while (s->buckets[i & (s->num_buckets - 1)])
        i++;
    s->buckets[i & (s->num_buckets - 1)] = number + 1;
}

/* The set whose members are the last `length` in the list of all; they are taken off the list if it is known already.
 */
static uint32_t intern_last(struct ft_flow_states *s, uint32_t length)
{
    const uint32_t first = s->num_members - length, *members = s->members + first;
    for (uint64_t i = hash_of(members, length); s->buckets[i & (s->num_buckets - 1)]; i++) {
        const uint32_t known = s->buckets[i & (s->num_buckets - 1)] - 1;
        if (s->sets[known].length == length &&
            memcmp(s->members + s->sets[known].first, members, length * sizeof *members) == 0) {
            s->num_members = first;
            return known;
        }
    }
    const uint32_t number = s->num_sets;
    if (!ft_reserve(&s->sets, &s->sets_capacity, number, sizeof *s->sets))
        return FT_FLOW_NONE;
    s->sets[number] = (struct ft_flow_set){.first = first, .length = length, .last_place = FT_FLOW_NONE};
    s->num_sets++;
    if (2 * s->num_sets > s->num_buckets) {
        uint32_t *bigger = calloc(2 * (size_t)s->num_buckets, sizeof *bigger);
        if (!bigger)
            return FT_FLOW_NONE;
        free(s->buckets);
        s->buckets = bigger;
        s->num_buckets *= 2;
        for (uint32_t i = 0; i < s->num_sets; i++)
            if (i != FT_FLOW_MERGED)
                place_set(s, i);
    } else {
        place_set(s, number);
    }
    return number;
}

static bool add_to_merged(struct ft_flow_states *s, uint32_t place)
{
    if (!ft_reserve(&s->is_merged, &s->merged_capacity, place, sizeof *s->is_merged))
        return false;
    s->is_merged[place] = true;
    return true;
}

/* FT_FLOW_MERGED, with all of a set. */
static uint32_t merge(struct ft_flow_states *s, uint32_t set)
{
    for (uint32_t i = 0; set != FT_FLOW_MERGED && i < s->sets[set].length; i++)
        if (!add_to_merged(s, s->members[s->sets[set].first + i]))
            return FT_FLOW_NONE;
    return FT_FLOW_MERGED;
}

/* A set that is new to us with one more place. */
static uint32_t add_place(struct ft_flow_states *s, uint32_t set, uint32_t place)
{
    if (is_in(s, set, place))
        return set;
    if (set == FT_FLOW_MERGED || s->num_sets >= s->max_sets || s->num_members + s->sets[set].length >= MAX_MEMBERS)
        return add_to_merged(s, place) ? merge(s, set) : FT_FLOW_NONE;
    const uint32_t length = s->sets[set].length;
    if (!ft_reserve(&s->members, &s->members_capacity, s->num_members + length, sizeof *s->members))
        return FT_FLOW_NONE;
    const uint32_t *from = s->members + s->sets[set].first;
    uint32_t *to = s->members + s->num_members, i = 0;
    for (; i < length && from[i] < place; i++)
        to[i] = from[i];
    to[i] = place;
    for (; i < length; i++)
        to[i + 1] = from[i];
    s->num_members += length + 1;
    return intern_last(s, length + 1);
}

uint32_t ft_flow_union_slow(struct ft_flow_states *s, uint32_t set, uint32_t place)
{
    uint32_t found = set == FT_FLOW_MERGED ? FT_FLOW_NONE : ft_flow_pairs_find(&s->unions, set, place);
    if (found == FT_FLOW_NONE) {
        found = add_place(s, set, place);
        if (found == FT_FLOW_NONE || (set != FT_FLOW_MERGED && !ft_flow_pairs_put(&s->unions, set, place, found)))
            return FT_FLOW_NONE;
    }
    s->sets[set].last_place = place;
    s->sets[set].last_set = found;
    return found;
}

/* ---- states -------------------------------------------------------------------------------------------------------- */

static uint32_t origin_of(struct ft_flow_states *s, uint32_t writer, uint32_t object)
{
    const uint32_t number = ft_flow_pairs_find(&s->origins, writer, object);
    if (number != FT_FLOW_NONE)
        return number;
    return ft_flow_pairs_put(&s->origins, writer, object, s->num_origins) ? s->num_origins++ : FT_FLOW_NONE;
}

static uint32_t state_of(struct ft_flow_states *s, uint32_t writer, uint32_t object, uint32_t set)
{
    const uint32_t origin = origin_of(s, writer, object);
    uint32_t number = origin == FT_FLOW_NONE ? FT_FLOW_NONE : ft_flow_pairs_find(&s->pairs, origin, set);
    if (number != FT_FLOW_NONE || origin == FT_FLOW_NONE)
        return number;
    if (s->num_states >= MAX_STATES && set > FT_FLOW_MERGED)
        return merge(s, set) == FT_FLOW_NONE ? FT_FLOW_NONE : state_of(s, writer, object, FT_FLOW_MERGED);
    number = s->num_states;
    if (!ft_reserve(&s->states, &s->states_capacity, number, sizeof *s->states) ||
        !ft_reserve(&s->bytes, &s->bytes_capacity, number, sizeof *s->bytes) ||
        !ft_flow_pairs_put(&s->pairs, origin, set, number))
        return FT_FLOW_NONE;
    s->states[number] = (struct ft_flow_state){.writer = writer,
                                               .set = set,
                                               .object = object,
                                               .origin = origin,
                                               .last_place = FT_FLOW_NONE,
                                               .store_place = FT_FLOW_NONE};
    s->num_states++;
    return number;
}

uint32_t ft_flow_read_slow(struct ft_flow_states *s, uint32_t state, uint32_t place)
{
    uint32_t found = ft_flow_pairs_find(&s->reads, state, place);
    if (found == FT_FLOW_NONE) {
        const uint32_t set = ft_flow_union(s, s->states[state].set, place);
        found = set == FT_FLOW_NONE ? FT_FLOW_NONE : state_of(s, s->states[state].writer, s->states[state].object, set);
        if (found == FT_FLOW_NONE || !ft_flow_pairs_put(&s->reads, state, place, found))
            return FT_FLOW_NONE;
    }
    s->states[state].last_place = place;
    s->states[state].last_state = found;
    return found;
}

uint32_t ft_flow_written_slow(struct ft_flow_states *s, uint32_t state, uint32_t place)
{
    const uint32_t found = state_of(s, place, s->states[state].object, 0);
    if (found == FT_FLOW_NONE)
        return FT_FLOW_NONE;
    s->states[state].store_place = place;
    s->states[state].store_state = found;
    return found;
}

uint32_t ft_flow_moved(struct ft_flow_states *s, uint32_t state, uint32_t object)
{
    const struct ft_flow_state *of = &s->states[state];
    return of->object == object ? state : state_of(s, of->writer, object, of->set);
}

uint32_t ft_flow_untouched(struct ft_flow_states *s, uint32_t object)
{
    return state_of(s, FT_FLOW_OUTSIDE, object, 0);
}

static int by_number(const void *one, const void *other)
{
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

bool ft_flow_states_renew(struct ft_flow_states *s, struct ft_flow_states *before)
{
    *before = *s;
    return ft_flow_states_init(s, before->max_sets);
}

uint32_t ft_flow_set_again(struct ft_flow_states *s, const struct ft_flow_states *before, const uint32_t *place_of,
                           uint32_t *map, uint32_t set)
{
    if (map[set])
        return map[set] - 1;
    uint32_t length = 0, found = set;
    if (set == FT_FLOW_MERGED) {
        for (uint32_t place = 0; place < before->merged_capacity; place++)
            if (before->is_merged[place] && !add_to_merged(s, place_of[place]))
                return FT_FLOW_NONE;
    } else {
        const struct ft_flow_set *old = &before->sets[set];
        if (!ft_reserve(&s->members, &s->members_capacity, s->num_members + old->length, sizeof *s->members))
            return FT_FLOW_NONE;
        uint32_t *to = s->members + s->num_members;
        for (uint32_t i = 0; i < old->length; i++)
            to[i] = place_of[before->members[old->first + i]];
        qsort(to, old->length, sizeof *to, by_number);
        for (uint32_t i = 0; i < old->length; i++)
            if (i == 0 || to[i] != to[length - 1])
                to[length++] = to[i];
        s->num_members += length;
        found = intern_last(s, length);
    }
    map[set] = found == FT_FLOW_NONE ? 0 : found + 1;
    return found;
}

uint32_t ft_flow_state_again(struct ft_flow_states *s, const struct ft_flow_states *before, const uint32_t *place_of,
                             uint32_t *set_map, uint32_t *state_map, uint32_t state)
{
    if (state_map[state])
        return state_map[state] - 1;
    const struct ft_flow_state *old = &before->states[state];
    const uint32_t writer = old->writer == FT_FLOW_OUTSIDE ? FT_FLOW_OUTSIDE : place_of[old->writer];
    const uint32_t set = ft_flow_set_again(s, before, place_of, set_map, old->set);
    const uint32_t found = set == FT_FLOW_NONE ? FT_FLOW_NONE : state_of(s, writer, old->object, set);
    if (found == FT_FLOW_NONE)
        return FT_FLOW_NONE;
    for (uint32_t part = 0; part < FT_FLOW_PARTS; part++)
        s->bytes[found][part] += before->bytes[state][part];
    state_map[state] = found + 1;
    return found;
}

static uint64_t size_of(const struct ft_flow_states *s)
{
    return s->num_sets + s->num_members / 8 + (uint64_t)s->num_states + s->unions.used + s->reads.used;
}

bool ft_flow_states_have_grown(const struct ft_flow_states *s)
{
    const uint64_t size = size_of(s), few = s->max_sets / 2 < FEW ? s->max_sets / 2 : FEW;
    const bool is_nearly_full = s->num_sets > s->max_sets - s->max_sets / 8 ||
                                s->num_members > MAX_MEMBERS - MAX_MEMBERS / 8 ||
                                s->num_states > MAX_STATES - MAX_STATES / 8 || size > MANY;
    return size > few && size > (is_nearly_full ? s->used + s->used / 4 : 2 * s->used);
}

void ft_flow_states_are_tidy(struct ft_flow_states *s)
{
    s->used = size_of(s);
}

bool ft_flow_states_init(struct ft_flow_states *s, uint32_t max_sets)
{
    *s = (struct ft_flow_states){.max_sets = max_sets, .num_buckets = 1024};
    s->buckets = calloc(s->num_buckets, sizeof *s->buckets);
    if (!s->buckets || !ft_reserve(&s->members, &s->members_capacity, 0, sizeof *s->members) ||
        intern_last(s, 0) != 0 || !ft_reserve(&s->sets, &s->sets_capacity, 1, sizeof *s->sets))
        return false;
    s->sets[FT_FLOW_MERGED] = (struct ft_flow_set){.last_place = FT_FLOW_NONE};
    s->num_sets = 2;
    return state_of(s, FT_FLOW_OUTSIDE, 0, 0) == 0;
}

void ft_flow_states_free(struct ft_flow_states *s)
{
    free(s->sets);
    free(s->members);
    free(s->is_merged);
    free(s->buckets);
    free(s->states);
    free(s->bytes);
    ft_flow_pairs_free(&s->unions);
    ft_flow_pairs_free(&s->origins);
    ft_flow_pairs_free(&s->pairs);
    ft_flow_pairs_free(&s->reads);
}
