/* What SciPy's sparse conversions, and its products of COO, DIA and BSR matrices, touch (scipy/sparse/sparsetools).
 *
 * All arrays are contiguous here: SciPy's wrappers copy those that are not, and such a call counts as unseen. Where a
 * loop has two indices at once, each chunk of it is two records. Nothing is believed of an array that was not checked:
 * what is read of the arrays here lies in them.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sparse.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ARRAYS 8

/* A call's arguments: integers, then arrays. */
struct arguments {
    const char *name;
    int64_t n[6];
    const struct np_array *a[MAX_ARRAYS];
};

/* Index arrays whose every element has been found to be from 0 to `limit` - 1 give the offsets of indexed operands. */
struct element_index {
    struct agent_index index;
    const int64_t *at; /* element numbers */
    int64_t item_bytes;
};

static void next_elements(struct agent_index *index, int64_t *offsets, int64_t count)
{
    struct element_index *elements = (struct element_index *)index;
    for (int64_t i = 0; i < count; i++)
        offsets[i] = elements->at[i] * elements->item_bytes;
    elements->at += count;
}

static bool parse(const struct agent_call *call, int n_integers, int n_arrays, struct arguments *args)
{
    args->name = call->name;
    if (call->n_args < n_integers + n_arrays)
        return false;
    for (int i = 0; i < n_integers; i++)
        if (!sparse_integer_argument(call->args[i], &args->n[i]))
            return false;
    for (int i = 0; i < n_arrays; i++) {
        args->a[i] = np_as_array(call->args[n_integers + i]);
        if (!args->a[i] || np_is_object(args->a[i]) || !(args->a[i]->flags & NP_C_CONTIGUOUS))
            return false;
    }
    return true;
}

/* Whether an array's first `count` elements are integers from 0 to `limit` - 1. */
static bool indices_within(const struct np_array *array, int64_t count, int64_t limit)
{
    if (!np_is_integer(array) || count < 0 || np_size(array) < count)
        return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t value = sparse_integer_at(array, i);
        if (value < 0 || value >= limit)
            return false;
    }
    return true;
}

/* Whether an array is `n` + 1 row pointers, the last of which is at most `limit`. */
static bool pointers_within(const struct np_array *array, int64_t n, int64_t limit)
{
    if (!indices_within(array, n + 1, limit + 1))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (sparse_integer_at(array, i) > sparse_integer_at(array, i + 1))
            return false;
    return true;
}

static struct agent_operand *add_part(struct agent_bulk *bulk, const struct np_array *array, int64_t from, bool store)
{
    const int64_t bytes = np_item_bytes(array), strides[AGENT_MAX_DIMS] = {bytes};
    return agent_bulk_add(bulk, array->data + from * bytes, strides, bytes, store);
}

/* One pass over a part of an array: loads, stores or both. */
static void write_pass(const char *name, const struct np_array *array, int64_t from, int64_t count, bool load,
                       bool store)
{
    struct agent_bulk bulk;
    agent_bulk_begin(&bulk, name, 1, &count);
    if (load)
        add_part(&bulk, array, from, false);
    if (store)
        add_part(&bulk, array, from, true);
    agent_bulk_write(&bulk, NULL);
}

static void set_flops(struct agent_bulk *bulk, const struct np_array *values)
{
    bulk->flops = values->dtype->kind == 'f' ? 2 : values->dtype->kind == 'c' ? 8 : 0;
    bulk->int_ops = bulk->flops ? 0 : 2;
}

/* For each nonzero of a chunk: loads of `loads` in step, then an access of `target` at `at`: a load if `load`, then a
 * store if `store`. `index`, if not NULL, is the array that `at` was computed from. */
struct indexed_loop {
    const char *name;
    const struct np_array *index, *loads[2], *target, *second_target;
    const int64_t *at;
    bool load, store, flops, continued;
};

static void write_indexed(struct indexed_loop *loop, int64_t from, int64_t count)
{
    const int64_t bytes = np_item_bytes(loop->target);
    struct element_index index = {{.next = next_elements}, loop->at, bytes};
    struct agent_bulk bulk;
    agent_bulk_begin(&bulk, loop->name, 1, &count);
    bulk.continued = loop->continued;
    if (loop->flops)
        set_flops(&bulk, loop->target);
    if (loop->index)
        add_part(&bulk, loop->index, from, false)->is_index = true;
    for (int i = 0; i < 2; i++)
        if (loop->loads[i])
            add_part(&bulk, loop->loads[i], from, false);
    if (loop->load)
        agent_bulk_add_indexed(&bulk, loop->target->data, bytes, false);
    if (loop->store)
        agent_bulk_add_indexed(&bulk, loop->target->data, bytes, true);
    agent_bulk_write(&bulk, &index.index);
    loop->continued = true;
}

