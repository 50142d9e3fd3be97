/* See memory_system.h.
 *
 * Each core has a path of caches for data, and one for instructions that differs in its first cache; private caches are
 * the core's own, shared ones the same in every path. A request is a byte address; it enters at level 0 and walks
 * outwards by recursion, at most FT_MAX_LEVELS deep. load() brings a line inwards, store() sends data outwards,
 * evict(), write_back() and put() move what had to make room.
 *
 * All of it is one file, as each of its parts runs in every access, and the compiler is to see them together.
 *
 * Invariants
 *  - A line of a write-through cache is never dirty.
 *  - A line that is dirty in a private cache is in no private cache of another core, if `dirty_is_sole`: an exclusive
 *    shared cache hands the dirty line that one core wrote to the next that reads it, and an exclusive second level takes
 *    in what leaves the instruction cache, where no store of another core had taken it out.
 *  - A line that an exclusive cache holds and the cache inside it gets is taken out first.
 *  - `row` is the row of counts of the access at hand, `number` tells that access from the others; `is_demand` is false
 *    while a line is fetched that nobody asked for, and such requests count neither as accesses nor as misses.
 */
#include "foretrace/base/tables.h"
#include "memory_system.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PARTS (FT_MAX_LEVELS + 1 + FT_MAX_TLBS)
#define PREFETCH_PAGE_SHIFT 12 /* prefetchers know physical addresses, and so stop where a small page ends */
#define STRIDE_ENTRIES 256u

struct stride_entry {
    uint64_t last, stride; /* of the operation, in bytes; the stride is 0 before the second access */
    uint64_t owner;        /* operation + 1 */
};

struct cache {
    struct ft_tags lines, victims;
    struct stride_entry *strides; /* NULL without a stride prefetcher */
    uint32_t shift, part, prefetch_degree;
    enum ft_prefetch prefetch;
    bool has_victims, is_inclusive, is_exclusive, write_through, no_allocate;
};

struct core {
    struct cache *data[FT_MAX_LEVELS], *instruction[FT_MAX_LEVELS];
    struct ft_tags tlbs[FT_MAX_TLBS];
    struct cache own[FT_MAX_LEVELS + 1];
};

struct table {
    uint64_t *counts;
    size_t num_rows, capacity;
};

/* What a level with a prefetcher saw of the line at hand. */
struct trigger {
    uint64_t fired_at, trained_at;
    bool fired, trained;
};

struct ft_memory_system {
    struct ft_system_plan plan;
    size_t num_parts;
    uint32_t num_private; /* the first so many levels are private */
    bool has_prefetch, dirty_is_sole;

    struct core **cores; /* NULL for a core that has not run */
    struct core *core;   /* that of the access at hand */
    struct cache shared[FT_MAX_LEVELS];

    uint64_t *row;
    uint64_t number, seen[MAX_PARTS], missed[MAX_PARTS]; /* the last access that each part counted */
    uint32_t operation;
    bool is_demand, is_fetch;
    struct trigger triggers[FT_MAX_LEVELS];

    struct table operations, blocks;
};

typedef struct ft_memory_system memory;

static bool load(memory *m, struct cache *const *path, uint32_t level, uint64_t at);
static void write_back(memory *m, struct cache *const *path, uint32_t level, uint64_t at, uint32_t shift);
static void put(memory *m, struct cache *const *path, uint32_t level, uint64_t at, bool dirty);

/* ---- counting ----------------------------------------------------------------------------------------------------- */

static inline void count(memory *m, uint32_t part, enum ft_event event)
{
    m->row[part * FT_NUM_EVENTS + event]++;
}

static inline void count_access(memory *m, uint32_t part)
{
    m->row[part * FT_NUM_EVENTS + FT_ACCESSES] += m->seen[part] != m->number;
    m->seen[part] = m->number;
}

static inline void count_miss(memory *m, uint32_t part)
{
    m->row[part * FT_NUM_EVENTS + FT_MISSES] += m->missed[part] != m->number;
    m->missed[part] = m->number;
}

