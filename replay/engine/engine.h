/* The event loop of the replay: entities go through programs of operations and share cores, bandwidth, locks and
 * devices.
 *
 * An entity (a thread, a rank) runs a program: FT_RUN takes `x` seconds alone, longer while others share its resources.
 * Entities that run at the same speed form a class. A class has a virtual clock V, the seconds of work that each of its
 * entities has done since the class was last empty; an entity that begins w seconds of work at V ends at V + w. So an
 * event costs time in proportion to the logarithm of classes and entities, and to those whose rates change.
 *
 * Rates: cores are shared evenly (share s = min(1, cores / entities that run)); an entity asks for demand x s bytes/s
 * of each of its resources and gets a max-min fair rate (sharing.c); its V advances at speed x s x (rate / asked).
 * Rates are worked out once an instant, for those consumers only that a change reaches through resources that are full.
 * V and all sums over time are settled when a rate changes, not at each event.
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

#include "foretrace/base/tables.h"

#define FT_MAX_NESTING 64 /* of loops in a program */
#define FT_REGISTERS 4    /* of an entity, set by ft_engine_resume */
#define FT_MAX_PILOTS 16  /* loops, nested in each other, that are watched for repetition */

enum ft_code {
    FT_END,        /* the entity is done */
    FT_RUN,        /* class a, x seconds alone */
    FT_LOOP,       /* n times; a is the operation behind FT_NEXT */
    FT_NEXT,       /* a is the first operation of the body */
    FT_BARRIER,    /* object a; b: sleeps */
    FT_LOCK,       /* object a; b: sleeps */
    FT_UNLOCK,     /* object a */
    FT_POST,       /* n units to object a */
    FT_WAIT,       /* n units from object a; b: sleeps */
    FT_BROADCAST,  /* wake all that wait for object a; nothing is kept */
    FT_SPAWN,      /* entity a begins; b: it is woken, as from sleep */
    FT_JOIN,       /* until entity a is done; b: sleeps */
    FT_SLEEP,      /* x seconds without a core */
    FT_USE,        /* x seconds of object a, a device; x of register b - 1 if b > 0 */
    FT_CALL,       /* return n to the caller; ft_engine_resume says where to go on */
    FT_JUMP,       /* to a */
    FT_SEND,       /* message a of x bytes; b: 0 waits until the sender may go on, else it is request b of the entity;
                    * n: 1 is synchronous: rendezvous whatever the size */
    FT_RECEIVE,    /* message a; b as of FT_SEND; n: 1 has room for x bytes, 0 for any number */
    FT_AWAIT,      /* requests slots[a .. a + n) of the engine, all open ones if n < 0; b: 0 all of them, 1 any */
    FT_COLLECTIVE, /* collective a, x bytes: see collectives.c; b > 0: with the n - 1 operations behind it beside the
                    * entity, as its request b */
    FT_NUM_CODES
};

struct ft_operation {
    int32_t code, a, b, label;
    int64_t n;
    double x;
};

struct ft_entity_start {
    int32_t first_operation;
    int32_t job;               /* which job it belongs to; jobs divide a shared cache */
    int32_t born;              /* 0: waits for FT_SPAWN */
    int32_t node;              /* of the network */
    int32_t first_slot, slots; /* its requests */
};

/* A class: the cores that its entities run on (-1: none), the cache that they share (-1: none), their demand.
 * `conditions` pairs (speed, demand in bytes/s) from `first_condition` on: with 1, 2, ... jobs in the shared cache. */
