/* An out-of-order core in one pass. See core_model.h. */
#include "core_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RECENT 8192u /* accesses that are remembered: more than any window holds */
#define BUCKETS 16384u
#define SOON 32 /* stretches: what is taken of a unit soon lies so far ahead, and is fetched meanwhile */
#define LINE_IN_REACH 64u /* accesses: a line touched that lately counts as held */
#define FETCHED_AHEAD 8.0 /* cycles: of a queue of 48 to 64 instructions, 6 to 8 of which are dispatched a cycle */
#define WRONG 64u /* branches thought to go the other way at a time: more than any window holds */
#define NEVER (-1e30)

/* As fmax and fmin, which are calls where a NaN may come in: none does here. */
static inline double later(double a, double b)
{
    return a > b ? a : b;
}

static inline double earlier(double a, double b)
{
    return a < b ? a : b;
}

/* A unit, or what hands out a level's lines: how much of each stretch of `bucket` cycles is taken. */
struct rate {
    double bucket; /* a power of two */
    struct stretch {
        int64_t number; /* which one its place tells of, counted from 1; 0: none */
        double used;
    } *stretches;
};

struct recent {
    double data;    /* when the value stored or loaded is there */
    double written; /* of a store: when it is in the cache */
    double line;    /* when the line is there */
    double bytes;
    uint32_t operation; /* that brought the line in, */
    uint8_t level;      /* from here; 0 once that is not known, or the line has been stored to */
    uint8_t cause;      /* of waiting for the line */
};

/* Instructions that wait in a scheduler: when they start, the earliest first. */
struct queue {
    double *heap;
    uint32_t size, n;
};

/* The latest of some kind, by what each took until it left. */
struct ring {
    double *left;
    uint32_t size, at; /* the oldest, whose place is the next one's */
};

/* A branch that a core takes to go the other way, until it is known. */
struct wrong {
    double clock; /* of the dispatch, behind it; less `passed` */
    double until;
};

/* What a core does behind such branches: behind the first, and once that is known, behind those that it came to since.
 */
struct astray {
    double passed;                  /* time that all instructions so far took to be dispatched, one behind the other */
    struct wrong branches[WRONG];   /* ring, */
    uint64_t first, n;              /* of those that are not known yet: none where both are the same */
    uint64_t depending;             /* executions that are not run astray */
    uint32_t number;                /* of the first branch */
    double ready[FT_NUM_REGISTERS]; /* valid where `of` is `number`; else as in the true run */
    uint32_t of[FT_NUM_REGISTERS];
};

/* A store that left the core: when, and what its line was waited for (FT_NUM_CAUSES: not at all). */
struct written {
    double at;
    uint8_t cause;
};

/* Of an operation's accesses, those to lines touched a moment ago and the others: what comes due at each level. */
struct misses {
    bool any[2];
    double chance[2][FT_MAX_LEVELS];
};

struct state {
    const struct ft_core *core;
    const struct ft_core_program *program;
    const struct ft_core_path *path;
    double ready[FT_NUM_REGISTERS], early[FT_NUM_REGISTERS]; /* for those that take results early */
    struct rate units[FT_NUM_UNITS], levels[FT_MAX_LEVELS], loads, stores;
    struct recent *recent;
    struct ring retired;     /* all instructions */
    struct queue scheduled;  /* vectors that can start, */
    double last_scheduled;   /* and the last one since when */
    struct written *written; /* ring of `stores` */
    uint32_t n_stores, oldest_written;
    double slot;     /* of the dispatch, that an instruction takes */
    double clock;    /* of the dispatch */
    double started;  /* the last instruction, of a core that keeps the order */
    double redirect; /* dispatch resumes, after a branch that was not foreseen */
    double foreseen; /* where the last taken branch led */
    double fetched;  /* the line of code that is being dispatched, at the earliest */
    uint32_t line;   /* which that is */
    bool jumped;     /* there, by a taken branch */
    bool alone,
        second; /* what that branch led to is fetched by itself so far, or at once with what the one before did */
    uint32_t decoded[FT_DECODED_SETS]
                    [FT_MAX_DECODED_WAYS]; /* first instructions of groups, one more each; the latest used first */
    bool decodes;                          /* what was fetched last */
    double last_retired, last_written;
    double *due;           /* by operation and level: misses that are due */
    struct misses *misses; /* by operation */
    struct astray astray;
};

