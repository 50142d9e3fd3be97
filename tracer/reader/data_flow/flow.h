/* Which place of a program uses the bytes that another place wrote, followed access by access.
 *
 * A *place* is a number of the caller's choice, such as a loop in its calling context. A *version* of a byte is what a
 * place stored there, until another one stores there, or the same one after somebody has read it. It has one writer and
 * the set of the places that read it, which together are a *state*: a state is a number, reading leads from one state
 * to another, and storing counts the state that ends. Bytes that no store wrote have the writer FT_FLOW_OUTSIDE. Beside
 * the state, each byte has the set of all places that ever touched it.
 *
 * Memory is followed in blocks of FT_FLOW_BLOCK_BYTES. All blocks are followed until they are too many, or following
 * them takes too long; then those go whose hash is in the upper half, and again, as SHARDS does for reuse distances
 * (Waldspurger et al., FAST 2015): what is counted from then on stands for twice as much. A few blocks that are
 * accessed far more often than others stay: a stack's, say.
 *
 * Invariants
 *  - The bytes of an entry of a block are alike. Entries are 8 bytes long until an access does not fit that, then 4, 2 or 1.
 *  - All entries are 0 at first: state 0 is (FT_FLOW_OUTSIDE, nobody), set 0 is empty.
 *  - Where there are too many sets, all further ones are one: FT_FLOW_MERGED, which has all their members.
 */
#ifndef FORETRACE_FLOW_H
#define FORETRACE_FLOW_H

#include "cache_sim/simulation/access.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FT_FLOW_OUTSIDE UINT32_MAX
#define FT_FLOW_MERGED 1u
#define FT_FLOW_BLOCK_SHIFT 7
#define FT_FLOW_BLOCK_BYTES (1u << FT_FLOW_BLOCK_SHIFT)
#define FT_FLOW_GROUPS 8u /* of sampled blocks, counted apart: their spread gives the sampling error */
#define FT_FLOW_PARTS (1 + FT_FLOW_GROUPS) /* counts: of blocks that are all followed; of sampled ones, by group */

struct ft_flow;
struct ft_flow_block;

/* The block that some accesses went to last; all 0 at first. */
struct ft_flow_hint {
    uint64_t number;             /* of the block, plus 1 */
    struct ft_flow_block *block; /* NULL: it is not followed */
};

/* NULL when out of memory. At most `max_blocks` are followed, and `max_sets` sets kept apart. */
struct ft_flow *ft_flow_new(uint32_t max_blocks, uint32_t max_sets);
void ft_flow_free(struct ft_flow *flow);

/* Goes up when hints are no longer good. */
uint32_t ft_flow_epoch(const struct ft_flow *flow);

/* One access at a place. False when memory ran out. */
bool ft_flow_access(struct ft_flow *flow, struct ft_flow_hint *hint, uint32_t place, uint64_t address,
                    uint32_t size_bytes, bool is_store);

/* What is the same for access j of each iteration of a run. */
struct ft_flow_slot {
    struct ft_flow_hint hint;
    uint32_t place, size_bytes, word;
    bool is_store;
};

/* Accesses of `iterations`, each of `num_words` words. */
bool ft_flow_run(struct ft_flow *flow, struct ft_flow_slot *slots, uint32_t num_slots, const uint64_t *words,
                 uint32_t num_words, uint64_t address_mask, uint64_t iterations);

#define FT_FLOW_MARKED_WORDS 8192u
#define FT_FLOW_MARKED_BYTES 8u /* accesses of more may reach into a followed block without a mark */

/* Which words of a stream may have the address of an access that matters, found out for many at once. Those of most do
 * not, and need no more than a look here. */
struct ft_flow_marks {
    const uint64_t *words; /* the first marked one */
    bool are_known;
    uint64_t passed; /* accesses that did not matter, and were not counted yet */
    uint8_t bytes[FT_FLOW_MARKED_WORDS + 8];
};

