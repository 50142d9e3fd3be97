/* A branch predictor. See branches.h. */
#include "branches.h"

#include <stdlib.h>

#define BASE_BITS 14
#define TABLES 7u
#define TABLE_BITS 11
#define TAG_BITS 12
#define HISTORY 512u /* a power of two above the longest */
#define LAST_BITS 12
#define TARGET_BITS 10
#define SEEN_OF_TARGET 4 /* bits of it that the history holds */

static const uint32_t history_length[TABLES] = {4, 9, 18, 36, 72, 144, 288};

struct entry {
    uint16_t tag;
    int8_t counter; /* -4 .. 3: taken from 0 on */
    uint8_t useful;
};

struct folded { /* a history of `length` branches, folded to `bits` */
    uint32_t value, bits, length;
};

struct target {
    uint32_t target;
    uint16_t tag;
    uint8_t sure, useful; /* 0 .. 3 */
};

struct predictor {
    int8_t base[1 << BASE_BITS]; /* -2 .. 1 */
    struct entry table[TABLES][1 << TABLE_BITS];
    struct folded index[TABLES], tag[TABLES];
    uint8_t history[HISTORY];
    uint32_t newest;
    uint32_t random;
    struct target last[1 << LAST_BITS], by_history[TABLES][1 << TARGET_BITS];
};

struct lookup {
    struct entry *entry[TABLES];
    uint16_t tag[TABLES];
    int32_t provider; /* the table that decides, -1: the base */
    bool taken, alternative;
};

static uint32_t mix(uint32_t x)
{
    x *= UINT32_C(0x9e3779b1);
    return x ^ x >> 15;
}

static void fold(struct folded *f, const struct predictor *p)
{
    const uint32_t old = p->history[(p->newest + HISTORY - f->length) % HISTORY];
    f->value = (f->value << 1 | p->history[p->newest]) ^ old << f->length % f->bits;
    f->value ^= f->value >> f->bits;
    f->value &= (1u << f->bits) - 1;
}

static void remember(struct predictor *p, bool taken)
{
    p->newest = (p->newest + 1) % HISTORY;
    p->history[p->newest] = taken;
    for (uint32_t i = 0; i < TABLES; i++) {
        fold(&p->index[i], p);
        fold(&p->tag[i], p);
    }
}

static uint32_t index_of(const struct predictor *p, uint32_t hash, uint32_t table)
{
    return (hash ^ hash >> (TABLE_BITS - table) ^ p->index[table].value) % (1 << TABLE_BITS);
}

static uint16_t tag_of(const struct predictor *p, uint32_t hash, uint32_t table)
{
    return (uint16_t)((mix(hash + table) ^ p->tag[table].value) % (1 << TAG_BITS));
}

static struct lookup look_up(struct predictor *p, uint32_t place)
{
    struct lookup l = {.provider = -1};
    const uint32_t hash = mix(place);
    const bool base = p->base[hash % (1 << BASE_BITS)] >= 0;
    l.taken = l.alternative = base;
    for (uint32_t i = 0; i < TABLES; i++) {
        l.tag[i] = tag_of(p, hash, i);
        l.entry[i] = &p->table[i][index_of(p, hash, i)];
        if (l.entry[i]->tag == l.tag[i]) {
            l.alternative = l.taken;
            l.taken = l.entry[i]->counter >= 0;
            l.provider = (int32_t)i;
        }
    }
    /* A new entry knows less than what decided before it. */
    if (l.provider >= 0) {
        const struct entry *e = l.entry[l.provider];
        if (e->useful == 0 && (e->counter == 0 || e->counter == -1))
            l.taken = l.alternative;
    }
    return l;
}

static void allocate(struct predictor *p, const struct lookup *l, bool taken)
{
    p->random = p->random * 1664525u + 1013904223u;
    uint32_t first = (uint32_t)(l->provider + 1) + (p->random >> 30 == 0);
    for (uint32_t i = first; i < TABLES; i++) {
        struct entry *e = l->entry[i];
        if (e->useful == 0) {
            *e = (struct entry){l->tag[i], taken ? 0 : -1, 0};
            return;
        }
    }
    for (uint32_t i = first; i < TABLES; i++)
        l->entry[i]->useful--;
}

