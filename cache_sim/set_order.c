/* Two structures: lists of each set for ways of up to 512 KB, and stacks of classes for larger ones.
 *
 * A near list holds the blocks (by number) that have a line in the set, most recent first: a way is no smaller than a
 * block, so that a set has at most one line of a block. Going from small ways to large, the lines of a set become fewer,
 * and so do distances: a line that is the most recent one of its set is so in all larger ways, and nothing changes there.
 * Lists are emptied by a new `epoch`.
 *
 * A class is a set of a way of 1 MB. Its far stack has the lines in order of use, the most recent last. Two of them share a
 * set of a way 2^k times as large if their addresses agree in the k bits above those of a class. A stack that is full
 * loses its oldest lines.
 */
#include "set_order.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define STACK_DEPTH 255u
#define STACK_KEPT 192u
#define CLASS_SHIFT 20u

typedef uint16_t numbers_vector __attribute__((vector_size(16)));

struct list {
    uint16_t numbers[FT_NEAR_DEPTH];
    uint16_t length;
    uint16_t epoch;
};

struct ft_near {
    uint16_t epoch;
    struct list *lists[FT_LINE_SIZES]; /* those of way 1, of way 2, ... */
};

struct stack {
    uint32_t length;
    uint32_t tags[STACK_DEPTH]; /* address bits above those of a class, the lower 32 of them */
};

struct ft_far {
    struct stack stacks[FT_NUM_CLASSES][FT_LINES_OF_BLOCK];
};

static size_t sets_of(unsigned size, unsigned way)
{
    return (size_t)1 << (way + 7 - FT_LINE_SHIFT - size);
}

/* ---- near --------------------------------------------------------------------------------------------------------- */

struct ft_near *ft_near_new(void)
{
    struct ft_near *near = calloc(1, sizeof *near);
    bool good = near;
    for (unsigned size = 0; good && size < FT_LINE_SIZES; size++) {
        near->lists[size] = calloc(sets_of(size, FT_NEAR_WAYS + 1), sizeof *near->lists[size]);
        good = near->lists[size];
    }
    if (good) {
        near->epoch = 1;
        return near;
    }
    ft_near_free(near);
    return NULL;
}

void ft_near_free(struct ft_near *near)
{
    if (!near)
        return;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++)
        free(near->lists[size]);
    free(near);
}

void ft_near_clear(struct ft_near *near)
{
    if (++near->epoch)
        return;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++)
        memset(near->lists[size], 0, sets_of(size, FT_NEAR_WAYS + 1) * sizeof *near->lists[size]);
    near->epoch = 1;
}

/* Moves all numbers by one place; the last is lost. All are read before one is written. */
static inline void make_room(struct list *list)
{
    static_assert(FT_NEAR_DEPTH == 30, "four vectors, the last two of which overlap");
    uint16_t *numbers = list->numbers;
    numbers_vector a, b, c, d;
    memcpy(&a, numbers, sizeof a);
    memcpy(&b, numbers + 8, sizeof b);
    memcpy(&c, numbers + 16, sizeof c);
    memcpy(&d, numbers + 21, sizeof d);
    memcpy(numbers + 1, &a, sizeof a);
    memcpy(numbers + 9, &b, sizeof b);
    memcpy(numbers + 17, &c, sizeof c);
    memcpy(numbers + 22, &d, sizeof d);
}

static inline unsigned push(struct list *list, uint16_t number)
{
    unsigned length = list->length;
    make_room(list);
    list->numbers[0] = number;
    if (length == FT_NEAR_DEPTH)
        return FT_BEYOND;
    list->length++;
    return length;
}

/* Where a number is in a list, or FT_NEAR_DEPTH. */
static inline unsigned position_of(const struct list *list, uint16_t number)
{
    uint32_t places = 0;
#ifdef __SSE2__
    static_assert(offsetof(struct list, epoch) == 62, "a list is four vectors");
    const __m128i wanted = _mm_set1_epi16((short)number);
    __m128i equal[4];
    for (unsigned i = 0; i < 4; i++)
        equal[i] = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i *)list + i), wanted);
    places = (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(equal[0], equal[1])) |
             (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(equal[2], equal[3])) << 16;
#else
    for (unsigned i = 0; i < FT_NEAR_DEPTH; i++)
        places |= (uint32_t)(list->numbers[i] == number) << i;
