#include "calls.h"

#include <stddef.h>
#include <string.h>

#include "foretrace/base/tables.h"

#include "../kinds.h"

struct ft_calls ft_calls;
static uint32_t rows_capacity, slots_capacity, counts_capacity, rising_capacity;

static uint64_t hash_of(const void *words, size_t bytes)
{
    uint64_t hash = bytes, word;
    for (size_t i = 0; i < bytes; i += 8) {
        memcpy(&word, (const char *)words + i, 8);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Lists of numbers, each kept once in a pool. */
struct list {
    uint64_t hash;
    int64_t first, length; /* length 0: none */
    const int64_t *const *pool;
};
static uint64_t hash_of_list(const struct list *list)
{
    return list->hash;
}
static bool is_list_used(const struct list *list)
{
    return list->length != 0;
}
static bool is_same_list(const struct list *kept, const struct list *like)
{
    return kept->hash == like->hash && kept->length == like->length &&
           !memcmp(*kept->pool + kept->first, *like->pool + like->first, (size_t)like->length * 8);
}
FT_TABLE_TYPE(lists, struct list);
FT_TABLE(lists, struct list, 64, hash_of_list, is_list_used, is_same_list)
static struct lists slot_lists, count_lists;

/* Where a list lies in the pool, which it is put in if it is new; -1 without memory. */
static int64_t keep(struct lists *lists, int64_t **pool, int64_t *pool_length, uint32_t *capacity, const int64_t *list,
                    int64_t length)
{
    if (!lists_make_room(lists))
        return -1;
    const struct list like = {hash_of(list, (size_t)length * 8), 0, length, &list};
    struct list *kept = lists_at(lists, &like);
    if (!kept->length) {
        if (*pool_length + length > UINT32_MAX / 2 || !ft_reserve(pool, capacity, (uint32_t)(*pool_length + length), 8))
            return -1;
        memcpy(*pool + *pool_length, list, (size_t)length * 8);
        *kept = (struct list){like.hash, *pool_length, length, (const int64_t *const *)pool};
        lists->used++;
        *pool_length += length;
    }
    return kept->first;
}

/* A call by itself. */
enum { OWN_BYTES = offsetof(struct ft_call_row, times) };
struct own {
    uint64_t hash;
    int32_t number; /* from 1 */
    int32_t row;    /* a row that says the same */
    int32_t rising; /* tags that rise, from 1; 0: a tag of its own */
    const struct ft_call_row *like;
};
static uint64_t hash_of_own(const struct own *own)
{
    return own->hash;
}
static bool is_own_used(const struct own *own)
{
    return own->number != 0;
}
static bool is_same_own(const struct own *one, const struct own *other)
{
    const struct ft_call_row *row = other->number ? &ft_calls.rows[other->row] : other->like;
    return one->hash == other->hash && one->rising == other->rising &&
           !memcmp(&ft_calls.rows[one->row], row, OWN_BYTES);
}
FT_TABLE_TYPE(owns, struct own);
FT_TABLE(owns, struct own, 256, hash_of_own, is_own_used, is_same_own)
static struct owns owns;
static int32_t own_count;

/* A call behind another. */
struct pair {
    int32_t before, own; /* own 0: free */
    int32_t row;
    int32_t rising[2]; /* rows of its tags, and of those of an exchange's second half, from 1 */
};
static uint64_t hash_of_pair(const struct pair *pair)
{
    return (((uint64_t)(uint32_t)pair->before << 32) | (uint32_t)pair->own) * FT_HASH_FACTOR >> 24;
}
static bool is_pair_used(const struct pair *pair)
{
    return pair->own != 0;
}
static bool is_same_pair(const struct pair *one, const struct pair *other)
{
    return one->before == other->before && one->own == other->own;
}
FT_TABLE_TYPE(pairs, struct pair);
FT_TABLE(pairs, struct pair, 256, hash_of_pair, is_pair_used, is_same_pair)
static struct pairs pairs;
static int32_t last_own;

/* Tags of messages that are alike else. */
struct tags {
    int64_t kind, half, site, peer, communicator; /* kind 0: free */
    int64_t first, last, stride, rises;
    int64_t least, most; /* of those recorded as one */
    int32_t number;      /* of tags that rise, from 1; 0 as long as they were not seen to */
};
static uint64_t hash_of_tags(const struct tags *tags)
{
    return hash_of(tags, 5 * sizeof(int64_t));
}
static bool are_tags_used(const struct tags *tags)
{
    return tags->kind != 0;
}
static bool are_same_tags(const struct tags *one, const struct tags *other)
{
    return !memcmp(one, other, 5 * sizeof(int64_t));
}
FT_TABLE_TYPE(tag_table, struct tags);
FT_TABLE(tag_table, struct tags, 64, hash_of_tags, are_tags_used, are_same_tags)
static struct tag_table tag_table;
enum { MOST_RISING = 0x7fff }; /* two numbers fit in 32 bits */
static int32_t rising_count;

static bool has_tag(int64_t kind)
{
    return (kind >= FT_CALL_SEND && kind <= FT_CALL_IRECEIVE) || kind == FT_CALL_EXCHANGE || kind == FT_CALL_SSEND ||
           kind == FT_CALL_ISSEND;
}

/* Tags that go on rising by what they rose before, or do so again: then the call is recorded with the first of them. */
static struct tags *rising_tags(const struct ft_call_row *said, int half)
{
    if (!has_tag(said->kind) || (half && said->kind != FT_CALL_EXCHANGE) || !tag_table_make_room(&tag_table))
        return NULL;
    const int64_t tag = half ? said->second_tag : said->tag;
    const struct tags like = {
        .kind = said->kind,
        .half = half,
        .site = said->site,
        .peer = half ? said->second_peer : said->peer,
        .communicator = said->communicator,
        .last = tag,
    };
    struct tags *tags = tag_table_at(&tag_table, &like);
    if (!tags->kind) {
        *tags = like;
        tag_table.used++;
        return NULL;
    }
    const int64_t stride = tag - tags->last;
    const bool is_again = tags->number && tag >= tags->least && tag <= tags->most;
    if (stride != tags->stride) {
        if (!tags->number)
            tags->first = tags->last;
        tags->rises = 0;
        tags->stride = stride;
    }
    tags->last = tag;
    if (!is_again && (stride == 0 || ++tags->rises < FT_RISES_BEFORE))
        return NULL;
    if (!tags->number && rising_count == MOST_RISING)
        return NULL;
    if (!tags->number) {
        tags->number = ++rising_count;
        tags->least = tags->most = tag;
    }
    tags->least = tag < tags->least ? tag : tags->least;
    tags->most = tag > tags->most ? tag : tags->most;
    return tags;
}

static void note_rising(struct pair *pair, int half, int64_t tag)
{
    if (!pair->rising[half]) {
        if (!ft_reserve(&ft_calls.rising, &rising_capacity, (uint32_t)ft_calls.rising_length, sizeof *ft_calls.rising))
            return;
        ft_calls.rising[ft_calls.rising_length++] = (struct ft_rising_row){pair->row, half, tag, tag, 0};
        pair->rising[half] = (int32_t)ft_calls.rising_length;
    }
    struct ft_rising_row *row = &ft_calls.rising[pair->rising[half] - 1];
    row->least = tag < row->least ? tag : row->least;
    row->most = tag > row->most ? tag : row->most;
    row->times++;
}

static struct own *find_own(const struct ft_call_row *said, int32_t rising)
{
    const struct own like = {hash_of(said, OWN_BYTES) + (uint64_t)rising, 0, 0, rising, said};
    return owns_at(&owns, &like);
}

static int64_t row_of(struct ft_call_row *said)
{
    if (!owns_make_room(&owns) || !pairs_make_room(&pairs))
        return -1;
    const int64_t actual[2] = {said->tag, said->second_tag};
    int32_t numbers[2] = {0, 0};
    struct own *own = find_own(said, 0);
    if (!own->number)
        for (int half = 0; half < 2; half++) {
            const struct tags *tags = rising_tags(said, half);
            if (tags) {
                numbers[half] = tags->number;
                *(half ? &said->second_tag : &said->tag) = tags->first;
            }
        }
    const int32_t rising = numbers[0] | numbers[1] << 16;
    if (rising)
        own = find_own(said, rising);
    const struct pair like = {last_own, own->number ? own->number : own_count + 1, 0, {0, 0}};
    struct pair *pair = pairs_at(&pairs, &like);
    if (!pair->own) {
        if (ft_calls.length >= FT_MOST_CALLS ||
            !ft_reserve(&ft_calls.rows, &rows_capacity, (uint32_t)ft_calls.length, sizeof *ft_calls.rows))
            return -1;
        ft_calls.rows[ft_calls.length] = *said;
        *pair = (struct pair){like.before, like.own, (int32_t)ft_calls.length++, {0, 0}};
        pairs.used++;
    }
    if (!own->number) {
        *own = (struct own){hash_of(said, OWN_BYTES) + (uint64_t)rising, like.own, pair->row, rising, NULL};
        own_count++;
        owns.used++;
    }
    last_own = own->number;
    for (int half = 0; half < 2; half++)
        if (numbers[half])
            note_rising(pair, half, actual[half]);
    return pair->row;
}

int64_t ft_calls_add(const struct ft_call_row *said, const int64_t *slots, int64_t slots_length, const int64_t *counts,
                     int64_t counts_length, int64_t compute_ns)
{
    struct ft_call_row call = *said;
    call.slots = slots_length;
    call.first_slot = call.times = 0;
    call.compute_s = call.compute_squares = call.least_s = call.most_s = 0;
    call.first_count = -1;
    if (slots_length)
        call.first_slot =
            keep(&slot_lists, &ft_calls.slots, &ft_calls.slots_length, &slots_capacity, slots, slots_length);
    if (counts_length)
        call.first_count =
            keep(&count_lists, &ft_calls.counts, &ft_calls.counts_length, &counts_capacity, counts, counts_length);
    if (call.first_slot < 0 || (counts_length && call.first_count < 0))
        return -1;
    const int64_t number = row_of(&call);
    if (number < 0)
        return -1;
    struct ft_call_row *row = &ft_calls.rows[number];
    const double seconds = 1e-9 * (double)compute_ns;
    if (!row->times++ || seconds < row->least_s)
        row->least_s = seconds;
    if (seconds > row->most_s)
        row->most_s = seconds;
    row->compute_s += seconds;
    row->compute_squares += seconds * seconds;
    return number;
}
