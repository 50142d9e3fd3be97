/* Two structures: lists of each set for ways of up to 512 KB, and stacks of classes for larger ones.
 *
 * Near: a residue of the smallest way is followed in this way, the next one, and so on, each of which has twice as many
 * sets. A set of the smallest way has its DEPTH last lines in a list, most recent first. A line that is older goes on
 * to the list of its set of the next way, and so on: each line is in one list, and all lines in a list are newer than
 * those of its set that are in lists of larger ways. Hence the lines of a set that are newer than a line are in the
 * lists on the line's own path up to its own, and there are at least DEPTH of them if the line has gone on from this
 * way.
 *
 * A line is known by the number of its block above the residue (as a 32-bit word, whose upper bits are mixed): the
 * lowest bits say which set it is in.
 *
 * A class is a set of a way of 1 MB. Its far stack has the lines in order of use, the most recent last. Two of them
 * share a set of a way 2^k times as large if their addresses agree in the k bits above those of a class. A stack that
 * is full loses its oldest lines.
 */
#include "set_order.h"

#include "cache_sim/simulation/lanes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define DEPTH 32u /* bits of a mask */
#define STACK_DEPTH 255u
#define STACK_KEPT 192u
#define CLASS_SHIFT 20u
#define MOST_LEVELS 8u
#define MOST_USED 255u

typedef uint32_t vector __attribute__((vector_size(32)));
#define LANES 8u

struct set {
    uint8_t length;
    uint8_t used; /* different lines that were used, up to MOST_USED */
};

struct ft_near {
    unsigned first_way, num_levels, residue_bits;
    size_t num_sets;                 /* of a residue */
    size_t first_set[FT_LINE_SIZES]; /* of the smallest way; those of the next one follow */
    struct set *sets;                /* by residue */
    uint32_t (*lists)[DEPTH];
};

/* Address bits above those of a class, the lower 32 of them: from tags[1] to tags[length], the most recent. */
struct stack {
    uint32_t tags[STACK_DEPTH + 1];
};

struct ft_far {
    uint8_t lengths[FT_NUM_CLASSES][FT_LINES_OF_BLOCK]; /* apart, so that they are near when they are needed */
    struct stack stacks[FT_NUM_CLASSES][FT_LINES_OF_BLOCK];
};

/* ---- near --------------------------------------------------------------------------------------------------------- */

struct ft_near *ft_near_new(unsigned first_way, unsigned last_way)
{
    struct ft_near *near = calloc(1, sizeof *near);
    if (!near)
        return NULL;
    near->first_way = first_way;
    near->num_levels = last_way - first_way + 1;
    assert(near->num_levels <= MOST_LEVELS);
    near->residue_bits = first_way + 7 - FT_BLOCK_SHIFT;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        near->first_set[size] = near->num_sets;
        near->num_sets += (size_t)((1u << near->num_levels) - 1) << (FT_BLOCK_SHIFT - FT_LINE_SHIFT - size);
    }
    near->sets = calloc(near->num_sets << near->residue_bits, sizeof *near->sets);
    near->lists = calloc(near->num_sets << near->residue_bits, sizeof *near->lists);
    if (near->sets && near->lists)
        return near;
    ft_near_free(near);
    return NULL;
}

void ft_near_free(struct ft_near *near)
{
    if (!near)
        return;
    free(near->sets);
    free(near->lists);
    free(near);
}

unsigned ft_near_residues(const struct ft_near *near)
{
    return 1u << near->residue_bits;
}

void ft_near_clear(struct ft_near *near, unsigned residue)
{
    memset(near->sets + residue * near->num_sets, 0, near->num_sets * sizeof *near->sets);
}

/* Where a line is in a list of DEPTH, or DEPTH. */
static inline unsigned find_line(const uint32_t *list, unsigned length, uint32_t line)
{
    uint32_t places = 0;
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi32((int)line);
    for (unsigned i = 0; i < DEPTH; i += 16) {
        __m128i equal[4];
        for (unsigned j = 0; j < 4; j++)
            equal[j] = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(list + i + 4 * j)), wanted);
        const __m128i low = _mm_packs_epi32(equal[0], equal[1]), high = _mm_packs_epi32(equal[2], equal[3]);
        places |= (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << i;
    }
