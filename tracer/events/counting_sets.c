#define _GNU_SOURCE
#include "tracer/events/counting_sets.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* What elements are told apart by. In the tree of a set, `element` is where they are counted on the board. */
struct key {
    uint32_t type_id;
    size_t hashable_bytes;
    const void *bytes;
    struct board_element *element;
};

static int order(const void *left, const void *right)
{
    const struct key *l = left, *r = right;
    if (l->type_id != r->type_id)
        return l->type_id < r->type_id ? -1 : 1;
    if (l->hashable_bytes != r->hashable_bytes)
        return l->hashable_bytes < r->hashable_bytes ? -1 : 1;
    return memcmp(l->bytes, r->bytes, l->hashable_bytes);
}

static struct board_element *found(struct local_event *set, size_t hashable_bytes, const void *bytes, uint32_t type_id)
{
    const struct key key = {type_id, hashable_bytes, bytes, NULL};
    struct key **at = tfind(&key, &set->elements, order);
    return at ? (*at)->element : NULL;
}

int counting_set_insert(struct board *board, struct local_event *set, size_t size_bytes, size_t hashable_bytes,
                        const void *bytes, uint32_t type_id)
{
    if (hashable_bytes > size_bytes)
        return SDE_EINVAL;
    struct board_element *element = found(set, hashable_bytes, bytes, type_id);
    if (element) {
        if (atomic_load(&element->count) == 0 && element->size_bytes >= size_bytes)
            memcpy(element->bytes, bytes, size_bytes); /* what is not hashable may differ */
        atomic_fetch_add(&element->count, 1);
        return SDE_OK;
    }
    struct key *key = malloc(sizeof *key);
    element = key ? board_allocate(board, sizeof *element + size_bytes) : NULL;
    if (!element) {
        free(key);
        return SDE_ENOMEM;
    }
    element->type_id = type_id;
    element->size_bytes = size_bytes;
    element->hashable_bytes = hashable_bytes;
    memcpy(element->bytes, bytes, size_bytes);
    atomic_store(&element->count, 1);
    *key = (struct key){type_id, hashable_bytes, element->bytes, element};
    if (!tsearch(key, &set->elements, order)) {
        free(key);
        return SDE_ENOMEM;
    }
    atomic_store(&element->next, (board_offset)atomic_load(&set->event->value));
    atomic_store(&set->event->value, (int64_t)board_offset_of(board, element));
    return SDE_OK;
}

int counting_set_remove(struct local_event *set, size_t hashable_bytes, const void *bytes, uint32_t type_id)
{
    struct board_element *element = found(set, hashable_bytes, bytes, type_id);
    if (element && atomic_load(&element->count) > 0)
        atomic_fetch_sub(&element->count, 1);
    return SDE_OK; /* as with PAPI, also where there was none */
}

void counting_set_clear(struct board *board, struct local_event *set)
{
    struct board_element *element = board_at(board, (board_offset)atomic_load(&set->event->value));
    for (; element; element = board_at(board, atomic_load(&element->next)))
        atomic_store(&element->count, 0);
    if (atomic_load(&set->event->kind) == EVENT_ENDED) {
        tdestroy(set->elements, free);
        set->elements = NULL;
    }
}

cset_list_object_t *counting_set_list(struct board *board, const struct local_event *set)
{
    cset_list_object_t *list = NULL;
    struct board_element *element = board_at(board, (board_offset)atomic_load(&set->event->value));
    for (; element; element = board_at(board, atomic_load(&element->next))) {
        const uint32_t count = atomic_load(&element->count);
        cset_list_object_t *node = count ? malloc(sizeof *node) : NULL;
        void *copy = node ? malloc(element->size_bytes) : NULL;
        if (!copy) {
            free(node);
            continue;
        }
        memcpy(copy, element->bytes, element->size_bytes);
        *node = (cset_list_object_t){count, element->type_id, element->size_bytes, copy, list};
        list = node;
    }
    return list;
}