struct ft_class {
    int32_t cores, cache, first_condition, conditions;
    int32_t first_use, uses; /* resources: uses[first_use ...] of the engine */
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

#define FT_ANY (-1) /* sender or tag of a receive */

/* Who a message goes to or comes from (an entity, or FT_ANY), and what it is matched by. */
struct ft_message {
    int32_t peer, tag, communicator;
};

/* Ranks of a communicator: members[first_member ...] of the engine are entities. */
struct ft_communicator {
    int32_t first_member, members;
};

enum ft_algorithm {
    FT_LINEAR_GATHER,      /* all send to the root at once */
    FT_LINEAR_SCATTER,     /* the root sends to all at once */
    FT_LINEAR_EXCHANGE,    /* all to all at once */
    FT_LINEAR_SCAN,        /* x bytes to all higher ranks at once */
    FT_BINOMIAL_BCAST,     /* from the root; nearest child last */
    FT_BINOMIAL_REDUCE,    /* to the root */
    FT_BINOMIAL_SCATTER,   /* x bytes for each rank, halves at each step */
    FT_BINOMIAL_GATHER,    /* its mirror image */
    FT_RECURSIVE_DOUBLING, /* x bytes at each step; ranks beyond a power of two hand over to a neighbour */
    FT_DOUBLING_GATHER,    /* allgather: x bytes of each rank, at each step all that it has */
    FT_HALVING_SCATTER,    /* reduce-scatter of x bytes: half as many at each step */
    FT_RABENSEIFNER,       /* allreduce of x bytes: halves, then the same steps back */
    FT_RING,               /* to the right, x bytes, ranks - 1 times */
    FT_PAIRWISE,           /* step i to rank + i and from rank - i, x bytes */
    FT_EXCLUSIVE_OR,       /* step i with rank ^ i; ranks are a power of two */
    FT_BRUCK,              /* alltoall of x bytes for each rank: blocks whose number has bit k at step k */
    FT_BRUCK_GATHER,       /* allgather: x bytes of each rank, twice as many at each step */
    FT_DISSEMINATION,      /* barrier: to rank + 2^k */
    FT_CHAIN,              /* scan: from rank - 1, then to rank + 1 */
    FT_NUM_ALGORITHMS
};

enum ft_counts { FT_COUNTS_FROM, FT_COUNTS_OF_PAIRS, FT_COUNTS_TO };

/* A collective operation. With `first_count` >= 0 sizes differ: a message from rank i to rank j has, from there on, the
 * size number i, i x ranks + j or j. All members must take part in the same ones in the same order. */
struct ft_collective {
    int32_t algorithm, communicator, root, first_count, counts;
    int32_t kind;         /* of operation: members must take part in the same one */
    int32_t sizes_differ; /* members may say different sizes */
};

/* Of messages longer than `above_bytes`: factors on the latency of the way and on the rate of a flow, and what comes on
 * top of that latency (below 0: off it, down to none). */
struct ft_regime {
    double above_bytes, latency_factor, bandwidth_factor, latency_s;
};

enum ft_topology { FT_NO_NETWORK, FT_CROSSBAR, FT_TORUS, FT_FAT_TREE };
enum { FT_MAX_DIMENSIONS = 8 };

/* How messages travel. Nodes are joined by links, each of them two resources, one for each
 * direction, from `first_link` on; see network.c. A flow has
 * at most window_bytes / (2 x latency); its penalty is latency + weight_bytes / bandwidth of each link; answers take
 * `back_share` of its rate on the way back. Messages within a node have the own regimes, which are behind the others;
 * if n_own_regimes is -1, those of messages between nodes. */
struct ft_network {
    int32_t topology, nodes, first_link, links, n_regimes, n_own_regimes, dimensions, dimension[FT_MAX_DIMENSIONS],
        up[FT_MAX_DIMENSIONS], parallel[FT_MAX_DIMENSIONS], has_backbone;
    double link_latency_s, link_bytes_per_s, backbone_latency_s, backbone_bytes_per_s, own_latency_s, own_bytes_per_s;
    double eager_below, detached_below, envelope_bytes, window_bytes, weight_bytes, back_share;
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
               FT_AT_PARTNER, /* until the other side of a message came */
               FT_AT_TRANSFER,
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
    int32_t first_joiner; /* queue of entities that join this one */
    int32_t node, first_slot, slots;
    int32_t posted, posted_last, arrived, arrived_last; /* queues of requests: see messages.c */
    int32_t waiting_for;                                /* requests that are not done */
    int32_t step, rank, tag;                            /* of its collective; step -1: in none */
    int32_t first_task, last_task;                      /* collectives beside it, in the order of their calls */
    bool retries;                                       /* was woken to try for a lock again */
    int64_t activity;                                   /* number of what it does now: changes with each activity */
    double start, work_end, rest; /* of a running one, on its class's clock; of a timed one, the time */
    double end;
    double registers[FT_REGISTERS];
    struct ft_frame frames[FT_MAX_NESTING];
};

struct ft_class_state {
    int32_t capacity, slot;     /* slot: in the list of active classes; -1: none */
    int32_t at_cores, at_cache; /* places in the lists of its cores and cache */
    int32_t *heap;
    double v, share;
    int64_t filled; /* how often it was filled: V begins at 0 each time */
};

struct ft_tie { /* of a consumer to a resource; at: its place in the resource's list */
    int32_t resource, at;
    double weight;
};

/* Who uses resources: the entities of a class, as long as there are any. Each of the `n` asks for `asked` bytes/s and
 * is given `given`. `counted` and `flowing` are n times that, as they are part of its resources' demand and flow.
 * Shares of a full resource go with 1 / penalty. `full_rate` is its speed with all it asked for, `rate` the speed now.
 */
struct ft_consumer {
    int32_t n, n_ties, tie_room;
    struct ft_tie *ties;
    double asked, given, counted, flowing, penalty, full_rate, rate;
    double since;     /* when it was settled last */
    int32_t bound_by; /* the full resource that bounds it; -1: it has what it asked for */
    uint32_t mark;
    bool changed, stopped;
};

struct ft_list {
    uint32_t n, room;
    int32_t *items;
};

struct ft_resource_state {
    struct ft_list users, slots;   /* consumers, and which of their ties it is */
    double demand, flow, capacity; /* bytes/s */
    double since;                  /* when it was settled last */
    double left, weights;          /* of those that still grow: see ft_fill */
    int32_t growing;
    uint32_t mark;
    bool limited, full, touched, refreshed; /* limited: more is asked for than it has */
};

struct ft_group_state { /* of cores or of a cache: how many there are, and the classes that have entities there */
    struct ft_list classes;
    int32_t running; /* entities, or jobs */
    double share;    /* of cores; of a cache, the jobs of which rates were worked out */
    bool touched;
};

struct ft_request { /* a message sent or received, until both sides are done with it */
    int32_t owner, peer, tag, communicator, flow, next, slot, pc;
    int32_t task; /* the collective that waits for it, or that it stands for; -1: none */
    double bytes; /* of a receive: that it has room for */
    bool is_used, is_send, is_detached, is_done, is_awaited, is_candidate, has_arrived, is_collective;
};

enum { FT_MAX_PAIRS = 1 << 22 };
struct ft_pair {          /* messages from one entity to another */
    int32_t from, to, at; /* at: number of the pair + 1; 0: free */
};
FT_TABLE_TYPE(ft_pair_table, struct ft_pair);

struct ft_task {             /* a collective that proceeds beside an entity */
    int32_t entity, request; /* which it completes */
    int32_t pc, last;        /* operation that it is at, and its last one */
    int32_t rank, step, tag, waiting_for, next;
    int64_t number;
};

/* A collective to which some members of a communicator came. */
struct ft_meeting {
    int32_t left, operation, entity; /* members to come; the first one's operation, and who it was */
};

/* The collectives of a communicator that are not complete: a ring, in order of their tags. Members take part in them in
 * order, so that the first one is complete first. */
struct ft_meetings {
    struct ft_meeting *items;
    uint32_t head, n, room;
    int32_t first_tag;
};

struct ft_flow {            /* a message on its way. Its consumer has the number of classes + its own */
    int32_t send, receive;  /* requests; -1: not matched yet, or detached and done */
    int32_t from, to, last; /* last: who came to it last */
    int64_t number;
    double bytes, left, begun; /* begun: when both sides were there */
    bool moves;                /* after its latency */
    bool is_used;
};

struct ft_object_state {
    int32_t count, owner, head, tail, waiting;
    bool contended; /* of a lock: somebody may sleep until it is free (state 2) */
};

enum ft_status {
    FT_FINISHED,
    FT_PAUSED,
    FT_CALLED,
    FT_DEADLOCK,
    FT_NOT_OWNED,
    FT_TOO_DEEP,
    FT_NO_MEMORY,
    FT_NO_MEMBER,    /* of the communicator of a collective */
    FT_DISAGREE,     /* with `other`, who takes part in another collective, by its operation `other_operation` */
    FT_TRUNCATED,    /* a message is longer than its receive has room for: `cut_send`, `cut_receive` */
    FT_REQUEST_OPEN, /* a message would be one whose request is not awaited yet */
    FT_NO_REQUEST,   /* an entity names more requests than it has */
    FT_TOO_MANY
};

/* Requests and messages on their way, as numbers that do not depend on where they are kept: `shape` has the queues and
 * requests of each entity, then the flows in the order in which they began; `left` bytes of each flow, or seconds of
 * its latency. */
struct ft_traffic {
    int64_t *shape;
    double *left;
    int64_t *numbers; /* of the flows */
    double *ages;     /* of the flows, since both sides were there */
    double *paths;    /* [flows, path labels], then those of tasks */
    int64_t *tasks;   /* their numbers, entity by entity */
    uint32_t n_shape, n_left, n_tasks, shape_room, left_room, number_room, age_room, path_room, task_room;
};

struct ft_snapshot;

struct ft_engine {
    /* given */
    const struct ft_operation *operations;
    const struct ft_class *classes;
    const struct ft_resource *resources;
    const struct ft_object *objects;
    const int32_t *uses;
    const struct ft_message *messages;
    const struct ft_communicator *communicators;
    const struct ft_collective *collectives;
    const struct ft_regime *regimes;
    const int32_t *members, *slot_lists;
    const double *counts;
    struct ft_network network;
    const double *cores, *conditions, *points;
    size_t n_operations, n_entities, n_classes, n_resources, n_objects, n_core_groups, n_labels, n_path_labels,
        n_path_bins, n_path, n_caches, n_jobs, n_messages, n_communicators, n_collectives, n_members, n_slot_lists,
        n_counts;
    size_t most_segments;
    int64_t most_events;
    bool folding;
    double transfer_s, wake_latency_s, wake_call_s;
    /* state */
    double now, until;
    double calls_s; /* that the entity that goes on now has spent on waking others */
    struct ft_entity *entities;
    struct ft_class_state *states;
    struct ft_consumer *consumers;    /* [classes] */
    struct ft_resource_state *shared; /* [resources] */
    struct ft_group_state *core_groups, *caches_now;
    struct ft_object_state *objects_now;
    int32_t *active;   /* classes that have entities */
    int32_t *ready;    /* ring */
    int32_t *ended;    /* scratch: entities whose work ends now */
    int32_t *in_cache; /* [caches x jobs] entities */
    /* Timers of entities, then the first ends of consumers: a heap by time, then by number. at: places; -1: not in it
     */
    int32_t *due, *due_at;
    double *due_s;
    size_t n_active, ready_head, n_ready, n_due, n_done;
    bool stale;                            /* rates must be worked out again */
    int64_t activities, instances, events; /* events: those of folded periods are not among them */
    int32_t called;                        /* entity of FT_CALLED, or of an error */
    int64_t call;
    /* sums: see ft_engine_sums */
    double *sums, *of_entities, *of_late, *of_labels, *of_resources, *of_cores, *of_objects, *of_paths, *of_work;
    size_t n_sums;
    struct ft_segment *segments;
    size_t n_segments, segment_room;
    int64_t segments_left_out, periods_folded, periods_estimated;
    double estimated_s; /* of estimated periods */
    /* messages.c, network.c */
    size_t n_regimes; /* given; the network says how many it uses */
    struct ft_request *requests;
    struct ft_flow *flows;
    struct ft_arrival {
        int64_t number;
        int32_t flow;
    } *arrivals; /* scratch: messages due at one instant */
    uint32_t arrival_room;
    double *flow_paths;           /* [flows, path labels] of who came last to a message */
    int32_t *slots;               /* of all entities: request numbers; -1: none */
    int32_t *member_order;        /* members of each communicator in order of entities */
    int32_t *next_tags;           /* [members] of the next collective of each */
    struct ft_meetings *meetings; /* [communicators] */
    struct ft_task *tasks;
    double *task_paths; /* [tasks, path labels] */
    int32_t *free_tasks;
    uint32_t n_tasks, task_room, n_free_tasks, free_task_room;
    int64_t tasks_begun;
    int32_t posting; /* the task that posts messages now; -1: an entity does */
    int32_t other, other_operation;
    int32_t cut_send, cut_receive; /* requests; -1: none */
    uint32_t n_requests, request_room, n_flows, flow_room, consumer_room, due_room, n_free_requests, n_free_flows,
        free_request_room, free_flow_room, tie_room;
    int32_t *free_requests, *free_flows;
    struct ft_tie *route; /* scratch */
    int64_t messages_sent, flows_begun;
    struct ft_pair_table pairs;
    double *of_pairs; /* messages and bytes of each, in the order of their numbers; the last ones' are those left out */
    struct ft_pair *pair_list;
    uint32_t n_pairs, pair_room, pair_list_room;
    /* sharing.c: what changed since rates were worked out, and whom that reaches */
    struct ft_list changed, touched, touched_cores, touched_caches, reached, visited, growing, refreshed;
    uint32_t epoch;
    bool out_of_memory; /* something could not be noted: the run cannot go on */
    /* repetition: repeat.c */
    struct ft_snapshot *pilots;
    struct ft_traffic traffic; /* scratch */
    int32_t n_pilots;
    int64_t elsewhere; /* iterations of other entities since the pilot's last one */
    int64_t paid;      /* events, less the cost of looking for repetition */
    int64_t calls;
};

enum { FT_PER_LABEL = 5, FT_PER_LATE = 4, FT_PER_RESOURCE = 2, FT_PER_OBJECT = 2, FT_WORK = 6 };
/* of_labels: seconds, activities; seconds of waiting for late senders, for late receivers, for messages on their way.
 * of_late, of entities: seconds that it waited for late senders, for late receivers; that others waited as it was a late
 * sender, a late receiver. of_paths: seconds of the way to where an entity is, by label, then by bins of entities, then
 * how often it went from one entity to another. of_resources: bytes, seconds saturated. of_objects: unit-seconds in use, waits.
 * of_work: seconds of work asked for, done, events; bytes of messages sent, moved by flows, messages. */

bool ft_engine_start(struct ft_engine *engine, const struct ft_entity_start *starts);
void ft_engine_free(struct ft_engine *engine);

/* Go on until the next event is at `until` or later, a program calls, or all entities are done. After FT_PAUSED `now`
 * is `until`. */
enum ft_status ft_engine_advance(struct ft_engine *engine, double until);

/* An entity that called goes on at operation `pc`. */
bool ft_engine_resume(struct ft_engine *engine, int32_t entity, int32_t pc, const double registers[FT_REGISTERS]);

/* Time of the next event; infinity if there is none. */
double ft_engine_next(struct ft_engine *engine);

/* sharing.c */
void ft_attach(struct ft_engine *engine, int32_t consumer); /* its first entity begins */
void ft_detach(struct ft_engine *engine, int32_t consumer); /* its last entity has ended */
void ft_change(struct ft_engine *engine, int32_t consumer); /* its rate must be worked out again */
void ft_run_on(struct ft_engine *engine, int32_t class_number, int32_t job, int32_t change);
void ft_settle(struct ft_engine *engine, int32_t consumer); /* its work up to now */
void ft_settle_all(struct ft_engine *engine);
void ft_rates(struct ft_engine *engine);
bool ft_max_min(struct ft_consumer *consumers, size_t n, const double *capacity, size_t n_resources, double *given);
double ft_capacity(const double *points, int32_t n_points, double users);
double ft_ends_in(const struct ft_engine *engine, int32_t class_number);

/* messages.c */
enum { FT_GOES_ON = FT_TOO_MANY + 1, FT_STOPS };
int ft_message(struct ft_engine *engine, int32_t entity, const struct ft_operation *operation);
int ft_await(struct ft_engine *engine, int32_t entity, const struct ft_operation *operation);
int32_t ft_post_send(struct ft_engine *engine, int32_t entity, struct ft_message message, double bytes,
                     bool is_synchronous);
int32_t ft_post_receive(struct ft_engine *engine, int32_t entity, struct ft_message message, double room);
void ft_await_request(struct ft_engine *engine, int32_t entity, int32_t request);
void ft_await_by_task(struct ft_engine *engine, int32_t task, int32_t request);
int ft_free_slot(const struct ft_engine *engine, int32_t entity, const struct ft_operation *operation, int32_t *slot);
int32_t ft_new_request(struct ft_engine *engine, struct ft_request like);
void ft_complete(struct ft_engine *engine, int32_t request, int32_t flow);
int ft_wait(struct ft_engine *engine, int32_t entity, int32_t label); /* for all that it awaits */
void ft_arrived(struct ft_engine *engine, int32_t flow);

/* network.c */
int32_t ft_flow_begin(struct ft_engine *engine, int32_t send, int32_t last);
void ft_flow_due(struct ft_engine *engine, int32_t flow);
void ft_flow_ended(struct ft_engine *engine, int32_t flow);
int ft_route(struct ft_engine *engine, int32_t from, int32_t to, double *latency_s, double *bytes_per_s);

/* collectives.c: the next steps of an entity's collective until it waits or is through */
int ft_collective(struct ft_engine *engine, int32_t entity, const struct ft_operation *operation);
void ft_task_goes_on(struct ft_engine *engine, int32_t task, int32_t flow); /* `flow`, which it waited for last, came */

/* engine.c */
void ft_add_to_path(const struct ft_engine *engine, double *path, int32_t entity, int32_t label, double seconds);
void ft_begin(struct ft_engine *engine, struct ft_entity *entity, enum ft_kind kind, int32_t label);

/* heap.c: `item` is an entity, or n_entities + a consumer */
void ft_due_set(struct ft_engine *engine, int32_t item, double time);
void ft_due_drop(struct ft_engine *engine, int32_t item);
void ft_due_heapify(struct ft_engine *engine);

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

#endif