/* ---- rates ------------------------------------------------------------------------------------------------------ */

static bool rate_new(struct rate *rate, double bucket)
{
    rate->bucket = bucket;
    rate->stretches = calloc(BUCKETS, sizeof *rate->stretches); /* pages of units that are not used are never touched */
    return rate->stretches != NULL;
}

static void rate_free(struct rate *rate)
{
    free(rate->stretches);
}

/* Uses `cycles` of a rate, from `from` on. Returns when that begins, and when it is over in `end`. */
static double take(struct rate *rate, double from, double cycles, double *end)
{
    double begin = from;
    bool begun = false;
    *end = from;
    if (cycles <= 1e-12)
        return begin;
    const double inverse = rate->bucket > 1 ? 1 / rate->bucket : 1; /* exact */
    int64_t number = 1 + (int64_t)(from * inverse);
    __builtin_prefetch(&rate->stretches[(uint64_t)(number + SOON) % BUCKETS], 1);
    while (cycles > 1e-12) {
        struct stretch *stretch = &rate->stretches[(uint64_t)number % BUCKETS];
        if (stretch->number > number) /* too long ago to be known: there was room */
            break;
        if (stretch->number < number)
            *stretch = (struct stretch){number, 0};
        const double start = (double)(number - 1) * rate->bucket, room = rate->bucket - stretch->used;
        if (room > 1e-9) {
            const double part = room < cycles ? room : cycles;
            if (!begun)
                begin = later(from, start + (rate->bucket > 1 ? stretch->used : 0));
            begun = true;
            stretch->used += part;
            cycles -= part;
            *end = start + stretch->used;
        }
        number++;
    }
    return begin;
}

/* ---- dispatch --------------------------------------------------------------------------------------------------- */

static bool queue_new(struct queue *queue, double size)
{
    queue->size = (uint32_t)later(size, 1);
    queue->heap = malloc((queue->size + 1) * sizeof *queue->heap);
    return queue->heap != NULL;
}

static void enter(struct queue *queue, double starts)
{
    double *heap = queue->heap;
    uint32_t at = queue->n++;
    while (at > 0 && heap[(at - 1) / 2] > starts) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = starts;
}

static double leave(struct queue *queue)
{
    double *heap = queue->heap;
    const double top = heap[0], value = heap[--queue->n];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < queue->n; at = child) {
        if (child + 1 < queue->n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= value)
            break;
        heap[at] = heap[child];
    }
    heap[at] = value;
    return top;
}

/* When there is room for another one, from some time on, which never decreases. What has started is taken out only once
 * the queue is full. */
static double room_from(struct queue *queue, double at)
{
    if (queue->n < queue->size)
        return at;
    return later(at, leave(queue));
}

static bool ring_new(struct ring *ring, double size)
{
    ring->size = (uint32_t)later(size, 1);
    ring->left = calloc(ring->size, sizeof *ring->left);
    return ring->left != NULL;
}

/* When there is room for another one. */
static double room(const struct ring *ring)
{
    return ring->left[ring->at];
}

static void put(struct ring *ring, double leaves)
{
    ring->left[ring->at] = leaves;
    ring->at = ring->at + 1 < ring->size ? ring->at + 1 : 0;
}

/* Fetches what is dispatched next: a line of code, or what a taken branch leads to. */
static void fetch_code(struct state *s, double cycles)
{
    s->fetched = later(s->fetched + cycles, s->clock - FETCHED_AHEAD);
    s->clock = later(s->clock, s->fetched);
}

/* Fetches what a taken branch leads to: as soon as it was foreseen where that is, and with what the branch before it
 * led to if nothing else was fetched at once with that. */
static void follow(struct state *s, bool again)
{
    const struct ft_core *core = s->core;
    const double one = core->taken_branch;
    s->foreseen = later(s->foreseen + one, s->clock - FETCHED_AHEAD);
    s->second = core->pairs && s->alone && !again;
    s->alone = core->pairs && !s->second && !again;
    const double cycles = s->second ? 0 : s->alone ? 2 * one : one;
    fetch_code(s, later(cycles, s->foreseen - s->fetched));
}

