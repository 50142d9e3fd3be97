#define _GNU_SOURCE
#include "tracer/events/registry.h"

#include "tracer/events/counting_sets.h"
#include "tracer/events/lanes.h"
#include "tracer/events/reading.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* callbacks may register events */
static _Atomic(struct board *) board;
static struct library *libraries;
static struct local_event **entries; /* by number */
static uint32_t num_entries, room;
static void *by_name; /* a tree of entries */
static uint32_t num_counters, num_recorders;
static uint32_t *free_counters, num_free_counters;
static uint32_t *free_recorders, num_free_recorders;
static int64_t epochs;

/* ---- process ------------------------------------------------------------------------------------------------------ */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    board_fork(board);
    lanes_fork(board);
}

static void keep_last(struct local_event *entry, void *context)
{
    (void)context;
    const uint32_t kind = atomic_load(&entry->event->kind);
    long long value;
    if ((kind == EVENT_REGISTERED || kind == EVENT_CALLBACK) && reading_value(board, entry, 0, &value) == SDE_OK)
        atomic_store(&entry->event->last, value);
}

static void at_exit(void)
{
    struct board *its = registry_lock();
    if (!its)
        return;
    if (board_is_kept(its))
        registry_each(keep_last, NULL);
    else
        board_end(its);
    atomic_store(&its->is_ended, 1);
    registry_unlock();
}

static void keep_callback(struct local_event *entry, void *context)
{
    if (atomic_load(&entry->event->kind) != EVENT_CALLBACK)
        return;
    keep_last(entry, context);
    entry->callback = NULL;
}

__attribute__((visibility("default"))) void foretrace_events_end_callbacks(void)
{
    struct board *its = registry_board() ? registry_lock() : NULL;
    if (!its)
        return;
    if (board_is_kept(its))
        registry_each(keep_callback, NULL);
    registry_unlock();
}

struct board *registry_lock(void)
{
    pthread_mutex_lock(&lock);
    if (!board) {
        board = board_get();
        if (board) {
            pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
            atexit(at_exit);
        } else {
            pthread_mutex_unlock(&lock);
        }
    }
    return board;
}

void registry_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct board *registry_board(void)
{
    return atomic_load_explicit(&board, memory_order_acquire);
}

/* ---- libraries ---------------------------------------------------------------------------------------------------- */

struct library *registry_library(const char *name)
{
    struct library *library = libraries;
    while (library && strcmp(library->name, name) != 0)
        library = library->next;
    if (library)
        return library;
    library = malloc(sizeof *library + strlen(name) + 1);
    if (library) {
        strcpy(library->name, name);
        library->next = libraries;
        libraries = library;
    }
    return library;
}

bool registry_has_library(const void *handle)
{
    const struct library *library = libraries;
    while (library && library != handle)
        library = library->next;
    return library != NULL;
}