/* ---- one cache ---------------------------------------------------------------------------------------------------- */

static inline uint64_t key_of(const struct cache *cache, uint64_t at)
{
    return (at >> cache->shift) + 1;
}

static inline uint64_t address_of(const struct cache *cache, uint64_t key)
{
    return (key - 1) << cache->shift;
}

/* Takes a line out of the victim buffer and back into the cache; the line that makes room takes its place. */
static __attribute__((noinline)) struct ft_tag_place swap_in(memory *m, struct cache *cache, uint64_t key)
{
    struct ft_tag_place place = ft_tags_find(&cache->victims, key);
    if (!place.tag)
        return place;
    count(m, cache->part, FT_VICTIM_HITS);
    const struct ft_tag line = ft_tags_remove(&cache->victims, place);
    const struct ft_tag evicted = ft_tags_insert(&cache->lines, key, line.mark & FT_TAG_FLAGS);
    if (evicted.key)
        ft_tags_insert(&cache->victims, evicted.key, evicted.mark & FT_TAG_FLAGS);
    return ft_tags_find(&cache->lines, key);
}

/* The line, in the cache or back from its victim buffer. */
static inline struct ft_tag_place look_up(memory *m, struct cache *cache, uint64_t key)
{
    struct ft_tag_place place = ft_tags_find(&cache->lines, key);
    return place.tag || !cache->has_victims ? place : swap_in(m, cache, key);
}

/* The line, wherever it is, and left there. */
static struct ft_tag *peek(struct cache *cache, uint64_t key)
{
    struct ft_tag *tag = ft_tags_find(&cache->lines, key).tag;
    return tag || !cache->has_victims ? tag : ft_tags_find(&cache->victims, key).tag;
}

/* Takes a line out. Returns what it was: key 0 if it was not there. */
static struct ft_tag take_out(struct cache *cache, uint64_t key)
{
    struct ft_tag_place place = ft_tags_find(&cache->lines, key);
    if (place.tag)
        return ft_tags_remove(&cache->lines, place);
    if (cache->has_victims && (place = ft_tags_find(&cache->victims, key)).tag)
        return ft_tags_remove(&cache->victims, place);
    return (struct ft_tag){0, 0};
}

/* ---- making room -------------------------------------------------------------------------------------------------- */

static inline bool is_exclusive(const memory *m, struct cache *const *path, uint32_t level)
{
    return level < m->plan.num_levels && path[level]->is_exclusive;
}

/* Takes the part of [at, at + 2^shift) that a cache holds out of it. Returns whether any of it was dirty. */
static bool invalidate(memory *m, struct cache *cache, uint64_t at, uint32_t shift, enum ft_event event)
{
    bool dirty = false;
    const uint64_t lines = UINT64_C(1) << (shift - cache->shift);
    for (uint64_t i = 0, key = key_of(cache, at); i < lines; i++) {
        struct ft_tag line = take_out(cache, key + i);
        if (!line.key)
            continue;
        count(m, cache->part, event);
        dirty = dirty || line.mark & FT_TAG_DIRTY;
    }
    return dirty;
}

static bool invalidate_inside(memory *m, struct core *core, uint32_t level, uint64_t at, uint32_t shift)
{
    bool dirty = false;
    for (uint32_t inner = 0; inner < level; inner++)
        dirty |= invalidate(m, core->data[inner], at, shift, FT_BACK_INVALIDATIONS);
    if (m->plan.has_instruction_cache)
        dirty |= invalidate(m, core->instruction[0], at, shift, FT_BACK_INVALIDATIONS);
    return dirty;
}

/* Takes a line that leaves an inclusive cache out of all caches inside it. Returns whether any of it was dirty there.
 */
static bool back_invalidate(memory *m, uint32_t level, uint64_t at, uint32_t shift)
{
    if (level < m->num_private)
        return invalidate_inside(m, m->core, level, at, shift);
    bool dirty = false;
    for (uint32_t i = 0; i < m->plan.num_cores; i++)
        if (m->cores[i])
            dirty |= invalidate_inside(m, m->cores[i], level, at, shift);
    return dirty;
}