/* Whether a group of instructions is decoded already; from now on it is. */
static bool is_decoded(struct state *s, uint32_t line, uint32_t first)
{
    uint32_t *set = s->decoded[line % FT_DECODED_SETS], way = 0;
    while (way + 1 < s->core->decoded_ways && set[way] != first + 1)
        way++;
    const bool found = set[way] == first + 1;
    memmove(set + 1, set, way * sizeof *set);
    set[0] = first + 1;
    return found;
}

/* Fetches what stands next to be dispatched, and decodes it: a line that is decoded at once is fetched meanwhile. */
static void fetch_next(struct state *s, const struct ft_instruction *one, uint32_t number, uint32_t new_lines)
{
    const double fetching =
        new_lines && s->second ? 2 * s->core->taken_branch : 0; /* the two are not fetched at once */
    if (new_lines)
        s->alone = s->second = false;
    s->line += one->lines;
    const bool decodes = one->decoded && s->core->decode > 0 && !is_decoded(s, s->line, number);
    const double switching = decodes && !s->decodes ? s->core->decode_switch_cycles : 0;
    const double cycles = later(fetching, decodes ? one->decoded * s->core->decode + switching : 0);
    if (one->decoded)
        s->decodes = decodes;
    if (cycles > 0)
        fetch_code(s, cycles);
}

/* What an instruction's dispatch waited for, as a cause; FT_CAUSE_ISSUE if for nothing but its turn. */
struct dispatched {
    double at;
    uint8_t cause;
};

