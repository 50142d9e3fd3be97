#include "folding.h"

#include <stdlib.h>
#include <string.h>

#include "foretrace/base/tables.h"

#include "record_file.h"

enum { BUCKETS = 1 << 16, MOST_DEPTH = 64 };
#define NONE (-1)
#define BASE UINT64_C(0x9e3779b97f4a7c15)

/* A number, or (`body` >= 0) a loop. */
struct node {
    uint64_t hash;
    int64_t times;
    int32_t number, body;
};

/* Nodes of an iteration. Bodies that are alike are one. */
struct body {
    uint64_t hash;
    struct node *nodes;
    int64_t length;
};

/* A node of the sequence, and what it takes to find and to remove it. */
struct entry {
    struct node node;
    uint64_t hash_before; /* rolling hash of all nodes before */
    int32_t older;        /* entry before with the same bucket, by the node's hash */
    int32_t older_loop;   /* of a loop: the same by the hash of its body's last node */
};

/* Position in the loop that is being followed: `done` iterations of it are complete. */
struct level {
    int32_t body;
    int64_t next, done, times;
};

static struct {
    struct entry *entries;
    uint32_t length, capacity;
    int64_t nodes; /* of the sequence and of bodies */
    int32_t by_hash[BUCKETS], loops_by_end[BUCKETS];
    struct level levels[MOST_DEPTH]; /* the first: the open loop, behind all entries */
    int depth;                       /* 0: none is open */
    uint64_t rolling, powers[FT_FOLD_WINDOW + 1];
    bool has_started, has_failed;
} fold;

FT_TABLE_TYPE(body_index, struct body_key);
struct body_key {
    uint64_t hash;
    int64_t length;
    int32_t number; /* of the body, from 1 */
};

static uint64_t hash_of_key(const struct body_key *key)
{
    return key->hash ^ key->hash >> 32;
}

static bool is_key_used(const struct body_key *key)
{
    return key->number != 0;
}

static bool is_same_key(const struct body_key *one, const struct body_key *other)
{
    return one->hash == other->hash && one->length == other->length;
}

FT_TABLE(body_index, struct body_key, 64, hash_of_key, is_key_used, is_same_key)

static struct body_index body_index;
static struct body *bodies;
static uint32_t body_count, body_capacity;

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

static uint32_t bucket(uint64_t hash)
{
    return (uint32_t)(hash >> 7) & (BUCKETS - 1);
}

static struct node number_node(int32_t number)
{
    return (struct node){mixed(11, mixed(BASE, (uint64_t)number)), 1, number, NONE};
}

static struct node loop_node(int32_t body, int64_t times)
{
    return (struct node){mixed(bodies[body].hash, (uint64_t)times), times, NONE, body};
}

static uint64_t hash_of_last(uint32_t length)
{
    return fold.rolling - fold.entries[fold.length - length].hash_before * fold.powers[length];
}

static uint64_t hash_between(uint32_t from, uint32_t to)
{
    return fold.entries[to].hash_before - fold.entries[from].hash_before * fold.powers[to - from];
}

static void start(void)
{
    memset(fold.by_hash, 0xff, sizeof fold.by_hash);
    memset(fold.loops_by_end, 0xff, sizeof fold.loops_by_end);
    fold.powers[0] = 1;
    for (int i = 1; i <= FT_FOLD_WINDOW; i++)
        fold.powers[i] = fold.powers[i - 1] * BASE;
    fold.has_started = true;
}

static uint64_t hash_of_end(const struct node *loop)
{
    const struct body *body = &bodies[loop->body];
    return body->nodes[body->length - 1].hash;
}