void registry_remove_library(struct library *library)
{
    for (uint32_t i = 0; i < num_entries; i++)
        if (entries[i]->library == library)
            registry_end(entries[i]);
    struct library **link = &libraries;
    while (*link != library)
        link = &(*link)->next;
    *link = library->next;
    free(library);
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static int order(const void *left, const void *right)
{
    return strcmp(((const struct local_event *)left)->name, ((const struct local_event *)right)->name);
}

static struct local_event *found(const char *full_name)
{
    const struct local_event key = {.name = full_name};
    struct local_event **at = tfind(&key, &by_name, order);
    return at ? *at : NULL;
}

static char *full_name_of(const struct library *library, const char *name)
{
    const size_t first = strlen(library->name), second = strlen(name);
    char *full_name = malloc(first + 2 + second + 1);
    if (full_name) {
        memcpy(full_name, library->name, first);
        memcpy(full_name + first, "::", 2);
        memcpy(full_name + first + 2, name, second + 1);
    }
    return full_name;
}

struct local_event *registry_find(const struct library *library, const char *name)
{
    if (!library)
        return found(name);
    char *full_name = full_name_of(library, name);
    struct local_event *entry = full_name ? found(full_name) : NULL;
    free(full_name);
    return entry;
}

struct local_event *registry_by_id(uint32_t id)
{
    return id < num_entries && atomic_load(&entries[id]->event->kind) != EVENT_ENDED ? entries[id] : NULL;
}

uint32_t registry_num_events(void)
{
    return num_entries;
}

struct board_event *registry_event(const void *handle)
{
    struct board *its = registry_board();
    const uintptr_t at = (uintptr_t)handle, first = (uintptr_t)its;
    if (!its || at < first || at - first >= its->size_bytes - sizeof(struct board_event) || at % 16)
        return NULL;
    struct board_event *event = (struct board_event *)at;
    return atomic_load_explicit(&event->kind, memory_order_relaxed) != EVENT_ENDED ? event : NULL;
}

/* The next free one of `most` places. False: there is none. */
static bool free_slot(uint32_t *slot, uint32_t *free_slots, uint32_t *num_free, uint32_t *num_slots, uint32_t most)
{
    if (*num_free)
        *slot = free_slots[--*num_free];
    else if (*num_slots < most)
        *slot = (*num_slots)++;
    else
        return false;
    return true;
}

static bool has_room(void)
{
    if (!free_counters && !(free_counters = malloc(MOST_COUNTERS * sizeof *free_counters)))
        return false;
    if (!free_recorders && !(free_recorders = malloc(MOST_RECORDERS * sizeof *free_recorders)))
        return false;
    if (num_entries < room)
        return true;
    const uint32_t more = room ? 2 * room : 64;
    struct local_event **grown = realloc(entries, more * sizeof *entries);
    if (!grown)
        return false;
    entries = grown;
    room = more;
    return true;
}

/* Gives an event what its kind needs. False: no memory. */
static bool equip(struct board_event *event, enum event_kind kind)
{
    if (kind == EVENT_CREATED) {
        if (!free_slot(&event->slot, free_counters, &num_free_counters, &num_counters, MOST_COUNTERS))
            return false;
        atomic_store(&event->value, -lanes_sum(board, event->slot)); /* what an ended counter left there */
    } else if (kind == EVENT_RECORDER) {
        if (!free_slot(&event->slot, free_recorders, &num_free_recorders, &num_recorders, MOST_RECORDERS))
            return false;
        atomic_store(&event->value, ++epochs);
    }
    return true;
}

static struct local_event *new_entry(const struct library *library, const char *full_name)
{
    struct local_event *entry = has_room() ? calloc(1, sizeof *entry) : NULL;
    struct board_event *event = entry ? board_allocate(board, sizeof *event) : NULL;
    if (!event || !(event->name = board_text(board, full_name))) {
        free(entry);
        return NULL;
    }
    atomic_store(&event->description, event->name);
    event->id = num_entries;
    entry->event = event;
    entry->name = board_at(board, event->name);
    entry->library = library;
    if (!tsearch(entry, &by_name, order)) {
        free(entry);
        return NULL;
    }
    entries[num_entries++] = entry;
    return entry;
}

/* Shows a complete event to other processes. */
static void show(struct board_event *event)
{
    struct board_event *last = board_at(board, atomic_load(&board->last_event));
    const board_offset offset = board_offset_of(board, event);
    if (last)
        atomic_store(&last->next, offset);
    else
        atomic_store(&board->first_event, offset);
    atomic_store(&board->last_event, offset);
}

struct local_event *registry_add(const struct library *library, const char *name, enum event_kind kind, int mode,
                                 int type, bool *is_new)
{
    char *full_name = full_name_of(library, name);
    struct local_event *entry = full_name ? found(full_name) : NULL;
    const bool was_expected = entry && atomic_load(&entry->event->kind) == EVENT_PLACEHOLDER;
    *is_new = full_name && (!entry || was_expected);
    if (full_name && !entry)
        entry = new_entry(library, full_name);
    free(full_name);
    if (!entry || !*is_new)
        return entry;
    struct board_event *event = entry->event;
    if (!equip(event, kind)) {
        registry_end(entry);
        return NULL;
    }
    event->mode = mode;
    event->type = type;
    atomic_store(&event->kind, kind);
    if (!was_expected)
        show(event);
    return entry;
}

static void leave(struct local_event *group, struct local_event *entry)
{
    for (struct member **link = &group->members; *link;) {
        struct member *member = *link;
        if (member->entry != entry) {
            link = &member->next;
            continue;
        }
        *link = member->next;
        free(member);
    }
}

void registry_end(struct local_event *entry)
{
    struct board_event *event = entry->event;
    const uint32_t kind = atomic_exchange(&event->kind, EVENT_ENDED);
    if (!entry->library)
        return;
    tdelete(entry, &by_name, order);
    entry->library = NULL;
    if (kind == EVENT_CREATED)
        free_counters[num_free_counters++] = event->slot;
    if (kind == EVENT_RECORDER)
        free_recorders[num_free_recorders++] = event->slot;
    if (kind == EVENT_SET)
        counting_set_clear(board, entry);
    while (entry->members)
        leave(entry, entry->members->entry);
    for (uint32_t i = 0; i < num_entries; i++) {
        leave(entries[i], entry);
        if (entries[i]->recorder == entry)
            registry_end(entries[i]);
    }
}

void registry_reset_recorder(struct board_event *recorder)
{
    atomic_store(&recorder->value, ++epochs);
}

void registry_each(void (*use)(struct local_event *entry, void *context), void *context)
{
    for (uint32_t i = 0; i < num_entries; i++)
        if (entries[i]->library)
            use(entries[i], context);
}
