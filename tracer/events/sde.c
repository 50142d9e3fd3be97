/* The calls of libraries: arguments are checked, and handed on. */
#include "tracer/events/counting_sets.h"
#include "tracer/events/lanes.h"
#include "tracer/events/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define MOST_VALUE_BYTES ((size_t)1 << 30)

/* Says why on standard error, if PAPI_VERBOSE is set as for PAPI. */
static int refused(int code, const char *function, const char *why)
{
    if (getenv("PAPI_VERBOSE"))
        fprintf(stderr, "foretrace events: %s: %s\n", function, why);
    return code;
}

/* Locks the registry for a library's call. SDE_OK with `*board` NULL: there is nothing to do, as with PAPI, since the
 * library could not be initialised. */
static int begin(papi_handle_t handle, const char *name, const char *function, struct board **board)
{
    *board = NULL;
    if (!handle)
        return SDE_OK;
    if (!name)
        return refused(SDE_EINVAL, function, "the event has no name");
    *board = registry_lock();
    if (!*board)
        return SDE_ENOMEM;
    if (registry_has_library(handle))
        return SDE_OK;
    registry_unlock();
    *board = NULL;
    return refused(SDE_EINVAL, function, "the handle is of no library: papi_sde_init gives one");
}

static bool is_mode(int mode)
{
    return (mode & ~(PAPI_SDE_RW | PAPI_SDE_INSTANT)) == 0;
}

static bool is_type(int type)
{
    return type >= PAPI_SDE_long_long && type <= PAPI_SDE_float;
}

/* ---- libraries ---------------------------------------------------------------------------------------------------- */

EXPORTED papi_handle_t papi_sde_init(const char *name_of_library)
{
    if (!name_of_library || !registry_lock())
        return NULL;
    struct library *library = registry_library(name_of_library);
    registry_unlock();
    return library;
}

EXPORTED int papi_sde_shutdown(papi_handle_t handle)
{
    struct board *board;
    const int code = begin(handle, "", __func__, &board);
    if (!board)
        return code;
    registry_remove_library(handle);
    registry_unlock();
    return SDE_OK;
}

/* ---- counters of the library -------------------------------------------------------------------------------------- */

EXPORTED int papi_sde_register_counter(papi_handle_t handle, const char *event_name, int cntr_mode, int cntr_type,
                                       void *counter)
{
    struct board *board;
    if (!is_mode(cntr_mode))
        return refused(SDE_ECMP, __func__, "the mode is none: PAPI_SDE_RO or _RW, with _DELTA or _INSTANT");
    if (!is_type(cntr_type) || !counter)
        return refused(SDE_EINVAL, __func__, counter ? "the type is none" : "the counter is NULL");
    const int code = begin(handle, event_name, __func__, &board);
    if (!board)
        return code;
    bool is_new;
    struct local_event *entry = registry_add(handle, event_name, EVENT_REGISTERED, cntr_mode, cntr_type, &is_new);
    if (entry && is_new)
        atomic_store(&entry->event->value, (int64_t)(intptr_t)counter);
    registry_unlock();
    return entry ? SDE_OK : SDE_ENOMEM;
}

EXPORTED int papi_sde_register_counter_cb(papi_handle_t handle, const char *event_name, int cntr_mode, int cntr_type,
                                          papi_sde_fptr_t callback, void *param)
{
    struct board *board;
    if (!is_mode(cntr_mode))
        return refused(SDE_ECMP, __func__, "the mode is none: PAPI_SDE_RO or _RW, with _DELTA or _INSTANT");
    if (!is_type(cntr_type) || !callback)
        return refused(SDE_EINVAL, __func__, callback ? "the type is none" : "the callback is NULL");
    const int code = begin(handle, event_name, __func__, &board);
    if (!board)
        return code;
    bool is_new;
    struct local_event *entry = registry_add(handle, event_name, EVENT_CALLBACK, cntr_mode, cntr_type, &is_new);
    if (entry && is_new) {
        entry->callback = callback;
        entry->parameter = param;
    }
    registry_unlock();
    return entry ? SDE_OK : SDE_ENOMEM;
}

