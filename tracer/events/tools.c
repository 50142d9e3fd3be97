/* The calls of tools: what PAPI's component for software-defined events asks for, by number, and event sets. */
#define _GNU_SOURCE
#include "tracer/events/counting_sets.h"
#include "tracer/events/reading.h"
#include "tracer/events/registry.h"

#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* Locks the registry for an event's number. NULL, and nothing is locked: there is none. */
static struct local_event *locked(uint32_t id, struct board **board)
{
    *board = registry_board() ? registry_lock() : NULL;
    struct local_event *entry = *board ? registry_by_id(id) : NULL;
    if (*board && !entry)
        registry_unlock();
    return entry;
}

/* ---- PAPI's component --------------------------------------------------------------------------------------------- */

EXPORTED int sde_ti_read_counter(uint32_t counter_id, long long int *rslt_ptr)
{
    struct board *board;
    struct local_event *entry = rslt_ptr ? locked(counter_id, &board) : NULL;
    if (!entry)
        return SDE_EINVAL;
    const int code = reading_value(board, entry, entry->at_start, rslt_ptr);
    registry_unlock();
    return code;
}

EXPORTED int sde_ti_write_counter(uint32_t counter_id, long long value)
{
    struct board *board;
    struct local_event *entry = locked(counter_id, &board);
    if (!entry)
        return SDE_EINVAL;
    const int code = reading_write(board, entry, value);
    registry_unlock();
    return code;
}

EXPORTED int sde_ti_reset_counter(uint32_t counter_id)
{
    struct board *board;
    struct local_event *entry = locked(counter_id, &board);
    if (!entry)
        return SDE_EINVAL;
    const int code = reading_start(board, entry, &entry->at_start);
    if (atomic_load(&entry->event->kind) == EVENT_SET)
        counting_set_clear(board, entry);
    registry_unlock();
    return code;
}

/* The event of a name in full; if there is none of a library, one that is expected. With the lock. */
static struct local_event *expected(const char *event_name)
{
    struct local_event *entry = registry_find(NULL, event_name);
    const char *separator = strstr(event_name, "::");
    if (entry || !separator)
        return entry;
    char *library_name = strndup(event_name, (size_t)(separator - event_name));
    struct library *library = library_name ? registry_library(library_name) : NULL;
    free(library_name);
    bool is_new;
    return library ? registry_add(library, separator + 2, EVENT_PLACEHOLDER, 0, PAPI_SDE_long_long, &is_new) : NULL;
}

EXPORTED int sde_ti_name_to_code(const char *event_name, uint32_t *event_code)
{
    if (!event_name || !event_code)
        return SDE_EINVAL;
    if (!registry_lock())
        return SDE_ENOMEM;
    struct local_event *entry = expected(event_name);
    if (entry)
        *event_code = entry->event->id;
    registry_unlock();
    return entry ? SDE_OK : SDE_ENOEVNT;
}

static uint32_t kind_of(uint32_t counter_id)
{
    struct board *board;
    struct local_event *entry = locked(counter_id, &board);
    if (!entry)
        return EVENT_ENDED;
    const uint32_t kind = atomic_load(&entry->event->kind);
    registry_unlock();
    return kind;
}

EXPORTED int sde_ti_is_simple_counter(uint32_t counter_id)
{
    return kind_of(counter_id) == EVENT_REGISTERED;
}

/* Overflow is noticed by PAPI's timer, which reads the counter; also of created ones. */
EXPORTED int sde_ti_is_counter_set_to_overflow(uint32_t counter_id)
{
    struct board *board;
    struct local_event *entry = locked(counter_id, &board);
    if (!entry)
        return 0;
    const int overflows = entry->overflows;
    registry_unlock();
    return overflows;
}

EXPORTED int sde_ti_set_counter_overflow(uint32_t counter_id, int threshold)
{
    enum { SET_A_TIMER = 0xFF };
    struct board *board;
    struct local_event *entry = locked(counter_id, &board);
    if (!entry)
        return registry_board() ? SDE_EINVAL : SDE_OK;
    const uint32_t kind = atomic_load(&entry->event->kind);
    const bool can = threshold <= 0 || (kind != EVENT_RECORDER && kind != EVENT_SET);
    if (can)
        entry->overflows = threshold > 0;
    registry_unlock();
    return can ? SET_A_TIMER : SDE_EINVAL;
}

EXPORTED char *sde_ti_get_event_name(int event_id)
{
    struct board *board;
    struct local_event *entry = event_id < 0 ? NULL : locked((uint32_t)event_id, &board);
    if (!entry)
        return NULL;
    char *name = board_at(board, entry->event->name);
    registry_unlock();
    return name;
}