static int64_t chunk_of(int64_t done, int64_t total)
{
    return total - done < SPARSE_CHUNK_NONZEROS ? total - done : SPARSE_CHUNK_NONZEROS;
}

static void load_indices(const struct np_array *array, int64_t from, int64_t count, int64_t scale, int64_t *at)
{
    for (int64_t i = 0; i < count; i++)
        at[i] = sparse_integer_at(array, from + i) * scale;
}

/* ---- products --------------------------------------------------------------------------------------------------- */

/* coo_matvec(nnz, Ai, Aj, Ax, Xx, Yx): y[Ai[n]] += Ax[n] * x[Aj[n]] */
static bool coo_matvec(const struct agent_call *call)
{
    struct arguments args;
    int64_t at[SPARSE_CHUNK_NONZEROS];
    if (!parse(call, 1, 5, &args) || np_size(args.a[2]) < args.n[0] ||
        !indices_within(args.a[0], args.n[0], np_size(args.a[4])) ||
        !indices_within(args.a[1], args.n[0], np_size(args.a[3])))
        return false;
    struct indexed_loop x = {.name = args.name,
                             .index = args.a[1],
                             .loads = {args.a[2]},
                             .target = args.a[3],
                             .at = at,
                             .load = true,
                             .flops = true};
    struct indexed_loop y = {
        .name = args.name, .index = args.a[0], .target = args.a[4], .at = at, .load = true, .store = true};
    for (int64_t done = 0, count; done < args.n[0]; done += count) {
        count = chunk_of(done, args.n[0]);
        load_indices(args.a[1], done, count, 1, at);
        write_indexed(&x, done, count);
        load_indices(args.a[0], done, count, 1, at);
        write_indexed(&y, done, count);
    }
    return true;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* dia_matvec(n_row, n_col, n_diags, L, offsets, diags, Xx, Yx): y[i] += diags[d, j] * x[j] along each diagonal */
static bool dia_matvec(const struct agent_call *call)
{
    struct arguments args;
    struct agent_bulk bulk;
    if (!parse(call, 4, 4, &args) || !np_is_integer(args.a[0]) || np_size(args.a[0]) < args.n[2] ||
        np_size(args.a[1]) < args.n[2] * args.n[3] || np_size(args.a[2]) < args.n[1] || np_size(args.a[3]) < args.n[0])
        return false;
    write_pass(args.name, args.a[0], 0, args.n[2], true, false);
    bool continued = false;
    for (int64_t d = 0; d < args.n[2]; d++) {
        int64_t k = sparse_integer_at(args.a[0], d), row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
        int64_t count = least(least(args.n[0] + k, args.n[1]), args.n[3]) - column;
        agent_bulk_begin(&bulk, args.name, 1, &count);
        bulk.continued = continued;
        set_flops(&bulk, args.a[3]);
        add_part(&bulk, args.a[1], d * args.n[3] + column, false);
        add_part(&bulk, args.a[2], column, false);
        add_part(&bulk, args.a[3], row, false);
        add_part(&bulk, args.a[3], row, true);
        agent_bulk_write(&bulk, NULL);
        continued |= count > 0;
    }
    return true;
}

/* ---- dense from sparse ------------------------------------------------------------------------------------------ */

/* csr_todense(n_row, n_col, Ap, Aj, Ax, Bx): B[i, Aj[n]] += Ax[n] */
static bool csr_todense(const struct agent_call *call)
{
    struct arguments args;
    int64_t at[SPARSE_CHUNK_NONZEROS];
    if (!parse(call, 2, 4, &args) || np_size(args.a[3]) < args.n[0] * args.n[1] ||
        !pointers_within(args.a[0], args.n[0], least(np_size(args.a[1]), np_size(args.a[2]))))
        return false;
    const int64_t nonzeros = sparse_integer_at(args.a[0], args.n[0]);
    if (!indices_within(args.a[1], nonzeros, args.n[1]))
        return false;
    struct indexed_loop loop = {.name = args.name,
                                .index = args.a[1],
                                .loads = {args.a[2]},
                                .target = args.a[3],
                                .at = at,
                                .load = true,
                                .store = true};
    write_pass(args.name, args.a[0], 0, args.n[0] + 1, true, false);
    int64_t row = 0;
    for (int64_t done = sparse_integer_at(args.a[0], 0), count; done < nonzeros; done += count) {
        count = chunk_of(done, nonzeros);
        load_indices(args.a[1], done, count, 1, at);
        for (int64_t i = 0; i < count; i++) {
            while (sparse_integer_at(args.a[0], row + 1) <= done + i)
                row++;
            at[i] += row * args.n[1];
        }
        write_indexed(&loop, done, count);
    }
    return true;
}

/* coo_todense(n_row, n_col, nnz, Ai, Aj, Ax, Bx, fortran) */
static bool coo_todense(const struct agent_call *call)
{
    struct arguments args;
    int64_t at[SPARSE_CHUNK_NONZEROS], fortran;
    if (!parse(call, 3, 4, &args) || call->n_args < 8 || !sparse_integer_argument(call->args[7], &fortran) ||
        np_size(args.a[3]) < args.n[0] * args.n[1] || np_size(args.a[2]) < args.n[2] ||
        !indices_within(args.a[0], args.n[2], args.n[0]) || !indices_within(args.a[1], args.n[2], args.n[1]))
        return false;
    struct indexed_loop loop = {.name = args.name,
                                .index = args.a[1],
                                .loads = {args.a[0], args.a[2]},
                                .target = args.a[3],
                                .at = at,
                                .load = true,
                                .store = true};
    for (int64_t done = 0, count; done < args.n[2]; done += count) {
        count = chunk_of(done, args.n[2]);
        load_indices(args.a[1], done, count, fortran ? args.n[0] : 1, at);
        for (int64_t i = 0; i < count; i++)
            at[i] += sparse_integer_at(args.a[0], done + i) * (fortran ? 1 : args.n[1]);
        write_indexed(&loop, done, count);
    }
    return true;
}

/* ---- sorting by row or column ----------------------------------------------------------------------------------- */

/* A counting sort: `keys` says which bucket of `pointers` each of `nonzeros` goes to; with it go `values`, and `others`
 * (or, if that is NULL, the number of its row). `to_others` and `to_values` receive them. */
struct counting_sort {
    const char *name;
    const struct np_array *keys, *others, *values, *pointers, *to_others, *to_values;
    int64_t nonzeros, n_buckets;
};

static void distribute(const struct counting_sort *sort, int64_t *next)
{
    int64_t keys[SPARSE_CHUNK_NONZEROS], to[SPARSE_CHUNK_NONZEROS];
    struct indexed_loop find = {
        .name = sort->name, .index = sort->keys, .target = sort->pointers, .at = keys, .load = true};
    struct indexed_loop others = {
        .name = sort->name, .loads = {sort->others}, .target = sort->to_others, .at = to, .store = true};
    struct indexed_loop values = {
        .name = sort->name, .loads = {sort->values}, .target = sort->to_values, .at = to, .store = true};
    struct indexed_loop advance = {
        .name = sort->name, .target = sort->pointers, .at = keys, .load = true, .store = true};
    for (int64_t done = 0, count; done < sort->nonzeros; done += count) {
        count = chunk_of(done, sort->nonzeros);
        load_indices(sort->keys, done, count, 1, keys);
        for (int64_t i = 0; i < count; i++)
            to[i] = next[keys[i]]++;
        write_indexed(&find, done, count);
        write_indexed(&others, done, count);
        write_indexed(&values, done, count);
        write_indexed(&advance, done, count);
    }
}

static bool counting_sort(const struct counting_sort *sort)
{
    int64_t keys[SPARSE_CHUNK_NONZEROS], sum = 0;
    int64_t *next = calloc((size_t)sort->n_buckets + 1, sizeof *next);
    if (!next)
        return false;
    struct indexed_loop count_keys = {
        .name = sort->name, .index = sort->keys, .target = sort->pointers, .at = keys, .load = true, .store = true};
    write_pass(sort->name, sort->pointers, 0, sort->n_buckets, false, true);
    for (int64_t done = 0, count; done < sort->nonzeros; done += count) {
        count = chunk_of(done, sort->nonzeros);
        load_indices(sort->keys, done, count, 1, keys);
        for (int64_t i = 0; i < count; i++)
            next[keys[i]]++;
        write_indexed(&count_keys, done, count);
    }
    for (int64_t i = 0; i < sort->n_buckets; i++) {
        int64_t in_bucket = next[i];
        next[i] = sum;
        sum += in_bucket;
    }
    write_pass(sort->name, sort->pointers, 0, sort->n_buckets, true, true);
    write_pass(sort->name, sort->pointers, sort->n_buckets, 1, false, true);
    distribute(sort, next);
    write_pass(sort->name, sort->pointers, 0, sort->n_buckets + 1, true, true);
    free(next);
    return true;
}

static bool has_room(const struct counting_sort *sort)
{
    return np_size(sort->values) >= sort->nonzeros && np_size(sort->pointers) > sort->n_buckets &&
           np_size(sort->to_others) >= sort->nonzeros && np_size(sort->to_values) >= sort->nonzeros &&
           (!sort->others || np_size(sort->others) >= sort->nonzeros) &&
           indices_within(sort->keys, sort->nonzeros, sort->n_buckets);
}

/* csr_tocsc(n_row, n_col, Ap, Aj, Ax, Bp, Bi, Bx) */
static bool csr_tocsc(const struct agent_call *call)
{
    struct arguments args;
    if (!parse(call, 2, 6, &args) || !pointers_within(args.a[0], args.n[0], np_size(args.a[1])))
        return false;
    struct counting_sort sort = {.name = args.name,
                                 .keys = args.a[1],
                                 .values = args.a[2],
                                 .pointers = args.a[3],
                                 .to_others = args.a[4],
                                 .to_values = args.a[5],
                                 .n_buckets = args.n[1],
                                 .nonzeros = sparse_integer_at(args.a[0], args.n[0])};
    if (!has_room(&sort) || !counting_sort(&sort))
        return false;
    write_pass(args.name, args.a[0], 0, args.n[0] + 1, true, false);
    return true;
}

/* coo_tocsr(n_row, n_col, nnz, Ai, Aj, Ax, Bp, Bj, Bx) */
static bool coo_tocsr(const struct agent_call *call)
{
    struct arguments args;
    if (!parse(call, 3, 6, &args))
        return false;
    struct counting_sort sort = {.name = args.name,
                                 .keys = args.a[0],
                                 .others = args.a[1],
                                 .values = args.a[2],
                                 .pointers = args.a[3],
                                 .to_others = args.a[4],
                                 .to_values = args.a[5],
                                 .n_buckets = args.n[0],
                                 .nonzeros = args.n[2]};
    return has_room(&sort) && counting_sort(&sort);
}

/* expandptr(n_row, Ap, Bi): the row of each nonzero */
static bool expandptr(const struct agent_call *call)
{
    struct arguments args;
    if (!parse(call, 1, 2, &args) || !pointers_within(args.a[0], args.n[0], np_size(args.a[1])))
        return false;
    write_pass(args.name, args.a[0], 0, args.n[0] + 1, true, false);
    write_pass(args.name, args.a[1], 0, sparse_integer_at(args.a[0], args.n[0]), false, true);
    return true;
}

/* csr_has_sorted_indices, csr_has_canonical_format(n_row, Ap, Aj): up to the first two indices that are out of order.
 */
static bool has_format(const struct agent_call *call)
{
    struct arguments args;
    if (!parse(call, 1, 2, &args) || !np_is_integer(args.a[1]) ||
        !pointers_within(args.a[0], args.n[0], np_size(args.a[1])))
        return false;
    const bool strictly = strstr(args.name, "canonical") != NULL;
    int64_t row = 0, end = 0;
    bool ordered = true;
    for (; row < args.n[0] && ordered; row++) {
        end = sparse_integer_at(args.a[0], row + 1);
        for (int64_t n = sparse_integer_at(args.a[0], row) + 1; n < end && ordered; n++) {
            int64_t before = sparse_integer_at(args.a[1], n - 1), here = sparse_integer_at(args.a[1], n);
            ordered = strictly ? before < here : before <= here;
            end = ordered ? end : n + 1;
        }
    }
    write_pass(args.name, args.a[0], 0, row + 1, true, false);
    write_pass(args.name, args.a[1], 0, end, true, false);
    return true;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

/* A template that says that it does not fit leaves the call to be recorded as one pass, and counted. */
#define TEMPLATE(function) \
    static void function##_template(const struct agent_call *call) \
    { \
        if (!function(call)) { \
            np_one_pass(call->name, call->args, call->n_args, NULL); \
            agent_unseen(); \
        } \
    }

TEMPLATE(coo_matvec)
TEMPLATE(coo_tocsr)
TEMPLATE(coo_todense)
TEMPLATE(csr_tocsc)
TEMPLATE(csr_todense)
TEMPLATE(dia_matvec)
TEMPLATE(expandptr)
TEMPLATE(has_format)

agent_template sparse_conversion(const char *name)
{
    static const struct {
        const char *name;
        agent_template template;
    } templates[] = {
        {"coo_matvec", coo_matvec_template},
        {"coo_tocsr", coo_tocsr_template},
        {"coo_todense", coo_todense_template},
        {"csr_has_canonical_format", has_format_template},
        {"csr_has_sorted_indices", has_format_template},
        {"csr_tocsc", csr_tocsc_template},
        {"csr_todense", csr_todense_template},
        {"dia_matvec", dia_matvec_template},
        {"expandptr", expandptr_template},
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (strcmp(templates[i].name, name) == 0)
            return templates[i].template;
    return NULL;
}
