/* The event loop of the replay: entities go through programs of operations and share cores, bandwidth, locks and
 * devices.
 *
 * An entity (a thread; ranks and streams would be entities, too) runs a program: FT_RUN takes `x` seconds alone, longer
 * while others share its resources. Entities that run at the same speed form a class. A class has a virtual clock V,
 * the seconds of work that each of its entities has done since the class was last empty; an entity that begins w
 * seconds of work at V ends at V + w. So an event costs time in proportion to the running classes, and to the logarithm
 * of their entities.
 *
 * Rates: cores are shared evenly (share s = min(1, cores / entities that run)); an entity asks for demand x s bytes/s
 * of each of its resources and gets a max-min fair rate (sharing.c); its V advances at speed x s x (rate / asked).
 *
 * Waking: an operation that waits says by `b` whether it sleeps in the kernel (1) or spins (0). Whoever was let go on
 * does so after `wake_latency_s` or `transfer_s`; who wakes sleepers spends `wake_call_s` on each, one after the other.
 * A lock that is waited for asleep is not handed over: it is free, and who was woken tries again, as in glibc's mutex
 * (nptl/lowlevellock.h, state 0: free, 1: taken, 2: taken and perhaps waited for). A running thread may take it before.
 *
 * Order at one instant: entities whose work ends go on in order of their numbers; then those they wake, in order of
 * waking.
 *
 * Invariants: an entity is in one place only: the ready ring, the heap of its class, the timers, the queue of an
 * object, with the caller (FT_CALLING), or done. All sums lie in one array, `sums`, so that repeat.c can add many
 * periods of them at once. Names and printing are the caller's.
 */
#ifndef FT_ENGINE_H
#define FT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_MAX_NESTING 64 /* of loops in a program */
#define FT_USES 2         /* resources that a class may use */
#define FT_REGISTERS 4    /* of an entity, set by ft_engine_resume */
#define FT_MAX_PILOTS 16  /* loops, nested in each other, that are watched for repetition */

enum ft_code {
    FT_END,       /* the entity is done */
    FT_RUN,       /* class a, x seconds alone */
    FT_LOOP,      /* n times; a is the operation behind FT_NEXT */
    FT_NEXT,      /* a is the first operation of the body */
    FT_BARRIER,   /* object a; b: sleeps */
    FT_LOCK,      /* object a; b: sleeps */
    FT_UNLOCK,    /* object a */
    FT_POST,      /* n units to object a */
    FT_WAIT,      /* n units from object a; b: sleeps */
    FT_BROADCAST, /* wake all that wait for object a; nothing is kept */
    FT_SPAWN,     /* entity a begins; b: it is woken, as from sleep */
    FT_JOIN,      /* until entity a is done; b: sleeps */
    FT_SLEEP,     /* x seconds without a core */
    FT_USE,       /* x seconds of object a, a device; x of register b - 1 if b > 0 */
    FT_CALL,      /* return n to the caller; ft_engine_resume says where to go on */
    FT_JUMP,      /* to a */
    FT_NUM_CODES
};

struct ft_operation {
    int32_t code, a, b, label;
    int64_t n;
    double x;
};

struct ft_entity_start {
    int32_t first_operation;
    int32_t job;  /* which job it belongs to; jobs divide a shared cache */
    int32_t born; /* 0: waits for FT_SPAWN */
};

/* A class: the cores that its entities run on (-1: none), the cache that they share (-1: none), their demand.
 * `conditions` pairs (speed, demand in bytes/s) from `first_condition` on: with 1, 2, ... jobs in the shared cache. */
struct ft_class {
    int32_t cores, cache, first_condition, conditions;
    int32_t uses[FT_USES]; /* resources; -1: none */
};

/* A resource whose capacity is bandwidth: points[0 .. n) are bytes/s that 1 .. n entities get together. */
struct ft_resource {
    int32_t first_point, points;
};

/* `units`: 1 of a lock, of a device the number of simultaneous users, of a barrier its entities. `count`: a semaphore's
 * free units. */
struct ft_object {
    int32_t units;
    int32_t count;
};

enum ft_kind { /* what an entity did or waited for */
               FT_RAN,
               FT_DEVICE,
               FT_SLEPT,
               FT_AT_BARRIER,
               FT_AT_LOCK,
               FT_AT_WAIT,
               FT_AT_JOIN,
               FT_AT_QUEUE,
               FT_AT_CALL,
               FT_NUM_KINDS,
               FT_FOLDED = FT_NUM_KINDS /* of segments: many periods of a loop */
};

struct ft_segment {
    int32_t entity, label, kind, by; /* `by` ended a wait; -1: nobody */
    double start, end;
    int64_t times; /* periods folded */
};

enum ft_place { FT_READY, FT_RUNNING, FT_TIMED, FT_QUEUED, FT_CALLING, FT_UNBORN, FT_DONE };

struct ft_frame {
    int64_t left, instance; /* iterations with this one; which entry of the loop it is */
    int32_t pc;             /* of its FT_LOOP */
};

struct ft_entity {
    int32_t pc, job, place, kind, object, next, depth, label, activity_class, device, waiting_units, by;
    int32_t first_joiner;         /* queue of entities that join this one */
    bool retries;                 /* was woken to try for a lock again */
    int64_t activity;             /* number of what it does now: changes with each activity */
    double start, work_end, rest; /* of a running one, on its class's clock; of a timed one, the time */
    double end;
    double registers[FT_REGISTERS];
    struct ft_frame frames[FT_MAX_NESTING];
};