/* A line has left a cache and its victim buffer. */
static void evict(memory *m, struct cache *const *path, uint32_t level, struct ft_tag line)
{
    struct cache *cache = path[level];
    const uint64_t at = address_of(cache, line.key);
    bool dirty = line.mark & FT_TAG_DIRTY;
    count(m, cache->part, FT_EVICTIONS);
    if (cache->is_inclusive)
        dirty |= back_invalidate(m, level, at, cache->shift);
    if (dirty)
        count(m, cache->part, FT_WRITE_BACKS);
    if (is_exclusive(m, path, level + 1))
        put(m, path, level + 1, at, dirty);
    else if (dirty)
        write_back(m, path, level + 1, at, cache->shift);
}

static void fill(memory *m, struct cache *const *path, uint32_t level, uint64_t key, unsigned flags)
{
    struct cache *cache = path[level];
    struct ft_tag evicted = ft_tags_insert(&cache->lines, key, flags);
    if (evicted.key && cache->has_victims)
        evicted = ft_tags_insert(&cache->victims, evicted.key, evicted.mark & FT_TAG_FLAGS);
    if (evicted.key)
        evict(m, path, level, evicted);
}

/* A line that comes from inside replaces what exclusive caches further out hold of it. */
static void drop_stale(memory *m, struct cache *const *path, uint32_t level, uint64_t at)
{
    for (; is_exclusive(m, path, level); level++)
        take_out(path[level], key_of(path[level], at));
}

/* A dirty line of 2^shift bytes comes from inside. */
static void write_back(memory *m, struct cache *const *path, uint32_t level, uint64_t at, uint32_t shift)
{
    if (level == m->plan.num_levels)
        return;
    struct cache *cache = path[level];
    if (cache->is_exclusive) {
        put(m, path, level, at, true);
        return;
    }
    const uint64_t key = key_of(cache, at);
    struct ft_tag_place place = look_up(m, cache, key);
    if (place.tag) {
        ft_tags_use(&cache->lines, place);
        if (!cache->write_through)
            place.tag->mark |= FT_TAG_DIRTY;
    } else if (!cache->no_allocate) {
        bool dirty = !cache->write_through;
        if (cache->shift > shift) { /* the rest of the line is needed, too */
            const bool was_demand = m->is_demand;
            m->is_demand = false;
            dirty |= load(m, path, level + 1, at);
            m->is_demand = was_demand;
        } else {
            drop_stale(m, path, level + 1, at);
        }
        fill(m, path, level, key, dirty ? FT_TAG_DIRTY : 0);
    } else {
        write_back(m, path, level + 1, at, shift);
        return;
    }
    if (cache->write_through)
        write_back(m, path, level + 1, at, shift);
}

/* A line that left the cache inside comes to an exclusive one. */
static void put(memory *m, struct cache *const *path, uint32_t level, uint64_t at, bool dirty)
{
    struct cache *cache = path[level];
    const uint64_t key = key_of(cache, at);
    const unsigned flags = dirty && !cache->write_through ? FT_TAG_DIRTY : 0;
    struct ft_tag_place place = ft_tags_find(&cache->lines, key);
    if (place.tag) {
        ft_tags_use(&cache->lines, place);
        place.tag->mark |= flags;
    } else {
        fill(m, path, level, key, flags);
    }
    if (dirty && cache->write_through)
        write_back(m, path, level + 1, at, cache->shift);
}

/* ---- other cores -------------------------------------------------------------------------------------------------- */

/* A line that was dirty in another core's caches goes to where all cores find it. */
static void hand_over(memory *m, struct cache *const *path, uint64_t at)
{
    const struct cache *outermost = path[m->num_private - 1];
    count(m, outermost->part, FT_WRITE_BACKS);
    if (is_exclusive(m, path, m->num_private))
        put(m, path, m->num_private, at, true);
    else
        write_back(m, path, m->num_private, at, outermost->shift);
}