#else
    for (unsigned i = 0; i < DEPTH; i++)
        places |= (uint32_t)(list[i] == line) << i;
#endif
    const unsigned place = (unsigned)__builtin_ctzll(places | UINT64_C(1) << DEPTH);
    return place < length ? place : DEPTH;
}

/* Moves all lines by one place; the last is lost. All are read before one is written. */
static inline void make_room(uint32_t *list)
{
    static_assert(DEPTH == 4 * LANES, "four vectors, the last two of which overlap");
    vector lines[4];
    for (unsigned i = 0; i < 3; i++)
        memcpy(&lines[i], list + LANES * i, sizeof *lines);
    memcpy(&lines[3], list + DEPTH - 1 - LANES, sizeof *lines);
    for (unsigned i = 0; i < 3; i++)
        memcpy(list + LANES * i + 1, &lines[i], sizeof *lines);
    memcpy(list + DEPTH - LANES, &lines[3], sizeof *lines);
}

/* Where the lists of a line are: one of each way. Known to the compiler are `levels` and the rest of the functions
 * below. */
struct path {
    struct set *sets; /* from that of the smallest way with the same part of a block on */
    uint32_t (*lists)[DEPTH];
    unsigned shift; /* sets of the part are 1 << shift apart */
    unsigned levels;
};

static inline size_t place_at(const struct path *path, uint32_t line, unsigned level)
{
    const uint32_t sets = 1u << level;
    return (size_t)(sets - 1 + (line & (sets - 1))) << path->shift;
}

static inline void enlarge(uint16_t *distance, uint32_t found)
{
    const uint16_t lines = found < FT_NEAR_DEPTH ? (uint16_t)found : FT_BEYOND;
    if (lines > *distance)
        *distance = lines;
}

/* A line that is in no list becomes the most recent one; those that are the oldest of their lists go on. */
static inline void push(const struct path *path, uint32_t line)
{
    for (unsigned level = 0; level < path->levels; level++) {
        const size_t at = place_at(path, line, level);
        uint32_t *list = path->lists[at];
        const uint32_t oldest = list[DEPTH - 1];
        make_room(list);
        list[0] = line;
        if (path->sets[at].length < DEPTH) {
            path->sets[at].length++;
            return;
        }
        line = oldest;
    }
}

static inline enum ft_near_use use_new(const struct path *path, uint32_t line, uint16_t *distances)
{
    unsigned used = 0;
    for (unsigned level = 0; level < path->levels; level++) {
        struct set *set = &path->sets[place_at(path, line, level)];
        used = set->used;
        set->used += used < MOST_USED;
        if (distances)
            enlarge(&distances[level], used);
    }
    push(path, line);
    return used <= DEPTH ? FT_NEAR_NEW : FT_NEAR_KNOWN;
}

/* Adds to counts[level] how many of a list's first lines share the set of a line in this way, for those after
 * `own_level`. */
static inline void count_sharing(const struct path *path, const uint32_t *list, unsigned length, uint32_t line,
                                 unsigned own_level, vector *counts)
{
    static const uint32_t before[2 * LANES] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                               UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    for (unsigned i = 0; i < length; i += LANES) {
        const unsigned left = length - i < LANES ? length - i : LANES;
        vector lines, is_first;
        memcpy(&lines, list + i, sizeof lines);
        memcpy(&is_first, before + LANES - left, sizeof is_first);
        lines ^= line;
        for (unsigned level = own_level + 1; level < path->levels; level++)
            counts[level] -= (vector)((lines & ((1u << level) - 1)) == 0) & is_first;
    }
}

static inline uint32_t sum_of(const vector *numbers)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < LANES; i++)
        sum += (*numbers)[i];
    return sum;
}