struct ft_class_state {
    int32_t n, capacity, slot; /* slot: in the list of active classes; -1: none */
    int32_t *heap;
    double v, rate, share;
    int64_t filled; /* how often it was filled: V begins at 0 each time */
};

struct ft_object_state {
    int32_t count, owner, head, tail, waiting;
    bool contended; /* of a lock: somebody may sleep until it is free (state 2) */
};

enum ft_status { FT_FINISHED, FT_PAUSED, FT_CALLED, FT_DEADLOCK, FT_NOT_OWNED, FT_TOO_DEEP, FT_NO_MEMORY, FT_TOO_MANY };

struct ft_snapshot;

struct ft_engine {
    /* given */
    const struct ft_operation *operations;
    const struct ft_class *classes;
    const struct ft_resource *resources;
    const struct ft_object *objects;
    const double *cores, *conditions, *points;
    size_t n_operations, n_entities, n_classes, n_resources, n_objects, n_core_groups, n_labels, n_path_labels,
        n_caches, n_jobs;
    size_t most_segments;
    int64_t most_events;
    bool folding;
    double transfer_s, wake_latency_s, wake_call_s;
    /* state */
    double now, until;
    double calls_s; /* that the entity that goes on now has spent on waking others */
    struct ft_entity *entities;
    struct ft_class_state *states;
    struct ft_object_state *objects_now;
    int32_t *active;     /* classes that have entities */
    int32_t *ready;      /* ring */
    int32_t *timers;     /* heap by work_end, then by number */
    int32_t *ended;      /* scratch: entities whose work ends now */
    int32_t *running_on; /* [core groups] entities */
    int32_t *in_cache;   /* [caches x jobs] entities */
    int32_t *jobs_in;    /* [caches] jobs with entities */
    size_t n_active, ready_head, n_ready, n_timers, n_done;
    bool stale;                            /* rates must be worked out again */
    int64_t activities, instances, events; /* events: those of folded periods are not among them */
    int32_t called;                        /* entity of FT_CALLED, or of an error */
    int64_t call;
    /* sums: see ft_engine_sums */
    double *sums, *of_entities, *of_labels, *of_resources, *of_cores, *of_objects, *of_paths, *of_work;
    size_t n_sums;
    struct ft_segment *segments;
    size_t n_segments, segment_room;
    int64_t segments_left_out, periods_folded, periods_estimated;
    double estimated_s; /* of estimated periods */
    /* scratch of sharing.c */
    double *asked, *given, *capacity, *flow;
    bool *full;
    int32_t *members;
    /* repetition: repeat.c */
    struct ft_snapshot *pilots;
    int32_t n_pilots;
    int64_t elsewhere; /* iterations of other entities since the pilot's last one */
    int64_t paid;      /* events, less the cost of looking for repetition */
    int64_t calls;
};

enum { FT_PER_LABEL = 2, FT_PER_RESOURCE = 2, FT_PER_OBJECT = 2, FT_WORK = 3 };
/* of_labels: seconds, activities. of_resources: bytes, seconds saturated. of_objects: unit-seconds in use, waits.
 * of_work: seconds of work asked for, done, events. */

bool ft_engine_start(struct ft_engine *engine, const struct ft_entity_start *starts);
void ft_engine_free(struct ft_engine *engine);

/* Go on until the next event is at `until` or later, a program calls, or all entities are done. After FT_PAUSED `now`
 * is `until`. */
enum ft_status ft_engine_advance(struct ft_engine *engine, double until);

/* An entity that called goes on at operation `pc`. */
bool ft_engine_resume(struct ft_engine *engine, int32_t entity, int32_t pc, const double registers[FT_REGISTERS]);

/* Time of the next event; infinity if there is none. */
double ft_engine_next(struct ft_engine *engine);

enum { FT_MAX_RESOURCES = 256, FT_MEMBER = 1 + FT_USES };

/* sharing.c. Max-min fair rates of groups of flows: `groups` has for each the number of its flows and the resources on
 * their way (-1: none), asked[i] is what each of them wants, given[i] what each gets. */
void ft_max_min(size_t n_groups, const int32_t *groups, const double *asked, size_t n_resources, const double *capacity,
                double *given);
double ft_capacity(const double *points, int32_t n_points, double users);

/* repeat.c: called at the end of an iteration that is not the last. May advance time by many periods. */
bool ft_repeat(struct ft_engine *engine, int32_t entity);
void ft_repeat_left(struct ft_engine *engine, int32_t entity, int64_t instance);
bool ft_repeat_start(struct ft_engine *engine);
void ft_repeat_free(struct ft_engine *engine);

/* engine.c */
void ft_note(struct ft_engine *engine, int32_t entity, int32_t label, int32_t kind, int32_t by, double start,
             double end, int64_t times);
void ft_make_ready(struct ft_engine *engine, int32_t entity);

/* heap.c. `n` is the number of entities before the change. */
void ft_heap_push(const struct ft_engine *engine, int32_t *heap, size_t n, int32_t entity);
void ft_heap_pop(const struct ft_engine *engine, int32_t *heap, size_t n);
void ft_heapify(struct ft_engine *engine, int32_t *heap, size_t n);

/* sharing.c: rates of all classes that run, until one of them changes. */
void ft_rates(struct ft_engine *engine);

#endif
