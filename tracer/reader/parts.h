/* What the parts of the reader have of one another: reader.c takes words apart, the side table tells what they are
 * about (side_table.c), paths of blocks are learnt from them (learning.c), records of array operations are walked
 * (arrays.c), and edges between blocks counted (edges.c).
 */
#ifndef FORETRACE_READER_PARTS_H
#define FORETRACE_READER_PARTS_H

#include "reader.h"

static inline enum ft_read_status ft_reader_corrupt(struct ft_reader *reader, const char *what)
{
    reader->corrupt = what;
    return FT_READ_CORRUPT;
}

/* ---- side_table.c ---------------------------------------------------------------------------------------- */

/* Takes in all side table entries that are complete. */
enum ft_read_status ft_reader_read_side_table(struct ft_reader *reader);

/* `*operation` becomes the number of a new one. */
enum ft_read_status ft_reader_add_operation(struct ft_reader *reader, uint32_t block_id, uint32_t slot,
                                            uint32_t array_id, uint32_t *operation);

/* ---- edges.c: all are false when memory ran out ---------------------------------------------------------- */

bool ft_reader_count_rare_edge(struct ft_reader *reader, uint32_t from, uint32_t to, uint64_t times);

static inline bool ft_reader_count_edge(struct ft_reader *reader, uint32_t from, uint32_t to, uint64_t times)
{
    struct ft_block *block = &reader->blocks[from];
    for (int i = 0; i < 2; i++) {
        if (LIKELY(block->successor[i] == to)) {
            block->successor_count[i] += times;
            return true;
        }
        if (!block->successor[i]) {
            block->successor[i] = to;
            block->successor_count[i] = times;
            return true;
        }
    }
    return ft_reader_count_rare_edge(reader, from, to, times);
}

/* One more execution of a block behind one of `before`. Which of its two usual ones it is takes no branch. */
static inline bool ft_reader_count_next(struct ft_reader *reader, struct ft_block *before, uint32_t id)
{
    const uint32_t side = before->successor[1] == id;
    if (UNLIKELY(before->successor[side] != id))
        return ft_reader_count_edge(reader, (uint32_t)(before - reader->blocks), id, 1);
    before->successor_count[side]++;
    return true;
}

/* Counts the edges along a path as often as it was taken, and begins anew with that. */
bool ft_reader_count_path(struct ft_reader *reader, struct ft_path *path, uint32_t num_steps);

/* The same for those below it. */
bool ft_reader_count_longer_paths(struct ft_reader *reader, struct ft_path *path);

/* ---- reader.c --------------------------------------------------------------------------------------------------- */

/* Hands over what was emitted. False when memory ran out. */
bool ft_reader_feed_batch(struct ft_reader *reader);

/* False when memory ran out. */
static inline bool ft_reader_emit(struct ft_reader *reader, uint64_t address, uint32_t operation, uint32_t size,
                                  bool store)
{
    if (UNLIKELY(reader->batch_length == FT_BATCH) && !ft_reader_feed_batch(reader))
        return false;
    reader->batch[reader->batch_length++] =
        (struct ft_access){address, operation, (uint16_t)size, store ? FT_ACCESS_STORE : 0};
    return true;
}

/* The block that an entry word enters. */
static inline uint32_t ft_entered_block(uint64_t entry)
{
    const uint32_t id = entry >> FT_SIZE_SHIFT & FT_MAX_SHORT_ID;
    return id ? id : (uint32_t)entry;
}

/* Whether an entry word stands for its block's first access, too. */
static inline bool ft_brings_access(uint64_t entry)
{
    return entry >> FT_SIZE_SHIFT & FT_MAX_SHORT_ID;
}

/* The access word that an entry word stands for, too. */
static inline uint64_t ft_first_access_word(const struct ft_block *block, uint64_t entry)
{
    return (uint64_t)block->first_access << FT_SIZE_SHIFT | (entry & FT_ADDRESS_MASK);
}

/* Whether a word begins the record of an element. */
static inline bool ft_is_element(uint64_t word)
{
    return word >> FT_TAG_SHIFT == FT_TAG_ELEMENT;
}

/* ---- data_flow.c: all but the first are false when memory ran out --------------------------------------- */

/* Whether the data flow is followed here. Of a program whose accesses are recorded in bursts it is until the first gap.
 */
bool ft_reader_follows(const struct ft_reader *reader);

/* One access, or a part of one, of the block that the thread is in. */
bool ft_reader_flow_access(struct ft_reader *reader, uint64_t address, uint32_t operation, uint32_t size_bytes,
                           bool is_store);

/* A record of what becomes of memory, of two words out of `left`. */
enum ft_read_status ft_reader_read_memory(struct ft_reader *reader, const uint64_t *words, uint32_t left);

/* An array operation. */
bool ft_reader_flow_array(struct ft_reader *reader, const struct ft_array_run *run);

/* Executions of blocks on a path up to a step, `times` times, for the execution tree, and their accesses for the data
 * flow. */
bool ft_reader_follow_path(struct ft_reader *reader, struct ft_path *path, const struct ft_path_step *step,
                           const uint64_t *words, uint64_t times);

/* ---- skipping.c ------------------------------------------------------------------------------------------ */

/* Whether a phase was over, and the next, `mark`, begins here. */
bool ft_reader_phase_ends(struct ft_reader *reader);

/* Whether accesses of array operations are counted and not handed over. */
bool ft_reader_skips(const struct ft_reader *reader);

/* The same for an array operation that runs. The first one is handed over even so, and asks for a burst. */
bool ft_reader_skips_array(struct ft_reader *reader, struct ft_array *array);

/* ---- learning.c ------------------------------------------------------------------------------------------ */

/* At an entry word that begins no path, of `left` words: it may from now on. An execution that keeps changing is looked
 * at ever more seldom. */
enum ft_read_status ft_reader_learn_path(struct ft_reader *reader, const uint64_t *words, uint32_t left);

/* Makes a path better that was taken once more, at `words`: shorter if it is mostly left before its end, or else
 * longer. It may be another one then. */
enum ft_read_status ft_reader_improve_path(struct ft_reader *reader, struct ft_path *path, const uint64_t *words,
                                           uint32_t left);

/* ---- arrays.c -------------------------------------------------------------------------------------------- */

/* One record of an array operation, of `*length` words out of `left`. */
enum ft_read_status ft_reader_read_bulk(struct ft_reader *reader, const uint64_t *words, uint32_t left,
                                        uint32_t *length);

/* The array operation of an element's record, which begins with `word`. NULL if there is none. */
struct ft_array *ft_reader_element_of(struct ft_reader *reader, uint64_t word);

/* One access by an array operation of one operand. */
enum ft_read_status ft_reader_read_element(struct ft_reader *reader, const uint64_t *words, uint32_t left);

/* windows.c: a chunk begins; decides whether dependences are looked for in it. */
void ft_reader_begin_chunk_of_windows(struct ft_reader *reader);

#endif