static struct dispatched dispatch(struct state *s, const struct ft_instruction *one)
{
    struct dispatched d = {later(later(s->clock, s->started), room(&s->retired)), FT_CAUSE_ISSUE};
    if (s->redirect > d.at) {
        d = (struct dispatched){s->redirect, FT_CAUSE_BRANCH};
        s->fetched = later(s->fetched, s->redirect);
        s->foreseen = later(s->foreseen, s->redirect);
    }
    const struct written *oldest = &s->written[s->oldest_written];
    if (one->store >= 0 && oldest->at > d.at)
        d = (struct dispatched){oldest->at, oldest->cause < FT_NUM_CAUSES ? oldest->cause : FT_CAUSE_PORTS};
    s->clock = d.at + s->slot;
    return d;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* The level that this access finds its data in: misses are spread evenly over an operation's accesses to lines that
 * were not touched a moment ago, and over the others only if there are more misses than those. */
static uint32_t level_of(struct state *s, uint32_t operation, uint32_t line_distance)
{
    const struct misses *misses = &s->misses[operation];
    double *due = s->due + (size_t)operation * FT_MAX_LEVELS;
    const bool candidate = line_distance == 0 || line_distance > LINE_IN_REACH;
    uint32_t level = 0;
    if (!misses->any[candidate])
        return 0;
    for (uint32_t i = 1; i < s->core->n_levels; i++) {
        due[i] += misses->chance[candidate][i];
        if (due[i] >= due[level] && due[i] >= 1)
            level = i;
    }
    due[level] -= level ? 1 : 0;
    return level;
}

/* Works out the chances of an operation's misses, which all its accesses share. */
static struct misses misses_of(const struct ft_core *core, const struct ft_core_operation *facts)
{
    struct misses misses = {{false, false}, {{0}}};
    double missing = 0;
    for (uint32_t i = 1; i < core->n_levels; i++)
        missing += facts->share[i];
    for (int candidate = 0; candidate < 2; candidate++) {
        const double share = candidate ? facts->candidates : 1 - facts->candidates;
        if (missing <= 0 || share <= 0)
            continue;
        const double of_candidates = earlier(missing, facts->candidates);
        const double chance = (candidate ? of_candidates : missing - of_candidates) / share;
        misses.any[candidate] = true;
        for (uint32_t i = 1; i < core->n_levels; i++)
            misses.chance[candidate][i] = chance * facts->share[i] / missing;
    }
    return misses;
}

struct arrival {
    double at;
    uint8_t cause; /* FT_NUM_CAUSES if the nearest cache had it */
};

static uint8_t memory_cause(const struct state *s, uint32_t level, bool irregular)
{
    if (level + 1 == s->core->n_levels)
        return irregular ? FT_CAUSE_MEMORY_LATENCY : FT_CAUSE_MEMORY_BANDWIDTH;
    return irregular ? FT_CAUSE_CACHE_LATENCY : FT_CAUSE_CACHE_BANDWIDTH;
}

/* When the line that an access asks for at `from` is there. */
static struct arrival fetch(struct state *s, uint32_t operation, uint32_t level, double from)
{
    const struct ft_core_operation *facts = &s->program->operations[operation];
    if (level == 0)
        return (struct arrival){from + facts->latency[0], FT_NUM_CAUSES};
    double *due = s->due + (size_t)operation * FT_MAX_LEVELS;
    due[0] += facts->irregular[level]; /* level 0 has no misses to count */
    const bool irregular = due[0] >= 1;
    const double asked = irregular ? from : later(from - s->core->lead, 0);
    double end, through = asked;
    for (uint32_t nearer = 1; nearer < level; nearer++) {
        take(&s->levels[nearer], asked, facts->stream[nearer], &end);
        through = later(through, end);
    }
    if (irregular) {
        due[0] -= 1;
        const double begin = take(&s->levels[level], from, facts->random[level], &end);
        const double there = later(begin + facts->latency[level], through + facts->latency[0]);
        return (struct arrival){there, memory_cause(s, level, true)};
    }
    const double begin = take(&s->levels[level], asked, facts->stream[level], &end);
    const double there = later(later(from, end), through) + facts->latency[0];
    return (struct arrival){later(there, begin + facts->latency[level]), memory_cause(s, level, false)};
}

/* A line is stored to that a load brought in: it will be written back. */
static void write_line_back(struct state *s, const struct recent *line, double from)
{
    double end;
    for (uint32_t level = 1; level <= line->level; level++)
        take(&s->levels[level], from, s->program->operations[line->operation].write_back[level], &end);
}

/* An access that can be made from `from` on: where its line is waited for, and what is remembered of it. */
static struct arrival access_line(struct state *s, uint32_t operation, uint64_t slot, double from, bool stores)
{
    const uint32_t distance = s->path->line_distances[slot];
    const uint32_t level = level_of(s, operation, distance);
    struct arrival arrival = fetch(s, operation, level, from);
    struct recent own = {NEVER, NEVER, 0, s->program->operations[operation].bytes, operation, (uint8_t)level, 0};
    if (distance && distance < RECENT && distance <= slot) {
        const struct recent *before = &s->recent[(slot - distance) % RECENT];
        if (before->line > arrival.at)
            arrival = (struct arrival){before->line, before->cause};
        if (level == 0) {
            own.operation = before->operation;
            own.level = before->level;
        }
    }
    if (stores) {
        if (level == 0) /* what a store's own miss takes is told with its operation */
            write_line_back(s, &own, from);
        own.level = 0;
    }
    own.line = arrival.at;
    own.cause = arrival.cause;
    s->recent[slot % RECENT] = own;
    return arrival;
}

/* The data of a load: from its line, asked for at `asked` or `astray` before, or from a store on its way to the cache.
 */
static struct arrival load(struct state *s, uint32_t operation, uint64_t slot, double asked, double astray)
{
    const struct ft_core_operation *facts = &s->program->operations[operation];
    struct arrival arrival = access_line(s, operation, slot, earlier(asked, astray), false);
    const double hit = asked + facts->latency[0];
    const uint32_t distance = s->path->store_distances[slot];
    arrival.at = later(arrival.at, hit);
    if (distance && distance < RECENT && distance <= slot) {
        const struct recent *store = &s->recent[(slot - distance) % RECENT];
        if (store->written > asked) {
            const bool is_wider = facts->bytes > store->bytes;
            const double there = is_wider ? store->written + hit - asked : hit;
            arrival = (struct arrival){later(there, store->data + s->core->forward), FT_CAUSE_FORWARD};
        }
    }
    return arrival;
}

/* ---- behind a branch that was not foreseen ---------------------------------------------------------------------- */

static bool is_astray(const struct astray *a)
{
    return a->first < a->n;
}

/* When an instruction is dispatched astray; never (HUGE_VAL) if it is not. */
static double dispatch_astray(struct state *s, const struct ft_instruction *one)
{
    struct astray *a = &s->astray;
    double at = HUGE_VAL;
    for (; is_astray(a); a->first++) {
        const struct wrong *branch = &a->branches[a->first % WRONG];
        at = later(branch->clock + a->passed, room(&s->retired));
        if (at < branch->until)
            break;
    }
    a->passed += s->slot;
    return is_astray(a) && (!a->depending || one->runs_anyway) ? at : HUGE_VAL;
}

static double latest_astray(const struct state *s, const uint16_t *registers, uint32_t n, double at)
{
    const struct astray *a = &s->astray;
    for (uint32_t i = 0; i < n; i++)
        at = later(at, a->of[registers[i]] == a->number ? a->ready[registers[i]] : s->ready[registers[i]]);
    return at;
}

static void write_astray(struct state *s, const uint16_t *registers, uint32_t n, double at)
{
    for (uint32_t i = 0; i < n && is_astray(&s->astray); i++) {
        s->astray.ready[registers[i]] = at;
        s->astray.of[registers[i]] = s->astray.number;
    }
}

/* When a load whose address is known at `at` asks for its line astray: at once, or behind the next branch, if the first
 * is known by then. Never (HUGE_VAL) if all are. */
static double ask_astray(const struct state *s, double at)
{
    const struct astray *a = &s->astray;
    for (uint64_t i = a->first; at < HUGE_VAL && i < a->n; i++) {
        const struct wrong *branch = &a->branches[i % WRONG];
        const double asked = later(at, branch->clock + a->passed - s->slot);
        if (asked < branch->until)
            return asked;
    }
    return HUGE_VAL;
}

/* A branch that was not foreseen is known at `done`. */
static void go_astray(struct state *s, double done, uint16_t depends)
{
    struct astray *a = &s->astray;
    s->redirect = done + s->core->refill;
    if (depends == FT_ALL_DEPEND || s->core->in_order) {
        a->first = a->n;
        return;
    }
    if (!is_astray(a)) {
        a->passed = 0;
        a->depending = 0;
        a->number++;
    }
    if (a->n - a->first < WRONG)
        a->branches[a->n++ % WRONG] = (struct wrong){s->clock - a->passed, done};
    a->depending = depends > a->depending ? depends : a->depending; /* from the next execution on */
}

/* ---- instructions ----------------------------------------------------------------------------------------------- */

static double latest(const double *ready, const uint16_t *registers, uint32_t n, double at)
{
    for (uint32_t i = 0; i < n; i++)
        at = later(at, ready[registers[i]]);
    return at;
}

/* The stages of an instruction, and why the load among them took longer than in the nearest cache. */
struct stages {
    struct dispatched dispatched;
    double known, asked, loaded; /* a load's address is known, its unit is free, its data is there */
    double operands, started, done;
    uint8_t load_cause;
};

/* Puts down to its causes the time by which an instruction retires later than the one before: to its stages, from the
 * last one back, and what is left to what its dispatch waited for. */
static void put_down(const struct ft_instruction *one, const struct stages *t, double late, double *cycles)
{
    const bool loads = one->load >= 0;
    const double first = loads ? t->loaded : t->dispatched.at;
    const double of_stage[] = {t->done - t->started,
                               t->started - t->operands,
                               t->operands - first,
                               loads ? t->loaded - t->asked : 0,
                               loads ? t->asked - t->known : 0,
                               loads ? t->known - t->dispatched.at : 0};
    const uint8_t cause[] = {
        one->cause == FT_CAUSE_DIVIDE ? FT_CAUSE_DIVIDE : FT_CAUSE_CHAIN, one->cause,     FT_CAUSE_CHAIN,
        t->load_cause < FT_NUM_CAUSES ? t->load_cause : FT_CAUSE_CHAIN,   FT_CAUSE_PORTS, FT_CAUSE_CHAIN};
    for (size_t i = 0; i < sizeof cause && late > 0; i++) {
        const double part = earlier(late, later(of_stage[i], 0));
        cycles[cause[i]] += part;
        late -= part;
    }
    cycles[t->dispatched.cause] += later(late, 0);
}

/* A store: in the cache once it has retired, those before it are written, and its line is there. */
static void write_back(struct state *s, const struct ft_instruction *one, uint32_t operation, uint64_t slot,
                       const uint16_t *addresses, struct stages *t)
{
    double end;
    const double known = latest(s->ready, addresses, one->n_addresses, t->dispatched.at);
    const double asked = take(&s->stores, known, s->core->store_cycles, &end);
    const struct arrival line = access_line(s, operation, slot, asked, true);
    const double data = t->done;
    t->done = later(t->done, asked + 1);
    const double retired = later(s->last_retired, t->done);
    const double free = later(s->last_written + s->core->store_cycles, retired + 1);
    s->last_written = later(free, line.at);
    s->written[s->oldest_written] =
        (struct written){s->last_written, line.at > free ? line.cause : (uint8_t)FT_NUM_CAUSES};
    s->oldest_written = s->oldest_written + 1 < s->n_stores ? s->oldest_written + 1 : 0;
    s->recent[slot % RECENT].data = data;
    s->recent[slot % RECENT].written = s->last_written;
}

/* When an instruction that waits with vectors can be started: in its turn, once there is room. */
static double schedule(struct state *s, double dispatched)
{
    return s->last_scheduled = room_from(&s->scheduled, later(dispatched, s->last_scheduled));
}

/* Returns when the instruction is done. */
static double run_one(struct state *s, const struct ft_instruction *one, const struct ft_core_block *block,
                      uint64_t first_slot, double *cycles)
{
    const uint16_t *reads = s->program->registers + one->registers, *addresses = reads + one->n_reads;
    const uint16_t *writes = addresses + one->n_addresses;
    double end;
    struct stages t = {.dispatched = dispatch(s, one), .load_cause = FT_NUM_CAUSES};
    t.operands = t.dispatched.at;
    double astray = dispatch_astray(s, one);
    if (one->load >= 0) {
        const uint32_t position = (uint32_t)one->load;
        t.known = latest(s->ready, addresses, one->n_addresses, t.dispatched.at);
        t.asked = take(&s->loads, t.known, s->core->load_cycles, &end);
        const double known = latest_astray(s, addresses, one->n_addresses, astray);
        const double early = ask_astray(s, known);
        const bool is_early = early < t.asked;
        const struct arrival data =
            load(s, block->first_operation + position, first_slot + position, t.asked, is_early ? early : HUGE_VAL);
        t.operands = t.loaded = data.at;
        t.load_cause = data.cause;
        const double line = s->recent[(first_slot + position) % RECENT].line;
        astray = is_early ? later(line, early + s->program->operations[block->first_operation + position].latency[0])
                          : later(known, data.at);
    }
    astray = latest_astray(s, reads, one->n_reads, astray) + one->latency;
    t.operands = latest(one->takes_early ? s->early : s->ready, reads, one->n_reads, t.operands);
    if (one->is_scheduled)
        t.operands = later(t.operands, schedule(s, t.dispatched.at));
    t.started = take(&s->units[one->unit], t.operands, one->unit_cycles, &end);
    t.done = t.started + one->latency;
    if (one->is_scheduled)
        enter(&s->scheduled, t.started);
    if (s->core->in_order) {
        const bool only_loads = one->load >= 0 && one->latency <= 0 && one->unit_cycles <= 0;
        s->started = latest(s->ready, addresses, one->n_addresses, only_loads ? t.asked : t.started);
    }
    for (uint32_t i = 0; i < one->n_writes; i++) {
        s->ready[writes[i]] = t.done;
        s->early[writes[i]] = t.done - one->sooner;
    }
    write_astray(s, writes, one->n_writes, earlier(astray, t.done));
    if (one->store >= 0) {
        const uint32_t position = (uint32_t)one->store;
        write_back(s, one, block->first_operation + position, first_slot + position, addresses, &t);
    }
    const double in_turn = s->last_retired + s->slot;
    s->last_retired = later(in_turn, t.done);
    put(&s->retired, s->last_retired);
    cycles[FT_CAUSE_ISSUE] += s->slot;
    if (s->last_retired > in_turn)
        put_down(one, &t, s->last_retired - in_turn, cycles);
    return t.done;
}

static void run_block(struct state *s, size_t execution, uint64_t first_slot, double *cycles)
{
    const struct ft_core_block *block = &s->program->blocks[s->path->blocks[execution]];
    const struct ft_instruction *instructions = s->program->instructions + block->first;
    const uint8_t branch = s->path->branches[execution];
    double done = 0;
    uint32_t new_lines = !s->jumped && block->first_line != s->line;
    s->line = block->first_line;
    for (uint32_t i = 0; i < block->n_instructions; i++) {
        fetch_next(s, &instructions[i], block->first + i, new_lines + instructions[i].lines);
        new_lines = 0;
        done = run_one(s, &instructions[i], block, first_slot, cycles);
    }
    s->line = block->last_line;
    s->jumped = (branch & FT_BRANCH_TAKEN) != 0;
    s->astray.depending -= s->astray.depending > 0;
    if (branch & FT_BRANCH_MISSED)
        go_astray(s, done, s->path->depends[execution]);
    if (s->jumped) {
        const uint32_t *now = s->path->blocks + execution;
        follow(s, execution + 1 < s->path->n_executions && now[1] == now[0]);
    }
}

/* ---- a path ----------------------------------------------------------------------------------------------------- */

static bool state_new(struct state *s, const struct ft_core *core, const struct ft_core_program *program)
{
    s->core = core;
    s->slot = 1 / core->width;
    s->program = program;
    s->n_stores = (uint32_t)later(core->storing_instructions, 1);
    s->recent = malloc(RECENT * sizeof *s->recent);
    s->written = calloc(s->n_stores, sizeof *s->written);
    s->due = malloc((size_t)(program->n_operations + 1) * FT_MAX_LEVELS * sizeof *s->due);
    s->misses = malloc((size_t)(program->n_operations + 1) * sizeof *s->misses);
    bool good = s->recent && s->written && s->due && s->misses;
    for (uint32_t i = 0; good && i < program->n_operations; i++)
        s->misses[i] = misses_of(core, &program->operations[i]);
    good = ring_new(&s->retired, core->window_instructions) && good;
    good = queue_new(&s->scheduled, core->vector_scheduled_instructions) && good;
    for (uint32_t i = 0; i < FT_NUM_UNITS; i++)
        good = rate_new(&s->units[i], 1) && good;
    for (uint32_t i = 0; i < FT_MAX_LEVELS; i++)
        good = rate_new(&s->levels[i], 16) && good;
    good = rate_new(&s->loads, 1) && good;
    good = rate_new(&s->stores, 1) && good;
    for (uint32_t i = 0; good && i < RECENT; i++)
        s->recent[i] = (struct recent){NEVER, NEVER, NEVER, 0, 0, 0, FT_NUM_CAUSES};
    for (size_t i = 0; good && i < (size_t)program->n_operations * FT_MAX_LEVELS; i++)
        s->due[i] = (double)(i * 2654435761u % 65536) / 65536; /* spread, so that few misses of many count */
    return good;
}

static void state_free(struct state *s)
{
    free(s->recent);
    free(s->retired.left);
    free(s->scheduled.heap);
    free(s->written);
    free(s->due);
    free(s->misses);
    for (uint32_t i = 0; i < FT_NUM_UNITS; i++)
        rate_free(&s->units[i]);
    for (uint32_t i = 0; i < FT_MAX_LEVELS; i++)
        rate_free(&s->levels[i]);
    rate_free(&s->loads);
    rate_free(&s->stores);
}

bool ft_core_run(const struct ft_core *core, const struct ft_core_program *program, const struct ft_core_path *path,
                 double *cycles)
{
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return false;
    const bool good = state_new(s, core, program);
    s->path = path;
    uint64_t slot = 0;
    for (size_t i = 0; good && i < path->n_executions; i++) {
        const uint32_t block = path->blocks[i];
        const size_t half = path->branches[i] & FT_SECOND_HALF ? program->n_blocks : 0;
        run_block(s, i, slot, cycles + (half + block) * FT_NUM_CAUSES);
        slot += program->blocks[block].n_operations;
    }
    state_free(s);
    free(s);
    return good;
}