/* Marks up to FT_FLOW_MARKED_WORDS words, once blocks are sampled; until then no marks are known. False when memory ran
 * out. */
bool ft_flow_mark(struct ft_flow *flow, struct ft_flow_marks *marks, const uint64_t *words, uint32_t num_words,
                  uint64_t address_mask);

/* Whether any of a few words that follow on one another is marked. */
static inline bool ft_flow_is_marked(const struct ft_flow_marks *marks, const uint64_t *words, uint64_t num_words)
{
    const uint8_t *at = marks->bytes + (words - marks->words);
    uint64_t eight;
    for (; num_words > 8; num_words -= 8, at += 8) {
        memcpy(&eight, at, sizeof eight);
        if (eight)
            return true;
    }
    uint8_t any = 0;
    for (uint64_t i = 0; i < num_words; i++)
        any |= at[i];
    return any;
}

#define FT_FLOW_NO_SLOT UINT16_MAX

/* The same as ft_flow_run, by marks: of accesses of up to FT_FLOW_MARKED_BYTES, or whose parts are, each in a word of
 * its own. `slot_of_word` has the slot of each word of an iteration, FT_FLOW_NO_SLOT of those without an access. */
bool ft_flow_run_marked(struct ft_flow *flow, struct ft_flow_marks *marks, struct ft_flow_slot *slots,
                        uint32_t num_slots, const uint16_t *slot_of_word, const uint64_t *words, uint32_t num_words,
                        uint64_t address_mask, uint64_t iterations);

/* The accesses of an array operation. It reads all its operands before it writes, each byte once. */
bool ft_flow_array(struct ft_flow *flow, uint32_t place, const struct ft_array_run *run);

/* [first, first + length_bytes) belongs to an object from now on, which is not 0. False when memory ran out. */
bool ft_flow_allocate(struct ft_flow *flow, uint64_t first, uint64_t length_bytes, uint32_t object);

/* The length of what was allocated at an address, 0 if nothing was. */
uint64_t ft_flow_allocated_bytes(const struct ft_flow *flow, uint64_t first);

/* Ends the versions of bytes that the program uses no more. False when memory ran out. */
bool ft_flow_release(struct ft_flow *flow, uint64_t first, uint64_t length_bytes);

/* Bytes that a place reads or stores one after the other. False when memory ran out. */
bool ft_flow_bytes(struct ft_flow *flow, uint32_t place, uint64_t first, uint64_t length_bytes, bool is_store);

/* Whether there are many sets, of which most may be used no more. */
bool ft_flow_has_many_sets(const struct ft_flow *flow);

/* Forgets sets that are used no more. Each place becomes `place_of[place]`, and stays a place that accesses may be of.
 * False when memory ran out. */
bool ft_flow_tidy(struct ft_flow *flow, const uint32_t *place_of);

/* Ends all versions, once, before the rows are taken. */
void ft_flow_finish(struct ft_flow *flow);

/* ---- tables of numbers. Each returns how many rows there are, and writes them if `out` is not NULL. ---- */

/* per set its length, and then its places, ascending */
uint64_t ft_flow_sets(const struct ft_flow *flow, uint32_t *out);

/* per state with bytes: writer, object, set, and bytes by part: FT_FLOW_PARTS + 3 columns. Bytes are scaled up. */
uint64_t ft_flow_versions(const struct ft_flow *flow, uint64_t *out);

/* per stretch of bytes that the same places touched: address, length in bytes, set, of how many blocks its block is
 * one, object */
uint64_t ft_flow_touched(const struct ft_flow *flow, uint64_t *out);

/* the same of memory that belongs to another object by now: object, set, bytes, scaled up */
uint64_t ft_flow_left(const struct ft_flow *flow, uint64_t *out);

/* log2 of how many blocks there are for each one followed. */
uint32_t ft_flow_log_weight(const struct ft_flow *flow);

#endif
