/* What memory is. See allocations.h.
 *
 * Invariants: `pending[i]` is touched by vcpu i alone; `sites`, `functions` and what hangs on them under `lock`, and
 * nothing in them is ever freed, since translated code holds its addresses.
 */
#define _GNU_SOURCE
#include "allocations.h"

#include "guest_registers.h"
#include "module_symbols.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_VCPUS 65536u
#define MAX_SITES (2 * FT_MAX_OBJECTS) /* a power of two */
#define MAX_MAPPINGS 256u
#define LEAST_VARIABLE_BYTES 64u
#define MAX_VARIABLES 1024u /* of all modules */
#define RESULT 255u /* of `result`: what the function returns */

enum kind { KIND_STATIC, KIND_HEAP, KIND_MAPPED, KIND_STACK }; /* ObjectKind of tracer/signature/data_flow_records.py */

/* How much a function allocates: the product of two arguments, or one of them alone. 255: none. */
struct allocator {
    const char *name;
    uint8_t size, times, releases, result; /* arguments; `result`: the one that says where the address is stored */
    enum kind kind;
};

static const struct allocator ALLOCATORS[] = {
    {"malloc", 0, 255, 255, RESULT, KIND_HEAP},
    {"calloc", 0, 1, 255, RESULT, KIND_HEAP},
    {"realloc", 1, 255, 0, RESULT, KIND_HEAP},
    {"reallocarray", 1, 2, 0, RESULT, KIND_HEAP},
    {"aligned_alloc", 1, 255, 255, RESULT, KIND_HEAP},
    {"memalign", 1, 255, 255, RESULT, KIND_HEAP},
    {"posix_memalign", 2, 255, 255, 0, KIND_HEAP},
    {"valloc", 0, 255, 255, RESULT, KIND_HEAP},
    {"free", 255, 255, 0, RESULT, KIND_HEAP},
    {"_Znwm", 0, 255, 255, RESULT, KIND_HEAP}, /* operator new, and new[] */
    {"_Znam", 0, 255, 255, RESULT, KIND_HEAP},
    {"_ZnwmRKSt9nothrow_t", 0, 255, 255, RESULT, KIND_HEAP},
    {"_ZnamRKSt9nothrow_t", 0, 255, 255, RESULT, KIND_HEAP},
    {"_ZnwmSt11align_val_t", 0, 255, 255, RESULT, KIND_HEAP},
    {"_ZnamSt11align_val_t", 0, 255, 255, RESULT, KIND_HEAP},
    {"mmap", 1, 255, 255, RESULT, KIND_MAPPED},
    {"mmap64", 1, 255, 255, RESULT, KIND_MAPPED},
};
#define NUM_ALLOCATORS (sizeof ALLOCATORS / sizeof *ALLOCATORS)

/* Numbers of system calls; -1 where there is none. */
static struct numbers {
    int64_t read, write, readv, writev, pread64, pwrite64, preadv, pwritev, recvfrom, sendto, mmap, munmap, mremap, brk;
} numbers;

struct function {
    uint64_t address; /* the guest's; 0: free */
    const struct allocator *allocator;
};

struct site {
    uint64_t address;   /* that calls return to; 0: free */
    bool is_blind;      /* its block was translated before that was known */
    uint32_t object[2]; /* by whether it is mapped; 0: none yet */
};

struct variable {
    uint64_t address, size_bytes;
    uint32_t object;
};

/* Variables of a module, told to the reader when its first block runs. */
struct module {
    struct variable *variables;
    uint32_t num_variables;
    atomic_bool was_told;
};

/* A call that has not returned. */
struct pending {
    const struct allocator *allocator; /* NULL: none */
    uint64_t returns_to, stack;        /* and the stack pointer then */
    uint64_t size_bytes, released, result_at;
};

static struct ft_cursor *const *cursors;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct function functions[4 * NUM_ALLOCATORS * 16];
static uint32_t num_functions;
static struct site sites[MAX_SITES];
static uint32_t num_sites, num_objects;
static struct ft_mapping mappings[MAX_MAPPINGS]; /* where translated code lies */
static uint32_t num_mappings;
static char seen_paths[MAX_MAPPINGS][64]; /* the ends of paths, and their base: modules whose symbols were read */
static uint32_t num_seen, num_variables;
static struct pending *pending[MAX_VCPUS];
static uint64_t calls[MAX_VCPUS][6]; /* arguments of the system call that a vcpu is in */
static uint64_t heap_end;
static uint64_t translated[1u << 16]; /* bits by hash of the addresses of translated blocks that are no sites */
static struct {
    uint64_t hash;
    uint32_t object;
} files[64];                  /* mapped files, by hash of their paths */
static _Atomic int registers; /* 0: not known whether they can be read; 1: they can; -1: they cannot */
static struct check {
    int64_t result;
    uint64_t arguments[2];
    bool is_due;
} check;