static struct core *other_core(const memory *m, uint32_t i)
{
    return m->cores[i] == m->core ? NULL : m->cores[i];
}

/* Before a store: no other core keeps the line. */
static void claim(memory *m, struct cache *const *path, uint64_t at)
{
    const struct ft_tag *own = m->num_private && m->dirty_is_sole ? peek(path[0], key_of(path[0], at)) : NULL;
    if (own && own->mark & FT_TAG_DIRTY)
        return;
    for (uint32_t i = 0; i < m->plan.num_cores; i++) {
        struct core *other = other_core(m, i);
        bool dirty = false;
        for (uint32_t level = 0; other && level < m->num_private; level++)
            dirty |= invalidate(m, other->data[level], at, other->data[level]->shift, FT_COHERENCE_INVALIDATIONS);
        if (dirty)
            hand_over(m, path, at);
    }
}

/* Before a line is read from outside the private caches: what another core has changed of it is handed over. */
static void collect(memory *m, struct cache *const *path, uint64_t at)
{
    for (uint32_t i = 0; i < m->plan.num_cores; i++) {
        struct core *other = other_core(m, i);
        bool dirty = false;
        for (uint32_t level = 0; other && level < m->num_private; level++) {
            struct ft_tag *tag = peek(other->data[level], key_of(other->data[level], at));
            if (tag && tag->mark & FT_TAG_DIRTY) {
                tag->mark &= ~(uint64_t)FT_TAG_DIRTY;
                dirty = true;
            }
        }
        if (dirty)
            hand_over(m, path, at);
    }
}

/* ---- requests ----------------------------------------------------------------------------------------------------- */

/* A level with a prefetcher has missed, or has hit what was prefetched. */
static inline void fire(memory *m, const struct cache *cache, uint32_t level, uint64_t at)
{
    if (cache->prefetch == FT_NO_PREFETCH)
        return;
    m->triggers[level].fired = true;
    m->triggers[level].fired_at = at;
}

/* Looks a line up as an access of the program does. */
static inline struct ft_tag_place arrive(memory *m, struct cache *cache, uint32_t level, uint64_t at)
{
    if (m->is_demand) {
        if (UNLIKELY(cache->strides) && m->seen[cache->part] != m->number && !m->is_fetch) {
            m->triggers[level].trained = true;
            m->triggers[level].trained_at = at;
        }
        count_access(m, cache->part);
    }
    struct ft_tag_place place = look_up(m, cache, key_of(cache, at));
    if (LIKELY(place.tag != NULL)) {
        ft_tags_use(&cache->lines, place);
        if (UNLIKELY(place.tag->mark & FT_TAG_PREFETCHED) && m->is_demand) {
            place.tag->mark &= ~(uint64_t)FT_TAG_PREFETCHED;
            count(m, cache->part, FT_USEFUL_PREFETCHES);
            fire(m, cache, level, at);
        }
    } else if (m->is_demand) {
        count_miss(m, cache->part);
        fire(m, cache, level, at);
    }
    return place;
}

/* Gets a line from a level for the one inside it. Returns whether the line is dirty and no longer this level's. */
static bool load(memory *m, struct cache *const *path, uint32_t level, uint64_t at)
{
    if (UNLIKELY(m->plan.num_cores > 1) && level == m->num_private)
        collect(m, path, at);
    if (level == m->plan.num_levels)
        return false;
    struct cache *cache = path[level];
    struct ft_tag_place place = arrive(m, cache, level, at);
    if (place.tag)
        return cache->is_exclusive && ft_tags_remove(&cache->lines, place).mark & FT_TAG_DIRTY;
    const bool dirty = load(m, path, level + 1, at);
    if (cache->is_exclusive)
        return dirty;
    fill(m, path, level, key_of(cache, at), dirty ? FT_TAG_DIRTY : 0);
    return false;
}