/* A line that is in the list of a level. */
static inline __attribute__((always_inline)) void use_known(const struct path *path, uint32_t line, unsigned own_level,
                                                            unsigned position, uint16_t *distances)
{
    const size_t own = place_at(path, line, own_level);
    uint32_t *list = path->lists[own];
    vector sharing[MOST_LEVELS] = {{0}};
    for (unsigned level = 0; level < own_level && distances; level++) {
        const size_t at = place_at(path, line, level);
        count_sharing(path, path->lists[at], path->sets[at].length, line, own_level - 1, sharing);
        distances[level] = FT_BEYOND;
    }
    if (distances) {
        if (own_level)
            sharing[own_level] += (vector){position};
        else
            enlarge(&distances[0], position);
        count_sharing(path, list, position, line, own_level, sharing);
        for (unsigned level = own_level ? own_level : 1; level < path->levels; level++) {
            const uint32_t newer = sum_of(&sharing[level]);
            if (!newer)
                break;
            enlarge(&distances[level], newer);
        }
    }
    if (own_level == 0) {
        memmove(list + 1, list, position * sizeof *list);
        list[0] = line;
        return;
    }
    path->sets[own].length--;
    memmove(list + position, list + position + 1, (DEPTH - 1 - position) * sizeof *list);
    push(path, line);
}

static inline __attribute__((always_inline)) enum ft_near_use use_line(struct path path, uint32_t line,
                                                                       uint16_t *distances, unsigned levels)
{
    path.levels = levels;
    for (unsigned level = 0; level < levels; level++) {
        const size_t at = place_at(&path, line, level);
        const unsigned position = find_line(path.lists[at], path.sets[at].length, line);
        if (position < DEPTH) {
            if (level == 0)
                use_known(&path, line, 0, position, distances);
            else
                use_known(&path, line, level, position, distances);
            return FT_NEAR_KNOWN;
        }
        if (path.sets[at].used <= DEPTH)
            break; /* none has gone on */
    }
    return use_new(&path, line, distances);
}

static inline uint32_t line_of(const struct ft_near *near, uint64_t block)
{
    const uint64_t above = block >> near->residue_bits;
    return (uint32_t)above ^ (((uint32_t)(above >> 32) * 0x9e3779b1u) & ~((1u << MOST_LEVELS) - 1));
}

struct ft_near_block ft_near_find(const struct ft_near *near, uint64_t block)
{
    const size_t residue = block & ((1u << near->residue_bits) - 1);
    return (struct ft_near_block){residue * near->num_sets, line_of(near, block)};
}

FT_FOR_WIDE_PROCESSORS static __attribute__((noinline)) enum ft_near_use
use_other(struct ft_near *near, size_t first, unsigned size, uint32_t line, uint16_t *distances)
{
    const struct path path = {near->sets + first, near->lists + first, FT_BLOCK_SHIFT - FT_LINE_SHIFT - size, 0};
    switch (near->num_levels) {
    case 2: return use_line(path, line, distances, 2);
    case 4: return use_line(path, line, distances, 4);
    case 6: return use_line(path, line, distances, 6);
    default: return use_line(path, line, distances, near->num_levels);
    }
}

enum ft_near_use ft_near_touch(struct ft_near *near, struct ft_near_block block, unsigned size, unsigned part,
                               uint16_t *distances)
{
    const size_t first = block.first_set + near->first_set[size] + part;
    if (near->sets[first].length && near->lists[first][0] == block.line)
        return FT_NEAR_SAME;
    return use_other(near, first, size, block.line, distances);
}

/* ---- far ---------------------------------------------------------------------------------------------------------- */

struct ft_far *ft_far_new(void)
{
    return calloc(1, sizeof(struct ft_far)); /* pages that are never touched cost nothing */
}

void ft_far_free(struct ft_far *far)
{
    free(far);
}

void ft_far_clear_class(struct ft_far *far, unsigned class)
{
    memset(far->lengths[class], 0, sizeof far->lengths[class]);
}

static void push_last(struct stack *stack, uint8_t *length, uint32_t tag)
{
    if (*length == STACK_DEPTH) {
        memmove(stack->tags + 1, stack->tags + 1 + STACK_DEPTH - STACK_KEPT, STACK_KEPT * sizeof *stack->tags);
        *length = STACK_KEPT;
    }
    stack->tags[++*length] = tag;
}

