/* The libraries and events of a process, by name and number.
 *
 * What other processes may read lies on the board; here is what only this one can use: callbacks, comparison functions,
 * members of groups. One lock guards all of it. Counting and recording do not take it.
 */
#ifndef FORETRACE_REGISTRY_H
#define FORETRACE_REGISTRY_H

#include "tracer/events/board.h"
#include "tracer/events/include/foretrace_events.h"

struct library {
    struct library *next;
    char name[];
};

struct member {
    struct member *next;
    struct local_event *entry;
};

/* What a recorder tells of its values. */
enum recorded {
    RECORDED_NUMBER,
    RECORDED_LEAST,
    RECORDED_QUARTILE_1,
    RECORDED_MEDIAN,
    RECORDED_QUARTILE_3,
    RECORDED_GREATEST
};

/* An event. Ended ones stay, under no name, so that a number stands for one event for good. */
struct local_event {
    struct board_event *event;
    const char *name; /* `library::event` */
    const struct library *library;
    long long at_start; /* when counting began, of the PAPI component; bits of a double for floating-point counters */
    papi_sde_fptr_t callback;
    void *parameter;
    int (*compare)(const void *, const void *);
    struct local_event *recorder; /* that it tells of */
    enum recorded recorded;
    void *elements; /* of a counting set: a tree, see counting_sets.c */
    struct member *members;
    uint32_t group_flags;
    bool overflows;
};

/* Locks the registry and gives the board; NULL, and nothing is locked: there is no memory. */
struct board *registry_lock(void);
void registry_unlock(void);

/* The board, once there is one, without the lock. */
struct board *registry_board(void);

/* With the lock: */

/* The library of that name, which is added. NULL: no memory. */
struct library *registry_library(const char *name);

/* Whether a handle is one of a library. */
bool registry_has_library(const void *handle);
void registry_remove_library(struct library *library);

/* NULL: there is none of that name. Without a library: `name` is in full. */
struct local_event *registry_find(const struct library *library, const char *name);
struct local_event *registry_by_id(uint32_t id);
uint32_t registry_num_events(void);

/* The event that a handle stands for. NULL: it is none that lives. Needs no lock. */
struct board_event *registry_event(const void *handle);

/* Adds an event of that name, or makes one of its placeholder. `*is_new`: false if there was one already, which is not
 * changed. NULL: no memory. */
struct local_event *registry_add(const struct library *library, const char *name, enum event_kind kind, int mode,
                                 int type, bool *is_new);

/* Ends an event: it leaves its groups, and its name and handle stand for nothing. */
void registry_end(struct local_event *entry);

/* Begins another epoch of a recorder. */
void registry_reset_recorder(struct board_event *recorder);

/* Calls `use` for each event that lives. */
void registry_each(void (*use)(struct local_event *entry, void *context), void *context);

#endif