static uint64_t guest_base(void)
{
    return ft_writer_header()->guest_base;
}

/* ---- what is told ----------------------------------------------------------------------------------------------- */

static void tell(unsigned int vcpu, enum ft_memory kind, uint64_t address, uint64_t length, uint32_t object)
{
    struct ft_cursor *cursor = cursors[vcpu];
    if (!cursor || length > FT_ADDRESS_MASK || address > FT_ADDRESS_MASK)
        return;
    ft_write_begin(cursor, 2);
    cursor->next[0] = (uint64_t)FT_TAG_MEMORY << FT_TAG_SHIFT | (uint64_t)kind << FT_SIZE_SHIFT | address;
    cursor->next[1] = (uint64_t)object << FT_SIZE_SHIFT | length;
    cursor->next += 2;
}

struct object {
    enum kind kind;
    uint64_t site;
    const char *name;
};

static void fill_object(void *entry, uint32_t number, void *context)
{
    struct ft_side_object *side = entry;
    const struct object *object = context;
    side->entry.kind = FT_SIDE_OBJECT;
    side->object_id = number;
    side->kind = object->kind;
    side->site = object->site;
    side->name_bytes = (uint32_t)strlen(object->name);
    memcpy(side + 1, object->name, side->name_bytes);
}

/* A new object; 0 when there is no room. Under the lock. */
static uint32_t new_object(enum kind kind, uint64_t site, const char *name)
{
    struct object object = {kind, site, name};
    if (num_objects >= FT_MAX_OBJECTS)
        return 0;
    return ft_writer_append(sizeof(struct ft_side_object) + strlen(name), &num_objects, fill_object, &object);
}

/* The object of memory whose site is not known. Under the lock. */
static uint32_t common_object(enum kind kind)
{
    static uint32_t objects[KIND_STACK + 1];
    if (!objects[kind])
        objects[kind] = new_object(kind, 0, "");
    return objects[kind];
}

static void tell_common(unsigned int vcpu, enum kind kind, uint64_t address, uint64_t length)
{
    pthread_mutex_lock(&lock);
    const uint32_t object = common_object(kind);
    pthread_mutex_unlock(&lock);
    if (object && length)
        tell(vcpu, FT_MEMORY_ALLOCATED, address, length, object);
}