static int8_t step(int8_t counter, bool up, int8_t least, int8_t most)
{
    return up ? (int8_t)(counter + (counter < most)) : (int8_t)(counter - (counter > least));
}

/* Whether a conditional branch is foreseen; learns from it. */
static bool foresee(struct predictor *p, uint32_t place, bool taken)
{
    const struct lookup l = look_up(p, place);
    if (l.provider >= 0) {
        struct entry *e = l.entry[l.provider];
        const bool own = e->counter >= 0;
        if (own != l.alternative)
            e->useful = (uint8_t)step((int8_t)e->useful, own == taken, 0, 3);
        e->counter = step(e->counter, taken, -4, 3);
    } else {
        int8_t *base = &p->base[mix(place) % (1 << BASE_BITS)];
        *base = step(*base, taken, -2, 1);
    }
    if (l.taken != taken && l.provider + 1 < (int32_t)TABLES)
        allocate(p, &l, taken);
    remember(p, taken);
    return l.taken == taken;
}

static void allocate_target(struct target **of, const uint16_t *tags, uint32_t first, uint32_t target)
{
    for (uint32_t i = first; i < TABLES; i++)
        if (of[i]->useful == 0) {
            *of[i] = (struct target){target, tags[i], 0, 0};
            return;
        }
    for (uint32_t i = first; i < TABLES; i++)
        of[i]->useful--;
}

/* Whether a jump or call to a register or memory is foreseen; learns from it. */
static bool foresee_target(struct predictor *p, uint32_t place, uint32_t target)
{
    const uint32_t hash = mix(place);
    struct target *of[TABLES], *provider = &p->last[hash % (1 << LAST_BITS)], *alternative = provider;
    uint16_t tags[TABLES];
    uint32_t next = 0; /* table behind the provider */
    for (uint32_t i = 0; i < TABLES; i++) {
        tags[i] = tag_of(p, hash, i);
        const uint32_t index = index_of(p, hash, i);
        of[i] = &p->by_history[i][(index ^ index >> TARGET_BITS) % (1 << TARGET_BITS)];
        if (of[i]->tag == tags[i]) {
            alternative = provider;
            provider = of[i];
            next = i + 1;
        }
    }
    const bool foreseen = (provider->sure ? provider : alternative)->target == target;
    const bool own = provider->target == target;
    if (own != (alternative->target == target))
        provider->useful = (uint8_t)step((int8_t)provider->useful, own, 0, 3);
    if (!own && provider->sure == 0)
        provider->target = target;
    else
        provider->sure = (uint8_t)step((int8_t)provider->sure, own, 0, 3);
    if (!foreseen && next < TABLES)
        allocate_target(of, tags, next, target);
    for (uint32_t bit = 0; bit < SEEN_OF_TARGET; bit++)
        remember(p, mix(target) >> (20 + bit) & 1);
    return foreseen;
}

bool ft_branches_predict(const struct ft_branch *branches, size_t n, uint8_t *missed)
{
    struct predictor *p = calloc(1, sizeof *p);
    if (!p)
        return false;
    for (uint32_t i = 0; i < TABLES; i++) {
        p->index[i] = (struct folded){0, TABLE_BITS, history_length[i]};
        p->tag[i] = (struct folded){0, TAG_BITS, history_length[i]};
        for (uint32_t k = 0; k < 1 << TABLE_BITS; k++)
            p->table[i][k].tag = UINT16_MAX; /* no tag of any branch */
        for (uint32_t k = 0; k < 1 << TARGET_BITS; k++)
            p->by_history[i][k].tag = UINT16_MAX;
    }
    for (uint32_t k = 0; k < 1 << LAST_BITS; k++)
        p->last[k].target = UINT32_MAX; /* of no jump */
    for (size_t i = 0; i < n; i++) {
        const struct ft_branch b = branches[i];
        missed[i] = b.kind == FT_BRANCH_CONDITIONAL ? !foresee(p, b.place, b.target)
                    : b.kind == FT_BRANCH_INDIRECT  ? !foresee_target(p, b.place, b.target)
                                                    : 0;
    }
    free(p);
    return true;
}
