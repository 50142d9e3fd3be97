/* Tensor contractions by blocks, as tasks: the terms of a coupled-cluster equation for pairs of electrons.
 *
 * usage: contract [OCCUPIED [VIRTUAL [TILE [THREADS]]]]: orbitals of each spin (10, 22), orbitals of a tile (6), threads (2).
 * Prints the norm of the result.
 *
 * Orbitals, occupied or virtual, are divided into tiles of one spin. A tensor of four indices is kept as a matrix of blocks,
 * with two indices as rows and two as columns. Spin is conserved: a block whose rows and columns have another spin is zero,
 * and not stored. So a block of a product needs all the products of blocks along a row and a column of the same spin: a task,
 * whose length is their number. Signs, factors and antisymmetry of the equation are left out.
 *
 * The events are those of table 4 of Jagode, Danalis, Anzt and Dongarra, "PAPI software-defined events for in-depth
 * performance analysis", which have `::ContrID=` in their names there: here each contraction is a library of its own.
 */
#define _POSIX_C_SOURCE 200809L
#include "tasks.h"

#include <foretrace_events.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

struct tile {
    int first, size; /* orbitals */
    int spin;        /* 0 or 1 */
};

/* The tiles of occupied or virtual orbitals, those of spin 0 first. */
struct space {
    int num_tiles, num_orbitals;
    struct tile *tiles;
};

/* Two indices. Spins are added, or subtracted where an electron goes from the second index to the first. */
struct pair {
    const struct space *first, *second;
    int sign;
};

/* `values` is NULL where spin is not conserved. */
struct block {
    struct datum datum;
    int rows, columns;
    double *values; /* [rows, columns] */
};

struct tensor {
    struct pair rows, columns;
    struct block *blocks; /* [pairs of tiles of the rows, of the columns] */
};

static int num_pairs(const struct pair *pair)
{
    return pair->first->num_tiles * pair->second->num_tiles;
}

static const struct tile *first_tile(const struct pair *pair, int number)
{
    return &pair->first->tiles[number / pair->second->num_tiles];
}

static const struct tile *second_tile(const struct pair *pair, int number)
{
    return &pair->second->tiles[number % pair->second->num_tiles];
}

static int spin_of(const struct pair *pair, int number)
{
    return first_tile(pair, number)->spin + pair->sign * second_tile(pair, number)->spin;
}

static int size_of(const struct pair *pair, int number)
{
    return first_tile(pair, number)->size * second_tile(pair, number)->size;
}

static struct block *block_of(const struct tensor *tensor, int row, int column)
{
    return &tensor->blocks[row * num_pairs(&tensor->columns) + column];
}

static bool space_make(struct space *space, int num_orbitals, int tile_size)
{
    const int tiles_a_spin = (num_orbitals + tile_size - 1) / tile_size;
    *space = (struct space){2 * tiles_a_spin, 2 * num_orbitals, calloc(2 * (size_t)tiles_a_spin, sizeof(struct tile))};
    for (int i = 0; space->tiles && i < space->num_tiles; i++) {
        const int spin = i / tiles_a_spin, first = i % tiles_a_spin * tile_size;
        const int left = num_orbitals - first;
        space->tiles[i] = (struct tile){spin * num_orbitals + first, left < tile_size ? left : tile_size, spin};
    }
    return space->tiles != NULL;
}

/* Blocks of zeros. */
static bool tensor_make(struct tensor *tensor, struct pair rows, struct pair columns)
{
    *tensor = (struct tensor){rows, columns, NULL};
    tensor->blocks = calloc((size_t)num_pairs(&rows) * (size_t)num_pairs(&columns), sizeof *tensor->blocks);
    bool is_made = tensor->blocks != NULL;
    for (int row = 0; is_made && row < num_pairs(&rows); row++)
        for (int column = 0; is_made && column < num_pairs(&columns); column++) {
            if (spin_of(&rows, row) != spin_of(&columns, column))
                continue;
            struct block *block = block_of(tensor, row, column);
            block->rows = size_of(&rows, row);
            block->columns = size_of(&columns, column);
            block->values = calloc((size_t)block->rows * (size_t)block->columns, sizeof *block->values);
            is_made = block->values != NULL;
        }
    return is_made;
}

static void tensor_free(struct tensor *tensor)
{
    for (int i = 0; tensor->blocks && i < num_pairs(&tensor->rows) * num_pairs(&tensor->columns); i++) {
        free(tensor->blocks[i].values);
        datum_free(&tensor->blocks[i].datum);
    }
    free(tensor->blocks);
}

