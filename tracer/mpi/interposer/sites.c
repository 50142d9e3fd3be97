/* Finding the caller behind the MPI library's own bindings takes unwinding once for each of their return addresses.
 * After that the distance from the wrapper's frame to the place of the outer return address is known, and what lies
 * there is taken if it is an address that unwinding found before. */
#define _GNU_SOURCE
#include "sites.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>
#include <unwind.h>

#include "foretrace/base/tables.h"

#define UNKNOWN (-1)
#define IN_LIBRARY (-2)
#define MOST_FRAMES 64

struct ft_sites ft_sites;
static uint32_t rows_capacity, text_capacity;

struct place {
    uintptr_t address; /* 0: free */
    int64_t site;      /* or IN_LIBRARY */
    ptrdiff_t outer;   /* IN_LIBRARY: distance from the wrapper's frame to the outer return address; 0: not known */
};
static uint64_t hash_of_place(const struct place *place)
{
    return ft_hash_pointer((const void *)(place->address << 4));
}
static bool is_place_used(const struct place *place)
{
    return place->address != 0;
}
static bool is_same_place(const struct place *one, const struct place *other)
{
    return one->address == other->address;
}
FT_TABLE_TYPE(places, struct place);
FT_TABLE(places, struct place, 256, hash_of_place, is_place_used, is_same_place)
static struct places places;

/* The object that holds an address. */
struct object {
    uintptr_t address;
    const char *path;
    int64_t offset; /* of the address: as the linker numbered them */
};

static int find_object(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    struct object *object = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || object->address < start || object->address >= start + segment->p_memsz)
            continue;
        object->path = info->dlpi_name;
        object->offset = (int64_t)(object->address - info->dlpi_addr);
        return 1;
    }
    return 0;
}

/* Libraries of Open MPI, MPICH and their bindings, and this one, by their file names. */
static bool is_mpi_library(const char *path)
{
    static const char *const names[] = {"libmpi", "libpmpi", "libopen-", "libforetrace_mpi", "mca_"};
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(name, names[i], strlen(names[i])))
            return true;
    return false;
}

static int64_t keep_text(const char *text, int64_t bytes)
{
    if (!ft_reserve(&ft_sites.text, &text_capacity, (uint32_t)(ft_sites.text_bytes + bytes), 1))
        return UNKNOWN;
    memcpy(ft_sites.text + ft_sites.text_bytes, text, (size_t)bytes);
    ft_sites.text_bytes += bytes;
    return ft_sites.text_bytes - bytes;
}

static int64_t add_site(const struct object *object)
{
    char own[4096];
    const char *path = object->path;
    if (!*path) { /* the program */
        const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
        own[length > 0 ? length : 0] = 0;
        path = own;
    }
    if (!ft_reserve(&ft_sites.rows, &rows_capacity, (uint32_t)ft_sites.length, sizeof *ft_sites.rows))
        return UNKNOWN;
    const int64_t bytes = (int64_t)strlen(path), first = keep_text(path, bytes);
    if (first < 0)
        return UNKNOWN;
    ft_sites.rows[ft_sites.length] = (struct ft_site_row){first, bytes, 0, 0, object->offset, 0};
    return ft_sites.length++;
}

static struct place *place_at(uintptr_t address)
{
    if (!places_make_room(&places))
        return NULL;
    const struct place like = {address, 0, 0};
    struct place *place = places_at(&places, &like);
    if (UNLIKELY(!place->address)) {
        struct object object = {address - 1, NULL, 0}; /* the call, which may be a function's last instruction */
        dl_iterate_phdr(find_object, &object);
        object.offset++;
        *place = like;
        place->site = !object.path ? UNKNOWN : is_mpi_library(object.path) ? IN_LIBRARY : add_site(&object);
        places.used++;
    }
    return place;
}

/* The nearest frame outside the MPI library, looked for from the inside out. */
struct search {
    uintptr_t inner; /* return address to begin at */
    bool has_begun;
    uintptr_t found, stored; /* return address, and where it is stored; 0: not found, not known */
};

static _Unwind_Reason_Code look_at(struct _Unwind_Context *context, void *argument)
{
    struct search *search = argument;
    const uintptr_t address = _Unwind_GetIP(context);
    if (address == search->inner)
        search->has_begun = true;
    if (!search->has_begun || !address)
        return _URC_NO_REASON;
    const struct place *place = place_at(address);
    if (!place || place->site == IN_LIBRARY)
        return _URC_NO_REASON;
    search->found = address;
    const uintptr_t stored = _Unwind_GetCFA(context) - sizeof address; /* x86-64: below the caller's frame */
    if (*(const uintptr_t *)stored == address)
        search->stored = stored;
    return _URC_END_OF_STACK;
}

int64_t ft_site_of(const void *returns_to, const void *frame)
{
    const uintptr_t address = (uintptr_t)returns_to;
    const struct place *place = place_at(address);
    if (!place)
        return UNKNOWN;
    if (LIKELY(place->site != IN_LIBRARY))
        return place->site;
    if (place->outer) {
        const uintptr_t outer = *(const uintptr_t *)((const char *)frame + place->outer);
        const struct place like = {outer, 0, 0}, *known = outer ? places_at(&places, &like) : NULL;
        if (known && known->address && known->site != IN_LIBRARY)
            return known->site;
    }
    struct search search = {address, false, 0, 0};
    _Unwind_Backtrace(look_at, &search);
    if (!search.found)
        return UNKNOWN;
    place = place_at(address); /* may have moved */
    if (place && search.stored)
        ((struct place *)place)->outer = (ptrdiff_t)(search.stored - (uintptr_t)frame);
    place = place_at(search.found);
    return place ? place->site : UNKNOWN;
}
