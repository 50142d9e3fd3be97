#define _GNU_SOURCE
#include "tracer/events/reading.h"

#include "tracer/events/counting_sets.h"
#include "tracer/events/lanes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096

/* ---- numbers ------------------------------------------------------------------------------------------------------ */

/* Whether memory is mapped: the variable or callback of a library that was unloaded is not. */
static bool is_mapped(const void *from, size_t size_bytes)
{
    unsigned char pages[2];
    char *const first = (char *)((uintptr_t)from & ~(uintptr_t)(PAGE_BYTES - 1));
    return from && mincore(first, (size_t)((const char *)from + size_bytes - first), pages) == 0;
}

static double as_double(long long bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static long long as_bits(double number)
{
    long long bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* The number of a type at an address, less the one at the start. */
static int number_at(const void *at, int type, long long at_start, long long *value)
{
    union {
        long long whole;
        int narrow;
        double real;
        float narrow_real;
    } number;
    switch (type) {
    case PAPI_SDE_long_long:
        memcpy(&number.whole, at, sizeof number.whole);
        *value = (long long)((unsigned long long)number.whole - (unsigned long long)at_start);
        return SDE_OK;
    case PAPI_SDE_int:
        memcpy(&number.narrow, at, sizeof number.narrow);
        *value = (int)((unsigned)number.narrow - (unsigned)at_start);
        return SDE_OK;
    case PAPI_SDE_double:
        memcpy(&number.real, at, sizeof number.real);
        *value = as_bits(number.real - as_double(at_start));
        return SDE_OK;
    case PAPI_SDE_float:
        memcpy(&number.narrow_real, at, sizeof number.narrow_real);
        *value = as_bits((double)(number.narrow_real - (float)as_double(at_start)));
        return SDE_OK;
    default: return SDE_EINVAL;
    }
}

static size_t size_of(int type)
{
    return type == PAPI_SDE_int || type == PAPI_SDE_float ? 4 : 8;
}

static int simple_value(struct board *board, struct local_event *entry, long long at_start, long long *value)
{
    struct board_event *event = entry->event;
    if (event->mode & PAPI_SDE_INSTANT)
        at_start = 0;
    if (atomic_load(&event->kind) == EVENT_CREATED) {
        const long long sum =
            (long long)((uint64_t)atomic_load(&event->value) + (uint64_t)lanes_sum(board, event->slot));
        return number_at(&sum, event->type, at_start, value);
    }
    if (atomic_load(&event->kind) == EVENT_CALLBACK) {
        if (!is_mapped((const void *)(uintptr_t)entry->callback, 1))
            return SDE_EINVAL;
        const long long returned = entry->callback(entry->parameter);
        return number_at(&returned, event->type, at_start, value);
    }
    const void *variable = (const void *)(uintptr_t)atomic_load(&event->value);
    return is_mapped(variable, size_of(event->type)) ? number_at(variable, event->type, at_start, value) : SDE_EINVAL;
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

static long long combined(long long left, long long right, int type, uint32_t flags)
{
    const bool is_real = type == PAPI_SDE_double || type == PAPI_SDE_float;
    if (flags == PAPI_SDE_SUM) {
        if (type == PAPI_SDE_float)
            return as_bits((double)((float)as_double(left) + (float)as_double(right)));
        return is_real ? as_bits(as_double(left) + as_double(right))
                       : (long long)((unsigned long long)left + (unsigned long long)right);
    }
    const bool is_less = is_real ? as_double(left) < as_double(right) : left < right;
    return is_less == (flags == PAPI_SDE_MIN) ? left : right;
}

static int group_type(const struct local_event *group)
{
    while (group->members)
        group = group->members->entry;
    return group->event->type;
}

static int group_value(struct board *board, struct local_event *group, long long *value)
{
    bool is_first = true;
    *value = 0;
    for (struct member *member = group->members; member; member = member->next) {
        long long its;
        if (reading_value(board, member->entry, member->entry->at_start, &its) != SDE_OK)
            continue;
        *value = is_first ? its : combined(*value, its, group_type(group), group->group_flags);
        is_first = false;
    }
    return SDE_OK;
}

/* ---- recorders ---------------------------------------------------------------------------------------------------- */

struct copy {
    char *to;
    size_t used_bytes, size_bytes;
};

static void add_size(const char *values, size_t size_bytes, void *context)
{
    (void)values;
    ((struct copy *)context)->size_bytes += size_bytes;
}

static void add_values(const char *values, size_t size_bytes, void *context)
{
    struct copy *copy = context;
    if (size_bytes > copy->size_bytes - copy->used_bytes) /* recorded meanwhile */
        size_bytes = copy->size_bytes - copy->used_bytes;
    memcpy(copy->to + copy->used_bytes, values, size_bytes);
    copy->used_bytes += size_bytes;
}

char *reading_values(struct board *board, const struct board_event *recorder, size_t *num_values)
{
    struct copy copy = {0};
    lanes_values(board, recorder, add_size, &copy);
    copy.to = malloc(copy.size_bytes + 1);
    if (copy.to)
        lanes_values(board, recorder, add_values, &copy);
    *num_values = copy.used_bytes / recorder->size_bytes;
    return copy.to;
}

/* Which of sorted values it is, as PAPI takes it. */
static size_t place_of(enum recorded which, size_t num_values)
{
    switch (which) {
    case RECORDED_QUARTILE_1: return num_values * 25 / 100;
    case RECORDED_MEDIAN: return num_values * 50 / 100;
    case RECORDED_QUARTILE_3: return num_values * 75 / 100;
    case RECORDED_GREATEST: return num_values - 1;
    default: return 0;
    }
}

static int recorded_value(struct board *board, const struct local_event *entry, long long *value)
{
    const struct board_event *recorder = entry->recorder->event;
    struct copy all = {0};
    *value = 0;
    if (entry->recorded == RECORDED_NUMBER) {
        lanes_values(board, recorder, add_size, &all);
        *value = (long long)(all.size_bytes / recorder->size_bytes);
        return SDE_OK;
    }
    size_t num_values;
    char *values = reading_values(board, recorder, &num_values);
    char *copy = values && num_values ? malloc(recorder->size_bytes) : NULL;
    if (copy) {
        qsort(values, num_values, recorder->size_bytes, entry->recorder->compare);
        memcpy(copy, values + place_of(entry->recorded, num_values) * recorder->size_bytes, recorder->size_bytes);
    }
    const bool is_missing = !values || (num_values && !copy);
    free(values);
    *value = (long long)(intptr_t)copy;
    return is_missing ? SDE_ENOMEM : SDE_OK;
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

int reading_value(struct board *board, struct local_event *entry, long long at_start, long long *value)
{
    size_t num_values;
    switch (atomic_load(&entry->event->kind)) {
    case EVENT_PLACEHOLDER: *value = -1; return SDE_OK;
    case EVENT_REGISTERED:
    case EVENT_CALLBACK:
    case EVENT_CREATED: return simple_value(board, entry, at_start, value);
    case EVENT_RECORDER:
        *value = (long long)(intptr_t)reading_values(board, entry->event, &num_values);
        return *value ? SDE_OK : SDE_ENOMEM;
    case EVENT_RECORDED: return recorded_value(board, entry, value);
    case EVENT_SET: *value = (long long)(intptr_t)counting_set_list(board, entry); return SDE_OK;
    case EVENT_GROUP: return group_value(board, entry, value);
    default: return SDE_ENOEVNT;
    }
}

int reading_start(struct board *board, struct local_event *entry, long long *at_start)
{
    if (entry->event->mode & PAPI_SDE_INSTANT)
        return SDE_OK;
    switch (atomic_load(&entry->event->kind)) {
    case EVENT_REGISTERED:
    case EVENT_CALLBACK:
    case EVENT_CREATED: return simple_value(board, entry, 0, at_start);
    default: return SDE_OK;
    }
}

int reading_write(struct board *board, struct local_event *entry, long long value)
{
    struct board_event *event = entry->event;
    const uint32_t kind = atomic_load(&event->kind);
    if (kind != EVENT_REGISTERED && kind != EVENT_CREATED)
        return SDE_EINVAL;
    if (!(event->mode & PAPI_SDE_RW))
        return SDE_ECMP;
    if (kind == EVENT_CREATED) {
        atomic_store(&event->value, (int64_t)((uint64_t)value - (uint64_t)lanes_sum(board, event->slot)));
        return SDE_OK;
    }
    void *variable = (void *)(uintptr_t)atomic_load(&event->value);
    if (!is_mapped(variable, size_of(event->type)))
        return SDE_EINVAL;
    switch (event->type) {
    case PAPI_SDE_int: *(int *)variable = (int)value; break;
    case PAPI_SDE_float: *(float *)variable = (float)as_double(value); break;
    default: /* a long long, or a double's bits */ memcpy(variable, &value, sizeof value);
    }
    return SDE_OK;
}