/* A number between -1 and 1 of a tensor's element pq, rs. */
static double amplitude(int p, int q, int r, int s)
{
    return ((7 * p + 3 * q + 5 * r + 11 * s) % 13 - 6) / 6.0;
}

/* The rows of a block are orbitals of the tiles p and q, the columns of r and s. Where spins are subtracted, that is the
 * tensor's element ps, qr. */
static void
fill(struct block *block, const struct pair *rows, int row_number, const struct pair *columns, int column_number)
{
    const struct tile *p = first_tile(rows, row_number), *q = second_tile(rows, row_number);
    const struct tile *r = first_tile(columns, column_number), *s = second_tile(columns, column_number);
    const bool is_ordered = rows->sign > 0;
    double *value = block->values;
    for (int row = 0; row < block->rows; row++)
        for (int column = 0; column < block->columns; column++) {
            const int at_p = p->first + row / q->size, at_q = q->first + row % q->size;
            const int at_r = r->first + column / s->size, at_s = s->first + column % s->size;
            *value++ = is_ordered ? amplitude(at_p, at_q, at_r, at_s) : amplitude(at_p, at_s, at_q, at_r);
        }
}

static bool tensor_make_filled(struct tensor *tensor, struct pair rows, struct pair columns)
{
    if (!tensor_make(tensor, rows, columns))
        return false;
    for (int row = 0; row < num_pairs(&rows); row++)
        for (int column = 0; column < num_pairs(&columns); column++)
            if (block_of(tensor, row, column)->values)
                fill(block_of(tensor, row, column), &rows, row, &columns, column);
    return true;
}

/* ---- contractions ------------------------------------------------------------------------------------------------- */

static _Atomic long long running; /* ID of the contraction whose task began last */

struct contraction {
    long long id;
    long long longest_task; /* registered: it must live as long as the process */
    void *num_products, *flops, *lengths, *flops_of_tasks;
};

/* A block of a product. */
struct product {
    struct contraction *contraction;
    const struct tensor *left, *right;
    struct tensor *result;
    int row, column;
};

static void contraction_begin(struct contraction *contraction, long long id, const char *name)
{
    const int counts = PAPI_SDE_RO | PAPI_SDE_DELTA, is_now = PAPI_SDE_RO | PAPI_SDE_INSTANT;
    papi_handle_t library = papi_sde_init(name);
    *contraction = (struct contraction){.id = id};
    papi_sde_create_counter(library, "DgemmCount_I", counts, &contraction->num_products);
    papi_sde_create_counter(library, "FlopCount_I", counts, &contraction->flops);
    papi_sde_register_counter(library, "MaxTaskLength_I", is_now, PAPI_SDE_long_long, &contraction->longest_task);
    papi_sde_create_recorder(
        library, "LengthPerTask_RCRD_I", sizeof(long long), papi_sde_compare_long_long, &contraction->lengths);
    papi_sde_create_recorder(
        library, "FlopsPerTask_RCRD_I", sizeof(long long), papi_sde_compare_long_long, &contraction->flops_of_tasks);
    papi_sde_describe_counter(library, "DgemmCount_I", "matrix products");
    papi_sde_describe_counter(library, "FlopCount_I", "floating-point operations");
    papi_sde_describe_counter(library, "MaxTaskLength_I", "matrix products of the longest task");
    papi_sde_describe_counter(library, "LengthPerTask_RCRD_I", "matrix products of each task");
    papi_sde_describe_counter(library, "FlopsPerTask_RCRD_I", "floating-point operations of each task");
}

/* c = c + a b */
static void multiply(const struct block *a, const struct block *b, struct block *c)
{
    for (int i = 0; i < c->rows; i++)
        for (int k = 0; k < a->columns; k++) {
            const double factor = a->values[i * a->columns + k];
            for (int j = 0; j < c->columns; j++)
                c->values[i * c->columns + j] += factor * b->values[k * c->columns + j];
        }
}