static bool push(struct node node)
{
    if (fold.nodes >= FT_FOLD_MOST_NODES ||
        !ft_reserve(&fold.entries, &fold.capacity, fold.length, sizeof *fold.entries))
        return false;
    struct entry *entry = &fold.entries[fold.length];
    *entry = (struct entry){node, fold.rolling, fold.by_hash[bucket(node.hash)], NONE};
    fold.by_hash[bucket(node.hash)] = (int32_t)fold.length;
    if (node.body >= 0) {
        int32_t *newest = &fold.loops_by_end[bucket(hash_of_end(&node))];
        entry->older_loop = *newest;
        *newest = (int32_t)fold.length;
    }
    fold.rolling = fold.rolling * BASE + node.hash;
    fold.length++;
    fold.nodes++;
    return true;
}

static void pop(uint32_t how_many)
{
    for (; how_many; how_many--) {
        const struct entry *entry = &fold.entries[--fold.length];
        fold.by_hash[bucket(entry->node.hash)] = entry->older;
        if (entry->node.body >= 0)
            fold.loops_by_end[bucket(hash_of_end(&entry->node))] = entry->older_loop;
        fold.rolling = entry->hash_before;
        fold.nodes--;
    }
}

/* The body of the last `length` nodes; NONE without memory. */
static int32_t body_of_last(uint32_t length)
{
    if (!body_index_make_room(&body_index))
        return NONE;
    const struct body_key like = {hash_of_last(length), length, 0};
    struct body_key *key = body_index_at(&body_index, &like);
    if (key->number)
        return key->number - 1;
    struct node *nodes = malloc(length * sizeof *nodes);
    if (!nodes || !ft_reserve(&bodies, &body_capacity, body_count, sizeof *bodies)) {
        free(nodes);
        return NONE;
    }
    for (uint32_t i = 0; i < length; i++)
        nodes[i] = fold.entries[fold.length - length + i].node;
    bodies[body_count] = (struct body){like.hash, nodes, length};
    *key = (struct body_key){like.hash, length, (int32_t)++body_count};
    body_index.used++;
    fold.nodes += length;
    return (int32_t)body_count - 1;
}

static void open_loop(int32_t body, int64_t times)
{
    fold.levels[0] = (struct level){body, 0, times, INT64_MAX};
    fold.depth = 1;
}

/* Whether the last nodes are an iteration of the loop before them, which then is open. */
static bool extend_loop(uint64_t end)
{
    int32_t at = fold.loops_by_end[bucket(end)];
    for (int tries = 0; at >= 0 && tries < FT_FOLD_CANDIDATES; tries++, at = fold.entries[at].older_loop) {
        const uint32_t length = fold.length - 1 - (uint32_t)at;
        if (length > FT_FOLD_WINDOW)
            return false;
        const struct node loop = fold.entries[at].node;
        if (length == 0 || bodies[loop.body].length != length || hash_of_last(length) != bodies[loop.body].hash)
            continue;
        pop(length + 1);
        open_loop(loop.body, loop.times + 1);
        return true;
    }
    return false;
}

/* Whether the last nodes equal those before them. Both become a loop, which is open. */
static bool begin_loop(void)
{
    const uint64_t end = fold.entries[fold.length - 1].node.hash;
    int32_t at = fold.entries[fold.length - 1].older;
    for (int tries = 0; at >= 0 && tries < FT_FOLD_CANDIDATES; tries++, at = fold.entries[at].older) {
        const uint32_t length = fold.length - 1 - (uint32_t)at, middle = (uint32_t)at + 1;
        if (length > FT_FOLD_WINDOW || length > middle)
            return false;
        if (fold.entries[at].node.hash != end || hash_between(middle - length, middle) != hash_of_last(length))
            continue;
        const int32_t body = body_of_last(length);
        if (body < 0)
            return false;
        pop(2 * length);
        open_loop(body, 2);
        return true;
    }
    return false;
}

static bool append_node(struct node node);

static bool push_and_fold(struct node node)
{
    if (!push(node))
        return false;
    if (!extend_loop(node.hash))
        begin_loop();
    return true;
}