EXPORTED int papi_sde_unregister_counter(void *handle, const char *event_name)
{
    struct board *board;
    const int code = begin(handle, event_name, __func__, &board);
    if (!board)
        return code;
    struct local_event *entry = registry_find(handle, event_name);
    if (entry)
        registry_end(entry);
    registry_unlock();
    return entry ? SDE_OK : refused(SDE_EINVAL, __func__, "there is no event of that name");
}

EXPORTED int papi_sde_describe_counter(papi_handle_t handle, const char *event_name, const char *event_description)
{
    struct board *board;
    if (!event_description)
        return refused(SDE_EINVAL, __func__, "the description is NULL");
    int code = begin(handle, event_name, __func__, &board);
    if (!board)
        return code;
    struct local_event *entry = registry_find(handle, event_name);
    const board_offset text = entry ? board_text(board, event_description) : 0;
    if (text)
        atomic_store(&entry->event->description, text);
    code = text ? SDE_OK : entry ? SDE_ENOMEM : refused(SDE_EINVAL, __func__, "there is no event of that name");
    registry_unlock();
    return code;
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

static bool contains(const struct local_event *entry, const struct local_event *looked_for)
{
    if (entry == looked_for)
        return true;
    for (const struct member *member = entry->members; member; member = member->next)
        if (contains(member->entry, looked_for))
            return true;
    return false;
}

static int add_to_group(papi_handle_t handle, struct local_event *entry, const char *group_name, uint32_t flags)
{
    bool is_new;
    struct local_event *group = registry_add(handle, group_name, EVENT_GROUP, 0, entry->event->type, &is_new);
    if (!group)
        return SDE_ENOMEM;
    if (is_new)
        group->group_flags = flags;
    else if (atomic_load(&group->event->kind) != EVENT_GROUP)
        return refused(SDE_EINVAL, __func__, "an event that is no group has the name of the group");
    else if (group->group_flags != flags)
        return refused(SDE_EINVAL, __func__, "the group has other flags");
    if (contains(entry, group))
        return refused(SDE_EINVAL, __func__, "the group would contain itself");
    struct member *member = malloc(sizeof *member);
    if (!member)
        return SDE_ENOMEM;
    *member = (struct member){group->members, entry};
    group->members = member;
    return SDE_OK;
}

EXPORTED int papi_sde_add_counter_to_group(papi_handle_t handle, const char *event_name, const char *group_name,
                                           uint32_t group_flags)
{
    struct board *board;
    if (!group_name || group_flags > PAPI_SDE_MIN)
        return refused(SDE_EINVAL, __func__, group_name ? "the flags are none" : "the group has no name");
    int code = begin(handle, event_name, __func__, &board);
    if (!board)
        return code;
    struct local_event *entry = registry_find(handle, event_name);
    code = entry ? add_to_group(handle, entry, group_name, group_flags)
                 : refused(SDE_EINVAL, __func__, "there is no event of that name");
    registry_unlock();
    return code;
}

/* ---- created counters --------------------------------------------------------------------------------------------- */

EXPORTED int papi_sde_create_counter(papi_handle_t handle, const char *event_name, int cntr_mode, void **cntr_handle)
{
    struct board *board;
    if (!is_mode(cntr_mode))
        return refused(SDE_ECMP, __func__, "the mode is none: PAPI_SDE_RO or _RW, with _DELTA or _INSTANT");
    int code = begin(handle, event_name, __func__, &board);
    if (!board)
        return code;
    bool is_new;
    struct local_event *entry = registry_add(handle, event_name, EVENT_CREATED, cntr_mode, PAPI_SDE_long_long, &is_new);
    code = !entry ? SDE_ENOMEM : atomic_load(&entry->event->kind) == EVENT_CREATED ? SDE_OK : SDE_EINVAL;
    if (code == SDE_OK && is_new)
        lanes_expect(board, entry->event);
    if (code == SDE_OK && cntr_handle)
        *cntr_handle = entry->event;
    registry_unlock();
    return code == SDE_EINVAL ? refused(code, __func__, "another kind of event has that name") : code;
}

EXPORTED int papi_sde_inc_counter(void *cntr_handle, long long int increment)
{
    if (!cntr_handle)
        return SDE_OK;
    struct board_event *event = registry_event(cntr_handle);
    if (!event || atomic_load_explicit(&event->kind, memory_order_relaxed) != EVENT_CREATED)
        return refused(SDE_EINVAL, __func__, "the handle is of no created counter");
    return lanes_add(registry_board(), event->slot, increment) ? SDE_OK : SDE_ENOMEM;
}

EXPORTED int papi_sde_reset_counter(void *cntr_handle)
{
    if (!cntr_handle)
        return SDE_OK;
    struct board_event *event = registry_event(cntr_handle);
    if (!event || atomic_load(&event->kind) != EVENT_CREATED)
        return refused(SDE_EINVAL, __func__, "the handle is of no created counter");
    atomic_store(&event->value, -lanes_sum(registry_board(), event->slot));
    return SDE_OK;
}

/* ---- recorders ---------------------------------------------------------------------------------------------------- */

static const char *const ENDINGS[] = {":CNT", ":MIN", ":Q1", ":MED", ":Q3", ":MAX"}; /* by enum recorded */

/* The events that tell of a recorder. */
static int add_recorded(papi_handle_t handle, struct local_event *recorder, const char *event_name)
{
    const size_t length = strlen(event_name);
    char *name = malloc(length + sizeof ":CNT");
    if (!name)
        return SDE_ENOMEM;
    memcpy(name, event_name, length);
    int code = SDE_OK;
    for (int which = 0; which <= (recorder->compare ? RECORDED_GREATEST : RECORDED_NUMBER) && code == SDE_OK; which++) {
        bool is_new;
        strcpy(name + length, ENDINGS[which]);
        struct local_event *entry =
            registry_add(handle, name, EVENT_RECORDED, PAPI_SDE_INSTANT, PAPI_SDE_long_long, &is_new);
        if (!entry)
            code = SDE_ENOMEM;
        else if (is_new) {
            entry->recorded = (enum recorded)which;
            entry->recorder = recorder;
            atomic_store(&entry->event->value, (int64_t)((char *)recorder->event - (char *)registry_board()));
        }
    }
    free(name);
    return code;
}

/* The type of values that a comparison function of ours compares; -1: who knows. */
static int type_compared(int (*compare)(const void *, const void *))
{
    int (*const ours[])(const void *, const void *) = {
        [PAPI_SDE_long_long] = papi_sde_compare_long_long,
        [PAPI_SDE_int] = papi_sde_compare_int,
        [PAPI_SDE_double] = papi_sde_compare_double,
        [PAPI_SDE_float] = papi_sde_compare_float,
    };
    for (int type = PAPI_SDE_long_long; type <= PAPI_SDE_float; type++)
        if (compare == ours[type])
            return type;
    return -1;
}

EXPORTED int papi_sde_create_recorder(papi_handle_t handle, const char *event_name, size_t typesize,
                                      int (*cmpr_func_ptr)(const void *p1, const void *p2), void **record_handle)
{
    struct board *board;
    if (typesize == 0 || typesize > MOST_VALUE_BYTES)
        return refused(SDE_EINVAL, __func__, typesize ? "values of more than 1 GiB" : "values of 0 bytes");
    int code = begin(handle, event_name, __func__, &board);
    if (!board)
        return code;
    bool is_new;
    struct local_event *entry =
        registry_add(handle, event_name, EVENT_RECORDER, PAPI_SDE_DELTA, type_compared(cmpr_func_ptr), &is_new);
    code = !entry ? SDE_ENOMEM : atomic_load(&entry->event->kind) == EVENT_RECORDER ? SDE_OK : SDE_EINVAL;
    if (code == SDE_OK && !is_new && entry->event->size_bytes != typesize)
        code = SDE_EINVAL;
    if (code == SDE_OK && is_new) {
        entry->event->size_bytes = typesize;
        entry->compare = cmpr_func_ptr;
        lanes_expect(board, entry->event);
        code = add_recorded(handle, entry, event_name);
    }
    if (code == SDE_OK && record_handle)
        *record_handle = entry->event;
    registry_unlock();
    return code == SDE_EINVAL ? refused(code, __func__,
                                        "another kind of event, or a recorder of values of another size, has that name")
                              : code;
}

static struct board_event *recorder_of(void *handle)
{
    struct board_event *event = registry_event(handle);
    return event && atomic_load_explicit(&event->kind, memory_order_relaxed) == EVENT_RECORDER ? event : NULL;
}

EXPORTED int papi_sde_record(void *record_handle, size_t typesize, const void *value)
{
    if (!record_handle)
        return SDE_OK;
    struct board_event *event = recorder_of(record_handle);
    if (!event || !value || typesize != event->size_bytes)
        return refused(SDE_EINVAL, __func__, event ? "values of another size" : "the handle is of no recorder");
    return lanes_record(registry_board(), event, value) ? SDE_OK : SDE_ENOMEM;
}

EXPORTED int papi_sde_reset_recorder(void *record_handle)
{
    if (!record_handle)
        return SDE_OK;
    struct board_event *event = recorder_of(record_handle);
    if (!event)
        return refused(SDE_EINVAL, __func__, "the handle is of no recorder");
    if (!registry_lock())
        return SDE_ENOMEM;
    registry_reset_recorder(event);
    registry_unlock();
    return SDE_OK;
}

/* ---- counting sets ------------------------------------------------------------------------------------------------ */

EXPORTED int papi_sde_create_counting_set(papi_handle_t handle, const char *cset_name, void **cset_handle)
{
    struct board *board;
    int code = begin(handle, cset_name, __func__, &board);
    if (!board)
        return code;
    bool is_new;
    struct local_event *entry = registry_add(handle, cset_name, EVENT_SET, PAPI_SDE_DELTA, PAPI_SDE_long_long, &is_new);
    code = !entry ? SDE_ENOMEM : atomic_load(&entry->event->kind) == EVENT_SET ? SDE_OK : SDE_EINVAL;
    if (code == SDE_OK && cset_handle)
        *cset_handle = entry->event;
    registry_unlock();
    return code == SDE_EINVAL ? refused(code, __func__, "another kind of event has that name") : code;
}

/* Locks the registry for a counting set. NULL, and nothing is locked: the handle is of none. */
static struct local_event *locked_set(void *handle, struct board **board)
{
    struct board_event *event = registry_event(handle);
    *board = event && atomic_load(&event->kind) == EVENT_SET ? registry_lock() : NULL;
    struct local_event *entry = *board ? registry_by_id(event->id) : NULL;
    if (*board && !entry)
        registry_unlock();
    return entry;
}

EXPORTED int papi_sde_counting_set_insert(void *cset_handle, size_t element_size, size_t hashable_size,
                                          const void *element, uint32_t type_id)
{
    struct board *board;
    if (!cset_handle)
        return SDE_OK;
    const bool is_element = element && hashable_size <= element_size && element_size <= MOST_VALUE_BYTES;
    struct local_event *set = is_element ? locked_set(cset_handle, &board) : NULL;
    if (!set)
        return refused(SDE_EINVAL, __func__, "the handle is of no counting set, or the element is none");
    const int code = counting_set_insert(board, set, element_size, hashable_size, element, type_id);
    registry_unlock();
    return code;
}

EXPORTED int papi_sde_counting_set_remove(void *cset_handle, size_t hashable_size, const void *element,
                                          uint32_t type_id)
{
    struct board *board;
    if (!cset_handle)
        return SDE_OK;
    struct local_event *set = element ? locked_set(cset_handle, &board) : NULL;
    if (!set)
        return refused(SDE_EINVAL, __func__, "the handle is of no counting set, or the element is none");
    const int code = counting_set_remove(set, hashable_size, element, type_id);
    registry_unlock();
    return code;
}

/* ---- others ------------------------------------------------------------------------------------------------------- */

EXPORTED void *papi_sde_get_counter_handle(papi_handle_t handle, const char *event_name)
{
    struct board *board;
    begin(handle, event_name, __func__, &board);
    if (!board)
        return NULL;
    struct local_event *entry = registry_find(handle, event_name);
    registry_unlock();
    return entry ? entry->event : NULL;
}

#define COMPARISON(name, type)                                \
    EXPORTED int name(const void *p1, const void *p2)         \
    {                                                         \
        const type left = *(const type *)p1, right = *(const type *)p2; \
        return (left > right) - (left < right);               \
    }

COMPARISON(papi_sde_compare_long_long, long long)
COMPARISON(papi_sde_compare_int, int)
COMPARISON(papi_sde_compare_double, double)
COMPARISON(papi_sde_compare_float, float)
