/* See exchange.h. Slots are claimed once and never given back; all fields change by single atomic steps, so that a
 * process that is killed leaves nothing locked. */
#define _GNU_SOURCE
#include "exchange.h"

#include "tracer/transport/children.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXCHANGE_POSTS 16u
#define MOST_PROBES 16u

struct slot {
    _Atomic uint64_t object; /* 0: free */
    _Atomic uint64_t other;  /* the connection's other end; 0: none */
    _Atomic uint64_t posts, taken;
    _Atomic uint64_t places[EXCHANGE_POSTS];
};

static struct slot *slots;
static uint64_t num_slots;

void exchange_attach(uint32_t reader_pid, uint32_t fd)
{
    struct stat status;
    const int memory = ft_children_open(reader_pid, fd);
    if (memory < 0)
        return;
    if (fstat(memory, &status) == 0 && (uint64_t)status.st_size >= sizeof *slots) {
        void *found = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        if (found != MAP_FAILED) {
            slots = found;
            num_slots = (uint64_t)status.st_size / sizeof *slots;
        }
    }
    close(memory);
}

bool exchange_is_there(void)
{
    return slots != NULL;
}

static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9); /* splitmix64 */
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

uint64_t exchange_object(uint64_t kind, uint64_t a, uint64_t b)
{
    const uint64_t object = mixed(mixed(mixed(kind + 1) ^ a) ^ b);
    return object ? object : 1;
}

static struct slot *slot_of(uint64_t object, bool may_claim)
{
    for (uint64_t i = 0; slots && i < MOST_PROBES; i++) {
        struct slot *slot = &slots[(object + i) % num_slots];
        uint64_t found = atomic_load(&slot->object);
        if (found == 0 && !may_claim)
            return NULL;
        if (found == 0 && atomic_compare_exchange_strong(&slot->object, &found, object))
            return slot;
        if (found == object)
            return slot;
    }
    return NULL;
}

void exchange_post(uint64_t object, uint64_t place)
{
    struct slot *slot = slot_of(object, true);
    if (!slot)
        return;
    const uint64_t number = atomic_load(&slot->posts);
    atomic_store(&slot->places[number % EXCHANGE_POSTS], place);
    atomic_fetch_add(&slot->posts, 1);
}

uint64_t exchange_take(uint64_t object)
{
    struct slot *slot = slot_of(object, false);
    if (!slot)
        return 0;
    uint64_t taken = atomic_load(&slot->taken);
    do {
        if (taken >= atomic_load(&slot->posts))
            return 0;
    } while (!atomic_compare_exchange_weak(&slot->taken, &taken, taken + 1));
    const uint64_t posts = atomic_load(&slot->posts);
    const uint64_t oldest = posts > EXCHANGE_POSTS ? posts - EXCHANGE_POSTS : 0;
    return atomic_load(&slot->places[(taken > oldest ? taken : oldest) % EXCHANGE_POSTS]);
}

uint64_t exchange_last(uint64_t object)
{
    struct slot *slot = slot_of(object, false);
    const uint64_t posts = slot ? atomic_load(&slot->posts) : 0;
    return posts ? atomic_load(&slot->places[(posts - 1) % EXCHANGE_POSTS]) : 0;
}

void exchange_connect(uint64_t one, uint64_t other)
{
    struct slot *first = slot_of(one, true), *second = slot_of(other, true);
    if (first)
        atomic_store(&first->other, other);
    if (second)
        atomic_store(&second->other, one);
}

uint64_t exchange_other_end(uint64_t object)
{
    struct slot *slot = slot_of(object, false);
    return slot ? atomic_load(&slot->other) : 0;
}