static uint64_t hash_of(uint64_t address)
{
    return address * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

/* ---- sites, and functions ------------------------------------------------------------------------------------------ */

/* Under the lock, as the next two. NULL when there is no room. */
static struct site *site_of(uint64_t address, bool add)
{
    uint64_t i = hash_of(address);
    struct site *site = &sites[i % MAX_SITES];
    while (site->address && site->address != address)
        site = &sites[++i % MAX_SITES];
    if (site->address)
        return site;
    if (!add || 2 * num_sites >= MAX_SITES)
        return NULL;
    num_sites++;
    site->address = address;
    const uint64_t bit = hash_of(address) % (64 * (sizeof translated / sizeof *translated));
    site->is_blind = translated[bit / 64] >> bit % 64 & 1;
    return site;
}

static const struct function *function_at(uint64_t address)
{
    for (uint32_t i = 0; i < num_functions; i++)
        if (functions[i].address == address)
            return &functions[i];
    return NULL;
}

static void take_symbol(const struct ft_symbol *symbol, void *context)
{
    struct module *module = context;
    const uint64_t address = symbol->address - guest_base();
    for (uint32_t i = 0; symbol->is_function && i < NUM_ALLOCATORS; i++)
        if (strcmp(ALLOCATORS[i].name, symbol->name) == 0 && !function_at(address) &&
            num_functions < sizeof functions / sizeof *functions)
            functions[num_functions++] = (struct function){address, &ALLOCATORS[i]};
    if (symbol->is_function || symbol->size_bytes < LEAST_VARIABLE_BYTES || !symbol->name[0] || !module->variables ||
        num_variables >= MAX_VARIABLES)
        return;
    for (uint32_t i = 0; i < module->num_variables; i++)
        if (module->variables[i].address == address)
            return; /* another name of it */
    const uint32_t object = new_object(KIND_STATIC, 0, symbol->name);
    if (object) {
        num_variables++;
        module->variables[module->num_variables++] = (struct variable){address, symbol->size_bytes, object};
    }
}

/* ---- what runs with blocks --------------------------------------------------------------------------------------------- */

/* Makes sure of the registers, behind a system call; and finds the stack. */
FT_WITH_REGISTERS(system_call_is_over);
void system_call_is_over_with(unsigned int vcpu, void *context, const void *env)
{
    const struct check *expected = context;
    struct ft_mapping stack;
    if (atomic_load(&registers) != 0)
        return;
    const bool are_good = env && ft_registers_check(env, expected->result, expected->arguments);
    atomic_store(&registers, are_good ? 1 : -1);
    if (are_good && ft_mapping_of(ft_register_stack(env) + guest_base(), &stack))
        tell_common(vcpu, KIND_STACK, stack.first - guest_base(), stack.end - stack.first);
}

/* The first block of a module. */
static void module_runs(unsigned int vcpu, void *context)
{
    struct module *module = context;
    if (atomic_exchange(&module->was_told, true))
        return;
    for (uint32_t i = 0; i < module->num_variables; i++)
        tell(vcpu, FT_MEMORY_ALLOCATED, module->variables[i].address, module->variables[i].size_bytes,
             module->variables[i].object);
}

FT_WITH_REGISTERS(allocator_runs);
void allocator_runs_with(unsigned int vcpu, void *context, const void *env)
{
    const struct allocator *allocator = context;
    if (atomic_load(&registers) != 1 || vcpu >= MAX_VCPUS)
        return;
    if (!pending[vcpu] && !(pending[vcpu] = calloc(1, sizeof **pending)))
        return;
    struct pending *call = pending[vcpu];
    uint64_t stack;
    const uint64_t returns_to = ft_register_return(env, guest_base(), &stack);
    if (call->allocator && stack < call->stack)
        return; /* it is part of another one */
    call->allocator = NULL;
    const uint64_t released = allocator->releases == 255 ? 0 : ft_register_argument(env, allocator->releases);
    if (allocator->size == 255) {
        if (released)
            tell(vcpu, FT_MEMORY_RELEASED, released, 0, 0);
        return;
    }
    uint64_t size_bytes = ft_register_argument(env, allocator->size);
    if (allocator->times != 255 &&
        __builtin_mul_overflow(size_bytes, ft_register_argument(env, allocator->times), &size_bytes))
        return;
    if (allocator->kind == KIND_MAPPED && !(ft_register_argument(env, 3) & MAP_ANONYMOUS))
        return; /* a file: its system call says which */
    pthread_mutex_lock(&lock);
    const struct site *site = site_of(returns_to, true);
    const bool is_seen = site && !site->is_blind;
    pthread_mutex_unlock(&lock);
    if (is_seen)
        *call = (struct pending){
            allocator,  returns_to, stack,
            size_bytes, released,   allocator->result == RESULT ? 0 : ft_register_argument(env, allocator->result)};
}

static uint32_t object_at(struct site *site, enum kind kind)
{
    const bool is_mapped = kind == KIND_MAPPED;
    pthread_mutex_lock(&lock);
    if (!site->object[is_mapped])
        site->object[is_mapped] = new_object(kind, site->address, "");
    const uint32_t object = site->object[is_mapped] ? site->object[is_mapped] : common_object(kind);
    pthread_mutex_unlock(&lock);
    return object;
}

/* A block that is behind some call of an allocator. */
FT_WITH_REGISTERS(behind_call_runs);
void behind_call_runs_with(unsigned int vcpu, void *context, const void *env)
{
    struct site *site = context;
    struct pending *call = vcpu < MAX_VCPUS ? pending[vcpu] : NULL;
    if (!call || !call->allocator || call->returns_to != site->address || ft_register_stack(env) != call->stack)
        return;
    const struct allocator *allocator = call->allocator;
    uint64_t address = ft_register_result(env);
    call->allocator = NULL;
    if (allocator->result != RESULT) { /* it returns 0 or an error's number */
        if ((uint32_t)address)
            return;
        memcpy(&address, (const void *)(uintptr_t)(call->result_at + guest_base()), sizeof address);
    }
    if (call->released && (address || !call->size_bytes) && address != call->released)
        tell(vcpu, FT_MEMORY_RELEASED, call->released, 0, 0);
    if (!address || address > FT_ADDRESS_MASK || !call->size_bytes)
        return;
    const uint32_t object = object_at(site, allocator->kind);
    if (object)
        tell(vcpu, FT_MEMORY_ALLOCATED, address, call->size_bytes, object);
}

/* ---- translating ------------------------------------------------------------------------------------------------ */

/* Reads the symbols of a module that was not seen before. NULL if there is nothing to tell of it. */
static struct module *module_of(const struct ft_mapping *mapping)
{
    char key[sizeof *seen_paths];
    const size_t length = strlen(mapping->path), kept = length < 40 ? length : 40;
    snprintf(key, sizeof key, "%s %llx", mapping->path + length - kept, (unsigned long long)mapping->base);
    for (uint32_t i = 0; i < num_seen; i++)
        if (strcmp(seen_paths[i], key) == 0)
            return NULL;
    if (!length || num_seen == MAX_MAPPINGS)
        return NULL;
    memcpy(seen_paths[num_seen++], key, sizeof key);
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return NULL;
    module->variables = calloc(MAX_VARIABLES, sizeof *module->variables);
    ft_symbols_of(mapping, take_symbol, module);
    return module;
}

static bool is_known(uint64_t bytes)
{
    for (uint32_t i = num_mappings; i-- > 0;)
        if (bytes - mappings[i].first < mappings[i].end - mappings[i].first)
            return true;
    return false;
}

void ft_allocations_translate(struct qemu_plugin_tb *tb, uint64_t address, const void *bytes)
{
    struct module *module = NULL;
    if (!ft_writer_header()->follows_memory)
        return;
    if (check.is_due && atomic_load(&registers) == 0)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, system_call_is_over, QEMU_PLUGIN_CB_NO_REGS, &check);
    check.is_due = false;
    pthread_mutex_lock(&lock);
    if (!is_known((uintptr_t)bytes) && num_mappings < MAX_MAPPINGS &&
        ft_mapping_of((uintptr_t)bytes, &mappings[num_mappings]))
        module = module_of(&mappings[num_mappings++]);
    const struct function *function = function_at(address);
    struct site *site = site_of(address, false);
    const uint64_t bit = hash_of(address) % (64 * (sizeof translated / sizeof *translated));
    if (site)
        site->is_blind = false;
    else
        translated[bit / 64] |= UINT64_C(1) << bit % 64;
    pthread_mutex_unlock(&lock);
    if (module)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, module_runs, QEMU_PLUGIN_CB_NO_REGS, module);
    if (site)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, behind_call_runs, QEMU_PLUGIN_CB_NO_REGS, site);
    if (function)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, allocator_runs, QEMU_PLUGIN_CB_NO_REGS, (void *)function->allocator);
}

