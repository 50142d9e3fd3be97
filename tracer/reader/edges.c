/* Counts how often blocks came behind one another. See parts.h. */
#include "parts.h"

static inline uint64_t hash_of(const struct ft_edge *edge)
{
    return (edge->key * FT_HASH_FACTOR) >> 20;
}

static inline bool is_used(const struct ft_edge *edge)
{
    return edge->key;
}

static inline bool is_same(const struct ft_edge *one, const struct ft_edge *other)
{
    return one->key == other->key;
}

FT_TABLE(ft_edges, struct ft_edge, 4096, hash_of, is_used, is_same)

bool ft_reader_count_rare_edge(struct ft_reader *reader, uint32_t from, uint32_t to, uint64_t times)
{
    const struct ft_edge like = {(uint64_t)from << 32 | to, 0};
    if (!ft_edges_make_room(&reader->edges))
        return false;
    struct ft_edge *edge = ft_edges_at(&reader->edges, &like);
    if (!edge->key) {
        if (reader->edges.used >= FT_MAX_RARE_EDGES) {
            reader->edges_full = true;
            return true;
        }
        *edge = like;
        reader->edges.used++;
    }
    edge->count += times;
    return true;
}

/* Counts the elements that a step of a path accesses, which ran so often. */
static void count_elements(struct ft_reader *reader, const struct ft_path *path, uint32_t step, uint64_t times)
{
    const uint32_t end = path->steps[step].iteration.num_accesses;
    for (uint32_t j = step ? path->steps[step - 1].iteration.num_accesses : 0; j < end; j++) {
        const uint32_t array_id = reader->operations[path->accesses[j].op].array_id;
        if (array_id) {
            reader->arrays[array_id].executions += times;
            reader->arrays[array_id].points += times;
        }
    }
}

bool ft_reader_count_path(struct ft_reader *reader, struct ft_path *path, uint32_t num_steps)
{
    uint64_t reached = 0;
    for (uint32_t i = num_steps; i-- > 0;) {
        if (reached && !ft_reader_count_edge(reader, path->steps[i].block_id, path->steps[i + 1].block_id, reached))
            return false;
        reached += path->steps[i].taken;
        path->steps[i].taken = 0;
        count_elements(reader, path, i, reached);
    }
    return true;
}

bool ft_reader_count_longer_paths(struct ft_reader *reader, struct ft_path *path)
{
    bool done = true;
    for (uint32_t i = 0; i < FT_PATH_WAYS && path->ways[i].longer && done; i++) {
        struct ft_path *longer = path->ways[i].longer;
        done = ft_reader_count_path(reader, longer, longer->num_steps) && ft_reader_count_longer_paths(reader, longer);
    }
    return done;
}

bool ft_reader_count_paths(struct ft_reader *reader)
{
    bool done = true;
    for (uint32_t id = 1; id <= reader->n_blocks && done; id++)
        if (reader->blocks[id].path)
            done = ft_reader_count_path(reader, reader->blocks[id].path, reader->blocks[id].path->num_steps) &&
                   ft_reader_count_longer_paths(reader, reader->blocks[id].path);
    return done;
}

void ft_reader_executions(const struct ft_reader *reader, uint64_t *out)
{
    for (uint32_t id = 1; id <= reader->n_blocks; id++)
        out[id - 1] = reader->blocks[id].starts;
    for (uint32_t id = 1; id <= reader->n_blocks; id++)
        for (int i = 0; i < 2; i++)
            if (reader->blocks[id].successor[i])
                out[reader->blocks[id].successor[i] - 1] += reader->blocks[id].successor_count[i];
    for (uint64_t i = 0; i < reader->edges.capacity; i++)
        if (reader->edges.entries[i].key)
            out[(reader->edges.entries[i].key & UINT32_MAX) - 1] += reader->edges.entries[i].count;
}

uint64_t ft_reader_edges(const struct ft_reader *reader, uint64_t *out)
{
    uint64_t n = 0;
    for (uint32_t id = 1; id <= reader->n_blocks; id++)
        for (int i = 0; i < 2; i++)
            if (reader->blocks[id].successor[i]) {
                if (out) {
                    out[3 * n] = id;
                    out[3 * n + 1] = reader->blocks[id].successor[i];
                    out[3 * n + 2] = reader->blocks[id].successor_count[i];
                }
                n++;
            }
    for (uint64_t i = 0; i < reader->edges.capacity; i++)
        if (reader->edges.entries[i].key) {
            if (out) {
                out[3 * n] = reader->edges.entries[i].key >> 32;
                out[3 * n + 1] = reader->edges.entries[i].key & UINT32_MAX;
                out[3 * n + 2] = reader->edges.entries[i].count;
            }
            n++;
        }
    return n;
}
