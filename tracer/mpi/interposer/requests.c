#include "requests.h"

#include <stdlib.h>

#include "foretrace/base/tables.h"

struct request {
    struct request *newer; /* with the same handle */
    int64_t slot;
};

struct handle {
    uint64_t value;
    struct handle *next; /* in the bucket */
    struct request *oldest, *newest;
    struct ft_persistent *persistent;
};

static struct {
    struct handle **buckets;
    uint64_t capacity, used;
    struct handle *free_handles;
    struct request *free_requests;
    uint64_t *taken; /* slots, as bits: slot 1 is bit 0 of word 0 */
    uint32_t words;
    uint32_t first_free; /* all words before are full */
} open;

/* A zeroed element, from a list of free ones if there are: the first bytes of each lead to the next. */
static void *new_element(void *first_free, size_t bytes)
{
    void *element;
    memcpy(&element, first_free, sizeof(void *));
    if (!element)
        return calloc(1, bytes);
    memcpy(first_free, element, sizeof(void *));
    memset(element, 0, bytes);
    return element;
}

static void give_back(void *first_free, void *element)
{
    memcpy(element, first_free, sizeof(void *));
    memcpy(first_free, &element, sizeof(void *));
}

static struct handle **place_of(uint64_t value)
{
    struct handle **place = &open.buckets[(value * FT_HASH_FACTOR >> 32) & (open.capacity - 1)];
    while (*place && (*place)->value != value)
        place = &(*place)->next;
    return place;
}

static bool make_room(void)
{
    if (LIKELY(open.used < open.capacity))
        return true;
    struct handle **old = open.buckets;
    const uint64_t old_capacity = open.capacity;
    struct handle **larger = calloc(old_capacity ? 2 * old_capacity : 256, sizeof *larger);
    if (!larger)
        return false;
    open.buckets = larger;
    open.capacity = old_capacity ? 2 * old_capacity : 256;
    for (uint64_t i = 0; i < old_capacity; i++)
        for (struct handle *handle = old[i], *next; handle; handle = next) {
            next = handle->next;
            handle->next = NULL;
            *place_of(handle->value) = handle;
        }
    free(old);
    return true;
}

static struct handle *find_or_add(uint64_t value)
{
    if (!make_room())
        return NULL;
    struct handle **place = place_of(value);
    if (!*place) {
        *place = new_element(&open.free_handles, sizeof **place);
        if (!*place)
            return NULL;
        (*place)->value = value;
        open.used++;
    }
    return *place;
}

static void remove_if_empty(struct handle **place)
{
    struct handle *handle = *place;
    if (handle->oldest || handle->persistent)
        return;
    *place = handle->next;
    give_back(&open.free_handles, handle);
    open.used--;
}

int64_t ft_requests_next_slot(void)
{
    while (open.first_free < open.words && open.taken[open.first_free] == UINT64_MAX)
        open.first_free++;
    const uint64_t word = open.first_free < open.words ? open.taken[open.first_free] : 0;
    return (int64_t)open.first_free * 64 + __builtin_ctzll(~word) + 1;
}

static int64_t take_slot(void)
{
    const int64_t slot = ft_requests_next_slot();
    if (!ft_reserve(&open.taken, &open.words, open.first_free, sizeof *open.taken))
        return 0;
    open.taken[open.first_free] |= UINT64_C(1) << ((slot - 1) & 63);
    return slot;
}

static void free_slot(int64_t slot)
{
    if (slot <= 0)
        return;
    const uint32_t word = (uint32_t)((slot - 1) >> 6);
    open.taken[word] &= ~(UINT64_C(1) << ((slot - 1) & 63));
    if (word < open.first_free)
        open.first_free = word;
}

bool ft_requests_open(uint64_t value, bool takes_slot)
{
    struct handle *handle = find_or_add(value);
    struct request *request = handle ? new_element(&open.free_requests, sizeof *request) : NULL;
    if (!request)
        return false;
    request->slot = takes_slot ? take_slot() : 0;
    if (handle->newest)
        handle->newest->newer = request;
    else
        handle->oldest = request;
    handle->newest = request;
    return true;
}

struct ft_persistent *ft_requests_add_persistent(uint64_t value)
{
    struct handle *handle = find_or_add(value);
    if (!handle)
        return NULL;
    if (!handle->persistent)
        handle->persistent = calloc(1, sizeof *handle->persistent);
    return handle->persistent;
}

struct ft_persistent *ft_requests_persistent(uint64_t value)
{
    if (!open.capacity)
        return NULL;
    const struct handle *handle = *place_of(value);
    return handle ? handle->persistent : NULL;
}

void ft_requests_start(struct ft_persistent *persistent)
{
    persistent->slot = take_slot();
}

int64_t ft_requests_complete(uint64_t value)
{
    struct handle **place = open.capacity ? place_of(value) : NULL;
    if (!place || !*place)
        return -1;
    struct handle *handle = *place;
    int64_t slot = 0;
    if (handle->oldest) {
        struct request *request = handle->oldest;
        slot = request->slot;
        handle->oldest = request->newer;
        if (!handle->oldest)
            handle->newest = NULL;
        give_back(&open.free_requests, request);
    } else if (handle->persistent) {
        slot = handle->persistent->slot;
        handle->persistent->slot = 0;
    }
    free_slot(slot);
    remove_if_empty(place);
    return slot;
}

int64_t ft_requests_free(uint64_t value)
{
    struct ft_persistent *persistent = ft_requests_persistent(value);
    if (!persistent)
        return ft_requests_complete(value);
    const int64_t slot = persistent->slot;
    free_slot(slot);
    free(persistent);
    struct handle **place = place_of(value);
    (*place)->persistent = NULL;
    remove_if_empty(place);
    return slot;
}