static void run_product(void *argument)
{
    const struct product *p = argument;
    struct block *result = block_of(p->result, p->row, p->column);
    long long length = 0, flops = 0;
    atomic_store(&running, p->contraction->id);
    for (int i = 0; i < num_pairs(&p->left->columns); i++) {
        const struct block *left = block_of(p->left, p->row, i), *right = block_of(p->right, i, p->column);
        if (!left->values || !right->values)
            continue;
        multiply(left, right, result);
        length++;
        flops += 2LL * left->rows * left->columns * right->columns;
        papi_sde_inc_counter(p->contraction->num_products, 1);
    }
    papi_sde_inc_counter(p->contraction->flops, flops);
    papi_sde_record(p->contraction->lengths, sizeof length, &length);
    papi_sde_record(p->contraction->flops_of_tasks, sizeof flops, &flops);
    free(argument);
}

/* Submits the task of a block of the result. `reads` has room for all blocks of a row and a column. */
static bool submit_product(struct runtime *runtime, struct product product, struct datum **reads)
{
    size_t num_reads = 0;
    for (int i = 0; i < num_pairs(&product.left->columns); i++) {
        struct block *left = block_of(product.left, product.row, i), *right = block_of(product.right, i, product.column);
        if (!left->values || !right->values)
            continue;
        reads[num_reads++] = &left->datum;
        reads[num_reads++] = &right->datum;
    }
    const long long length = (long long)num_reads / 2;
    if (length > product.contraction->longest_task)
        product.contraction->longest_task = length;
    struct product *kept = malloc(sizeof *kept);
    if (!kept)
        return false;
    *kept = product;
    return tasks_submit(
        runtime, run_product, kept, reads, num_reads, &block_of(product.result, product.row, product.column)->datum);
}

/* result = result + left right */
static bool contract(
    struct runtime *runtime, struct contraction *contraction, struct tensor *result, const struct tensor *left,
    const struct tensor *right)
{
    struct datum **reads = malloc(2 * (size_t)num_pairs(&left->columns) * sizeof *reads);
    bool is_submitted = reads != NULL;
    for (int row = 0; is_submitted && row < num_pairs(&result->rows); row++)
        for (int column = 0; is_submitted && column < num_pairs(&result->columns); column++)
            if (block_of(result, row, column)->values)
                is_submitted =
                    submit_product(runtime, (struct product){contraction, left, right, result, row, column}, reads);
    free(reads);
    return is_submitted;
}

/* ---- the equation ------------------------------------------------------------------------------------------------- */

/* result(ab; ij) = result(ab; ij) + ring(ai; jb), of one block. */
struct reordering {
    const struct block *ring;
    struct block *result;
    int size_b, size_i, size_j;
};

static void run_reordering(void *argument)
{
    const struct reordering *r = argument;
    const double *value = r->ring->values;
    for (int a = 0; a < r->result->rows / r->size_b; a++)
        for (int i = 0; i < r->size_i; i++)
            for (int j = 0; j < r->size_j; j++)
                for (int b = 0; b < r->size_b; b++)
                    r->result->values[((a * r->size_b + b) * r->size_i + i) * r->size_j + j] += *value++;
    free(argument);
}

static bool add_ring(struct runtime *runtime, struct tensor *result, const struct tensor *ring)
{
    const int num_b = result->rows.second->num_tiles, num_j = result->columns.second->num_tiles;
    for (int row = 0; row < num_pairs(&result->rows); row++)
        for (int column = 0; column < num_pairs(&result->columns); column++) {
            const int a = row / num_b, b = row % num_b, i = column / num_j, j = column % num_j;
            struct block *to = block_of(result, row, column), *from = block_of(ring, a * num_j + i, j * num_b + b);
            struct datum *reads[] = {&from->datum};
            struct reordering *kept = to->values ? malloc(sizeof *kept) : NULL;
            if (!to->values)
                continue;
            if (!kept)
                return false;
            *kept = (struct reordering){
                from, to, second_tile(&result->rows, row)->size, first_tile(&result->columns, column)->size,
                second_tile(&result->columns, column)->size};
            if (!tasks_submit(runtime, run_reordering, kept, reads, 1, &to->datum))
                return false;
        }
    return true;
}

/* i, j, k and l are occupied orbitals, a, b, c and d virtual ones. */
enum { V_KLCD, V_ABCD, V_KCDL, T_ABIJ, T_AIKC, W_KLIJ, X_KCJB, RING_AIJB, RESULT_ABIJ, NUM_TENSORS };