static void store(memory *m, struct cache *const *path, uint32_t level, uint64_t at)
{
    if (level == m->plan.num_levels)
        return;
    struct cache *cache = path[level];
    struct ft_tag_place place = arrive(m, cache, level, at);
    if (!place.tag && (cache->is_exclusive || cache->no_allocate)) {
        store(m, path, level + 1, at);
    } else if (cache->write_through) {
        if (!place.tag) {
            load(m, path, level + 1, at);
            fill(m, path, level, key_of(cache, at), 0);
        }
        store(m, path, level + 1, at);
    } else if (place.tag) {
        place.tag->mark |= FT_TAG_DIRTY;
    } else {
        load(m, path, level + 1, at);
        fill(m, path, level, key_of(cache, at), FT_TAG_DIRTY);
    }
}

/* ---- prefetching -------------------------------------------------------------------------------------------------- */

/* Fetches a line into a level. False where it must not: beyond the page. */
static bool prefetch_line(memory *m, struct cache *const *path, uint32_t level, uint64_t from, uint64_t at)
{
    struct cache *cache = path[level];
    if (from >> PREFETCH_PAGE_SHIFT != at >> PREFETCH_PAGE_SHIFT)
        return false;
    if (!peek(cache, key_of(cache, at))) {
        count(m, cache->part, FT_PREFETCHES);
        m->is_demand = false;
        bool dirty = load(m, path, level + 1, at);
        fill(m, path, level, key_of(cache, at), FT_TAG_PREFETCHED | (dirty ? FT_TAG_DIRTY : 0));
        m->is_demand = true;
    }
    return true;
}

/* The distance to prefetch at, in bytes (modulo 2^64), or 0. */
static uint64_t train(memory *m, struct cache *cache, uint64_t at)
{
    struct stride_entry *entry = &cache->strides[m->operation % STRIDE_ENTRIES];
    if (entry->owner != (uint64_t)m->operation + 1) {
        *entry = (struct stride_entry){at, 0, (uint64_t)m->operation + 1};
        return 0;
    }
    const uint64_t stride = at - entry->last;
    if (stride == 0)
        return 0;
    const bool again = stride == entry->stride;
    entry->last = at;
    entry->stride = stride;
    if (!again)
        return 0;
    const uint64_t line_bytes = UINT64_C(1) << cache->shift;
    const bool upwards = stride >> 63 == 0;
    if ((upwards ? stride : -stride) >= line_bytes)
        return stride;
    return upwards ? line_bytes : -line_bytes;
}

