#include "communicators.h"

#include "foretrace/base/tables.h"

#define FT_HANDLE(handle) ((uint64_t)(uintptr_t)(handle))
#define NOT_RECORDED (-1)
#define FREED (-2)

struct ft_communicators ft_communicators;
static uint32_t capacity;

/* A handle of a communicator, window or file, and what it stands for. Handles of the three may have the same value. */
struct known {
    uint64_t handle; /* 0: free */
    int64_t kind, index;
};
enum { COMMUNICATOR, WINDOW, FILE_HANDLE };
static uint64_t hash_of_known(const struct known *known)
{
    return (known->handle ^ (uint64_t)known->kind << 60) * FT_HASH_FACTOR >> 32;
}
static bool is_known_used(const struct known *known)
{
    return known->handle != 0;
}
static bool is_same_known(const struct known *one, const struct known *other)
{
    return one->handle == other->handle && one->kind == other->kind;
}
FT_TABLE_TYPE(handles, struct known);
FT_TABLE(handles, struct known, 64, hash_of_known, is_known_used, is_same_known)
static struct handles handles;

/* Freed communicators with the same members, the last freed first. */
struct freed {
    uint64_t hash;
    int64_t index; /* -1: none */
};
static uint64_t hash_of_freed(const struct freed *freed)
{
    return freed->hash ^ freed->hash >> 32;
}
static bool is_freed_used(const struct freed *freed)
{
    return freed->hash != 0;
}
static bool is_same_freed(const struct freed *one, const struct freed *other)
{
    return one->hash == other->hash;
}
FT_TABLE_TYPE(freed_table, struct freed);
FT_TABLE(freed_table, struct freed, 64, hash_of_freed, is_freed_used, is_same_freed)
static struct freed_table freed_table;

static struct known *find(uint64_t handle, int64_t kind)
{
    if (!handle || !handles_make_room(&handles))
        return NULL;
    const struct known like = {handle, kind, FREED};
    struct known *known = handles_at(&handles, &like);
    if (!known->handle) {
        *known = like;
        handles.used++;
    }
    return known;
}

static uint64_t hash_of_members(const int32_t *members, int32_t size)
{
    uint64_t hash = (uint64_t)size + 1;
    for (int32_t i = 0; i < size; i++)
        hash = (hash ^ (uint64_t)members[i]) * UINT64_C(0xff51afd7ed558ccd) + 1;
    return hash | 1;
}

/* Takes `made`, whose members it keeps or frees. Its index; NOT_RECORDED without memory. */
static int64_t keep(struct ft_communicator made)
{
    const struct freed like = {hash_of_members(made.members, made.size), -1};
    struct freed *freed = freed_table.capacity ? freed_table_at(&freed_table, &like) : NULL;
    if (freed && freed->hash && freed->index >= 0) {
        const int64_t index = freed->index;
        struct ft_communicator *kept = &ft_communicators.kept[index];
        freed->index = kept->next_freed;
        free(made.members);
        return index;
    }
    if (!ft_reserve(&ft_communicators.kept, &capacity, (uint32_t)ft_communicators.length, sizeof made)) {
        free(made.members);
        return NOT_RECORDED;
    }
    made.number = ft_communicators.length;
    ft_communicators.kept[ft_communicators.length] = made;
    return ft_communicators.length++;
}

static int64_t register_communicator(MPI_Comm communicator)
{
    int is_inter = 0;
    if (PMPI_Comm_test_inter(communicator, &is_inter) != MPI_SUCCESS || is_inter)
        return NOT_RECORDED;
    struct ft_communicator made = {.next_freed = -1};
    MPI_Group group, world;
    PMPI_Comm_size(communicator, &made.size);
    PMPI_Comm_rank(communicator, &made.own_rank);
    made.members = malloc(2 * (size_t)made.size * sizeof *made.members);
    if (!made.members)
        return NOT_RECORDED;
    int *ranks = made.members + made.size;
    for (int i = 0; i < made.size; i++)
        ranks[i] = i;
    PMPI_Comm_group(communicator, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, made.size, ranks, world, made.members);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    for (int i = 0; i < made.size; i++)
        if (made.members[i] == MPI_UNDEFINED) { /* of another world: spawned */
            free(made.members);
            return NOT_RECORDED;
        }
    return keep(made);
}

static const struct ft_communicator *at(int64_t index)
{
    return index < 0 ? NULL : &ft_communicators.kept[index];
}

const struct ft_communicator *ft_communicator_of(MPI_Comm communicator)
{
    if (communicator == MPI_COMM_NULL)
        return NULL;
    struct known *known = find(FT_HANDLE(communicator), COMMUNICATOR);
    if (!known)
        return NULL;
    if (UNLIKELY(known->index == FREED))
        known->index = register_communicator(communicator);
    return at(known->index);
}

void ft_communicator_copied(MPI_Comm old, MPI_Comm copy)
{
    const struct ft_communicator *original = ft_communicator_of(old);
    struct known *known = find(FT_HANDLE(copy), COMMUNICATOR);
    if (!known)
        return;
    known->index = NOT_RECORDED;
    int32_t *members = original ? malloc((size_t)original->size * sizeof *members) : NULL;
    if (!members)
        return;
    memcpy(members, original->members, (size_t)original->size * sizeof *members);
    known->index = keep((struct ft_communicator){0, original->size, original->own_rank, members, -1});
}

void ft_communicator_freed(MPI_Comm communicator)
{
    struct known *known = find(FT_HANDLE(communicator), COMMUNICATOR);
    if (!known)
        return;
    if (known->index >= 0 && freed_table_make_room(&freed_table)) {
        struct ft_communicator *kept = &ft_communicators.kept[known->index];
        const struct freed like = {hash_of_members(kept->members, kept->size), -1};
        struct freed *freed = freed_table_at(&freed_table, &like);
        if (!freed->hash) {
            *freed = like;
            freed_table.used++;
        }
        kept->next_freed = freed->index;
        freed->index = known->index;
    }
    known->index = FREED;
}

static void made(uint64_t handle, int64_t kind, MPI_Comm communicator)
{
    struct known *known = find(handle, kind);
    const struct ft_communicator *of = ft_communicator_of(communicator);
    if (known) {
        known = find(handle, kind); /* may have moved */
        known->index = of ? of->number : NOT_RECORDED;
    }
}

static const struct ft_communicator *of(uint64_t handle, int64_t kind)
{
    const struct known *known = find(handle, kind);
    return known ? at(known->index) : NULL;
}

static void gone(uint64_t handle, int64_t kind)
{
    struct known *known = find(handle, kind);
    if (known)
        known->index = FREED;
}

void ft_window_made(MPI_Win window, MPI_Comm communicator)
{
    made(FT_HANDLE(window), WINDOW, communicator);
}

const struct ft_communicator *ft_communicator_of_window(MPI_Win window)
{
    return of(FT_HANDLE(window), WINDOW);
}

void ft_window_freed(MPI_Win window)
{
    gone(FT_HANDLE(window), WINDOW);
}

void ft_file_opened(MPI_File file, MPI_Comm communicator)
{
    made(FT_HANDLE(file), FILE_HANDLE, communicator);
}

const struct ft_communicator *ft_communicator_of_file(MPI_File file)
{
    return of(FT_HANDLE(file), FILE_HANDLE);
}

void ft_file_closed(MPI_File file)
{
    gone(FT_HANDLE(file), FILE_HANDLE);
}