void ft_allocations_forget_mappings(void)
{
    pthread_mutex_lock(&lock);
    num_mappings = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- system calls ------------------------------------------------------------------------------------------------------- */

void ft_allocations_begin(const char *target, struct ft_cursor *const *of_vcpus)
{
    cursors = of_vcpus;
    if (strcmp(target, "x86_64") == 0)
        numbers = (struct numbers){0, 1, 19, 20, 17, 18, 295, 296, 45, 44, 9, 11, 25, 12};
    else /* Linux's common table of newer architectures */
        numbers = (struct numbers){63, 64, 65, 66, 67, 68, 69, 70, 207, 206, 222, 215, 216, 214};
    if (!ft_registers_begin(target))
        atomic_store(&registers, -1);
}

void ft_allocations_call(unsigned int vcpu, int64_t number, const uint64_t arguments[6])
{
    (void)number;
    if (vcpu < MAX_VCPUS)
        memcpy(calls[vcpu], arguments, sizeof calls[vcpu]);
}

/* Several buffers, as far as the system filled or read them. */
static void tell_vector(unsigned int vcpu, enum ft_memory kind, uint64_t address, uint64_t number, uint64_t left)
{
    const struct iovec *vector = (const void *)(uintptr_t)(address + guest_base());
    for (uint64_t i = 0; i < number && left > 0; i++) {
        const uint64_t length = vector[i].iov_len < left ? vector[i].iov_len : left;
        if (length)
            tell(vcpu, kind, (uintptr_t)vector[i].iov_base, length, 0);
        left -= length;
    }
}

static void mapped(unsigned int vcpu, const uint64_t *arguments, uint64_t address)
{
    const int file = (int)arguments[4];
    const uint64_t flags = arguments[3];
    char link[64], path[1024] = "";
    if (flags & MAP_FIXED)
        tell(vcpu, FT_MEMORY_RELEASED, address, arguments[1], 0);
    if (flags & MAP_DENYWRITE || (flags & MAP_FIXED && flags & MAP_ANONYMOUS))
        return; /* the dynamic loader's: static variables */
    if (flags & MAP_ANONYMOUS) {
        tell_common(vcpu, flags & MAP_STACK ? KIND_STACK : KIND_MAPPED, address, arguments[1]);
        return;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *name = strrchr(path, '/');
    uint64_t hash = 1;
    for (const char *c = path; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i + 1 < sizeof files / sizeof *files && files[i].object && files[i].hash != hash)
        i++;
    if (!files[i].object || files[i].hash != hash) { /* more than there is room for are new each time */
        files[i].hash = hash;
        files[i].object = new_object(KIND_MAPPED, 0, name ? name + 1 : path);
    }
    const uint32_t object = files[i].object;
    pthread_mutex_unlock(&lock);
    if (object)
        tell(vcpu, FT_MEMORY_ALLOCATED, address, arguments[1], object);
}

static void moved(unsigned int vcpu, const uint64_t *arguments, uint64_t address)
{
    const uint64_t before = arguments[0], length = arguments[1], now = arguments[2];
    uint64_t same = length < now ? length : now;
    same = same < FT_MAX_SYSTEM_BYTES ? same : FT_MAX_SYSTEM_BYTES;
    if (address == before) {
        if (now > length)
            tell_common(vcpu, KIND_MAPPED, address + length, now - length);
        else if (now < length)
            tell(vcpu, FT_MEMORY_RELEASED, address + now, length - now, 0);
        return;
    }
    tell(vcpu, FT_MEMORY_READ, before, same, 0);
    if (length)
        tell(vcpu, FT_MEMORY_RELEASED, before, length, 0);
    tell_common(vcpu, KIND_MAPPED, address, now);
    tell(vcpu, FT_MEMORY_WRITTEN, address, same, 0);
}

void ft_allocations_returned(unsigned int vcpu, int64_t number, int64_t result)
{
    if (vcpu >= MAX_VCPUS || !ft_writer_header()->follows_memory || (result < 0 && result > -4096))
        return;
    const uint64_t *arguments = calls[vcpu], length = (uint64_t)result;
    if (atomic_load(&registers) == 0)
        check = (struct check){result, {arguments[0], arguments[1]}, true};
    if (number == numbers.read || number == numbers.pread64 || number == numbers.recvfrom) {
        if (length && length <= FT_MAX_SYSTEM_BYTES)
            tell(vcpu, FT_MEMORY_WRITTEN, arguments[1], length, 0);
    } else if (number == numbers.write || number == numbers.pwrite64 || number == numbers.sendto) {
        if (length && length <= FT_MAX_SYSTEM_BYTES)
            tell(vcpu, FT_MEMORY_READ, arguments[1], length, 0);
    } else if (number == numbers.readv || number == numbers.preadv) {
        tell_vector(vcpu, FT_MEMORY_WRITTEN, arguments[1], arguments[2], length);
    } else if (number == numbers.writev || number == numbers.pwritev) {
        tell_vector(vcpu, FT_MEMORY_READ, arguments[1], arguments[2], length);
    } else if (number == numbers.mmap) {
        mapped(vcpu, arguments, length);
    } else if (number == numbers.munmap) {
        if (arguments[1])
            tell(vcpu, FT_MEMORY_RELEASED, arguments[0], arguments[1], 0);
    } else if (number == numbers.mremap) {
        moved(vcpu, arguments, length);
    } else if (number == numbers.brk) {
        if (heap_end && length > heap_end)
            tell_common(vcpu, KIND_HEAP, heap_end, length - heap_end);
        else if (length < heap_end)
            tell(vcpu, FT_MEMORY_RELEASED, length, heap_end - length, 0);
        heap_end = length;
    }
}