static void prefetch(memory *m, struct cache *const *path, uint32_t level)
{
    struct cache *cache = path[level];
    struct trigger trigger = m->triggers[level];
    m->triggers[level] = (struct trigger){0};
    uint64_t from = trigger.fired_at, step = 0;
    if (cache->prefetch == FT_NEXT_LINE && trigger.fired) {
        step = UINT64_C(1) << cache->shift;
    } else if (cache->prefetch == FT_STRIDE && trigger.trained) {
        from = trigger.trained_at;
        step = train(m, cache, from);
    }
    for (uint32_t i = 1; step && i <= cache->prefetch_degree; i++)
        if (!prefetch_line(m, path, level, from, from + i * step))
            break;
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

static void translate(memory *m, uint64_t first, uint64_t last)
{
    const uint32_t num_tlbs = m->plan.num_tlbs;
    const uint32_t first_part = (uint32_t)m->num_parts - num_tlbs, shift = m->plan.parts[first_part].shift;
    for (uint64_t page = first >> shift; page <= last >> shift; page++) {
        for (uint32_t i = 0; i < num_tlbs; i++) {
            struct ft_tags *tlb = &m->core->tlbs[i];
            count_access(m, first_part + i);
            struct ft_tag_place place = ft_tags_find(tlb, page + 1);
            if (LIKELY(place.tag != NULL)) {
                ft_tags_use(tlb, place);
                break;
            }
            count_miss(m, first_part + i);
            ft_tags_insert(tlb, page + 1, 0);
        }
    }
}

static void touch(memory *m, struct cache *const *path, uint64_t first, uint64_t last, bool is_store)
{
    const uint32_t shift = path[0]->shift;
    for (uint64_t line = first >> shift; line <= last >> shift; line++) {
        const uint64_t at = line << shift > first ? line << shift : first;
        if (is_store) {
            if (UNLIKELY(m->plan.num_cores > 1))
                claim(m, path, at);
            store(m, path, 0, at);
        } else {
            load(m, path, 0, at);
        }
        for (uint32_t level = 0; m->has_prefetch && level < m->plan.num_levels; level++)
            if (m->triggers[level].fired || m->triggers[level].trained)
                prefetch(m, path, level);
    }
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) bool grow(memory *m, struct table *table, size_t row)
{
    size_t capacity = table->capacity ? table->capacity : 256;
    while (capacity <= row)
        capacity *= 2;
    const size_t row_bytes = m->num_parts * FT_NUM_EVENTS * sizeof(uint64_t);
    uint64_t *counts = capacity > SIZE_MAX / row_bytes ? NULL : realloc(table->counts, capacity * row_bytes);
    if (!counts)
        return false;
    memset((char *)counts + table->capacity * row_bytes, 0, (capacity - table->capacity) * row_bytes);
    table->counts = counts;
    table->capacity = capacity;
    return true;
}

static inline bool select_row(memory *m, struct table *table, size_t row)
{
    if (UNLIKELY(row >= table->num_rows)) {
        if (row >= table->capacity && !grow(m, table, row))
            return false;
        table->num_rows = row + 1;
    }
    m->row = table->counts + row * m->num_parts * FT_NUM_EVENTS;
    return true;
}

const uint64_t *ft_memory_system_counts(const struct ft_memory_system *m, bool of_fetches, size_t *num_rows)
{
    const struct table *table = of_fetches ? &m->blocks : &m->operations;
    *num_rows = table->num_rows;
    return table->counts;
}

size_t ft_memory_system_parts(const struct ft_memory_system *m)
{
    return m->num_parts;
}

/* ---- construction ------------------------------------------------------------------------------------------------- */

/* Part `part` of core `core`; that of a shared level counts as core 0's. */
static uint64_t seed_of(const memory *m, uint32_t core, uint32_t part)
{
    return m->plan.seed + ((uint64_t)core * MAX_PARTS + part + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool cache_init(memory *m, struct cache *cache, uint32_t core, uint32_t part)
{
    const struct ft_level_plan *plan = &m->plan.parts[part];
    cache->shift = plan->shift;
    cache->part = part;
    cache->prefetch = plan->prefetch;
    cache->prefetch_degree = plan->prefetch_degree;
    cache->has_victims = plan->victim_lines;
    cache->is_inclusive = plan->inclusion == FT_INCLUSIVE;
    cache->is_exclusive = plan->inclusion == FT_EXCLUSIVE;
    cache->write_through = plan->write_through;
    cache->no_allocate = plan->no_allocate;
    m->has_prefetch |= plan->prefetch != FT_NO_PREFETCH;
    if (plan->prefetch == FT_STRIDE && !(cache->strides = calloc(STRIDE_ENTRIES, sizeof *cache->strides)))
        return false;
    if (cache->has_victims && !ft_tags_init(&cache->victims, 1, plan->victim_lines, FT_LRU, 0))
        return false;
    return ft_tags_init(&cache->lines, plan->num_sets, plan->ways, plan->replacement, seed_of(m, core, part));
}

static void cache_free(struct cache *cache)
{
    ft_tags_free(&cache->lines);
    ft_tags_free(&cache->victims);
    free(cache->strides);
}

static void core_free(struct core *core)
{
    for (size_t i = 0; core && i < FT_MAX_LEVELS + 1; i++)
        cache_free(&core->own[i]);
    for (size_t i = 0; core && i < FT_MAX_TLBS; i++)
        ft_tags_free(&core->tlbs[i]);
    free(core);
}

static bool core_init(memory *m, struct core *core, uint32_t number)
{
    const uint32_t num_levels = m->plan.num_levels, first_tlb = (uint32_t)m->num_parts - m->plan.num_tlbs;
    bool good = true;
    for (uint32_t level = 0; level < num_levels; level++) {
        core->data[level] = level < m->num_private ? &core->own[level] : &m->shared[level];
        core->instruction[level] = core->data[level];
        if (level < m->num_private)
            good = good && cache_init(m, &core->own[level], number, level);
    }
    if (m->plan.has_instruction_cache) {
        core->instruction[0] = &core->own[FT_MAX_LEVELS];
        good = good && cache_init(m, core->instruction[0], number, num_levels);
    }
    for (uint32_t i = 0; good && i < m->plan.num_tlbs; i++) {
        const struct ft_level_plan *plan = &m->plan.parts[first_tlb + i];
        good = ft_tags_init(&core->tlbs[i], plan->num_sets, plan->ways, plan->replacement,
                            seed_of(m, number, first_tlb + i));
    }
    return good;
}

/* Makes a thread's core the current one. */
static bool select_core(memory *m, uint32_t thread)
{
    const uint32_t number = thread % m->plan.num_cores;
    if (!m->cores[number]) {
        struct core *core = calloc(1, sizeof *core);
        if (!core || !core_init(m, core, number)) {
            core_free(core);
            return false;
        }
        m->cores[number] = core;
    }
    m->core = m->cores[number];
    return true;
}

struct ft_memory_system *ft_memory_system_new(const struct ft_system_plan *plan)
{
    memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->plan = *plan;
    m->num_parts = plan->num_levels + plan->has_instruction_cache + plan->num_tlbs;
    while (m->num_private < plan->num_levels && !plan->parts[m->num_private].shared)
        m->num_private++;
    m->dirty_is_sole = m->num_private == plan->num_levels || plan->parts[m->num_private].inclusion != FT_EXCLUSIVE;
    if (plan->has_instruction_cache && plan->num_levels > 1 && plan->parts[1].inclusion == FT_EXCLUSIVE)
        m->dirty_is_sole = false;
    bool good = (m->cores = calloc(plan->num_cores, sizeof *m->cores));
    for (uint32_t level = m->num_private; good && level < plan->num_levels; level++)
        good = cache_init(m, &m->shared[level], 0, level);
    if (good && select_core(m, 0)) /* at once, so that memory that cannot be had is known before a program is run */
        return m;
    ft_memory_system_free(m);
    return NULL;
}

void ft_memory_system_free(struct ft_memory_system *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; m->cores && i < m->plan.num_cores; i++)
        core_free(m->cores[i]);
    for (uint32_t level = 0; level < FT_MAX_LEVELS; level++)
        cache_free(&m->shared[level]);
    free(m->cores);
    free(m->operations.counts);
    free(m->blocks.counts);
    free(m);
}

int ft_memory_system_feed(struct ft_memory_system *m, uint32_t thread, const struct ft_access *batch, size_t length)
{
    if (!select_core(m, thread))
        return -1;
    m->is_demand = true;
    for (size_t i = 0; i < length; i++) {
        const struct ft_access *access = &batch[i];
        const uint64_t first = access->address, last = first + access->size_bytes - 1;
        m->is_fetch = access->flags & FT_ACCESS_FETCH;
        m->operation = access->op;
        m->number++;
        if (m->is_fetch && !m->plan.has_instruction_cache)
            continue;
        if (!select_row(m, m->is_fetch ? &m->blocks : &m->operations, access->op))
            return -1;
        if (m->is_fetch) {
            touch(m, m->core->instruction, first, last, false);
        } else {
            if (m->plan.num_tlbs)
                translate(m, first, last);
            touch(m, m->core->data, first, last, access->flags & FT_ACCESS_STORE);
        }
    }
    return 0;
}