static bool make_tensors(struct tensor *t, const struct space *occupied, const struct space *virtuals)
{
    const struct pair holes = {occupied, occupied, 1}, particles = {virtuals, virtuals, 1};
    const struct pair up = {virtuals, occupied, -1}, down = {occupied, virtuals, -1};
    return tensor_make_filled(&t[V_KLCD], holes, particles) && tensor_make_filled(&t[V_ABCD], particles, particles) &&
           tensor_make_filled(&t[V_KCDL], down, up) && tensor_make_filled(&t[T_ABIJ], particles, holes) &&
           tensor_make_filled(&t[T_AIKC], up, down) && tensor_make(&t[W_KLIJ], holes, holes) &&
           tensor_make(&t[X_KCJB], down, down) && tensor_make(&t[RING_AIJB], up, down) &&
           tensor_make(&t[RESULT_ABIJ], particles, holes);
}

static bool solve(struct tensor *t, int num_threads)
{
    static struct contraction hole_intermediate, ring_intermediate, hole_ladder, ring, particle_ladder;
    contraction_begin(&hole_intermediate, 1, "hole intermediate");
    contraction_begin(&ring_intermediate, 2, "ring intermediate");
    contraction_begin(&hole_ladder, 3, "hole ladder");
    contraction_begin(&ring, 4, "ring");
    contraction_begin(&particle_ladder, 5, "particle ladder");
    struct runtime *runtime = tasks_begin(num_threads);
    if (!runtime)
        return false;
    const bool is_submitted =
        contract(runtime, &hole_intermediate, &t[W_KLIJ], &t[V_KLCD], &t[T_ABIJ]) &&
        contract(runtime, &ring_intermediate, &t[X_KCJB], &t[V_KCDL], &t[T_AIKC]) &&
        contract(runtime, &hole_ladder, &t[RESULT_ABIJ], &t[T_ABIJ], &t[W_KLIJ]) &&
        contract(runtime, &ring, &t[RING_AIJB], &t[T_AIKC], &t[X_KCJB]) &&
        contract(runtime, &particle_ladder, &t[RESULT_ABIJ], &t[V_ABCD], &t[T_ABIJ]) &&
        add_ring(runtime, &t[RESULT_ABIJ], &t[RING_AIJB]);
    tasks_finish(runtime);
    return is_submitted;
}

static double norm(const struct tensor *tensor)
{
    double sum = 0;
    for (int i = 0; i < num_pairs(&tensor->rows) * num_pairs(&tensor->columns); i++) {
        const struct block *block = &tensor->blocks[i];
        for (int at = 0; block->values && at < block->rows * block->columns; at++)
            sum += block->values[at] * block->values[at];
    }
    return sqrt(sum);
}

/* An argument from 1 to `most`; 0: it is none. */
static int argument(int argc, char **argv, int number, int otherwise, int most)
{
    if (argc <= number)
        return otherwise;
    char *end;
    const long value = strtol(argv[number], &end, 10);
    return end != argv[number] && !*end && value >= 1 && value <= most ? (int)value : 0;
}

int main(int argc, char **argv)
{
    const int num_occupied = argument(argc, argv, 1, 10, 100), num_virtual = argument(argc, argv, 2, 22, 100);
    const int tile_size = argument(argc, argv, 3, 6, 100), num_threads = argument(argc, argv, 4, 2, 256);
    if (!num_occupied || !num_virtual || !tile_size || !num_threads || argc > 5) {
        fprintf(stderr, "usage: contract [OCCUPIED [VIRTUAL [TILE [THREADS]]]]\n");
        return 2;
    }
    const int is_now = PAPI_SDE_RO | PAPI_SDE_INSTANT;
    papi_handle_t library = papi_sde_init("contractions");
    papi_sde_register_counter(library, "ContractionID_I", is_now, PAPI_SDE_long_long, &running);
    papi_sde_describe_counter(library, "ContractionID_I", "number of the contraction that runs");
    struct space occupied = {0}, virtuals = {0};
    struct tensor tensors[NUM_TENSORS] = {0};
    const bool is_solved =
        space_make(&occupied, num_occupied, tile_size) && space_make(&virtuals, num_virtual, tile_size) &&
        make_tensors(tensors, &occupied, &virtuals) && solve(tensors, num_threads);
    if (is_solved)
        printf("norm of the result: %.9e\n", norm(&tensors[RESULT_ABIJ]));
    else
        fprintf(stderr, "contract: there is no memory\n");
    for (int i = 0; i < NUM_TENSORS; i++)
        tensor_free(&tensors[i]);
    free(occupied.tiles);
    free(virtuals.tiles);
    return is_solved ? 0 : 1;
}
