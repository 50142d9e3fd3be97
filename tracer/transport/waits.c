/* See waits.h. */
#include "waits.h"

#include <pthread.h>
#include <string.h>

#define SLOTS 16384u

struct slot {
    uint64_t place, event, before; /* before: the event that the last one took the place of */
    bool ends;
};

static struct slot slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct slot *slot_of(uint64_t place)
{
    return &slots[(place * UINT64_C(0x9e3779b97f4a7c15)) >> 50];
}

uint64_t ft_waits_post(struct ft_cursor *cursor, uint64_t place, bool ends)
{
    const uint64_t event = ft_next_event(cursor);
    struct slot *slot = slot_of(place);
    pthread_mutex_lock(&lock);
    *slot = (struct slot){place, event, slot->place == place ? slot->event : 0, ends};
    pthread_mutex_unlock(&lock);
    return event;
}

void ft_waits_take_back(uint64_t place, uint64_t event)
{
    struct slot *slot = slot_of(place);
    pthread_mutex_lock(&lock);
    if (slot->place == place && slot->event == event)
        slot->event = slot->before;
    pthread_mutex_unlock(&lock);
}

uint64_t ft_waits_last(uint64_t place, bool *ends)
{
    const struct slot *slot = slot_of(place);
    pthread_mutex_lock(&lock);
    const struct slot found = *slot;
    pthread_mutex_unlock(&lock);
    *ends = found.ends;
    return found.place == place ? found.event : 0;
}

void ft_waits_woken(struct ft_cursor *cursor, uint64_t place, bool was_woken)
{
    bool ends;
    const uint64_t event = ft_waits_last(place, &ends);
    if (was_woken || ends)
        ft_write_synchronisation(cursor, ends ? FT_SYNC_JOINED : FT_SYNC_WOKEN, event);
}

void ft_waits_forget(void)
{
    pthread_mutex_init(&lock, NULL); /* another thread of the parent may have held it */
    memset(slots, 0, sizeof slots);
}