EXPORTED char *sde_ti_get_event_description(int event_id)
{
    struct board *board;
    struct local_event *entry = event_id < 0 ? NULL : locked((uint32_t)event_id, &board);
    if (!entry)
        return NULL;
    char *description = board_at(board, atomic_load(&entry->event->description));
    registry_unlock();
    return description;
}

EXPORTED int sde_ti_get_num_reg_events(void)
{
    return registry_board() ? (int)registry_num_events() : 0;
}

EXPORTED int sde_ti_shutdown(void)
{
    return SDE_OK;
}

/* ---- event sets --------------------------------------------------------------------------------------------------- */

struct counted {
    uint32_t id;
    long long at_start;
};

struct foretrace_event_set {
    size_t num_events;
    bool is_started;
    struct counted events[];
};

EXPORTED struct foretrace_event_set *foretrace_events_open(const char *const *names, size_t num_names)
{
    if (!names || num_names > SIZE_MAX / (2 * sizeof(struct counted)))
        return NULL;
    struct foretrace_event_set *set = calloc(1, sizeof *set + num_names * sizeof set->events[0]);
    for (size_t i = 0; set && i < num_names; i++) {
        if (sde_ti_name_to_code(names[i], &set->events[i].id) == SDE_OK)
            continue;
        free(set);
        set = NULL;
    }
    if (set)
        set->num_events = num_names;
    return set;
}

EXPORTED int foretrace_events_start(struct foretrace_event_set *set)
{
    struct board *board;
    if (!set)
        return SDE_EINVAL;
    for (size_t i = 0; i < set->num_events; i++) {
        struct local_event *entry = locked(set->events[i].id, &board);
        if (!entry)
            continue; /* unregistered: reading says so */
        const int code = reading_start(board, entry, &set->events[i].at_start);
        registry_unlock();
        if (code != SDE_OK)
            return code;
    }
    set->is_started = true;
    return SDE_OK;
}

EXPORTED int foretrace_events_read(struct foretrace_event_set *set, long long *values)
{
    if (!set || !values || !set->is_started)
        return SDE_EINVAL;
    for (size_t i = 0; i < set->num_events; i++) {
        struct board *board;
        struct local_event *entry = locked(set->events[i].id, &board);
        if (!entry)
            return SDE_ENOEVNT;
        const int code = reading_value(board, entry, set->events[i].at_start, &values[i]);
        registry_unlock();
        if (code != SDE_OK)
            return code;
    }
    return SDE_OK;
}

EXPORTED int foretrace_events_stop(struct foretrace_event_set *set, long long *values)
{
    const int code = foretrace_events_read(set, values);
    if (code == SDE_OK)
        set->is_started = false;
    return code;
}

EXPORTED int foretrace_events_reset(struct foretrace_event_set *set)
{
    return set && set->is_started ? foretrace_events_start(set) : SDE_EINVAL;
}

/* What is read of an event that has a type. */
static int type_of(const struct local_event *entry)
{
    switch (atomic_load(&entry->event->kind)) {
    case EVENT_PLACEHOLDER: return SDE_ENOEVNT;
    case EVENT_RECORDED: {
        const int type = entry->recorder->event->type;
        if (entry->recorded == RECORDED_NUMBER)
            return PAPI_SDE_long_long;
        return FORETRACE_POINTER | (type < 0 ? FORETRACE_NO_TYPE : type);
    }
    case EVENT_RECORDER:
    case EVENT_SET: return FORETRACE_POINTER | FORETRACE_NO_TYPE;
    default: return entry->event->type;
    }
}

EXPORTED int foretrace_events_type(const struct foretrace_event_set *set, size_t number)
{
    struct board *board;
    if (!set || number >= set->num_events)
        return SDE_EINVAL;
    struct local_event *entry = locked(set->events[number].id, &board);
    if (!entry)
        return SDE_ENOEVNT;
    const int type = type_of(entry);
    registry_unlock();
    return type;
}

EXPORTED int foretrace_events_values(const char *event_name, void **values, size_t *num_values)
{
    if (!event_name || !values || !num_values)
        return SDE_EINVAL;
    struct board *board = registry_board() ? registry_lock() : NULL;
    if (!board)
        return SDE_ENOEVNT;
    struct local_event *entry = registry_find(NULL, event_name);
    int code = !entry ? SDE_ENOEVNT : atomic_load(&entry->event->kind) == EVENT_RECORDER ? SDE_OK : SDE_EINVAL;
    if (code == SDE_OK && !(*values = reading_values(board, entry->event, num_values)))
        code = SDE_ENOMEM;
    registry_unlock();
    return code;
}

EXPORTED void foretrace_events_close(struct foretrace_event_set *set)
{
    free(set);
}