#define TAGS 8u /* in a vector */
#define MOST_BITS (FT_LAST_WAY - FT_FAR_WAY)

typedef int32_t tag_vector __attribute__((vector_size(TAGS * 4), aligned(4), may_alias));

/* The number of a tag, 0 if it is not there; then agreeing[k] is how many above it agree with it in the lowest k bits.
 */
FT_FOR_WIDE_PROCESSORS static uint32_t find_tag(const struct stack *stack, int32_t length, uint32_t tag,
                                                uint32_t agreeing[MOST_BITS + 1])
{
    static_assert((STACK_DEPTH + 1) % TAGS == 0, "a stack is whole vectors");
    const tag_vector order = {0, 1, 2, 3, 4, 5, 6, 7};
    tag_vector counts[MOST_BITS + 1] = {{0}};
    int32_t number = 0;
    for (int32_t at = length / (int32_t)TAGS * (int32_t)TAGS; at >= 0 && number == 0; at -= (int32_t)TAGS) {
        const tag_vector differ = *(const tag_vector *)(stack->tags + at) ^ (int32_t)tag, numbers = order + at;
        tag_vector counted = (numbers <= length) & (numbers > 0);
        const tag_vector equal = (differ == 0) & counted;
        const ft_lanes any = (ft_lanes)equal;
        if (any[0] | any[1] | any[2] | any[3]) {
            for (unsigned i = 0; i < TAGS; i++)
                number = equal[i] ? at + (int32_t)i : number;
            counted &= numbers > number;
        }
        for (unsigned bits = 0; bits <= MOST_BITS; bits++)
            counts[bits] -= ((differ & ((1 << bits) - 1)) == 0) & counted;
    }
    for (unsigned bits = 0; bits <= MOST_BITS; bits++) {
        agreeing[bits] = 0;
        for (unsigned i = 0; i < TAGS; i++)
            agreeing[bits] += (uint32_t)counts[bits][i];
    }
    return (uint32_t)number;
}

static const uint8_t first_stack[FT_LINE_SIZES] = {0, 8, 12, 14};

/* Which of a class's stacks a line is in. */
static inline unsigned stack_of(unsigned size, uint64_t address)
{
    return first_stack[size] + ((unsigned)(address >> (FT_LINE_SHIFT + size)) & (7u >> size));
}

void ft_far_fetch(const struct ft_far *far, uint64_t address)
{
    const unsigned class = (unsigned)(address >> FT_BLOCK_SHIFT) & (FT_NUM_CLASSES - 1);
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        const unsigned which = stack_of(size, address);
        __builtin_prefetch(&far->stacks[class][which].tags[far->lengths[class][which]], 1);
    }
}

bool ft_far_touch(struct ft_far *far, unsigned size, uint64_t address, bool is_new, uint16_t *distances)
{
    const unsigned class = (unsigned)(address >> FT_BLOCK_SHIFT) & (FT_NUM_CLASSES - 1),
                   which = stack_of(size, address);
    const uint32_t tag = (uint32_t)(address >> CLASS_SHIFT);
    struct stack *stack = &far->stacks[class][which];
    uint8_t *length = &far->lengths[class][which];
    if (!is_new && *length && stack->tags[*length] == tag)
        return false;
    uint32_t agreeing[MOST_BITS + 1];
    const uint32_t number = is_new ? 0 : find_tag(stack, *length, tag, agreeing);
    if (!number) {
        push_last(stack, length, tag);
        for (unsigned way = FT_FAR_WAY; way <= FT_LAST_WAY; way++)
            distances[way - FT_FAR_WAY] = FT_BEYOND;
        return true;
    }
    for (unsigned bits = 0; bits <= MOST_BITS; bits++)
        if (agreeing[bits] > distances[bits])
            distances[bits] = (uint16_t)agreeing[bits];
    memmove(stack->tags + number, stack->tags + number + 1, (*length - number) * sizeof *stack->tags);
    stack->tags[*length] = tag;
    return true;
}