#endif
    places &= (1u << list->length) - 1;
    return (unsigned)__builtin_ctz(places | 1u << FT_NEAR_DEPTH);
}

/* A block that is known but not in the list has been pushed out of it. */
static inline unsigned move_to_front(struct list *list, uint16_t number)
{
    if (list->length > 1 && list->numbers[1] == number) { /* most often */
        list->numbers[1] = list->numbers[0];
        list->numbers[0] = number;
        return 1;
    }
    const unsigned position = position_of(list, number);
    if (position == FT_NEAR_DEPTH) {
        push(list, number);
        return FT_BEYOND;
    }
    memmove(list->numbers + 1, list->numbers, position * sizeof *list->numbers);
    list->numbers[0] = number;
    return position;
}

unsigned ft_near_touch(struct ft_near *near, unsigned size, uint64_t address, uint32_t number, bool is_new,
                       unsigned first_way, uint16_t *distances)
{
    uint64_t line = address >> (FT_LINE_SHIFT + size);
    size_t num_sets = sets_of(size, first_way);
    struct list *lists = near->lists[size] + (num_sets - sets_of(size, 1));
    unsigned way = first_way;
    for (; way <= FT_NEAR_WAYS; way++, lists += num_sets, num_sets *= 2) {
        struct list *list = &lists[line & (num_sets - 1)];
        __builtin_prefetch(&lists[num_sets * 3 + (line & (num_sets * 4 - 1))]); /* two ways ahead */
        if (list->epoch != near->epoch) {
            list->epoch = near->epoch;
            list->length = 0;
        } else if (list->numbers[0] == number) {
            break;
        }
        unsigned distance = is_new ? push(list, (uint16_t)number) : move_to_front(list, (uint16_t)number);
        if (distance > distances[way])
            distances[way] = (uint16_t)distance;
    }
    return way - first_way;
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
    for (unsigned i = 0; i < FT_LINES_OF_BLOCK; i++)
        if (far->stacks[class][i].length)
            far->stacks[class][i].length = 0;
}

static void push_last(struct stack *stack, uint32_t tag)
{
    if (stack->length == STACK_DEPTH) {
        memmove(stack->tags, stack->tags + STACK_DEPTH - STACK_KEPT, STACK_KEPT * sizeof *stack->tags);
        stack->length = STACK_KEPT;
    }
    stack->tags[stack->length++] = tag;
}

/* How many tags above position `found` agree with its tag in the lowest k bits, and no more. */
static void count_agreeing(const struct stack *stack, uint32_t found, uint32_t agreeing[FT_LAST_WAY - FT_FAR_WAY + 1])
{
    const unsigned most = FT_LAST_WAY - FT_FAR_WAY;
    for (uint32_t i = found + 1; i < stack->length; i++)
        agreeing[__builtin_ctz((stack->tags[i] ^ stack->tags[found]) | 1u << most)]++;
}

bool ft_far_touch(struct ft_far *far, unsigned size, uint64_t address, bool is_new, uint16_t *distances)
{
    static const uint8_t first_stack[FT_LINE_SIZES] = {0, 8, 12, 14};
    unsigned class = (unsigned)(address >> FT_BLOCK_SHIFT) & (FT_NUM_CLASSES - 1);
    unsigned part = (unsigned)(address >> (FT_LINE_SHIFT + size)) & (7u >> size);
    uint32_t tag = (uint32_t)(address >> CLASS_SHIFT);
    struct stack *stack = &far->stacks[class][first_stack[size] + part];
    uint32_t position = is_new ? 0 : stack->length;
    while (position && stack->tags[position - 1] != tag)
        position--;
    if (!position) {
        push_last(stack, tag);
        for (unsigned way = FT_FAR_WAY; way <= FT_LAST_WAY; way++)
            distances[way] = FT_BEYOND;
        return true;
    }
    if (position == stack->length)
        return false;
    uint32_t agreeing[FT_LAST_WAY - FT_FAR_WAY + 1] = {0}, distance = 0;
    count_agreeing(stack, position - 1, agreeing);
    for (unsigned way = FT_LAST_WAY; way >= FT_FAR_WAY; way--) {
        distance += agreeing[way - FT_FAR_WAY];
        if (distance > distances[way])
            distances[way] = (uint16_t)distance;
    }
    memmove(stack->tags + position - 1, stack->tags + position, (stack->length - position) * sizeof *stack->tags);
    stack->tags[stack->length - 1] = tag;
    return true;
}