/* Behind a node of the innermost level: leave the loops that are complete. */
static void advance(void)
{
    for (;;) {
        struct level *level = &fold.levels[fold.depth - 1];
        if (++level->next < bodies[level->body].length)
            return;
        level->next = 0;
        level->done++;
        if (fold.depth == 1 || level->done < level->times)
            return;
        fold.depth--;
    }
}

/* Whether a node comes next in the open loop; if so, it is taken. */
static bool follow(struct node node)
{
    const int depth = fold.depth;
    for (;;) {
        const struct level *level = &fold.levels[fold.depth - 1];
        const struct node *wanted = &bodies[level->body].nodes[level->next];
        if (wanted->hash == node.hash) {
            advance();
            return true;
        }
        if (wanted->body < 0 || fold.depth == MOST_DEPTH)
            break;
        const bool is_part = wanted->body == node.body && node.times < wanted->times;
        fold.levels[fold.depth++] = (struct level){wanted->body, 0, is_part ? node.times : 0, wanted->times};
        if (is_part)
            return true;
    }
    fold.depth = depth;
    return false;
}

/* Nodes of the iteration that the open loop is in the middle of. */
static int64_t begun_nodes(struct node *begun)
{
    int64_t count = 0;
    for (int i = 0; i < fold.depth; i++) {
        const struct level *level = &fold.levels[i];
        const struct body *body = &bodies[level->body];
        if (i > 0 && level->done == 1)
            for (int64_t j = 0; j < body->length; j++, count++)
                if (begun)
                    begun[count] = body->nodes[j];
        if (i > 0 && level->done > 1) {
            if (begun)
                begun[count] = loop_node(level->body, level->done);
            count++;
        }
        for (int64_t j = 0; j < level->next; j++, count++)
            if (begun)
                begun[count] = body->nodes[j];
    }
    return count;
}

/* The open loop ends; the nodes of the iteration begun come behind it. */
static bool close_loop(void)
{
    const int64_t count = begun_nodes(NULL);
    struct node *begun = malloc((size_t)(count + 1) * sizeof *begun);
    if (!begun)
        return false;
    begun_nodes(begun);
    const struct level open = fold.levels[0];
    fold.depth = 0;
    bool is_kept = push_and_fold(loop_node(open.body, open.done));
    for (int64_t i = 0; i < count && is_kept; i++)
        is_kept = append_node(begun[i]);
    free(begun);
    return is_kept;
}

static bool append_node(struct node node)
{
    while (fold.depth) {
        if (follow(node))
            return true;
        if (!close_loop())
            return false;
    }
    return push_and_fold(node);
}

bool ft_fold_append(int32_t number)
{
    if (UNLIKELY(!fold.has_started))
        start();
    if (UNLIKELY(fold.has_failed))
        return false;
    const struct node node = number_node(number);
    if (LIKELY(fold.depth) && LIKELY(follow(node)))
        return true;
    fold.has_failed = !append_node(node);
    return !fold.has_failed;
}

typedef void writer(int64_t call, int64_t times, void *context);

static void walk(const struct node *node, writer *write, void *context)
{
    if (node->body < 0) {
        write(node->number, 1, context);
        return;
    }
    const struct body *body = &bodies[node->body];
    write(FT_STEP_REPEAT, node->times, context);
    for (int64_t i = 0; i < body->length; i++)
        walk(&body->nodes[i], write, context);
    write(FT_STEP_END, 0, context);
}

void ft_fold_walk(writer *write, void *context)
{
    for (uint32_t i = 0; i < fold.length; i++)
        walk(&fold.entries[i].node, write, context);
    for (int i = 0; i < fold.depth; i++) {
        const struct level *level = &fold.levels[i];
        const struct node loop = loop_node(level->body, level->done);
        if (level->done > 1)
            walk(&loop, write, context);
        for (int64_t j = 0; level->done == 1 && j < bodies[level->body].length; j++)
            walk(&bodies[level->body].nodes[j], write, context);
        for (int64_t j = 0; j < level->next; j++)
            walk(&bodies[level->body].nodes[j], write, context);
    }
}
